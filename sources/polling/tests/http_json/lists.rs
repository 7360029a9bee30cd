//! Lists, pages, tags, tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_model::Secret;
use millstream_polling::backends::{HttpJson, HttpJsonSettings, HttpStream, Pages, Since, Token};
use millstream_polling::conformance::{Subject, conformance};
use millstream_polling::{BackendErrorKind, SourceBackend, async_trait};

use crate::server::{Answer, Asked, Server};

fn items(change: impl FnOnce(&mut HttpStream)) -> HttpStream {
    HttpStream::new("items", "items?kind=a%20b", ["id"]).with(|stream| stream.items = "data".to_owned()).with(change)
}

fn pages(pages: Pages) -> HttpStream {
    items(|stream| stream.pages = pages)
}

/// Items of some ids, and more beside the list.
fn list(ids: std::ops::Range<u32>, beside: &str) -> String {
    let items: Vec<String> = ids.map(|id| format!("{{\"id\": {id}, \"at\": \"2026-01-31T12:00:{id:02}Z\"}}")).collect();
    format!("{{\"data\": [{}]{beside}}}", items.join(", "))
}

fn parameter(asked: &Asked, name: &str) -> Option<u32> {
    let query = asked.uri.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).map(|value| value.parse().unwrap())
}

struct Api(Arc<Server>);

#[async_trait]
impl Subject for Api {
    async fn open(&self) -> Box<dyn SourceBackend> {
        let paged = pages(Pages::Token { at: "next".to_owned(), parameter: "page".to_owned() });
        let whole = items(|stream| (stream.stream, stream.reconciled) = ("whole".to_owned(), true));
        let settings = HttpJsonSettings::new(&self.0.url).with_stream(paged).with_stream(whole);
        Box::new(HttpJson::new(settings).unwrap())
    }
}

#[tokio::test]
async fn it_conforms() {
    let server = Server::start(|asked| match parameter(asked, "page") {
        None => Answer::json(list(0..3, ", \"next\": 1")),
        Some(_) => Answer::json(list(3..5, "")),
    });
    let server = Arc::new(server.await);
    conformance(async || Api(server.clone())).await;
}

#[tokio::test]
async fn pages_lead_on_by_an_address_a_header_a_token_or_a_number() {
    let by = async |how: Pages, answer: fn(u32, u32) -> Answer| {
        let server = Server::start(move |asked| {
            let page = parameter(asked, "p").unwrap_or(0);
            answer(page, page * 2)
        });
        let server = server.await;
        let keys = server.open(pages(how)).pass(&mut None).await.unwrap();
        assert_eq!(keys, ["0", "1", "2", "3", "4", "5"]);
        server.uris()
    };
    let uris = by(Pages::Next { at: "links.next".to_owned() }, |page, from| {
        let next = if page < 2 { format!("\"/v1/items?p={}\"", page + 1) } else { "null".to_owned() };
        Answer::json(list(from..from + 2, &format!(", \"links\": {{\"next\": {next}}}")))
    });
    assert_eq!(uris.await, ["/v1/items?kind=a%20b", "/v1/items?p=1", "/v1/items?p=2"]);
    let uris = by(Pages::LinkHeader, |page, from| {
        let link = if page < 2 { format!("<?p={}>; rel=\"next\"", page + 1) } else { "<?p=0>; rel=first".to_owned() };
        Answer::with(200, [("link", link)], list(from..from + 2, ""))
    });
    assert_eq!(uris.await.len(), 3);
    let token = Pages::Token { at: "next".to_owned(), parameter: "p".to_owned() };
    let uris = by(token, |page, from| {
        let next = if page < 2 { (page + 1).to_string() } else { "\"\"".to_owned() };
        Answer::json(list(from..from + 2, &format!(", \"next\": {next}")))
    });
    assert_eq!(uris.await, ["/v1/items?kind=a%20b", "/v1/items?kind=a+b&p=1", "/v1/items?kind=a+b&p=2"]);
    let number = Pages::Number { parameter: "p".to_owned(), first: 0, step: 1 };
    let uris = by(number, |page, from| Answer::json(list(if page < 3 { from..from + 2 } else { 0..0 }, "")));
    assert_eq!(uris.await.last().unwrap(), "/v1/items?kind=a+b&p=3", "an empty page is behind the last");
}

