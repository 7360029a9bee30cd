//! Calls of cargo, all with the same packages and features, so that no verb rebuilds what another has built.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::run::{output, run};

/// The package that holds the tests against real servers, the simulation and the demo.
pub const TESTS: &str = "millstream-tests";

/// The cargo that started us.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What cargo knows of the workspace.
pub struct Workspace {
    target: PathBuf,
    /// Package and name of each integration test.
    tests: Vec<(String, String)>,
}

impl Workspace {
    pub fn read() -> Result<Self> {
        let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target folder")?;
        let mut tests = Vec::new();
        for package in list(&metadata["packages"]) {
            for target in list(&package["targets"]) {
                if list(&target["kind"]).contains(&Value::from("test")) {
                    tests.push((text_of(&package["name"]), text_of(&target["name"])));
                }
            }
        }
        Ok(Self { target: target.into(), tests })
    }

    /// Integration tests that need no server.
    pub fn fast_tests(&self) -> Vec<&str> {
        self.names(|package, name| package != TESTS || name == "sim")
    }

    /// Integration tests that start servers.
    pub fn e2e_tests(&self) -> Vec<&str> {
        self.names(|package, name| package == TESTS && name != "sim")
    }

    /// Where cargo puts a program of the workspace.
    pub fn program(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }

    /// The same, built with optimisation.
    pub fn release_program(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    fn names(&self, wanted: impl Fn(&str, &str) -> bool) -> Vec<&str> {
        let tests = self.tests.iter().filter(|(package, name)| wanted(package, name));
        tests.map(|(_, name)| name.as_str()).collect()
    }
}

/// Builds all there is, tests and programs, in one go.
pub fn build_all() -> Result {
    run(cargo().args(["build", "--workspace", "--all-targets"]))
}

/// `cargo test --workspace` for some integration tests; nothing when there are none.
pub fn test(names: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace"]);
    for name in names {
        command.args(["--test", name]);
    }
    command
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
