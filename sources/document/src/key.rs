//! Document ids back into keys.

use millstream_core::{Result, SourceError};
use millstream_model::{KeyColumns, RowKey, Text};

/// The key that an id spells: the inverse of [`RowKey::to_id`].
///
/// # Errors
/// When the id has not one part a key column.
pub fn key_from_id(columns: &KeyColumns, id: &str) -> Result<RowKey> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_spelled() {
        let columns: KeyColumns = vec![Text::from("a"), Text::from("b")].into();
        for values in [["a:b", "c"], ["%3A", "%253A"], ["", ":%"]] {
            let key = RowKey::new(columns.clone(), values.map(Text::from));
            assert_eq!(key_from_id(&columns, &key.to_id()).unwrap(), key);
        }
        assert!(key_from_id(&columns, "a:b:c").is_err());
    }

    #[test]
    fn a_single_part_is_taken_as_it_is() {
        let columns: KeyColumns = vec![Text::from("a")].into();
        assert_eq!(key_from_id(&columns, "50%:3A").unwrap().to_id(), "50%:3A");
    }
}
