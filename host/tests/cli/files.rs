//! What it says of configurations and schemas, and the codes it ends with.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use crate::program::{Place, RIGHT, USERS, right};

#[test]
fn a_right_configuration_passes_the_check_offline() {
    let ended = right().run(&["check", "--offline"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "clean\n", ""));
    let ended = right().run(&["check", "--offline", "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report, serde_json::json!({ "clean": true, "findings": [] }));
}

#[test]
fn what_is_wrong_with_a_configuration_is_told_with_its_place_and_what_to_write() {
    let place = Place::new(&RIGHT.replace("sinks:", "sniks:"));
    let ended = place.run(&["run"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    let expected = "\
millstream.yaml:4:1: sniks: unknown key `sniks`; write `sinks`
  |
4 | sniks: { out: { jsonl: { path: docs.jsonl } } }
  | ^
";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn all_that_is_wrong_with_a_schema_is_told() {
    let place = right();
    place.write("users.schema.yaml", "table: users\nfields:\n  id: lnog\n  orders: { has_mny: orders }\n");
    let expected = "\
users.schema.yaml:3:7: fields.id: unknown type `lnog`; write `long`
  |
3 |   id: lnog
  |       ^
users.schema.yaml:4:13: fields.orders.has_mny: unknown key `has_mny`; write `has_many`
  |
4 |   orders: { has_mny: orders }
  |             ^
";
    for command in [&["run"][..], &["check", "--offline"], &["provision"], &["status"]] {
        let ended = place.run(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{command:?}");
        assert_eq!(ended.stderr, expected, "{command:?}");
    }
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let ended = right().run(&["run", "--config", "other.yaml"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    let expected = "can't read the configuration (path=other.yaml): No such file or directory (os error 2)\n";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn every_flag_is_an_environment_variable() {
    let place = right();
    std::fs::rename(place.path().join("millstream.yaml"), place.path().join("other.yaml")).unwrap();
    let mut command = place.command(&["check"]);
    command.envs([("MILLSTREAM_CONFIG", "other.yaml"), ("MILLSTREAM_OFFLINE", "1"), ("MILLSTREAM_JSON", "true")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"{"), "{output:?}");
}

#[test]
fn p19_no_error_shows_a_secret() {
    for command in [&["check"][..], &["provision"], &["preview", "users", "1"]] {
        let ended = right().run(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains("127.0.0.1") && !ended.stderr.contains("hunter2"), "{ended:?}");
    }
}

#[test]
fn p19_a_run_that_can_not_connect_logs_no_secret() {
    let place = right();
    let mut command = place.command(&["run", "--log", "trace"]);
    // A run goes on trying: it is ended once it has said why.
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("can't connect to Postgres") {
        assert!(log.read_line(&mut said).unwrap() > 0, "{said}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    log.read_to_string(&mut said).unwrap();
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn errors_are_json_lines_where_logs_are() {
    let ended = Place::new("name: shop\n").run(&["run", "--log-format", "json"]);
    assert_eq!(ended.code, 2);
    let line: serde_json::Value = serde_json::from_str(ended.stderr.trim_end()).unwrap();
    assert!(line["fields"]["message"].as_str().unwrap().contains("millstream.yaml"), "{line}");
}

#[test]
fn a_wrong_log_filter_and_a_wrong_argument_are_configuration_errors() {
    let ended = right().run(&["run", "--log", "millstream=loud"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.starts_with("the log filter can't be used (--log, RUST_LOG):"), "{ended:?}");
    assert_eq!(right().run(&["run", "--until-ilde"]).code, 2);
}

#[test]
fn json_schemas_are_json_and_accept_what_we_accept() {
    for (of, key) in [("config", "sinks"), ("index", "fields")] {
        let ended = right().run(&["json-schema", of]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        let schema: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(schema["properties"][key].is_object(), "{of}: {schema:#}");
    }
    assert_eq!(right().run(&["json-schema"]).stdout, right().run(&["json-schema", "config"]).stdout);
}

#[test]
fn an_index_that_is_not_there_is_told_with_those_that_are() {
    let ended = right().run(&["preview", "orders", "1"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (2, "there is no index orders; there are: users\n"));
    let two = Place::new(&RIGHT.replace("indexes: {", "indexes: { a: { schema: users.schema.yaml },"));
    two.write("users.schema.yaml", USERS);
    assert_eq!(two.run(&["preview", "b", "1"]).stderr, "there is no index b; there are: a, users\n");
}

#[test]
fn a_command_that_needs_no_value_needs_no_variable() {
    let config = RIGHT.replace("postgres://shop:hunter2@127.0.0.1:1/shop", "${DATABASE_URL}");
    let place = Place::new(&format!("{config}http: {{ listen: \"127.0.0.1:1\" }}\n"));
    place.write("users.schema.yaml", USERS);
    let ended = place.run(&["check", "--offline"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let note = "millstream.yaml:3:28: note[unset-variable] source.postgres.url: the environment variable DATABASE_URL is not set";
    assert!(ended.stdout.starts_with(note) && ended.stdout.ends_with("clean\n"), "{ended:?}");
    let ended = place.run(&["status"]);
    assert!(ended.stderr.starts_with("no host answers (url=http://127.0.0.1:1/status)"), "{ended:?}");
    assert_eq!(place.run(&["json-schema"]).code, 0);
    for command in [&["run"][..], &["check"], &["provision"], &["preview", "users", "1"]] {
        let ended = place.run(command);
        assert!(ended.code == 2 && ended.stderr.contains("DATABASE_URL is not set"), "{command:?}: {ended:?}");
    }
    // The one that it needs is named.
    let place = Place::new(&format!("{config}http: {{ listen: \"${{LISTEN}}\" }}\n"));
    place.write("users.schema.yaml", USERS);
    let ended = place.run(&["status"]);
    assert!(ended.code == 2 && ended.stderr.contains("LISTEN is not set"), "{ended:?}");
    assert_eq!(place.run(&["check", "--offline"]).code, 0);
}

#[test]
fn what_is_wrong_with_a_url_is_told_at_its_place_without_the_url() {
    for (part, why) in [
        ("127.0.0.1:1/shop?sslmode=requre", "the database URL's `sslmode` is not known"),
        ("127.0.0.1:1/shop?connect_timeout=3", "the database URL has an unknown parameter `connect_timeout`"),
        ("127.0.0.1:port/shop", "its port is no number from 0 to 65535"),
    ] {
        let place = Place::new(&RIGHT.replace("127.0.0.1:1/shop", part));
        place.write("users.schema.yaml", USERS);
        let ended = place.run(&["run"]);
        let is_right =
            ended.stderr.starts_with("millstream.yaml:3:28: source.postgres.url: ") && ended.stderr.contains(why);
        assert!(ended.code == 2 && is_right && !ended.stderr.contains("hunter2"), "{ended:?}");
    }
}
