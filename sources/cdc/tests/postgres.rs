//! The Postgres capture against a server.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_cdc::{
    CaptureEvent, ChangeBatch, ChangeCapture, CoverageChange, KeyRange, PostgresCapture, PostgresCaptureSettings,
    PrepareMode, Readiness,
};
use millstream_core::schema::*;
use millstream_core::{IndexSchema, Result, SnapshotTable, SourceError, SourceErrorKind, SourceSpec};
use millstream_model::{ChangedRow, LinkValue, Operation, QualifiedTable, RowKey, Secret, Text};
use millstream_postgres::{Manage, Password, TlsMode};
use support::{Cluster, Session};

fn table(name: &str) -> QualifiedTable {
    QualifiedTable::new("public", name)
}

/// An index over `root` with `child` rows found by `child.link = root.id`.
fn spec(root: &str, child: Option<(&str, &str)>) -> SourceSpec {
    let relation = child.map(|(child, link)| Relation {
        cardinality: Cardinality::HasMany,
        path: Path {
            table: table(child),
            join: vec![JoinPair { left: "id".into(), right: link.into() }],
            through: Vec::new(),
            to: Vec::new(),
            filter: None,
            distinct: false,
            ignore_moves: false,
        },
        when: None,
        order_by: Vec::new(),
        limit: None,
        key_by: None,
        inline: false,
        fields: Vec::new(),
    });
    let fields = relation
        .map(|relation| Field {
            name: "children".into(),
            nullable: false,
            mapping: None,
            kind: FieldKind::Relation(relation),
        })
        .into_iter()
        .collect();
    let schema = IndexSchema { table: table(root), key: None, filter: None, delete_when: None, fields };
    SourceSpec::new([(root.into(), schema)])
}

fn settings() -> PostgresCaptureSettings {
    PostgresCaptureSettings::default()
        .with_manage(Manage::ALL)
        .with_inspect_interval(Duration::from_millis(300))
        .with_slot_wait(Some(Duration::from_secs(5)))
        .with_heartbeat(None)
}

fn capture(cluster: &Cluster) -> PostgresCapture {
    PostgresCapture::new(cluster.settings(), settings())
}

struct Live(BoxStream<'static, Result<CaptureEvent>>);

async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("too late: {what}"))
}

impl Live {
    async fn event(&mut self) -> CaptureEvent {
        within("an event", self.0.next()).await.expect("the stream goes on").expect("no error")
    }

    /// The next batch that has rows.
    async fn batch(&mut self) -> ChangeBatch {
        loop {
            if let CaptureEvent::Changes(batch) = self.event().await
                && !batch.rows.is_empty()
            {
                return batch;
            }
        }
    }

    /// So many rows, and the last ack.
    async fn rows(&mut self, count: usize) -> Vec<ChangedRow> {
        let mut rows = Vec::new();
        while rows.len() < count {
            rows.extend(self.batch().await.rows);
        }
        assert_eq!(rows.len(), count, "{rows:?}");
        rows
    }

    async fn coverage(&mut self) -> CoverageChange {
        loop {
            if let CaptureEvent::Coverage(notice) = self.event().await {
                return notice.change;
            }
        }
    }

    async fn error(&mut self) -> SourceError {
        within("an error", async {
            loop {
                match self.0.next().await {
                    Some(Err(error)) => return error,
                    Some(Ok(_)) => {}
                    None => panic!("ended without an error"),
                }
            }
        })
        .await
    }
}

async fn live(capture: &PostgresCapture, spec: &SourceSpec) -> Live {
    capture.prepare(spec, PrepareMode::Create, None).await.unwrap();
    Live(capture.live().await.unwrap())
}

async fn shop(cluster: &Cluster) -> Session {
    let mut session = cluster.session().await;
    session
        .run(
            "create table users (id int primary key, name text);
             create table orders (id bigint primary key, user_id int, note text)",
        )
        .await;
    session
}

fn key(row: &ChangedRow) -> String {
    row.key.to_id()
}

fn link(values: &Option<millstream_model::LinkValues>, name: &str) -> LinkValue {
    values.as_ref().map_or(LinkValue::Absent, |values| values.get(name).clone())
}

