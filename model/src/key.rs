use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Text;

/// The names of a key's columns, in the key's order; shared by all keys of a table.
pub type KeyColumns = Arc<[Text]>;

/// A row's primary key: ordered column/value pairs.
///
/// A value is the text that the column's *output function* gives, which is what the log sends and what
/// `format('%s', column)` gives in SQL, so that capture, snapshot and read-back agree on it. Column names are shared, not
/// copied per key. Equal keys have equal columns and equal texts; two spellings of one value are two keys.
#[derive(Clone)]
pub struct RowKey {
    columns: KeyColumns,
    values: SmallVec<[Text; 1]>,
}

impl RowKey {
    /// Pairs each column with its value, in order.
    ///
    /// # Panics
    /// When there are not as many values as columns: the caller read both from one description of the table.
    pub fn new(columns: KeyColumns, values: impl IntoIterator<Item = Text>) -> Self {
        let values: SmallVec<[Text; 1]> = values.into_iter().collect();
        assert_eq!(columns.len(), values.len(), "a key has one value a column");
        Self { columns, values }
    }

    /// The columns' names, in the key's order.
    pub fn columns(&self) -> &KeyColumns {
        &self.columns
    }

    /// The values, in the order of the columns.
    pub fn values(&self) -> &[Text] {
        &self.values
    }

    /// The value of one column, if the key has it.
    pub fn get(&self, column: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == column).map(|(_, value)| value)
    }

    /// Column and value, in the key's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.columns.iter().zip(&self.values).map(|(column, value)| (column.as_str(), value.as_str()))
    }

    /// The same values in another order of columns, which must be a permutation of this key's.
    ///
    /// `None` when a column is missing here.
    pub fn reordered(&self, columns: &KeyColumns) -> Option<Self> {
        if Arc::ptr_eq(&self.columns, columns) || self.columns == *columns {
            return Some(self.clone());
        }
        let values = columns.iter().map(|column| self.get(column).map(Text::from)).collect::<Option<Vec<_>>>()?;
        Some(Self::new(columns.clone(), values))
    }

    /// The document id that sinks see: the value as it is; several are joined by `:`, with `%` and `:` inside them
    /// percent-encoded, so that different keys never share an id.
    pub fn to_id(&self) -> String {
        if let [value] = self.values.as_slice() {
            return value.to_string();
        }
        let mut id = String::with_capacity(self.values.iter().map(|value| value.len() + 1).sum());
        for (at, value) in self.values.iter().enumerate() {
            if at > 0 {
                id.push(':');
            }
            for letter in value.chars() {
                match letter {
                    '%' => id.push_str("%25"),
                    ':' => id.push_str("%3A"),
                    other => id.push(other),
                }
            }
        }
        id
    }

    /// Bytes that the key's values hold, for budgets.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.values.iter().map(|value| value.len()).sum::<usize>()
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && (Arc::ptr_eq(&self.columns, &other.columns) || self.columns == other.columns)
    }
}

impl Eq for RowKey {}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[&str]) -> RowKey {
        let columns: KeyColumns = (0..values.len()).map(|at| Text::from(format!("c{at}"))).collect();
        RowKey::new(columns, values.iter().map(|value| Text::from(*value)))
    }

    #[test]
    fn a_single_value_is_the_id_as_it_is() {
        assert_eq!(key(&["50%:x"]).to_id(), "50%:x");
    }

    #[test]
    fn different_composite_keys_never_share_an_id() {
        assert_eq!(key(&["a:b", "c"]).to_id(), "a%3Ab:c");
        assert_eq!(key(&["a", "b:c"]).to_id(), "a:b%3Ac");
        assert_eq!(key(&["a%3A", ""]).to_id(), "a%253A:");
    }

    #[test]
    fn a_key_is_reordered_by_column() {
        let columns: KeyColumns = vec![Text::from("c1"), Text::from("c0")].into();
        assert_eq!(key(&["a", "b"]).reordered(&columns).map(|key| key.to_id()), Some("b:a".to_owned()));
        let other: KeyColumns = vec![Text::from("c9")].into();
        assert!(key(&["a", "b"]).reordered(&other).is_none());
    }
}
