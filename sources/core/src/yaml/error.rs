use std::fmt;

use super::Place;

/// What is wrong with a file, where, and what to write.
///
/// Shown as `file:line:column: path: message; remedy`, with the line itself below. Passwords in that line are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct YamlError {
    /// The file's name, as the caller gave it.
    pub file: Box<str>,
    /// Line, from 1; 0 when it is not known.
    pub line: usize,
    /// Column in letters, from 1; 0 when it is not known.
    pub column: usize,
    /// The way to it in the file: `fields.orders.limit`. Empty for the file as a whole.
    pub path: Box<str>,
    /// What is wrong.
    pub message: Box<str>,
    /// What to write; empty when there is nothing to say.
    pub remedy: Box<str>,
    /// The line, numbered, with a mark below the column; empty when it is not known.
    pub snippet: Box<str>,
}

/// All that is wrong with a file, in its order; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlErrors(pub Vec<YamlError>);

/// An error that does not yet know its file.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) place: Option<Place>,
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

impl Fault {
    pub(crate) fn new(place: Place, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: Some(place), path: path.into(), message: message.into(), remedy: String::new() }
    }

    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    pub(crate) fn in_file(self, text: &str, file: &str) -> YamlError {
        let place = self.place.unwrap_or_default();
        YamlError {
            file: file.into(),
            line: place.line,
            column: place.column,
            path: self.path.into(),
            message: self.message.into(),
            remedy: self.remedy.into(),
            snippet: snippet(text, place).into(),
        }
    }
}

/// The line at a place with a mark below the column.
fn snippet(text: &str, place: Place) -> String {
    const LONGEST: usize = 160;
    let Some(line) = place.line.checked_sub(1).and_then(|number| text.lines().nth(number)) else {
        return String::new();
    };
    let shown: String = line.chars().take(LONGEST).collect();
    let shown = mask(&shown);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let indent = " ".repeat(place.column.saturating_sub(1).min(LONGEST));
    format!("{margin} |\n{number} | {shown}\n{margin} | {indent}^")
}

/// Covers what may be a secret, letter by letter, so that the columns stay.
fn mask(line: &str) -> String {
    const SECRETS: [&str; 4] = ["password", "secret", "token", "api_key"];
    let mut covered: Vec<char> = line.chars().collect();
    let lower: Vec<char> = covered.iter().map(char::to_ascii_lowercase).collect();
    for word in SECRETS {
        let word: Vec<char> = word.chars().collect();
        for start in 0..lower.len().saturating_sub(word.len()) {
            if lower[start..].starts_with(&word) {
                cover_value(&mut covered, start + word.len());
            }
        }
    }
    cover_credentials(&mut covered);
    covered.into_iter().collect()
}

/// Covers the scalar after the next colon.
fn cover_value(line: &mut [char], from: usize) {
    let Some(colon) = (from..line.len()).find(|at| line[*at] == ':') else { return };
    if line[from..colon].iter().any(|letter| [',', '{', '}', ' '].contains(letter)) {
        return;
    }
    let Some(start) = (colon + 1..line.len()).find(|at| line[*at] != ' ') else { return };
    let end = match line[start] {
        quote @ ('"' | '\'') => (start + 1..line.len()).find(|at| line[*at] == quote).unwrap_or(line.len()),
        _ => (start..line.len()).find(|at| [',', '}'].contains(&line[*at])).unwrap_or(line.len()),
    };
    line[start..end].fill('*');
}

/// Covers what stands between `://` and the last `@` of the same word.
fn cover_credentials(line: &mut [char]) {
    for start in 0..line.len() {
        if !line[start..].starts_with(&[':', '/', '/']) {
            continue;
        }
        let end = (start + 3..line.len()).find(|at| line[*at].is_whitespace()).unwrap_or(line.len());
        if let Some(at) = (start + 3..end).rev().find(|at| line[*at] == '@') {
            line[start + 3..at].fill('*');
        }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.message)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        if !self.snippet.is_empty() {
            write!(f, "\n{}", self.snippet)?;
        }
        Ok(())
    }
}

impl std::error::Error for YamlError {}

impl fmt::Display for YamlErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            fmt::Display::fmt(error, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for YamlErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p19_the_shown_line_masks_secrets() {
        let text = "a: 1\nsearch: { urll: \"https://me:hunter2@here:1\", password: hunter2, token: 'hunter2' }\n";
        let fault = Fault::new(Place { line: 2, column: 11 }, "search", "no");
        let shown = fault.in_file(text, "f.yaml").to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("here:1"), "{shown}");
        assert!(shown.starts_with("f.yaml:2:11: search: no\n  |\n2 | search: "), "{shown}");
    }
}