#[tokio::test]
async fn p5_a_moved_child_names_both_parents_and_a_changed_key_its_old_one() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let spec = spec("users", Some(("orders", "user_id")));
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec).await;
    app.run(
        "insert into users values (1, 'a'), (2, 'b'); insert into orders values (10, 1, 'x');
         update orders set user_id = 2; update orders set note = 'y'; update users set id = 3 where id = 2;
         delete from orders",
    )
    .await;
    let rows = live.rows(7).await;
    assert_eq!(rows.iter().map(key).collect::<Vec<_>>(), ["1", "2", "10", "10", "10", "3", "10"]);
    let text = |value: &str| LinkValue::Text(Text::from(value));
    assert_eq!(link(&rows[2].after, "user_id"), text("1"));
    assert_eq!((link(&rows[3].before, "user_id"), link(&rows[3].after, "user_id")), (text("1"), text("2")));
    assert_eq!((rows[4].before.is_none(), link(&rows[4].after, "user_id")), (true, text("2")));
    assert_eq!(rows[5].old_key.as_ref().map(RowKey::to_id), Some("2".to_owned()));
    assert_eq!((rows[6].operation, link(&rows[6].before, "user_id")), (Operation::Delete, text("2")));
    assert!(rows[6].after.is_none());
}

#[tokio::test]
async fn p2_a_restart_goes_on_behind_what_was_confirmed() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let spec = spec("users", None);
    let capture = capture(&cluster);
    let mut first = live(&capture, &spec).await;
    app.run("insert into users values (1)").await;
    first.batch().await.ack.confirm();
    app.run("insert into users values (2)").await;
    let unconfirmed = first.batch().await;
    assert_eq!(key(&unconfirmed.rows[0]), "2");
    drop((first, unconfirmed));
    within("the close", capture.close()).await;
    let mut second = live(&capture, &spec).await;
    assert_eq!(key(&second.rows(1).await[0]), "2");
}

#[tokio::test]
async fn case_a1_a_transaction_that_began_before_and_committed_after_the_confirmed_one_comes() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let mut other = cluster.session().await;
    let spec = spec("users", None);
    let first_capture = capture(&cluster);
    let mut first = live(&first_capture, &spec).await;
    app.run("begin; insert into users values (1)").await;
    other.run("insert into users values (2)").await;
    first.batch().await.ack.confirm();
    drop(first);
    within("the close", first_capture.close()).await;
    app.run("insert into users values (3); commit").await;
    let second_capture = capture(&cluster);
    second_capture.prepare(&spec, PrepareMode::Resume, None).await.unwrap();
    let mut second = Live(second_capture.live().await.unwrap());
    assert_eq!(second.rows(2).await.iter().map(key).collect::<Vec<_>>(), ["1", "3"]);
}

#[tokio::test]
async fn case_b1_the_resume_point_follows_the_log_while_others_write() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    app.run("create table other (id int)").await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", None)).await;
    app.run("insert into other select generate_series(1, 200000)").await;
    let head = capture.lag().await.unwrap().unwrap().head.unwrap();
    within("the resume point", async {
        loop {
            if let CaptureEvent::Changes(batch) = live.event().await {
                let position = batch.ack.position();
                batch.ack.confirm();
                if position.is_some_and(|position| position >= head) {
                    break;
                }
            }
        }
        while capture.lag().await.unwrap().unwrap().confirmed.is_none_or(|confirmed| confirmed < head) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn p2_only_the_last_batch_of_a_big_transaction_carries_its_position() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", None)).await;
    app.run("insert into users select generate_series(1, 5000)").await;
    let mut told = 0;
    let mut position = None;
    while told < 5000 || position.is_none() {
        let CaptureEvent::Changes(batch) = live.event().await else { continue };
        // The server's position of before may ride on the first batch.
        if told == 0 {
            told += batch.rows.len();
            continue;
        }
        told += batch.rows.len();
        assert!(batch.rows.len() <= 1000);
        position = batch.ack.position();
        assert!(position.is_none() || told == 5000, "{told} rows at {position:?}");
    }
}

#[tokio::test]
async fn p7_a_truncate_stands_alone() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", Some(("orders", "user_id")))).await;
    app.run("begin; insert into users values (1); truncate users, orders; insert into users values (2); commit").await;
    let batches = [live.batch().await, live.batch().await, live.batch().await, live.batch().await];
    let operations: Vec<_> = batches.iter().map(|batch| (batch.rows.len(), batch.rows[0].operation)).collect();
    assert_eq!(
        operations,
        [(1, Operation::Upsert), (1, Operation::Truncate), (1, Operation::Truncate), (1, Operation::Upsert)]
    );
}

