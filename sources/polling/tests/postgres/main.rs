//! The store in Postgres: the same promises where the server's own types come into play.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

mod cluster;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_cdc::{CaptureEvent, ChangeCapture, KeyRange, PrepareMode};
use millstream_core::{IndexSchema, Result, SnapshotTable, SourceErrorKind, SourceSpec};
use millstream_model::{ChangedRow, IndexName, LinkValue, Operation};
use millstream_polling::model::{
    ColumnType, Reading, ReadingWindow, Record, RecordChange, StandardCurve, StatusEvent, StreamDescriptor,
    StreamFetch, Timestamp,
};
use millstream_polling::scripted::{ScriptedSource, SourceScript};
use millstream_polling::{Command, CycleReport, PollingCapture, PollingSettings};
use serde_json::{Value as Json, json};

use crate::cluster::Cluster;

fn now() -> Timestamp {
    Timestamp::parse("2026-06-01T12:00:00Z").unwrap()
}

fn ago(millis: u64) -> Timestamp {
    now().minus(Duration::from_millis(millis))
}

struct Polled {
    capture: PollingCapture,
    script: SourceScript,
    events: BoxStream<'static, Result<CaptureEvent>>,
    /// Rows that came with those that were waited for.
    besides: Vec<ChangedRow>,
    commands: u64,
}

impl Polled {
    async fn on(cluster: &Cluster, schema: &str, spec: &SourceSpec, script: impl FnOnce(&SourceScript)) -> Self {
        let (source, hand) = ScriptedSource::new();
        script(&hand);
        let settings =
            PollingSettings::default().with_floor(Duration::ZERO).with_every(Duration::from_secs(3600)).with_clock(now);
        let capture = PollingCapture::new(source, cluster.store(schema), settings);
        capture.prepare(spec, PrepareMode::Create, None).await.unwrap();
        let events = capture.live().await.unwrap();
        Self { capture, script: hand, events, besides: Vec::new(), commands: 0 }
    }

    async fn cycle(&mut self) -> CycleReport {
        self.commands += 1;
        let command = Command::new(format!("{} {}", self.commands, fastrand::u64(..)), "trigger");
        let outcome = self.capture.handle().command(command).await.unwrap();
        let number = outcome.result["report"].as_i64().unwrap();
        let reports = self.capture.handle().reports(10).await.unwrap();
        let kept = reports.into_iter().find(|kept| kept.number == number).unwrap();
        serde_json::from_value(kept.body).unwrap()
    }

    /// Takes and confirms changes until so many of a table came.
    async fn told(&mut self, table: &str, count: usize) -> Vec<ChangedRow> {
        let is_wanted = |row: &mut ChangedRow| row.table.table() == table;
        let mut told: Vec<ChangedRow> = self.besides.extract_if(.., is_wanted).collect();
        while told.len() < count {
            let event = tokio::time::timeout(Duration::from_secs(30), self.events.next()).await;
            let Some(Ok(CaptureEvent::Changes(batch))) = event.expect("a change comes") else { panic!("changes") };
            batch.ack.confirm();
            let (wanted, besides): (Vec<_>, Vec<_>) =
                batch.rows.into_iter().partition(|row| row.table.table() == table);
            told.extend(wanted);
            self.besides.extend(besides);
        }
        told
    }

