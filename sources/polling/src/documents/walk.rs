//! The queries that lead from a changed row of a related table up to the documents' keys.

use std::sync::Arc;

use millstream_core::schema::{JoinPair, SchemaTree, TableNode};
use millstream_core::{Catalog, ColumnInfo, IndexSpec, Result, SourceError};
use millstream_document::seeds::Tie;
use millstream_model::{QualifiedTable, Text};

use super::path::output_text;
use super::quote::ident;
use super::root::{RootKey, part};
use super::types::same_text;

/// Touches in a page, and rows that one query gives before its fan-out counts as wide.
pub(super) const PAGE: usize = 5_000;

/// The ways up of an index, and the way through all its root keys.
pub(super) struct Walks {
    /// One for each way that differs: of relations over the same tables and columns there is one.
    pub walks: Vec<Walk>,
    pub roots: RootPages,
}

/// The way from one occurrence of a related table to the root.
pub(super) struct Walk {
    /// The related table.
    pub table: QualifiedTable,
    /// Its columns that tie it to its parent.
    columns: Vec<Text>,
    /// Where those values lead.
    pub by_values: Route,
    /// The related table's key columns.
    key: Vec<Text>,
    /// From the row itself, for rows of which a tie's value is not known. `None` without a key.
    pub by_row: Option<WalkQuery>,
}

impl Walk {
    /// What ties a row to its parent, and whether the row itself can be asked.
    pub fn tie(&self) -> Tie<'_> {
        Tie { columns: &self.columns, key: self.by_row.as_ref().map(|_| self.key.as_slice()) }
    }
}

/// Where the values of a row's tie lead.
pub(super) enum Route {
    /// They are the document's key: at each place of the key the number of the column.
    Direct(Vec<usize>),
    /// To be asked.
    Query(WalkQuery),
}

/// A query from seeds to root keys: `select` of a seed's number, from 0 on, and the key's texts. Its parameter: the seeds as one
/// JSON array.
#[derive(Clone, Debug)]
pub(super) struct WalkQuery {
    /// Up to `PAGE + 1` rows.
    pub narrow: Arc<str>,
    /// Each row once, all of them.
    pub wide: Arc<str>,
}

/// Pages of all root keys, filters or not, in the order of their values.
pub(super) struct RootPages {
    /// The first page: root key texts.
    pub first: Arc<str>,
    /// The page after a key, whose texts are the parameters.
    pub next: Arc<str>,
}

impl Walks {
    pub fn new(spec: &IndexSpec, catalog: &Catalog, key: &RootKey) -> Result<Self> {
        let climb = Climb { tree: &spec.tree, catalog, key };
        let mut walks = Vec::new();
        let mut known = Vec::new();
        for number in 1..spec.tree.nodes().len() {
            let way = climb.way(number);
            if !known.contains(&way) {
                walks.push(climb.walk(number)?);
                known.push(way);
            }
        }
        Ok(Self { walks, roots: climb.root_pages() })
    }

    /// The walks that begin at a table.
    pub fn of<'a>(&'a self, table: &'a QualifiedTable) -> impl Iterator<Item = (usize, &'a Walk)> + 'a {
        self.walks.iter().enumerate().filter(move |(_, walk)| walk.table == *table)
    }
}

struct Climb<'a> {
    tree: &'a SchemaTree,
    catalog: &'a Catalog,
    key: &'a RootKey,
}

