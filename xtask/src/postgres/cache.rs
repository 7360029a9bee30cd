//! A folder for fetched servers that whoever runs them can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{am_root, others_reach};
use crate::Result;

/// The fetched server of this name, from the cache or unpacked into it by `unpack`, which gets an empty folder.
///
/// `bin` is where its programs are in that folder. A fetch that is cut short leaves nothing that is taken for a server.
pub fn cached(name: &str, bin: &str, unpack: impl FnOnce(&Path) -> Result) -> Result<PathBuf> {
    let root = root()?;
    let home = root.join(name);
    let programs = home.join(bin);
    if programs.join("postgres").is_file() {
        return Ok(programs);
    }
    let unfinished = root.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&unfinished);
    let finished = fs::create_dir_all(&unfinished)
        .map_err(|error| format!("can't make {}: {error}", unfinished.display()))
        .and_then(|()| unpack(&unfinished))
        .and_then(|()| let_all_read(&unfinished, false))
        .and_then(|()| let_all_read(&unfinished.join(bin), true))
        .and_then(|()| {
            fs::rename(&unfinished, &home).map_err(|error| format!("can't make {}: {error}", home.display()))
        });
    match finished {
        Ok(()) => Ok(programs),
        // Another process may have been quicker.
        Err(_) if programs.join("postgres").is_file() => {
            let _ = fs::remove_dir_all(&unfinished);
            Ok(programs)
        }
        Err(error) => {
            let _ = fs::remove_dir_all(&unfinished);
            Err(error)
        }
    }
}

/// The first folder that can be made and, if we are root, be read by others.
fn root() -> Result<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let system = am_root().then(|| PathBuf::from("/var/cache"));
    let candidates = [named, home, system, Some(std::env::temp_dir())];
    for folder in candidates.into_iter().flatten().map(|folder| folder.join("millstream/postgres")) {
        if am_root() && folder.starts_with("/root") {
            continue;
        }
        if fs::create_dir_all(&folder).is_ok() && (!am_root() || others_reach(&folder)) {
            return Ok(folder);
        }
    }
    Err("there is no folder to keep a server in: set XDG_CACHE_HOME to one that others can read".to_owned())
}

/// Lets everybody read what is in a folder; `run`: and run it.
fn let_all_read(folder: &Path, run: bool) -> Result {
    let fault = |error: std::io::Error| format!("can't change rights in {}: {error}", folder.display());
    let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(folder, 0o755).map_err(fault)?;
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let found = entry.file_type().map_err(fault)?;
        if found.is_dir() {
            let_all_read(&entry.path(), run)?;
        } else if found.is_file() {
            let mode = entry.metadata().map_err(fault)?.permissions().mode();
            let all_run = if run || mode & 0o100 != 0 { 0o111 } else { 0 };
            set(&entry.path(), mode | 0o444 | all_run).map_err(fault)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_can_be_read_and_its_programs_run_by_all() {
        let folder = std::env::temp_dir().join(format!("millstream-xtask-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        for (name, mode) in [("bin/postgres", 0o600), ("lib.so", 0o600), ("script", 0o700)] {
            fs::write(folder.join(name), "").unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let_all_read(&folder, false).unwrap();
        let_all_read(&folder.join("bin"), true).unwrap();
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("bin"), mode("bin/postgres"), mode("lib.so"), mode("script")), (0o755, 0o755, 0o644, 0o755));
        fs::remove_dir_all(&folder).unwrap();
    }
}
