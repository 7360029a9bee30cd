//! Lists of an HTTP API that answers in JSON.
//!
//! # How a list is read
//!
//! Each list is a stream of records: an item is an object, found by the members that the settings name. A list may come in pages, by
//! the address of the next, a token, or a number. Numbers keep their digits: outside of JSON columns they travel as the text that they are.
//!
//! A *reconciled* list is read whole, and what is gone from it is withdrawn. Otherwise items are added and corrected, page by page;
//! with [`since`](HttpStream::since) only those are asked for that changed, from the greatest value on that was acked.
//!
//! An answer in one page that has an `ETag` is not sent again while it stays the same.
//!
//! # What a server may do
//!
//! `429`, and `503` with a `Retry-After`, are followed for an hour at most; other `5xx`, time-outs and answers that break off are asked
//! for again; `401` and `403` need somebody; `404` and `410` mean that the list is gone. An answer that is too large, no JSON, or has
//! no list where it should be is no empty list. Redirections and next pages stay within one server, since the token goes with them.
//! Pages that lead in a circle end the look.

mod body;
mod circle;
mod client;
mod mark;
mod settings;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use millstream_model::Secret;
use reqwest::Url;

use self::body::Items;
use self::circle::Circle;
use self::client::{Answer, Body, Client};
use self::mark::{Mark, PageMark, later};
pub use self::settings::{HttpJsonSettings, HttpStream, Pages, Since, Token};
use crate::model::{
    Mode, Page, Payload, Record, RecordChange, RecordSet, StreamDescriptor, StreamFetch, StreamFetchRequest, StreamKey,
};
use crate::{BackendError, BackendErrorKind, SourceBackend};

/// Lists of an API as a source: see this module's page.
pub struct HttpJson {
    settings: HttpJsonSettings,
    base: Url,
    client: Client,
    /// Tells this process's pages from an earlier one's.
    run: String,
    // Pages that the server no longer knows: the next look begins anew. Held for a look or a change only, never across an await.
    dead: Mutex<HashMap<StreamKey, String>>,
}

impl HttpJson {
    /// A backend over these lists. Asks nobody yet.
    ///
    /// # Errors
    /// `Configuration` when an address or a header can't be used, or two streams have one name.
    pub fn new(settings: HttpJsonSettings) -> Result<Self, BackendError> {
        let mut base = Url::parse(&settings.url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| BackendError::configuration("the address must begin with https:// or http://"))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(BackendError::configuration("the address holds a password: show it by a header"));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let client = Client::new(&settings)?;
        let run = format!("{:016x}", fastrand::u64(..));
        let backend = Self { settings, base, client, run, dead: Mutex::default() };
        let mut names = std::collections::BTreeSet::new();
        for stream in &backend.settings.streams {
            if !names.insert(&stream.stream) {
                return Err(BackendError::configuration(format!(
                    "two streams have one name (stream={})",
                    stream.stream
                )));
            }
            backend.first(stream).map_err(|error| error.context(format_args!("stream {}", stream.stream)))?;
        }
        Ok(backend)
    }

    fn stream(&self, key: &StreamKey) -> Result<&HttpStream, BackendError> {
        let stream = self.settings.streams.iter().find(|stream| stream.stream == key.as_str());
        stream.ok_or_else(|| BackendError::stream_gone("the settings name no such stream"))
    }

    async fn token(&self) -> Result<Option<Secret>, BackendError> {
        match &self.settings.token {
            None => Ok(None),
            Some(Token::Value(token)) => Ok(Some(token.clone())),
            Some(Token::File(path)) => {
                let read = tokio::fs::read_to_string(path).await;
                let token = read.map_err(|error| {
                    let message = format!("the token's file can't be read (path={}): {error}", path.display());
                    BackendError::configuration(message)
                })?;
                Ok(Some(Secret::new(token.trim().to_owned())))
            }
        }
    }

    /// A list's first page.
    fn first(&self, stream: &HttpStream) -> Result<Url, BackendError> {
        let mut url = self.within(&self.base, stream.path.trim_start_matches('/'))?;
        if let Pages::Number { parameter, first, .. } = &stream.pages {
            set(&mut url, parameter, &first.to_string());
        }
        Ok(url)
    }

