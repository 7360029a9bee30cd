//! What a table looks like: its columns and what makes its rows one of a kind.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::Cell;
use super::database::Database;
use super::dialect::Dialect;
use crate::BackendError;
use crate::model::ColumnType;

/// What a database calls a column's type, as far as it matters for comparing and showing its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Native {
    /// A type of Postgres, to cast to.
    Named(String),
    Signed,
    Unsigned,
    /// Digits behind a point.
    Exact,
    /// A floating-point number of single precision.
    Single,
    Bits,
    Bytes,
    Moment,
    Day,
    /// Any other.
    Other,
}

/// What can be said of a column's values, when they are to tell what is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// A moment whose text has a zone, or is in UTC.
    Instant,
    /// A moment in the zone that the settings name.
    Local,
    /// A day in that zone.
    Day,
    Number,
    Text,
    /// SQLite: its values tell.
    Unknown,
    /// No order that would do.
    None,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceColumn {
    pub name: String,
    pub native: Native,
    pub order: Order,
    pub kind: ColumnType,
    pub nullable: bool,
    /// Its place in the primary key, from 1.
    pub primary: Option<u32>,
}

/// A table or view of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Catalog {
    pub columns: Vec<SourceColumn>,
    pub is_view: bool,
    /// The columns of each unique index.
    pub unique: Vec<BTreeSet<String>>,
}

impl Catalog {
    /// Looks a table up; `None`: there is none of this name.
    pub(super) async fn look(
        database: &Database,
        schema: Option<&str>,
        table: &str,
    ) -> Result<Option<Self>, BackendError> {
        let dialect = database.dialect();
        let place = |text: Option<&str>| text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
        let values = [place(schema), place(Some(table))];
        let mut columns = Vec::new();
        let mut is_view = false;
        for row in database.rows(columns_sql(dialect).to_owned(), &values).await? {
            let text = |at: usize| row.get(at).and_then(Cell::text).unwrap_or_default();
            let (native, order, kind) = describe(dialect, &text(1), &text(2));
            let primary = text(4).parse().ok().filter(|place| *place > 0);
            let nullable = text(3) == "1" && primary.is_none_or(|_| dialect == Dialect::Sqlite);
            is_view = text(5) == "1";
            columns.push(SourceColumn { name: text(0), native, order, kind, nullable, primary });
        }
        if columns.is_empty() {
            return Ok(None);
        }
        let mut unique: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in database.rows(unique_sql(dialect).to_owned(), &values).await? {
            let text = |at: usize| row.get(at).and_then(Cell::text).unwrap_or_default();
            unique.entry(text(0)).or_default().insert(text(1));
        }
        Ok(Some(Self { columns, is_view, unique: unique.into_values().collect() }))
    }

    pub(super) fn column(&self, name: &str) -> Option<&SourceColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The names of the primary key's columns, in its order.
    pub(super) fn primary(&self) -> Vec<String> {
        let mut key: Vec<_> = self.columns.iter().filter(|column| column.primary.is_some()).collect();
        key.sort_by_key(|column| column.primary);
        key.into_iter().map(|column| column.name.clone()).collect()
    }

    /// True when no two rows share the values of these columns, or nobody can tell since it is a view.
    pub(super) fn is_unique(&self, key: &[String]) -> bool {
        let holds = |names: &BTreeSet<String>| !names.is_empty() && names.iter().all(|name| key.contains(name));
        let primary: BTreeSet<String> = self.primary().into_iter().collect();
        self.is_view || holds(&primary) || self.unique.iter().any(holds)
    }
}

