//! What keeps an index from being built right now.

use millstream_core::schema::IndexSchema;
use millstream_core::{Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind, SourceSpec, validate_indexes};
use millstream_model::IndexName;
use millstream_postgres::sqlx::{self, AssertSqlSafe};
use millstream_postgres::{Lease, check_fragments, classify, with_statements};

use super::PostgresDocuments;
use super::plan::{IndexPlan, Queries};

pub(super) async fn inspect(documents: &PostgresDocuments, index: &IndexName) -> Result<Vec<Diagnostic>> {
    let spec = documents.index(index)?;
    let mut lease = documents.lease().await?;
    let found = diagnose(documents, spec, &mut lease).await?;
    lease.keep();
    Ok(found)
}

async fn diagnose(documents: &PostgresDocuments, spec: &IndexSpec, lease: &mut Lease) -> Result<Vec<Diagnostic>> {
    let plan = documents.shared.plans.read(spec, lease).await?;
    let mut found = plan.findings.get_or_try_init(|| examine(documents, spec, &plan, lease)).await?.clone();
    if found.iter().any(Diagnostic::is_error) {
        return Ok(found);
    }
    let refused = match plan.queries() {
        Ok(queries) => refuse(queries, lease).await,
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
async fn examine(
    documents: &PostgresDocuments,
    spec: &IndexSpec,
    plan: &IndexPlan,
    lease: &mut Lease,
) -> Result<Vec<Diagnostic>> {
    let one = SourceSpec::new([(spec.name.clone(), IndexSchema::clone(&spec.schema))]);
    let mut found = validate_indexes(&one, &plan.catalog);
    found.extend(check_fragments(lease, &one, &plan.catalog).await?);
    let role = documents.shared.connections.settings().user.as_str();
    // What the log must tell of old rows is the capture's business, which may be allowed to mend it.
    found.retain(|found| found.code != "identity");
    if documents.shared.accept_row_level_security {
        found.retain(|found| found.code != "row-security");
    }
    Ok(with_statements(found, &plan.catalog, role))
}

/// With no keys the server checks every name, type and right, and reads nothing.
async fn refuse(queries: &Queries, lease: &mut Lease) -> Option<SourceError> {
    let nothing: Vec<Vec<&str>> = vec![Vec::new(); queries.key.columns.len()];
    let query = sqlx::query(AssertSqlSafe(queries.build.clone()));
    let query = nothing.iter().fold(query, |query, column| query.bind(column));
    query.execute(&mut **lease).await.err().map(|error| classify("the build query is refused", error))
}

fn of_error(spec: &IndexSpec, error: &SourceError) -> Diagnostic {
    let code = match error.kind() {
        SourceErrorKind::Setup => "no-right",
        SourceErrorKind::UnknownColumn => "missing-column",
        _ => "unbuildable",
    };
    let remedy = error.remedy().unwrap_or_default().to_owned();
    let message = error.to_string();
    let message = message.split("; to mend it: ").next().unwrap_or_default().to_owned();
    Diagnostic::error(code, &spec.name, "", message, remedy)
}
