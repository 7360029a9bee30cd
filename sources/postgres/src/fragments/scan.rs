use super::Verdict;

/// What a fragment is made of, as far as it can be told without a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Names that stand before an opening bracket, folded as the server does; keywords are among them.
    pub(super) called: Vec<String>,
    /// Words for the present moment, such as `current_date`.
    pub(super) moments: Vec<String>,
    /// Literals that may stand for a moment once they become a time: `now`, `today`.
    pub(super) maybe_moments: Vec<String>,
}

/// What a fragment may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Semicolon,
    Brackets,
    Unended(&'static str),
    Parameter,
    SubQuery,
    List,
    Nothing,
}

impl From<Flaw> for Verdict {
    fn from(flaw: Flaw) -> Self {
        let (why, mend) = match flaw {
            Flaw::Semicolon => ("holds a semicolon", "write one expression"),
            Flaw::Brackets => ("its brackets do not match", "close every bracket that it opens"),
            Flaw::Unended(what) => {
                return Self::Wrong { why: format!("{what} does not end"), mend: "end it".to_owned() };
            }
            Flaw::Parameter => ("holds a parameter", "write the value itself"),
            Flaw::SubQuery => {
                ("holds a sub-query", "use this table's columns only; reach others by a relation or aggregate")
            }
            Flaw::List => ("is a list", "write one expression"),
            Flaw::Nothing => ("is empty", "write an expression, or leave it out"),
        };
        Self::Wrong { why: why.to_owned(), mend: mend.to_owned() }
    }
}

const MOMENTS: [&str; 5] = ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];
const MAYBE_MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// Reads a fragment's words, or says why it can't stand in brackets of ours.
pub(super) fn scan(sql: &str) -> Result<Scan, Flaw> {
    let letters: Vec<char> = sql.chars().collect();
    let mut scanner =
        Scanner { letters: &letters, at: 0, open: Vec::new(), last: Last::Nothing, scan: Scan::default() };
    while scanner.at < letters.len() {
        scanner.token()?;
    }
    match (scanner.open.is_empty(), scanner.last) {
        (false, _) => Err(Flaw::Brackets),
        (true, Last::Nothing) => Err(Flaw::Nothing),
        _ => Ok(scanner.scan),
    }
}

/// The token before this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Open,
    Dot,
    Other,
}

struct Scanner<'a> {
    letters: &'a [char],
    at: usize,
    open: Vec<char>,
    last: Last,
    scan: Scan,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn token(&mut self) -> Result<(), Flaw> {
        let letter = self.letters[self.at];
        match (letter, self.peek(1)) {
            (letter, _) if letter.is_whitespace() => self.at += 1,
            ('-', Some('-')) => self.at = self.find('\n', self.at).unwrap_or(self.letters.len()),
            ('/', Some('*')) => self.comment()?,
            ('\'', _) => self.string(false)?,
            ('E' | 'e', Some('\'')) => {
                self.at += 1;
                self.string(true)?;
            }
            ('"', _) => self.quoted_name()?,
            ('$', Some(next)) if next.is_ascii_digit() => return Err(Flaw::Parameter),
            ('$', _) => self.dollar_string()?,
            (';', _) => return Err(Flaw::Semicolon),
            (',', _) if self.open.is_empty() => return Err(Flaw::List),
            ('(' | '[', _) => {
                self.open.push(letter);
                self.step(Last::Open);
            }
            (')' | ']', _) => {
                let opening = if letter == ')' { '(' } else { '[' };
                if self.open.pop() != Some(opening) {
                    return Err(Flaw::Brackets);
                }
                self.step(Last::Other);
            }
            ('.', _) => self.step(Last::Dot),
            (letter, _) if is_name_start(letter) => self.word()?,
            (letter, _) if letter.is_ascii_digit() => self.number(),
            _ => self.step(Last::Other),
        }
        Ok(())
    }

    fn step(&mut self, last: Last) {
        self.at += 1;
        self.last = last;
    }

    fn find(&self, letter: char, from: usize) -> Option<usize> {
        (from..self.letters.len()).find(|at| self.letters[*at] == letter)
    }

    /// Comments nest.
    fn comment(&mut self) -> Result<(), Flaw> {
        let mut depth = 0usize;
        while self.at < self.letters.len() {
            match (self.letters[self.at], self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(Flaw::Unended("a comment"))
    }

    fn string(&mut self, escapes: bool) -> Result<(), Flaw> {
        let mut text = String::new();
        self.at += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(Flaw::Unended("a text")),
                (Some('\''), Some('\'')) => {
                    text.push('\'');
                    self.at += 2;
                }
                (Some('\''), _) => break,
                (Some('\\'), Some(next)) if escapes => {
                    text.push(next);
                    self.at += 2;
                }
                (Some(letter), _) => {
                    text.push(letter);
                    self.at += 1;
                }
            }
        }
        self.literal(&text);
        self.step(Last::Other);
        Ok(())
    }

    fn literal(&mut self, text: &str) {
        let text = text.trim().to_lowercase();
        if text.split(|letter: char| !letter.is_alphabetic()).any(|word| MAYBE_MOMENTS.contains(&word)) {
            self.scan.maybe_moments.push(text);
        }
    }

    fn quoted_name(&mut self) -> Result<(), Flaw> {
        let mut name = String::new();
        self.at += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(Flaw::Unended("a name in quotes")),
                (Some('"'), Some('"')) => {
                    name.push('"');
                    self.at += 2;
                }
                (Some('"'), _) => break,
                (Some(letter), _) => {
                    name.push(letter);
                    self.at += 1;
                }
            }
        }
        self.step(Last::Other);
        self.called(name);
        Ok(())
    }

    /// `$tag$ … $tag$`; a `$` that begins none is an operator's business.
    fn dollar_string(&mut self) -> Result<(), Flaw> {
        let is_tag = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        let end = (self.at + 1..self.letters.len()).find(|at| !is_tag(&self.letters[*at]));
        let Some(end) = end.filter(|end| self.letters[*end] == '$') else {
            self.step(Last::Other);
            return Ok(());
        };
        let tag = &self.letters[self.at..=end];
        let close = (end + 1..self.letters.len()).find(|at| self.letters[*at..].starts_with(tag));
        let Some(close) = close else { return Err(Flaw::Unended("a text in dollars")) };
        let text: String = self.letters[end + 1..close].iter().collect();
        self.literal(&text);
        self.at = close + tag.len();
        self.last = Last::Other;
        Ok(())
    }

    fn word(&mut self) -> Result<(), Flaw> {
        let start = self.at;
        while self.peek(0).is_some_and(|letter| is_name_start(letter) || letter.is_ascii_digit() || letter == '$') {
            self.at += 1;
        }
        let word: String = self.letters[start..self.at].iter().collect::<String>().to_ascii_lowercase();
        let before = std::mem::replace(&mut self.last, Last::Other);
        if before != Last::Dot {
            // Unquoted, these are the grammar's own words.
            let begins_query = matches!(word.as_str(), "values" | "table" | "with") && before == Last::Open;
            if word == "select" || (begins_query && (word != "values" || self.is_called())) {
                return Err(Flaw::SubQuery);
            }
            if MOMENTS.contains(&word.as_str()) {
                self.scan.moments.push(word);
                return Ok(());
            }
        }
        self.called(word);
        Ok(())
    }

    /// Digits, so that an exponent is not taken for a name.
    fn number(&mut self) {
        while self.peek(0).is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.') {
            self.at += 1;
        }
        self.last = Last::Other;
    }

    fn is_called(&self) -> bool {
        self.letters[self.at..].iter().find(|letter| !letter.is_whitespace()) == Some(&'(')
    }

    fn called(&mut self, name: String) {
        if self.is_called() {
            self.scan.called.push(name);
        }
    }
}

