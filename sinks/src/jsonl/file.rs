use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::file_progress::{check_format, unreadable};
use crate::files::{beside, file_error, read_if_there, write_atomically};
use crate::lines::{LinesFile, ends_a_line_at, unfinished_line};
use crate::{Progress, Result, SinkError};

/// The lines' file and the progress file beside it. Every method blocks.
pub(super) struct FileStore {
    path: PathBuf,
    progress_path: PathBuf,
    open: Option<Open>,
}

/// What there is while the file is open, and locked.
struct Open {
    lines: LinesFile,
    progress: Option<Progress>,
}

/// What the progress file holds.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// How many bytes of the lines' file were durable when it was saved.
    offset: u64,
    progress: Progress,
}

impl FileStore {
    pub(super) fn new(path: PathBuf) -> Self {
        let progress_path = beside(&path, ".progress.json");
        Self { path, progress_path, open: None }
    }

    /// A run begins: opens the file unless it is open and sound.
    pub(super) fn ready(&mut self) -> Result<()> {
        self.sound().map(|_| ())
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.opened()?.lines.append(lines)
    }

    pub(super) fn load(&mut self) -> Result<Option<Progress>> {
        Ok(self.sound()?.progress.clone())
    }

    pub(super) fn save(&mut self, progress: Progress) -> Result<()> {
        let path = self.progress_path.clone();
        let open = self.opened()?;
        open.lines.check()?;
        let kept = Kept { offset: open.lines.durable(), progress };
        let text = serde_json::to_vec_pretty(&kept).expect("progress has only string keys");
        write_atomically(&path, &text).map_err(|error| file_error("write the progress file", &path, error))?;
        open.progress = Some(kept.progress);
        Ok(())
    }

    /// Whether [`ready`](Self::ready) would go well. Changes nothing.
    pub(super) fn inspect(&self) -> Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        LinesFile::inspect(&self.path)?;
        let kept = self.read_progress()?;
        if kept.is_none() && self.path.exists() && !ours(&self.unfinished()?) {
            return Err(self.not_ours());
        }
        Ok(())
    }

    /// What [`load`](Self::load) would give. Changes nothing.
    pub(super) fn peek(&self) -> Result<Option<Progress>> {
        if let Some(open) = &self.open {
            return Ok(open.progress.clone());
        }
        let Some(mut kept) = self.read_progress()? else { return Ok(None) };
        if !self.is_whole(&kept)? {
            kept.progress.indexes.clear();
        }
        Ok(Some(kept.progress))
    }

    /// True when the lines up to what was durable are still there.
    fn is_whole(&self, kept: &Kept) -> Result<bool> {
        match ends_a_line_at(&self.path, kept.offset) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            whole => whole.map_err(|error| file_error("read the file", &self.path, error)),
        }
    }

    fn not_ours(&self) -> SinkError {
        SinkError::setup(format!(
            "the file does not end with a line break and is not ours: name another file (path={})",
            self.path.display()
        ))
    }

    /// Releases the file. The next call of any kind opens it anew.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// As [`opened`](Self::opened), but a fault that was final ends here: the file is opened anew and cut back to where it was
    /// sound. Only for what begins a run.
    fn sound(&mut self) -> Result<&mut Open> {
        if self.open.as_ref().is_some_and(|open| open.lines.check().is_err()) {
            self.open = None;
        }
        self.opened()
    }

    fn opened(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let lines = LinesFile::open(&self.path)?;
            let open = self.recover(lines)?;
            return Ok(self.open.insert(open));
        }
        Ok(self.open.as_mut().expect("checked just above"))
    }

    /// Brings the file in line with what the progress beside it says.
    fn recover(&self, mut lines: LinesFile) -> Result<Open> {
        let Some(kept) = self.read_progress()? else {
            let tail = self.unfinished()?;
            // Before anything is written progress is saved: without it the file is not ours, or must be filled again.
            if !ours(&tail) {
                return Err(self.not_ours());
            }
            lines.cut_back(lines.durable() - tail.len() as u64)?;
            return Ok(Open { lines, progress: None });
        };
        if self.is_whole(&kept)? {
            lines.cut_back(kept.offset)?;
            return Ok(Open { lines, progress: Some(kept.progress) });
        }
        self.start_over(lines, kept)
    }

    /// The documents are not what they were: forgets how far the indexes were filled, durably, before a new line could make
    /// the file as long as it was.
    fn start_over(&self, mut lines: LinesFile, mut kept: Kept) -> Result<Open> {
        let (path, bytes, expected) = (self.path.display(), lines.durable(), kept.offset);
        warn!(%path, bytes, expected, "the file is missing, shorter or another one: its indexes will be filled again");
        let tail = self.unfinished()?;
        lines.cut_back(bytes - tail.len() as u64)?;
        kept.progress.indexes.clear();
        kept.offset = lines.durable();
        let text = serde_json::to_vec_pretty(&kept).expect("progress has only string keys");
        let path = &self.progress_path;
        write_atomically(path, &text).map_err(|error| file_error("write the progress file", path, error))?;
        Ok(Open { lines, progress: Some(kept.progress) })
    }

    fn read_progress(&self) -> Result<Option<Kept>> {
        let path = &self.progress_path;
        let text = read_if_there(path).map_err(|error| file_error("read the progress file", path, error))?;
        let Some(text) = text else { return Ok(None) };
        let mut kept: Kept = serde_json::from_slice(&text).map_err(|error| unreadable(path, error))?;
        kept.progress = check_format(path, kept.progress)?;
        Ok(Some(kept))
    }

    fn unfinished(&self) -> Result<Vec<u8>> {
        unfinished_line(&self.path).map_err(|error| file_error("read the file", &self.path, error))
    }
}

/// True for the beginning of one of our lines, and for nothing at all.
fn ours(tail: &[u8]) -> bool {
    let head = b"{\"index\":\"";
    let length = tail.len().min(head.len());
    tail[..length] == head[..length]
}
