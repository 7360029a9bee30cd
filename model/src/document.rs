use crate::{IndexName, RowKey, Version};

/// Which document: an index and the key of its root row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DocumentId {
    /// The index that the document belongs to.
    pub index: IndexName,
    /// The root row's key, in the order of the index's `key`.
    pub key: RowKey,
}

/// What a document is now.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// The whole document as JSON text on one line, passed untouched from the source to the sink.
    Upsert(String),
    /// There is no such document.
    Tombstone,
}

/// Shows the length only: row contents never reach a log.
impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upsert(text) => write!(f, "Upsert({} bytes)", text.len()),
            Self::Tombstone => f.write_str("Tombstone"),
        }
    }
}

/// A document to write or to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The root row's key.
    pub key: RowKey,
    /// Counts up with every read of this document; sinks with versions keep the highest.
    pub version: Version,
    /// What it is now.
    pub body: Body,
}

impl Document {
    /// Bytes held, for budgets.
    pub fn size(&self) -> usize {
        let body = match &self.body {
            Body::Upsert(text) => text.len(),
            Body::Tombstone => 0,
        };
        size_of::<Self>() + self.key.size() + body
    }
}