/// Columns in their order: name, type, what else tells of the type, whether it may be NULL, place in the primary key, whether
/// it is a view's.
fn columns_sql(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "select a.attname::text, format_type(a.atttypid, null)::text, \
             coalesce(b.typname, t.typname)::text, (not a.attnotnull)::int::text, \
             coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)::text, (c.relkind in ('v', 'm', 'f'))::int::text \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid \
             join pg_type t on t.oid = a.atttypid left join pg_type b on b.oid = t.typbasetype \
             left join pg_index i on i.indrelid = c.oid and i.indisprimary \
             where n.nspname = coalesce($1, 'public') and c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f') \
             and a.attnum > 0 and not a.attisdropped order by a.attnum"
        }
        Dialect::MySql => {
            "select cast(c.column_name as char), cast(c.data_type as char), cast(c.column_type as char), \
             if(c.is_nullable = 'YES', '1', '0'), cast(coalesce(k.seq_in_index, 0) as char), \
             if(t.table_type = 'BASE TABLE', '0', '1') \
             from information_schema.columns c join information_schema.tables t \
             on t.table_schema = c.table_schema and t.table_name = c.table_name \
             left join information_schema.statistics k on k.table_schema = c.table_schema \
             and k.table_name = c.table_name and k.column_name = c.column_name and k.index_name = 'PRIMARY' \
             where c.table_schema = coalesce(?, database()) and c.table_name = ? order by c.ordinal_position"
        }
        Dialect::Sqlite => {
            "select c.name, c.type, '', case c.\"notnull\" when 1 then '0' else '1' end, c.pk, \
             case (select t.type from pragma_table_list(?2) t where t.schema = coalesce(?1, 'main')) when 'view' \
             then '1' else '0' end \
             from pragma_table_xinfo(?2, coalesce(?1, 'main')) c where c.hidden in (0, 2, 3) order by c.cid"
        }
    }
}

/// Unique indexes over whole columns: name, column.
fn unique_sql(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "select i.indexrelid::text, a.attname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             join pg_index i on i.indrelid = c.oid cross join unnest(i.indkey::int2[]) with ordinality k (attnum, place) \
             join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum \
             where n.nspname = coalesce($1, 'public') and c.relname = $2 and i.indisunique and i.indisvalid \
             and i.indpred is null and i.indexprs is null and k.place <= i.indnkeyatts"
        }
        // An index over a column's beginning says nothing of whole values; nor does one over an expression.
        Dialect::MySql => {
            "select cast(s.index_name as char), cast(coalesce(s.column_name, '') as char) \
             from information_schema.statistics s \
             where s.table_schema = coalesce(?, database()) and s.table_name = ? and s.non_unique = 0 \
             and not exists (select 1 from information_schema.statistics o where o.table_schema = s.table_schema \
             and o.table_name = s.table_name and o.index_name = s.index_name \
             and (o.sub_part is not null or o.column_name is null))"
        }
        Dialect::Sqlite => {
            "select l.name, coalesce(i.name, '') from pragma_index_list(?2, coalesce(?1, 'main')) l, \
             pragma_index_info(l.name, coalesce(?1, 'main')) i where l.\"unique\" = 1 and l.partial = 0"
        }
    }
}

fn describe(dialect: Dialect, name: &str, more: &str) -> (Native, Order, ColumnType) {
    match dialect {
        Dialect::Postgres => postgres(name, more),
        Dialect::MySql => mysql(name, more),
        Dialect::Sqlite => sqlite(name),
    }
}

/// `base` is the type, or what a domain is made of.
fn postgres(name: &str, base: &str) -> (Native, Order, ColumnType) {
    let (order, kind) = match base {
        "int2" | "int4" | "int8" => (Order::Number, ColumnType::Integer),
        "numeric" => (Order::Number, ColumnType::Decimal),
        "float4" | "float8" => (Order::None, ColumnType::Double),
        "bool" => (Order::None, ColumnType::Boolean),
        "timestamptz" => (Order::Instant, ColumnType::Timestamp),
        "timestamp" => (Order::Local, ColumnType::Timestamp),
        "date" => (Order::Day, ColumnType::Date),
        "json" | "jsonb" => (Order::None, ColumnType::Json),
        "text" | "varchar" | "bpchar" | "name" | "citext" | "uuid" | "bytea" => (Order::Text, ColumnType::Text),
        "xid8" | "oid" | "pg_lsn" => (Order::Text, ColumnType::Text),
        _ => (Order::None, ColumnType::Text),
    };
    let native = if base == "bytea" { Native::Bytes } else { Native::Named(name.to_owned()) };
    (native, order, kind)
}

