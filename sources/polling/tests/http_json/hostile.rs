//! What a server may do.

use std::io::Write;
use std::time::Duration;

use millstream_model::Secret;
use millstream_polling::backends::{HttpStream, Pages, Token};
use millstream_polling::{BackendErrorKind, SourceBackend};

use crate::server::{Answer, Server};

fn items() -> HttpStream {
    HttpStream::new("items", "items", ["id"])
}

/// The error that such an answer makes; neither address nor token is in it.
async fn error_of(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (BackendErrorKind, String) {
    let server = Server::start(move |_| answer()).await;
    let reader = server.open_with(items(), |settings| {
        settings.timeout = Duration::from_millis(300);
        settings.body_max = 10_000;
        settings.token = Some(Token::Value(Secret::new("hunter2".to_owned())));
    });
    let error = reader.error().await;
    let text = error.to_string();
    assert!(!text.contains("hunter2") && !text.contains("/v1/"), "{text}");
    (error.kind(), text)
}

#[tokio::test]
async fn a_server_that_is_silent_cuts_or_fails_is_asked_again() {
    assert_eq!(
        error_of(|| Answer::Silence).await,
        (
            BackendErrorKind::Transient,
            "the server did not answer in time: error sending request: operation timed out".to_owned()
        )
    );
    let (kind, text) = error_of(|| Answer::Cut("[{\"id\": 1}, {\"id\"")).await;
    assert_eq!(kind, BackendErrorKind::Transient);
    assert!(text.starts_with("the answer broke off"), "{text}");
    for status in [500, 502, 503, 504, 408] {
        let (kind, text) = error_of(move || Answer::status(status)).await;
        assert_eq!((kind, text), (BackendErrorKind::Transient, format!("the server fails (status={status})")));
    }
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let server = Server::start(|_| Answer::Silence).await;
    let error = server.open_with(items(), |settings| settings.url = url).error().await;
    assert!(error.is_retryable() && error.to_string().starts_with("the server can't be reached"), "{error}");
}

#[tokio::test]
async fn patience_is_kept_as_the_server_asks() {
    let asked = async |status: u16, after: String| {
        let server = Server::start(move |_| Answer::with(status, [("retry-after", after.clone())], "")).await;
        let error = server.open(items()).error().await;
        (error.kind(), error.retry_after())
    };
    for status in [429, 503] {
        let (kind, wait) = asked(status, "7".to_owned()).await;
        assert_eq!((kind, wait), (BackendErrorKind::Throttled, Some(Duration::from_secs(7))));
        let date = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(90));
        let (kind, wait) = asked(status, date).await;
        assert_eq!(kind, BackendErrorKind::Throttled);
        assert!((Duration::from_secs(60)..=Duration::from_secs(90)).contains(&wait.unwrap()), "{wait:?}");
    }
    assert_eq!(asked(429, "never".to_owned()).await, (BackendErrorKind::Throttled, None));
}

#[tokio::test]
async fn who_asks_for_patience_is_not_asked_for_the_next_list() {
    let server = Server::start(|_| Answer::with(429, [("retry-after", "5".to_owned())], "")).await;
    let reader = server.open_with(items(), |settings| {
        settings.streams.push(HttpStream::new("others", "others", ["id"]));
    });
    let requests: Vec<_> = reader
        .backend
        .discover_streams()
        .await
        .unwrap()
        .into_iter()
        .map(|descriptor| millstream_polling::model::StreamFetchRequest {
            stream: millstream_polling::model::DataStream { id: "x".to_owned(), descriptor },
            mode: millstream_polling::model::Mode::Append,
            since: None,
            checkpoint: None,
            reason: millstream_polling::model::FetchReason::Cycle,
        })
        .collect();
    let fetches = reader.backend.fetch_readings(&requests).await.unwrap();
    let waits: Vec<_> = fetches.iter().map(|fetch| fetch.outcome.as_ref().unwrap_err().retry_after()).collect();
    assert_eq!(waits, [Some(Duration::from_secs(5)); 2]);
    assert_eq!(server.uris(), ["/v1/items"]);
}

