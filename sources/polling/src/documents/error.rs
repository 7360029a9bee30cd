//! What SQLite's refusals mean.

use millstream_core::{SourceError, SourceErrorKind};

/// Turns a driver's error into one that says what to do next.
pub(super) fn classify(doing: &str, error: sqlx::Error) -> SourceError {
    let (kind, message) = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            let message = format!("{doing}: {} (code={code})", database.message());
            (kind_of(code.parse().unwrap_or(0), database.message()), message)
        }
        other => (kind_of_driver(other), format!("{doing}: {other}")),
    };
    SourceError::new(kind, message).with_cause(error)
}

fn kind_of_driver(error: &sqlx::Error) -> SourceErrorKind {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => SourceErrorKind::Connection,
        sqlx::Error::Configuration(_) => SourceErrorKind::Setup,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            SourceErrorKind::Decode
        }
        _ => SourceErrorKind::Query,
    }
}

/// By the result code, whose low byte is the primary one. What is not there has no code of its own.
fn kind_of(code: i64, message: &str) -> SourceErrorKind {
    match code & 0xFF {
        // Busy, locked, out of memory, interrupted, an error of the disk, a full one.
        5 | 6 | 7 | 9 | 10 | 13 => SourceErrorKind::Connection,
        // No right, read-only, corrupt, can't be opened, not a database.
        3 | 8 | 11 | 14 | 23 | 26 => SourceErrorKind::Setup,
        1 if message.starts_with("no such table") || message.starts_with("no such column") => {
            SourceErrorKind::UnknownColumn
        }
        1 if message.starts_with("no such function") || message.contains("syntax error") => {
            SourceErrorKind::Unsupported
        }
        _ => SourceErrorKind::Query,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        assert_eq!(kind_of(261, "database is locked"), SourceErrorKind::Connection);
        assert_eq!(kind_of(14, "unable to open database file"), SourceErrorKind::Setup);
        assert_eq!(kind_of(1, "no such column: a.b"), SourceErrorKind::UnknownColumn);
        assert_eq!(kind_of(1, "JSON cannot hold BLOB values"), SourceErrorKind::Query);
    }
}
