//! A temporary folder, with or without a server in it, that goes when this process goes: however it ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::account::Account;

/// Stands guard over a folder: its standard input closes when this process ends, even by `kill -9`; then it ends the server
/// whose data is in `data` (only if that process really runs there) and removes the folder.
const GUARD: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1/data" ]; then
  kill -QUIT "$pid"
  n=0
  while kill -0 "$pid" 2>/dev/null && [ "$n" -lt 100 ]; do sleep 0.05; n=$((n + 1)); done
  kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"
[ -e "$1" ] && sleep 1 && rm -rf "$1"
exit 0
"#;

/// A temporary folder that a guard removes when this is dropped or this process ends.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    guard: Child,
}

impl Folder {
    /// Makes one that belongs to us and that every account can enter.
    ///
    /// # Panics
    /// When the temporary folder can't be written.
    pub fn new() -> Self {
        Self::owned_by(None)
    }

    pub(crate) fn owned_by(account: Option<&Account>) -> Self {
        // Short, since the name of a socket in it may have 107 bytes; counted, since several threads make them.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("millstream-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("can't make a temporary folder (path={}): {error}", path.display()),
            }
        };
        if let Some(account) = account {
            account.own(&path);
        }
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: Ctrl-C is for us, and the guard then sees us go.
            .process_group(0)
            .spawn()
            .expect("every machine has sh");
        Self { path, guard }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it and returns its path.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        let mut file = std::fs::File::create(&path).expect("our own folder can be written");
        file.write_all(text.as_bytes()).expect("our own folder can be written");
        path
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The guard bounds its own waits; after it the folder is gone.
        let _ = self.guard.wait();
    }
}
