use std::io::Read;
use std::path::{Path, PathBuf};

use millstream_core::schema::SchemaPlaces;
use millstream_core::yaml::{Node, NodeKind, YamlError, YamlErrors, YamlFile};
use millstream_core::{IndexSchema, SourceSpec};
use millstream_model::{IndexName, Secret};

use super::check::check;
use super::indexes::INLINE;
use super::variables::Variables;
use super::{Config, ConfigError, DeadLettersSection, Name, SchemaSource, SinkSection, SourceSection, StoreSection};

/// The most bytes of a file that is read: far more than anybody writes.
const LARGEST: u64 = 16 << 20;

impl Config {
    /// Reads a configuration file and the schemas that it names. Variables come from the process's environment.
    ///
    /// Blocks on small files.
    ///
    /// # Errors
    /// When the file can't be read, or all that is wrong with it or its schemas.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = read_file(path)?;
        Self::read(&text, &path.display().to_string(), folder_of(path), &environment)
    }

    /// The same for who does not need every value: a variable that is not set is no error but told beside, and what it should
    /// give is missing or stands there as it is written.
    ///
    /// # Errors
    /// As [`load`](Self::load); of a variable that is not set only where the file has no meaning without it.
    pub fn load_partly(path: impl AsRef<Path>) -> Result<(Self, Vec<YamlError>), ConfigError> {
        let path = path.as_ref();
        let text = read_file(path)?;
        Self::read_partly(&text, &path.display().to_string(), folder_of(path), &environment)
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
        let config: Self = file.read().map_err(|error| variables.hide(error))?;
        let errors = check(&config, &file);
        config.finish(&file, &inline, folder, errors, &variables)
    }

    /// As [`read`](Self::read) for who does not need every value; see [`load_partly`](Self::load_partly).
    ///
    /// # Errors
    /// As `load_partly`.
    pub fn read_partly(
        text: &str,
        file: &str,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, Vec<YamlError>), ConfigError> {
        let mut file = YamlFile::parse(text, file).map_err(hint)?;
        let inline = take_inline_schemas(&mut file);
        let variables = Variables::new(environment);
        let unset = file.replace_all(|scalar| variables.replace(scalar));
        // Paths that were taken out, each with what its variable lacked.
        let mut removed: Vec<(String, YamlError)> = Vec::new();
        let config: Self = loop {
            let error = match file.read() {
                Ok(config) => break config,
                Err(error) => error,
            };
            // A value that is needed as something else than a text is left out; and if that is no better, what it is part of.
            let itself = unset.iter().find(|unset| unset.path == error.path);
            let part = removed.iter().find(|(path, _)| above(path) == &*error.path).map(|(_, unset)| unset);
            let Some(lacking) = itself.or(part).cloned() else { return Err(variables.hide(error).into()) };
            let keys: Vec<&str> = error.path.split('.').collect();
            if !file.remove(&keys) {
                return Err(lacking.into());
            }
            removed.push((error.path.to_string(), lacking));
        };
        let is_told = |error: &YamlError| unset.iter().any(|unset| unset.path == error.path);
        let errors = check(&config, &file).into_iter().filter(|error| !is_told(error)).collect();
        config.finish(&file, &inline, folder, errors, &variables).map(|config| (config, unset))
    }

    fn finish(
        mut self,
        file: &YamlFile,
        inline: &[(String, Node)],
        folder: &Path,
        mut errors: Vec<YamlError>,
        variables: &Variables<'_>,
    ) -> Result<Self, ConfigError> {
        let config = &mut self;
        config.resolve(folder);
        config.read_schemas(file, inline, &mut errors);
        if errors.is_empty() {
            return Ok(self);
        }
        Err(ConfigError::Wrong(YamlErrors(errors.into_iter().map(|error| variables.hide(error)).collect())))
    }

    /// The enabled indexes and what their documents look like.
    pub fn schemas(&self) -> impl Iterator<Item = (IndexName, &IndexSchema)> {
        let enabled = self.indexes.iter().filter(|(_, index)| index.enabled);
        enabled.filter_map(|(name, index)| Some((IndexName::new(name.as_str()), &index.definition.as_ref()?.0)))
    }

    /// The enabled indexes as a source sees them, knowing where their schemas' parts stand.
    pub fn spec(&self) -> SourceSpec {
        let spec = SourceSpec::new(self.schemas().map(|(name, schema)| (name, schema.clone())));
        let enabled = self.indexes.iter().filter(|(_, index)| index.enabled);
        let places = enabled
            .filter_map(|(name, index)| Some((IndexName::new(name.as_str()), index.definition.as_ref()?.1.clone())));
        spec.with_places(places)
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
        match &mut self.source {
            SourceSection::Postgres(postgres) => {
                postgres.password_file.iter_mut().for_each(&mut resolve);
                postgres.tls_root.iter_mut().for_each(&mut resolve);
            }
            SourceSection::Polling(polling) => {
                if let StoreSection::Sqlite(store) = &mut polling.store {
                    resolve(&mut store.path);
                }
                polling.csv_folder.iter_mut().for_each(|folder| resolve(&mut folder.path));
                let api = polling.http_json.as_mut().and_then(|api| api.token_file.as_mut());
                api.into_iter().for_each(&mut resolve);
                if let Some(tables) = &mut polling.sql_table {
                    tables.url = file_url(&tables.url, folder);
                }
            }
        }
    }

    fn read_schemas(&mut self, file: &YamlFile, inline: &[(String, Node)], errors: &mut Vec<YamlError>) {
        for (name, index) in &mut self.indexes {
            let schema = match &index.schema {
                SchemaSource::File(path) => read_schema_file(path, name, file),
                SchemaSource::Inline => {
                    let node = inline.iter().find(|(inline, _)| inline == name.as_str()).map(|(_, node)| node);
                    let node = node.expect("an inline schema is one that was taken out");
                    IndexSchema::from_node_with_places(node, file.text(), file.name())
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

fn read_file(path: &Path) -> Result<String, ConfigError> {
    read_text(path).map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })
}

/// The whole text, unless it has no end or is far from anything that people write.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if read as u64 > LARGEST {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(text)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A file that an url names is found from the folder as well.
fn file_url(url: &Secret, folder: &Path) -> Secret {
    let text = url.expose();
    let Some(rest) = text.strip_prefix("sqlite:") else { return url.clone() };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, parameters) = rest.split_once('?').map_or((rest, None), |(path, parameters)| (path, Some(parameters)));
    if path.starts_with('/') || path.starts_with(':') {
        return url.clone();
    }
    // What the url's own grammar would take for something else.
    let folder = folder.to_string_lossy().replace('%', "%25").replace('?', "%3F");
    let path = Path::new(&folder).join(path);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    Secret::new(format!("sqlite:{}{parameters}", path.display()))
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The path that leads to where a path's last key stands.
fn above(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(above, _)| above)
}

fn read_schema_file(path: &Path, index: &Name, file: &YamlFile) -> Result<(IndexSchema, SchemaPlaces), YamlErrors> {
    let text = read_text(path).map_err(|cause| {
        let message = format!("can't read the schema (path={}): {cause}", path.display());
        YamlErrors(vec![file.error(&["indexes", index.as_str(), "schema"], message, "")])
    })?;
    let name = path.display().to_string();
    let node = Node::parse(&text, &name).map_err(|error| YamlErrors(vec![error]))?;
    IndexSchema::from_node_with_places(&node, &text, &name)
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
