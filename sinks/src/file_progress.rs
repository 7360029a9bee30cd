use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::files::{blocking, create_parents, file_error, read_if_there, write_atomically};
use crate::{Progress, ProgressStore, Result, SinkError};

/// Keeps the [`Progress`] of a sink that keeps none itself, in a file of its own.
///
/// A call that was begun runs to its end even if its future is dropped; the next one waits for it.
#[derive(Debug)]
pub struct FileProgress {
    path: PathBuf,
    // Held by the thread that reads or writes, never across an await.
    busy: Arc<Mutex<()>>,
}

impl FileProgress {
    /// The file for one sink in a folder, which is made when needed: `<folder>/<sink>.progress.json`. In the file's name,
    /// letters of the sink's other than `A-Z a-z 0-9 - _` are percent-encoded.
    pub fn new(folder: impl AsRef<Path>, sink: &str) -> Self {
        let mut name = String::with_capacity(sink.len() + 14);
        for byte in sink.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                other => name.push_str(&format!("%{other:02X}")),
            }
        }
        name.push_str(".progress.json");
        Self { path: folder.as_ref().join(name), busy: Arc::default() }
    }

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[async_trait]
impl ProgressStore for FileProgress {
    async fn load(&self) -> Result<Option<Progress>> {
        let (path, busy) = (self.path.clone(), self.busy.clone());
        blocking(move || {
            let _alone = busy.lock().unwrap_or_else(PoisonError::into_inner);
            let text = read_if_there(&path).map_err(|error| file_error("read the progress file", &path, error))?;
            text.map(|text| parse(&path, &text)).transpose()
        })
        .await
    }

    async fn save(&self, progress: &Progress) -> Result<()> {
        let text = serde_json::to_vec_pretty(progress).expect("progress has only string keys");
        let (path, busy) = (self.path.clone(), self.busy.clone());
        blocking(move || {
            let _alone = busy.lock().unwrap_or_else(PoisonError::into_inner);
            create_parents(&path)
                .and_then(|()| write_atomically(&path, &text))
                .map_err(|error| file_error("write the progress file", &path, error))
        })
        .await
    }
}

fn parse(path: &Path, text: &[u8]) -> Result<Progress> {
    let progress = serde_json::from_slice(text).map_err(|error| unreadable(path, error))?;
    check_format(path, progress)
}

/// The error for a progress file that is not ours or was damaged.
pub(crate) fn unreadable(path: &Path, error: serde_json::Error) -> SinkError {
    let path = path.display();
    let message =
        format!("the progress file can't be understood; remove it to fill all its indexes again (path={path})");
    SinkError::setup(message).with_cause(error)
}

/// Refuses a format newer than ours.
pub(crate) fn check_format(path: &Path, progress: Progress) -> Result<Progress> {
    let (theirs, ours) = (progress.format, Progress::FORMAT);
    if theirs > ours {
        let path = path.display();
        return Err(SinkError::setup(format!(
            "the progress file was written by a newer version: run that one (path={path}, format={theirs}, known={ours})"
        )));
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SinkErrorKind;

    #[tokio::test]
    async fn progress_comes_back_as_it_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileProgress::new(folder.path().join("state"), "search/1");
        assert_eq!(store.path().file_name().unwrap(), "search%2F1.progress.json");
        assert_eq!(store.load().await.unwrap(), None);
        let progress = Progress { format: Progress::FORMAT, epoch: millstream_model::Epoch(7), ..Progress::default() };
        store.save(&progress).await.unwrap();
        assert_eq!(store.load().await.unwrap(), Some(progress));
    }

    #[tokio::test]
    async fn a_newer_format_and_a_damaged_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileProgress::new(folder.path(), "x");
        store.save(&Progress { format: 99, ..Progress::default() }).await.unwrap();
        let error = store.load().await.unwrap_err();
        assert!(error.to_string().contains("format=99, known=1"), "{error}");
        std::fs::write(store.path(), b"{\"format\":").unwrap();
        let error = store.load().await.unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Setup);
        assert!(error.to_string().contains("remove it to fill"), "{error}");
    }
}
