//! The statements that read a table. Pure.

use super::catalog::SourceColumn;
use super::cell::Cell;
use super::mark::{Phase, Place};
use super::table::{Log, Table};

/// A statement and its parameters.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub sql: String,
    pub values: Vec<Cell>,
}

impl Table {
    /// The greatest value of a cursor.
    pub(super) fn newest(&self, table: &str, cursor: &SourceColumn) -> String {
        let column = self.dialect.ident(&cursor.name);
        let value = self.dialect.value(&column, &cursor.native);
        format!("select {value} from {table} where {column} is not null order by {column} desc limit 1")
    }

    /// A page of rows: whether each is there, its cursor if it has one to tell, its key, its columns.
    pub(super) fn page(&self, cursor: &SourceColumn, place: &Place, rows: usize) -> Query {
        let mut order: Vec<&SourceColumn> = Vec::new();
        if place.phase != Phase::Nulls {
            order.push(cursor);
        }
        order.extend(&self.key);
        let mut conditions = self.has_key();
        if place.phase == Phase::Nulls {
            conditions.push(format!("{} is null", self.dialect.ident(&cursor.name)));
        }
        let flag = match &self.live {
            Some(live) => format!("case when {live} then '1' else '0' end"),
            None => "'1'".to_owned(),
        };
        let shown = std::iter::once(cursor).chain(&self.key).chain(&self.columns).collect::<Vec<_>>();
        let select = format!("select {flag}, {} from {}", self.values(&shown, ""), self.name);
        self.in_order(select, conditions, &order, place, rows)
    }

    /// A page of the delete log: cursor and key of rows that are not there.
    pub(super) fn log_page(&self, log: &Log, place: &Place, rows: usize) -> Query {
        let order: Vec<&SourceColumn> = std::iter::once(&log.cursor).chain(&log.key).collect();
        let dialect = self.dialect;
        let pairs = self.key.iter().zip(&log.key);
        let same = pairs
            .map(|(key, gone)| format!("{} = {}.{}", dialect.ident(&key.name), log.name, dialect.ident(&gone.name)));
        // Columns without a table are those of the table that is read: a fragment says nothing of any other.
        let mut same: Vec<String> = same.map(|pair| pair.to_owned()).collect();
        same.extend(self.live.clone());
        let mut conditions: Vec<String> =
            log.key.iter().map(|key| format!("{} is not null", dialect.ident(&key.name))).collect();
        conditions.push(format!("not exists (select 1 from {} where {})", self.name, same.join(" and ")));
        let select = format!("select {} from {}", self.values(&order, ""), log.name);
        self.in_order(select, conditions, &order, place, rows)
    }

    /// The keys of all rows that are there.
    pub(super) fn keys(&self) -> String {
        let key: Vec<&SourceColumn> = self.key.iter().collect();
        format!("select {} from {}{}", self.values(&key, ""), self.name, self.all_live())
    }

    /// All rows that are there: key, columns.
    pub(super) fn everything(&self) -> String {
        let shown: Vec<&SourceColumn> = self.key.iter().chain(&self.columns).collect();
        format!("select {} from {}{}", self.values(&shown, ""), self.name, self.all_live())
    }

    fn all_live(&self) -> String {
        let conditions: Vec<String> = self.has_key().into_iter().chain(self.live.clone()).collect();
        if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) }
    }

    /// A row that no key finds is no record.
    fn has_key(&self) -> Vec<String> {
        let nullable = self.key.iter().filter(|column| column.nullable);
        nullable.map(|column| format!("{} is not null", self.dialect.ident(&column.name))).collect()
    }

    fn values(&self, columns: &[&SourceColumn], table: &str) -> String {
        let value = |column: &&SourceColumn| {
            self.dialect.value(&format!("{table}{}", self.dialect.ident(&column.name)), &column.native)
        };
        columns.iter().map(value).collect::<Vec<_>>().join(", ")
    }

    /// What stands behind a place, in order.
    fn in_order(
        &self,
        select: String,
        mut conditions: Vec<String>,
        columns: &[&SourceColumn],
        place: &Place,
        rows: usize,
    ) -> Query {
        let dialect = self.dialect;
        let order = self.order(columns);
        let mut values = Vec::new();
        if place.last.len() == order.len() {
            conditions.push(dialect.behind(&order, 1));
            values.extend(dialect.behind_values(&place.last));
        } else if let Some(from) = &place.from {
            let (name, native) = &order[0];
            conditions.push(format!("{name} >= {}", dialect.parameter(1, native)));
            values.push(from.clone());
        }
        if let Some(until) = &place.until {
            let (name, native) = &order[0];
            conditions.push(format!("{name} < {}", dialect.parameter(values.len() + 1, native)));
            values.push(until.clone());
        }
        // Without a bound, rows whose cursor is NULL would come first or last, as the database likes.
        if matches!(place.phase, Phase::Rows | Phase::Log | Phase::Future) {
            conditions.push(format!("{} is not null", order[0].0));
        }
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) };
        let sql = format!("{select}{wanted} order by {} limit {rows}", names.join(", "));
        Query { sql, values }
    }
}
