use serde::de::DeserializeOwned;

use super::error::Fault;
use super::{Node, NodeKind, Place, YamlError, de};

/// A file that was parsed, for a reader who looks into it before it becomes a type, or who finds fault with it afterwards.
#[derive(Debug)]
pub struct YamlFile {
    name: String,
    text: String,
    root: Node,
}

impl YamlFile {
    /// Parses a file's text. `name` is its name for errors.
    ///
    /// # Errors
    /// As [`Node::parse`].
    pub fn parse(text: impl Into<String>, name: impl Into<String>) -> Result<Self, YamlError> {
        let (text, name) = (text.into(), name.into());
        let root = Node::parse(&text, &name)?;
        Ok(Self { name, text, root })
    }

    /// The name for errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What stands at a path of keys.
    pub fn get(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, key| below(node, key).map(|(_, node)| node))
    }

    /// The same, to put something else there.
    pub fn get_mut(&mut self, path: &[&str]) -> Option<&mut Node> {
        path.iter().try_fold(&mut self.root, |node, key| match &mut node.kind {
            NodeKind::Mapping(entries) => entries.iter_mut().find(|(_, name, _)| name == key).map(|(_, _, node)| node),
            _ => None,
        })
    }

    /// Puts each scalar value (no key) through `replace`.
    ///
    /// # Errors
    /// What `replace` says, at the scalar's place.
    pub fn replace(&mut self, replace: impl Fn(&str) -> Result<String, String>) -> Result<(), YamlError> {
        let replaced = self.root.replace_scalars(&mut String::new(), &replace);
        replaced.map_err(|fault| fault.in_file(&self.text, &self.name))
    }

    /// The same, going on: a scalar for which `replace` has no answer stays as it is. Gives what it said of those.
    pub fn replace_all(&mut self, replace: impl Fn(&str) -> Result<String, String>) -> Vec<YamlError> {
        let mut faults = Vec::new();
        self.root.replace_what_can_be(&mut String::new(), &replace, &mut faults);
        faults.into_iter().map(|fault| fault.in_file(&self.text, &self.name)).collect()
    }

    /// Takes out what stands at a path of keys; false when nothing does.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        let Some((last, above)) = path.split_last() else { return false };
        let Some(Node { kind: NodeKind::Mapping(entries), .. }) = self.get_mut(above) else { return false };
        let before = entries.len();
        entries.retain(|(_, name, _)| name != last);
        entries.len() < before
    }

    /// Makes a value of it.
    ///
    /// # Errors
    /// As [`from_str`](super::from_str).
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        de::read(&self.root).map_err(|fault| fault.in_file(&self.text, &self.name))
    }

    /// An error about what stands at a path of keys. Where a key is not there, its place is that of the one above.
    pub fn error(&self, path: &[&str], message: impl Into<String>, remedy: impl Into<String>) -> YamlError {
        let mut place: Place = self.root.place;
        let mut node = Some(&self.root);
        for key in path {
            let Some((key_place, found)) = node.and_then(|node| below(node, key)) else { break };
            // A mapping or list is where its key is; a scalar is where it stands.
            place = if matches!(found.kind, NodeKind::Scalar { .. }) { found.place } else { key_place };
            node = Some(found);
        }
        Fault::new(place, path.join("."), message).with_remedy(remedy).in_file(&self.text, &self.name)
    }
}

fn below<'n>(node: &'n Node, key: &str) -> Option<(Place, &'n Node)> {
    let NodeKind::Mapping(entries) = &node.kind else { return None };
    entries.iter().find(|(_, name, _)| name == key).map(|(place, _, node)| (*place, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stands_where_its_path_leads() {
        let file = YamlFile::parse("a:\n  b:\n    c: 1\n", "f.yaml").unwrap();
        let place = |path: &[&str]| {
            let error = file.error(path, "no", "");
            (error.line, error.column)
        };
        assert_eq!(place(&["a", "b", "c"]), (3, 8));
        assert_eq!(place(&["a", "b"]), (2, 3));
        assert_eq!(place(&["a", "b", "missing"]), (2, 3));
        assert!(file.error(&["a", "b"], "no", "yes").to_string().starts_with("f.yaml:2:3: a.b: no; yes\n"));
    }

    #[test]
    fn a_node_can_be_taken_out_before_the_file_is_read() {
        let mut file = YamlFile::parse("a: { b: { c: 1 } }", "f.yaml").unwrap();
        let node = file.get_mut(&["a", "b"]).unwrap();
        node.kind = NodeKind::Scalar { text: "x".to_owned(), literal: false };
        let read: std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>> = file.read().unwrap();
        assert_eq!(read["a"]["b"], "x");
    }
}
