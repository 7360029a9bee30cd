//! Where the server's programs are.

use std::path::PathBuf;

/// The folder of `initdb`, `postgres` and the rest: `MILLSTREAM_PG_BIN`, else what is on `PATH`, else the highest major
/// under `/usr/lib/postgresql`.
///
/// # Panics
/// When there is none.
pub fn postgres_bin() -> PathBuf {
    let named = std::env::var_os("MILLSTREAM_PG_BIN").map(PathBuf::from);
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        let mut found = std::env::split_paths(&path).map(|folder| folder.join("initdb")).filter(|path| path.is_file());
        // A link on PATH may be alone there: its neighbours are where it leads.
        Some(found.next()?.canonicalize().ok()?.parent()?.to_owned())
    };
    named.or_else(on_path).or_else(packaged).expect(
        "no Postgres server found: install it (apt-get install postgresql), or set MILLSTREAM_PG_BIN to the folder of initdb",
    )
}

/// What Debian's packages install.
fn packaged() -> Option<PathBuf> {
    let mut majors: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let major = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .collect();
    majors.sort();
    majors.pop().map(|(_, bin)| bin)
}
