//! Asking and ordering a host that is not there, or may not be ordered.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::program::{Place, RIGHT, USERS, right};

/// A place whose host would listen there.
fn listening(section: &str, address: &str, more: &str) -> Place {
    let place = Place::new(&format!("{RIGHT}{section}: {{ listen: \"{address}\"{more} }}\n"));
    place.write("users.schema.yaml", USERS);
    place
}

/// Answers one request with this body, and gives the request.
fn answer_once(status: &'static str, body: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        let length = body.len();
        write!(socket, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
        String::from_utf8(request).unwrap()
    });
    (address, asked)
}

#[test]
fn a_host_that_does_not_listen_can_not_be_asked() {
    let ended = right().run(&["status"]);
    let expected = "the configuration has no `http`: a host with it serves no status\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (2, expected));
    let ended = right().run(&["pause"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.starts_with("the configuration has no `control`"), "{ended:?}");
    let ended = listening("http", "127.0.0.1:0", "").run(&["status"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.starts_with("`http.listen` takes a free port"), "{ended:?}");
    let ended = listening("http", "127.0.0.1:1", "").run(&["status"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.starts_with("no host answers (url=http://127.0.0.1:1/status)"), "{ended:?}");
}

#[test]
fn a_status_is_printed_for_people_or_as_json() {
    let body = r#"{"name":"shop","state":"running","indexes":{"users":{"state":"live"}}}"#;
    let (address, asked) = answer_once("200 OK", body);
    let ended = listening("http", &address, "").run(&["status"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "shop: running\nindex users: live\n"));
    assert!(asked.join().unwrap().starts_with("GET /status HTTP/1.1\r\n"));
    let (address, _asked) = answer_once("200 OK", body);
    let ended = listening("http", &address, "").run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(status["indexes"]["users"]["state"], "live");
}

#[test]
fn an_order_shows_the_token_and_tells_what_the_host_answers() {
    let (address, asked) = answer_once("202 Accepted", "index users is filled again\n");
    let place = listening("control", &address, ", token_file: token");
    place.write("token", "sesame\n");
    let ended = place.run(&["backfill", "users"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "index users is filled again\n"));
    let request = asked.join().unwrap();
    assert!(request.starts_with("POST /backfill/users HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("authorization: bearer sesame\r\n"), "{request}");
}

#[test]
fn a_refused_order_is_a_failure() {
    let (address, _asked) = answer_once("401 Unauthorized", "show the token\n");
    let place = listening("control", &address, ", token_file: token");
    place.write("token", "wrong");
    let ended = place.run(&["pause"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (1, "the host refuses (status=401): show the token\n"));
}

#[test]
fn an_empty_token_is_no_token() {
    let place = listening("control", "127.0.0.1:0", ", token_file: token");
    place.write("token", "\n");
    for command in ["run", "pause"] {
        let ended = place.run(&[command]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("the control token can't be used (path=token): the file is empty"), "{ended:?}");
    }
}
