//! Reads a fragment's words without a database: what would break out of its brackets, and names in quotes that are none.

/// What is wrong with a fragment, whatever the table holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A bracket too many or too few, a text or comment without an end.
    Open(&'static str),
    /// A `;`.
    Statement,
}

impl Flaw {
    pub fn message(&self) -> String {
        match self {
            Self::Open(what) => format!("{what} has no counterpart"),
            Self::Statement => "holds a `;`".to_owned(),
        }
    }
}

/// The names in double quotes. SQLite takes one that is no column's for a text, silently.
pub(super) fn quoted_names(sql: &str) -> Result<Vec<String>, Flaw> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut rest = sql;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '(' => {
                depth += 1;
                after
            }
            ')' => {
                depth = depth.checked_sub(1).ok_or(Flaw::Open("a closing bracket"))?;
                after
            }
            ';' => return Err(Flaw::Statement),
            '\'' => text(after, '\'')?.1,
            '`' => text(after, '`')?.1,
            '"' => {
                let (name, after) = text(after, '"')?;
                names.push(name);
                after
            }
            '[' => after.split_once(']').ok_or(Flaw::Open("an opening bracket"))?.1,
            '-' if after.starts_with('-') => after.split_once('\n').map_or("", |(_, after)| after),
            '/' if after.starts_with('*') => after[1..].split_once("*/").ok_or(Flaw::Open("the start of a comment"))?.1,
            '\0' => return Err(Flaw::Open("a zero byte")),
            _ => after,
        };
    }
    if depth > 0 { Err(Flaw::Open("an opening bracket")) } else { Ok(names) }
}

/// What stands before the closing quote, doubled ones undone, and what comes behind it.
fn text(sql: &str, quote: char) -> Result<(String, &str), Flaw> {
    let mut text = String::new();
    let mut rest = sql;
    loop {
        let (part, after) = rest.split_once(quote).ok_or(Flaw::Open("a quote"))?;
        text.push_str(part);
        match after.strip_prefix(quote) {
            Some(after) => {
                text.push(quote);
                rest = after;
            }
            None => return Ok((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_quotes_are_found_and_texts_and_comments_are_not() {
        let sql = "\"a\"\"b\" || '\"c\"' || [\"d\"] -- \"e\"\n || \"f\" /* \"g\" ( */";
        assert_eq!(quoted_names(sql).unwrap(), ["a\"b", "f"]);
    }

    #[test]
    fn what_breaks_out_of_its_brackets_is_refused() {
        for sql in ["1) or (1", "(1", "'it''s", "\"a", "[a", "1 /* a", "a\0"] {
            assert!(matches!(quoted_names(sql), Err(Flaw::Open(_))), "{sql}");
        }
        assert_eq!(quoted_names("1; drop table x"), Err(Flaw::Statement));
        assert_eq!(quoted_names("(a = ')') -- it's (").unwrap(), [""; 0]);
    }
}
