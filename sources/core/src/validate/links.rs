use std::collections::BTreeSet;

use millstream_model::{QualifiedTable, Text};

use super::types::compare;
use super::{Validator, list};
use crate::TableInfo;
use crate::schema::JoinPair;

impl Validator<'_> {
    /// The columns that tie a table to the one nearer to the root.
    pub(super) fn pairs(
        &mut self,
        near: &QualifiedTable,
        far: &QualifiedTable,
        at: &str,
        pairs: &[JoinPair],
        ignore_moves: bool,
    ) {
        for pair in pairs {
            let left = self.column(near, at, &pair.left);
            let right = self.column(far, at, &pair.right);
            if let (Some(left), Some(right)) = (left, right)
                && !compare(left, right)
            {
                let message = format!(
                    "`{}` of {near} is `{}`, `{}` of {far} is `{}`: they can't be compared",
                    left.name, left.native_type, right.name, right.native_type
                );
                self.error("join-types", at, message, "join by columns of one type");
            }
            let Some(right) = right else { continue };
            if right.generated {
                self.generated(far, at, &right.name);
            } else if !ignore_moves {
                let links = self.links.entry(far.clone()).or_insert_with(|| (at.to_owned(), BTreeSet::new()));
                links.1.insert(right.name.clone());
            }
        }
        let left: Vec<Text> = pairs.iter().map(|pair| pair.left.clone()).collect();
        let right: Vec<Text> = pairs.iter().map(|pair| pair.right.clone()).collect();
        self.indexed(far, at, &right, "building a document reads the whole table");
        self.indexed(near, at, &left, &format!("a change of {far} finds what it touches by reading the whole table"));
    }

    fn generated(&mut self, table: &QualifiedTable, at: &str, column: &Text) {
        if self.first_time("generated-column", table, std::slice::from_ref(column)) {
            let message = format!("column `{column}` of {table} is generated: the log does not carry it");
            let said = self.error("generated-column", at, message, "join by an ordinary column");
            *said = said.clone().about(table, [column.clone()]);
        }
    }

    fn indexed(&mut self, table: &QualifiedTable, at: &str, columns: &[Text], otherwise: &str) {
        let Some(info) = self.table(table) else { return };
        let known = columns.iter().all(|column| info.column(column).is_some());
        if !known
            || columns.is_empty()
            || has_index(info, columns)
            || !self.first_time("unindexed-link", table, columns)
        {
            return;
        }
        let message = format!("no index of {table} begins with ({}): {otherwise}", list(columns));
        let said = self.warning("unindexed-link", at, message, format!("create an index over ({})", list(columns)));
        *said = said.clone().about(table, columns.iter().cloned());
    }

    /// What a change of each table must tell of the row as it was.
    pub(super) fn identities(&mut self) {
        let tables: BTreeSet<QualifiedTable> = self.index.tree.nodes().iter().map(|node| node.table.clone()).collect();
        for table in tables {
            let Some(TableInfo { old_values: Some(told), primary_key, .. }) = self.table(&table) else { continue };
            if primary_key.is_empty() {
                continue;
            }
            let (at, links) = self.links.remove(&table).unwrap_or_else(|| ("table".to_owned(), BTreeSet::new()));
            let needed: Vec<Text> = primary_key
                .iter()
                .cloned()
                .chain(links.into_iter().filter(|link| !primary_key.contains(link)))
                .collect();
            let silent: Vec<&Text> = needed.iter().filter(|column| !told.contains(column)).collect();
            if silent.is_empty() {
                continue;
            }
            let message = if silent.iter().any(|column| primary_key.contains(column)) {
                format!("an update or delete of {table} does not tell which row it was (missing: {})", list(&silent))
            } else {
                let silent = list(&silent);
                format!(
                    "an update or delete of {table} does not tell the row's old ({silent}): its old parent would stay as it was"
                )
            };
            let remedy = format!(
                "let the log tell a row's old ({}): by the key, by a unique index over them, or by all columns; or write \
                 `on_move: ignore` at the relation",
                list(&needed)
            );
            let said = self.error("identity", at, message, remedy);
            *said = said.clone().about(&table, needed);
        }
    }
}

/// True when rows with these values are found without reading the table.
fn has_index(table: &TableInfo, columns: &[Text]) -> bool {
    let unique_among = table.indexes.iter().any(|index| {
        index.unique
            && !index.partial
            && !index.columns.is_empty()
            && index.columns.iter().all(|it| columns.contains(it))
    });
    unique_among || table.is_indexed(columns)
}
