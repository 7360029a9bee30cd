//! One file: whether it stands still, its bytes, and how it is found again where it was left.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{BackendError, BackendErrorKind};

/// What tells whether a file was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stat {
    /// Of the file that has this name now.
    pub(super) fn of(path: &Path) -> Result<Self, BackendError> {
        Ok(Self::new(&std::fs::metadata(path).map_err(|error| refused(path, &error))?))
    }

    fn new(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }

    /// True when it may still be written to: it was, within this span, or nobody can tell since its clock is not ours.
    pub(super) fn is_fresh(&self, span: Duration) -> bool {
        let age = self.modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        age.is_none_or(|age| age < span)
    }
}

/// Missing is as good as not there yet: it is looked for again. What needs somebody to mend it is told so.
fn refused(path: &Path, error: &std::io::Error) -> BackendError {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => BackendErrorKind::Configuration,
        _ => BackendErrorKind::Transient,
    };
    BackendError::new(kind, format!("the file can't be read (path={}): {error}", path.display()))
}

/// An open file. Whoever replaces it under its name does not disturb who reads it.
pub(super) struct OpenFile {
    path: PathBuf,
    file: File,
}

/// Bytes of a file, as they were read at once.
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    /// True when the file ended behind them.
    pub(super) is_end: bool,
}

impl OpenFile {
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        let file = File::open(path).map_err(|error| refused(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn stat(&self) -> Result<Stat, BackendError> {
        self.file.metadata().map(|metadata| Stat::new(&metadata)).map_err(|error| self.refused(&error))
    }

    /// So many bytes from one on, or what there is.
    pub(super) fn part(&self, from: u64, most: u64) -> Result<Part, BackendError> {
        let mut bytes = Vec::new();
        let mut reader = self.reader(from)?.take(most);
        reader.read_to_end(&mut bytes).map_err(|error| self.refused(&error))?;
        let is_end = reader.limit() > 0;
        Ok(Part { bytes, is_end })
    }

    /// Puts the first bytes through a digest; `None` when the file ends before.
    fn digest(&self, length: u64) -> Result<Option<Sha256>, BackendError> {
        let mut hash = Sha256::new();
        let mut reader = self.reader(0)?.take(length);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut chunk).map_err(|error| self.refused(&error))? {
                0 => return Ok(Some(hash).filter(|_| reader.limit() == 0)),
                read => hash.update(&chunk[..read]),
            }
        }
    }

    fn reader(&self, from: u64) -> Result<&File, BackendError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(from)).map_err(|error| self.refused(&error))?;
        Ok(file)
    }

    fn refused(&self, error: &std::io::Error) -> BackendError {
        refused(&self.path, error)
    }
}

/// How far a file was read, and what stood there: so that reading goes on only behind what has not changed.
#[derive(Clone)]
pub(super) struct Prefix {
    /// The first byte behind it.
    pub(super) end: u64,
    /// Lines in it.
    pub(super) lines: u64,
    hash: Sha256,
    /// The file as it was when this was read; `None`: it was not looked at.
    stat: Option<Stat>,
}

/// The same as a checkpoint says it.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    bytes: u64,
    lines: u64,
    sha256: String,
}

impl Prefix {
    /// Nothing read yet.
    pub(super) fn nothing() -> Self {
        Self { end: 0, lines: 0, hash: Sha256::new(), stat: None }
    }

    /// What a checkpoint speaks of, if it still stands in the file. `cached`, from the reading before, saves reading it again
    /// where the file has been left alone.
    pub(super) fn find(file: &OpenFile, checkpoint: &str, cached: Option<Self>) -> Result<Option<Self>, BackendError> {
        // One that was written by another backend, or by none, is no place to go on from.
        let Ok(mark) = serde_json::from_str::<Mark>(checkpoint) else { return Ok(None) };
        let stat = Some(file.stat()?);
        let is_same = |cached: &Self| cached.stat == stat && cached.digest() == mark.sha256;
        if let Some(cached) = cached.filter(is_same) {
            return Ok(Some(cached));
        }
        let hash = file.digest(mark.bytes)?;
        let prefix = hash.map(|hash| Self { end: mark.bytes, lines: mark.lines, hash, stat });
        Ok(prefix.filter(|prefix| prefix.digest() == mark.sha256))
    }

    /// Takes in what was read behind it.
    pub(super) fn extend(&mut self, bytes: &[u8], lines: u64, stat: Stat) {
        self.hash.update(bytes);
        self.end += bytes.len() as u64;
        self.lines += lines;
        self.stat = Some(stat);
    }

    /// As a checkpoint.
    pub(super) fn to_checkpoint(&self) -> String {
        let mark = Mark { bytes: self.end, lines: self.lines, sha256: self.digest() };
        serde_json::to_string(&mark).expect("numbers and digits are JSON")
    }

    fn digest(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
