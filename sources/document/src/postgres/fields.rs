//! The fields of one row as the inside of a JSON object.

use millstream_core::schema::{Field, FieldKind};
use millstream_core::{Catalog, Result};
use millstream_model::QualifiedTable;

use super::concat::{Concat, json_name};
use super::range::Range;
use super::scope::Scope;
use super::value::{Shown, geo_point, one_line};

/// Turns a schema into SQL: gives out aliases, and looks names up in the catalog.
pub(super) struct Planner<'a> {
    catalog: &'a Catalog,
    aliases: usize,
    /// Where one is set, whatever can be is joined to the rows of a whole range of roots.
    pub range: Option<Range>,
}

impl<'a> Planner<'a> {
    pub fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, aliases: 0, range: None }
    }

    /// For a query over a range of roots.
    pub fn over_range(catalog: &'a Catalog, range: Range) -> Self {
        Self { range: Some(range), ..Self::new(catalog) }
    }

    pub fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// A number that no alias has yet.
    pub fn number(&mut self) -> usize {
        self.aliases += 1;
        self.aliases - 1
    }

    /// One more occurrence of a table.
    pub fn scope(&mut self, table: &'a QualifiedTable, at: &str) -> Result<Scope<'a>> {
        let alias = format!("t{}", self.number());
        Scope::new(self.catalog, table, alias, at)
    }

    /// An object of these fields: text that is never NULL.
    pub fn object(&mut self, row: &mut Scope<'a>, fields: &'a [Field], at: &str) -> Result<String> {
        let mut text = Concat::default();
        text.text("{");
        self.members(row, fields, at, &mut text)?;
        text.text("}");
        Ok(text.into_sql())
    }

    /// The inside of an object: `"a":1,"b":2`.
    pub fn members(&mut self, row: &mut Scope<'a>, fields: &'a [Field], at: &str, text: &mut Concat) -> Result<()> {
        let shown = fields.iter().filter(|field| !is_empty(field));
        for (number, field) in shown.enumerate() {
            if number > 0 {
                text.text(",");
            }
            self.member(row, field, &format!("{at}.{}", field.name), text)?;
        }
        Ok(())
    }

    fn member(&mut self, row: &mut Scope<'a>, field: &'a Field, at: &str, text: &mut Concat) -> Result<()> {
        if let FieldKind::Relation(relation) = &field.kind
            && relation.inline
        {
            let members = self.inline(row, relation, at)?;
            text.sql(members);
            return Ok(());
        }
        text.text(&json_name(&field.name));
        text.text(":");
        match &field.kind {
            FieldKind::Column { column, value, transforms, default } => {
                let shown = Shown::column(row.column(column)?, &value.field_type, transforms);
                text.sql(shown.or(default.as_ref()));
            }
            FieldKind::Sql { sql, value, transforms, default } => {
                text.sql(Shown::sql(row.fragment(sql), value, transforms).or(default.as_ref()));
            }
            FieldKind::Constant { value, .. } => text.text(&one_line(&value.0)),
            FieldKind::Object(fields) => {
                text.text("{");
                self.members(row, fields, &format!("{at}.object"), text)?;
                text.text("}");
            }
            FieldKind::GeoPoint(source) => text.sql(geo_point(source, |name| row.column(name))?),
            FieldKind::Relation(relation) => text.sql(self.relation(row, relation, at)?),
            FieldKind::Aggregate(aggregate) => text.sql(self.aggregate(row, aggregate, at)?),
        }
        Ok(())
    }
}

/// True for a field that shows nothing: fields inlined from a relation that has none.
fn is_empty(field: &Field) -> bool {
    matches!(&field.kind, FieldKind::Relation(relation) if relation.inline && relation.fields.iter().all(is_empty))
}

/// What an inlined relation shows where there is no row: every name with null.
pub(super) fn null_members(fields: &[Field]) -> String {
    let mut members = Vec::new();
    add_null_members(fields, &mut members);
    members.join(",")
}

fn add_null_members(fields: &[Field], members: &mut Vec<String>) {
    for field in fields {
        match &field.kind {
            FieldKind::Relation(relation) if relation.inline => add_null_members(&relation.fields, members),
            _ => members.push(format!("{}:null", json_name(&field.name))),
        }
    }
}
