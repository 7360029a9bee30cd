//! For micro-benches: decoding without a server.

use std::sync::Arc;

use millstream_model::{ChangedRow, Fence, KeyColumns, QualifiedTable, Text};

use super::decode::{Message, Relation};
use super::tables::{Shape, Watched};

/// Makes changed rows of one table out of the decoder's messages.
pub struct Decoder(Shape);

impl Decoder {
    /// For a table of these columns, as its Relation message tells them.
    ///
    /// `None` when the message is none.
    pub fn new(relation: &[u8], table: QualifiedTable, key: &[&str], links: &[&str]) -> Option<Self> {
        let Ok(Message::Relation(relation)) = Message::read(relation) else { return None };
        let columns = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect::<KeyColumns>();
        let Relation { id, .. } = relation;
        let watched = Watched {
            table,
            key: columns(key),
            links: columns(links),
            old_links: Vec::new(),
            old_links_before: None,
            is_root: false,
            leaves: vec![id],
            oid: id,
        };
        Some(Self(Shape::new(Arc::new(watched), &relation)))
    }

    /// The row that a message tells of; `None` when it tells of none.
    pub fn row(&self, message: &[u8]) -> Option<ChangedRow> {
        let row = match Message::read(message) {
            Ok(Message::Insert { new, .. }) => self.0.inserted(&new, Fence::NONE),
            Ok(Message::Update { old, new, .. }) => self.0.updated(old.as_ref(), &new, Fence::NONE),
            Ok(Message::Delete { old, .. }) => self.0.deleted(&old, Fence::NONE),
            _ => return None,
        };
        row.ok().flatten()
    }
}
