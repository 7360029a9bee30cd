//! Judging the end state: the documents that a sink holds against a plain SQL query over the source.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::documents_path;
use crate::database::Connection;
use crate::json::Json;
use crate::wait::until;

/// Documents by id.
pub type Documents = BTreeMap<String, Json>;

/// What JSON Lines leave behind: the last line of each document wins, a clear removes all of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    indexes: BTreeMap<String, Documents>,
    clears: BTreeMap<String, usize>,
    lines: usize,
}

impl Fold {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Folds a file; one that is not there is empty, and a last line without its end is not there yet.
    ///
    /// # Panics
    /// When a whole line is malformed.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = std::str::from_utf8(&bytes[..whole]).expect("JSON Lines are UTF-8");
        let mut fold = Self::new();
        for line in text.lines() {
            fold.line(line);
        }
        fold
    }

    /// Folds one line.
    ///
    /// # Panics
    /// When it is malformed.
    pub fn line(&mut self, line: &str) {
        let json = Json::parse(line).unwrap_or_else(|error| panic!("a line is not JSON: {error}\n{line}"));
        let text = |name: &str| {
            let text = json.get(name).and_then(Json::as_text);
            text.unwrap_or_else(|| panic!("a line has no {name:?}: {line}")).to_owned()
        };
        assert!(matches!(json.get("version"), Some(Json::Number(_))), "a line has no version: {line}");
        self.lines += 1;
        let documents = self.indexes.entry(text("index")).or_default();
        match text("op").as_str() {
            "upsert" => {
                let document = json.get("doc").unwrap_or_else(|| panic!("an upsert has no document: {line}"));
                documents.insert(text("id"), document.clone());
            }
            "delete" => {
                assert!(json.get("doc").is_none(), "a delete has a document: {line}");
                documents.remove(&text("id"));
            }
            "clear" => {
                documents.clear();
                *self.clears.entry(text("index")).or_default() += 1;
            }
            other => panic!("a line has an unknown op {other:?}: {line}"),
        }
    }

    /// The documents of one index.
    pub fn documents(&self, index: &str) -> Documents {
        self.indexes.get(index).cloned().unwrap_or_default()
    }

    /// One document.
    pub fn document(&self, index: &str, id: &str) -> Option<&Json> {
        self.indexes.get(index)?.get(id)
    }

    /// How often an index was cleared.
    pub fn clears(&self, index: &str) -> usize {
        self.clears.get(index).copied().unwrap_or(0)
    }

    /// How many lines were folded.
    pub fn lines(&self) -> usize {
        self.lines
    }
}

/// What a query says that an index should hold: its rows are an id and the document's JSON text.
///
/// # Panics
/// When the query fails or its text is not JSON.
pub async fn oracle(connection: &mut Connection, sql: &str) -> Documents {
    let rows = connection.rows(&format!("select id::text, doc::text from (\n{sql}\n) as oracle(id, doc)")).await;
    let mut documents = Documents::new();
    for row in rows {
        let [Some(id), Some(document)] = row.as_slice() else { panic!("an oracle gave NULL: {row:?}") };
        let json = Json::parse(document).unwrap_or_else(|error| panic!("an oracle's text is not JSON: {error}"));
        assert!(documents.insert(id.clone(), json).is_none(), "an oracle gave an id twice (id={id})");
    }
    documents
}

/// Waits until the documents of an index that a host wrote in this folder are these.
pub async fn until_documents(folder: &Path, index: &str, wanted: &Documents, what: &str) {
    until(format!("the documents of {index} to be right after {what}"), || async {
        let found = Fold::read(&documents_path(folder)).documents(index);
        differences(index, wanted, &found).is_empty().then_some(())
    })
    .await;
}

/// The first ten differences, readable; empty when there are none.
pub fn differences(index: &str, expected: &Documents, found: &Documents) -> Vec<String> {
    const MOST: usize = 10;
    let mut said = Vec::new();
    for (id, document) in expected {
        match found.get(id) {
            None => said.push(format!("{index}/{id}: missing, expected {document}")),
            Some(other) => said.extend(
                document.differences(other, MOST).into_iter().map(|difference| format!("{index}/{id}{difference}")),
            ),
        }
        if said.len() >= MOST {
            break;
        }
    }
    let surplus = found.iter().filter(|(id, _)| !expected.contains_key(*id));
    said.extend(
        surplus.take(MOST).map(|(id, document)| format!("{index}/{id}: should not be there, found {document}")),
    );
    said.truncate(MOST);
    said
}

/// Fails with the first differences.
///
/// # Panics
/// When there are any.
pub fn assert_same(index: &str, expected: &Documents, found: &Documents) {
    let said = differences(index, expected, found);
    assert!(
        said.is_empty(),
        "{index} differs from the oracle ({} documents expected, {} found):\n  {}",
        expected.len(),
        found.len(),
        said.join("\n  ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_wins_and_a_clear_removes_all() {
        let mut fold = Fold::new();
        fold.line(r#"{"index":"a","op":"upsert","id":"1","version":1,"doc":{"x":1}}"#);
        fold.line(r#"{"index":"a","op":"upsert","id":"2","version":2,"doc":{"x":2}}"#);
        fold.line(r#"{"index":"a","op":"upsert","id":"1","version":3,"doc":{"x":3}}"#);
        fold.line(r#"{"index":"a","op":"delete","id":"2","version":4}"#);
        assert_eq!(fold.documents("a"), Documents::from([("1".to_owned(), Json::parse(r#"{"x":3}"#).unwrap())]));
        fold.line(r#"{"index":"a","op":"clear","version":5}"#);
        assert_eq!(fold.documents("a"), Documents::new());
        assert_eq!(fold.lines(), 5);
    }

    #[test]
    fn a_planted_difference_is_found() {
        let document = |text: &str| Json::parse(text).unwrap();
        let expected = Documents::from([
            ("1".to_owned(), document(r#"{"x":1}"#)),
            ("2".to_owned(), document(r#"{"x":9007199254740993}"#)),
        ]);
        let found = Documents::from([
            ("2".to_owned(), document(r#"{"x":9007199254740992}"#)),
            ("3".to_owned(), document("{}")),
        ]);
        let said = differences("a", &expected, &found);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[1].starts_with("a/2.x: expected 9007199254740993"), "{said:?}");
        assert!(differences("a", &expected, &expected).is_empty());
    }

    #[test]
    fn half_a_line_is_not_there_yet() {
        let folder = crate::folder::Folder::new();
        let path =
            folder.write("x", "{\"index\":\"a\",\"op\":\"upsert\",\"id\":\"1\",\"version\":1,\"doc\":{}}\n{\"ind");
        assert_eq!(Fold::read(&path).lines(), 1);
    }
}
