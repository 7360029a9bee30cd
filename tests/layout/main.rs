//! The layout that the architecture promises, checked: who may depend on whom, and what is absent where.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate and those of ours that it may use. What is not listed may use nothing of ours.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("millstream-model", &[]),
    ("millstream-core", &["millstream-model"]),
    ("millstream-postgres", &["millstream-model", "millstream-core"]),
    ("millstream-cdc", &["millstream-model", "millstream-core", "millstream-postgres"]),
    ("millstream-document", &["millstream-model", "millstream-core", "millstream-postgres"]),
    ("millstream-polling", &["millstream-model", "millstream-core", "millstream-cdc", "millstream-document"]),
    ("millstream-sinks", &["millstream-model", "millstream-postgres"]),
    (
        "millstream-actors",
        &["millstream-model", "millstream-core", "millstream-cdc", "millstream-document", "millstream-sinks"],
    ),
    (
        "millstream",
        &[
            "millstream-model",
            "millstream-core",
            "millstream-postgres",
            "millstream-cdc",
            "millstream-document",
            "millstream-sinks",
            "millstream-polling",
            "millstream-actors",
        ],
    ),
    ("millstream-host", &["millstream"]),
    (
        "millstream-tests",
        &[
            "millstream",
            "millstream-model",
            "millstream-core",
            "millstream-postgres",
            "millstream-cdc",
            "millstream-document",
            "millstream-sinks",
            "millstream-actors",
        ],
    ),
    (
        "millstream-bench",
        &[
            "millstream",
            "millstream-model",
            "millstream-core",
            "millstream-cdc",
            "millstream-document",
            "millstream-sinks",
            "millstream-tests",
        ],
    ),
    ("xtask", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every package and the packages of ours that it names, dev-dependencies aside.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let ours = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].as_str() != Some("dev") && !dependency["path"].is_null());
            let names = ours.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect();
            (package["name"].as_str().unwrap().to_owned(), names)
        })
        .collect()
}

#[test]
fn a_crate_depends_only_on_what_its_row_allows() {
    let edges = edges();
    let known: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    for (package, uses) in &edges {
        let allowed = known.get(package.as_str()).unwrap_or_else(|| panic!("{package} has no row in the table"));
        for used in uses {
            assert!(allowed.contains(&used.as_str()), "{package} must not depend on {used}");
        }
    }
    assert_eq!(edges.len(), known.len(), "a row names a crate that is gone");
}

/// Every Rust file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_capture_actor_knows_no_documents_and_the_builder_actor_no_changes() {
    assert!(!text("actors/src/capture.rs").contains("millstream_document"));
    let builder = files(&root().join("actors/src/builder"));
    assert!(builder.iter().any(|file| file.ends_with("mod.rs")));
    for file in builder {
        assert!(!std::fs::read_to_string(&file).unwrap().contains("millstream_cdc"), "{}", file.display());
    }
    for file in files(&root().join("actors/src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let sees_both = text.contains("millstream_document") && text.contains("millstream_cdc");
        assert!(!sees_both || file.ends_with("resolver.rs"), "{} sees both halves", file.display());
        assert!(!text.contains("millstream_postgres"), "{} names a source", file.display());
    }
}

#[test]
fn only_the_topology_spawns_actors_and_makes_their_channels() {
    for file in files(&root().join("engine/src")).into_iter().filter(|file| !file.ends_with("topology.rs")) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("actors.spawn("), "{} spawns an actor", file.display());
        assert!(!text.contains("flume::bounded"), "{} makes a channel", file.display());
    }
    for file in files(&root().join("actors/src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("tokio::spawn"), "{} spawns", file.display());
        assert!(!text.contains("flume::unbounded"), "{} makes a channel without a bound", file.display());
    }
}

#[test]
fn the_words_of_a_source_name_no_particular_database() {
    for file in files(&root().join("sources/core/src")) {
        let text = std::fs::read_to_string(&file).unwrap().to_lowercase();
        assert!(!text.contains("publication"), "{} says publication", file.display());
    }
}

#[test]
fn every_crate_says_what_it_is() {
    for folder in [
        "model",
        "sources/core",
        "sources/cdc",
        "sources/document",
        "sources/postgres",
        "sources/polling",
        "sinks",
        "actors",
        "engine",
        "benches",
        "tests",
    ] {
        assert!(text(&format!("{folder}/src/lib.rs")).starts_with("//! "), "{folder} has no crate doc");
    }
}
