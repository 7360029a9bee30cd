//! The way from a row to rows of another table.

use millstream_core::Result;
use millstream_core::schema::{JoinPair, Order, Path};
use millstream_model::Text;

use super::fields::Planner;
use super::scope::Scope;

/// A path laid out: the far table, the tables in between, and what ties them to the row where it begins.
pub(super) struct Reached<'a> {
    /// The far table.
    pub far: Scope<'a>,
    between: Vec<Scope<'a>>,
    /// Of each table in between and at last the far one: what ties it to the one before.
    ties: Vec<Tie>,
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
        let far = self.far.from();
        let Some((first, rest)) = self.between.split_first() else {
            return format!("from {far} where {}", last.condition());
        };
        // A cross join is one in this very order: from the row outwards, each table by the one before.
        let joined = rest
            .iter()
            .zip(&inner[1..])
            .map(|(scope, tie)| format!(" cross join {} on {}", scope.from(), tie.condition()));
        let chain = format!("{}{}", first.from(), joined.collect::<String>());
        let begin = inner[0].condition();
        if self.distinct {
            // With `exists` SQLite reads through the far table for each row.
            let (lefts, rights) = (last.lefts.join(", "), last.rights.join(", "));
            format!("from {far} where ({rights}) in (select {lefts} from {chain} where {begin})")
        } else {
            format!("from {chain} cross join {far} on {} where {begin}", last.condition())
        }
    }

    /// True when at most one row can be found, by its key.
    pub fn is_single(&self, path: &Path) -> bool {
        let key = &self.far.info().primary_key;
        let found = |column: &Text| path.join.iter().any(|pair| pair.right == *column);
        self.between.is_empty() && !key.is_empty() && key.iter().all(found)
    }

    /// What the far rows are ordered by: the author's columns, then the far key.
    pub fn order(&mut self, order_by: &[Order]) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        for order in order_by {
            terms.extend(self.far.column(&order.column)?.terms(order.descending));
        }
        for name in &self.far.info().primary_key {
            if !order_by.iter().any(|order| order.column == *name) {
                terms.extend(self.far.column(name)?.terms(false));
            }
        }
        Ok(terms)
    }
}

/// One expression to order by.
pub(super) struct Term {
    pub sql: String,
    pub descending: bool,
}

/// `order by …`; without terms by the text `shown`, so that the order is always one. NULLs stand where Postgres has them.
pub(super) fn order_by(terms: &[Term], shown: &str) -> String {
    if terms.is_empty() {
        return format!("order by {shown}");
    }
    let terms = terms.iter().map(|term| {
        let direction = if term.descending { "desc nulls first" } else { "nulls last" };
        format!("{} {direction}", term.sql)
    });
    format!("order by {}", terms.collect::<Vec<_>>().join(", "))
}

/// What ties a table to the one before: columns that are equal.
struct Tie {
    lefts: Vec<String>,
    rights: Vec<String>,
}

impl Tie {
    fn condition(&self) -> String {
        let pairs = self.rights.iter().zip(&self.lefts).map(|(right, left)| format!("{right} = {left}"));
        pairs.collect::<Vec<_>>().join(" and ")
    }
}

fn tie<'a>(left: &mut Scope<'a>, right: &mut Scope<'a>, pairs: &[JoinPair]) -> Result<Tie> {
    let mut tie = Tie { lefts: Vec::new(), rights: Vec::new() };
    for pair in pairs {
        tie.lefts.push(left.column(&pair.left)?.sql);
        tie.rights.push(right.column(&pair.right)?.sql);
    }
    Ok(tie)
}

/// A number as an SQL literal, for limits.
pub(super) fn limit(rows: Option<u64>) -> String {
    // Beyond the server's own largest number it limits nothing.
    rows.map_or_else(String::new, |rows| format!(" limit {}", rows.min(i64::MAX as u64)))
}

/// The text that a key or a link shows, NULL for NULL; told apart letter by letter, which a cast alone does not do to a column with
/// a collation of its own.
pub(super) fn output_text(column: &str) -> String {
    format!("(cast({column} as text) collate binary)")
}
