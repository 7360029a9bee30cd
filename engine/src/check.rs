//! Holds a Postgres database against what an engine needs of it, for people to read before they start one.

use std::collections::BTreeSet;

use millstream_actors::Settings;
use millstream_core::{Diagnostic, Result, Severity};
use millstream_document::DocumentBuilder;
use millstream_model::{IndexName, QualifiedTable};
use millstream_postgres::provision::{Facts, Needs};
use millstream_postgres::{Connections, PostgresProvisioning, PostgresSettings, classify, quote, sqlx};
use serde::Serialize;

use crate::postgres::PostgresSource;

/// Something about a source that is not as an engine needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is. A warning that is [`manageable`](Self::manageable) is mended by the engine itself when it starts.
    pub severity: Severity,
    /// A fixed word for the sort of finding, such as `missing-column`, `coverage`, `connections`.
    pub code: &'static str,
    /// The index that it is about; `None` for the source as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexName>,
    /// Where in the index's schema; empty for the index or the source as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do: a line to write or a statement to run; empty when there is nothing to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// Statements that mend it, in the order to run them, without closing semicolons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    /// True when the engine mends it by itself, under its settings and rights.
    pub manageable: bool,
}

impl Finding {
    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        let (message, path, remedy) = (message.into(), String::new(), String::new());
        Self { severity, code, index: None, path, message, remedy, statements: Vec::new(), manageable: false }
    }

    fn with_statement(mut self, statement: impl Into<String>) -> Self {
        self.statements.push(statement.into());
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl From<Diagnostic> for Finding {
    fn from(diagnostic: Diagnostic) -> Self {
        let Diagnostic { severity, code, index, path, message, remedy, .. } = diagnostic;
        let (index, statements) = (Some(index), Vec::new());
        Self { severity, code, index, path, message, remedy, statements, manageable: false }
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
            diagnostics.extend(documents.inspect(&index.name).await?);
        }
        let (coverage, indexed) = self.inspect(false).await?;
        // What the engine makes by itself is told once, with the statement that it will run.
        let is_told = |found: &Diagnostic| {
            found.code == "unindexed-link" && found.table.as_ref().is_some_and(|table| indexed.contains(table))
        };
        // One grant mends all columns of a table that can't be read: said at the first.
        let mut grants = BTreeSet::new();
        let mut is_new = |found: &Diagnostic| {
            found.code != "unreadable" || grants.insert((found.index.clone(), found.remedy.clone()))
        };
        let mut found: Vec<Finding> =
            diagnostics.into_iter().filter(|found| !is_told(found) && is_new(found)).map(Finding::from).collect();
        found.extend(coverage);
        found.extend(self.connections(settings).await?);
        Ok(found)
    }

    /// What the log's coverage lacks, in the order in which to mend it. Changes nothing.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn coverage(&self) -> Result<Vec<Finding>> {
        Ok(self.inspect(false).await?.0)
    }

    /// Mends what may be mended, and tells what is left.
    ///
    /// # Errors
    /// When the database can't be asked or refuses a statement; those that ran before stay.
    pub async fn ensure_coverage(&self) -> Result<Vec<Finding>> {
        Ok(self.inspect(true).await?.0)
    }

    /// The findings, and the tables that lack an index which the engine makes.
    async fn inspect(&self, ensure: bool) -> Result<(Vec<Finding>, BTreeSet<QualifiedTable>)> {
        let provisioning: PostgresProvisioning = self.provisioning();
        let needs = Needs::of(self.spec());
        let (facts, found) = if ensure {
            provisioning.ensure(&needs).await?
        } else {
            let facts = provisioning.facts(&needs).await?;
            let found = provisioning.findings(&facts, &needs);
            (facts, found)
        };
        let indexed = found.iter().filter(|found| found.advice).filter_map(|found| found.table.clone()).collect();
        let mut findings: Vec<Finding> = found
            .into_iter()
            .map(|found| {
                let manageable = !found.remedies.is_empty() && found.remedies.iter().all(|remedy| remedy.manageable);
                let severity = if found.advice || manageable { Severity::Warning } else { Severity::Error };
                let statements = found.remedies.into_iter().map(|remedy| remedy.statement).collect();
                Finding { statements, manageable, ..Finding::new(severity, "coverage", found.reason) }
            })
            .collect();
        findings.extend(self.slot(&facts));
        Ok((findings, indexed))
    }

    /// A slot that is not there; made last, since the server keeps its log from then on.
    fn slot(&self, facts: &Facts) -> Option<Finding> {
        let capture = self.capture_settings();
        if facts.server.has_slot {
            return None;
        }
        let slot = &capture.slot;
        let message = format!("the replication slot is not there (slot={slot})");
        if capture.manage.slot {
            let finding = Finding::new(Severity::Warning, "slot", message);
            return Some(Finding { manageable: true, ..finding.with_remedy("the engine makes it when it starts") });
        }
        let statement = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
        Some(Finding::new(Severity::Error, "slot", message).with_statement(statement))
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

/// How many connections a server gives us.
#[derive(Debug)]
struct Limits {
    role: String,
    database: String,
    /// Of the server, less what is kept for superusers.
    server_max: i64,
    reserved: i64,
    server_used: i64,
    /// Below 0: none.
    role_max: i64,
    role_used: i64,
    database_max: i64,
    senders_max: i64,
    senders_used: i64,
}

/// Connections of our own name and role are not counted: they are of an engine that runs already.
const LIMITS: &str = "with other as (select * from pg_stat_activity a where a.pid <> pg_backend_pid() \
     and not (a.application_name = current_setting('application_name') and a.usename = current_user)) \
     select current_user::text, current_database()::text, \
     current_setting('max_connections')::int8, current_setting('superuser_reserved_connections')::int8 \
       + coalesce(current_setting('reserved_connections', true), '0')::int8, \
     (select count(*) from other where backend_type = 'client backend'), \
     (select rolconnlimit::int8 from pg_roles where rolname = current_user), \
     (select count(*) from other where backend_type = 'client backend' and usename = current_user), \
     (select datconnlimit::int8 from pg_database where datname = current_database()), \
     current_setting('max_wal_senders')::int8, \
     (select count(*) from other where backend_type = 'walsender')";

type LimitsRow = (String, String, i64, i64, i64, i64, i64, i64, i64, i64);

impl Limits {
    async fn read(postgres: &PostgresSettings) -> Result<Self> {
        let mut lease = Connections::new(postgres.clone(), 1).get().await?;
        let row: LimitsRow = sqlx::query_as(LIMITS)
            .fetch_one(&mut *lease)
            .await
            .map_err(|error| classify("can't ask for the limits on connections", error))?;
        let (role, database, all, reserved, server_used, role_max, role_used, database_max, senders_max, senders_used) =
            row;
        let server_max = all - reserved;
        Ok(Self {
            role,
            database,
            server_max,
            reserved,
            server_used,
            role_max,
            role_used,
            database_max,
            senders_max,
            senders_used,
        })
    }

    /// `slot`: a connection for replication is taken as well.
    fn findings(&self, needed: usize, slot: Option<&str>) -> Vec<Finding> {
        let needed = i64::try_from(needed).unwrap_or(i64::MAX);
        let mut found = Vec::new();
        if (0..needed).contains(&self.role_max) {
            let message = format!(
                "the role may not open as many connections as the engine takes (role={}, limit={}, needed={needed})",
                self.role, self.role_max
            );
            let statement = format!("ALTER ROLE {} CONNECTION LIMIT {needed}", quote::ident(&self.role));
            found.push(Finding::new(Severity::Error, "connections", message).with_statement(statement));
        } else if self.role_max >= 0 && self.role_max - self.role_used < needed {
            let message = format!(
                "the role's other connections leave too few (role={}, limit={}, in use={}, needed={needed})",
                self.role, self.role_max, self.role_used
            );
            let statement =
                format!("ALTER ROLE {} CONNECTION LIMIT {}", quote::ident(&self.role), self.role_used + needed);
            found.push(Finding::new(Severity::Warning, "connections", message).with_statement(statement));
        }
        if (0..needed).contains(&self.database_max) {
            let message = format!(
                "the database gives fewer connections than the engine takes (database={}, limit={}, needed={needed})",
                self.database, self.database_max
            );
            let statement = format!("ALTER DATABASE {} CONNECTION LIMIT {needed}", quote::ident(&self.database));
            found.push(Finding::new(Severity::Error, "connections", message).with_statement(statement));
        }
        if self.server_max - self.server_used < needed {
            let message = format!(
                "the server has too few connections left (max_connections less reserved={}, in use={}, needed={needed})",
                self.server_max, self.server_used
            );
            let severity = if self.server_max < needed { Severity::Error } else { Severity::Warning };
            let enough = self.server_used + needed + self.reserved;
            let statement = format!("ALTER SYSTEM SET max_connections = {enough}");
            let finding = Finding::new(severity, "connections", message).with_statement(statement);
            found.push(finding.with_remedy("then restart the server; or take fewer builders and resolvers"));
        }
        if let Some(slot) = slot
            && self.senders_used >= self.senders_max
        {
            let message = format!(
                "no connection for replication is free (slot={slot}, max_wal_senders={}, in use={})",
                self.senders_max, self.senders_used
            );
            let statement = format!("ALTER SYSTEM SET max_wal_senders = {}", self.senders_max + 4);
            let finding = Finding::new(Severity::Error, "connections", message).with_statement(statement);
            found.push(finding.with_remedy("then restart the server"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            role: "Shop".to_owned(),
            database: "shop".to_owned(),
            server_max: 97,
            reserved: 3,
            server_used: 10,
            role_max: -1,
            role_used: 3,
            database_max: -1,
            senders_max: 10,
            senders_used: 0,
        }
    }

    fn statements(limits: &Limits) -> Vec<String> {
        limits.findings(9, Some("millstream")).into_iter().flat_map(|finding| finding.statements).collect()
    }

    #[test]
    fn each_limit_on_connections_is_named_with_the_statement_that_lifts_it() {
        assert_eq!(statements(&limits()), Vec::<String>::new());
        let short = Limits { role_max: 8, ..limits() };
        assert_eq!(statements(&short), [r#"ALTER ROLE "Shop" CONNECTION LIMIT 9"#]);
        let shared = Limits { role_max: 10, ..limits() };
        assert_eq!(statements(&shared), [r#"ALTER ROLE "Shop" CONNECTION LIMIT 12"#]);
        let database = Limits { database_max: 8, ..limits() };
        assert_eq!(statements(&database), [r#"ALTER DATABASE "shop" CONNECTION LIMIT 9"#]);
        let busy = Limits { server_used: 90, ..limits() };
        assert_eq!(statements(&busy), ["ALTER SYSTEM SET max_connections = 102"]);
        let senders = Limits { senders_used: 10, ..limits() };
        assert_eq!(statements(&senders), ["ALTER SYSTEM SET max_wal_senders = 14"]);
    }
}
