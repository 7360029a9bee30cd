//! Rows of other tables grouped once for a whole range of roots, and joined: the shape that a page is built by.
//!
//! What can be grouped is what is proven to give the same text: rows are tied by columns whose equal values have equal texts, and
//! are counted, added up or listed in an order of their own. And it is what a server plans well whatever it knows of the tables:
//! the group's rows are found through at most one list of parents. All else stays a sub-select for each row.

use millstream_core::Result;
use millstream_core::schema::{JoinPair, Path};
use millstream_model::{QualifiedTable, Text};

use super::fields::Planner;
use super::range::Range;
use super::scope::Scope;
use super::types::same_text;

/// How the rows of a scope can be listed for a range of roots.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Rows {
    /// They are the roots within the range: so its filters say.
    Root,
    /// They are tied to the roots by the roots' key, and its filters hold the range.
    Children,
    /// Not by one list.
    #[default]
    Unknown,
}

/// Rows over one path, grouped by what ties them to the row that they belong to.
pub(super) struct Group<'a> {
    path: &'a Path,
    alias: String,
    /// The list of parents and its alias, where the rows are not found by the range itself.
    parents: Option<(String, String)>,
    /// Tables on the way, the far one at last, each with what ties it to the one before.
    steps: Vec<(Scope<'a>, Vec<String>)>,
    /// What the rows are grouped by.
    keys: Vec<String>,
    /// What joins the group to its row.
    ties: Vec<String>,
    outputs: Vec<String>,
}

impl<'a> Group<'a> {
    /// The table whose rows are grouped.
    pub fn far(&mut self) -> &mut Scope<'a> {
        &mut self.steps.last_mut().expect("a path has its far table").0
    }

    /// Adds an aggregate over the rows; the expression that shows it, NULL where there is no row.
    pub fn output(&mut self, sql: String) -> String {
        self.outputs.push(sql);
        format!("{}.v{}", self.alias, self.outputs.len() - 1)
    }

    /// The join, once every column has been asked for.
    pub fn join(&self) -> String {
        let keys = self.keys.iter().enumerate().map(|(at, key)| format!("{key} as k{at}"));
        let outputs = self.outputs.iter().enumerate().map(|(at, sql)| format!("{sql} as v{at}"));
        let list = keys.chain(outputs).collect::<Vec<_>>().join(", ");
        let mut from = self.parents.as_ref().map_or_else(String::new, |(list, _)| list.clone());
        for (scope, ties) in &self.steps {
            if from.is_empty() {
                from = scope.from();
            } else {
                from.push_str(&format!(" join lateral {} on true", scope.lateral(ties, " offset 0")));
            }
            from.push_str(&scope.tail());
        }
        let (alias, keys, ties) = (&self.alias, self.keys.join(", "), self.ties.join(" and "));
        format!("\nleft join (select {list} from {from} group by {keys}) as {alias} on {ties}")
    }
}

