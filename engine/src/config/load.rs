use std::path::{Path, PathBuf};

use millstream_core::IndexSchema;
use millstream_core::yaml::{Node, NodeKind, YamlError, YamlErrors, YamlFile};
use millstream_model::IndexName;

use super::check::check;
use super::indexes::INLINE;
use super::variables::Variables;
use super::{Config, ConfigError, DeadLettersSection, Name, SchemaSource, SinkSection, SourceSection};

impl Config {
    /// Reads a configuration file and the schemas that it names. Variables come from the process's environment.
    ///
    /// Blocks on small files.
    ///
    /// # Errors
    /// When the file can't be read, or all that is wrong with it or its schemas.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let unreadable = |cause| ConfigError::Unreadable { path: path.to_owned(), cause };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::read(&text, &path.display().to_string(), folder, &|name| std::env::var(name).ok())
    }

    /// Reads a configuration's text. `file` is its name for errors, `folder` where its relative paths begin, `environment`
    /// gives the values of variables.
    ///
    /// # Errors
    /// All that is wrong with it or its schemas.
    pub fn read(
        text: &str,
        file: &str,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut file = YamlFile::parse(text, file).map_err(hint)?;
        let inline = take_inline_schemas(&mut file);
        let variables = Variables::new(environment);
        file.replace(|scalar| variables.replace(scalar))?;
        let mut config: Self = file.read().map_err(|error| variables.hide(error))?;
        let mut errors = check(&config, &file);
        config.resolve(folder);
        config.read_schemas(&file, &inline, &mut errors);
        if errors.is_empty() {
            return Ok(config);
        }
        Err(ConfigError::Wrong(YamlErrors(errors.into_iter().map(|error| variables.hide(error)).collect())))
    }

    /// The enabled indexes and what their documents look like.
    pub fn schemas(&self) -> impl Iterator<Item = (IndexName, &IndexSchema)> {
        let enabled = self.indexes.iter().filter(|(_, index)| index.enabled);
        enabled.filter_map(|(name, index)| Some((IndexName::new(name.as_str()), index.definition.as_ref()?)))
    }

    /// Makes every path start where this process runs.
    fn resolve(&mut self, folder: &Path) {
        let mut resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        resolve(&mut self.progress);
        for sink in self.sinks.values_mut() {
            if let SinkSection::Jsonl(jsonl) = sink
                && !jsonl.is_stdout()
            {
                resolve(&mut jsonl.path);
            }
        }
        if let Some(DeadLettersSection::Jsonl(letters)) = &mut self.dead_letters {
            resolve(&mut letters.path);
        }
        for index in self.indexes.values_mut() {
            if let SchemaSource::File(path) = &mut index.schema {
                resolve(path);
            }
        }
        if let Some(control) = &mut self.control {
            resolve(&mut control.token_file);
        }
        let SourceSection::Postgres(postgres) = &mut self.source;
        postgres.password_file.iter_mut().for_each(&mut resolve);
        postgres.tls_root.iter_mut().for_each(&mut resolve);
    }

    fn read_schemas(&mut self, file: &YamlFile, inline: &[(String, Node)], errors: &mut Vec<YamlError>) {
        for (name, index) in &mut self.indexes {
            let schema = match &index.schema {
                SchemaSource::File(path) => read_schema_file(path, name, file),
                SchemaSource::Inline => {
                    let node = inline.iter().find(|(inline, _)| inline == name.as_str()).map(|(_, node)| node);
                    let node = node.expect("an inline schema is one that was taken out");
                    IndexSchema::from_node(node, file.text(), file.name())
                }
            };
            match schema {
                Ok(schema) => index.definition = Some(schema),
                Err(found) => errors.extend(found.0),
            }
        }
    }
}

/// An unquoted variable in a flow mapping is the commonest way to write what is no YAML.
fn hint(mut error: YamlError) -> YamlError {
    if error.remedy.is_empty() && error.snippet.contains("${") && error.message.contains("flow mapping") {
        error.remedy = "inside braces a variable stands in quotes: `\"${NAME}\"`".into();
    }
    error
}

fn read_schema_file(path: &Path, index: &Name, file: &YamlFile) -> Result<IndexSchema, YamlErrors> {
    let text = std::fs::read_to_string(path).map_err(|cause| {
        let message = format!("can't read the schema (path={}): {cause}", path.display());
        YamlErrors(vec![file.error(&["indexes", index.as_str(), "schema"], message, "")])
    })?;
    IndexSchema::from_yaml(&text, &path.display().to_string())
}

/// Takes the schemas that stand in the configuration itself out of it: they are read by their own grammar, and a `$` in their
/// SQL is a `$`.
fn take_inline_schemas(file: &mut YamlFile) -> Vec<(String, Node)> {
    let Some(Node { kind: NodeKind::Mapping(indexes), .. }) = file.get_mut(&["indexes"]) else { return Vec::new() };
    let mut taken = Vec::new();
    for (_, name, index) in indexes {
        let NodeKind::Mapping(keys) = &mut index.kind else { continue };
        let schema = keys.iter_mut().find(|(_, key, _)| key == "schema").map(|(_, _, schema)| schema);
        let Some(schema) = schema.filter(|schema| matches!(schema.kind, NodeKind::Mapping(_))) else { continue };
        let placeholder = NodeKind::Scalar { text: INLINE.to_owned(), literal: false };
        let place = schema.place;
        taken.push((name.clone(), Node { place, kind: std::mem::replace(&mut schema.kind, placeholder) }));
    }
    taken
}
