//! Brings publication, identities and indexes in line with a spec: reads [`facts`], holds them against what the spec needs
//! ([`needs`]), and runs what may be run.

mod column_lists;
mod ensure;
mod facts;
mod findings;
mod needs;

pub use facts::{Facts, Publication, Relation, Server};
pub use findings::{Finding, findings};
pub use needs::{Needs, TableNeeds};

use async_trait::async_trait;
use millstream_core::{CaptureProvisioning, CoverageReport, Result, SourceError, SourceSpec};

use crate::Connections;

/// What we may change in the database by ourselves (P14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manage {
    /// Create the publication and add tables to it. Never takes one out.
    pub publication: bool,
    /// Create the replication slot.
    pub slot: bool,
    /// Set replica identities, and make the unique indexes that they use.
    pub identity: bool,
    /// Make missing indexes on link columns.
    pub indexes: bool,
    /// Publish of the tables that are added only what is read of them: keys, links and identities, where server and identity allow
    /// (15 and later, no partitioned table, no identity of whole rows). The log that is sent is smaller by far. The price: should
    /// somebody later set another identity, the server refuses the application's updates and deletes.
    pub column_lists: bool,
}

impl Manage {
    /// Everything that is ours to decide; no column lists.
    pub const ALL: Self = Self { publication: true, slot: true, identity: true, indexes: true, column_lists: false };
    /// Nothing.
    pub const NONE: Self =
        Self { publication: false, slot: false, identity: false, indexes: false, column_lists: false };

    /// May identities be set as well.
    #[must_use]
    pub fn with_identity(mut self, identity: bool) -> Self {
        self.identity = identity;
        self
    }

    /// May indexes be made as well.
    #[must_use]
    pub fn with_indexes(mut self, indexes: bool) -> Self {
        self.indexes = indexes;
        self
    }

    /// Publish keys and links only.
    #[must_use]
    pub fn with_column_lists(mut self, column_lists: bool) -> Self {
        self.column_lists = column_lists;
        self
    }

    /// May the publication be made and extended.
    #[must_use]
    pub fn with_publication(mut self, publication: bool) -> Self {
        self.publication = publication;
        self
    }

    /// May the slot be made.
    #[must_use]
    pub fn with_slot(mut self, slot: bool) -> Self {
        self.slot = slot;
        self
    }
}

/// Publication and slot: nothing that changes how the application's own tables behave.
impl Default for Manage {
    fn default() -> Self {
        Self { publication: true, slot: true, ..Self::NONE }
    }
}

/// Provisions logical replication: publication membership, replica identities, indexes on link columns.
#[derive(Clone)]
pub struct PostgresProvisioning {
    connections: Connections,
    publication: String,
    slot: String,
    manage: Manage,
}

impl PostgresProvisioning {
    /// For the database (a primary) that `connections` lead to.
    pub fn new(
        connections: Connections,
        publication: impl Into<String>,
        slot: impl Into<String>,
        manage: Manage,
    ) -> Self {
        Self { connections, publication: publication.into(), slot: slot.into(), manage }
    }

    /// What is there now. One query for the server, one for the publication, one for all tables.
    ///
    /// # Errors
    /// When the server can't be asked.
    pub async fn facts(&self, needs: &Needs) -> Result<Facts> {
        let mut lease = self.connections.get().await?;
        let facts = Facts::read(&mut lease, &self.publication, &self.slot, needs).await?;
        lease.keep();
        Ok(facts)
    }

    /// What is wrong with these facts, in the order in which to mend it.
    pub fn findings(&self, facts: &Facts, needs: &Needs) -> Vec<Finding> {
        findings(facts, needs, &self.publication, self.manage)
    }

    /// Inspects, runs what is manageable, and inspects again: facts and what is left.
    ///
    /// # Errors
    /// When the server can't be asked or refuses a statement; those that ran before stay.
    pub async fn ensure(&self, needs: &Needs) -> Result<(Facts, Vec<Finding>)> {
        let facts = self.facts(needs).await?;
        let found = self.findings(&facts, needs);
        let statements: Vec<&str> = found
            .iter()
            .flat_map(|finding| &finding.remedies)
            .filter(|remedy| remedy.manageable)
            .map(|remedy| remedy.statement.as_str())
            .collect();
        if statements.is_empty() {
            return Ok((facts, found));
        }
        let mut lease = self.connections.get().await?;
        ensure::run(&mut lease, &statements).await?;
        lease.keep();
        let facts = self.facts(needs).await?;
        let found = self.findings(&facts, needs);
        Ok((facts, found))
    }

    /// The report of facts and findings.
    pub fn report(&self, needs: &Needs, found: &[Finding]) -> CoverageReport {
        let mut report = CoverageReport::default();
        for need in needs.tables() {
            let broken = found.iter().any(|finding| !finding.advice && finding.table.as_ref() == Some(&need.table));
            if broken { &mut report.missing } else { &mut report.present }.push(need.table.clone());
        }
        for finding in found {
            report.remediation.extend(finding.remedies.iter().cloned());
            if finding.remedies.is_empty() && !finding.advice {
                report.blockers.push(finding.reason.clone());
            }
        }
        report
    }

    /// The one error that says all that stands in the way, with every statement that somebody must run; `None` when coverage is
    /// complete. What we may mend ourselves is named only when nothing else is left.
    pub fn refusal(&self, found: &[Finding]) -> Option<SourceError> {
        let in_the_way = || found.iter().filter(|finding| finding.is_in_the_way());
        let left: Vec<&Finding> = match in_the_way().next() {
            Some(_) => in_the_way().collect(),
            None => found.iter().filter(|finding| !finding.advice).collect(),
        };
        if left.is_empty() {
            return None;
        }
        let reasons: Vec<&str> = left.iter().map(|finding| finding.reason.as_str()).collect();
        let mends: Vec<String> = left.iter().map(|finding| finding.mend()).filter(|mend| !mend.is_empty()).collect();
        let error = SourceError::setup(reasons.join("; "));
        Some(if mends.is_empty() { error } else { error.with_remedy(mends.join(" ")) })
    }
}

#[async_trait]
impl CaptureProvisioning for PostgresProvisioning {
    async fn inspect_coverage(&self, spec: &SourceSpec) -> Result<CoverageReport> {
        let needs = Needs::of(spec);
        let facts = self.facts(&needs).await?;
        Ok(self.report(&needs, &self.findings(&facts, &needs)))
    }

    async fn ensure_coverage(&self, spec: &SourceSpec) -> Result<CoverageReport> {
        let needs = Needs::of(spec);
        let (_, found) = self.ensure(&needs).await?;
        Ok(self.report(&needs, &found))
    }
}
