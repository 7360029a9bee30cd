//! A range of root keys, and the query that builds all documents within it.

use std::sync::Arc;

use millstream_core::schema::{IndexSchema, JoinPair};
use millstream_core::{Catalog, Result, TableInfo};
use millstream_model::{QualifiedTable, Text};
use millstream_postgres::quote;

use super::fields::Planner;
use super::group::Rows;
use super::root::RootKey;
use super::sight::SIGHT;
use super::types::cast_type;

/// The range of a page, from its first key to its last, both within it: in the primary key's order, which is the snapshot's.
#[derive(Clone)]
pub(super) struct Range(Arc<[Bound]>);

/// One column of the key.
struct Bound {
    column: Text,
    first: String,
    last: String,
    /// True when all columns of the type have one order, whatever their collation.
    one_order: bool,
}

/// Types of which all columns have the same order.
const ONE_ORDER: [&str; 9] = ["int2", "int4", "int8", "uuid", "date", "time", "timestamp", "timestamptz", "oid"];

impl Range {
    /// Parameters: the first key's texts in the primary key's order, then the last's. `None` without a primary key.
    fn of(info: &TableInfo) -> Option<Self> {
        let columns = info.primary_key.iter().map(|name| info.column(name)).collect::<Option<Vec<_>>>()?;
        let count = columns.len();
        let bounds = columns.into_iter().enumerate().map(|(at, column)| {
            let native = cast_type(column);
            Bound {
                column: column.name.clone(),
                first: format!("${}::text::{native}", at + 1),
                last: format!("${}::text::{native}", count + at + 1),
                one_order: !column.is_array && ONE_ORDER.contains(&column.base_type.as_str()),
            }
        });
        (count > 0).then(|| Self(bounds.collect()))
    }

    /// The columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &Text> {
        self.0.iter().map(|bound| &bound.column)
    }

    /// True when these pairs tie rows to the whole key of a root, and so the range to the rows.
    pub fn reaches(&self, pairs: &[JoinPair]) -> bool {
        let ties =
            |bound: &Bound| bound.one_order && pairs.iter().filter(|pair| pair.left == bound.column).count() == 1;
        self.0.len() == pairs.len() && self.0.iter().all(ties)
    }

    /// The condition, over what `column` makes of the key's columns.
    pub fn holds(&self, column: impl Fn(&Text) -> String) -> String {
        let join = |texts: Vec<String>| texts.join(", ");
        let columns = join(self.0.iter().map(|bound| column(&bound.column)).collect());
        let first = join(self.0.iter().map(|bound| bound.first.clone()).collect());
        let last = join(self.0.iter().map(|bound| bound.last.clone()).collect());
        match self.0.len() {
            1 => format!("{columns} >= {first} and {columns} <= {last}"),
            _ => format!("({columns}) >= ({first}) and ({columns}) <= ({last})"),
        }
    }
}

/// A query over a range of root keys.
pub(super) struct RangeQuery {
    /// A row for each document: what the statement could see, the document, the key's texts in the order of the index. Without
    /// any there is one row that has only the first.
    pub sql: Arc<str>,
    /// The columns of its parameters: the first key's, then the last's.
    pub columns: Vec<Text>,
}

/// The query that builds the documents of a page; `None` where there is no such query: then each is built by its key.
pub(super) fn range_query(schema: &IndexSchema, catalog: &Catalog, key: &RootKey) -> Result<Option<RangeQuery>> {
    let Some(range) = catalog.table(&schema.table).and_then(Range::of) else { return Ok(None) };
    // A page's keys follow each other in the primary key's order: other columns would bound another set of rows.
    if !range.columns().all(|name| key.columns.contains(name)) || range.columns().count() != key.columns.len() {
        return Ok(None);
    }
    // An author's table of such a name would hide ours within its own sub-select.
    if catalog.tables.keys().any(is_like_an_alias) {
        return Ok(None);
    }
    let mut planner = Planner::over_range(catalog, range.clone());
    let mut root = planner.scope(&schema.table, "")?;
    root.filter(schema.filter.as_ref());
    root.filter_out(schema.delete_when.as_ref());
    let holds = range.holds(|name| root.own(name));
    root.condition(holds);
    root.rows = Rows::Root;
    root.make_joinable();
    let document = planner.object(&mut root, &schema.fields, "fields")?;
    let (mut texts, mut names) = (Vec::new(), Vec::new());
    for name in key.columns.iter() {
        texts.push(format!("format({}, {})", quote::literal("%s"), root.column(name)?.sql));
        names.push(format!("r.k{}", names.len()));
    }
    let texts = texts.iter().enumerate().map(|(at, text)| format!("{text} as k{at}")).collect::<Vec<_>>().join(", ");
    let (from, tail, names) = (root.from(), root.tail(), names.join(", "));
    let sql = format!(
        "select s.sight, r.doc, {names} from (select {SIGHT} as sight offset 0) as s\n\
         left join (select {document} as doc, {texts}\nfrom {from}{tail}\noffset 0) as r on true"
    );
    Ok(Some(RangeQuery { sql: sql.into(), columns: range.columns().cloned().collect() }))
}

/// True for a table that is named as this crate names its aliases: a letter and a number.
fn is_like_an_alias(table: &QualifiedTable) -> bool {
    let name = table.table();
    name.strip_prefix(['t', 'd', 'j'])
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|letter| letter.is_ascii_digit()))
}
