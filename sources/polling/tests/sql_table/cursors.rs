//! What is new since.

use std::time::Duration;

use millstream_polling::backends::{CursorSettings, CursorUnit, LookBack, SqlTable, SqlTableSettings, TableSettings};
use millstream_polling::conformance::{Subject, conformance};
use millstream_polling::{SourceBackend, async_trait};

use crate::source::Source;

fn by(name: &str, change: impl FnOnce(&mut CursorSettings)) -> TableSettings {
    TableSettings::by(name, CursorSettings::new("at").with(change))
}

struct Tables<'a>(&'a Source);

#[async_trait]
impl Subject for Tables<'_> {
    async fn open(&self) -> Box<dyn SourceBackend> {
        let tables = [TableSettings::cursor("a", "at"), TableSettings::reconciled("b")];
        Box::new(self.0.open_with(tables, |settings| settings.with_page_rows(2)).backend)
    }
}

pub async fn it_conforms(source: &Source) {
    for table in ["a", "b"] {
        source.make(table).await;
        for id in 0..5 {
            source.put(table, id, &source.ago(600 - id / 2), "x").await;
        }
        source.put(table, 9, "null", "x").await;
    }
    conformance(async || Tables(source)).await;
}

pub async fn pages_end_where_they_should_though_many_rows_share_a_cursor(source: &Source) {
    source.make("t").await;
    let rows: Vec<String> = (0..2500).map(|id| format!("({id}, '2026-01-31 12:00:0{}', 'x')", id % 3)).collect();
    source.run(&format!("insert into {} values {}", source.table("t"), rows.join(", "))).await;
    let reader = source.open([TableSettings::cursor("t", "at")]);
    let mut mark = None;
    let told = reader.pass("t", &mut mark).await;
    assert_eq!(told.pages, [1000, 1000, 500]);
    let mut keys = told.present;
    let in_order = keys.clone();
    keys.sort_by_key(|key| key.parse::<i64>().unwrap());
    assert_eq!(keys, (0..2500).map(|id| id.to_string()).collect::<Vec<_>>(), "each once");
    assert_ne!(keys, in_order, "by cursor first");
    let before = mark.clone();
    assert_eq!(reader.pass("t", &mut mark).await.pages, Vec::<usize>::new(), "nothing new, nothing told");
    assert_eq!(mark, before);
    source.put("t", 7, &source.ago(100), "y").await;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["7"]);
}

pub async fn no_digit_of_a_cursor_is_rounded(source: &Source) {
    source.make("t").await;
    // Three rows within a thousandth of a second, a millionth apart.
    for id in 1..=3 {
        source.put("t", id, &format!("'2026-01-31 12:00:00.00000{id}'"), "x").await;
    }
    let reader = source.open_with([TableSettings::cursor("t", "at")], |settings| settings.with_page_rows(1));
    let mut mark = None;
    let told = reader.pass("t", &mut mark).await;
    assert_eq!((told.present, told.pages), (vec!["1".to_owned(), "2".to_owned(), "3".to_owned()], vec![1, 1, 1]));
    source.put("t", 4, "'2026-01-31 12:00:00.000004'", "x").await;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["4"]);
}

pub async fn what_is_read_was_left_alone_for_a_while_by_the_sources_own_clock(source: &Source) {
    source.make("t").await;
    source.put("t", 1, &source.ago(3700), "x").await;
    source.put("t", 2, &source.ago(3500), "x").await;
    let hour = by("t", |cursor| cursor.settle = Duration::from_secs(3600));
    let mut mark = None;
    assert_eq!(source.open([hour]).pass("t", &mut mark).await.present, ["1"]);
    let minute = by("t", |cursor| cursor.settle = Duration::from_secs(60));
    assert_eq!(source.open([minute]).pass("t", &mut mark).await.present, ["2"]);
}

pub async fn a_row_that_was_committed_late_is_found_by_looking_back(source: &Source) {
    source.make("t").await;
    source.put("t", 1, &source.ago(3600), "x").await;
    source.put("t", 2, &source.ago(100), "x").await;
    let blind = source.open([TableSettings::cursor("t", "at")]);
    let back = source.open([by("t", |cursor| cursor.look_back = LookBack::Time(Duration::from_secs(60)))]);
    let mut mark = None;
    assert_eq!(blind.pass("t", &mut mark).await.present, ["1", "2"]);
    source.put("t", 3, &source.ago(130), "late").await;
    assert!(blind.pass("t", &mut mark.clone()).await.present.is_empty());
    assert_eq!(back.pass("t", &mut mark).await.present, ["3", "2"]);
    let before = mark.clone();
    assert_eq!(back.pass("t", &mut mark).await.present, ["3", "2"], "told again, which makes no change");
    assert_eq!(mark, before, "and the mark stands still");
}

