//! The query that builds documents: driven from the requested keys, so that an absent row is answered too.

use millstream_core::schema::IndexSchema;
use millstream_core::{Catalog, ColumnInfo, Result, SourceError};
use millstream_model::{KeyColumns, Text};

use super::fields::Planner;
use super::path::output_text;

/// The root's key, as the index orders it.
pub(super) struct RootKey {
    pub columns: KeyColumns,
    /// What the catalog knows of each.
    pub infos: Vec<ColumnInfo>,
}

impl RootKey {
    pub fn of(schema: &IndexSchema, catalog: &Catalog) -> Result<Self> {
        let info = catalog
            .table(&schema.table)
            .ok_or_else(|| SourceError::unknown_column(format!("there is no such table (table={})", schema.table)))?;
        let names: &[Text] = schema.key.as_ref().unwrap_or(&info.primary_key);
        if names.is_empty() {
            return Err(SourceError::setup(format!("the root table has no primary key (table={})", schema.table)));
        }
        let infos = names.iter().map(|name| {
            info.column(name).cloned().ok_or_else(|| {
                SourceError::unknown_column(format!("there is no such column (table={}, column={name})", schema.table))
            })
        });
        Ok(Self { columns: names.iter().cloned().collect(), infos: infos.collect::<Result<_>>()? })
    }
}

/// A part of a seed or of a key: the requested ones are one JSON array, of texts, or of arrays of texts if there are several.
pub(super) fn part(alias: &str, number: usize, width: usize) -> String {
    match width {
        1 => format!("{alias}.value"),
        _ => format!("json_extract({alias}.value, '$[{number}]')"),
    }
}

/// The build query of an index. Its parameter: the keys as one JSON array.
///
/// A row for each key: its number from 0 on, the document or NULL, the row's own key as a JSON array where that is spelled
/// otherwise.
pub(super) fn build_query(schema: &IndexSchema, catalog: &Catalog, key: &RootKey) -> Result<String> {
    let mut planner = Planner::new(catalog);
    let mut root = planner.scope(&schema.table, "")?;
    root.filter(schema.filter.as_ref());
    root.filter_out(schema.delete_when.as_ref());
    let document = planner.object(&mut root, &schema.fields, "fields")?;
    let width = key.columns.len();
    let mut conditions = Vec::new();
    let mut texts = Vec::new();
    let mut other = Vec::new();
    for (number, (name, info)) in key.columns.iter().zip(&key.infos).enumerate() {
        let column = root.column(name)?.sql;
        let asked = part("k", number, width);
        // A text is read as the column's own values are: of a number's column one that is no number finds nothing.
        conditions.push(format!("{column} = {asked}"));
        let text = output_text(&column);
        if !info.one_text_per_value {
            other.push(format!("{text} <> {asked}"));
        }
        texts.push(text);
    }
    let from = root.from();
    let conditions = conditions.join(" and ");
    let own = match other.as_slice() {
        [] => "null".to_owned(),
        _ => format!(
            "(select json_array({}) from {from} where {conditions} and ({}))",
            texts.join(", "),
            other.join(" or ")
        ),
    };
    // A scalar sub-query is looked up once a key, whatever the planner thinks of the array.
    Ok(format!(
        "select k.key, (select {document} from {from} where {conditions}) as doc, {own} as own\nfrom json_each(?1) as k"
    ))
}
