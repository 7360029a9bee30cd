use std::collections::BTreeMap;

use millstream_model::Text;

use crate::nearest::nearest;
use crate::schema::{IndexSchema, SchemaFault, Sql};
use crate::yaml::{Fault, Node, NodeKind, Place, suggest};

use super::{keys, nearest_place};

/// Walks a file's nodes, keeps all that is wrong, and remembers where each path stands.
///
/// Reading functions return `None` after they have said what is wrong; a list or mapping goes on with what is left.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
    pub(super) places: BTreeMap<String, Place>,
    /// The schema of tables that are named without one.
    pub(super) default_schema: String,
}

/// A mapping whose keys are known ones.
pub(super) struct Keys<'n> {
    pub(super) place: Place,
    entries: &'n [(Place, String, Node)],
}

impl<'n> Keys<'n> {
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(_, name, _)| name == key).map(|(_, _, node)| node)
    }

    pub(super) fn place_of(&self, key: &str) -> Place {
        self.entries.iter().find(|(_, name, _)| name == key).map_or(self.place, |(place, _, _)| *place)
    }
}

impl Reader {
    pub(super) fn schema(&mut self, node: &Node) -> Option<IndexSchema> {
        let keys = self.keys(node, "", keys::TOP)?;
        if let Some(version) = keys.get("version")
            && !matches!(&version.kind, NodeKind::Scalar { text, .. } if text == "1")
        {
            let message = format!("unknown version {}", version.describe());
            self.fault(version.place, "version", message, "write `version: 1`, or leave it out");
        }
        self.default_schema = "public".to_owned();
        let table = self.required(&keys, "", "table", "name the root table").and_then(|node| self.table(node, "table"));
        if let Some(table) = &table {
            self.default_schema = table.schema().to_owned();
        }
        let key = keys.get("key").and_then(|node| self.names(node, "key"));
        let filter = keys.get("where").and_then(|node| self.sql(node, "where"));
        let delete_when = keys.get("delete_when").and_then(|node| self.sql(node, "delete_when"));
        let fields = self
            .required(&keys, "", "fields", "write `fields: { id: long }` and more")
            .and_then(|node| self.fields(node, "fields"));
        Some(IndexSchema { table: table?, key, filter, delete_when, fields: fields? })
    }

    pub(super) fn fault(
        &mut self,
        place: Place,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.faults.push(Fault::new(place, path, message).with_remedy(remedy));
    }

    /// Gives a finding about the schema the place where its path, or the nearest path above it, stands.
    pub(super) fn placed(&self, fault: SchemaFault) -> Fault {
        let place = nearest_place(&self.places, &fault.path);
        Fault { place, path: fault.path, message: fault.message, remedy: fault.remedy }
    }

    /// A mapping; each key that is not among `known` is said to be wrong.
    pub(super) fn keys<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> Option<Keys<'n>> {
        let entries = self.entries(node, path)?;
        for (place, key, _) in entries {
            if known.contains(&key.as_str()) {
                continue;
            }
            let (message, remedy) = match (nearest(key, known.iter().copied()), keys::home(key)) {
                (_, Some(home)) => (format!("`{key}` belongs to {home}"), "remove it".to_owned()),
                _ => (format!("unknown key `{key}`"), suggest(key, known)),
            };
            self.fault(*place, join(path, key), message, remedy);
        }
        Some(Keys { place: node.place, entries })
    }

    /// A mapping with keys of the author's; their places are remembered.
    pub(super) fn entries<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [(Place, String, Node)]> {
        let NodeKind::Mapping(entries) = &node.kind else {
            self.fault(node.place, path, format!("a mapping is expected here, not {}", node.describe()), "");
            return None;
        };
        self.places.entry(path.to_owned()).or_insert(node.place);
        for (place, key, _) in entries {
            self.places.insert(join(path, key), *place);
        }
        Some(entries)
    }

    pub(super) fn required<'n>(&mut self, keys: &Keys<'n>, path: &str, key: &str, remedy: &str) -> Option<&'n Node> {
        let found = keys.get(key);
        if found.is_none() {
            self.fault(keys.place, path, format!("`{key}` is missing"), remedy);
        }
        found
    }

    /// A text, whatever it looks like; not nothing.
    pub(super) fn text<'n>(&mut self, node: &'n Node, path: &str, what: &str) -> Option<&'n str> {
        match &node.kind {
            NodeKind::Scalar { text, .. } if !node.is_null() && !text.is_empty() => Some(text),
            _ => {
                self.fault(node.place, path, format!("{what} is expected here, not {}", node.describe()), "");
                None
            }
        }
    }

    pub(super) fn name(&mut self, node: &Node, path: &str) -> Option<Text> {
        self.text(node, path, "a column's name").map(Text::from)
    }

    /// A list of columns, or one.
    pub(super) fn names(&mut self, node: &Node, path: &str) -> Option<Vec<Text>> {
        let items = self.items(node, path);
        items.into_iter().map(|(path, item)| self.name(item, &path)).collect()
    }

    /// A list's items with their paths; one alone counts as a list.
    pub(super) fn items<'n>(&mut self, node: &'n Node, path: &str) -> Vec<(String, &'n Node)> {
        match &node.kind {
            NodeKind::Sequence(items) => {
                let items = items.iter().enumerate().map(|(number, item)| (format!("{path}[{number}]"), item));
                let items: Vec<_> = items.collect();
                self.places.extend(items.iter().map(|(path, item)| (path.clone(), item.place)));
                items
            }
            _ => vec![(path.to_owned(), node)],
        }
    }

    pub(super) fn sql(&mut self, node: &Node, path: &str) -> Option<Sql> {
        self.text(node, path, "an SQL expression").map(|text| Sql(text.trim().to_owned()))
    }

    pub(super) fn flag(&mut self, keys: &Keys<'_>, path: &str, key: &str) -> bool {
        let Some(node) = keys.get(key) else { return false };
        match &node.kind {
            NodeKind::Scalar { text, literal: true } if text == "true" => true,
            NodeKind::Scalar { text, literal: true } if text == "false" => false,
            _ => {
                let message = format!("true or false is expected here, not {}", node.describe());
                self.fault(node.place, join(path, key), message, "");
                false
            }
        }
    }

    pub(super) fn number(&mut self, node: &Node, path: &str) -> Option<u64> {
        let number = match &node.kind {
            NodeKind::Scalar { text, literal: true } => text.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.fault(node.place, path, format!("a whole number is expected here, not {}", node.describe()), "");
        }
        number
    }
}

/// A path that leads on to a key.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
