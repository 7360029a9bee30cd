use serde_json::{Map, json};

use super::*;
use crate::model::{Payload, RecordSet, Refusal, SourceInstant, StreamFetch};

const NOW: &str = "2026-06-01T12:00:00Z";

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn judged(stream: &StreamDescriptor, pins: &[ColumnAssignment], fetch: StreamFetch) -> Result<Admitted, String> {
    let judge = Judge {
        dialect: Dialect::Sqlite,
        stream,
        pins,
        now: at(NOW),
        age_max: Duration::from_secs(86_400 * 3653),
        ahead_max: Duration::from_secs(86_400),
    };
    admit(&judge, fetch.outcome.unwrap())
}

#[test]
fn instants_that_can_not_be_are_skipped_and_named() {
    let stream = StreamDescriptor::readings("s");
    let instants: [(SourceInstant, bool); 9] = [
        ("2026-06-01T11:00:00Z".into(), true),
        ("2016-06-05T12:00:00Z".into(), true),
        ("2016-05-20T12:00:00Z".into(), false),
        ("2026-06-02T11:59:59Z".into(), true),
        ("2026-06-02T12:00:01Z".into(), false),
        ("noon".into(), false),
        (f64::NAN.into(), false),
        (f64::INFINITY.into(), false),
        (1_780_000_000.5.into(), true),
    ];
    for (instant, fits) in instants {
        let readings = vec![Reading::new(instant.clone(), 1.0)];
        let admitted = judged(&stream, &[], StreamFetch::readings("s", readings)).unwrap();
        assert_eq!(admitted.rows.len(), usize::from(fits), "{instant}");
        assert_eq!(admitted.refused.len(), usize::from(!fits), "{instant}");
        assert!(admitted.refused.iter().all(|why| why.contains(&instant.to_string())), "{:?}", admitted.refused);
    }
}

#[test]
fn numbers_that_are_none_and_columns_that_are_not_are_refused() {
    let stream = StreamDescriptor::readings("s").with_replicates(["a", "b"]);
    let pin = |name: &str, index, active| ColumnAssignment { name: name.to_owned(), index, active };
    let pins = [pin("a", 0, false), pin("b", 1, true)];
    let readings = vec![
        Reading::new(at(NOW), 1.0).in_column(1),
        Reading::new(at(NOW), 1.0).in_column(0),
        Reading::new(at(NOW), f64::NAN).in_column(1),
    ];
    let admitted = judged(&stream, &pins, StreamFetch::readings("s", readings)).unwrap();
    assert_eq!((admitted.rows.len(), admitted.refused.len()), (1, 2));
    assert_eq!(admitted.protected.keys.len(), 2);
}

#[test]
fn what_was_refused_protects_its_stored_counterpart() {
    let stream = StreamDescriptor::records("t", ["id"]);
    let record = |id: &str| Record::new(id, Map::new());
    let refusal = |row| Refusal { row, reason: "line 7".to_owned() };
    let set = || StreamFetch::all_records("t", vec![record("1")]);
    let named = set().with_refused(vec![refusal(RefusedRow::Under(vec!["2".to_owned()]))]);
    let named = judged(&stream, &[], named).unwrap();
    assert!(named.protected.keys.contains(&vec!["2".to_owned()]) && !named.protected.unknown);
    let nobody = judged(&stream, &[], set().with_refused(vec![refusal(RefusedRow::Unknown)])).unwrap();
    assert!(nobody.protected.unknown);
}

#[test]
fn a_run_of_equal_instants_is_never_split() {
    let instants = |runs: &[(i64, usize)]| -> Vec<Timestamp> {
        runs.iter().flat_map(|(at, count)| vec![Timestamp::from_micros(*at); *count]).collect()
    };
    let sizes = |instants: &[Timestamp]| -> Vec<usize> {
        batches(instants, instants.len(), 1000).into_iter().map(|range| range.len()).collect()
    };
    assert_eq!(sizes(&(0..2500).map(Timestamp::from_micros).collect::<Vec<_>>()), [1000, 1000, 500]);
    assert_eq!(sizes(&instants(&[(1, 999), (2, 3), (3, 10)])), [1002, 10]);
    assert_eq!(sizes(&instants(&[(1, 1500)])), [1500]);
    assert!(sizes(&[]).is_empty());
}

#[test]
fn a_digest_is_of_contents_in_any_order() {
    let stream = StreamDescriptor::readings("s");
    let window = |values: &[(i64, f64)], rows_read: u64| {
        let readings = values
            .iter()
            .map(|(second, value)| Reading::new(at(NOW).minus(Duration::from_secs(*second as u64)), *value));
        let mut window = ReadingWindow::new(at("2026-06-01T00:00:00Z"), at("2026-06-02T00:00:00Z"), readings.collect());
        window.rows_read = rows_read;
        digest(&judged(&stream, &[], StreamFetch::window("s", window)).unwrap()).unwrap()
    };
    assert_eq!(window(&[(1, 1.0), (2, 2.0)], 2), window(&[(2, 2.0), (1, 1.0)], 9000));
    assert_ne!(window(&[(1, 1.0), (2, 2.0)], 2), window(&[(1, 2.0), (2, 1.0)], 2));
}

#[test]
fn of_two_records_with_one_key_the_later_counts() {
    let stream = StreamDescriptor::records("t", ["id"]);
    let changes: Vec<RecordChange> = vec![
        Record::new("1", Map::new()).into(),
        RecordChange::Removed(vec!["1".to_owned()]),
        RecordChange::Removed(vec!["2".to_owned()]),
        Record::new("2", Map::new()).into(),
    ];
    let admitted = judged(&stream, &[], StreamFetch::records("t", changes)).unwrap();
    assert_eq!(admitted.removed, [["1".to_owned()]]);
    assert_eq!(admitted.rows.iter().map(|row| row.key[0].as_str()).collect::<Vec<_>>(), ["2"]);
}

#[test]
fn fields_that_are_no_columns_are_found() {
    let shape = RecordShape { key: vec!["id".to_owned()], columns: Vec::new() };
    let serde_json::Value::Object(fields) = json!({"id": "1", "b": 1, "nothing": null, "a": [1]}) else { panic!() };
    let set = Payload::RecordSet(RecordSet::new(vec![Record::new("1", fields)]));
    assert_eq!(unknown_columns(&shape, &set), ["a", "b"]);
}
