use super::*;
use millstream_model::{Fence, KeyColumns, Operation, QualifiedTable, RowKey, Text};

fn row(id: usize) -> ChangedRow {
    let columns: KeyColumns = vec![Text::from("id")].into();
    let key = RowKey::new(columns, [Text::from(id.to_string())]);
    ChangedRow::new(QualifiedTable::new("public", "users"), key, Operation::Upsert, Fence::NONE)
}

fn batcher() -> Batcher {
    Batcher::new(Arc::new(Mark::default()), 3, 1 << 20)
}

/// Rows and position of the next batch.
fn taken(batcher: &mut Batcher) -> (usize, Option<u64>) {
    match batcher.take() {
        Some(CaptureEvent::Changes(batch)) => (batch.rows.len(), batch.ack.position().map(|position| position.0)),
        other => panic!("expected changes, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn p2_a_position_rides_only_behind_its_transactions_end() {
    let mut batcher = batcher();
    batcher.begin();
    (0..3).for_each(|id| batcher.push(row(id)));
    assert!(!batcher.has_room());
    assert_eq!(taken(&mut batcher), (3, None));
    batcher.push(row(3));
    // A keep-alive inside a transaction says nothing about its rest.
    batcher.keep_alive(Position(99));
    assert_eq!(taken(&mut batcher), (1, None));
    batcher.push(row(4));
    batcher.commit(Position(20));
    assert_eq!(taken(&mut batcher), (1, Some(20)));
    assert!(batcher.due().is_none() && batcher.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn p2_a_batch_that_ends_inside_a_transaction_carries_the_end_of_the_one_before() {
    let mut batcher = batcher();
    batcher.begin();
    batcher.push(row(0));
    batcher.commit(Position(10));
    batcher.begin();
    batcher.push(row(1));
    assert_eq!(taken(&mut batcher), (2, Some(10)));
    batcher.commit(Position(20));
    assert_eq!(taken(&mut batcher), (0, Some(20)));
}

#[tokio::test(start_paused = true)]
async fn rows_of_an_open_transaction_wait_for_its_end_but_not_long() {
    let mut batcher = batcher();
    batcher.begin();
    batcher.push(row(0));
    assert_eq!(batcher.due(), Some(Instant::now() + TRANSACTION_WAIT));
    batcher.commit(Position(10));
    assert_eq!(batcher.due(), Some(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn p8_commits_of_others_are_one_batch_at_most_and_not_too_often() {
    let mut batcher = batcher();
    for end in 1..=100 {
        batcher.begin();
        batcher.commit(Position(end));
    }
    assert_eq!(taken(&mut batcher), (0, Some(100)));
    assert!(batcher.take().is_none());
    batcher.keep_alive(Position(100));
    assert!(batcher.due().is_none(), "told already");
    batcher.keep_alive(Position(101));
    assert_eq!(batcher.due(), Some(Instant::now() + EMPTY_EVERY));
    assert!(batcher.has_room(), "what can wait holds nothing up");
}

#[tokio::test(start_paused = true)]
async fn p7_a_truncate_stands_alone_and_in_order() {
    let mut batcher = batcher();
    batcher.keep_alive(Position(5));
    batcher.begin();
    batcher.push(row(0));
    batcher.push_alone(row(1));
    batcher.push(row(2));
    batcher.commit(Position(10));
    assert!(!batcher.has_room());
    assert_eq!(taken(&mut batcher), (1, Some(5)));
    assert_eq!(taken(&mut batcher), (1, None));
    assert_eq!(taken(&mut batcher), (1, Some(10)));
}

#[tokio::test(start_paused = true)]
async fn p10_a_batch_is_bounded_in_bytes() {
    let mut batcher = Batcher::new(Arc::new(Mark::default()), 1_000, 2 * row(1).size());
    batcher.push(row(1));
    assert!(batcher.has_room());
    batcher.push(row(2));
    assert!(!batcher.has_room());
}
