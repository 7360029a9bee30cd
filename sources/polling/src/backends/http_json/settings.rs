//! Which addresses are asked, and how their answers are read.

use std::path::PathBuf;
use std::time::Duration;

use millstream_model::Secret;

use crate::model::ColumnType;

/// An API and the lists of it that are streams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpJsonSettings {
    /// Where the paths of streams begin: `https://api.example.com/v1/`.
    pub url: String,
    /// Shown as a bearer token, if there is one.
    pub token: Option<Token>,
    /// Further headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// Time that one request may take, its answer included. Default 30 s. Longer: slow sources get through; shorter: a hanging one is
    /// noticed sooner.
    pub timeout: Duration,
    /// Bytes that one answer may have, once it is unpacked. Default 16 MiB. More: larger pages; fewer: less memory.
    pub body_max: usize,
    /// Items that may be read in one piece, of a reconciled stream. Default 1 000 000. More: larger lists; fewer: less memory.
    pub items_max: usize,
    /// The streams.
    pub streams: Vec<HttpStream>,
}

/// A token and where it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Token {
    /// It is this.
    Value(Secret),
    /// It stands in a file, which is read before every look: whoever renews it writes it there.
    File(PathBuf),
}

/// A list of an API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpStream {
    /// The stream's name: the table's name in the store.
    pub stream: String,
    /// Behind the API's address, with its query: `products?active=true`.
    pub path: String,
    /// Where the list stands in an answer: names with dots between them; empty: the answer is the list.
    pub items: String,
    /// The members by which an item is found.
    pub key: Vec<String>,
    /// Types of members, by name; text otherwise.
    pub columns: Vec<(String, ColumnType)>,
    /// How the answer is split.
    pub pages: Pages,
    /// True: the list is the whole truth, and what is gone from it is withdrawn. False: items are added and corrected.
    pub reconciled: bool,
    /// Asks for what is new only. Says nothing of a reconciled stream.
    pub since: Option<Since>,
}

/// How the answer of a list is split.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// It is not.
    One,
    /// The answer holds the address of the next page at this place. None there, or null: it is the last.
    Next {
        /// Names with dots between them.
        at: String,
    },
    /// A header `Link` with `rel="next"` tells the address of the next page (RFC 8288).
    LinkHeader,
    /// The answer holds a token for the next page. None there, null or empty: it is the last.
    Token {
        /// Where it stands: names with dots between them.
        at: String,
        /// The parameter by which it is given back.
        parameter: String,
    },
    /// Pages are counted, or their items are. An empty page is behind the last.
    Number {
        /// The parameter.
        parameter: String,
        /// The first.
        first: u64,
        /// From one to the next: 1 of pages, the size of a page of items.
        step: u64,
    },
}

/// Asks for what is new only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Since {
    /// The parameter that takes the greatest value of the last look, as the API wrote it.
    pub parameter: String,
    /// The member whose values grow with every change: moments, numbers, or texts in order.
    pub field: String,
}

impl HttpJsonSettings {
    /// No stream yet.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
            body_max: 16 << 20,
            items_max: 1_000_000,
            streams: Vec::new(),
        }
    }

    /// Adds a stream.
    #[must_use]
    pub fn with_stream(mut self, stream: HttpStream) -> Self {
        self.streams.push(stream);
        self
    }

    /// Changes any of them.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl HttpStream {
    /// A list of items that are found by these members, which is the whole answer, in one page.
    pub fn new(
        stream: impl Into<String>,
        path: impl Into<String>,
        key: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            stream: stream.into(),
            path: path.into(),
            items: String::new(),
            key: key.into_iter().map(Into::into).collect(),
            columns: Vec::new(),
            pages: Pages::One,
            reconciled: false,
            since: None,
        }
    }

    /// Changes any of it.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Since {
    /// A parameter and the member whose greatest value it takes.
    pub fn new(parameter: impl Into<String>, field: impl Into<String>) -> Self {
        Self { parameter: parameter.into(), field: field.into() }
    }
}