pub async fn numbers_grow_without_a_clock(source: &Source) {
    let table = source.table("t");
    source.run(&format!("create table {table} (id varchar(9) primary key, seq bigint)")).await;
    source.run(&format!("insert into {table} values ('a', 9007199254740993), ('b', 9007199254740994)")).await;
    let numbers = |back| TableSettings::by("t", CursorSettings::new("seq").with(|cursor| cursor.look_back = back));
    let mut mark = None;
    let blind = source.open([numbers(LookBack::Nothing)]);
    assert_eq!(blind.pass("t", &mut mark).await.present, ["a", "b"]);
    source.run(&format!("insert into {table} values ('c', 9007199254740995)")).await;
    assert_eq!(blind.pass("t", &mut mark).await.present, ["c"]);
    source.run(&format!("insert into {table} values ('d', 9007199254740992)")).await;
    let back = source.open([numbers(LookBack::Numbers(3))]);
    assert_eq!(back.pass("t", &mut mark).await.present, ["d", "a", "b", "c"]);
}

pub async fn numbers_may_be_moments(source: &Source) {
    let table = source.table("t");
    source.run(&format!("create table {table} (id bigint primary key, ms bigint)")).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    source.run(&format!("insert into {table} values (1, {}), (2, {})", now - 100_000, now - 1_000)).await;
    let cursor = CursorSettings::new("ms").with(|cursor| {
        cursor.unit = Some(CursorUnit::Millis);
        cursor.settle = Duration::from_secs(60);
    });
    let mut mark = None;
    assert_eq!(source.open([TableSettings::by("t", cursor)]).pass("t", &mut mark).await.present, ["1"]);
}

pub async fn rows_without_a_cursor_or_ahead_of_the_clock_follow_a_policy(source: &Source) {
    source.make("t").await;
    source.put("t", 1, &source.ago(600), "x").await;
    source.put("t", 2, "null", "x").await;
    source.put("t", 3, &source.ago(-86_400), "x").await;
    source.put("t", 4, "'9999-12-31 00:00:00'", "x").await;
    let mut mark = None;
    let reader = source.open([TableSettings::cursor("t", "at")]);
    assert_eq!(reader.pass("t", &mut mark).await.present, ["1", "3", "4", "2"]);
    source.put("t", 5, &source.ago(500), "x").await;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["5", "3", "4", "2"], "they move no mark");
    let strict = source.open([by("t", |cursor| (cursor.nulls, cursor.future) = (false, false))]);
    assert_eq!(strict.pass("t", &mut None).await.present, ["1", "5"]);
}

pub async fn a_mark_of_another_cursor_is_no_place_to_go_on_from(source: &Source) {
    source.make("t").await;
    source.put("t", 1, &source.ago(600), "x").await;
    let mut mark = None;
    assert_eq!(source.open([TableSettings::cursor("t", "at")]).pass("t", &mut mark).await.present, ["1"]);
    let by_id = TableSettings::cursor("t", "id");
    assert_eq!(source.open([by_id.clone()]).pass("t", &mut mark).await.present, ["1"]);
    let table = source.table("t");
    source.run(&format!("alter table {table} add column extra varchar(9) default 'new'")).await;
    let reader = source.open([by_id]);
    assert_eq!(reader.pass("t", &mut mark).await.present, ["1"], "a new column has values in rows that were read");
    assert!(reader.pass("t", &mut mark).await.present.is_empty());
}

#[test]
fn two_streams_of_one_name_are_refused() {
    let settings = SqlTableSettings::new(millstream_model::Secret::new("sqlite:x".to_owned()))
        .with_table(TableSettings::reconciled("t"))
        .with_table(TableSettings::cursor("t", "at"));
    let error = SqlTable::new(settings).err().unwrap();
    assert_eq!(error.to_string(), "two streams have one name (stream=t)");
}