/// `whole` is the type with its length and sign.
fn mysql(name: &str, whole: &str) -> (Native, Order, ColumnType) {
    let is_unsigned = whole.contains("unsigned");
    match name {
        "tinyint" if whole.starts_with("tinyint(1)") => (Native::Signed, Order::None, ColumnType::Boolean),
        // More than the widest whole number of the store.
        "bigint" if is_unsigned => (Native::Unsigned, Order::Number, ColumnType::Decimal),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
            let native = if is_unsigned { Native::Unsigned } else { Native::Signed };
            (native, Order::Number, ColumnType::Integer)
        }
        "year" => (Native::Unsigned, Order::Number, ColumnType::Integer),
        "decimal" => (Native::Exact, Order::Number, ColumnType::Decimal),
        "float" => (Native::Single, Order::None, ColumnType::Double),
        "double" => (Native::Other, Order::None, ColumnType::Double),
        "bit" => (Native::Bits, Order::None, ColumnType::Integer),
        "timestamp" => (Native::Moment, Order::Instant, ColumnType::Timestamp),
        "datetime" => (Native::Moment, Order::Local, ColumnType::Timestamp),
        "date" => (Native::Day, Order::Day, ColumnType::Date),
        "json" => (Native::Other, Order::None, ColumnType::Json),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
            (Native::Bytes, Order::Text, ColumnType::Text)
        }
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "uuid" => {
            (Native::Other, Order::Text, ColumnType::Text)
        }
        _ => (Native::Other, Order::None, ColumnType::Text),
    }
}

/// A declared type says what is meant, not what is there.
fn sqlite(declared: &str) -> (Native, Order, ColumnType) {
    let declared = declared.to_ascii_uppercase();
    let has = |part: &str| declared.contains(part);
    let kind = if has("BOOL") {
        ColumnType::Boolean
    } else if has("INT") {
        ColumnType::Integer
    } else if has("DEC") || has("NUMERIC") {
        ColumnType::Decimal
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        ColumnType::Double
    } else {
        ColumnType::Text
    };
    (Native::Other, Order::Unknown, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_mysql_are_known_by_their_names() {
        let kind = |name, whole| mysql(name, whole).2;
        assert_eq!(kind("tinyint", "tinyint(1)"), ColumnType::Boolean);
        assert_eq!(kind("tinyint", "tinyint(4)"), ColumnType::Integer);
        assert_eq!(kind("bigint", "bigint(20) unsigned"), ColumnType::Decimal);
        assert_eq!(kind("enum", "enum('a','b')"), ColumnType::Text);
        assert_eq!(mysql("timestamp", "timestamp(6)").1, Order::Instant);
        assert_eq!(mysql("datetime", "datetime(6)").1, Order::Local);
    }

    #[test]
    fn a_key_is_unique_when_it_holds_a_unique_index() {
        let column = |name: &str, primary| SourceColumn {
            name: name.to_owned(),
            native: Native::Other,
            order: Order::Unknown,
            kind: ColumnType::Text,
            nullable: false,
            primary,
        };
        let unique = vec![BTreeSet::from(["mail".to_owned()])];
        let columns = vec![column("b", Some(2)), column("a", Some(1)), column("mail", None)];
        let mut catalog = Catalog { columns, is_view: false, unique };
        let is_unique = |catalog: &Catalog, key: &[&str]| {
            catalog.is_unique(&key.iter().map(|k| (*k).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(catalog.primary(), ["a", "b"]);
        assert!(is_unique(&catalog, &["b", "a"]) && is_unique(&catalog, &["mail", "a"]));
        assert!(!is_unique(&catalog, &["a"]));
        catalog.is_view = true;
        assert!(is_unique(&catalog, &["a"]));
    }
}