fn is_name_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || !letter.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_out_of_its_brackets_is_refused() {
        for (sql, flaw) in [
            ("a; drop table x", Flaw::Semicolon),
            ("a) or (b", Flaw::Brackets),
            ("(a", Flaw::Brackets),
            ("a[(1])", Flaw::Brackets),
            ("'a", Flaw::Unended("a text")),
            ("\"a", Flaw::Unended("a name in quotes")),
            ("a /* b", Flaw::Unended("a comment")),
            ("a /* b /* c */", Flaw::Unended("a comment")),
            ("$x$ a", Flaw::Unended("a text in dollars")),
            ("a = $1", Flaw::Parameter),
            ("exists (select 1)", Flaw::SubQuery),
            ("a in (SELECT b from c)", Flaw::SubQuery),
            ("a in (values (1))", Flaw::SubQuery),
            ("a in (table c)", Flaw::SubQuery),
            ("(with x as (y) z)", Flaw::SubQuery),
            ("a, b", Flaw::List),
            ("  ", Flaw::Nothing),
            ("-- nothing", Flaw::Nothing),
        ] {
            assert_eq!(scan(sql), Err(flaw), "{sql}");
        }
    }

    #[test]
    fn what_only_looks_like_that_is_not() {
        for sql in [
            "note = 'a; (select'",
            "note = E'it\\'s; ('",
            "note = 'it''s; ('",
            "\"select\" = 1",
            "x.select",
            "note = $$;($$ or note = $t$ $$ ; $t$",
            "a -- (select; '\n",
            "a /* ; /* ( */ ' */ > 1 -- end",
            "f(a, b)",
            "(values)",
            "selected > 1",
            "doc ->> 'x' = any (array['a', 'b'])",
            "1e5 > x and a::numeric(10, 2) > .5",
        ] {
            assert!(scan(sql).is_ok(), "{sql}: {:?}", scan(sql));
        }
    }

    #[test]
    fn calls_and_moments_are_found() {
        let found =
            scan("Lower (a) = \"My F\"(b) and d < CURRENT_DATE and e > 'Today' and x.f(1) and note <> 'nowhere'")
                .unwrap();
        assert_eq!(found.called, ["lower", "My F", "f"]);
        assert_eq!(found.moments, ["current_date"]);
        assert_eq!(found.maybe_moments, ["today"]);
    }
}
