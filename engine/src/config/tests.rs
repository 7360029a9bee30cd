use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;

const USERS: &str = "table: shop.users\nfields: { id: long }\n";

const FULL: &str = r#"
version: 1
name: shop
source:
  postgres:
    url: "${DATABASE_URL}"
    slot: shop_1
    publication: "My Publication"
    manage: [publication, indexes]
    read_url: postgres://reader@standby/shop
    slot_wait: forever
    on_gap: backfill
    hold: 5m
    row_level_security: accept
    heartbeat: off
    password_file: secrets/password
    tls: verify-full
    tls_root: /etc/ca.pem
sinks:
  audit: { jsonl: { path: out/docs.jsonl } }
  shell: { jsonl: { path: "-" } }
  zero: { null: {} }
dead_letters: { jsonl: { path: out/dead.jsonl } }
indexes:
  users: { schema: users.schema.yaml }
  orders:
    on_error: stop
    schema:
      table: orders
      where: "note <> '$$'"
      fields: { id: long }
  old: { schema: users.schema.yaml, enabled: false }
http: { listen: "127.0.0.1:9464" }
control: { listen: "127.0.0.1:9465", token_file: secrets/token }
engine: { builders: 4, sink_bytes: 16MiB, drain_deadline: 20s }
"#;

fn environment(name: &str) -> Option<String> {
    match name {
        "DATABASE_URL" => Some("postgres://me:hunter2@db:6543/shop".to_owned()),
        "WORD" => Some("hunter2".to_owned()),
        "NUMBER" => Some("7".to_owned()),
        _ => None,
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users.schema.yaml"), USERS).unwrap();
    folder
}

fn read(text: &str, folder: &Path) -> Result<Config, ConfigError> {
    Config::read(text, "c.yaml", folder, &environment)
}

/// A configuration that is right, but for the lines that are put in place of others.
fn with(from: &str, to: &str) -> String {
    let base = "name: shop\nsource: { postgres: { url: postgres://me@db/shop } }\nsinks:\n  out: { null: {} }\n\
                dead_letters: { jsonl: { path: dead.jsonl } }\nindexes:\n  users: { schema: users.schema.yaml }\n";
    assert!(base.contains(from), "{from}");
    base.replace(from, to)
}

fn error(text: &str) -> String {
    read(text, folder().path()).expect_err("it is wrong").to_string()
}

/// The first line of the only error.
fn first_line(text: &str) -> String {
    let error = error(text);
    error.lines().next().unwrap().to_owned()
}

#[test]
fn everything_that_a_file_may_say_is_read() {
    let folder = folder();
    let config = read(FULL, folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((config.version, config.name.as_str()), (1, "shop"));
    let SourceSection::Postgres(postgres) = &config.source else { panic!("a Postgres") };
    assert_eq!((postgres.slot.as_str(), postgres.publication.as_str()), ("shop_1", "My Publication"));
    assert_eq!(postgres.manage, Manage { publication: true, indexes: true, ..Manage::NONE });
    assert_eq!((postgres.slot_wait, postgres.on_gap), (SlotWait::Forever, Gap::Backfill));
    assert_eq!((postgres.hold, postgres.heartbeat), (Span(Duration::from_secs(300)), Heartbeat(None)));
    assert_eq!(postgres.row_level_security, RowLevelSecurity::Accept);
    let settings = postgres.settings().unwrap();
    assert_eq!((settings.host.as_str(), settings.port, settings.user.as_str()), ("db", 6543, "me"));
    assert_eq!(settings.tls, millstream_postgres::TlsMode::VerifyFull);
    assert_eq!(settings.tls_root.as_deref(), Some(Path::new("/etc/ca.pem")));
    assert!(
        matches!(settings.password, millstream_postgres::Password::File(file) if file == folder.path().join("secrets/password"))
    );
    assert_eq!(postgres.read_settings().unwrap().unwrap().host, "standby");
    let SinkSection::Jsonl(audit) = &config.sinks["audit"] else { panic!("a file") };
    assert_eq!(audit.path, folder.path().join("out/docs.jsonl"));
    assert!(matches!(&config.sinks["shell"], SinkSection::Jsonl(shell) if shell.is_stdout()));
    assert!(matches!(&config.sinks["zero"], SinkSection::Null(_)));
    let indexes: Vec<_> = config.schemas().map(|(name, schema)| (name.to_string(), schema.table.to_string())).collect();
    assert_eq!(
        indexes,
        [("orders".to_owned(), "public.orders".to_owned()), ("users".to_owned(), "shop.users".to_owned())]
    );
    let orders = config.indexes["orders"].definition.as_ref().unwrap();
    assert_eq!(orders.0.filter.as_ref().unwrap().0, "note <> '$$'");
    assert_eq!(config.indexes["orders"].on_error, OnError::Stop);
    assert_eq!(config.engine.builders.map(|number| number.get()), Some(4));
    assert_eq!(config.engine.sink_bytes, Some(Bytes(16 << 20)));
    assert_eq!(config.engine.drain_deadline, Some(Span(Duration::from_secs(20))));
    assert_eq!(config.progress, folder.path().join("millstream-progress"));
}

#[test]
fn what_is_left_out_has_its_default() {
    let folder = folder();
    let text = with("url: postgres://me@db/shop", "host: /run/pg, user: me, port: \"${NUMBER}\"")
        .replace("name: shop", "name: shop\nengine:");
    let config = read(&text, folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let SourceSection::Postgres(postgres) = &config.source else { panic!("a Postgres") };
    assert_eq!((postgres.slot.as_str(), postgres.publication.as_str()), ("millstream", "millstream"));
    assert_eq!(postgres.manage, Manage { publication: true, slot: true, ..Manage::NONE });
    assert_eq!(postgres.slot_wait, SlotWait::For(Duration::from_secs(60)));
    assert_eq!((postgres.on_gap, postgres.row_level_security), (Gap::Stop, RowLevelSecurity::Refuse));
    assert_eq!((postgres.hold.0, postgres.auth_grace.0), (Duration::from_secs(900), Duration::from_secs(600)));
    assert_eq!(postgres.heartbeat, Heartbeat(Some(Duration::from_secs(10))));
    let settings = postgres.settings().unwrap();
    assert_eq!((settings.host.as_str(), settings.port, settings.database.as_str()), ("/run/pg", 7, "me"));
    assert_eq!(config.indexes["users"].on_error, OnError::DeadLetter);
    assert_eq!(config.engine, EngineSection::default());
}

#[test]
fn each_fault_names_its_place_and_what_to_write() {
    let url = "url: postgres://me@db/shop";
    let out = "out: { null: {} }";
    let letters = "dead_letters: { jsonl: { path: dead.jsonl } }\n";
    let index = "users: { schema: users.schema.yaml }";
    let cases = [
        // Keys and words.
        ("name: shop", "nmae: shop", "c.yaml:1:1: nmae: unknown key `nmae`; write `name`"),
        ("name: shop\n", "", "c.yaml:1:1: the key `name` is missing; write `name: …`"),
        (
            "name: shop",
            "name: \"my shop\"",
            "c.yaml:1:7: name: `my shop` can't be a name: up to 100 letters (a to z), digits, `-`, `_` and `.` are allowed, the first a letter or digit",
        ),
        (
            "name: shop",
            "name: shop\nversion: 2",
            "c.yaml:2:10: version: this version of the format is not known; write `1`",
        ),
        ("name: shop", "name: shop\nname: x", "c.yaml:2:1: duplicate mapping key `name` is not allowed here"),
        ("postgres:", "postgers:", "c.yaml:2:11: source: `postgers` is not known here; write `postgres`"),
        // The source.
        (
            url,
            "url: postgres://me@db/shop, slto: x",
            "c.yaml:2:51: source.postgres.slto: unknown key `slto`; write `slot`",
        ),
        (
            url,
            "slot: x",
            "c.yaml:2:11: source.postgres: nothing says where the database is; write `url: \"${DATABASE_URL}\"`, or `host`, `user` and `database`",
        ),
        (url, "host: db", "c.yaml:2:11: source.postgres: the key `user` is missing; write `user: …`"),
        (
            url,
            "url: postgres://me@db/shop, host: db",
            "c.yaml:2:57: source.postgres.host: `url` says this already; keep one of the two",
        ),
        (
            url,
            "url: mysql://me@db/shop",
            "c.yaml:2:28: source.postgres.url: the database URL can't be used: it does not begin with postgres://; to mend it: write postgres://USER:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded",
        ),
        (
            url,
            "host: db, user: me, password: x, password_file: y",
            "c.yaml:2:71: source.postgres.password_file: `password` is there as well; keep one of the two",
        ),
        (
            url,
            "host: db, user: me, port: 65536",
            "c.yaml:2:49: source.postgres.port: a whole number from 0 to 65535 is expected here, not `65536`",
        ),
        (
            url,
            "host: db, user: me, slot: My-Slot",
            "c.yaml:2:49: source.postgres.slot: `My-Slot` can't be a slot: up to 63 small letters (a to z), digits and `_` are allowed",
        ),
        (
            url,
            "host: db, user: me, hold: 15",
            "c.yaml:2:49: source.postgres.hold: `15` has no unit: a length of time is a number and its unit (ms, s, m, h, d), such as `30s`",
        ),
        (
            url,
            "host: db, user: me, slot_wait: for ever",
            "c.yaml:2:54: source.postgres.slot_wait: `for ever` is not understood: a length of time is a number and its unit (ms, s, m, h, d), such as `30s`; or write `forever`",
        ),
        (
            url,
            "host: db, user: me, heartbeat: 0s",
            "c.yaml:2:54: source.postgres.heartbeat: `0s` would never end; write `off`, or a longer time",
        ),
        (
            url,
            "host: db, user: me, manage: some",
            "c.yaml:2:51: source.postgres.manage: `some` is not known here; write `all`, `none`, or a list of `publication`, `slot`, `identity`, `indexes`",
        ),
        (
            url,
            "host: db, user: me, manage: [slots]",
            "c.yaml:2:52: source.postgres.manage[0]: `slots` is not known here; write `slot`",
        ),
        (
            url,
            "host: db, user: me, tls: verify_full",
            "c.yaml:2:48: source.postgres.tls: `verify_full` is not known here; write `verify-full`",
        ),
        (
            url,
            "host: db, user: me, column_lists: yes",
            "c.yaml:2:57: source.postgres.column_lists: true or false is expected here, not `yes`",
        ),
        // Sinks and dead letters.
        (
            out,
            "out: { opensearch: {} }",
            "c.yaml:4:10: sinks.out: `opensearch` is not known here; known here: jsonl, null",
        ),
        (out, "out: { jsonl: {} }", "c.yaml:4:17: sinks.out.jsonl: the key `path` is missing; write `path: …`"),
        (
            "\n  out: { null: {} }",
            " {}",
            "c.yaml:3:1: sinks: there is no sink; write one such as `out: { jsonl: { path: out/docs.jsonl } }`",
        ),
        (
            out,
            "a: { jsonl: { path: x } }\n  b: { jsonl: { path: x } }",
            "c.yaml:5:23: sinks.b.jsonl.path: the sink `a` writes to this file already; name another file",
        ),
        (
            out,
            "a: { jsonl: { path: x } }\n  b: { jsonl: { path: ./x } }",
            "c.yaml:5:23: sinks.b.jsonl.path: the sink `a` writes to this file already; name another file",
        ),
        (
            out,
            "a: { jsonl: { path: x } }\n  b: { jsonl: { path: x.progress.json } }",
            "c.yaml:5:23: sinks.b.jsonl.path: the sink `a` writes to this file already; name another file",
        ),
        (
            out,
            "a: { jsonl: { path: dead.jsonl } }",
            "c.yaml:5:32: dead_letters.jsonl.path: the sink `a` writes to this file already; name another file",
        ),
        (
            letters,
            "",
            "c.yaml:6:3: indexes.users: documents that can't be built would have nowhere to go; write `dead_letters: { jsonl: { path: out/dead.jsonl } }` at the top, or `on_error: stop` here",
        ),
        (
            "path: dead.jsonl",
            "path: \"-\"",
            "c.yaml:5:32: dead_letters.jsonl.path: dead letters are kept in a file: standard output can't be read again; name a file",
        ),
        // Indexes.
        (
            "\n  users: { schema: users.schema.yaml }",
            " {}",
            "c.yaml:6:1: indexes: there is no index; write one such as `users: { schema: users.schema.yaml }`",
        ),
        (index, "users: {}", "c.yaml:7:10: indexes.users: the key `schema` is missing; write `schema: …`"),
        (
            index,
            "users: { schema: users.schema.yaml, on_error: skip }",
            "c.yaml:7:49: indexes.users.on_error: `skip` is not known here; known here: dead_letter, stop",
        ),
        (
            index,
            "\"a b\": { schema: users.schema.yaml }",
            "c.yaml:7:3: indexes.a b: `a b` can't be a name: up to 100 letters (a to z), digits, `-`, `_` and `.` are allowed, the first a letter or digit",
        ),
        (
            index,
            "users:\n    schema: { table: users, fields: { id: lnog } }",
            "c.yaml:8:43: fields.id: unknown type `lnog`; write `long`",
        ),
        // The rest.
        (
            "name: shop",
            "name: shop\nhttp: { listen: 9464 }",
            "c.yaml:2:17: http.listen: `9464` is no address with a port; write one such as `127.0.0.1:9464` or `[::1]:9464`",
        ),
        (
            "name: shop",
            "name: shop\nhttp: { listen: \"[::1]:1\" }\ncontrol: { listen: \"[::1]:1\", token_file: t }",
            "c.yaml:3:20: control.listen: `http` listens here as well; name another port",
        ),
        (
            "name: shop",
            "name: shop\ncontrol: { listen: \"[::1]:1\" }",
            "c.yaml:2:10: control: the key `token_file` is missing; write `token_file: …`",
        ),
        (
            "name: shop",
            "name: shop\nengine: { builder: 4 }",
            "c.yaml:2:11: engine.builder: unknown key `builder`; write `builders`",
        ),
        (
            "name: shop",
            "name: shop\nengine: { builders: 0 }",
            "c.yaml:2:21: engine.builders: 1 or more is expected here, not `0`",
        ),
        (
            "name: shop",
            "name: shop\nengine: { sink_bytes: 4096 }",
            "c.yaml:2:23: engine.sink_bytes: `4096` has no unit: a size is a number and its unit (B, KiB, MiB, GiB), such as `16MiB`",
        ),
        // Variables.
        (
            url,
            "host: db, user: me, port: ${NUMBER}",
            "c.yaml:2:50: while parsing a flow mapping, did not find expected ',' or '}'; inside braces a variable stands in quotes: `\"${NAME}\"`",
        ),
        (
            url,
            "url: \"${NONE}\"",
            "c.yaml:2:28: source.postgres.url: the environment variable NONE is not set: set it, or write `${NONE:-default}`",
        ),
        (
            url,
            "url: \"${NONE:?ask Ann}\"",
            "c.yaml:2:28: source.postgres.url: the environment variable NONE is not set: ask Ann",
        ),
    ];
    let mut differing = Vec::new();
    for (from, to, expected) in cases {
        let found = first_line(&with(from, to));
        if found != expected {
            differing.push(format!("{to}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_line_is_shown_with_a_mark() {
    let shown = error(&with("name: shop", "name: shop\nengine: { builder: 4 }"));
    let expected = "c.yaml:2:11: engine.builder: unknown key `builder`; write `builders`
  |
2 | engine: { builder: 4 }
  |           ^";
    assert_eq!(shown, expected);
}

#[test]
fn faults_in_several_places_are_told_together() {
    let folder = folder();
    fs::write(folder.path().join("bad.yaml"), "table: users\nfields: { id: lnog, name: txet }\n").unwrap();
    let text =
        with("users: { schema: users.schema.yaml }", "users: { schema: bad.yaml }\n  gone: { schema: gone.yaml }")
            .replace("url: postgres://me@db/shop", "host: db");
    let error = read(&text, folder.path()).unwrap_err().to_string();
    let bad = folder.path().join("bad.yaml");
    for expected in [
        "c.yaml:2:11: source.postgres: the key `user` is missing; write `user: …`".to_owned(),
        format!(
            "c.yaml:8:19: indexes.gone.schema: can't read the schema (path={}): ",
            folder.path().join("gone.yaml").display()
        ),
        format!("{}:2:15: fields.id: unknown type `lnog`; write `long`", bad.display()),
        format!("{}:2:27: fields.name: unknown type `txet`; write `text`", bad.display()),
    ] {
        assert!(error.contains(&expected), "{expected}\nis not in\n{error}");
    }
}

#[test]
fn p19_no_error_shows_the_value_of_a_variable_or_of_a_secret() {
    for (from, to, expected) in [
        (
            "name: shop",
            "name: shop\nengine: { builders: \"${WORD}\" }",
            "engine.builders: a whole number, 0 or more is expected here, not `${WORD}`",
        ),
        (
            "name: shop",
            "name: shop\nengine: { drain_deadline: \"${WORD}\" }",
            "`${WORD}` is not understood: a length of time",
        ),
        ("name: shop", "name: \"x ${WORD}\"", "`x ${WORD}` can't be a name"),
        ("url: postgres://me@db/shop", "url: \"${WORD}\"", "the database URL can't be used"),
        (
            "url: postgres://me@db/shop",
            "url: \"postgres://me:hunter2@db:port/\"",
            "the database URL can't be used: its port is no number from 0 to 65535",
        ),
        ("url: postgres://me@db/shop", "host: db, user: me, manage: \"${WORD}\"", "`${WORD}` is not known here"),
        ("url: postgres://me@db/shop", "host: db, user: me, on_gap: \"${WORD}\"", "`${WORD}` is not known here"),
        ("url: postgres://me@db/shop", "host: db, user: me, password: hunter2, slto: x", "unknown key `slto`"),
        (
            "url: postgres://me@db/shop",
            "host: db, user: me, password: [hunter2]",
            "a text is expected here, not a list",
        ),
        ("users.schema.yaml", "\"${WORD}.yaml\"", "can't read the schema (path="),
    ] {
        let shown = error(&with(from, to));
        assert!(shown.contains(expected), "{expected}\nis not in\n{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let config = read(FULL, folder().path()).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_file_is_loaded_with_its_schemas_and_a_missing_one_is_named() {
    let folder = folder();
    let path = folder.path().join("millstream.yaml");
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("can't read the configuration (path={}): ", path.display())), "{error}");
    fs::write(&path, with("name: shop", "name: shop")).unwrap();
    let config = Config::load(&path).unwrap();
    assert_eq!(config.schemas().count(), 1);
}

#[test]
fn the_json_schema_knows_every_key_that_the_full_file_uses() {
    let schema = json_schema();
    let text = schema.to_string();
    for key in
        ["name", "slot_wait", "read_url", "jsonl", "null", "dead_letters", "on_error", "token_file", "drain_deadline"]
    {
        assert!(text.contains(&format!("\"{key}\":")), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
    let required: Vec<_> = schema["required"].as_array().unwrap().iter().filter_map(|key| key.as_str()).collect();
    assert_eq!(required, ["name", "source", "sinks", "indexes"]);
    let postgres = &schema["$defs"]["PostgresSection"]["properties"];
    assert_eq!((&postgres["hold"]["default"], &postgres["slot"]["default"]), (&"15m".into(), &"millstream".into()));
}

#[test]
fn who_needs_no_values_is_told_of_unset_variables_and_goes_on() {
    let folder = folder();
    let text =
        FULL.replace("slot_wait: forever", "slot_wait: \"${WAIT}\"").replace("\"127.0.0.1:9464\"", "\"${LISTEN}\"");
    let (config, unset) = Config::read_partly(&text, "c.yaml", folder.path(), &|_| None).unwrap();
    assert!(config.http.is_none(), "a section that has no meaning without the value is left out");
    assert_eq!(config.control.unwrap().listen.port(), 9465);
    let unset: Vec<String> = unset.iter().map(|error| format!("{}: {}", error.path, error.message)).collect();
    assert_eq!(unset.len(), 3, "{unset:?}");
    assert!(unset[0].starts_with("source.postgres.url: the environment variable DATABASE_URL is not set"), "{unset:?}");
    // What is wrong beside stays an error.
    let wrong = text.replace("on_gap: backfill", "on_gap: bakfill");
    let error = Config::read_partly(&wrong, "c.yaml", folder.path(), &|_| None).unwrap_err().to_string();
    assert!(error.contains("on_gap"), "{error}");
    // And what the whole has no meaning without.
    let nameless = text.replace("name: shop", "name: \"${NAME}\"");
    let error = Config::read_partly(&nameless, "c.yaml", folder.path(), &|_| None).unwrap_err().to_string();
    assert!(error.contains("c.yaml:3:7: name: the environment variable NAME is not set"), "{error}");
}

#[test]
fn a_file_without_an_end_is_refused() {
    let error = Config::load("/dev/zero").unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("larger than 16 MiB"), "{error}");
}

#[test]
fn each_fault_of_a_polled_source_names_its_place_and_what_to_write() {
    let head = "name: shop\nsource:\n  polling:\n    store: { sqlite: { path: s.db } }\n";
    let tail = "sinks: { out: { null: {} } }\nindexes: { users: { schema: users.schema.yaml, on_error: stop } }\n";
    let table = |table: &str| format!("    sql_table:\n      url: sqlite:shop.db\n      tables:\n        t: {table}\n");
    let cases = [
        (
            String::new(),
            "c.yaml:3:3: source.polling: nothing says what is polled; write one such as `csv_folder: { path: inbox, key: [id] }`",
        ),
        (
            format!("    csv_folder: {{ path: in, key: [id] }}\n{}", table("{ reconciled: true }")),
            "c.yaml:6:5: source.polling.sql_table: `csv_folder` says already what is polled; keep one of the two",
        ),
        (
            table("{ key: [id] }"),
            "c.yaml:8:9: source.polling.sql_table.tables.t: nothing says how its changes are found; write `cursor: updated_at`, or `reconciled: true` to read it whole each time",
        ),
        (
            table("{ cursor: at, reconciled: true }"),
            "c.yaml:8:38: source.polling.sql_table.tables.t.reconciled: a table that is read whole needs no cursor; keep one of the two",
        ),
        (
            table("{ reconciled: true, settle: 3s }"),
            "c.yaml:8:40: source.polling.sql_table.tables.t.settle: this is for a table with a cursor; name the cursor, or remove it",
        ),
        (
            table("{ cursor: at, settle: 3 }"),
            "c.yaml:8:34: source.polling.sql_table.tables.t.settle: `3` has no unit: a length of time is a number and its unit (ms, s, m, h, d), such as `30s`",
        ),
        (
            table("{ cursor: at, look_back: soon }"),
            "c.yaml:8:37: source.polling.sql_table.tables.t.look_back: `soon` is not understood: a length of time is a number and its unit (ms, s, m, h, d), such as `30s`; or a bare number, for a cursor of whole numbers",
        ),
        (
            table("{ cursor: at, zone: Europe/Vienna }"),
            "c.yaml:8:32: source.polling.sql_table.tables.t.zone: `Europe/Vienna` is no zone: write `UTC`, or hours and minutes east of it such as `\"+02:00\"`",
        ),
        (
            table("{ cursr: at }"),
            "c.yaml:8:14: source.polling.sql_table.tables.t.cursr: unknown key `cursr`; write `cursor`",
        ),
        (
            table("{ reconciled: true }").replace("sqlite:shop.db", "oracle:x"),
            "c.yaml:6:12: source.polling.sql_table.url: the database's url must begin with postgres://, mysql://, mariadb:// or sqlite:",
        ),
    ];
    let api = |stream: &str| format!("    http_json: {{ url: \"https://api\", streams: {{ s: {stream} }} }}\n");
    #[rustfmt::skip]
    let apis = [
        (api("{ key: [] }"), "c.yaml:5:54: source.polling.http_json.streams.s.key: the key has no member; name at least one, such as `[id]`"),
        (
            api("{ key: [id], reconciled: true, since: { parameter: a, field: b } }"),
            "c.yaml:5:83: source.polling.http_json.streams.s.since: a list that is read whole is not asked for what is new; keep one of the two",
        ),
        (
            api("{ key: [id], pages: { tokn: { at: a, parameter: b } } }"),
            "c.yaml:5:74: source.polling.http_json.streams.s.pages: `tokn` is not known here; write `token`",
        ),
    ];
    let mut differing = Vec::new();
    for (text, expected) in cases.into_iter().chain(apis) {
        let found = first_line(&format!("{head}{text}{tail}"));
        if found != expected {
            differing.push(format!("{text}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn a_file_that_an_url_names_is_found_from_the_configuration() {
    let folder = folder();
    let url = |url: &str| {
        let text = format!(
            "name: shop\nsource: {{ polling: {{ store: {{ sqlite: {{ path: s.db }} }}, sql_table: {{ url: \"{url}\", tables: \
             {{ t: {{ reconciled: true }} }} }} }} }}\nsinks: {{ out: {{ null: {{}} }} }}\nindexes: {{ users: {{ schema: \
             users.schema.yaml, on_error: stop }} }}\n"
        );
        let config = Config::read(&text, "c.yaml", folder.path(), &environment).unwrap();
        let SourceSection::Polling(polling) = config.source else { panic!("a polled source") };
        polling.sql_table.unwrap().url.expose().to_owned()
    };
    let here = folder.path().display();
    assert_eq!(url("sqlite:in/shop.db?mode=ro"), format!("sqlite:{here}/in/shop.db?mode=ro"));
    assert_eq!(url("sqlite://shop.db"), format!("sqlite:{here}/shop.db"));
    assert_eq!(url("sqlite:/var/shop.db"), "sqlite:/var/shop.db");
    assert_eq!(url("mysql://me@db/shop"), "mysql://me@db/shop");
}
