use super::*;
use proptest::prelude::*;

/// Writes messages as the server does.
pub(crate) mod write {
    pub(crate) fn begin(commit: u64, xid: u32) -> Vec<u8> {
        [b"B".as_slice(), &commit.to_be_bytes(), &[0; 8], &xid.to_be_bytes()].concat()
    }

    pub(crate) fn commit(end: u64) -> Vec<u8> {
        [b"C\0".as_slice(), &(end - 8).to_be_bytes(), &end.to_be_bytes(), &[0; 8]].concat()
    }

    pub(crate) fn relation(id: u32, name: &str, columns: &[(&str, bool)]) -> Vec<u8> {
        let mut bytes = [b"R".as_slice(), &id.to_be_bytes(), b"public\0", name.as_bytes(), b"\0d"].concat();
        bytes.extend((columns.len() as u16).to_be_bytes());
        for (name, in_identity) in columns {
            bytes.push(u8::from(*in_identity));
            bytes.extend([name.as_bytes(), &[0; 9]].concat());
        }
        bytes
    }

    /// `None`: NULL; `"\u{1}"`: unchanged.
    pub(crate) fn tuple(values: &[Option<&str>]) -> Vec<u8> {
        let mut bytes = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            match value {
                None => bytes.push(b'n'),
                Some("\u{1}") => bytes.push(b'u'),
                Some(text) => {
                    bytes.extend([b"t".as_slice(), &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat());
                }
            }
        }
        bytes
    }

    pub(crate) fn insert(id: u32, new: &[Option<&str>]) -> Vec<u8> {
        [b"I".as_slice(), &id.to_be_bytes(), b"N", &tuple(new)].concat()
    }

    pub(crate) fn update(id: u32, old: Option<(u8, &[Option<&str>])>, new: &[Option<&str>]) -> Vec<u8> {
        let old = old.map(|(mark, old)| [&[mark], tuple(old).as_slice()].concat()).unwrap_or_default();
        [b"U".as_slice(), &id.to_be_bytes(), &old, b"N", &tuple(new)].concat()
    }

    pub(crate) fn delete(id: u32, mark: u8, old: &[Option<&str>]) -> Vec<u8> {
        [b"D".as_slice(), &id.to_be_bytes(), &[mark], &tuple(old)].concat()
    }

    pub(crate) fn truncate(ids: &[u32]) -> Vec<u8> {
        let mut bytes = [b"T".as_slice(), &(ids.len() as u32).to_be_bytes(), b"\0"].concat();
        bytes.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
        bytes
    }

    pub(crate) fn logical(prefix: &str, content: &str) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [b"M\0".as_slice(), &[0; 8], prefix.as_bytes(), b"\0", &length, content.as_bytes()].concat()
    }
}

#[test]
fn messages_read_back_as_they_were_written() {
    assert_eq!(Message::read(&write::begin(5, 7)).unwrap(), Message::Begin { commit: Position(5), xid: 7 });
    assert_eq!(Message::read(&write::commit(50)).unwrap(), Message::Commit { end: Position(50) });
    let bytes = write::relation(9, "orders", &[("id", true), ("user_id", false)]);
    let Message::Relation(relation) = Message::read(&bytes).unwrap() else { panic!("expected a relation") };
    assert_eq!((relation.id, relation.schema, relation.name), (9, "public", "orders"));
    assert_eq!(relation.columns().collect::<Vec<_>>(), [("id", true), ("user_id", false)]);
    let bytes = write::update(9, Some((b'K', &[Some("1"), None])), &[Some("2"), Some("\u{1}")]);
    let Message::Update { relation: 9, old: Some(old), new } = Message::read(&bytes).unwrap() else {
        panic!("expected an update")
    };
    assert!(!old.whole);
    assert_eq!(old.tuple.values().collect::<Vec<_>>(), [Value::Text(b"1"), Value::Null]);
    assert_eq!(new.values().collect::<Vec<_>>(), [Value::Text(b"2"), Value::Unchanged]);
    let bytes = write::truncate(&[3, 4]);
    let Message::Truncate { relations } = Message::read(&bytes).unwrap() else { panic!("expected a truncate") };
    assert_eq!(relations.iter().collect::<Vec<_>>(), [3, 4]);
    let bytes = write::logical("p", "c");
    assert_eq!(Message::read(&bytes).unwrap(), Message::Logical { prefix: b"p", content: b"c" });
}

#[test]
fn what_is_cut_off_anywhere_is_an_error() {
    let whole = [
        write::begin(5, 7),
        write::commit(50),
        write::relation(9, "orders", &[("id", true)]),
        write::insert(9, &[Some("1"), None]),
        write::update(9, Some((b'O', &[Some("1")])), &[Some("2")]),
        write::delete(9, b'K', &[Some("1")]),
        write::truncate(&[3, 4]),
        write::logical("p", "c"),
    ];
    for message in whole {
        assert!(Message::read(&message).is_ok());
        // A commit's and a beginning's clock is never looked at.
        let needed = if message[0] == b'C' { 18 } else { message.len() };
        for length in 0..needed {
            assert!(Message::read(&message[..length]).is_err(), "{:?} cut at {length}", message[0] as char);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), tag in "[BCRIUDTMYO]") {
        let tagged = [tag.as_bytes(), &bytes].concat();
        for bytes in [&bytes, &tagged] {
            match Message::read(bytes) {
                Ok(Message::Relation(relation)) => drop(relation.columns().count()),
                Ok(Message::Insert { new, .. } | Message::Update { new, .. }) => drop(new.values().count()),
                Ok(Message::Truncate { relations }) => drop(relations.iter().count()),
                _ => {}
            }
        }
    }

    #[test]
    fn every_tuple_reads_back(values in prop::collection::vec(prop::option::of("[a-zü\u{1}]{0,5}"), 0..20)) {
        let values: Vec<Option<&str>> = values.iter().map(|value| value.as_deref()).collect();
        let bytes = write::insert(1, &values);
        let Message::Insert { new, .. } = Message::read(&bytes).unwrap() else { panic!("expected an insert") };
        let read: Vec<Option<&str>> = new.values().map(|value| match value {
            Value::Null => None,
            Value::Unchanged => Some("\u{1}"),
            Value::Text(bytes) => Some(std::str::from_utf8(bytes).unwrap()),
        }).collect();
        prop_assert_eq!(read, values);
    }
}