#[tokio::test]
async fn only_what_changed_is_asked_for_once_that_is_acked() {
    let server = Server::start(|asked| {
        if asked.uri.contains("since=2026-01-31T12%3A00%3A02Z") {
            Answer::json(list(3..4, ""))
        } else {
            Answer::json(list(0..3, ""))
        }
    });
    let server = server.await;
    let reader = server.open(items(|stream| stream.since = Some(Since::new("since", "at"))));
    let mut mark = None;
    assert_eq!(reader.pass(&mut mark).await.unwrap(), ["0", "1", "2"]);
    assert_eq!(reader.pass(&mut mark).await.unwrap(), ["3"]);
    assert!(reader.pass(&mut mark).await.is_ok());
    assert!(server.uris()[2].ends_with("since=2026-01-31T12%3A00%3A03Z"));
}

#[tokio::test]
async fn an_answer_that_has_not_changed_is_not_sent_again() {
    let server = Server::start(|asked| match asked.header("if-none-match") {
        Some("\"7\"") => Answer::status(304),
        _ => Answer::with(200, [("etag", "\"7\"".to_owned())], list(0..2, "")),
    });
    let server = server.await;
    for reconciled in [true, false] {
        let reader = server.open(items(|stream| stream.reconciled = reconciled));
        let mut mark = None;
        assert_eq!(reader.pass(&mut mark).await.unwrap(), ["0", "1"]);
        assert!(reader.fetch("items", mark.as_ref()).await.is_none(), "nothing new");
        assert_eq!(reader.pass(&mut None).await.unwrap(), ["0", "1"], "everything when everything is asked for");
    }
}

#[tokio::test]
async fn a_reconciled_list_is_read_whole() {
    let server = Server::start(|asked| match parameter(asked, "p") {
        None => Answer::json(list(0..3, ", \"next\": 1")),
        Some(_) => Answer::json(list(3..5, "")),
    });
    let server = server.await;
    let whole = pages(Pages::Token { at: "next".to_owned(), parameter: "p".to_owned() }).with(|s| s.reconciled = true);
    let reader = server.open(whole.clone());
    assert_eq!(reader.pass(&mut None).await.unwrap(), ["0", "1", "2", "3", "4"]);
    let small = server.open_with(whole, |settings| settings.items_max = 4);
    assert!(small.error().await.to_string().contains("(items_max=4)"));
}

#[tokio::test]
async fn a_token_is_shown_and_its_file_is_read_before_each_look() {
    let server = Server::start(|asked| match (asked.header("authorization"), asked.header("x-key")) {
        (Some("Bearer second"), Some("k")) => Answer::json(list(0..1, "")),
        _ => Answer::status(401),
    });
    let server = server.await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let reader = server.open_with(items(|_| {}), |settings| {
        settings.token = Some(Token::File(file.clone()));
        settings.headers = vec![("X-Key".to_owned(), Secret::new("k".to_owned()))];
    });
    let error = reader.error().await;
    assert_eq!(error.kind(), BackendErrorKind::Configuration);
    assert_eq!(error.to_string(), "the server takes no such token (status=401)");
    std::fs::write(&file, "second\n").unwrap();
    assert_eq!(reader.pass(&mut None).await.unwrap(), ["0"]);
}

#[tokio::test]
async fn a_page_that_the_server_no_longer_knows_is_followed_by_a_new_look() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let server = Server::start(move |asked| match parameter(asked, "p") {
        None => Answer::json(list(0..1, ", \"next\": 1")),
        Some(_) if counted.fetch_add(1, Ordering::Relaxed) == 0 => Answer::status(400),
        Some(_) => Answer::json(list(1..2, "")),
    });
    let server = server.await;
    let stream = pages(Pages::Token { at: "next".to_owned(), parameter: "p".to_owned() });
    let reader = server.open(stream.clone());
    let mut mark = None;
    assert_eq!(reader.pass(&mut mark).await.unwrap_err().kind(), BackendErrorKind::Configuration);
    assert_eq!(reader.pass(&mut mark.clone()).await.unwrap(), ["0", "1"], "from the beginning");
    assert_eq!(server.open(stream).pass(&mut mark).await.unwrap(), ["0", "1"], "a new process trusts no old page");
}

#[test]
fn what_can_not_be_asked_is_refused_before_anybody_is() {
    let with = |url: &str, path: &str| {
        let settings = HttpJsonSettings::new(url).with_stream(HttpStream::new("s", path, ["id"]));
        HttpJson::new(settings).err().map(|error| error.to_string())
    };
    assert_eq!(with("https://api.example.com", "/items"), None);
    assert!(with("ftp://x", "items").unwrap().contains("https://"));
    assert!(with("https://me:hunter2@x", "items").is_some_and(|error| !error.contains("hunter2")));
    assert!(with("https://x", "https://y/items").unwrap().contains("another server"));
}