    /// An address that another names; it stays within the server.
    fn within(&self, from: &Url, address: &str) -> Result<Url, BackendError> {
        let url = from.join(address).map_err(|_| BackendError::configuration("an address can't be used"))?;
        if url.origin() != self.base.origin() {
            return Err(BackendError::configuration(
                "an address leads to another server, which must not see the token",
            ));
        }
        Ok(url)
    }

    /// The address of a page.
    fn address(&self, stream: &HttpStream, since: Option<&str>, page: Option<&str>) -> Result<Url, BackendError> {
        let mut url = self.first(stream)?;
        if let (Some(asked), Some(value)) = (&stream.since, since) {
            set(&mut url, &asked.parameter, value);
        }
        let Some(page) = page else { return Ok(url) };
        match &stream.pages {
            Pages::Next { .. } | Pages::LinkHeader => return self.within(&url, page),
            Pages::Token { parameter, .. } | Pages::Number { parameter, .. } => set(&mut url, parameter, page),
            Pages::One => {}
        }
        Ok(url)
    }

    /// The page behind one, as [`address`](Self::address) takes it.
    fn next(
        &self,
        stream: &HttpStream,
        page: Option<&str>,
        body: &Body,
        items: &Items,
    ) -> Result<Option<String>, BackendError> {
        match &stream.pages {
            Pages::One => Ok(None),
            Pages::LinkHeader => Ok(body.next.clone()),
            Pages::Next { at } | Pages::Token { at, .. } => {
                body::scalar(&body.text, at).map_err(BackendError::undecodable)
            }
            Pages::Number { .. } if items.count == 0 => Ok(None),
            Pages::Number { first, step, .. } => {
                let number = page.and_then(|page| page.parse::<u64>().ok()).unwrap_or(*first);
                Ok(Some(number.saturating_add((*step).max(1)).to_string()))
            }
        }
    }

    /// One page of a list that is added to.
    async fn page(
        &self,
        stream: &HttpStream,
        request: &StreamFetchRequest,
        token: Option<&Secret>,
    ) -> Result<Option<Page>, BackendError> {
        let mut mark = Mark::read(request.checkpoint.as_ref(), &of(stream), &self.run);
        let dead = self.dead().remove(request.key());
        let before = mark.page.take();
        let is_dead = dead.is_some() && dead == before.as_ref().map(|place| place.page.clone());
        let look = before.as_ref().map_or(0, |place| place.look) + u32::from(is_dead);
        let place = before.filter(|_| !is_dead);
        let at = place.as_ref().map(|place| place.page.as_str());
        // A page of a look's middle has no tag of its own.
        let etag = mark.etag.clone().filter(|_| at.is_none());
        let url = self.address(stream, mark.since.as_deref(), at)?;
        let body = match self.client.get(url, token, etag.as_deref()).await {
            Ok(Answer::Unchanged) => return Ok(None),
            Ok(Answer::Body(body)) => body,
            Err(error) => {
                if let Some(place) = place.filter(|_| !error.is_retryable()) {
                    self.dead().insert(request.key().clone(), place.page);
                }
                return Err(error);
            }
        };
        let items = body::items(&body.text, stream)?;
        let (mut circle, mut newest) =
            place.as_ref().map_or_else(Default::default, |place| (place.circle.clone(), place.newest.clone()));
        if let Some(since) = &stream.since {
            newest = items.records.iter().fold(newest, |newest, record| later(newest, text_of(record, &since.field)));
        }
        let next = self.next(stream, at, &body, &items)?;
        if let Some(next) = &next {
            lead_on(&mut circle, next)?;
        }
        let more = next.is_some();
        mark.page = next.map(|page| PageMark { run: self.run.clone(), look, page, newest: newest.clone(), circle });
        if !more {
            mark.since = later(mark.since, newest);
            mark.etag = body.etag.filter(|_| stream.pages == Pages::One && items.refused.is_empty());
        }
        let checkpoint = Some(mark.checkpoint());
        let payload = Payload::Records(items.records.into_iter().map(RecordChange::from).collect());
        Ok(Some(Page { payload, refused: items.refused, checkpoint, more }))
    }

