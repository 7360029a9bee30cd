//! Rows of another table as objects.

use millstream_core::Result;
use millstream_core::schema::{Cardinality, Relation};

use super::concat::Concat;
use super::fields::{Planner, null_members};
use super::path::{Reached, Term, limit, order_by, output_text};
use super::quote;
use super::scope::Scope;

impl<'a> Planner<'a> {
    /// An object, an array or an object of objects; never NULL.
    pub fn relation(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        let (found, none) = match (relation.cardinality, &relation.key_by) {
            (Cardinality::HasMany, None) => (self.array(row, relation, at)?, "[]"),
            (Cardinality::HasMany, Some(column)) => (self.keyed(row, relation, column, at)?, "{}"),
            _ => {
                let mut reached = self.reach(row, &relation.path, at)?;
                let object = self.object(&mut reached.far, &relation.fields, &format!("{at}.fields"))?;
                (first(reached, relation, &object)?, "null")
            }
        };
        Ok(when(row, relation, &found, none))
    }

    /// The members of a related row, to stand among those of `row`; never NULL.
    pub fn inline(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        let mut reached = self.reach(row, &relation.path, at)?;
        let mut text = Concat::default();
        self.members(&mut reached.far, &relation.fields, &format!("{at}.fields"), &mut text)?;
        let found = first(reached, relation, &text.into_sql())?;
        Ok(when(row, relation, &found, &null_members(&relation.fields)))
    }

    fn array(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        let mut reached = self.reach(row, &relation.path, at)?;
        let object = self.object(&mut reached.far, &relation.fields, &format!("{at}.fields"))?;
        let terms = reached.order(&relation.order_by)?;
        Ok(array_of(&object, &terms, &reached.from(), relation.limit))
    }

    fn keyed(&mut self, row: &mut Scope<'a>, relation: &'a Relation, column: &str, at: &str) -> Result<String> {
        let mut reached = self.reach(row, &relation.path, at)?;
        let object = self.object(&mut reached.far, &relation.fields, &format!("{at}.fields"))?;
        let key = output_text(&reached.far.column(column)?.sql);
        let order = order_by(&reached.order(&relation.order_by)?, &object);
        let limit = limit(relation.limit);
        let from = reached.from();
        let order_rows = if limit.is_empty() { "" } else { " order by n" };
        // Numbered first: the limit counts rows without a key and double ones; of those the last stays, since a group shows the
        // other columns of the row with the greatest number.
        let rows =
            format!("select {key} as k, {object} as d, row_number() over ({order}) as n {from}{order_rows}{limit}");
        Ok(format!(
            "(select '{{' || group_concat(json_quote(k) || ':' || d, ',' order by n) || '}}' from (\
             select k, d, max(n) as n from ({rows}) where k is not null group by k collate binary))"
        ))
    }
}

/// `[…]` of these texts in order, or NULL of none.
pub(super) fn array_of(text: &str, terms: &[Term], from: &str, rows: Option<u64>) -> String {
    if rows.is_none() {
        return format!("(select '[' || group_concat({text}, ',' {}) || ']' {from})", order_by(terms, text));
    }
    let outputs = terms.iter().enumerate().map(|(at, term)| format!(", {} as o{at}", term.sql)).collect::<String>();
    let renamed: Vec<Term> = terms
        .iter()
        .enumerate()
        .map(|(at, term)| Term { sql: format!("r.o{at}"), descending: term.descending })
        .collect();
    let order = order_by(&renamed, "r.d");
    let inner = order_by(terms, text);
    format!(
        "(select '[' || group_concat(r.d, ',' {order}) || ']' from (select {text} as d{outputs} {from} {inner}{}) as r)",
        limit(rows)
    )
}

/// The text of the first far row, or NULL of none.
fn first(mut reached: Reached<'_>, relation: &Relation, text: &str) -> Result<String> {
    let order = if reached.is_single(&relation.path) {
        String::new()
    } else {
        format!(" {}", order_by(&reached.order(&relation.order_by)?, text))
    };
    Ok(format!("(select {text} {}{order} limit 1)", reached.from()))
}

/// `none` where there is nothing or the author's `when` does not hold for this row.
fn when<'a>(row: &mut Scope<'a>, relation: &'a Relation, found: &str, none: &str) -> String {
    let none = quote::literal(none);
    match &relation.when {
        None => format!("coalesce({found}, {none})"),
        Some(sql) => format!("coalesce(case when {} then {found} end, {none})", row.fragment(sql)),
    }
}