    async fn acked(&self) {
        loop {
            let identity = self.capture.identity().await.unwrap();
            if Some(identity.head) == identity.durable {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn record(id: &str, fields: Json) -> RecordChange {
    let Json::Object(fields) = fields else { panic!("an object") };
    Record::new(id, fields).into()
}

#[tokio::test]
async fn values_keep_their_digits_in_the_servers_own_types_and_keys_are_its_texts() {
    let cluster = Cluster::start();
    let items = StreamDescriptor::records("items", ["at"])
        .with_column("at", ColumnType::Timestamp)
        .with_column("price", ColumnType::Decimal)
        .with_column("ok", ColumnType::Boolean)
        .with_column("day", ColumnType::Date)
        .with_column("ratio", ColumnType::Double)
        .with_column("more", ColumnType::Json);
    let mut polled = Polled::on(&cluster, "public", &SourceSpec::default(), |script| {
        script.streams([items]);
        script.answers("items", |_| {
            let fields = json!({
                "price": "12345678901234567890123456789.10", "ok": true, "day": "2026-02-28", "ratio": 0.1,
                "more": {"b": [1, 2], "a": null}
            });
            StreamFetch::records("items", [record("2026-01-31T12:00:00.250+01:00", fields)])
        });
    })
    .await;
    assert_eq!(polled.cycle().await.errors, Vec::<String>::new());
    let told = polled.told("items", 1).await;
    assert_eq!(told[0].key.to_id(), "2026-01-31 11:00:00.25+00");
    let stored = cluster
        .rows(
            "select price || ' ' || ok || ' ' || day || ' ' || ratio || ' ' || more || ' ' || pg_typeof(at) from items",
        )
        .await;
    assert_eq!(
        stored,
        [r#"12345678901234567890123456789.10 true 2026-02-28 0.1 {"a": null, "b": [1, 2]} timestamp with time zone"#]
    );
    assert_eq!(polled.cycle().await.rows_unchanged, 1, "what was stored compares as it was told");
    let table = SnapshotTable { index: IndexName::new("i"), table: told[0].table.clone(), key: None };
    let page = polled.capture.snapshot(&table, KeyRange::default()).await.unwrap().next().await.unwrap().unwrap();
    assert_eq!(page[0], told[0].key);
    let behind = KeyRange { after: Some(page[0].clone()) };
    assert!(polled.capture.snapshot(&table, behind).await.unwrap().next().await.is_none());
}

#[tokio::test]
async fn readings_windows_status_pins_and_curves() {
    let cluster = Cluster::start();
    let window = |values: &[(u64, u32, f64)]| {
        let reading = |(at, column, value): &(u64, u32, f64)| Reading::new(ago(*at), *value).in_column(*column);
        ReadingWindow::new(ago(10_000), now(), values.iter().map(reading).collect())
    };
    let first = window(&[(1500, 0, 0.1), (1500, 1, 2.0), (1, 0, 1e-300)]);
    let mut polled = Polled::on(&cluster, "Polled \"x\"", &SourceSpec::default(), |script| {
        script.set_reconciled(true);
        script.streams([StreamDescriptor::readings("a").with_replicates(["x", "y"])]);
        script.answers("a", move |_| StreamFetch::window("a", first.clone()));
        script.curves([StandardCurve { key: "c".into(), points: vec![(2.0, 1.0), (1.0, 0.5)], ..Default::default() }]);
        script.status([StatusEvent::new("a", ago(10), "on"), StatusEvent::new("a", ago(5), "on")]);
    })
    .await;
    let told = polled.told("readings", 3).await;
    assert_eq!(told[0].key.to_id(), "a:2026-06-01 11%3A59%3A58.5+00:0");
    assert_eq!((told[0].table.schema(), told[0].operation), ("Polled \"x\"", Operation::Upsert));
    polled.told("status_events", 1).await;
    polled.acked().await;
    let report = polled.cycle().await;
    assert!(report.errors.is_empty() && report.log.iter().any(|line| line.contains("nothing changed")), "{report:?}");
    let second = window(&[(1500, 0, 0.1), (1, 0, 2e-300)]);
    polled.script.answers("a", move |_| StreamFetch::window("a", second.clone()));
    let report = polled.cycle().await;
    assert_eq!((report.rows_unchanged, report.rows_changed, report.rows_withdrawn), (1, 1, 1), "{report:?}");
    let told = polled.told("readings", 2).await;
    assert_eq!(told[1].operation, Operation::Delete);
    let stored =
        cluster.rows("select replicate || ' ' || value from \"Polled \"\"x\"\"\".readings order by instant").await;
    assert_eq!(stored, ["0 0.1", "0 2e-300"]);
    let points = cluster.rows("select points::text from \"Polled \"\"x\"\"\".curves").await;
    assert_eq!(points, ["[[1.0, 0.5], [2.0, 1.0]]"]);
    polled.acked().await;
    assert_eq!(polled.capture.handle().streams().await.unwrap()[0].since, Some(ago(1)));
}

#[tokio::test]
async fn p5_links_are_told_before_and_after_and_told_again_after_a_restart() {
    let cluster = Cluster::start();
    let schema = "table: shops\nkey: [id]\nfields:\n  id: long\n  items: { has_many: items, join: { id: shop }, fields: { id: text } }\n";
    let schema = IndexSchema::from_yaml(schema, "shops.schema.yaml").unwrap();
    let spec = SourceSpec::new([(IndexName::new("shops"), schema)]);
    let items = || StreamDescriptor::records("items", ["id"]).with_column("shop", ColumnType::Integer);
    let mut polled = Polled::on(&cluster, "public", &spec, |script| {
        script.streams([items()]);
        script.answers("items", |_| StreamFetch::records("items", [record("1", json!({"shop": "007"}))]));
    })
    .await;
    polled.told("items", 1).await;
    polled.acked().await;
    polled.script.answers("items", |_| StreamFetch::records("items", [record("1", json!({"shop": 8}))]));
    polled.cycle().await;
    // Gone before anything of it was acked.
    let Polled { capture, events, .. } = polled;
    drop(events);
    capture.close().await;
    let mut polled = Polled::on(&cluster, "public", &spec, |script| script.streams([items()])).await;
    let told = polled.told("items", 1).await;
    let link = |links: &Option<millstream_model::LinkValues>| links.as_ref().unwrap().get("shop").clone();
    let text = |text: &str| LinkValue::Text(text.into());
    assert_eq!((link(&told[0].before), link(&told[0].after)), (text("7"), text("8")));
}

#[tokio::test]
async fn two_drivers_never_share_a_store_and_a_foreign_table_is_left_alone() {
    let cluster = Cluster::start();
    cluster.rows("create table items (id int) ").await;
    let mut polled = Polled::on(&cluster, "public", &SourceSpec::default(), |script| {
        script.streams([StreamDescriptor::records("items", ["id"]), StreamDescriptor::readings("a")]);
        script.answers("a", |_| StreamFetch::readings("a", vec![Reading::new(ago(1), 1.0)]));
    })
    .await;
    let report = polled.cycle().await;
    assert!(
        report.errors.iter().any(|error| error.contains("items") && error.contains("already exists")),
        "{report:?}"
    );
    assert_eq!(polled.told("readings", 1).await.len(), 1);
    let settings = PollingSettings::default().with_clock(now).with(|settings| settings.hold_wait = Duration::ZERO);
    let other = PollingCapture::new(ScriptedSource::new().0, cluster.store("public"), settings);
    assert_eq!(other.live().await.err().unwrap().kind(), SourceErrorKind::Held);
    let Polled { capture, events, .. } = polled;
    drop(events);
    capture.close().await;
    assert!(other.live().await.is_ok());
}
