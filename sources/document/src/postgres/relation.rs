//! Rows of another table as objects.

use millstream_core::Result;
use millstream_core::schema::{Cardinality, Relation};
use millstream_postgres::quote;

use super::concat::Concat;
use super::fields::{Planner, null_members};
use super::path::{Reached, Term, limit, order, order_by, output_text, ties_key};
use super::scope::Scope;

impl<'a> Planner<'a> {
    /// An object, an array or an object of objects; never NULL.
    pub fn relation(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        let (found, none) = match (relation.cardinality, &relation.key_by) {
            (Cardinality::HasMany, None) => (self.array(row, relation, at)?, "[]"),
            (Cardinality::HasMany, Some(column)) => (self.keyed(row, relation, column, at)?, "{}"),
            _ => {
                let at = format!("{at}.fields");
                let show = |planner: &mut Self, far: &mut Scope<'a>| planner.object(far, &relation.fields, &at);
                (self.one(row, relation, &at, show)?, "null")
            }
        };
        Ok(when(row, relation, &found, none))
    }

    /// The members of a related row, to stand among those of `row`; never NULL.
    pub fn inline(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        let at = format!("{at}.fields");
        let show = |planner: &mut Self, far: &mut Scope<'a>| {
            let mut text = Concat::default();
            planner.members(far, &relation.fields, &at, &mut text)?;
            Ok(text.into_sql())
        };
        let found = self.one(row, relation, &at, show)?;
        Ok(when(row, relation, &found, &null_members(&relation.fields)))
    }

    /// What `show` makes of the first far row, or NULL of none.
    fn one(
        &mut self,
        row: &mut Scope<'a>,
        relation: &'a Relation,
        at: &str,
        show: impl Fn(&mut Self, &mut Scope<'a>) -> Result<String>,
    ) -> Result<String> {
        // What the author's `when` leaves out is not looked up.
        if row.is_joinable()
            && relation.when.is_none()
            && relation.path.through.is_empty()
            && let Some(found) = self.joined(row, relation, at, &show)?
        {
            return Ok(found);
        }
        let mut reached = self.reach(row, &relation.path, at)?;
        let text = show(self, &mut reached.far)?;
        first(reached, relation, &text)
    }

    /// The same of a row that is joined to `row`; `None` where only its text gives it an order.
    fn joined(
        &mut self,
        row: &mut Scope<'a>,
        relation: &'a Relation,
        at: &str,
        show: &impl Fn(&mut Self, &mut Scope<'a>) -> Result<String>,
    ) -> Result<Option<String>> {
        let path = &relation.path;
        let mut far = self.scope(&path.table, at)?;
        far.filter(path.filter.as_ref());
        let mut terms = relation.order_by.iter().map(|order| (&order.column, order.descending)).collect::<Vec<_>>();
        let key = far.info().primary_key.iter().filter(|name| !terms.iter().any(|(known, _)| known == name));
        let key = key.map(|name| (name, false)).collect::<Vec<_>>();
        terms.extend(key);
        if terms.is_empty() {
            return Ok(None);
        }
        let order = if ties_key(&far, path) {
            String::new()
        } else {
            let terms = terms.iter().map(|(name, descending)| Term { sql: far.own(name), descending: *descending });
            format!(" {}", order_by(&terms.collect::<Vec<_>>(), ""))
        };
        let mut ties = Vec::new();
        let mut is_there = String::new();
        for pair in &path.join {
            is_there = far.column(&pair.right)?.sql;
            ties.push(format!("{} = {}", far.own(&pair.right), row.column(&pair.left)?.sql));
        }
        far.make_joinable();
        let text = show(self, &mut far)?;
        let lateral = far.lateral(&ties, &format!("{order} limit 1"));
        row.join(&format!(" left join lateral {lateral} on true{}", far.tail()));
        // It was found by an equality: NULL only where there is no row.
        Ok(Some(format!("case when {is_there} is not null then {text} end")))
    }

    fn array(&mut self, row: &mut Scope<'a>, relation: &'a Relation, at: &str) -> Result<String> {
        if relation.limit.is_none()
            && let Some(number) = self.group(row, &relation.path, at)?
        {
            let group = &mut row.groups[number];
            let object = self.object(group.far(), &relation.fields, &format!("{at}.fields"))?;
            let terms = order(group.far(), &relation.order_by)?;
            return Ok(group.output(format!("'[' || string_agg({object}, ',' {}) || ']'", order_by(&terms, &object))));
        }
        let mut reached = self.reach(row, &relation.path, at)?;
        if self.range.is_some() && relation.limit.is_none() {
            // Every row is shown: what it is joined to is looked up for none in vain.
            reached.far.make_joinable();
        }
        let object = self.object(&mut reached.far, &relation.fields, &format!("{at}.fields"))?;
        let terms = reached.order(&relation.order_by)?;
        Ok(array_of(&object, &terms, &reached.from(), relation.limit))
    }

    fn keyed(&mut self, row: &mut Scope<'a>, relation: &'a Relation, column: &str, at: &str) -> Result<String> {
        let mut reached = self.reach(row, &relation.path, at)?;
        let object = self.object(&mut reached.far, &relation.fields, &format!("{at}.fields"))?;
        let key = output_text(&mut reached.far, column)?;
        let order = order_by(&reached.order(&relation.order_by)?, &object);
        let limit = limit(relation.limit);
        let from = reached.from();
        let order_rows = if limit.is_empty() { "" } else { " order by n" };
        // Numbered first: the limit counts rows without a key and double ones; of those the last stays.
        let rows =
            format!("select {key} as k, {object} as d, row_number() over ({order}) as n {from}{order_rows}{limit}");
        Ok(format!(
            "(select '{{' || string_agg(to_json(r.k)::text || ':' || r.d, ',' order by r.n) || '}}' from (\
             select distinct on (q.k collate \"C\") q.k, q.d, q.n from ({rows}) as q where q.k is not null \
             order by q.k collate \"C\", q.n desc) as r)"
        ))
    }
}

/// `[…]` of these texts in order, or NULL of none.
pub(super) fn array_of(text: &str, terms: &[Term], from: &str, rows: Option<u64>) -> String {
    if rows.is_none() {
        return format!("(select '[' || string_agg({text}, ',' {}) || ']' {from})", order_by(terms, text));
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
        "(select '[' || string_agg(r.d, ',' {order}) || ']' from (select {text} as d{outputs} {from} {inner}{}) as r)",
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
