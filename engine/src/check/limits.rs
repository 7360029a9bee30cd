//! How many connections a server gives, held against those that an engine takes.

use millstream_core::{Result, Severity};
use millstream_postgres::{Connections, PostgresSettings, classify, quote, sqlx};

use crate::finding::Finding;

/// How many connections a server gives us.
#[derive(Debug)]
pub(super) struct Limits {
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
    pub async fn read(postgres: &PostgresSettings) -> Result<Self> {
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
    pub fn findings(&self, needed: usize, slot: Option<&str>) -> Vec<Finding> {
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
