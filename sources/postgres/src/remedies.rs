use millstream_core::{Catalog, Diagnostic, TableKind};

use crate::quote;

/// Puts the statement that mends a finding in place of its remedy, for findings that one mends.
///
/// `role` is the role that reads. Rights become a `GRANT`, a missing index the statement that builds it without a lock. The
/// statements for `identity` are provisioning's to say: it looks at each partition.
pub fn with_statements(diagnostics: Vec<Diagnostic>, catalog: &Catalog, role: &str) -> Vec<Diagnostic> {
    diagnostics.into_iter().map(|diagnostic| with_statement(diagnostic, catalog, role)).collect()
}

fn with_statement(mut diagnostic: Diagnostic, catalog: &Catalog, role: &str) -> Diagnostic {
    let Some(table) = diagnostic.table.clone() else { return diagnostic };
    let columns = diagnostic.columns.iter().map(|column| quote::ident(column)).collect::<Vec<_>>().join(", ");
    let info = catalog.table(&table);
    let partitioned = info.is_some_and(|info| info.kind == TableKind::Partitioned);
    let remedy = match diagnostic.code {
        "unreadable" => {
            let schema = quote::ident(table.schema());
            let (table, role) = (quote::table(&table), quote::ident(role));
            // Without a right on the schema no column of it can be read.
            let grant = match info.is_some_and(|info| info.columns.iter().any(|column| column.readable)) {
                true => format!("GRANT SELECT ({columns}) ON {table} TO {role}"),
                false => format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {table} TO {role}"),
            };
            Some(grant)
        }
        "row-security" => Some(format!(
            "ALTER ROLE {} BYPASSRLS, or accept what is hidden with `row_level_security: accept`",
            quote::ident(role)
        )),
        "unindexed-link" if partitioned => Some(format!(
            "CREATE INDEX ON {} ({columns}), which locks each partition against writes while it builds; or CREATE INDEX \
             CONCURRENTLY on each partition first",
            quote::table(&table)
        )),
        "unindexed-link" => Some(format!("CREATE INDEX CONCURRENTLY ON {} ({columns})", quote::table(&table))),
        _ => None,
    };
    diagnostic.remedy = remedy.unwrap_or(diagnostic.remedy);
    diagnostic
}

#[cfg(test)]
mod tests {
    use millstream_core::{ColumnInfo, TableInfo};
    use millstream_model::{IndexName, QualifiedTable};

    use super::*;

    fn mend(code: &'static str, kind: TableKind, readable: bool) -> String {
        let table = QualifiedTable::new("Sales-2", "or\"der");
        let column = ColumnInfo { name: "user".into(), readable, ..Default::default() };
        let info = TableInfo { kind, columns: vec![column], ..Default::default() };
        let catalog = Catalog { tables: [(table.clone(), info)].into(), ..Default::default() };
        let index = IndexName::new("i");
        let found = Diagnostic::error(code, &index, "", "wrong", "as it was").about(&table, ["user".into()]);
        with_statements(vec![found], &catalog, "Reader").remove(0).remedy
    }

    #[test]
    fn p13_statements_quote_every_name() {
        assert_eq!(
            mend("unindexed-link", TableKind::Table, true),
            r#"CREATE INDEX CONCURRENTLY ON "Sales-2"."or""der" ("user")"#
        );
        assert!(
            mend("unindexed-link", TableKind::Partitioned, true)
                .starts_with(r#"CREATE INDEX ON "Sales-2"."or""der" ("user")"#)
        );
        assert_eq!(
            mend("unreadable", TableKind::Table, true),
            r#"GRANT SELECT ("user") ON "Sales-2"."or""der" TO "Reader""#
        );
        assert_eq!(
            mend("unreadable", TableKind::Table, false),
            r#"GRANT USAGE ON SCHEMA "Sales-2" TO "Reader"; GRANT SELECT ON "Sales-2"."or""der" TO "Reader""#
        );
        assert_eq!(mend("type", TableKind::Table, true), "as it was");
    }
}
