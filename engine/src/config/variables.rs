use std::cell::RefCell;

use millstream_core::yaml::YamlError;

/// Replaces `${…}` in scalars, and remembers what it put in so that no error shows it.
pub(super) struct Variables<'e> {
    environment: &'e dyn Fn(&str) -> Option<String>,
    /// Scalars that hold values from the environment, and what stands in the file in their place.
    replaced: RefCell<Vec<(String, String)>>,
}

impl<'e> Variables<'e> {
    pub(super) fn new(environment: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self { environment, replaced: RefCell::default() }
    }

    /// The scalar with every variable replaced.
    pub(super) fn replace(&self, scalar: &str) -> Result<String, String> {
        let mut out = String::with_capacity(scalar.len());
        let mut rest = scalar;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(tail) = rest.strip_prefix('$') {
                out.push('$');
                rest = tail;
                continue;
            }
            let inside = rest.strip_prefix('{').and_then(|tail| tail.split_once('}'));
            let Some((inside, tail)) = inside else {
                return Err("a lone `$`: write `$$` for a dollar sign, `${NAME}` for a variable".to_owned());
            };
            let value = self.value(inside)?;
            self.remember(&value, &format!("${{{inside}}}"));
            out.push_str(&value);
            rest = tail;
        }
        out.push_str(rest);
        if out != scalar {
            self.remember(&out, scalar);
        }
        Ok(out)
    }

    /// What stands for the inside of `${…}`.
    fn value(&self, inside: &str) -> Result<String, String> {
        let end =
            inside.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(inside.len());
        let (name, rest) = inside.split_at(end);
        if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Err(format!("`${{{inside}}}` names no variable; write `${{NAME}}`"));
        }
        let value = (self.environment)(name);
        if rest.is_empty() {
            return value.ok_or_else(|| {
                format!("the environment variable {name} is not set: set it, or write `${{{name}:-default}}`")
            });
        }
        let value = value.filter(|value| !value.is_empty());
        if let Some(default) = rest.strip_prefix(":-") {
            return Ok(value.unwrap_or_else(|| default.to_owned()));
        }
        if let Some(message) = rest.strip_prefix(":?") {
            return value.ok_or_else(|| format!("the environment variable {name} is not set: {message}"));
        }
        Err(format!(
            "`${{{inside}}}` is not understood; write `${{{name}}}`, `${{{name}:-default}}` or `${{{name}:?message}}`"
        ))
    }

    fn remember(&self, value: &str, written: &str) {
        if !value.is_empty() {
            self.replaced.borrow_mut().push((value.to_owned(), written.to_owned()));
        }
    }

    /// The error with every value from the environment taken out of what it says.
    pub(super) fn hide(&self, mut error: YamlError) -> YamlError {
        let mut replaced = self.replaced.borrow().clone();
        // The longest first: a scalar before the values in it.
        replaced.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        error.message = hidden(&error.message, &replaced).into();
        error.remedy = hidden(&error.remedy, &replaced).into();
        error
    }
}

/// The text with what stands in the file in place of each value.
fn hidden(text: &str, replaced: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (value, written) in replaced {
        text = text.replace(&format!("`{value}`"), &format!("`{written}`"));
        text = text.replace(&format!("{value:?}"), &format!("`{written}`"));
        // Short ones may be part of any word.
        if value.len() > 3 && !written.contains(value.as_str()) {
            text = text.replace(value.as_str(), written);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(scalar: &str) -> Result<String, String> {
        let environment = |name: &str| match name {
            "A" => Some("a$b".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        Variables::new(&environment).replace(scalar)
    }

    #[test]
    fn variables_are_replaced_once() {
        for (scalar, expected) in [
            ("plain", "plain"),
            ("${A}", "a$b"),
            ("x-${A}-${A}-y", "x-a$b-a$b-y"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b ?}", "a:-b ?"),
            ("${EMPTY:-full}", "full"),
            ("${EMPTY}", ""),
            ("${A:-no}", "a$b"),
            ("${A:?no}", "a$b"),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$$$$", "$$"),
        ] {
            assert_eq!(replace(scalar).as_deref(), Ok(expected), "{scalar}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_variable_is_said() {
        for (scalar, expected) in [
            ("${NONE}", "the environment variable NONE is not set: set it, or write `${NONE:-default}`"),
            ("${NONE:?ask the owner}", "the environment variable NONE is not set: ask the owner"),
            ("${EMPTY:?ask the owner}", "the environment variable EMPTY is not set: ask the owner"),
            ("pa$word", "a lone `$`: write `$$` for a dollar sign, `${NAME}` for a variable"),
            ("${A", "a lone `$`: write `$$` for a dollar sign, `${NAME}` for a variable"),
            ("${}", "`${}` names no variable; write `${NAME}`"),
            ("${1A}", "`${1A}` names no variable; write `${NAME}`"),
            ("${A-x}", "`${A-x}` is not understood; write `${A}`, `${A:-default}` or `${A:?message}`"),
        ] {
            assert_eq!(replace(scalar), Err(expected.to_owned()), "{scalar}");
        }
    }
}
