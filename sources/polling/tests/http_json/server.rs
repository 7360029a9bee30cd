//! A server whose answers a test writes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use millstream_polling::backends::{HttpJson, HttpJsonSettings, HttpStream};
use millstream_polling::model::{
    Checkpoint, DataStream, FetchReason, Mode, Page, Payload, RecordChange, StreamDescriptor, StreamFetchRequest,
};
use millstream_polling::{BackendError, SourceBackend};

type Answers = dyn Fn(&Asked) -> Answer + Send + Sync;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Path and query.
    pub uri: String,
    pub headers: HeaderMap,
}

/// What is answered.
pub enum Answer {
    Whole {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// Never.
    Silence,
    /// A head that promises more than comes.
    Cut(&'static str),
    /// Chunks without an end.
    Endless,
}

impl Answer {
    pub fn json(body: impl Into<String>) -> Self {
        Self::with(200, [("content-type", "application/json".to_owned())], body.into())
    }

    pub fn with(
        status: u16,
        headers: impl IntoIterator<Item = (&'static str, String)>,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        Self::Whole { status, headers: headers.into_iter().collect(), body: body.into() }
    }

    pub fn status(status: u16) -> Self {
        Self::with(status, [], "")
    }
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

#[derive(Clone)]
struct Shared {
    answers: Arc<Answers>,
    asked: Arc<Mutex<VecDeque<Asked>>>,
}

/// A server on a port of its own.
pub struct Server {
    pub url: String,
    shared: Shared,
}

impl Server {
    pub async fn start(answers: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let shared = Shared { answers: Arc::new(answers), asked: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// What was asked since this was called last.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().drain(..).collect()
    }

    /// Paths and queries of that.
    pub fn uris(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.uri).collect()
    }

    pub fn open(&self, stream: HttpStream) -> Reader {
        self.open_with(stream, |_| {})
    }

    pub fn open_with(&self, stream: HttpStream, change: impl FnOnce(&mut HttpJsonSettings)) -> Reader {
        Reader { backend: HttpJson::new(HttpJsonSettings::new(&self.url).with_stream(stream).with(change)).unwrap() }
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let asked = Asked { uri: request.uri().to_string(), headers: request.headers().clone() };
    shared.asked.lock().unwrap().push_back(asked.clone());
    let built = match (shared.answers)(&asked) {
        Answer::Whole { status, headers, body } => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body))
        }
        Answer::Silence => std::future::pending().await,
        Answer::Cut(text) => {
            let broken = futures::stream::iter([Ok(text), Err(std::io::Error::other("cut"))]);
            Response::builder().body(Body::from_stream(broken))
        }
        Answer::Endless => {
            let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>("[1, 2, 3, 4], ".repeat(1000)));
            Response::builder().body(Body::from_stream(chunks))
        }
    };
    built.unwrap()
}

/// A backend, asked as the driver asks.
pub struct Reader {
    pub backend: HttpJson,
}

impl Reader {
    pub async fn fetch(&self, key: &str, checkpoint: Option<&Checkpoint>) -> Option<Result<Page, BackendError>> {
        let request = StreamFetchRequest {
            stream: DataStream { id: key.to_owned(), descriptor: StreamDescriptor::records(key, ["id"]) },
            mode: Mode::Append,
            since: None,
            checkpoint: checkpoint.cloned(),
            reason: FetchReason::Cycle,
        };
        let mut fetches = self.backend.fetch_readings(&[request]).await.unwrap();
        fetches.pop().map(|fetch| fetch.outcome)
    }

    /// Pages until there is no more, from a mark on, which it moves: keys.
    pub async fn pass(&self, mark: &mut Option<Checkpoint>) -> Result<Vec<String>, BackendError> {
        let mut keys = Vec::new();
        while let Some(page) = self.fetch("items", mark.as_ref()).await {
            let page = page?;
            keys.extend(keys_of(&page.payload));
            if page.more {
                assert!(page.checkpoint.is_some() && page.checkpoint != *mark, "more leads on");
            }
            *mark = page.checkpoint;
            if !page.more {
                break;
            }
        }
        Ok(keys)
    }

    /// Why a first page does not come.
    pub async fn error(&self) -> BackendError {
        self.fetch("items", None).await.unwrap().unwrap_err()
    }
}

pub fn keys_of(payload: &Payload) -> Vec<String> {
    match payload {
        Payload::Records(changes) => changes
            .iter()
            .map(|change| match change {
                RecordChange::Present(record) => record.key.join(":"),
                RecordChange::Removed(key) => panic!("removed {key:?}"),
            })
            .collect(),
        Payload::RecordSet(set) => set.records.iter().map(|record| record.key.join(":")).collect(),
        other => panic!("{other:?}"),
    }
}
