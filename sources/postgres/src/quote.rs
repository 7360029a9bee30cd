//! The one quoting function, for every name and text that goes into SQL.

use millstream_model::QualifiedTable;

/// A name as an SQL identifier, always in quotes.
///
/// ```
/// assert_eq!(millstream_postgres::quote::ident(r#"od"d"#), r#""od""d""#);
/// ```
pub fn ident(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for letter in name.chars() {
        if letter == '"' {
            quoted.push('"');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    quoted
}

/// A table as an SQL identifier: schema and table, both in quotes.
pub fn table(table: &QualifiedTable) -> String {
    format!("{}.{}", ident(table.schema()), ident(table.table()))
}

/// A text as an SQL literal, whatever `standard_conforming_strings` says.
///
/// ```
/// assert_eq!(millstream_postgres::quote::literal("it's"), "'it''s'");
/// assert_eq!(millstream_postgres::quote::literal(r"a\b"), r" E'a\\b'");
/// ```
pub fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') { format!(" E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}
