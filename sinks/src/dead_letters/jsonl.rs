use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use millstream_model::{IndexName, KeyColumns, RowKey, Text, Version};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::{DeadLetter, DeadLetterState, DeadLetters, fold};
use crate::files::{blocking, file_error, read_if_there};
use crate::lines::{LinesFile, unfinished_line};
use crate::{Result, SinkError};

/// Keeps dead letters in a file, one a line:
/// `{"time","index","id","key":{column:text},"kind","reason","sink","attempts","version","state":"open"|"resolved"}`.
///
/// `time` is RFC 3339 in UTC. Lines are made durable by fsync before [`write`](DeadLetters::write) returns. A line that a
/// crash left unfinished is cut off. Another process on the same file is refused. A call that was begun runs to its end even
/// if its future is dropped; the next one waits for it. After a failed fsync the file is opened anew by the next call.
pub struct JsonlDeadLetters {
    // Held by the thread that works on the file, never across an await.
    file: Arc<Mutex<LettersFile>>,
    clock: fn() -> SystemTime,
}

struct LettersFile {
    path: PathBuf,
    lines: Option<LinesFile>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    time: String,
    index: IndexName,
    id: String,
    key: Map<String, serde_json::Value>,
    kind: String,
    reason: String,
    sink: Option<String>,
    attempts: u32,
    version: Version,
    state: DeadLetterState,
}

impl JsonlDeadLetters {
    /// Appends to a file, which is made when needed, with the folders above it. Nothing is opened yet.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { file: Arc::new(Mutex::new(LettersFile { path: path.into(), lines: None })), clock: SystemTime::now }
    }

    /// The same with another clock for `time`.
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> SystemTime) -> Self {
        self.clock = clock;
        self
    }
}

#[async_trait]
impl DeadLetters for JsonlDeadLetters {
    async fn write(&self, letters: &[DeadLetter]) -> Result<()> {
        if letters.is_empty() {
            return Ok(());
        }
        let time = humantime::format_rfc3339_millis((self.clock)()).to_string();
        let mut lines = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut lines, &Line::of(letter, &time)).expect("a line has only string keys");
            lines.push(b'\n');
        }
        let file = self.file.clone();
        blocking(move || file.lock().unwrap_or_else(PoisonError::into_inner).append(&lines)).await
    }

    async fn inspect(&self) -> Result<()> {
        let file = self.file.clone();
        blocking(move || file.lock().unwrap_or_else(PoisonError::into_inner).inspect()).await
    }

    async fn open(&self) -> Result<Vec<DeadLetter>> {
        let file = self.file.clone();
        blocking(move || file.lock().unwrap_or_else(PoisonError::into_inner).read()).await.map(fold)
    }

    async fn close(&self) {
        let file = self.file.clone();
        let release = move || {
            file.lock().unwrap_or_else(PoisonError::into_inner).lines = None;
            Ok(())
        };
        // It fails only while the runtime ends, and then the process lets go of it.
        let _ = blocking(release).await;
    }
}

impl LettersFile {
    fn append(&mut self, lines: &[u8]) -> Result<()> {
        if self.lines.as_ref().is_some_and(|lines| lines.check().is_err()) {
            self.lines = None;
        }
        if self.lines.is_none() {
            let mut file = LinesFile::open(&self.path)?;
            let tail =
                unfinished_line(&self.path).map_err(|error| file_error("read the dead letters", &self.path, error))?;
            file.cut_back(file.durable() - tail.len() as u64)?;
            self.lines = Some(file);
        }
        self.lines.as_mut().expect("opened just above").append(lines)
    }

    fn inspect(&self) -> Result<()> {
        match self.lines {
            Some(_) => Ok(()),
            None => LinesFile::inspect(&self.path),
        }
    }

    /// All letters, in the order of writing.
    fn read(&mut self) -> Result<Vec<DeadLetter>> {
        let path = &self.path;
        let text = read_if_there(path).map_err(|error| file_error("read the dead letters", path, error))?;
        let text = text.unwrap_or_default();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = text[..whole].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
        lines.map(|(number, line)| parse(path, number + 1, line)).collect()
    }
}

