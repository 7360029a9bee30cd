//! What a schema may say that an embedded store can't do right, though a catalog agrees with it.

use millstream_core::schema::{Aggregate, AggregateFunction, Field, FieldKind, JoinPair, Path, Relation, Transform};
use millstream_core::{Catalog, ColumnInfo, Diagnostic, IndexSpec};
use millstream_model::{QualifiedTable, Text};

use super::quote::ident;
use super::types::{has_exact_text, joins};

/// What this builder can't do of an index, or does otherwise than its author may think.
///
/// Codes: `key-type` and `join-types` (errors), `ascii-case` and `decimal-average` (warnings).
pub(super) fn refuse(index: &IndexSpec, catalog: &Catalog) -> Vec<Diagnostic> {
    let mut refusing = Refusing { index, catalog, found: Vec::new() };
    refusing.keys();
    refusing.fields(&index.schema.table, "fields", &index.schema.fields);
    refusing.found
}

/// Puts the statement that mends a finding in place of its remedy, where one does.
pub(super) fn with_statements(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for finding in &mut found {
        if let ("unindexed-link", Some(table)) = (finding.code, &finding.table) {
            let columns = finding.columns.iter().map(|column| ident(column)).collect::<Vec<_>>().join(", ");
            let name = format!("{}_{}", table.table(), finding.columns.join("_"));
            finding.remedy = format!("CREATE INDEX {} ON {} ({columns})", ident(&name), ident(table.table()));
        }
    }
    found
}

struct Refusing<'a> {
    index: &'a IndexSpec,
    catalog: &'a Catalog,
    found: Vec<Diagnostic>,
}

impl Refusing<'_> {
    fn column(&self, table: &QualifiedTable, name: &str) -> Option<&ColumnInfo> {
        self.catalog.table(table)?.column(name)
    }

    fn error(&mut self, code: &'static str, at: &str, message: String, remedy: &str) {
        let said = Diagnostic::error(code, &self.index.name, at, message, remedy);
        if !self.found.contains(&said) {
            self.found.push(said);
        }
    }

    fn warning(&mut self, code: &'static str, at: &str, message: String, remedy: &str) {
        self.found.push(Diagnostic::warning(code, &self.index.name, at, message, remedy));
    }

    fn keys(&mut self) {
        let nodes: Vec<_> =
            self.index.tree.nodes().iter().map(|node| (node.table.clone(), node.path.clone())).collect();
        for (table, path) in nodes {
            let Some(info) = self.catalog.table(&table) else { continue };
            let at = if path.is_empty() { "table".to_owned() } else { path };
            for name in info.primary_key.clone() {
                self.found_by_text(&table, &at, &name);
            }
        }
    }

    /// Rows are asked for by texts: a column by which they are found must have one that says which.
    fn found_by_text(&mut self, table: &QualifiedTable, at: &str, name: &str) {
        let Some(column) = self.column(table, name).filter(|column| !has_exact_text(column)) else { return };
        let message = format!(
            "column `{name}` of {table} is `{}`: no row is found by the text of such a value",
            column.native_type
        );
        self.error("key-type", at, message, "take a column of text, whole numbers, truths, days or moments");
    }

    fn fields(&mut self, table: &QualifiedTable, at: &str, fields: &[Field]) {
        for field in fields {
            let at = format!("{at}.{}", field.name);
            match &field.kind {
                FieldKind::Column { transforms, .. } | FieldKind::Sql { transforms, .. } => {
                    self.letters(&at, transforms)
                }
                FieldKind::Object(fields) => self.fields(table, &format!("{at}.object"), fields),
                FieldKind::Relation(relation) => self.relation(table, &at, relation),
                FieldKind::Aggregate(aggregate) => self.aggregate(table, &at, aggregate),
                FieldKind::Constant { .. } | FieldKind::GeoPoint(_) => {}
            }
        }
    }

    fn letters(&mut self, at: &str, transforms: &[Transform]) {
        let changed = transforms.iter().find(|it| matches!(it, Transform::Lowercase | Transform::Uppercase));
        if let Some(transform) = changed {
            let message = format!("{} changes the letters A to Z alone in an embedded store", transform.name());
            let remedy = "change others where the rows come from, or keep the store in Postgres";
            self.warning("ascii-case", &format!("{at}.transforms"), message, remedy);
        }
    }

    fn relation(&mut self, table: &QualifiedTable, at: &str, relation: &Relation) {
        self.path(table, at, &relation.path);
        if let Some(column) = &relation.key_by {
            self.found_by_text(&relation.path.table, &format!("{at}.key_by"), column);
        }
        self.fields(&relation.path.table, &format!("{at}.fields"), &relation.fields);
    }

    fn aggregate(&mut self, table: &QualifiedTable, at: &str, aggregate: &Aggregate) {
        use millstream_core::schema::Operand::Column;
        self.path(table, at, &aggregate.path);
        self.letters(at, &aggregate.transforms);
        let AggregateFunction::Avg(Column(name)) = &aggregate.function else { return };
        if self.column(&aggregate.path.table, name).is_some_and(|column| column.base_type == "numeric") {
            let message = "an average of decimals is a floating-point number in an embedded store".to_owned();
            let remedy = "take sum and count, or keep the store in Postgres";
            self.warning("decimal-average", &format!("{at}.avg"), message, remedy);
        }
    }

    fn path(&mut self, table: &QualifiedTable, at: &str, path: &Path) {
        let mut near = table;
        for (number, through) in path.through.iter().enumerate() {
            self.pairs(near, &through.table, &format!("{at}.through[{number}].join"), &through.join);
            near = &through.table;
        }
        match path.through.len().checked_sub(1) {
            Some(last) => self.pairs(near, &path.table, &format!("{at}.through[{last}].to"), &path.to),
            None => self.pairs(near, &path.table, &format!("{at}.join"), &path.join),
        }
    }

    fn pairs(&mut self, near: &QualifiedTable, far: &QualifiedTable, at: &str, pairs: &[JoinPair]) {
        for pair in pairs {
            let ends: [(&QualifiedTable, &Text); 2] = [(near, &pair.left), (far, &pair.right)];
            let (Some(left), Some(right)) = (self.column(near, &pair.left), self.column(far, &pair.right)) else {
                continue;
            };
            if has_exact_text(left) && has_exact_text(right) && !joins(left, right) {
                let message = format!(
                    "`{}` of {near} is `{}`, `{}` of {far} is `{}`: an embedded store compares their texts letter by letter",
                    left.name, left.native_type, right.name, right.native_type
                );
                self.error("join-types", at, message, "join by texts or whole numbers of one type");
            }
            for (table, name) in ends {
                self.found_by_text(table, at, name);
            }
        }
    }
}
