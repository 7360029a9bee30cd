//! YAML (so JSON too) as configuration and schema files are written in it, with errors that say where.
//!
//! A file is first read into [`Node`]s that keep every scalar's *source text* and place; what a text means is decided by who
//! asks: [`from_str`] turns them into any type that serde can make, and the schema's own reader walks them. The parser
//! underneath is named in `node` only.

mod de;
mod error;
mod file;
mod node;

pub(crate) use de::suggest;
pub(crate) use error::Fault;
pub use error::{YamlError, YamlErrors};
pub use file::YamlFile;
pub use node::{Node, NodeKind, Place};

use serde::de::DeserializeOwned;

/// Reads a file's text into a type. `file` is its name for errors.
///
/// Anchors, aliases and merge keys work. A scalar is read by the type that asks for it: a text stays as it is written
/// (`NO`, `01234`), a number may stand in quotes.
///
/// # Errors
/// The first thing that is wrong, with file, line, column, the path to it and the line itself; an unknown key names the
/// nearest known one.
///
/// ```
/// # use serde::Deserialize;
/// #[derive(Debug, Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Listen {
///     address: String,
/// }
/// let error = millstream_core::yaml::from_str::<Listen>("adress: here", "host.yaml").unwrap_err();
/// assert_eq!(error.line, 1);
/// assert_eq!(&*error.remedy, "write `address`");
/// ```
pub fn from_str<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, YamlError> {
    from_str_with(text, file, |scalar| Ok(scalar.to_owned()))
}

/// As [`from_str`], after each scalar *value* (no key) has gone through `replace`: for `${VARIABLES}`.
///
/// # Errors
/// As [`from_str`]; and what `replace` says, at the scalar's place.
pub fn from_str_with<T: DeserializeOwned>(
    text: &str,
    file: &str,
    replace: impl Fn(&str) -> Result<String, String>,
) -> Result<T, YamlError> {
    let mut node = Node::parse(text, file)?;
    let read = node.replace_scalars(&mut String::new(), &replace).and_then(|()| de::read(&node));
    read.map_err(|fault| fault.in_file(text, file))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Config {
        name: String,
        #[serde(default)]
        port: Option<u16>,
        #[serde(default)]
        sinks: BTreeMap<String, Sink>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase", deny_unknown_fields)]
    enum Sink {
        Null,
        File { path: String, sync: Option<bool> },
    }

    fn error(text: &str) -> String {
        from_str::<Config>(text, "c.yaml").unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_by_the_types_that_ask() {
        let text = "name: 0123\nport: \"80\"\nsinks:\n  a: null\n";
        assert!(error(text).contains("sinks.a: one name, or a mapping with one key is expected here, not nothing"));
        let text = "name: 0123\nport: \"80\"\nsinks:\n  a: \"null\"\n  b: { file: { path: NO, sync: true } }\n";
        let config: Config = from_str(text, "c.yaml").unwrap();
        assert_eq!((config.name.as_str(), config.port), ("0123", Some(80)));
        assert_eq!(config.sinks["a"], Sink::Null);
        assert_eq!(config.sinks["b"], Sink::File { path: "NO".to_owned(), sync: Some(true) });
    }

    #[test]
    fn an_error_names_file_line_column_path_and_what_to_write() {
        let shown = "c.yaml:2:23: sinks.b.file.pth: unknown key `pth`; write `path`
  |
2 | sinks: { b: { file: { pth: y } } }
  |                       ^";
        assert_eq!(error("name: x\nsinks: { b: { file: { pth: y } } }"), shown);
        assert!(
            error("name: x\nport: many")
                .starts_with("c.yaml:2:7: port: a whole number from 0 to 65535 is expected here, not `many`\n")
        );
        assert!(
            error("name: x\nsinks: { b: { flie: { path: y } } }")
                .contains("sinks.b: `flie` is not known here; write `file`")
        );
        assert!(error("port: 1").contains("c.yaml:1:1: the key `name` is missing; write `name: …`"));
        assert!(error("- 1").contains("a mapping is expected here, not a list"));
    }

    #[test]
    fn scalars_are_replaced_before_they_are_read() {
        let replace = |text: &str| match text {
            "${PORT}" => Ok("80".to_owned()),
            "${NONE}" => Err("NONE is not set".to_owned()),
            text => Ok(text.to_owned()),
        };
        let config: Config = from_str_with("name: x\nport: ${PORT}", "c.yaml", replace).unwrap();
        assert_eq!(config.port, Some(80));
        let error = from_str_with::<Config>("name: x\nport: ${NONE}", "c.yaml", replace).unwrap_err();
        assert!(error.to_string().starts_with("c.yaml:2:7: port: NONE is not set\n"), "{error}");
    }
}
