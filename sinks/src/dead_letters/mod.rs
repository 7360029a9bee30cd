//! What could not be built or written, kept for people to see.

mod jsonl;
mod memory;

use async_trait::async_trait;
use indexmap::IndexMap;
use millstream_model::{IndexName, RowKey, Version};
use serde::{Deserialize, Serialize};

pub use self::jsonl::JsonlDeadLetters;
pub use self::memory::MemoryDeadLetters;
use crate::Result;

/// Keeps what could not be built or written.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Writes these, durably, in order.
    ///
    /// # Errors
    /// Nothing is known of any of them: they are written again.
    async fn write(&self, letters: &[DeadLetter]) -> Result<()>;

    /// Looks whether [`write`](Self::write) would go well. Changes nothing, and holds nothing afterwards.
    ///
    /// # Errors
    /// What stands in the way.
    async fn inspect(&self) -> Result<()> {
        Ok(())
    }

    /// Those that are open: written as such and not resolved since, by a letter of the same index, key and sink; of several
    /// the latest. In the order in which they were first opened.
    ///
    /// # Errors
    /// When they can't be read.
    async fn open(&self) -> Result<Vec<DeadLetter>>;

    /// Lets go of what it holds: a run has ended, and another process may begin one. The next call takes it again.
    async fn close(&self) {}
}

/// A document that could not be built or written, or that now could.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Its index.
    pub index: IndexName,
    /// Its root row's key.
    pub key: RowKey,
    /// What failed: `build` or `write`.
    pub kind: String,
    /// Why, without the document's contents.
    pub reason: String,
    /// The sink that rejected it; `None` when it could not be built.
    pub sink: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// The version that failed (or that succeeded).
    pub version: Version,
    /// Whether it still fails.
    pub state: DeadLetterState,
}

/// Whether a dead letter still fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeadLetterState {
    /// It does; the sink keeps what it had.
    Open,
    /// A later version was written.
    Resolved,
}

/// Those that are open of all that were written, in order.
fn fold(letters: Vec<DeadLetter>) -> Vec<DeadLetter> {
    let mut open = IndexMap::new();
    for letter in letters {
        let place = (letter.index.clone(), letter.key.clone(), letter.sink.clone());
        match letter.state {
            DeadLetterState::Open => open.insert(place, letter),
            DeadLetterState::Resolved => open.shift_remove(&place),
        };
    }
    open.into_values().collect()
}

#[cfg(test)]
mod tests {
    use millstream_model::Text;

    use super::*;

    pub(super) fn letter(id: &str, sink: Option<&str>, state: DeadLetterState) -> DeadLetter {
        DeadLetter {
            index: "users".into(),
            key: RowKey::new(vec![Text::from("id")].into(), [Text::from(id)]),
            kind: "write".to_owned(),
            reason: "too \"odd\"".to_owned(),
            sink: sink.map(str::to_owned),
            attempts: 3,
            version: Version(7),
            state,
        }
    }

    #[tokio::test]
    async fn a_letter_is_open_until_one_of_the_same_sink_resolves_it() {
        let letters = MemoryDeadLetters::new();
        let search = letter("1", Some("search"), DeadLetterState::Open);
        let audit = letter("1", Some("audit"), DeadLetterState::Open);
        let later = DeadLetter { attempts: 9, ..audit.clone() };
        letters.write(&[search.clone(), audit, later.clone()]).await.unwrap();
        assert_eq!(letters.open().await.unwrap(), [search, later.clone()]);
        letters.write(&[letter("1", Some("search"), DeadLetterState::Resolved)]).await.unwrap();
        assert_eq!(letters.open().await.unwrap(), [later]);
        assert_eq!(letters.written().len(), 4);
    }
}
