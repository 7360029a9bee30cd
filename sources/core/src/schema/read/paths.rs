use millstream_model::{QualifiedTable, Text};

use crate::schema::{JoinPair, Path, Through};
use crate::yaml::{Node, NodeKind};

use super::keys;
use super::reader::{Keys, Reader, join};

impl Reader {
    /// `table`, `schema.table`, or `{ schema, table }`.
    pub(super) fn table(&mut self, node: &Node, path: &str) -> Option<QualifiedTable> {
        if let NodeKind::Mapping(_) = &node.kind {
            let keys = self.keys(node, path, keys::TABLE)?;
            let schema = match keys.get("schema") {
                Some(node) => self.text(node, &join(path, "schema"), "a schema's name")?.to_owned(),
                None => self.default_schema.clone(),
            };
            let table = self.required(&keys, path, "table", "write `{ schema: …, table: … }`")?;
            let table = self.text(table, &join(path, "table"), "a table's name")?;
            return Some(QualifiedTable::new(schema, table));
        }
        let text = self.text(node, path, "a table's name")?;
        let mut parts = text.split('.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(table), None, None) => Some(QualifiedTable::new(&self.default_schema, table)),
            (Some(schema), Some(table), None) if !schema.is_empty() && !table.is_empty() => {
                Some(QualifiedTable::new(schema, table))
            }
            _ => {
                let message = format!("`{text}` is not a table's name, or a schema's and a table's with a dot between");
                self.fault(node.place, path, message, "write `{ schema: …, table: … }` for names with dots");
                None
            }
        }
    }

    /// The way from a row to rows of `table`, read from the keys beside it.
    pub(super) fn path(&mut self, table: QualifiedTable, keys: &Keys<'_>, at: &str) -> Option<Path> {
        let filter = keys.get("where").and_then(|node| self.sql(node, &join(at, "where")));
        let distinct = self.flag(keys, at, "distinct");
        let ignore_moves = self.ignores_moves(keys, at);
        let mut path =
            Path { table, join: Vec::new(), through: Vec::new(), to: Vec::new(), filter, distinct, ignore_moves };
        match (keys.get("join"), keys.get("through")) {
            (Some(pairs), None) => path.join = self.pairs(pairs, &join(at, "join"))?,
            (None, Some(through)) => (path.through, path.to) = self.through(through, &join(at, "through"))?,
            (Some(_), Some(_)) => {
                let place = keys.place_of("join");
                let message = "with `through`, `join` stands inside it";
                self.fault(place, join(at, "join"), message, "write `through: { table: …, join: …, to: … }`");
                return None;
            }
            (None, None) => {
                let message = "`join` or `through` is missing";
                self.fault(keys.place, at, message, "write `join: { our column: their column }`");
                return None;
            }
        }
        Some(path)
    }

    fn ignores_moves(&mut self, keys: &Keys<'_>, at: &str) -> bool {
        let Some(node) = keys.get("on_move") else { return false };
        match &node.kind {
            NodeKind::Scalar { text, .. } if text == "ignore" => true,
            _ => {
                let message = format!("unknown choice {}", node.describe());
                self.fault(node.place, join(at, "on_move"), message, "write `on_move: ignore`, or leave it out");
                false
            }
        }
    }

    fn through(&mut self, node: &Node, at: &str) -> Option<(Vec<Through>, Vec<JoinPair>)> {
        let items = match &node.kind {
            NodeKind::Sequence(_) => self.items(node, at),
            _ => vec![(format!("{at}[0]"), node)],
        };
        if items.is_empty() {
            self.fault(node.place, at, "names no table", "write `{ table: …, join: …, to: … }`");
            return None;
        }
        let last = items.len() - 1;
        let mut tables = Vec::with_capacity(items.len());
        let mut to = Vec::new();
        for (number, (at, item)) in items.into_iter().enumerate() {
            let keys = self.keys(item, &at, keys::THROUGH)?;
            let table = self.required(&keys, &at, "table", "name the table in between");
            let table = table.and_then(|node| self.table(node, &join(&at, "table")));
            let remedy = "write `join: { column of the table before: column of this one }`";
            let pairs = self.required(&keys, &at, "join", remedy);
            let pairs = pairs.and_then(|node| self.pairs(node, &join(&at, "join")));
            let filter = keys.get("where").and_then(|node| self.sql(node, &join(&at, "where")));
            match keys.get("to") {
                Some(node) if number == last => to = self.pairs(node, &join(&at, "to"))?,
                Some(_) => {
                    let message = "`to` belongs to the last table in `through`";
                    let remedy = "remove it: the next table's `join` says how it follows";
                    self.fault(keys.place_of("to"), join(&at, "to"), message, remedy);
                }
                None if number == last => {
                    let remedy = "write `to: { column of this table: column of the far one }`";
                    self.fault(keys.place, &at, "`to` is missing", remedy);
                }
                None => {}
            }
            tables.push(Through { table: table?, join: pairs?, filter });
        }
        Some((tables, to))
    }

    /// `{ left column: right column, … }`.
    fn pairs(&mut self, node: &Node, at: &str) -> Option<Vec<JoinPair>> {
        let entries = self.entries(node, at)?;
        let pairs = entries.iter().map(|(_, left, right)| {
            let right = self.name(right, &join(at, left))?;
            Some(JoinPair { left: Text::from(left.as_str()), right })
        });
        pairs.collect()
    }
}
