use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

/// The lines that came to a file since the last look.
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// From what is there now on.
    pub fn at_end(path: PathBuf) -> Self {
        let offset = std::fs::metadata(&path).map_or(0, |file| file.len());
        Self { path, offset }
    }

    /// The next lines, once there are any.
    pub async fn wait(&mut self) -> Vec<String> {
        loop {
            let lines = self.lines();
            if !lines.is_empty() {
                return lines;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// The whole lines that came.
    pub fn lines(&mut self) -> Vec<String> {
        let mut text = String::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_string(&mut text)
        });
        if read.is_err() {
            return Vec::new();
        }
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        self.offset += whole as u64;
        text[..whole].lines().map(str::to_owned).collect()
    }
}

/// The beginning of a line, by letters.
pub fn short(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{} ...", &line[..at]),
        None => line.to_owned(),
    }
}
