use std::collections::VecDeque;

use bytes::Bytes;
use millstream_core::SourceErrorKind;
use millstream_model::{QualifiedTable, Text};

use super::super::decode::tests::write;
use super::*;

/// A stream that tells what it is given and keeps what it is told.
#[derive(Default)]
struct Told {
    incoming: VecDeque<Incoming>,
    reports: Arc<std::sync::Mutex<Vec<Position>>>,
}

impl LogStream for Told {
    async fn next(&mut self) -> Result<Incoming> {
        match self.incoming.pop_front() {
            Some(incoming) => Ok(incoming),
            None => std::future::pending().await,
        }
    }

    fn is_ready(&self) -> bool {
        !self.incoming.is_empty()
    }

    async fn report(&mut self, durable: Position) -> Result<()> {
        self.reports.lock().unwrap().push(durable);
        Ok(())
    }

    async fn close(self) {}
}

fn message(payload: Vec<u8>) -> Incoming {
    Incoming::Message { position: Position(1), payload: Bytes::from(payload) }
}

fn storm(position: u64) -> Incoming {
    Incoming::KeepAlive { position: Position(position), reply: true }
}

struct Running {
    events: mpsc::Receiver<Result<CaptureEvent>>,
    marks: Arc<Marks>,
    reports: Arc<std::sync::Mutex<Vec<Position>>>,
    _stop: tokio_util::sync::DropGuard,
}

fn run(incoming: Vec<Incoming>) -> Running {
    let watched = Arc::new(Watched {
        table: QualifiedTable::new("public", "users"),
        key: vec![Text::from("id")].into(),
        links: Vec::new().into(),
        old_links: Vec::new(),
        old_links_before: None,
        is_root: true,
        leaves: vec![1],
        oid: 1,
    });
    let stream = Told { incoming: incoming.into(), ..Told::default() };
    let (reports, marks) = (stream.reports.clone(), Arc::new(Marks::default()));
    let pump = Pump {
        stream,
        batcher: Batcher::new(marks.confirmed.clone(), 1_000, 1 << 20),
        marks: marks.clone(),
        watcher: Watcher::deaf(),
        status_interval: Duration::from_secs(1),
        tables: Tables::new(Leaves::from([(1, watched)]), Gaps::new(StartLine::NONE, [])),
    };
    let (out, events) = mpsc::channel(2);
    let stop = CancellationToken::new();
    tokio::spawn(pump.run(out, stop.clone()));
    Running { events, marks, reports, _stop: stop.drop_guard() }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_however_much_arrives_at_once() {
    let mut incoming = vec![message(write::relation(1, "users", &[("id", true)])), message(write::begin(10, 7))];
    incoming.extend((0..5_000).map(|id| message(write::insert(1, &[Some(&id.to_string())]))));
    incoming.push(message(write::commit(20)));
    let mut running = run(incoming);
    let mut ids = Vec::new();
    while ids.len() < 5_000 {
        let Some(Ok(CaptureEvent::Changes(batch))) = running.events.recv().await else { panic!("expected changes") };
        assert!(batch.rows.iter().all(|row| row.fence == Fence::new(7, Position(11))));
        ids.extend(batch.rows.iter().map(|row| row.key.to_id()));
    }
    assert_eq!(ids, (0..5_000).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn p9_the_server_hears_of_us_while_nobody_takes_the_batches_and_of_nothing_unconfirmed() {
    let mut incoming = vec![message(write::relation(1, "users", &[("id", true)])), message(write::begin(10, 7))];
    incoming.extend((0..10_000).map(|id| message(write::insert(1, &[Some(&id.to_string())]))));
    let running = run(incoming);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let heard = running.reports.lock().unwrap().clone();
    assert!(heard.len() >= 59, "{}", heard.len());
    assert!(heard.iter().all(|position| *position == Position(0)));
    running.marks.confirmed.raise(Position(5));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(running.reports.lock().unwrap().last(), Some(&Position(5)));
}

#[tokio::test(start_paused = true)]
async fn p9_a_storm_of_requests_at_one_position_is_a_stopping_server() {
    let mut running = run((0..100).map(|_| storm(7)).collect());
    let error = loop {
        match running.events.recv().await.unwrap() {
            Err(error) => break error,
            Ok(_) => continue,
        }
    };
    assert_eq!(error.kind(), SourceErrorKind::Connection);
    assert!(error.to_string().contains("stopping"), "{error}");
    assert!(running.events.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn requests_at_positions_that_move_on_are_no_storm() {
    let mut running = run((1..=100).map(storm).collect());
    let Some(Ok(CaptureEvent::Changes(batch))) = running.events.recv().await else { panic!("expected changes") };
    assert!(batch.rows.is_empty() && batch.ack.position().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_row_of_a_relation_not_described_ends_the_stream_with_an_error() {
    let mut running = run(vec![message(write::begin(10, 7)), message(write::insert(1, &[Some("1")]))]);
    let error = running.events.recv().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), SourceErrorKind::Decode);
}
