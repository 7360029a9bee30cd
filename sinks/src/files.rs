//! Files that survive a crash: what the sinks on disk share. Nothing here knows of documents.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::unistd::AccessFlags;

use crate::{Result, SinkError, SinkErrorKind};

/// Runs work that blocks on a thread for such work.
///
/// Once started it runs to its end even if the returned future is dropped: whoever needs to know that it has ended takes
/// the lock that the work holds.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(SinkError::retry("the runtime is shutting down, so the file was not written")),
        },
    }
}

/// The path with something after its last letter: `out/docs.jsonl` and `.progress.json`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the folders above a file. Those that are there stay as they are.
pub(crate) fn create_parents(path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder(path))
}

/// Whether a file that is not there could be made, with the folders above it. Makes nothing.
pub(crate) fn can_create(path: &Path) -> io::Result<()> {
    let mut folder = folder(path);
    let there = loop {
        match fs::metadata(folder) {
            Ok(metadata) => break metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => match folder.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => folder = parent,
                _ => folder = Path::new("."),
            },
            Err(error) => return Err(error),
        }
    };
    if !there.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    nix::unistd::access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}

/// Makes a new, renamed or removed name durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// Replaces a file's contents, whole or not at all; durable when it returns.
///
/// A failed fsync does no harm: the old file is still there, and the next attempt begins with a fresh one.
pub(crate) fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = beside(path, ".tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    if let Err(error) = write() {
        // Best effort: it is created anew the next time, and never read.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder(path)
}

/// The file's contents; `None` when there is no such file.
pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A sink's error for a file operation that failed: what passes by itself is tried again, the rest needs mending.
pub(crate) fn file_error(doing: &str, path: &Path, error: io::Error) -> SinkError {
    let kind = match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::AlreadyExists => SinkErrorKind::Setup,
        _ => SinkErrorKind::Retry,
    };
    SinkError::new(kind, format!("can't {doing} (path={})", path.display())).with_cause(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_other_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn whether_a_file_could_be_made_is_told_without_making_anything() {
        let folder = tempfile::tempdir().unwrap();
        can_create(&folder.path().join("a/b/new.jsonl")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let error = can_create(&folder.path().join("file/new.jsonl")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn a_failed_replacement_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        write_atomically(&path, b"one").unwrap();
        fs::create_dir(beside(&path, ".tmp")).unwrap();
        assert!(write_atomically(&path, b"two").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }
}
