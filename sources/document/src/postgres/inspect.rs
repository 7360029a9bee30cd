//! What keeps an index from being built right now.

use millstream_core::{Catalog, Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind};
use millstream_model::{IndexName, QualifiedTable};
use millstream_postgres::sqlx::{self, AssertSqlSafe};
use millstream_postgres::{Lease, classify, quote};

use super::PostgresDocuments;

pub(super) async fn inspect(documents: &PostgresDocuments, index: &IndexName) -> Result<Vec<Diagnostic>> {
    let spec = documents.index(index)?;
    let mut lease = documents.lease().await?;
    let found = diagnose(documents, spec, &mut lease).await?;
    lease.keep();
    Ok(found)
}

async fn diagnose(documents: &PostgresDocuments, spec: &IndexSpec, lease: &mut Lease) -> Result<Vec<Diagnostic>> {
    let mut found = rights(documents, spec, lease).await?;
    let plan = match documents.read_plan(&spec.name, lease).await {
        Ok(plan) => plan,
        Err(error) if error.kind().is_transient() => return Err(error),
        Err(error) => {
            found.push(of_error(spec, &error));
            return Ok(found);
        }
    };
    if found.iter().any(Diagnostic::is_error) {
        return Ok(found);
    }
    // With no keys the server checks every name, type and right, and reads nothing.
    let nothing: Vec<Vec<&str>> = vec![Vec::new(); plan.key.columns.len()];
    let query = sqlx::query(AssertSqlSafe(plan.build.clone()));
    let query = nothing.iter().fold(query, |query, column| query.bind(column));
    if let Err(error) = query.execute(&mut **lease).await {
        let error = classify("the build query is refused", error);
        if error.kind().is_transient() {
            return Err(error);
        }
        documents.forget_on(&spec.name, &error);
        found.push(of_error(spec, &error));
    }
    Ok(found)
}

/// Rights and row-level security of each table, as the server sees them for our role.
async fn rights(documents: &PostgresDocuments, spec: &IndexSpec, lease: &mut Lease) -> Result<Vec<Diagnostic>> {
    let mut tables: Vec<&QualifiedTable> = spec.tree.nodes().iter().map(|node| &node.table).collect();
    tables.sort();
    tables.dedup();
    let schemas: Vec<&str> = tables.iter().map(|table| table.schema()).collect();
    let names: Vec<&str> = tables.iter().map(|table| table.table()).collect();
    let rows: Vec<(i64, String, bool, bool, bool)> = sqlx::query_as(RIGHTS)
        .bind(schemas)
        .bind(names)
        .fetch_all(&mut **lease)
        .await
        .map_err(|error| classify("can't ask for the rights on the tables", error))?;
    let mut found = Vec::new();
    for (number, role, may_use, may_read, secured) in rows {
        let Some(table) = usize::try_from(number - 1).ok().and_then(|at| tables.get(at)) else { continue };
        let role = quote::ident(&role);
        let at = path_of(spec, table);
        if !may_use {
            let message = format!("the role may not use the schema (schema={})", table.schema());
            let remedy = format!("GRANT USAGE ON SCHEMA {} TO {role}", quote::ident(table.schema()));
            found.push(Diagnostic::error("no-right", &spec.name, at.clone(), message, remedy));
        }
        if !may_read {
            let message = format!("the role may not read the table (table={table})");
            let remedy = format!("GRANT SELECT ON {} TO {role}", quote::table(table));
            found.push(Diagnostic::error("no-right", &spec.name, at.clone(), message, remedy));
        }
        if secured && !documents.shared.accept_row_level_security {
            let message = format!("row-level security is in force for our role and may hide rows (table={table})");
            let remedy = format!("ALTER ROLE {role} BYPASSRLS, or accept what it leaves visible");
            found.push(Diagnostic::error("row-level-security", &spec.name, at, message, remedy));
        }
    }
    Ok(found)
}

const RIGHTS: &str = "select t.number, current_user::text, has_schema_privilege(n.oid, 'usage'), \
     has_any_column_privilege(c.oid, 'select'), row_security_active(c.oid) \
     from unnest($1::text[], $2::text[]) with ordinality as t(schema, name, number) \
     join pg_catalog.pg_namespace n on n.nspname = t.schema \
     join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.name \
     order by t.number";

fn path_of(spec: &IndexSpec, table: &QualifiedTable) -> String {
    spec.tree.nodes().iter().find(|node| node.table == *table).map(|node| node.path.clone()).unwrap_or_default()
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

/// True when two catalogs say the same of every table, but for estimates.
pub(super) fn same_shape(one: &Catalog, other: &Catalog) -> bool {
    one.tables.len() == other.tables.len()
        && one.tables.iter().zip(&other.tables).all(|((name, info), (other_name, other_info))| {
            let mut info = info.clone();
            info.estimated_rows = other_info.estimated_rows;
            name == other_name && info == *other_info
        })
}
