//! What an answer's text says: its list, its items, where the next page is. Numbers keep their digits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::settings::HttpStream;
use crate::BackendError;
use crate::model::{ColumnType, Record, Refusal, RefusedRow};

/// A list as an answer holds it.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub records: Vec<Record>,
    pub refused: Vec<Refusal>,
    /// Items that stood there.
    pub count: u64,
}

/// The part of an answer at a place; `None`: it is not there, or null.
///
/// # Errors
/// When the text is no JSON, or something on the way is no object.
pub(super) fn part<'t>(text: &'t str, place: &str) -> Result<Option<&'t RawValue>, String> {
    let mut part: &RawValue = serde_json::from_str(text).map_err(|error| no_json(&error))?;
    for name in place.split('.').filter(|name| !name.is_empty()) {
        if part.get() == "null" {
            return Ok(None);
        }
        let members: BTreeMap<Cow<'t, str>, &'t RawValue> =
            serde_json::from_str(part.get()).map_err(|_| format!("there is no object to hold {name}"))?;
        match members.get(name) {
            Some(member) => part = member,
            None => return Ok(None),
        }
    }
    Ok(Some(part).filter(|part| part.get() != "null"))
}

/// A text or number at a place.
///
/// # Errors
/// As [`part`]; or it is neither.
pub(super) fn scalar(text: &str, place: &str) -> Result<Option<String>, String> {
    let Some(part) = part(text, place)? else { return Ok(None) };
    match serde_json::from_str(part.get()) {
        Ok(Json::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        // As it is written: a number's digits are not ours to round.
        Ok(Json::Number(_)) => Ok(Some(part.get().to_owned())),
        Ok(Json::Bool(false)) => Ok(None),
        _ => Err(format!("{place} is neither a text nor a number")),
    }
}

/// The items of an answer.
///
/// # Errors
/// `Undecodable` when there is no list where it should be.
pub(super) fn items(text: &str, stream: &HttpStream) -> Result<Items, BackendError> {
    let place = if stream.items.is_empty() { "the answer" } else { &stream.items };
    let list = part(text, &stream.items).map_err(BackendError::undecodable)?;
    let list = list.ok_or_else(|| BackendError::undecodable(format!("the answer has no list (items={place})")))?;
    let list: Vec<&RawValue> = serde_json::from_str(list.get())
        .map_err(|_| BackendError::undecodable(format!("{place} is no list of items")))?;
    let mut items = Items { count: list.len() as u64, ..Items::default() };
    for (at, item) in list.into_iter().enumerate() {
        match record(item, stream) {
            Ok(record) => items.records.push(record),
            Err(why) => {
                let reason = format!("item {}: {why}", at + 1);
                items.refused.push(Refusal { row: RefusedRow::Unknown, reason });
            }
        }
    }
    Ok(items)
}

fn record(item: &RawValue, stream: &HttpStream) -> Result<Record, String> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(item.get()).map_err(|_| "it is no object".to_owned())?;
    let mut key = Vec::with_capacity(stream.key.len());
    for name in &stream.key {
        let member = members.get(name).ok_or_else(|| format!("it has no {name}"))?;
        match field(member, ColumnType::Text) {
            Ok(Json::String(text)) => key.push(text),
            Ok(Json::Bool(value)) => key.push(value.to_string()),
            _ => return Err(format!("its {name} is no key")),
        }
    }
    let mut fields = Map::new();
    for (name, member) in members.into_iter().filter(|(name, _)| !stream.key.contains(name)) {
        let kind = stream.columns.iter().find(|(column, _)| *column == name).map(|(_, kind)| *kind);
        let value = field(member, kind.unwrap_or_default()).map_err(|why| format!("its {name} {why}"))?;
        fields.insert(name, value);
    }
    Ok(Record { key, fields })
}

/// A number outside of JSON columns travels as the text that it is.
fn field(member: &RawValue, kind: ColumnType) -> Result<Json, &'static str> {
    match serde_json::from_str(member.get()) {
        Ok(Json::Number(_)) if kind != ColumnType::Json => Ok(Json::String(member.get().to_owned())),
        Ok(value) => Ok(value),
        Err(_) => Err("is too deep, or beyond any number"),
    }
}