fn parse(path: &Path, number: usize, line: &[u8]) -> Result<DeadLetter> {
    let unreadable = || {
        let path = path.display();
        SinkError::setup(format!(
            "a dead letter can't be understood; mend or remove its line (path={path}, line={number})"
        ))
    };
    let line: Line = serde_json::from_slice(line).map_err(|error| unreadable().with_cause(error))?;
    line.into_letter().ok_or_else(unreadable)
}

impl Line {
    fn of(letter: &DeadLetter, time: &str) -> Self {
        Self {
            time: time.to_owned(),
            index: letter.index.clone(),
            id: letter.key.to_id(),
            key: letter.key.iter().map(|(column, value)| (column.to_owned(), value.into())).collect(),
            kind: letter.kind.clone(),
            reason: letter.reason.clone(),
            sink: letter.sink.clone(),
            attempts: letter.attempts,
            version: letter.version,
            state: letter.state,
        }
    }

    /// `None` when a value of the key is no text.
    fn into_letter(self) -> Option<DeadLetter> {
        let columns: KeyColumns = self.key.keys().map(Text::from).collect();
        let values = self.key.values().map(|value| value.as_str().map(Text::from)).collect::<Option<Vec<_>>>()?;
        Some(DeadLetter {
            index: self.index,
            key: RowKey::new(columns, values),
            kind: self.kind,
            reason: self.reason,
            sink: self.sink,
            attempts: self.attempts,
            version: self.version,
            state: self.state,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::{Duration, UNIX_EPOCH};

    use super::super::tests::letter;
    use super::*;

    #[tokio::test]
    async fn a_letter_is_written_as_documented_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/dead.jsonl");
        let letters =
            JsonlDeadLetters::file(&path).with_clock(|| UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        assert_eq!(letters.open().await.unwrap(), []);
        let one = letter("1", Some("search"), DeadLetterState::Open);
        letters.write(std::slice::from_ref(&one)).await.unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\"time\":\"2023-11-14T22:13:20.123Z\",\"index\":\"users\",\"id\":\"1\",\"key\":{\"id\":\"1\"},\
             \"kind\":\"write\",\"reason\":\"too \\\"odd\\\"\",\"sink\":\"search\",\"attempts\":3,\"version\":7,\
             \"state\":\"open\"}\n"
        );
        assert_eq!(letters.open().await.unwrap(), [one]);
    }

    #[tokio::test]
    async fn a_file_that_another_keeps_open_is_told_without_touching_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/dead.jsonl");
        let letters = JsonlDeadLetters::file(&path);
        letters.inspect().await.unwrap();
        assert!(!path.parent().unwrap().exists());
        letters.write(&[letter("1", None, DeadLetterState::Open)]).await.unwrap();
        letters.inspect().await.unwrap();
        let error = JsonlDeadLetters::file(&path).inspect().await.unwrap_err();
        assert!(error.to_string().contains("in use by another process"), "{error}");
    }

    #[tokio::test]
    async fn p11_resolved_letters_are_no_longer_open_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead.jsonl");
        let letters = JsonlDeadLetters::file(&path);
        let (one, two) = (letter("1", None, DeadLetterState::Open), letter("2", None, DeadLetterState::Open));
        letters.write(&[one.clone(), two.clone()]).await.unwrap();
        letters.write(&[letter("1", None, DeadLetterState::Resolved)]).await.unwrap();
        drop(letters);
        assert_eq!(JsonlDeadLetters::file(&path).open().await.unwrap(), [two]);
    }

    #[tokio::test]
    async fn a_torn_line_is_ignored_and_then_cut_off_but_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead.jsonl");
        let one = letter("1", None, DeadLetterState::Open);
        JsonlDeadLetters::file(&path).write(std::slice::from_ref(&one)).await.unwrap();
        let append = |text: &str| {
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        append("{\"time\":\"20");
        let letters = JsonlDeadLetters::file(&path);
        assert_eq!(letters.open().await.unwrap(), std::slice::from_ref(&one));
        let two = letter("2", None, DeadLetterState::Open);
        letters.write(std::slice::from_ref(&two)).await.unwrap();
        assert_eq!(letters.open().await.unwrap(), [one, two]);
        append("{\"key\":1}\n");
        let error = letters.open().await.unwrap_err();
        assert!(error.to_string().contains("line=3"), "{error}");
    }
}
