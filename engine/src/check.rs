//! Holds a Postgres database against what an engine needs of it, for people to read before they start one.

mod limits;

use std::collections::BTreeSet;

use millstream_actors::Settings;
use millstream_core::{Diagnostic, Result, Severity};
use millstream_document::DocumentBuilder;
use millstream_model::QualifiedTable;
use millstream_postgres::provision::{self, Facts, Needs};
use millstream_postgres::slot::Slot;
use millstream_postgres::{Connections, PostgresProvisioning};

use self::limits::Limits;
use crate::finding::Finding;
use crate::postgres::PostgresSource;

/// What both a schema's check and that of the log say of a table: one mistake, told once, where the schema makes it.
const TABLE_CODES: [&str; 3] = ["missing-table", "unsupported-table", "no-primary-key"];

impl Finding {
    fn with_statement(mut self, statement: impl Into<String>) -> Self {
        self.statements.push(statement.into());
        self
    }
}

impl PostgresSource {
    /// All that is not as an engine with these settings needs it: each index against the catalog, then the log's coverage, then
    /// the connections. Changes nothing. Empty: an engine would start.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn check(&self, settings: &Settings) -> Result<Vec<Finding>> {
        let documents = self.documents(1);
        let mut diagnostics = Vec::new();
        for index in self.spec().indexes() {
            let found = documents.inspect(&index.name).await?;
            diagnostics.extend(found.into_iter().map(|found| self.spec().located(found)));
        }
        let coverage = self.inspect(false).await?;
        let is_told = |code: &str, table: Option<&QualifiedTable>| {
            TABLE_CODES.contains(&code)
                && diagnostics.iter().any(|found| TABLE_CODES.contains(&found.code) && found.table.as_ref() == table)
        };
        let coverage: Vec<Covered> =
            coverage.into_iter().filter(|found| !is_told(found.finding.code, found.table.as_ref())).collect();
        // What the engine makes by itself is told once, with the statement that it will run.
        let is_made = |found: &Diagnostic| {
            let made = |covered: &Covered| covered.finding.code == found.code && covered.table == found.table;
            found.code == "unindexed-link" && coverage.iter().any(made)
        };
        // One grant mends all columns of a table that can't be read: said at the first.
        let mut grants = BTreeSet::new();
        let mut is_new = |found: &Diagnostic| {
            found.code != "unreadable" || grants.insert((found.index.clone(), found.remedy.clone()))
        };
        let diagnostics = diagnostics.iter().filter(|found| !is_made(found) && is_new(found)).cloned();
        let mut found: Vec<Finding> = diagnostics.map(Finding::from).collect();
        found.extend(coverage.into_iter().map(|covered| covered.finding));
        found.extend(self.connections(settings).await?);
        Ok(found)
    }

    /// What the log's coverage lacks, in the order in which to mend it. Changes nothing.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn coverage(&self) -> Result<Vec<Finding>> {
        Ok(self.inspect(false).await?.into_iter().map(|covered| covered.finding).collect())
    }

    /// Mends what may be mended, and tells what is left.
    ///
    /// # Errors
    /// When the database can't be asked or refuses a statement; those that ran before stay.
    pub async fn ensure_coverage(&self) -> Result<Vec<Finding>> {
        Ok(self.inspect(true).await?.into_iter().map(|covered| covered.finding).collect())
    }

    async fn inspect(&self, ensure: bool) -> Result<Vec<Covered>> {
        let provisioning: PostgresProvisioning = self.provisioning();
        let needs = Needs::of(self.spec());
        let mut facts = provisioning.facts(&needs).await?;
        // A column that is not there is the schema's mistake, and told there.
        let needs = needs.known_to(&facts);
        let mut found = provisioning.findings(&facts, &needs);
        if ensure {
            (facts, found) = provisioning.ensure(&needs).await?;
        }
        let mut findings: Vec<Covered> = found.into_iter().map(|found| self.covered(found)).collect();
        let slot = self.slot(&facts).await?;
        findings.extend(slot.map(|finding| Covered { table: None, finding }));
        Ok(findings)
    }

    fn covered(&self, found: provision::Finding) -> Covered {
        let manageable = !found.remedies.is_empty() && found.remedies.iter().all(|remedy| remedy.manageable);
        // Advice that asks for nothing is a note.
        let severity = match found.advice {
            _ if manageable => Severity::Note,
            true if found.remedies.is_empty() => Severity::Note,
            true => Severity::Warning,
            false => Severity::Error,
        };
        let location = found.table.as_ref().and_then(|table| self.spec().location_of(table));
        let finding = Finding {
            location,
            statements: found.remedies.into_iter().map(|remedy| remedy.statement).collect(),
            remedy: found.hint,
            lacks_right: found.lacks_right,
            ..Finding::new(severity, found.code, found.reason)
        };
        Covered { table: found.table, finding }
    }

    /// A slot that is not there (made last, since the server keeps its log from then on), or that somebody holds.
    async fn slot(&self, facts: &Facts) -> Result<Option<Finding>> {
        let capture = self.capture_settings();
        let slot = &capture.slot;
        if facts.server.has_slot {
            return self.holder(slot).await;
        }
        let message = format!("the replication slot is not there (slot={slot})");
        let statement = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
        let severity = if capture.manage.slot { Severity::Note } else { Severity::Error };
        Ok(Some(Finding::new(severity, "slot", message).with_statement(statement)))
    }

    /// Another engine waits for the holder, or fails: that is for people to know, and no fault of the set-up.
    async fn holder(&self, slot: &str) -> Result<Option<Finding>> {
        let mut lease = Connections::new(self.postgres_settings().clone(), 1).get().await?;
        let held = Slot::read(&mut lease, slot).await?.and_then(|slot| slot.held());
        Ok(held.map(|held| {
            let remedy = "an engine that starts waits for it as `slot_wait` says";
            Finding::new(Severity::Note, "slot-held", held.message()).with_remedy(remedy)
        }))
    }

    /// Whether the server gives as many connections as the engine takes.
    async fn connections(&self, settings: &Settings) -> Result<Vec<Finding>> {
        let readers = settings.builders + settings.resolvers + 1;
        let capture = self.capture_settings();
        // One for the capture's questions, one more while it inspects; the one for replication is counted apart.
        Ok(match &capture.read {
            Some(read) => {
                let mut found = Limits::read(self.postgres_settings()).await?.findings(2, Some(&capture.slot));
                found.extend(Limits::read(read).await?.findings(readers, None));
                found
            }
            None => Limits::read(self.postgres_settings()).await?.findings(readers + 2, Some(&capture.slot)),
        })
    }
}

/// A finding about the log's coverage, and the schemas' table that it concerns.
struct Covered {
    table: Option<QualifiedTable>,
    finding: Finding,
}