#[tokio::test]
async fn p15_a_held_slot_names_its_holder() {
    let cluster = Cluster::start("");
    let _app = shop(&cluster).await;
    let spec = spec("users", None);
    let first = capture(&cluster);
    let _live = live(&first, &spec).await;
    let second = PostgresCapture::new(cluster.settings(), settings().with_slot_wait(Some(Duration::from_millis(600))));
    second.prepare(&spec, PrepareMode::Resume, None).await.unwrap();
    let at_once = second.live().await.err().unwrap();
    assert_eq!(at_once.kind(), SourceErrorKind::Held);
    let error = second.wait_for_turn().await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Held);
    assert!(error.to_string().contains("application=millstream") && error.to_string().contains("pid="), "{error}");
}

#[tokio::test]
async fn p15_of_two_that_see_the_slot_free_one_has_the_turn() {
    let cluster = Cluster::start("");
    let _app = shop(&cluster).await;
    let spec = spec("users", None);
    let first = capture(&cluster);
    let second = PostgresCapture::new(cluster.settings(), settings().with_slot_wait(Some(Duration::ZERO)));
    first.identity().await.unwrap();
    first.wait_for_turn().await.unwrap();
    let error = second.wait_for_turn().await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Held);
    assert!(error.to_string().contains("application=millstream") && error.to_string().contains("pid="), "{error}");
    first.prepare(&spec, PrepareMode::Create, None).await.unwrap();
    let live = first.live().await.unwrap();
    assert_eq!(second.wait_for_turn().await.unwrap_err().kind(), SourceErrorKind::Held);
    drop(live);
    first.close().await;
    second.wait_for_turn().await.expect("a stream that was closed leaves slot and turn at once");
    assert_eq!(first.live().await.err().unwrap().kind(), SourceErrorKind::Held, "not without the turn");
}

#[tokio::test]
async fn case_h6_a_stopping_server_is_let_go_and_comes_back() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let spec = spec("users", None);
    let capture = capture(&cluster);
    let mut first = live(&capture, &spec).await;
    app.run("insert into users values (1)").await;
    let _unconfirmed = first.batch().await;
    drop(app);
    let stopped = tokio::task::spawn_blocking(move || {
        cluster.stop("fast");
        cluster
    });
    let error = first.error().await;
    assert_eq!(error.kind(), SourceErrorKind::Connection, "{error}");
    let cluster = within("the stop", stopped).await.unwrap();
    cluster.start_again();
    // As the engine does at each run's beginning: connections of the old server are forgotten.
    capture.identity().await.unwrap();
    capture.prepare(&spec, PrepareMode::Resume, None).await.unwrap();
    let mut second = Live(capture.live().await.unwrap());
    assert_eq!(key(&second.rows(1).await[0]), "1");
}

#[tokio::test]
async fn case_h6_a_server_stops_although_nobody_reads_the_stream() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let _unread = live(&capture, &spec("users", None)).await;
    app.run("insert into users select generate_series(1, 300000)").await;
    drop(app);
    let begun = std::time::Instant::now();
    let stopped = tokio::task::spawn_blocking(move || cluster.stop("fast"));
    within("the stop", stopped).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn b3_a_stalled_engine_causes_no_disconnect() {
    let cluster = Cluster::start("wal_sender_timeout='2s'");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", None)).await;
    app.run("insert into users select generate_series(1, 100000)").await;
    let mut told = live.batch().await.rows.len();
    // Far more than the server's patience, in the server's own time.
    app.run("select pg_sleep(6)").await;
    while told < 100_000 {
        told += live.batch().await.rows.len();
    }
    assert_eq!(told, 100_000);
}

