//! Debian's own package.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::am_root;
use crate::Result;
use crate::run::{exists, run};

/// Read when a server is installed.
const SETTINGS: &str = "/etc/postgresql-common/createcluster.conf";

/// Installs the distribution's server, without the cluster that it would make and start by itself.
pub fn install() -> Result {
    if !am_root() || !exists("apt-get") {
        return Err("apt-get can't be used: it is not there, or we are not root".to_owned());
    }
    let settings = Path::new(SETTINGS);
    if !settings.exists() {
        let folder = settings.parent().expect("the path is not a root");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(settings, "create_main_cluster = false\n"))
            .map_err(|error| format!("can't write {SETTINGS}: {error}"))?;
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
        command
    };
    run(apt().arg("update"))?;
    // Our settings file stays as it is when the package brings its own.
    run(apt().args([
        "install",
        "--yes",
        "--no-install-recommends",
        "-o",
        "Dpkg::Options::=--force-confold",
        "postgresql",
    ]))
}