impl<'a> Climb<'a> {
    fn node(&self, number: usize) -> &'a TableNode {
        &self.tree.nodes()[number]
    }

    /// The tables and ties from an occurrence up: equal ones lead to the same documents.
    fn way(&self, number: usize) -> Vec<(&'a QualifiedTable, &'a [JoinPair])> {
        let mut way = Vec::new();
        let mut at = Some(number);
        while let Some(number) = at {
            let node = self.node(number);
            way.push((&node.table, node.pairs.as_slice()));
            at = node.parent;
        }
        way
    }

    fn column(&self, table: &QualifiedTable, name: &str) -> Result<&'a ColumnInfo> {
        self.catalog.table(table).and_then(|info| info.column(name)).ok_or_else(|| {
            SourceError::unknown_column(format!("there is no such column (table={table}, column={name})"))
        })
    }

    fn walk(&self, number: usize) -> Result<Walk> {
        let node = self.node(number);
        let parent = node.parent.expect("only the root has no parent");
        let key = self.catalog.table(&node.table).map(|info| info.primary_key.clone()).unwrap_or_default();
        let by_values = match self.direct(node, parent)? {
            Some(places) => Route::Direct(places),
            None => {
                // The value has the text of the related table's column, and is compared as the parent's is.
                let seeds: Vec<&Text> = node.pairs.iter().map(|pair| &pair.left).collect();
                Route::Query(self.query(parent, &seeds)?)
            }
        };
        let by_row = if key.is_empty() { None } else { Some(self.query(number, &key.iter().collect::<Vec<_>>())?) };
        let columns = node.pairs.iter().map(|pair| pair.right.clone()).collect();
        Ok(Walk { table: node.table.clone(), columns, by_values, key, by_row })
    }

    /// At each place of the root's key the number of the pair whose right side has its very text.
    fn direct(&self, node: &TableNode, parent: usize) -> Result<Option<Vec<usize>>> {
        if parent != 0 || node.pairs.len() != self.key.columns.len() {
            return Ok(None);
        }
        let mut places = Vec::new();
        for (name, left) in self.key.columns.iter().zip(&self.key.infos) {
            let Some(place) = node.pairs.iter().position(|pair| pair.left == *name) else {
                return Ok(None);
            };
            if !same_text(left, self.column(&node.table, &node.pairs[place].right)?) {
                return Ok(None);
            }
            places.push(place);
        }
        Ok(Some(places))
    }

    /// Seeds, joined to the occurrence `first`, joined to its parent, and so on up to where the root's key is known. A cross join
    /// is one in this very order.
    fn query(&self, first: usize, seeds: &[&Text]) -> Result<WalkQuery> {
        let mut ties = Vec::new();
        for (number, name) in seeds.iter().enumerate() {
            self.column(&self.node(first).table, name)?;
            ties.push(format!("a0.{} = {}", ident(name), part("s", number, seeds.len())));
        }
        let mut from = format!(
            "json_each(?1) as s cross join main.{} as a0 on {}",
            ident(self.node(first).table.table()),
            ties.join(" and ")
        );
        let mut current = first;
        let mut level = 0;
        let (texts, known) = loop {
            let node = self.node(current);
            let Some(parent) = node.parent else {
                break (self.key.columns.iter().map(|name| text(level, name)).collect::<Vec<_>>(), String::new());
            };
            if let Some(places) = self.direct(node, parent)? {
                let rights = places.iter().map(|place| &node.pairs[*place].right);
                let known = rights.clone().map(|name| format!("a{level}.{} is not null", ident(name)));
                let known = format!(" where {}", known.collect::<Vec<_>>().join(" and "));
                break (rights.map(|name| text(level, name)).collect(), known);
            }
            let ties = node
                .pairs
                .iter()
                .map(|pair| format!("a{}.{} = a{level}.{}", level + 1, ident(&pair.left), ident(&pair.right)));
            let ties = ties.collect::<Vec<_>>().join(" and ");
            level += 1;
            from.push_str(&format!(
                " cross join main.{} as a{level} on {ties}",
                ident(self.node(parent).table.table())
            ));
            current = parent;
        };
        let texts = texts.join(", ");
        let narrow = format!("select s.key, {texts} from {from}{known} limit {}", PAGE + 1);
        let wide = format!("select distinct s.key, {texts} from {from}{known}");
        Ok(WalkQuery { narrow: narrow.into(), wide: wide.into() })
    }

    fn root_pages(&self) -> RootPages {
        let table = ident(self.node(0).table.table());
        let columns = self.key.columns.iter().map(|name| format!("a0.{}", ident(name))).collect::<Vec<_>>();
        let texts = self.key.columns.iter().map(|name| text(0, name)).collect::<Vec<_>>().join(", ");
        let values = (1..=columns.len()).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ");
        let after = format!(" where ({}) > ({values})", columns.join(", "));
        let page = |after: &str| {
            format!("select 0, {texts} from main.{table} as a0{after} order by {} limit {PAGE}", columns.join(", "))
                .into()
        };
        RootPages { first: page(""), next: page(&after) }
    }
}

fn text(level: usize, column: &str) -> String {
    output_text(&format!("a{level}.{}", ident(column)))
}
