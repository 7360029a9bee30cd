//! The way from a row to rows of another table.

use millstream_core::Result;
use millstream_core::schema::{JoinPair, Order, Path};
use millstream_model::Text;
use millstream_postgres::quote;

use super::fields::Planner;
use super::scope::Scope;

/// A path laid out: the far table, the tables in between, and what ties them to the row where it begins.
pub(super) struct Reached<'a> {
    /// The far table.
    pub far: Scope<'a>,
    between: Vec<Scope<'a>>,
    /// Of each table in between and at last the far one: what ties it to the one before.
    ties: Vec<String>,
    distinct: bool,
}

impl<'a> Planner<'a> {
    pub fn reach(&mut self, row: &mut Scope<'a>, path: &'a Path, at: &str) -> Result<Reached<'a>> {
        let mut between: Vec<Scope<'a>> = Vec::new();
        let mut ties = Vec::new();
        for (number, through) in path.through.iter().enumerate() {
            let mut next = self.scope(&through.table, &format!("{at}.through[{number}]"))?;
            next.filter(through.filter.as_ref());
            ties.push(tie(between.last_mut().unwrap_or(row), &mut next, &through.join)?);
            between.push(next);
        }
        let mut far = self.scope(&path.table, at)?;
        far.filter(path.filter.as_ref());
        let pairs = if path.through.is_empty() { &path.join } else { &path.to };
        ties.push(tie(between.last_mut().unwrap_or(row), &mut far, pairs)?);
        Ok(Reached { far, between, ties, distinct: path.distinct })
    }
}

impl Reached<'_> {
    /// `from … where …`, once the far row's columns have all been asked for.
    pub fn from(&self) -> String {
        let (last, inner) = self.ties.split_last().expect("a path has its far table");
        let far = format!("{}{}", self.far.from(), self.far.tail());
        let Some((first, rest)) = self.between.split_first() else {
            return format!("from {far} where {last}");
        };
        let joined = rest.iter().zip(&inner[1..]).map(|(scope, tie)| format!(" join {} on {tie}", scope.from()));
        let chain = format!("{}{}", first.from(), joined.collect::<String>());
        let begin = &inner[0];
        if self.distinct {
            format!("from {far} where exists (select from {chain} where {begin} and {last})")
        } else {
            format!("from {chain} join {far} on {last} where {begin}")
        }
    }

    /// True when at most one row can be found, by its key.
    pub fn is_single(&self, path: &Path) -> bool {
        self.between.is_empty() && ties_key(&self.far, path)
    }

    /// What the far rows are ordered by: the author's columns, then the far key.
    pub fn order(&mut self, order_by: &[Order]) -> Result<Vec<Term>> {
        order(&mut self.far, order_by)
    }
}

/// What rows are ordered by: the author's columns, then their key.
pub(super) fn order(far: &mut Scope<'_>, order_by: &[Order]) -> Result<Vec<Term>> {
    let mut terms = Vec::new();
    for order in order_by {
        let column = far.column(&order.column)?;
        terms.push(Term { sql: column.sql, descending: order.descending });
    }
    for name in &far.info().primary_key {
        if !order_by.iter().any(|order| order.column == *name) {
            terms.push(Term { sql: far.column(name)?.sql, descending: false });
        }
    }
    Ok(terms)
}

/// True when the path's pairs tie the far table's whole key.
pub(super) fn ties_key(far: &Scope<'_>, path: &Path) -> bool {
    let key = &far.info().primary_key;
    let found = |column: &Text| path.join.iter().any(|pair| pair.right == *column);
    !key.is_empty() && key.iter().all(found)
}

/// One expression to order by.
pub(super) struct Term {
    pub sql: String,
    pub descending: bool,
}

/// `order by …`; without terms by the text `shown`, so that the order is always one.
pub(super) fn order_by(terms: &[Term], shown: &str) -> String {
    if terms.is_empty() {
        return format!("order by {shown} collate \"C\"");
    }
    let terms = terms.iter().map(|term| format!("{}{}", term.sql, if term.descending { " desc" } else { "" }));
    format!("order by {}", terms.collect::<Vec<_>>().join(", "))
}

fn tie<'a>(left: &mut Scope<'a>, right: &mut Scope<'a>, pairs: &[JoinPair]) -> Result<String> {
    let mut conditions = Vec::new();
    for pair in pairs {
        conditions.push(format!("{} = {}", right.column(&pair.right)?.sql, left.column(&pair.left)?.sql));
    }
    Ok(conditions.join(" and "))
}

/// A number as an SQL literal, for limits.
pub(super) fn limit(rows: Option<u64>) -> String {
    // Beyond the server's own largest number it limits nothing.
    rows.map_or_else(String::new, |rows| format!(" limit {}", rows.min(i64::MAX as u64)))
}

/// The text that a column's output function gives, NULL for NULL.
pub(super) fn output_text(scope: &mut Scope<'_>, column: &str) -> Result<String> {
    let column = scope.column(column)?.sql;
    // Of NULL, format makes an empty text.
    Ok(format!("case when {column} is not null then format({}, {column}) end", quote::literal("%s")))
}
