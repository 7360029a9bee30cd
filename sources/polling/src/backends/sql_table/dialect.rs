//! Where the three databases differ, and the one quoting function.

use super::catalog::Native;
use crate::model::ColumnType;

/// Which database is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    MySql,
    Sqlite,
}

impl Dialect {
    /// A name as an identifier, always in quotes.
    pub(super) fn ident(self, name: &str) -> String {
        match self {
            Self::MySql => format!("`{}`", name.replace('`', "``")),
            _ => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// A table in its schema.
    pub(super) fn table(self, schema: Option<&str>, table: &str) -> String {
        let default = match self {
            Self::Postgres => Some("public"),
            Self::MySql => None,
            Self::Sqlite => Some("main"),
        };
        let schema = schema.or(default).map(|schema| format!("{}.", self.ident(schema)));
        format!("{}{}", schema.unwrap_or_default(), self.ident(table))
    }

    /// A column's value as it travels: text by the database's own output function; SQLite's as it is stored.
    pub(super) fn value(self, column: &str, native: &Native) -> String {
        match (self, native) {
            (Self::Sqlite, _) => column.to_owned(),
            (Self::Postgres, Native::Bytes) => format!("encode({column}, 'hex')"),
            (Self::Postgres, _) => format!("case when {column} is not null then format('%s', {column}) end"),
            (Self::MySql, Native::Bytes) => format!("lower(hex({column}))"),
            (Self::MySql, Native::Bits) => format!("cast({column} + 0 as char)"),
            // As a single, it would be shown with six digits.
            (Self::MySql, Native::Single) => format!("cast({column} + 0e0 as char)"),
            (Self::MySql, _) => format!("cast({column} as char)"),
        }
    }

    /// A parameter that is compared with a column, as a value of that column's type and with all its digits.
    pub(super) fn parameter(self, number: usize, native: &Native) -> String {
        match self {
            Self::Sqlite => format!("?{number}"),
            Self::Postgres => match native {
                Native::Bytes => format!("decode(${number}::text, 'hex')"),
                Native::Named(name) => format!("${number}::text::{name}"),
                _ => format!("${number}::text"),
            },
            Self::MySql => match native {
                Native::Bytes => "unhex(?)".to_owned(),
                Native::Bits | Native::Unsigned => "cast(? as unsigned)".to_owned(),
                Native::Signed => "cast(? as signed)".to_owned(),
                Native::Exact => "cast(? as decimal(65, 30))".to_owned(),
                Native::Moment => "cast(? as datetime(6))".to_owned(),
                Native::Day => "cast(? as date)".to_owned(),
                _ => "?".to_owned(),
            },
        }
    }

    /// Rows behind a place in an order: `columns` and the parameters of the place. MySQL repeats parameters: see
    /// [`behind_values`](Self::behind_values).
    pub(super) fn behind(self, columns: &[(String, Native)], first: usize) -> String {
        let parameters: Vec<String> =
            columns.iter().enumerate().map(|(at, (_, native))| self.parameter(first + at, native)).collect();
        if self != Self::MySql {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            return format!("({}) > ({})", names.join(", "), parameters.join(", "));
        }
        // MySQL uses no index for a comparison of rows: the first column alone gives it one.
        let either = (0..columns.len()).map(|at| {
            let same = (0..at).map(|before| format!("{} = {}", columns[before].0, parameters[before]));
            let all: Vec<String> = same.chain([format!("{} > {}", columns[at].0, parameters[at])]).collect();
            format!("({})", all.join(" and "))
        });
        let either: Vec<String> = either.collect();
        format!("{} >= {} and ({})", columns[0].0, parameters[0], either.join(" or "))
    }

    /// The parameters of [`behind`](Self::behind), in the order in which they stand there.
    pub(super) fn behind_values<T: Clone>(self, place: &[T]) -> Vec<T> {
        if self != Self::MySql {
            return place.to_vec();
        }
        let either = (1..=place.len()).flat_map(|upto| place[..upto].iter().cloned());
        place.first().cloned().into_iter().chain(either).collect()
    }

    /// True where a column says that its row is gone.
    pub(super) fn is_set(self, column: &str, native: &Native, kind: ColumnType) -> String {
        match (self, native, kind) {
            (Self::Sqlite, ..) => {
                format!("case typeof({column}) when 'null' then 0 when 'integer' then {column} <> 0 else 1 end")
            }
            (Self::Postgres, _, ColumnType::Boolean) => format!("coalesce({column}, false)"),
            (Self::MySql, Native::Bits | Native::Signed | Native::Unsigned, _)
            | (_, _, ColumnType::Integer | ColumnType::Boolean) => format!("coalesce({column} <> 0, false)"),
            _ => format!("{column} is not null"),
        }
    }

    /// The source's own clock: a moment in UTC.
    pub(super) fn now(self) -> &'static str {
        match self {
            // A standby that has yet to replay what it received knows no later moment than it has replayed.
            Self::Postgres => {
                "select (case when pg_is_in_recovery() \
                 and pg_last_wal_receive_lsn() is distinct from pg_last_wal_replay_lsn() \
                 then coalesce(pg_last_xact_replay_timestamp(), '-infinity') else clock_timestamp() end)::text"
            }
            Self::MySql => "select concat(cast(utc_timestamp(6) as char), 'Z')",
            // Its clock is the machine's: with all digits only from here.
            Self::Sqlite => "select strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p13_any_name_can_be_quoted() {
        assert_eq!(Dialect::MySql.table(Some("a`b"), "c\"d"), "`a``b`.`c\"d`");
        assert_eq!(Dialect::Postgres.table(None, "Sales \"x\""), "\"public\".\"Sales \"\"x\"\"\"");
        assert_eq!(Dialect::Sqlite.table(None, "t"), "\"main\".\"t\"");
    }

    #[test]
    fn a_place_in_mysql_is_spelled_out_so_that_an_index_helps() {
        let columns = [("a".to_owned(), Native::Moment), ("b".to_owned(), Native::Signed)];
        assert_eq!(
            Dialect::MySql.behind(&columns, 1),
            "a >= cast(? as datetime(6)) and ((a > cast(? as datetime(6))) \
             or (a = cast(? as datetime(6)) and b > cast(? as signed)))"
        );
        assert_eq!(Dialect::MySql.behind_values(&["A", "B"]), ["A", "A", "A", "B"]);
        assert_eq!(Dialect::Sqlite.behind(&columns, 3), "(a, b) > (?3, ?4)");
        assert_eq!(Dialect::Sqlite.behind_values(&["A", "B"]), ["A", "B"]);
    }
}