impl<'a> Planner<'a> {
    /// The number of `row`'s group of rows over `path`, made if there is none; `None` where they can't be grouped.
    pub fn group(&mut self, row: &mut Scope<'a>, path: &'a Path, at: &str) -> Result<Option<usize>> {
        if path.distinct || !row.is_joinable() {
            return Ok(None);
        }
        let same = |group: &Group<'a>| {
            let other = group.path;
            (&other.table, &other.join, &other.through, &other.to, &other.filter)
                == (&path.table, &path.join, &path.through, &path.to, &path.filter)
        };
        if let Some(known) = row.groups.iter().position(same) {
            return Ok(Some(known));
        }
        let Some(range) = self.range.clone() else { return Ok(None) };
        let first = path.through.first();
        let pairs: &'a [JoinPair] = first.map_or(&path.join, |through| &through.join);
        let table = first.map_or(&path.table, |through| &through.table);
        if !self.is_proven(row.table(), table, pairs) {
            return Ok(None);
        }
        let lefts: Vec<&Text> = pairs.iter().map(|pair| &pair.left).collect();
        let alias = format!("j{}", self.number());
        let parents = match row.rows {
            Rows::Root if range.reaches(pairs) => None,
            Rows::Root | Rows::Children => Some(self.list(row, &lefts)),
            Rows::Unknown => return Ok(None),
        };
        let group = self.lay_out(row, path, at, alias, parents, &range)?;
        row.groups.push(group);
        Ok(Some(row.groups.len() - 1))
    }

    /// True when equal values of all pairs have equal texts, so that grouping by one side is joining by the other.
    fn is_proven(&self, left: &QualifiedTable, right: &QualifiedTable, pairs: &[JoinPair]) -> bool {
        let column = |table, name: &Text| self.catalog().table(table).and_then(|info| info.column(name));
        pairs.iter().all(|pair| match (column(left, &pair.left), column(right, &pair.right)) {
            (Some(left), Some(right)) => same_text(left, right),
            _ => false,
        })
    }

    /// A list of the link values of a scope's rows, each once: `(select …) as d1(k0, k1)`, and its alias.
    fn list(&mut self, row: &Scope<'a>, lefts: &[&Text]) -> (String, String) {
        let unique = row.info().primary_key.iter().all(|name| lefts.contains(&name));
        let distinct = if unique && !row.info().primary_key.is_empty() { "" } else { "distinct " };
        let columns = lefts.iter().map(|name| row.own(name)).collect::<Vec<_>>().join(", ");
        let names = (0..lefts.len()).map(|at| format!("k{at}")).collect::<Vec<_>>().join(", ");
        let alias = format!("d{}", self.number());
        (format!("(select {distinct}{columns} {} offset 0) as {alias}({names})", row.rows_from()), alias)
    }

    fn lay_out(
        &mut self,
        row: &mut Scope<'a>,
        path: &'a Path,
        at: &str,
        alias: String,
        parents: Option<(String, String)>,
        range: &Range,
    ) -> Result<Group<'a>> {
        let mut hops = Vec::new();
        for (number, through) in path.through.iter().enumerate() {
            let at = format!("{at}.through[{number}]");
            hops.push((&through.table, through.filter.as_ref(), through.join.as_slice(), at));
        }
        let pairs = if path.through.is_empty() { &path.join } else { &path.to };
        hops.push((&path.table, path.filter.as_ref(), pairs.as_slice(), at.to_owned()));
        let (mut steps, mut keys, mut ties): (Vec<(Scope<'a>, Vec<String>)>, Vec<_>, Vec<_>) = Default::default();
        for (number, (table, filter, pairs, at)) in hops.into_iter().enumerate() {
            let mut scope = self.scope(table, &at)?;
            scope.filter(filter);
            let mut conditions = Vec::new();
            for (place, pair) in pairs.iter().enumerate() {
                let right = scope.column(&pair.right)?.sql;
                let left = match steps.last_mut() {
                    Some((before, _)) => before.column(&pair.left)?.sql,
                    None => {
                        ties.push(format!("{alias}.k{place} = {}", row.column(&pair.left)?.sql));
                        let listed = parents.as_ref().map(|(_, list)| format!("{list}.k{place}"));
                        keys.push(listed.clone().unwrap_or(right));
                        listed.unwrap_or_default()
                    }
                };
                conditions.push(format!("{} = {left}", scope.own(&pair.right)));
            }
            if number == 0 && parents.is_none() {
                let holds = range.holds(|key| {
                    let pair = pairs.iter().find(|pair| pair.left == *key).expect("the pairs reach the range");
                    scope.own(&pair.right)
                });
                scope.condition(holds);
                if path.through.is_empty() {
                    scope.rows = Rows::Children;
                }
                conditions.clear();
            }
            steps.push((scope, conditions));
        }
        let mut group = Group { path, alias, parents, steps, keys, ties, outputs: Vec::new() };
        group.far().make_joinable();
        Ok(group)
    }
}