#[tokio::test]
async fn case_h1_a_snapshot_waits_for_who_was_open_when_coverage_changed() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let mut other = cluster.session().await;
    let manage = Manage::default().with_identity(true);
    let capture = PostgresCapture::new(cluster.settings(), settings().with_manage(manage));
    // The slot is there before, so that only coverage changes.
    capture.prepare(&spec("users", None), PrepareMode::Create, None).await.unwrap();
    app.run("begin; insert into orders values (1, 1)").await;
    let line = capture.prepare(&spec("users", Some(("orders", "user_id"))), PrepareMode::Create, None).await;
    // The identity of orders needs a lock that the open transaction holds.
    assert!(line.is_err());
    app.run("commit").await;
    other.run("alter table orders replica identity full").await;
    app.run("begin; insert into orders values (2, 1)").await;
    let line =
        capture.prepare(&spec("users", Some(("orders", "user_id"))), PrepareMode::Create, None).await.unwrap().line;
    let Readiness::Waiting(who) = capture.ready(&line).await.unwrap() else { panic!("must wait") };
    assert!(who[0].contains("of postgres") && who[0].contains("application=application"), "{who:?}");
    app.run("commit; begin; insert into orders values (3, 1); prepare transaction 'later'").await;
    assert_eq!(capture.ready(&line).await.unwrap(), Readiness::Ready);
    app.run("rollback prepared 'later'").await;
}

#[tokio::test]
async fn a_snapshot_pages_through_keys_of_every_type() {
    let cluster = Cluster::start("");
    let mut app = cluster.session().await;
    app.run(
        "create table k (a numeric(20,4), b char(3), c timestamptz, d bytea, e bool, primary key (b, a, c, d, e));
         insert into k select g / 4.0, chr(97 + g % 3), '2026-01-01 12:00+05'::timestamptz + g * interval '1 h',
           decode(lpad(to_hex(g), 4, '0'), 'hex'), g % 2 = 0 from generate_series(1, 1000) g",
    )
    .await;
    let mut few = settings();
    few.snapshot_page = 7;
    let capture = PostgresCapture::new(cluster.settings(), few);
    let order: Vec<Text> = ["a", "b", "c", "d", "e"].map(Text::from).into();
    let table = SnapshotTable { index: "k".into(), table: table("k"), key: Some(order) };
    let pages: Vec<_> = capture.snapshot(&table, KeyRange::default()).await.unwrap().collect().await;
    let keys: Vec<RowKey> = pages.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(keys.len(), 1000);
    assert_eq!(keys[0].to_id(), "0.7500:a  :2026-01-01 10%3A00%3A00+00:\\x0003:f");
    let after = KeyRange { after: Some(keys[989].clone()) };
    let rest: Vec<_> = capture.snapshot(&table, after).await.unwrap().collect().await;
    assert_eq!(rest.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>(), keys[990..]);
}

#[tokio::test]
async fn p12_log_snapshot_and_odd_roles_agree_on_every_keys_text() {
    let cluster = Cluster::start("datestyle='German'\ntimezone='Asia/Kolkata'\nintervalstyle='postgres_verbose'");
    let mut app = cluster.session().await;
    app.run(
        "alter role postgres set bytea_output = 'escape'; alter role postgres set extra_float_digits = -5;
         create table k (a date, b interval, c timestamptz, d bytea, e float8, f inet, g bool, h char(4),
           primary key (a, b, c, d, e, f, g, h))",
    )
    .await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("k", None)).await;
    app.run(
        "insert into k values ('2026-02-01', '1 year 2 days', '2026-02-01 10:00+00', '\\x00ff', 0.1::float8 + 0.2::float8,
           '10.0.0.1/32', true, 'x'), ('infinity', '-1 h', '-infinity', '', 'NaN', '::1', false, '')",
    )
    .await;
    let mut told: Vec<String> = live.rows(2).await.iter().map(key).collect();
    let table = SnapshotTable { index: "k".into(), table: table("k"), key: None };
    let pages: Vec<_> = capture.snapshot(&table, KeyRange::default()).await.unwrap().collect().await;
    let mut read: Vec<String> = pages.into_iter().flat_map(Result::unwrap).map(|key| key.to_id()).collect();
    told.sort();
    read.sort();
    assert_eq!(told, read);
    assert!(told[0].contains("P1Y2D") && told[0].contains("0.30000000000000004"), "{told:?}");
}

