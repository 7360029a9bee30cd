use super::super::decode::Message;
use super::super::decode::tests::write;
use super::*;
use millstream_model::Position;

const FENCE: Fence = Fence::new(7, Position(5));

fn texts(names: &[&str]) -> KeyColumns {
    names.iter().map(|name| Text::from(*name)).collect()
}

/// orders (note, user_id, id), key `id`, link `user_id`; the identity tells the columns marked.
fn orders(identity: [bool; 3]) -> Shape {
    let watched = Watched {
        table: QualifiedTable::new("public", "orders"),
        key: texts(&["id"]),
        links: texts(&["user_id"]),
        old_links: vec!["user_id".into()],
        old_links_before: Some(Vec::new()),
        is_root: false,
        leaves: vec![1],
        oid: 1,
    };
    let names = ["note", "user_id", "id"];
    let columns: Vec<(&str, bool)> = names.into_iter().zip(identity).collect();
    let bytes = write::relation(1, "orders", &columns);
    let Message::Relation(relation) = Message::read(&bytes).unwrap() else { panic!("expected a relation") };
    Shape::new(Arc::new(watched), &relation)
}

fn tell(shape: &Shape, bytes: &[u8]) -> Option<ChangedRow> {
    match Message::read(bytes).unwrap() {
        Message::Insert { new, .. } => shape.inserted(&new, FENCE),
        Message::Update { old, new, .. } => shape.updated(old.as_ref(), &new, FENCE),
        Message::Delete { old, .. } => shape.deleted(&old, FENCE),
        other => panic!("no row: {other:?}"),
    }
    .unwrap()
}

fn link(values: Option<&LinkValues>) -> LinkValue {
    values.unwrap().get("user_id").clone()
}

#[test]
fn an_insert_tells_key_and_links_only() {
    let row = tell(&orders([false, false, true]), &write::insert(1, &[Some("note"), None, Some("10")])).unwrap();
    assert_eq!((row.key.to_id(), row.fence), ("10".to_owned(), FENCE));
    assert_eq!(link(row.after.as_ref()), LinkValue::Null);
    assert!(row.before.is_none() && row.old_key.is_none());
}

#[test]
fn an_update_without_an_old_row_changed_no_link() {
    let row = tell(&orders([false, true, true]), &write::update(1, None, &[None, Some("2"), Some("10")])).unwrap();
    assert!(row.before.is_none() && row.old_key.is_none());
    assert_eq!(link(row.after.as_ref()), LinkValue::Text("2".into()));
}

#[test]
fn p6_an_old_row_tells_old_key_and_links() {
    let old = [None, Some("1"), Some("9")];
    let row = tell(&orders([false, true, true]), &write::update(1, Some((b'K', &old)), &[None, Some("2"), Some("10")]))
        .unwrap();
    assert_eq!(row.old_key.unwrap().to_id(), "9");
    assert_eq!(link(row.before.as_ref()), LinkValue::Text("1".into()));
}

#[test]
fn a_column_outside_the_identity_is_absent_not_null() {
    let old = [None, None, Some("9")];
    let shape = orders([false, false, true]);
    let row = tell(&shape, &write::update(1, Some((b'K', &old)), &[None, Some("2"), Some("10")])).unwrap();
    assert_eq!(link(row.before.as_ref()), LinkValue::Absent);
    let gone = tell(&shape, &write::delete(1, b'K', &old)).unwrap();
    assert_eq!((link(gone.before.as_ref()), gone.after), (LinkValue::Absent, None));
    // A whole old row means what it says.
    let gone = tell(&shape, &write::delete(1, b'O', &old)).unwrap();
    assert_eq!(link(gone.before.as_ref()), LinkValue::Null);
}

#[test]
fn case_c1_what_is_out_of_line_and_unchanged_is_what_it_was() {
    let new = [Some("x"), Some("\u{1}"), Some("\u{1}")];
    let shape = orders([true, true, true]);
    let row = tell(&shape, &write::update(1, Some((b'O', &[None, Some("1"), Some("9")])), &new)).unwrap();
    assert_eq!((row.key.to_id(), row.old_key, row.before.is_none()), ("9".to_owned(), None, true));
    assert_eq!(link(row.after.as_ref()), LinkValue::Text("1".into()));
    let row = tell(&shape, &write::update(1, None, &[None, Some("\u{1}"), Some("9")])).unwrap();
    assert_eq!(link(row.after.as_ref()), LinkValue::Absent);
}

#[test]
fn a_row_without_its_key_is_none() {
    assert!(tell(&orders([true, true, true]), &write::update(1, None, &[None, None, Some("\u{1}")])).is_none());
    assert!(tell(&orders([false, true, false]), &write::delete(1, b'K', &[None, Some("1"), None])).is_none());
}

#[test]
fn p5_a_narrow_identity_misses_what_is_needed_now_and_not_what_was_needed_before() {
    let whole = orders([false, true, true]);
    assert!(!whole.is_lacking() && !whole.misses(true, false) && whole.misses(false, true));
    let narrow = orders([false, false, true]);
    assert!(narrow.is_lacking() && narrow.misses(true, false) && !narrow.misses(true, true));
}