    /// All of a list.
    async fn everything(
        &self,
        stream: &HttpStream,
        request: &StreamFetchRequest,
        token: Option<&Secret>,
    ) -> Result<Option<Page>, BackendError> {
        let mut mark = Mark::read(request.checkpoint.as_ref(), &of(stream), &self.run);
        let (mut all, mut circle) = (Items::default(), Circle::default());
        let mut at: Option<String> = None;
        loop {
            let url = self.address(stream, None, at.as_deref())?;
            let etag = mark.etag.take().filter(|_| at.is_none());
            let body = match self.client.get(url, token, etag.as_deref()).await? {
                Answer::Unchanged => return Ok(None),
                Answer::Body(body) => body,
            };
            let items = body::items(&body.text, stream)?;
            let next = self.next(stream, at.as_deref(), &body, &items)?;
            all.count += items.count;
            all.records.extend(items.records);
            all.refused.extend(items.refused);
            let most = self.settings.items_max;
            if all.count > most as u64 {
                let message = format!("the list has more items than may be read in one piece (items_max={most})");
                return Err(BackendError::configuration(message));
            }
            if let Some(next) = &next {
                lead_on(&mut circle, next)?;
                at = Some(next.clone());
                continue;
            }
            mark.etag = body.etag.filter(|_| stream.pages == Pages::One && all.refused.is_empty());
            let checkpoint = mark.etag.is_some().then(|| mark.checkpoint());
            let payload = Payload::RecordSet(RecordSet { records: all.records, rows_read: all.count });
            return Ok(Some(Page { payload, refused: all.refused, checkpoint, more: false }));
        }
    }

    fn dead(&self) -> std::sync::MutexGuard<'_, HashMap<StreamKey, String>> {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SourceBackend for HttpJson {
    fn source_system(&self) -> &str {
        "http_json"
    }

    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
        Ok(self.settings.streams.iter().map(descriptor).collect())
    }

    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
        let token = self.token().await?;
        let mut fetches = Vec::with_capacity(requests.len());
        // Whoever asks for patience means all of it.
        let mut patience: Option<Option<Duration>> = None;
        for request in requests {
            let key = request.key().clone();
            let outcome = match (self.stream(&key), patience) {
                (Err(error), _) => Err(error),
                (_, Some(wait)) => Err(BackendError::throttled("not asked: the server asks for patience", wait)),
                (Ok(stream), _) if stream.reconciled => self.everything(stream, request, token.as_ref()).await,
                (Ok(stream), _) => self.page(stream, request, token.as_ref()).await,
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(page)) => fetches.push(StreamFetch { stream: key, outcome: Ok(page) }),
                Err(error) => {
                    if error.kind() == BackendErrorKind::Throttled {
                        patience = Some(error.retry_after());
                    }
                    fetches.push(StreamFetch::failed(key, error));
                }
            }
        }
        Ok(fetches)
    }
}

fn descriptor(stream: &HttpStream) -> StreamDescriptor {
    let described = StreamDescriptor::records(stream.stream.as_str(), &stream.key);
    let described = stream.columns.iter().fold(described, |stream, (name, kind)| stream.with_column(name, *kind));
    described.with_mode(if stream.reconciled { Mode::Reconciled } else { Mode::Append })
}

/// Which list a mark is of.
fn of(stream: &HttpStream) -> String {
    format!("{} {} {:?}", stream.path, stream.items, stream.since)
}

fn lead_on(circle: &mut Circle, page: &str) -> Result<(), BackendError> {
    if circle.pass(page) { Ok(()) } else { Err(BackendError::undecodable("the pages lead in a circle")) }
}

fn text_of(record: &Record, field: &str) -> Option<String> {
    record.fields.get(field).and_then(serde_json::Value::as_str).map(ToOwned::to_owned)
}

/// Sets a parameter of an address, in place of one that it has.
fn set(url: &mut Url, name: &str, value: &str) {
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(other, _)| other != name)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(others).append_pair(name, value);
}
