//! A configuration file and its schemas, as an operator would write them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::folder::Folder;

/// What a host is told. Values are YAML as they stand in the file.
#[derive(Clone, Debug)]
pub struct HostConfig {
    name: String,
    source: Vec<(String, String)>,
    sinks: Vec<(String, String)>,
    engine: Vec<(String, String)>,
    indexes: Vec<ConfiguredIndex>,
    top: Vec<String>,
}

#[derive(Clone, Debug)]
struct ConfiguredIndex {
    name: String,
    schema: String,
    more: String,
}

impl HostConfig {
    /// Slot and publication are called `name`; the engine may change whatever it must; documents go to `docs.jsonl`.
    pub fn new(name: &str, url: &str) -> Self {
        let source = [
            ("url", format!("{url:?}")),
            ("slot", name.into()),
            ("publication", name.into()),
            ("manage", "all".into()),
        ];
        Self {
            name: name.to_owned(),
            source: source.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            sinks: vec![("out".to_owned(), "{ jsonl: { path: docs.jsonl } }".to_owned())],
            engine: Vec::new(),
            indexes: Vec::new(),
            top: Vec::new(),
        }
    }

    /// Sets a key under `source.postgres`.
    pub fn source(&mut self, key: &str, value: &str) -> &mut Self {
        set(&mut self.source, key, value);
        self
    }

    /// Sets a key under `engine`.
    pub fn engine(&mut self, key: &str, value: &str) -> &mut Self {
        set(&mut self.engine, key, value);
        self
    }

    /// Sets a sink.
    pub fn sink(&mut self, name: &str, value: &str) -> &mut Self {
        set(&mut self.sinks, name, value);
        self
    }

    /// Takes a sink away.
    pub fn remove_sink(&mut self, name: &str) -> &mut Self {
        self.sinks.retain(|(sink, _)| sink != name);
        self
    }

    /// Adds lines at the top level.
    pub fn top(&mut self, lines: &str) -> &mut Self {
        self.top.push(lines.to_owned());
        self
    }

    /// Adds an index, or replaces the schema of the one of that name.
    pub fn index(&mut self, name: &str, schema: &str) -> &mut Self {
        match self.indexes.iter_mut().find(|index| index.name == name) {
            Some(index) => index.schema = schema.to_owned(),
            None => self.indexes.push(ConfiguredIndex {
                name: name.to_owned(),
                schema: schema.to_owned(),
                more: String::new(),
            }),
        }
        self
    }

    /// Takes an index out.
    pub fn without_index(&mut self, name: &str) -> &mut Self {
        self.indexes.retain(|index| index.name != name);
        self
    }

    /// Sets keys beside an index's schema, as `, key: value`.
    pub fn index_options(&mut self, name: &str, more: &str) -> &mut Self {
        let index = self.indexes.iter_mut().find(|index| index.name == name);
        index.expect("the index was added before").more = more.to_owned();
        self
    }

    /// Writes the file and its schemas into a folder; `/status` and the rest are served on `port`. Returns the file's path.
    pub fn write(&self, folder: &Folder, port: u16) -> PathBuf {
        for index in &self.indexes {
            folder.write(&format!("{}.schema.yaml", index.name), &index.schema);
        }
        folder.write("millstream.yaml", &self.text(port))
    }

    fn text(&self, port: u16) -> String {
        let mut text = format!("version: 1\nname: {}\nsource:\n  postgres:\n", self.name);
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes anything");
        for (key, value) in &self.source {
            line(format!("    {key}: {value}"));
        }
        line("sinks:".to_owned());
        for (name, value) in &self.sinks {
            line(format!("  {name}: {value}"));
        }
        line("dead_letters: { jsonl: { path: dead.jsonl } }".to_owned());
        line("indexes:".to_owned());
        for ConfiguredIndex { name, more, .. } in &self.indexes {
            line(format!("  {name}: {{ schema: {name}.schema.yaml{more} }}"));
        }
        line(format!("http: {{ listen: \"127.0.0.1:{port}\" }}"));
        if !self.engine.is_empty() {
            line("engine:".to_owned());
        }
        for (key, value) in &self.engine {
            line(format!("  {key}: {value}"));
        }
        for lines in &self.top {
            line(lines.clone());
        }
        text
    }
}

fn set(list: &mut Vec<(String, String)>, key: &str, value: &str) {
    match list.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = value.to_owned(),
        None => list.push((key.to_owned(), value.to_owned())),
    }
}

/// Where the documents of [`HostConfig::new`] go.
pub fn documents_path(folder: &Path) -> PathBuf {
    folder.join("docs.jsonl")
}

/// Where dead letters go.
pub fn dead_letters_path(folder: &Path) -> PathBuf {
    folder.join("dead.jsonl")
}
