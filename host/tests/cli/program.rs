//! The program under test, in a folder of its own and with an environment that says nothing.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with a configuration.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new(config: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write("millstream.yaml", config);
        place
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// The program with these arguments, to be refined.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(arguments).current_dir(self.path()).env_clear();
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().unwrap().into()
    }
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub const USERS: &str = "table: users\nfields: { id: long, name: text }\n";

/// A configuration that is right; its database is nowhere.
pub const RIGHT: &str = "\
version: 1
name: shop
source: { postgres: { url: \"postgres://shop:hunter2@127.0.0.1:1/shop\" } }
sinks: { out: { jsonl: { path: docs.jsonl } } }
dead_letters: { jsonl: { path: dead.jsonl } }
indexes: { users: { schema: users.schema.yaml } }
";

/// A place with a right configuration and its schema.
pub fn right() -> Place {
    let place = Place::new(RIGHT);
    place.write("users.schema.yaml", USERS);
    place
}