#[tokio::test]
async fn an_answer_that_is_huge_fills_no_memory() {
    for answer in [
        || Answer::Endless,
        || Answer::json(" ".repeat(20_000)),
        // Twenty bytes on the wire for each thousand.
        || {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packed.write_all(" ".repeat(10_000_000).as_bytes()).unwrap();
            let packed = packed.finish().unwrap();
            Answer::with(200, [("content-encoding", "gzip".to_owned())], packed)
        },
    ] {
        let (kind, text) = error_of(answer).await;
        assert_eq!(kind, BackendErrorKind::Configuration);
        assert_eq!(text, "the answer is larger than one may be (body_max=10000)");
    }
}

#[tokio::test]
async fn what_is_no_list_in_json_is_said_and_is_no_empty_one() {
    let html = || Answer::with(200, [("content-type", "text/html; charset=utf-8".to_owned())], "<html>Log in</html>");
    let (kind, text) = error_of(html).await;
    assert_eq!(kind, BackendErrorKind::Undecodable);
    assert_eq!(text, "the answer is a page for people, no JSON (content-type=text/html; charset=utf-8)");
    for (body, why) in [
        (&b"<html>"[..], "the answer is no JSON (line=1, column=1)"),
        (b"[{\"id\": 1", "the answer is no JSON (line=1, column=9)"),
        (b"{\"error\": \"x\"}", "the answer is no list of items"),
        (b"null", "the answer has no list (items=the answer)"),
        (b"\xff\xfe", "the answer is not UTF-8"),
    ] {
        let (kind, text) = error_of(move || Answer::with(200, [], body)).await;
        assert_eq!((kind, text.as_str()), (BackendErrorKind::Undecodable, why));
    }
    assert_eq!(error_of(|| Answer::status(204)).await.0, BackendErrorKind::Undecodable);
    assert_eq!(error_of(|| Answer::status(304)).await.0, BackendErrorKind::Undecodable);
}

#[tokio::test]
async fn redirections_stay_within_one_server_and_have_an_end() {
    let moved = Server::start(|asked| match asked.uri.as_str() {
        "/v1/items" => Answer::with(308, [("location", "/v2/items".to_owned())], ""),
        _ => Answer::json("[{\"id\": 1}]"),
    });
    assert_eq!(moved.await.open(items()).pass(&mut None).await.unwrap(), ["1"]);
    let (kind, text) = error_of(|| Answer::with(302, [("location", "/v1/items".to_owned())], "")).await;
    assert_eq!(kind, BackendErrorKind::Configuration);
    assert!(text.ends_with("too many redirections"), "{text}");
    let other = Server::start(|_| Answer::json("[]")).await;
    let elsewhere = other.url.clone();
    let (kind, text) = error_of(move || Answer::with(302, [("location", elsewhere.clone())], "")).await;
    assert_eq!(kind, BackendErrorKind::Configuration);
    assert!(text.ends_with("it leads to another server"), "{text}");
    assert!(other.asked().is_empty(), "who is not meant sees no token");
}

#[tokio::test]
async fn pages_that_lead_in_a_circle_or_to_another_server_end_the_look() {
    let token = || Pages::Token { at: "next".to_owned(), parameter: "p".to_owned() };
    let list = |next: &str| Answer::json(format!("{{\"data\": [{{\"id\": 1}}], \"next\": \"{next}\"}}"));
    for reconciled in [true, false] {
        let stream = |pages| {
            items().with(|stream| {
                (stream.items, stream.pages, stream.reconciled) = ("data".to_owned(), pages, reconciled);
            })
        };
        let server = Server::start(move |asked| {
            let at = asked.uri.rsplit_once("p=").map_or("z", |(_, page)| page);
            list(match at {
                "a" => "b",
                "b" => "c",
                _ => "a",
            })
        });
        let server = server.await;
        let error = server.open(stream(token())).pass(&mut None).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (BackendErrorKind::Undecodable, "the pages lead in a circle")
        );
        assert!(server.asked().len() < 20);
        let server = Server::start(move |_| list("http://127.0.0.1:1/steal")).await;
        let error = server.open(stream(Pages::Next { at: "next".to_owned() })).pass(&mut None).await.unwrap_err();
        assert!(error.to_string().contains("another server"), "{error}");
    }
}
