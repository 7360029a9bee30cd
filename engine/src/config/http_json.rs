use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_model::Secret;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Bytes, ColumnTypeSection, Span};

/// Lists of an API that answers in JSON, each a stream of its name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpJsonSection {
    /// Where the paths begin: `https://api.example.com/v1/`.
    pub url: String,
    /// A bearer token.
    #[schemars(with = "Option<String>")]
    pub token: Option<Secret>,
    /// A file that holds the bearer token; it is read before every look.
    pub token_file: Option<PathBuf>,
    /// Further headers of every request.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, Secret>,
    /// Time that one request may take. Default: `30s`.
    #[serde(default = "timeout")]
    #[schemars(default = "timeout_text")]
    pub timeout: Span,
    /// The size that one answer may have, unpacked. Default: `16MiB`.
    #[serde(default = "body_max")]
    #[schemars(default = "body_max_text")]
    pub body_max: Bytes,
    /// Items that a list may have which is read whole. Default: 1000000.
    #[serde(default = "items_max")]
    #[schemars(range(min = 1))]
    pub items_max: usize,
    /// The lists, by the names that they have in the store.
    pub streams: BTreeMap<String, HttpStreamSection>,
}

/// A list of an API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpStreamSection {
    /// Behind the API's address, with its query. Default: the stream's name.
    pub path: Option<String>,
    /// Where the list stands in an answer: names with dots between them. Default: the answer is the list.
    #[serde(default)]
    pub items: String,
    /// The members by which an item is found.
    pub key: Vec<String>,
    /// Types of members, by name; text otherwise.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnTypeSection>,
    /// How the list is split. Default: it is not.
    pub pages: Option<PagesSection>,
    /// Asks for what is new only.
    pub since: Option<SinceSection>,
    /// True: the list is the whole truth, and what is gone from it is withdrawn. False: items are added and corrected.
    #[serde(default)]
    pub reconciled: bool,
}

/// How a list is split.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PagesSection {
    /// The place in an answer of the next page's address.
    Next(String),
    /// The next page's address stands in a header `Link`.
    Link(LinkSection),
    /// A token for the next page.
    Token(TokenPagesSection),
    /// Pages, or their items, are counted.
    Number(NumberPagesSection),
}

/// Nothing to be said.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LinkSection {}

/// A token for the next page.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenPagesSection {
    /// Where it stands in an answer.
    pub at: String,
    /// The parameter by which it is given back.
    pub parameter: String,
}

/// Pages, or their items, are counted.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NumberPagesSection {
    /// The parameter.
    pub parameter: String,
    /// The first. Default: 1.
    #[serde(default = "one")]
    pub first: u64,
    /// From one to the next: 1 of pages, the size of a page of items. Default: 1.
    #[serde(default = "one")]
    pub step: u64,
}

/// Asks for what is new only.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SinceSection {
    /// The parameter that takes the greatest value that was acked.
    pub parameter: String,
    /// The member whose values grow with every change.
    pub field: String,
}

fn timeout() -> Span {
    Span(std::time::Duration::from_secs(30))
}

fn timeout_text() -> &'static str {
    "30s"
}

fn body_max() -> Bytes {
    Bytes(16 << 20)
}

fn body_max_text() -> &'static str {
    "16MiB"
}

fn items_max() -> usize {
    1_000_000
}

fn one() -> u64 {
    1
}
