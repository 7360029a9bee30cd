use millstream_core::{SourceError, SourceErrorKind};

/// Turns a driver's error into one that says what to do next.
///
/// By SQLSTATE (Postgres's appendix A): classes 08, 53, 57, 58 and 40 and lost sockets are `Connection`; 28, 3D, 42501 and
/// 3F are `Setup`; 42703, 42P01, 42883 and other 42 are `UnknownColumn`; 0A is `Unsupported`; all else is `Query`.
/// The message carries no row contents beyond what the server's own message says, and never a password: the driver's errors
/// hold none.
pub fn classify(doing: &str, error: sqlx::Error) -> SourceError {
    let kind = match &error {
        sqlx::Error::Database(database) => {
            database.code().map_or(SourceErrorKind::Query, |code| kind_of_sqlstate(&code))
        }
        // A certificate that is not trusted stays so until someone mends it.
        sqlx::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            SourceErrorKind::Setup
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            SourceErrorKind::Connection
        }
        sqlx::Error::Protocol(_) => SourceErrorKind::Connection,
        sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => SourceErrorKind::Setup,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            SourceErrorKind::Decode
        }
        _ => SourceErrorKind::Query,
    };
    let message = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            format!("{doing}: {} (sqlstate={code})", database.message())
        }
        other => format!("{doing}: {other}"),
    };
    SourceError::new(kind, message).with_cause(error)
}

/// What to do about an SQLSTATE.
pub fn kind_of_sqlstate(code: &str) -> SourceErrorKind {
    match code {
        "42501" => SourceErrorKind::Setup,
        // A limit of the server's settings that one statement hit: a smaller one may pass.
        "53400" | "54000" | "54001" | "54011" | "54023" => SourceErrorKind::Query,
        // A slot or another object is in use by someone else.
        "55006" => SourceErrorKind::Held,
        // Statements that were stopped from outside, locks that were not free: again.
        "55P03" | "57014" | "25006" => SourceErrorKind::Connection,
        _ => match &code[..code.len().min(2)] {
            "08" | "40" | "53" | "57" | "58" => SourceErrorKind::Connection,
            "28" | "3D" | "3F" | "55" => SourceErrorKind::Setup,
            "42" => SourceErrorKind::UnknownColumn,
            "0A" => SourceErrorKind::Unsupported,
            _ => SourceErrorKind::Query,
        },
    }
}
