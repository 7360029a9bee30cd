//! What keeps an index from being built right now.

use millstream_core::schema::IndexSchema;
use millstream_core::{Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind, SourceSpec, validate_indexes};
use millstream_model::IndexName;
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::SqliteDocuments;
use super::error::classify;
use super::fragments::check_fragments;
use super::plan::{IndexPlan, Queries};
use super::refuse::{refuse, with_statements};

pub(super) async fn inspect(documents: &SqliteDocuments, index: &IndexName) -> Result<Vec<Diagnostic>> {
    let spec = documents.index(index)?;
    let mut connection = documents.connection().await?;
    let plan = documents.shared.plans.read(spec, &mut connection).await?;
    if !plan.findings.initialized() {
        // What is made on the way to check the author's SQL goes with the connection.
        connection.close_on_drop();
    }
    let mut found = plan.findings.get_or_try_init(|| examine(spec, &plan, &mut connection)).await?.clone();
    if found.iter().any(Diagnostic::is_error) {
        return Ok(found);
    }
    let refused = match plan.queries() {
        Ok(queries) => try_out(queries, &mut connection).await,
        Err(error) => Some(error),
    };
    if let Some(error) = refused {
        if error.kind().is_transient() {
            return Err(error);
        }
        documents.shared.plans.forget_on(&spec.name, &error);
        found.push(of_error(spec, &error));
    }
    Ok(found)
}

/// What is against the index over its plan's catalog.
async fn examine(spec: &IndexSpec, plan: &IndexPlan, connection: &mut SqliteConnection) -> Result<Vec<Diagnostic>> {
    let one = SourceSpec::new([(spec.name.clone(), IndexSchema::clone(&spec.schema))]);
    let mut found = validate_indexes(&one, &plan.catalog);
    found.extend(refuse(spec, &plan.catalog));
    found.extend(check_fragments(connection, spec, &plan.catalog).await?);
    Ok(with_statements(found))
}

/// With no keys SQLite checks every name and reads nothing.
async fn try_out(queries: &Queries, connection: &mut SqliteConnection) -> Option<SourceError> {
    let query = sqlx::query(AssertSqlSafe(queries.build.clone())).bind("[]");
    query.execute(connection).await.err().map(|error| classify("the build query is refused", error))
}

fn of_error(spec: &IndexSpec, error: &SourceError) -> Diagnostic {
    let code = match error.kind() {
        SourceErrorKind::UnknownColumn => "missing-column",
        _ => "unbuildable",
    };
    let remedy = error.remedy().unwrap_or_default().to_owned();
    let message = error.to_string();
    let message = message.split("; to mend it: ").next().unwrap_or_default().to_owned();
    Diagnostic::error(code, &spec.name, "", message, remedy)
}
