//! Document ids back into keys.

use millstream_core::{ColumnInfo, Result, SourceError};
use millstream_model::{KeyColumns, QualifiedTable, RowKey, Text};
use millstream_postgres::{classify, sqlx};

/// The key that an id spells.
pub(super) fn from_id(columns: &KeyColumns, id: &str) -> Result<RowKey> {
    if columns.len() == 1 {
        return Ok(RowKey::new(columns.clone(), [Text::from(id)]));
    }
    let values: Vec<Text> =
        id.split(':').map(|part| Text::from(part.replace("%3A", ":").replace("%25", "%"))).collect();
    if values.len() != columns.len() {
        let names = columns.join(":");
        return Err(SourceError::query(format!("the id has not one part a key column (key={names}, id={id})"))
            .with_remedy("join the parts by ':', with '%' as %25 and ':' as %3A inside them"));
    }
    Ok(RowKey::new(columns.clone(), values))
}

/// What a part of an id that its column's type does not take is told.
pub(super) fn refused(table: &QualifiedTable, column: &ColumnInfo, value: &str, error: sqlx::Error) -> SourceError {
    let (name, native) = (&column.name, &column.native_type);
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    match code.starts_with("22") {
        true => SourceError::query(format!("`{value}` is no {native}, as the key column `{name}` of {table} holds")),
        false => classify("can't look at the key", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_spelled() {
        let columns: KeyColumns = vec![Text::from("a"), Text::from("b")].into();
        for values in [["a:b", "c"], ["%3A", "%253A"], ["", ":%"]] {
            let key = RowKey::new(columns.clone(), values.map(Text::from));
            assert_eq!(from_id(&columns, &key.to_id()).unwrap(), key);
        }
        assert!(from_id(&columns, "a:b:c").is_err());
    }

    #[test]
    fn a_single_part_is_taken_as_it_is() {
        let columns: KeyColumns = vec![Text::from("a")].into();
        assert_eq!(from_id(&columns, "50%:3A").unwrap().to_id(), "50%:3A");
    }
}
