//! What the program says before and beside a run: `check` agrees with `run`, each mistake is told once, and every script ends.

use std::time::{Duration, Instant};

use millstream_tests::wait::until;
use millstream_tests::{Cluster, Fold, Folder, Json, Stage, host_bin};

use crate::words::{family, notes, notes_on};

/// What `check` finds, `run` refuses with the same words; once it is mended both are content.
async fn refused(stage: &mut Stage, words: &[&str]) {
    let (code, found, said) = stage.ask(&["check"]).await;
    assert_eq!(code, Some(1), "check: {found}{said}");
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(matches!(code, Some(2 | 3)), "run: {code:?}\n{log}");
    for word in words {
        assert!(found.contains(word), "check does not say {word:?}:\n{found}");
        assert!(log.contains(word), "run does not say {word:?}:\n{log}");
    }
}

async fn clean(stage: &Stage) -> String {
    let (code, found, said) = stage.ask(&["check"]).await;
    assert_eq!(code, Some(0), "{found}{said}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_the_rights_that_run_would_lack() {
    let mut stage = notes("check_rights").await;
    let (role, database) = (format!("role_{}", stage.database().name()), stage.database().name().to_owned());
    stage.run(&format!("create role {role} login; alter table notes owner to {role}")).await;
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}"));
    refused(&mut stage, &[&format!("ALTER ROLE \"{role}\" REPLICATION")]).await;
    stage.run(&format!("alter role {role} replication")).await;
    let grant = format!("GRANT CREATE ON DATABASE \"{database}\" TO \"{role}\"");
    refused(&mut stage, &["CREATE PUBLICATION", &grant]).await;
    // Whoever asks for the statements gets all of them; the code says that somebody else must run them.
    let (code, script, _) = stage.ask(&["provision", "--apply"]).await;
    assert_eq!(code, Some(2), "{script}");
    assert!(script.contains("CREATE PUBLICATION") && script.contains(&grant), "{script}");
    stage.run(&format!("grant create on database {database} to {role}")).await;
    let found = clean(&stage).await;
    assert!(found.contains("note[publication]"), "{found}");
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_out_what_the_engine_would_run_itself() {
    let mut stage = family("refusal").await;
    stage.config.source("manage", "[publication, slot, indexes]");
    stage.run("drop index children_parent_id_idx").await;
    refused(&mut stage, &[r#"ALTER TABLE "public"."children" REPLICA IDENTITY FULL"#]).await;
    let log = stage.log();
    let end = log.lines().last().unwrap();
    assert!(end.contains("REPLICA IDENTITY FULL"), "{end}");
    assert!(!end.contains("CREATE PUBLICATION") && !end.contains("CREATE INDEX"), "{end}");
    // Text and JSON have one word for what is not somebody's to mend.
    let (_, found, _) = stage.ask(&["check"]).await;
    let (_, report, _) = stage.ask(&["check", "--json"]).await;
    for severity in ["note", "error"] {
        let (text, json) = (format!("{severity}["), format!("\"severity\": \"{severity}\""));
        assert_eq!(found.matches(&text).count(), report.matches(&json).count(), "{found}\n{report}");
        assert!(found.contains(&text), "{found}");
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_the_files_that_run_could_not_write() {
    let mut stage = notes("check_files").await;
    let path = stage.folder().path().join("docs.jsonl");
    let held = std::fs::File::create(&path).unwrap();
    held.lock().unwrap();
    let (code, found, _) = stage.ask(&["check"]).await;
    assert!(code == Some(1) && found.contains("in use by another process") && found.contains("docs.jsonl"), "{found}");
    // Whoever has it may be the one that this is to take over from: it is waited for.
    stage.spawn();
    stage.host().until_log("in use by another process").await;
    assert!(stage.stop().await, "what waits can be stopped");
    drop(held);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused(&mut stage, &["this is a folder", "docs.jsonl"]).await;
    std::fs::remove_dir(&path).unwrap();
    clean(&stage).await;
    assert!(!path.exists(), "a check makes nothing");
    stage.start().await;
    stage.settled().await;
    // A check beside a running engine finds no fault.
    let found = clean(&stage).await;
    assert!(found.contains("note[slot-held]"), "{found}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p16_check_finds_the_gap_at_which_run_would_stop() {
    let mut stage = notes("check_gap").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    clean(&stage).await;
    stage.run(&format!("select pg_drop_replication_slot('{}')", stage.database().name())).await;
    refused(&mut stage, &["the durable point is gone", "on_gap"]).await;
    stage.config.source("on_gap", "backfill");
    let found = clean(&stage).await;
    assert!(found.contains("note[gap]") && found.contains("fills every index again"), "{found}");
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("on_gap", "stop");
    stage.config.index("notes", "{ table: notes, fields: { id: integer } }");
    let found = clean(&stage).await;
    assert!(found.contains("note[refill] index notes"), "{found}");
    // Made for something else.
    stage
        .run(&format!(
            "select pg_drop_replication_slot('{0}'), pg_create_physical_replication_slot('{0}')",
            stage.database().name()
        ))
        .await;
    let (code, found, _) = stage.ask(&["check"]).await;
    assert_eq!(code, Some(1), "{found}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wal_level_that_waits_for_a_restart_is_told_as_that() {
    let cluster = Cluster::builder().conf("wal_level = replica").start().await;
    let mut stage = notes_on(&cluster, "check_wal_level").await;
    refused(&mut stage, &["wal_level=replica", "ALTER SYSTEM SET wal_level = 'logical'"]).await;
    stage.run("alter system set wal_level = 'logical'").await;
    refused(&mut stage, &["wal_level=replica", "takes effect only with a restart"]).await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_mistake_is_one_finding_and_stands_where_the_schema_makes_it() {
    let mut stage = family("one_mistake").await;
    let schema = "\
table: parents
fields:
  id: integer
  children:
    has_many: children
    join: { id: parent_idd }
    fields: { id: integer }
";
    stage.config.index("parents", schema);
    let (code, found, _) = stage.ask(&["check"]).await;
    assert!(code == Some(1) && found.ends_with("1 finding\n"), "{found}");
    assert!(
        found.contains("parents.schema.yaml:6:5: error[missing-column] index parents at fields.children.join"),
        "{found}"
    );
    assert_eq!(found.matches("parent_idd").count(), 1, "{found}");
    stage.config.index(
        "parents",
        &schema.replace("parent_idd", "parent_id").replace("has_many: children", "has_many: childern"),
    );
    let (_, found, _) = stage.ask(&["check"]).await;
    assert!(found.ends_with("1 finding\n") && found.contains("missing-table"), "{found}");
    assert!(found.contains("parents.schema.yaml:4:3: "), "{found}");
    // Nothing but a table that is not there: no publication of nothing.
    stage.config.index("parents", "{ table: parnts, fields: { id: integer } }");
    let (_, found, _) = stage.ask(&["check"]).await;
    assert!(found.ends_with("1 finding\n") && !found.contains("PUBLICATION"), "{found}");
    stage.spawn();
    let (_, log) = stage.ended().await;
    assert!(log.contains("parents.schema.yaml:1:"), "a run names the place, too:\n{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_what_is_missing_says_how_the_slot_is_made() {
    let mut stage = notes("script").await;
    let slot = format!("SELECT pg_create_logical_replication_slot('{}', 'pgoutput');", stage.database().name());
    let (code, script, _) = stage.ask(&["provision"]).await;
    assert_eq!(code, Some(1), "{script}");
    assert!(script.contains(&format!("-- the engine makes it when it starts: {slot}")), "{script}");
    // Where it is nobody's but the operator's to make, it is part of the script, which then suffices.
    stage.config.source("manage", "none");
    let (_, script, _) = stage.ask(&["provision"]).await;
    assert!(script.lines().any(|line| line == slot), "{script}");
    for line in script.lines().filter(|line| !line.starts_with("--")) {
        stage.run(line).await;
    }
    let (code, said, _) = stage.ask(&["provision"]).await;
    assert_eq!((code, said.as_str()), (Some(0), "-- nothing is missing\n"));
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_logs_each_thing_once_and_how_its_fill_goes() {
    let mut stage = notes("logs").await;
    stage.run("insert into notes select n from generate_series(1, 500) n").await;
    // `body` may be NULL, and the schema does not say so: a warning.
    stage.config.index("notes", "{ table: notes, fields: { id: integer, body: text } }");
    stage.start().await;
    stage.until_confirmed().await;
    let (_, status, _) = stage.ask(&["status"]).await;
    assert!(status.contains("index notes: live, filled with 500 rows"), "{status}");
    assert!(stage.stop().await);
    let log = stage.log();
    let nullable = "notes.schema.yaml:1:40: warning[nullable]";
    assert!(log.contains(nullable), "{nullable} is not in\n{log}");
    for once in ["[nullable]", "filling begins", "filling has ended: the index is live", "at work"] {
        assert_eq!(log.matches(once).count(), 1, "{once:?} in\n{log}");
    }
    stage.run(&format!("select pg_drop_replication_slot('{}')", stage.database().name())).await;
    let before = stage.log().len();
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3));
    assert_eq!(log[before..].matches("the durable point is gone").count(), 1, "an end is told once:\n{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn until_idle_ends_when_an_index_waits_for_somebody() {
    let mut stage = family("stuck").await;
    stage.run("insert into parents values (1, 'a')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.run("alter table parents drop column name").await;
    stage.spawn_with(&["--until-idle"]);
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("can't become idle: index parents is held") && log.contains("name"), "{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p15_the_status_says_who_holds_the_slot_that_is_waited_for() {
    let mut first = notes("status_waits").await;
    first.start().await;
    let mut second = Stage::on(first.database().cluster(), "status_waits_2").await;
    let url = first.database().url();
    second.config.source("url", &format!("{url:?}"));
    for key in ["slot", "publication"] {
        second.config.source(key, first.database().name());
    }
    second.index("notes", crate::words::NOTES_SCHEMA, crate::words::NOTES_ORACLE);
    second.spawn();
    let waits = || async {
        let status = second.host().status().await?;
        let detail = status.get("detail")?.as_text()?.to_owned();
        (status.get("state")?.as_text() == Some("starting")).then_some(detail)
    };
    let detail = until("the second to say what it waits for", waits).await;
    assert!(detail.contains("held by another process") && detail.contains("pid="), "{detail}");
    let (_, said, _) = second.ask(&["status"]).await;
    assert!(said.contains(&detail), "{said}");
    second.kill();
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_no_key_is_told_as_that() {
    let stage = notes("preview_id").await;
    let (code, _, said) = stage.ask(&["preview", "notes", "abc"]).await;
    assert_eq!(code, Some(2));
    assert_eq!(said, "can't preview: `abc` is no integer, as the key column `id` of public.notes holds\n");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p17_a_reader_that_takes_no_more_does_not_keep_the_host_from_ending() {
    let mut stage = notes("stalled_reader").await;
    stage.run("insert into notes select n, repeat('x', 1000) from generate_series(1, 20000) n").await;
    stage.config.sink("out", "{ jsonl: { path: \"-\" } }").engine("drain_deadline", "200ms");
    let folder = Folder::new();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Open, and never read.
    let _reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    stage.spawn_command(|config| {
        let mut command = std::process::Command::new("sh");
        let script = r#"exec "$0" run --config "$1" > "$2""#;
        command.arg("-c").arg(script).arg(host_bin()).arg(config).arg(&pipe);
        command
    });
    // Everything waits for the one write that nobody takes.
    let limited = |status: &Json| status.get("limiting_stage").and_then(Json::as_text) == Some("sink out");
    stage.host().until_status(Duration::from_secs(60), "the sink to hold up all else", limited).await;
    stage.host().signal(nix::sys::signal::Signal::SIGTERM);
    let (code, log) = stage.ended().await;
    assert!(code == Some(1) && log.contains("blocked"), "{code:?}\n{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_went_away_ends_the_host() {
    let mut stage = notes("closed_reader").await;
    stage.run("insert into notes values (1, 'n')").await;
    stage.config.sink("out", "{ jsonl: { path: \"-\" } }");
    stage.spawn_command(|config| {
        let mut command = std::process::Command::new("sh");
        let script = r#"{ "$0" run --config "$1"; echo "ended with $?" >&2; } | head -1"#;
        command.arg("-c").arg(script).arg(host_bin()).arg(config);
        command
    });
    let begun = Instant::now();
    while stage.is_running() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the host goes on:\n{}", stage.log());
        stage.run("update notes set body = body || '.'").await;
    }
    let (_, log) = stage.ended().await;
    assert!(log.contains("ended with 3") && log.contains("its reader went away"), "{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p16_a_sink_that_comes_back_late_is_filled_alone() {
    let mut stage = notes("sink_back").await;
    stage.run("insert into notes values (1, 'n')").await;
    let second = stage.folder().path().join("second.jsonl");
    let named = format!("{{ jsonl: {{ path: {second:?} }} }}");
    stage.config.sink("second", &named);
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.remove_sink("second");
    stage.start().await;
    stage.run("delete from notes; insert into notes values (2, 'unseen')").await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.sink("second", &named);
    let (code, found, _) = stage.ask(&["check"]).await;
    assert!(code == Some(0) && found.contains("note[sink-behind]") && found.contains("second"), "{found}");
    let before = stage.fold().clears("notes");
    stage.start().await;
    stage.settled().await;
    stage.run("insert into notes values (3, 'both')").await;
    stage.settled().await;
    let documents = Fold::read(&second).documents("notes");
    assert_eq!(documents.keys().collect::<Vec<_>>(), ["2", "3"], "it missed what came meanwhile");
    assert_eq!(stage.fold().clears("notes"), before, "the other sink is not filled again");
    stage.close().await;
}
