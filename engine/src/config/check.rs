//! What no type can tell: whether the parts of a configuration fit together.

use std::path::{Path, PathBuf};

use millstream_core::yaml::{YamlError, YamlFile};

use super::check_polling::check_polling;
use super::{Config, OnError, PostgresSection, SinkSection, SourceSection};

/// All that does not fit, in the order of the file.
pub(super) fn check(config: &Config, file: &YamlFile) -> Vec<YamlError> {
    let mut errors = Vec::new();
    let mut wrong = |path: &[&str], message: &str, remedy: &str| errors.push(file.error(path, message, remedy));
    if config.version != 1 {
        wrong(&["version"], "this version of the format is not known", "write `1`");
    }
    match &config.source {
        SourceSection::Postgres(postgres) => check_postgres(postgres, &mut wrong),
        SourceSection::Polling(polling) => check_polling(polling, &mut wrong),
    }
    if config.sinks.is_empty() {
        wrong(&["sinks"], "there is no sink", "write one such as `out: { jsonl: { path: out/docs.jsonl } }`");
    }
    check_paths(config, &mut wrong);
    if config.indexes.is_empty() {
        wrong(&["indexes"], "there is no index", "write one such as `users: { schema: users.schema.yaml }`");
    }
    for (name, index) in &config.indexes {
        if index.on_error == OnError::DeadLetter && index.enabled && config.dead_letters.is_none() {
            wrong(
                &["indexes", name.as_str()],
                "documents that can't be built would have nowhere to go",
                "write `dead_letters: { jsonl: { path: out/dead.jsonl } }` at the top, or `on_error: stop` here",
            );
        }
    }
    if let (Some(http), Some(control)) = (&config.http, &config.control)
        && http.listen == control.listen
        && http.listen.port() != 0
    {
        wrong(&["control", "listen"], "`http` listens here as well", "name another port");
    }
    errors
}

fn check_postgres(postgres: &PostgresSection, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    let at = |key: &'static str| ["source", "postgres", key];
    if postgres.url.is_some() {
        let beside = [
            ("host", postgres.host.is_some()),
            ("port", postgres.port.is_some()),
            ("user", postgres.user.is_some()),
            ("database", postgres.database.is_some()),
        ];
        for (key, _) in beside.into_iter().filter(|(_, there)| *there) {
            wrong(&at(key), "`url` says this already", "keep one of the two");
        }
    } else if postgres.host.is_none() {
        let remedy = "write `url: \"${DATABASE_URL}\"`, or `host`, `user` and `database`";
        wrong(&["source", "postgres"], "nothing says where the database is", remedy);
    } else if postgres.user.is_none() {
        wrong(&["source", "postgres"], "the key `user` is missing", "write `user: …`");
    }
    if postgres.password.is_some() && postgres.password_file.is_some() {
        wrong(&at("password_file"), "`password` is there as well", "keep one of the two");
    }
    #[cfg(feature = "postgres")]
    for (key, url) in [("url", &postgres.url), ("read_url", &postgres.read_url)] {
        let settings = url.as_ref().map(|url| url.expose().parse::<millstream_postgres::PostgresSettings>());
        if let Some(Err(error)) = settings {
            wrong(&at(key), &error.to_string(), "");
        }
    }
}

/// Two writers of one file would break each other's lines.
fn check_paths(config: &Config, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    let mut taken = std::collections::BTreeMap::new();
    for (name, sink) in &config.sinks {
        let SinkSection::Jsonl(jsonl) = sink else { continue };
        let path = one_spelling(&jsonl.path);
        let beside = PathBuf::from(format!("{}.progress.json", path.display()));
        for path in [path, beside] {
            if let Some(other) = taken.insert(path, name) {
                let message = format!("the sink `{other}` writes to this file already");
                wrong(&["sinks", name.as_str(), "jsonl", "path"], &message, "name another file");
            }
        }
    }
    if let Some(super::DeadLettersSection::Jsonl(letters)) = &config.dead_letters {
        let path = ["dead_letters", "jsonl", "path"];
        if let Some(other) = taken.get(&one_spelling(&letters.path)) {
            wrong(&path, &format!("the sink `{other}` writes to this file already"), "name another file");
        }
        if letters.path.as_os_str() == "-" {
            wrong(&path, "dead letters are kept in a file: standard output can't be read again", "name a file");
        }
    }
}

/// The same for all spellings of a file's path, whether the file is there or not.
fn one_spelling(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    let plain: PathBuf = path.components().collect();
    let folder = plain.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), plain.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => plain,
    }
}
