use std::collections::BTreeSet;

use millstream_model::{QualifiedTable, Text};
use serde::Serialize;

use super::{Cardinality, Field, FieldKind, IndexSchema, Path};

/// A pair of columns that must be equal: the parent's on the left, the child's on the right.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct JoinPair {
    /// The column of the table nearer to the root.
    pub left: Text,
    /// The column of the table farther from it: a *link column*, unless it is part of that table's own key.
    pub right: Text,
}

/// One occurrence of a table in a schema's tree. A table that is joined twice occurs twice.
#[derive(Clone, Debug, PartialEq)]
pub struct TableNode {
    /// The table.
    pub table: QualifiedTable,
    /// The occurrence that it hangs on; `None` for the root, which is always number 0.
    pub parent: Option<usize>,
    /// The columns that tie it to its parent. Empty for the root.
    pub pairs: Vec<JoinPair>,
    /// Where in the schema it stands: `fields.orders`; a table in between: `fields.tags.through[0]`. Empty for the root.
    pub path: String,
    /// True where the author opts out of refreshing both parents of a moved row.
    pub ignore_moves: bool,
    /// True when the parent's column points here (`belongs_to`): then the link is usually the key.
    pub belongs_to: bool,
}

/// The tables of a schema and how they hang together: what capture, resolving and validation need of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaTree {
    nodes: Vec<TableNode>,
}

impl SchemaTree {
    /// Reads the tree off a schema: the root first, then each table after its parent.
    pub fn of(schema: &IndexSchema) -> Self {
        let root = TableNode {
            table: schema.table.clone(),
            parent: None,
            pairs: Vec::new(),
            path: String::new(),
            ignore_moves: false,
            belongs_to: false,
        };
        let mut tree = Self { nodes: vec![root] };
        tree.add_fields(0, "fields", &schema.fields);
        tree
    }

    /// All occurrences; the root is number 0, a parent's number is lower than its children's.
    pub fn nodes(&self) -> &[TableNode] {
        &self.nodes
    }

    /// The numbers of a table's occurrences.
    pub fn occurrences<'a>(&'a self, table: &'a QualifiedTable) -> impl Iterator<Item = usize> + 'a {
        self.nodes.iter().enumerate().filter(move |(_, node)| node.table == *table).map(|(number, _)| number)
    }

    /// The link columns of one table in this schema, each once, in order of name.
    pub fn link_columns(&self, table: &QualifiedTable) -> BTreeSet<Text> {
        let nodes = self.nodes.iter().filter(|node| node.table == *table);
        nodes.flat_map(|node| node.pairs.iter().map(|pair| pair.right.clone())).collect()
    }

    fn add_fields(&mut self, parent: usize, at: &str, fields: &[Field]) {
        for field in fields {
            let at = format!("{at}.{}", field.name);
            match &field.kind {
                FieldKind::Object(fields) => self.add_fields(parent, &format!("{at}.object"), fields),
                FieldKind::Relation(relation) => {
                    let belongs_to = relation.cardinality == Cardinality::BelongsTo;
                    let far = self.add_path(parent, &at, &relation.path, belongs_to);
                    self.add_fields(far, &format!("{at}.fields"), &relation.fields);
                }
                FieldKind::Aggregate(aggregate) => {
                    self.add_path(parent, &at, &aggregate.path, false);
                }
                FieldKind::Column { .. }
                | FieldKind::Sql { .. }
                | FieldKind::Constant { .. }
                | FieldKind::GeoPoint(_) => {}
            }
        }
    }

    /// Adds the tables of a path and returns the far one's number.
    fn add_path(&mut self, parent: usize, at: &str, path: &Path, belongs_to: bool) -> usize {
        let mut parent = parent;
        for (number, through) in path.through.iter().enumerate() {
            let at = format!("{at}.through[{number}]");
            parent = self.add(parent, through.table.clone(), &through.join, at, path.ignore_moves, false);
        }
        let pairs = if path.through.is_empty() { &path.join } else { &path.to };
        self.add(parent, path.table.clone(), pairs, at.to_owned(), path.ignore_moves, belongs_to)
    }

    fn add(
        &mut self,
        parent: usize,
        table: QualifiedTable,
        pairs: &[JoinPair],
        path: String,
        ignore_moves: bool,
        belongs_to: bool,
    ) -> usize {
        let pairs = pairs.to_vec();
        self.nodes.push(TableNode { table, parent: Some(parent), pairs, path, ignore_moves, belongs_to });
        self.nodes.len() - 1
    }
}
