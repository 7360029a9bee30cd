use serde_json::Value;

use crate::schema::{FieldType, Literal, ValueType};
use crate::yaml::{Node, NodeKind, Place};

use super::reader::{Reader, join};

/// What can't be read as a type asks, where and why, and what to write.
pub(super) struct Unfit {
    place: Place,
    message: String,
    remedy: &'static str,
}

impl Reader {
    /// A constant or default by its declared type.
    pub(super) fn literal(&mut self, node: &Node, value: &ValueType, path: &str) -> Option<Literal> {
        self.placed_literal(
            node,
            path,
            |node| if value.array { array(node, value) } else { typed(node, &value.field_type) },
        )
        .map(Literal)
    }

    pub(super) fn placed_literal<T>(
        &mut self,
        node: &Node,
        path: &str,
        read: impl FnOnce(&Node) -> Result<T, Unfit>,
    ) -> Option<T> {
        match read(node) {
            Ok(read) => Some(read),
            Err(unfit) => {
                self.fault(unfit.place, path, unfit.message, unfit.remedy);
                None
            }
        }
    }

    /// A mapping for the sink, as JSON.
    pub(super) fn json_object(&mut self, node: &Node, path: &str) -> Option<serde_json::Map<String, Value>> {
        let entries = self.entries(node, path)?;
        let mut object = serde_json::Map::with_capacity(entries.len());
        for (_, key, value) in entries {
            let value = self.placed_literal(value, &join(path, key), |node| {
                let text = json(node)?;
                serde_json::from_str(&text).map_err(|error| unfit(node, error.to_string(), ""))
            })?;
            object.insert(key.clone(), value);
        }
        Some(object)
    }
}

/// A constant without a type: a number, boolean or null if its unquoted text is one, else a string.
pub(super) fn untyped(node: &Node) -> Result<(Literal, FieldType), Unfit> {
    let items = match &node.kind {
        NodeKind::Sequence(items) => items.as_slice(),
        NodeKind::Mapping(_) => {
            return Err(unfit(node, "a mapping needs its type".to_owned(), "write `type: json` beside it"));
        }
        NodeKind::Scalar { .. } => std::slice::from_ref(node),
    };
    let mut types = items.iter().map(untyped_type);
    let first = types.next().unwrap_or(FieldType::Keyword);
    let field_type = if types.all(|other| other == first) { first } else { FieldType::Keyword };
    Ok((Literal(json(node)?), field_type))
}

fn untyped_type(node: &Node) -> FieldType {
    match &node.kind {
        NodeKind::Scalar { text, literal: true } => match text.as_str() {
            "true" | "false" => FieldType::Boolean,
            text if text.parse::<i64>().is_ok() && is_number(text) => FieldType::Long,
            text if is_number(text) => FieldType::Decimal,
            _ => FieldType::Keyword,
        },
        NodeKind::Scalar { .. } => FieldType::Keyword,
        NodeKind::Sequence(_) | NodeKind::Mapping(_) => FieldType::Json,
    }
}

fn array(node: &Node, value: &ValueType) -> Result<String, Unfit> {
    let NodeKind::Sequence(items) = &node.kind else {
        return Err(unfit(node, format!("a list is expected here, not {}", node.describe()), "write `[...]`"));
    };
    let items =
        items.iter().map(|item| if item.is_null() { Ok("null".to_owned()) } else { typed(item, &value.field_type) });
    Ok(format!("[{}]", items.collect::<Result<Vec<_>, _>>()?.join(",")))
}

/// One value by its declared type.
fn typed(node: &Node, field_type: &FieldType) -> Result<String, Unfit> {
    if matches!(field_type, FieldType::Json | FieldType::Custom { .. }) {
        return json(node);
    }
    let NodeKind::Scalar { text, literal } = &node.kind else {
        let remedy = match node.kind {
            NodeKind::Sequence(_) => "write one value, or `array: true` beside it",
            _ => "write one value, or `type: json` beside it",
        };
        return Err(unfit(
            node,
            format!("a value of type {} is expected here, not {}", field_type.name(), node.describe()),
            remedy,
        ));
    };
    let missing = *literal && text.is_empty();
    let wrong = |remedy| {
        let shown = if missing { "nothing".to_owned() } else { format!("`{text}`") };
        Err(unfit(node, format!("a value of type {} is expected here, not {shown}", field_type.name()), remedy))
    };
    if missing {
        return wrong("write one");
    }
    let whole = |least: i64, most: i64| match text.parse::<i64>() {
        Ok(number) if (least..=most).contains(&number) && is_number(text) => Ok(text.clone()),
        _ => wrong("write a whole number within the type's bounds, as JSON does"),
    };
    match field_type {
        _ if node.is_null() && !is_textual(field_type) => Ok("null".to_owned()),
        FieldType::Boolean => match text.as_str() {
            "true" | "false" => Ok(text.clone()),
            _ => wrong("write true or false"),
        },
        FieldType::Short => whole(i16::MIN.into(), i16::MAX.into()),
        FieldType::Integer => whole(i32::MIN.into(), i32::MAX.into()),
        FieldType::Long => whole(i64::MIN, i64::MAX),
        FieldType::Float | FieldType::Double | FieldType::Decimal => match text.as_str() {
            "NaN" | "Infinity" | "-Infinity" => Ok(json_string(text)),
            text if is_number(text) => Ok(text.to_owned()),
            _ => wrong("write a number as JSON does, or NaN, Infinity, -Infinity"),
        },
        _ => Ok(json_string(text)),
    }
}

/// Types whose values are texts: a text that looks like nothing is still a text.
fn is_textual(field_type: &FieldType) -> bool {
    matches!(field_type, FieldType::Text | FieldType::Keyword | FieldType::Enum)
}

/// A node as JSON text: unquoted numbers, booleans and null as they are, all else as strings.
fn json(node: &Node) -> Result<String, Unfit> {
    Ok(match &node.kind {
        NodeKind::Scalar { text, literal: true } if matches!(text.as_str(), "true" | "false") || is_number(text) => {
            text.clone()
        }
        NodeKind::Scalar { .. } if node.is_null() => "null".to_owned(),
        NodeKind::Scalar { text, .. } => json_string(text),
        NodeKind::Sequence(items) => {
            format!("[{}]", items.iter().map(json).collect::<Result<Vec<_>, _>>()?.join(","))
        }
        NodeKind::Mapping(entries) => {
            let entries = entries.iter().map(|(_, key, value)| Ok(format!("{}:{}", json_string(key), json(value)?)));
            format!("{{{}}}", entries.collect::<Result<Vec<_>, Unfit>>()?.join(","))
        }
    })
}

fn json_string(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// True for a number as JSON writes it, of any length.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| -> usize { text.bytes().take_while(u8::is_ascii_digit).count() };
    let rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

fn unfit(node: &Node, message: String, remedy: &'static str) -> Unfit {
    Unfit { place: node.place, message, remedy }
}
