//! As whom the server runs: Postgres refuses to run as root.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

/// The account that owns a server's files and runs its programs; `None` means ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(Option<(Uid, Gid)>);

impl Account {
    /// Ours, unless that is root: then `postgres`, else `nobody`.
    pub(crate) fn choose() -> Self {
        if !Uid::effective().is_root() {
            return Self(None);
        }
        let user = ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .expect("a machine has an account named postgres or nobody");
        Self(Some((user.uid, user.gid)))
    }

    /// A program that runs under this account.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((uid, gid)) = self.0 {
            command.uid(uid.as_raw()).gid(gid.as_raw()).env("HOME", "/");
        }
        command
    }

    /// Gives a folder to this account.
    pub(crate) fn own(&self, path: &Path) {
        if let Some((uid, gid)) = self.0 {
            std::os::unix::fs::chown(path, Some(uid.as_raw()), Some(gid.as_raw()))
                .expect("root may give a folder away");
        }
    }
}
