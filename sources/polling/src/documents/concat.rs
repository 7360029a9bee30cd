//! Text put together in SQL.

use super::quote;

/// Terms of one `||` chain before it is cut: each `||` copies what stands left of it, and SQLite takes expressions up to 1,000
/// levels deep.
const CHAIN: usize = 12;

/// Pieces of text that one SQL expression puts together; none may be NULL.
#[derive(Default)]
pub(super) struct Concat {
    pieces: Vec<Piece>,
}

enum Piece {
    /// Text as it is.
    Text(String),
    /// An SQL expression that is never NULL.
    Sql(String),
}

impl Concat {
    /// Adds text as it is.
    pub fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Adds an expression that is never NULL.
    pub fn sql(&mut self, sql: String) {
        self.pieces.push(Piece::Sql(sql));
    }

    /// The whole as one expression, in brackets where it needs them: a tree rather than a chain.
    pub fn into_sql(self) -> String {
        let mut terms: Vec<String> = self
            .pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => quote::literal(&text),
                Piece::Sql(sql) => sql,
            })
            .collect();
        if terms.is_empty() {
            return "''".to_owned();
        }
        while terms.len() > CHAIN {
            terms = terms.chunks(CHAIN).map(chain).collect();
        }
        chain(&terms)
    }
}

fn chain(terms: &[String]) -> String {
    match terms {
        [one] => one.clone(),
        _ => format!("({})", terms.join(" || ")),
    }
}

/// A name as a JSON text.
pub(super) fn json_name(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// JSON text that is known here, on one line: a line break in it can only stand between tokens.
pub(super) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_texts_are_one_literal() {
        let mut concat = Concat::default();
        concat.text("{\"it's\":");
        concat.text("1,");
        concat.sql("json_quote(t0.\"a\")".to_owned());
        assert_eq!(concat.into_sql(), r#"('{"it''s":1,' || json_quote(t0."a"))"#);
    }

    #[test]
    fn case_d14_three_hundred_pieces_are_a_shallow_tree() {
        let mut concat = Concat::default();
        (0..300).for_each(|at| concat.sql(format!("c{at}")));
        let sql = concat.into_sql();
        assert_eq!(sql.bytes().take_while(|byte| *byte == b'(').count(), 3);
        assert!(sql.contains("c299"));
    }
}