#[tokio::test]
async fn d11_any_names_work() {
    let cluster = Cluster::start("");
    let mut app = cluster.session().await;
    app.run(r#"create schema "Sales-2"; create table "Sales-2"."Or""der.x" ("user" int primary key)"#).await;
    let name = QualifiedTable::new("Sales-2", "Or\"der.x");
    let schema = IndexSchema { table: name.clone(), key: None, filter: None, delete_when: None, fields: Vec::new() };
    let odd = SourceSpec::new([("odd".into(), schema)]);
    let mut settings = settings().with_publication("It's, \"odd\"");
    settings.slot = "0_odd".into();
    let mut postgres = cluster.settings();
    postgres.host = cluster.socket();
    postgres.search_path = r#"public, "Sales-2", pg_catalog"#.into();
    postgres.application_name = "my app".into();
    let capture = PostgresCapture::new(postgres, settings);
    let mut live = live(&capture, &odd).await;
    app.run(r#"insert into "Sales-2"."Or""der.x" values (7)"#).await;
    let rows = live.rows(1).await;
    assert_eq!((key(&rows[0]), &rows[0].table), ("7".to_owned(), &name));
}

#[tokio::test]
async fn c1_an_unchanged_value_out_of_line_is_absent_or_what_it_was() {
    let cluster = Cluster::start("");
    let mut app = cluster.session().await;
    app.run(
        "create table users (id text primary key, n int);
         create table orders (id int primary key, user_id text not null, n int);
         alter table orders alter user_id set storage external",
    )
    .await;
    let capture =
        PostgresCapture::new(cluster.settings(), settings().with_manage(Manage::default().with_identity(true)));
    let mut app_long = cluster.session().await;
    app.run("alter table orders replica identity full").await;
    let mut live = live(&capture, &spec("users", Some(("orders", "user_id")))).await;
    app_long.run("insert into orders values (1, repeat('x', 20000), 1); update orders set n = 2").await;
    let rows = live.rows(2).await;
    let LinkValue::Text(long) = link(&rows[1].after, "user_id") else { panic!("{rows:?}") };
    assert_eq!(long.len(), 20_000);
    assert!(rows[1].before.is_none());
}

#[tokio::test]
async fn case_h3_a_table_taken_out_is_broken_and_mended_where_managed() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", Some(("orders", "user_id")))).await;
    app.run("alter publication millstream drop table orders").await;
    let CoverageChange::Broken { reason, remedy } = live.coverage().await else { panic!("expected broken") };
    assert!(
        reason.contains("not published") && remedy.contains("ADD TABLE \"public\".\"orders\""),
        "{reason} {remedy}"
    );
    assert!(matches!(live.coverage().await, CoverageChange::Mended { .. }));
    app.run("insert into orders values (1, 1)").await;
    assert_eq!(key(&live.rows(1).await[0]), "1");
    app.run("alter table orders replica identity nothing").await;
    assert!(matches!(live.coverage().await, CoverageChange::Broken { .. }));
    assert!(matches!(live.coverage().await, CoverageChange::Mended { .. }));
    app.run("alter table orders drop constraint orders_pkey").await;
    let CoverageChange::Broken { reason, .. } = live.coverage().await else { panic!("expected broken") };
    assert!(reason.contains("no primary key"), "{reason}");
}

#[tokio::test]
async fn case_h7_a_rewritten_table_is_noticed_and_a_vacuumed_one_is_not() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", None)).await;
    app.run("insert into users values (1, '5')").await;
    live.rows(1).await;
    app.run("vacuum full users").await;
    app.run("alter table users add column more float8 default random()").await;
    app.run("select pg_sleep(1)").await;
    app.run("alter table users alter name type int using name::int").await;
    let CoverageChange::Rewritten { reason, start_line } = live.coverage().await else { panic!("expected rewritten") };
    assert!(reason.contains("change of its columns"), "{reason}");
    assert_eq!(within("ready", capture.ready(&start_line)).await.unwrap(), Readiness::Ready);
}

