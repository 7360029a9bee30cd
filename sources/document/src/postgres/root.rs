//! The query that builds documents: driven from the requested keys, so that an absent row is answered too.

use millstream_core::schema::IndexSchema;
use millstream_core::{Catalog, Result, SourceError};
use millstream_model::{KeyColumns, Text};
use millstream_postgres::quote;

use super::fields::Planner;
use super::sight::SIGHT;
use super::types::cast_type;

/// The root's key, as the index orders it.
pub(super) struct RootKey {
    pub columns: KeyColumns,
    /// The type to read each column's text as.
    pub types: Vec<String>,
    /// True when two texts of one column can mean one value.
    pub respells: Vec<bool>,
}

impl RootKey {
    pub fn of(schema: &IndexSchema, catalog: &Catalog) -> Result<Self> {
        let info = catalog
            .table(&schema.table)
            .ok_or_else(|| SourceError::unknown_column(format!("there is no such table (table={})", schema.table)))?;
        let names: &[Text] = schema.key.as_ref().unwrap_or(&info.primary_key);
        if names.is_empty() {
            return Err(SourceError::setup(format!("the root table has no primary key (table={})", schema.table))
                .with_remedy(format!("ALTER TABLE {} ADD PRIMARY KEY (…)", quote::table(&schema.table))));
        }
        let columns = names.iter().map(|name| {
            info.column(name).ok_or_else(|| {
                SourceError::unknown_column(format!("there is no such column (table={}, column={name})", schema.table))
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            columns: names.iter().cloned().collect(),
            types: columns.iter().map(|column| cast_type(column)).collect(),
            respells: columns.iter().map(|column| !column.one_text_per_value).collect(),
        })
    }
}

/// The build query of an index. Parameters: of each key column a `text[]`, all of one length.
///
/// A row for each key: its number from 1 on, the document or NULL, the row's own key where that is spelled otherwise, and
/// on the first row what the statement could see.
pub(super) fn build_query(schema: &IndexSchema, catalog: &Catalog, key: &RootKey) -> Result<String> {
    let mut planner = Planner::new(catalog);
    let mut root = planner.scope(&schema.table, "")?;
    root.filter(schema.filter.as_ref());
    root.filter_out(schema.delete_when.as_ref());
    let document = planner.object(&mut root, &schema.fields, "fields")?;
    let mut texts = Vec::new();
    let mut conditions = Vec::new();
    for (number, name) in key.columns.iter().enumerate() {
        let column = root.column(name)?.sql;
        conditions.push(format!("{column} = k.v{number}"));
        texts.push(format!("format({}, {column})", quote::literal("%s")));
    }
    let other = texts.iter().enumerate().filter(|(at, _)| key.respells[*at]);
    let other = other.map(|(at, text)| format!("{text} collate \"C\" <> k.s{at} collate \"C\"")).collect::<Vec<_>>();
    let own = match other.as_slice() {
        [] => "null::text[]".to_owned(),
        _ => format!("case when {} then array[{}]::text[] end", other.join(" or "), texts.join(", ")),
    };
    let (sets, names) = requested(key);
    let from = root.from();
    let conditions = conditions.join(" and ");
    // The fence around the row's sub-select keeps one index look-up a key, whatever the planner thinks of the array.
    Ok(format!(
        "select k.n, r.doc, r.own, case when k.n = 1 then {SIGHT} end as sight\n\
         from unnest({sets}) with ordinality as k({names}, n)\n\
         left join lateral (\n  select {document} as doc,\n    {own} as own\n  from {from}\n  where {conditions}\n  offset 0\n\
         ) as r on true"
    ))
}

/// The requested keys as sets of values, and as sets of texts where the text must be compared.
fn requested(key: &RootKey) -> (String, String) {
    let mut sets = Vec::new();
    let mut names = Vec::new();
    for (number, native) in key.types.iter().enumerate() {
        sets.push(format!("${}::text[]::{native}[]", number + 1));
        names.push(format!("v{number}"));
    }
    for number in (0..key.types.len()).filter(|number| key.respells[*number]) {
        sets.push(format!("${}::text[]", number + 1));
        names.push(format!("s{number}"));
    }
    (sets.join(", "), names.join(", "))
}
