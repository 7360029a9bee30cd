use millstream_model::{Body, IndexName, Version};

use crate::{Outcome, WriteBatch};

/// The lines of a batch, and what becomes of each document once they are durable.
pub(super) fn batch(batch: &WriteBatch) -> (Vec<u8>, Vec<Outcome>) {
    let size: usize = batch.documents.iter().map(|document| document.size()).sum();
    let mut lines = Vec::with_capacity(size + 64 * batch.documents.len());
    let mut head = b"{\"index\":".to_vec();
    push_text(&mut head, batch.index.as_str());
    head.extend_from_slice(b",\"op\":\"");
    let outcomes = batch.documents.iter().map(|document| {
        let (operation, text) = match &document.body {
            Body::Upsert(text) => ("upsert", Some(text)),
            Body::Tombstone => ("delete", None),
        };
        if let Some(at) = text.and_then(|text| text.find('\n')) {
            return Outcome::Rejected(format!(
                "the document holds a line break, which would break the file's lines (byte={at})"
            ));
        }
        lines.extend_from_slice(&head);
        lines.extend_from_slice(operation.as_bytes());
        lines.extend_from_slice(b"\",\"id\":");
        push_text(&mut lines, &document.key.to_id());
        lines.extend_from_slice(b",\"version\":");
        lines.extend_from_slice(document.version.0.to_string().as_bytes());
        if let Some(text) = text {
            lines.extend_from_slice(b",\"doc\":");
            lines.extend_from_slice(text.as_bytes());
        }
        lines.extend_from_slice(b"}\n");
        Outcome::Durable
    });
    let outcomes = outcomes.collect();
    (lines, outcomes)
}

/// The line that says that every document of an index is gone.
pub(super) fn clear(index: &IndexName, version: Version) -> Vec<u8> {
    let mut line = b"{\"index\":".to_vec();
    push_text(&mut line, index.as_str());
    line.extend_from_slice(format!(",\"op\":\"clear\",\"version\":{version}}}\n").as_bytes());
    line
}

/// A text as JSON, quotes included.
fn push_text(line: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(line, text).expect("a text is written to memory");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_model::{Document, Generation, RowKey, Text};

    use super::*;

    fn document(id: &str, body: Body) -> Document {
        let columns: Arc<[Text]> = vec![Text::from("id")].into();
        Document { key: RowKey::new(columns, [Text::from(id)]), version: Version(12345), body }
    }

    #[test]
    fn a_line_is_as_documented_and_the_document_is_untouched() {
        let documents = vec![
            document("42", Body::Upsert(r#"{ "n":1.10, "n":2 }"#.to_owned())),
            document("a\"\n\u{e9}", Body::Tombstone),
        ];
        let (lines, outcomes) = batch(&WriteBatch { index: "us\"ers".into(), generation: Generation(1), documents });
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "{\"index\":\"us\\\"ers\",\"op\":\"upsert\",\"id\":\"42\",\"version\":12345,\"doc\":{ \"n\":1.10, \"n\":2 }}\n\
             {\"index\":\"us\\\"ers\",\"op\":\"delete\",\"id\":\"a\\\"\\n\u{e9}\",\"version\":12345}\n"
        );
        assert_eq!(outcomes, [Outcome::Durable, Outcome::Durable]);
        let line = clear(&"users".into(), Version(7));
        assert_eq!(line, b"{\"index\":\"users\",\"op\":\"clear\",\"version\":7}\n");
    }

    #[test]
    fn a_document_with_a_line_break_is_rejected_alone() {
        let documents = vec![
            document("1", Body::Upsert("{}".to_owned())),
            document("2", Body::Upsert("{\n}".to_owned())),
            document("3", Body::Upsert("{}".to_owned())),
        ];
        let (lines, outcomes) = batch(&WriteBatch { index: "x".into(), generation: Generation(1), documents });
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 2);
        let rejected = "the document holds a line break, which would break the file's lines (byte=1)";
        assert_eq!(outcomes, [Outcome::Durable, Outcome::Rejected(rejected.to_owned()), Outcome::Durable]);
    }
}