#[tokio::test]
async fn case_h2_partitions_come_and_go() {
    let cluster = Cluster::start("");
    let mut app = cluster.session().await;
    app.run(
        "create table users (id int primary key) partition by range (id);
         create table u0 partition of users for values from (0) to (10);
         create table u1 (id int primary key); insert into u1 values (11)",
    )
    .await;
    let capture = capture(&cluster);
    let mut live = live(&capture, &spec("users", None)).await;
    app.run("insert into users values (1)").await;
    let row = live.rows(1).await.remove(0);
    assert_eq!((row.table.table(), key(&row)), ("users", "1".to_owned()));
    // A leaf made as one is told at once, without a refill.
    app.run("create table u2 partition of users for values from (20) to (30); insert into users values (21)").await;
    assert_eq!(key(&live.rows(1).await[0]), "21");
    app.run("alter table users attach partition u1 for values from (10) to (20)").await;
    let CoverageChange::Rewritten { reason, .. } = live.coverage().await else { panic!("expected rewritten") };
    assert!(reason.contains("came with rows") && reason.contains("u1"), "{reason}");
    app.run("update users set id = 12 where id = 1").await;
    let rows = live.rows(2).await;
    assert_eq!((rows[0].operation, key(&rows[0])), (Operation::Delete, "1".to_owned()));
    assert_eq!((rows[1].operation, key(&rows[1])), (Operation::Upsert, "12".to_owned()));
    app.run("truncate u2").await;
    let CoverageChange::Rewritten { reason, .. } = live.coverage().await else { panic!("expected rewritten") };
    assert!(reason.contains("emptied"), "{reason}");
    app.run("drop table u2").await;
    let CoverageChange::Rewritten { reason, .. } = live.coverage().await else { panic!("expected rewritten") };
    assert!(reason.contains("taken away"), "{reason}");
    app.run("truncate users").await;
    assert_eq!(live.rows(1).await[0].operation, Operation::Truncate);
}

#[tokio::test]
async fn p16_identity_tells_cluster_timeline_and_durable_point() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let before = capture.identity().await.unwrap();
    assert_eq!((before.durable, before.timeline), (None, 1));
    let error = capture.prepare(&spec("users", None), PrepareMode::Resume, None).await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Gap);
    // Nothing was changed by the refusal.
    assert!(app.texts("select pubname::text from pg_publication").await.is_empty());
    capture.prepare(&spec("users", None), PrepareMode::Create, None).await.unwrap();
    let after = capture.identity().await.unwrap();
    assert_eq!(after.system, before.system);
    assert!(after.durable.is_some() && after.lost.is_none() && after.head >= after.durable.unwrap());
}

#[tokio::test]
async fn heartbeats_come_back_through_the_log() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    if app.texts("select current_setting('server_version_num')").await[0].as_str() < "140000" {
        return; // Its decoder tells no logical messages.
    }
    let often = settings().with_heartbeat(Some(Duration::from_millis(200)));
    let capture = PostgresCapture::new(cluster.settings(), often);
    let mut live = live(&capture, &spec("users", None)).await;
    loop {
        if let CaptureEvent::Heartbeat { age } = live.event().await {
            assert!(age < Duration::from_secs(5));
            break;
        }
    }
}

#[tokio::test]
async fn case_b5_a_lost_slot_is_a_gap_and_starts_over_anew() {
    let cluster = Cluster::start("max_slot_wal_keep_size='16MB'\nmin_wal_size='32MB'\nmax_wal_size='32MB'");
    let mut app = shop(&cluster).await;
    let capture = capture(&cluster);
    let spec = spec("users", None);
    capture.prepare(&spec, PrepareMode::Create, None).await.unwrap();
    app.run("create table big (t text)").await;
    for _ in 0..4 {
        app.run("insert into big select repeat('x', 1000) from generate_series(1, 30000)").await;
        app.run("select pg_switch_wal()").await;
        app.run("checkpoint").await;
    }
    let identity = capture.identity().await.unwrap();
    assert!(identity.lost.is_some(), "{identity:?}");
    assert_eq!(capture.prepare(&spec, PrepareMode::Resume, None).await.unwrap_err().kind(), SourceErrorKind::Gap);
    capture.prepare(&spec, PrepareMode::StartOver, None).await.unwrap();
    assert_eq!(capture.identity().await.unwrap().lost, None);
}