fn no_json(error: &serde_json::Error) -> String {
    // Its words name a place, no contents.
    format!("the answer is no JSON (line={}, column={})", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stream() -> HttpStream {
        HttpStream::new("products", "products", ["id"]).with(|stream| {
            stream.items = "data.items".to_owned();
            stream.columns = vec![("tags".to_owned(), ColumnType::Json)];
        })
    }

    #[test]
    fn p12_numbers_keep_their_digits() {
        let text = r#"{"data": {"items": [{"id": 12345678901234567890123, "price": 0.1000000000000000000001,
            "name": "a\u00e9", "on": true, "none": null, "tags": [1, {"x": 2.5}]}]}}"#;
        let items = items(text, &stream()).unwrap();
        let record = &items.records[0];
        assert_eq!(record.key, ["12345678901234567890123"]);
        assert_eq!(record.fields["price"], "0.1000000000000000000001");
        assert_eq!((&record.fields["name"], &record.fields["on"]), (&json!("aé"), &json!(true)));
        assert_eq!((&record.fields["none"], &record.fields["tags"]), (&json!(null), &json!([1, {"x": 2.5}])));
    }

    #[test]
    fn what_is_no_item_is_named_and_harms_no_other() {
        let text = r#"{"data": {"items": [{"id": 1}, 7, {"name": "x"}, {"id": null}, {"id": [1]}, {"id": "2"}]}}"#;
        let items = items(text, &stream()).unwrap();
        assert_eq!(items.records.iter().map(|record| record.key[0].as_str()).collect::<Vec<_>>(), ["1", "2"]);
        let reasons: Vec<_> = items.refused.iter().map(|refusal| refusal.reason.as_str()).collect();
        assert_eq!(
            reasons,
            ["item 2: it is no object", "item 3: it has no id", "item 4: its id is no key", "item 5: its id is no key"]
        );
        assert_eq!(items.count, 6);
    }

    #[test]
    fn what_is_too_deep_is_refused_and_overflows_nothing() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let text = format!(
            "{{\"data\": {{\"items\": [{{\"id\": 1, \"x\": {}}}, {}, {{\"id\": 2}}]}}}}",
            deep(9000),
            deep(9000)
        );
        let items = items(&text, &stream()).unwrap();
        assert_eq!((items.records.len(), items.refused.len()), (1, 2));
        assert_eq!(items.refused[0].reason, "item 1: its x is too deep, or beyond any number");
    }

    #[test]
    fn an_answer_without_its_list_is_no_empty_one() {
        for (text, why) in [
            ("<html>", "the answer is no JSON (line=1, column=1)"),
            ("{\"data\": {\"it", "the answer is no JSON (line=1, column=13)"),
            ("{}", "the answer has no list (items=data.items)"),
            ("[]", "there is no object to hold data"),
            ("{\"data\": {\"items\": {}}}", "data.items is no list of items"),
            ("{\"data\": {\"items\": null}}", "the answer has no list (items=data.items)"),
        ] {
            let error = items(text, &stream()).unwrap_err();
            assert_eq!(error.to_string(), why, "{text}");
            assert_eq!(error.kind(), crate::BackendErrorKind::Undecodable);
        }
    }

    #[test]
    fn a_token_may_be_a_text_or_a_number() {
        let at = |text: &str| scalar(text, "a.b");
        assert_eq!(at(r#"{"a": {"b": "x"}}"#), Ok(Some("x".to_owned())));
        assert_eq!(at(r#"{"a": {"b": 12345678901234567890}}"#), Ok(Some("12345678901234567890".to_owned())));
        for none in [r#"{"a": {"b": null}}"#, r#"{"a": null}"#, "{}", r#"{"a": {"b": ""}}"#, r#"{"a": {"b": false}}"#] {
            assert_eq!(at(none), Ok(None), "{none}");
        }
        assert!(at(r#"{"a": {"b": []}}"#).is_err());
    }
}
