use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::YamlError;
use super::error::Fault;

/// Where something stands in a file; 0 when that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in letters, from 1.
    pub column: usize,
}

/// A value as it stands in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it begins; for an alias, where the alias stands.
    pub place: Place,
    /// What it is.
    pub kind: NodeKind,
}

/// What a [`Node`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// One value.
    Scalar {
        /// Its text as it is written, without quotes.
        text: String,
        /// True when it may stand for a number, a boolean or null: it is written without quotes and looks like one.
        literal: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with their places, and values, in the file's order; no key twice.
    Mapping(Vec<(Place, String, Node)>),
}

/// Levels of nesting that a file may have: thirty relations deep, and a small stack holds it.
const DEEPEST: usize = 64;

impl Node {
    /// Reads a file's text. `file` is its name for errors.
    ///
    /// # Errors
    /// When it is not YAML, has a key twice, or is nested deeper than any file of ours.
    pub fn parse(text: &str, file: &str) -> Result<Self, YamlError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: DEEPEST },
            strict_booleans: true,
            null_as_string: true,
            non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::PassThrough,
            with_snippet: false,
        };
        let parsed = serde_saphyr::from_str_with_options::<Spanned<Parsed>>(text, options);
        parsed.map(|spanned| spanned.into_node(text)).map_err(|error| fault_of(&error).in_file(text, file))
    }

    /// True for what YAML takes for nothing: `null`, `~` or no text at all, without quotes.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, literal: true } if is_null(text))
    }

    /// What it is, in words.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Scalar { .. } if self.is_null() => "nothing".to_owned(),
            NodeKind::Scalar { text, .. } => format!("`{text}`"),
            NodeKind::Sequence(_) => "a list".to_owned(),
            NodeKind::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// Puts every scalar value through `replace`, leaves those as they are that it refuses, and notes what it said.
    pub(crate) fn replace_what_can_be(
        &mut self,
        path: &mut String,
        replace: &dyn Fn(&str) -> Result<String, String>,
        faults: &mut Vec<Fault>,
    ) {
        let length = path.len();
        match &mut self.kind {
            NodeKind::Scalar { text, .. } => match replace(text) {
                Ok(replaced) => *text = replaced,
                Err(message) => faults.push(Fault::new(self.place, path.clone(), message)),
            },
            NodeKind::Sequence(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    push_item(path, number);
                    item.replace_what_can_be(path, replace, faults);
                    path.truncate(length);
                }
            }
            NodeKind::Mapping(entries) => {
                for (_, key, value) in entries {
                    push_key(path, key);
                    value.replace_what_can_be(path, replace, faults);
                    path.truncate(length);
                }
            }
        }
    }

    /// Puts every scalar value through `replace`. `path` leads here, and is left as it was.
    pub(crate) fn replace_scalars(
        &mut self,
        path: &mut String,
        replace: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<(), Fault> {
        let length = path.len();
        match &mut self.kind {
            NodeKind::Scalar { text, .. } => {
                *text = replace(text).map_err(|message| Fault::new(self.place, path.clone(), message))?;
            }
            NodeKind::Sequence(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    push_item(path, number);
                    item.replace_scalars(path, replace)?;
                    path.truncate(length);
                }
            }
            NodeKind::Mapping(entries) => {
                for (_, key, value) in entries {
                    push_key(path, key);
                    value.replace_scalars(path, replace)?;
                    path.truncate(length);
                }
            }
        }
        Ok(())
    }
}

/// Leads a path on to a key.
pub(crate) fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Leads a path on to a list's item.
pub(crate) fn push_item(path: &mut String, number: usize) {
    path.push_str(&format!("[{number}]"));
}

pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// What the parser makes of a node, before its source text is looked up.
enum Parsed {
    Text(String),
    /// A number, a boolean or null; the text is the parser's, to fall back on.
    Literal(String),
    Sequence(Vec<Spanned<Parsed>>),
    Mapping(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

trait IntoNode {
    fn into_node(self, text: &str) -> Node;
}

impl IntoNode for Spanned<Parsed> {
    fn into_node(self, text: &str) -> Node {
        let kind = match self.value {
            Parsed::Text(scalar) => NodeKind::Scalar { text: scalar, literal: false },
            Parsed::Literal(fallback) => {
                NodeKind::Scalar { text: source_text(text, &self.defined).unwrap_or(fallback), literal: true }
            }
            Parsed::Sequence(items) => NodeKind::Sequence(items.into_iter().map(|item| item.into_node(text)).collect()),
            Parsed::Mapping(entries) => NodeKind::Mapping(
                entries
                    .into_iter()
                    .map(|(key, value)| (place(&key.referenced), key.value, value.into_node(text)))
                    .collect(),
            ),
        };
        Node { place: place(&self.referenced), kind }
    }
}

/// The scalar at a location exactly as it is written. `None` when it is tagged or quoted there.
fn source_text(text: &str, at: &Location) -> Option<String> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    let source = text.get(start..start.checked_add(length)?)?.trim();
    (!source.starts_with(['!', '&', '*', '"', '\''])).then(|| source.to_owned())
}

fn place(at: &Location) -> Place {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Place { line: number(at.line()), column: number(at.column()) }
}

fn fault_of(error: &serde_saphyr::Error) -> Fault {
    let plain = serde_saphyr::render_options! {
        formatter: &PlainWords,
        snippets: serde_saphyr::SnippetMode::Off,
    };
    let place = error.location().map(|at| place(&at));
    let message = error.render_with_options(plain);
    // The place is told in front of the message.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
    Fault { place, path: String::new(), message, remedy: String::new() }
}

use serde_saphyr::UserMessageFormatter as PlainWords;

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Literal(value.to_string()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Parsed, E> {
        Ok(Parsed::Literal(String::new()))
    }

    fn visit_none<E: de::Error>(self) -> Result<Parsed, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Parsed, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Parsed::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Parsed, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Parsed::Mapping(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalars(text: &str) -> Vec<(String, bool)> {
        fn walk(node: &Node, into: &mut Vec<(String, bool)>) {
            match &node.kind {
                NodeKind::Scalar { text, literal } => into.push((text.clone(), *literal)),
                NodeKind::Sequence(items) => items.iter().for_each(|item| walk(item, into)),
                NodeKind::Mapping(entries) => entries.iter().for_each(|(_, _, value)| walk(value, into)),
            }
        }
        let mut found = Vec::new();
        walk(&Node::parse(text, "f").unwrap(), &mut found);
        found
    }

    #[test]
    fn scalars_keep_their_source_text() {
        let text =
            "[NO, 01234, 1234567890123456789012345, 1.10, \"5\", true, ~, 'a''b', 0x1F, 1e999, .inf, -0, !!str 7]";
        let found = scalars(text);
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "NO",
                "01234",
                "1234567890123456789012345",
                "1.10",
                "5",
                "true",
                "~",
                "a'b",
                "0x1F",
                "1e999",
                ".inf",
                "-0",
                "7"
            ]
        );
        let quoted: Vec<bool> = found.iter().map(|(_, literal)| !*literal).collect();
        assert!(quoted[0] && quoted[4] && quoted[7] && quoted[12], "{found:?}");
        assert!(!quoted[1] && !quoted[2] && !quoted[3] && !quoted[5] && !quoted[6], "{found:?}");
    }

    #[test]
    fn aliases_and_merge_keys_bring_the_source_text_along() {
        let text = "a: &a { x: 01, y: &y 1.50 }\nb: *a\nc: *y\nd: { <<: *a, x: 2 }\n";
        let texts: Vec<String> = scalars(text).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["01", "1.50", "01", "1.50", "1.50", "2", "1.50"]);
    }

    #[test]
    fn places_count_letters_from_one() {
        let node = Node::parse("ä: 1\nbb:\n  - xy\n", "f").unwrap();
        let NodeKind::Mapping(entries) = &node.kind else { panic!("a mapping") };
        assert_eq!((entries[1].0, entries[1].1.as_str()), (Place { line: 2, column: 1 }, "bb"));
        assert_eq!(entries[0].2.place, Place { line: 1, column: 4 });
        let NodeKind::Sequence(items) = &entries[1].2.kind else { panic!("a list") };
        assert_eq!(items[0].place, Place { line: 3, column: 5 });
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        let error = Node::parse("a: 1\na: 2\n", "f.yaml").unwrap_err();
        assert_eq!((error.line, error.column), (2, 1), "{error}");
        let error = Node::parse("a: [1\nb: 2\n", "f.yaml").unwrap_err();
        assert!(error.line > 0, "{error}");
        assert!(Node::parse(&"[".repeat(100_000), "f.yaml").is_err());
        assert!(Node::parse(&"- ".repeat(100_000), "f.yaml").is_err());
        let error = Node::parse("", "f.yaml");
        assert!(error.is_err() || error.is_ok_and(|node| node.is_null()));
    }
}
