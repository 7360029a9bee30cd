//! One function a verb.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::cargo::{TESTS, Workspace, build_all, cargo, test as cargo_test};
use crate::postgres;
use crate::run::run;

/// Tells tests where the server's programs are.
const SERVER: &str = "MILLSTREAM_PG_BIN";
/// Tells tests where our own program is.
const HOST: &str = "MILLSTREAM_HOST_BIN";

/// The packages whose back ends are features, the engine last. The default ones are what everything else builds.
const WITH_BACK_ENDS: [&str; 3] = ["millstream-cdc", "millstream-document", "millstream"];

/// Tests with servers wait more than they work: more of them at once than there are cores.
const SIDE_BY_SIDE: &str = "--test-threads=8";

pub fn check() -> Result {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // Without any back end: each is an addition.
    let bare = WITH_BACK_ENDS.iter().flat_map(|package| ["-p", package]);
    run(cargo().arg("clippy").args(bare).args(["--lib", "--no-default-features", "--", "-D", "warnings"]))?;
    // A module's page may point at what is inside it, though that has no page of its own.
    run(docs().env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"))
}

pub fn test() -> Result {
    check()?;
    let server = postgres::find(None)?;
    build_all()?;
    let workspace = Workspace::read()?;
    run(with_programs(
        cargo_test(&workspace.fast_tests()).args(["--lib", "--bins", "--examples"]),
        &workspace,
        &server,
    ))?;
    run(cargo().args(["test", "--workspace", "--doc"]))?;
    let e2e = workspace.e2e_tests();
    if e2e.is_empty() {
        return Ok(());
    }
    run(with_programs(cargo_test(&e2e).args(["--", SIDE_BY_SIDE]), &workspace, &server))
}

pub fn e2e(major: Option<u32>, filters: &[String], extra: &[String]) -> Result {
    let server = postgres::find(major)?;
    build_all()?;
    let workspace = Workspace::read()?;
    let tests = workspace.e2e_tests();
    if tests.is_empty() {
        return Err("there are no such tests".to_owned());
    }
    run(with_programs(cargo_test(&tests).args(["--", SIDE_BY_SIDE]).args(filters).args(extra), &workspace, &server))
}

pub fn torture(minutes: &str, seed: Option<u64>, major: Option<u32>, extra: &[String]) -> Result {
    let server = postgres::find(major)?;
    build_all()?;
    let workspace = Workspace::read()?;
    let mut program = Command::new(workspace.program("torture"));
    program.args(["--minutes", minutes]);
    if let Some(seed) = seed {
        program.args(["--seed", &seed.to_string()]);
    }
    run(with_programs(program.args(extra), &workspace, &server))
}

pub fn sim(seeds: u64, from: u64, filters: &[String], extra: &[String]) -> Result {
    let mut command = cargo_test(&["sim"]);
    command.env("MILLSTREAM_SIM_SEEDS", seeds.to_string()).env("MILLSTREAM_SIM_FROM", from.to_string());
    run(command.arg("--").args(filters).args(extra))
}

pub fn bench(arguments: &[String]) -> Result {
    let server = postgres::find(None)?;
    run(cargo().args(["build", "--release", "--package", "millstream-bench"]))?;
    let workspace = Workspace::read()?;
    run(Command::new(workspace.release_program("millstream-bench")).args(arguments).env(SERVER, server))
}

/// The demo over files needs no server.
pub fn demo_of_files(seconds: Option<u64>) -> Result {
    show(seconds, &["polling"], None)
}

pub fn demo(seconds: Option<u64>, major: Option<u32>) -> Result {
    let server = postgres::find(major)?;
    show(seconds, &[], Some(&server))
}

fn show(seconds: Option<u64>, arguments: &[&str], server: Option<&Path>) -> Result {
    // Only what it needs: this may be the first thing that anybody builds here.
    run(cargo().args(["build", "--package", TESTS, "--package", "millstream-host", "--bins"]))?;
    let workspace = Workspace::read()?;
    let mut program = Command::new(workspace.program("demo"));
    program.args(arguments).env(HOST, workspace.program("millstream"));
    if let Some(seconds) = seconds {
        program.args(["--seconds", &seconds.to_string()]);
    }
    if let Some(server) = server {
        program.env(SERVER, server);
    }
    run(&mut program)
}

pub fn fmt() -> Result {
    run(cargo().args(["fmt", "--all"]))
}

pub fn doc(open: bool) -> Result {
    let mut command = docs();
    if open {
        command.args(["--package", "millstream", "--open"]);
    }
    run(&mut command)
}

/// Libraries only: the host's program and the engine's library have one name, and would overwrite each other's pages.
fn docs() -> Command {
    let mut command = cargo();
    command.args(["doc", "--workspace", "--no-deps", "--lib"]);
    command
}

fn with_programs<'a>(command: &'a mut Command, workspace: &Workspace, server: &Path) -> &'a mut Command {
    command.env(SERVER, server).env(HOST, workspace.program("millstream"))
}
