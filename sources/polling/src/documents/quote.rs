//! The one quoting function, for every name and text that goes into the queries.

/// A name as an SQL identifier, always in quotes.
pub(super) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as an SQL literal. SQLite knows no escapes, and cuts a literal at a zero byte.
pub(super) fn literal(text: &str) -> String {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    if quoted.contains('\0') { quoted.replace('\0', "'||char(0)||'") } else { quoted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p13_names_and_texts_are_quoted() {
        assert_eq!(ident(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal(r"it's \"), r"'it''s \'");
        assert_eq!(literal("a\0b"), "'a'||char(0)||'b'");
    }
}
