use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_core::{Diagnostic, Result, SourceError};
use millstream_model::{ChangedRow, IndexName, RowKey, Sight};

/// Finds and builds documents.
///
/// Called by many actors at once; each call uses a connection of its own. Errors name what to do: `Connection` is tried
/// again in place, `Query` is bisected to single documents, `Setup`, `UnknownColumn` and `Unsupported` hold the index.
#[async_trait]
pub trait DocumentBuilder: Send + Sync {
    /// Which documents of `index` these rows affect, in pages.
    ///
    /// Row numbers are places in `rows`. A row in [`ResolvedPage::not_yet`] could not be resolved because its transaction is not
    /// visible to reads: all of it must be asked again (pages given for it are right, but not all). One query per hop and
    /// batch; a wide fan-out comes in many pages. A truncate of a related table touches every document.
    fn resolve<'a>(&'a self, index: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>>;

    /// Reads documents of `index` by their root keys, in one statement.
    ///
    /// Answers one [`Built`] a key, in order, and what the statement could see. It starts after the call: all that was visible
    /// at the time of the call is seen. Dropping the future is safe.
    ///
    /// # Errors
    /// The whole statement failed, and says nothing of any key.
    async fn build_many(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading>;

    /// The same for keys that follow each other in the root's order, as a snapshot lists them: what a backfill reads.
    ///
    /// A source that reads a range of keys faster than single ones answers this in one statement over the range from the first
    /// key to the last; what else is in the range is not asked for. By default [`build_many`](Self::build_many).
    ///
    /// # Errors
    /// As `build_many`'s. After a `Query` error the same keys are asked for by `build_many`.
    async fn build_page(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        self.build_many(index, keys).await
    }

    /// What keeps `index` from being built right now: rights, tables, columns, types. Empty: nothing.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn inspect(&self, index: &IndexName) -> Result<Vec<Diagnostic>>;

    /// The root key that a document's id spells: for people who have an id at hand.
    ///
    /// # Errors
    /// When the id spells none, or the source can't be asked.
    async fn key_from_id(&self, index: &IndexName, id: &str) -> Result<RowKey> {
        let message = format!("this source reads no keys out of ids (index={index}, id={id})");
        Err(SourceError::setup(message))
    }

    /// How one document is built, for people to run themselves: a query, with comments on its parameters. `None`: there is nothing
    /// of the kind.
    ///
    /// # Errors
    /// When the index does not fit the source, or it can't be asked.
    async fn explain(&self, _index: &IndexName, _key: &RowKey) -> Result<Option<String>> {
        Ok(None)
    }
}

/// Some of the documents that rows touch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedPage {
    /// Row number and document key.
    pub touches: Vec<(usize, RowKey)>,
    /// Numbers of rows that a read could not see yet.
    pub not_yet: Vec<usize>,
}

/// One read of several documents.
#[derive(Debug)]
pub struct Reading {
    /// One for each requested key, in order.
    pub built: Vec<Built>,
    /// What the read could see.
    pub sight: Arc<dyn Sight>,
}

/// What a read found under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The document, as JSON text without line breaks.
    Document(String),
    /// No such document.
    Absent,
    /// No document under this spelling of the key, but one under another (`1.0` and `1.00`): touch that one.
    Respelled(RowKey),
}