#[tokio::test]
async fn f9_refusals_name_the_thing_and_its_mend() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    app.run("create role plain login password 'secret-word'; grant select on all tables in schema public to plain")
        .await;
    let mut postgres = cluster.settings();
    postgres.user = "plain".into();
    let refusal = async |manage: Manage| {
        let capture = PostgresCapture::new(postgres.clone(), settings().with_manage(manage));
        let error = capture.prepare(&spec("users", None), PrepareMode::Create, None).await.unwrap_err();
        assert_eq!(error.kind(), SourceErrorKind::Setup);
        error.to_string()
    };
    let error = refusal(Manage::NONE).await;
    assert!(error.contains("role=plain") && error.contains("ALTER ROLE \"plain\" REPLICATION;"), "{error}");
    assert!(error.contains("CREATE PUBLICATION \"millstream\" FOR TABLE"), "{error}");
    app.run("alter role plain replication").await;
    let error = refusal(Manage::default()).await;
    assert!(
        error.contains("GRANT CREATE ON DATABASE") && error.contains("CREATE PUBLICATION \"millstream\" FOR"),
        "{error}"
    );
    // With the publication made by its owner it works without further rights.
    app.run("create publication millstream for table users").await;
    let capture = PostgresCapture::new(postgres.clone(), settings().with_manage(Manage::default()));
    capture.prepare(&spec("users", None), PrepareMode::Create, None).await.unwrap();
}

#[tokio::test]
async fn case_b11_a_password_that_is_refused_after_it_worked_is_asked_for_again_for_a_while() {
    let cluster = Cluster::start("password_encryption='scram-sha-256'");
    let mut app = shop(&cluster).await;
    app.run("create role al login replication password 'right'; create publication millstream for table users").await;
    cluster.ask_for_passwords();
    let mut postgres = cluster.settings();
    postgres.user = "al".into();
    postgres.password = Password::Fixed(Secret::new("right"));
    let begin = |grace| {
        let capture = PostgresCapture::new(postgres.clone(), settings().with_auth_grace(Duration::from_millis(grace)));
        async move {
            capture.prepare(&spec("users", None), PrepareMode::Create, None).await.unwrap();
            (capture.live().await.unwrap(), capture)
        }
    };
    let (_stream, patient) = begin(60_000).await;
    app.run("alter role al password 'other'").await;
    let error = patient.identity().await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Connection, "{error}");
    assert!(error.to_string().contains("tried again") && !error.to_string().contains("right"), "{error}");
    app.run("alter role al password 'right'; select pg_drop_replication_slot('millstream') where false").await;
    patient.identity().await.unwrap();
    // Without grace, and for who never got in, it is final.
    postgres_refused(&cluster).await;
}

async fn postgres_refused(cluster: &Cluster) {
    let mut postgres = cluster.settings();
    postgres.user = "al".into();
    postgres.password = Password::Fixed(Secret::new("hunter2"));
    let error = PostgresCapture::new(postgres, settings()).identity().await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Setup, "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn tls_is_as_strict_as_its_mode_and_needs_no_provider_of_the_process() {
    let cluster = Cluster::start("");
    let mut app = shop(&cluster).await;
    let authority = cluster.offer_tls();
    app.run("select pg_reload_conf()").await;
    let with = |tls: TlsMode, root: bool, host: &str| {
        let mut postgres = cluster.settings();
        postgres.tls = tls;
        postgres.host = host.to_owned();
        postgres.tls_root = root.then(|| authority.clone());
        let capture = PostgresCapture::new(postgres, settings());
        async move { capture.identity().await }
    };
    within("TLS", async { while with(TlsMode::Require, false, "127.0.0.1").await.is_err() {} }).await;
    with(TlsMode::Disable, false, "127.0.0.1").await.unwrap();
    with(TlsMode::Prefer, false, "127.0.0.1").await.unwrap();
    with(TlsMode::VerifyCa, true, "127.0.0.1").await.unwrap();
    with(TlsMode::VerifyFull, true, "localhost").await.unwrap();
    let error = with(TlsMode::VerifyFull, true, "127.0.0.1").await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Setup, "another name: {error}");
    let error = with(TlsMode::VerifyCa, false, "127.0.0.1").await.unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Setup, "an authority that nobody knows: {error}");
}
