//! A folder of CSV files: each file is a stream.
//!
//! # What is read, and when
//!
//! `products.csv` is the stream `products`. The first line names the columns. Fields are separated by commas unless told
//! otherwise and may stand in double quotes (RFC 4180); the text is UTF-8. An empty field is NULL, or the empty text in a text
//! column. Files whose name begins with a dot or ends otherwise are left alone: a writer that writes elsewhere and renames is never
//! seen half way.
//!
//! A writer that writes in place is waited for: a file that changed within the last moments ([`CsvFolderSettings::settle`]) is
//! looked at again after that time. If it still changes, its finished lines are taken in append mode, and none in reconciled mode,
//! where a missing line would mean a removal. Whoever changes a file while it is read makes that reading void.
//!
//! In append mode a file is read on from where the acked rows end, as long as all before is what it was; otherwise from its
//! beginning: rows that were there are found unchanged.

mod file;
mod line;
mod row;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use self::file::{OpenFile, Prefix, Stat};
use self::row::Header;
use crate::model::{
    ColumnAssignment, ColumnType, Mode, Page, StreamDescriptor, StreamFetch, StreamFetchRequest, StreamKey,
};
use crate::{BackendError, BackendErrorKind, Classify, SourceBackend};

/// What the lines of the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvRows {
    /// Records, found by the values of these columns.
    Records {
        /// The key's columns.
        key: Vec<String>,
    },
    /// Readings.
    Readings {
        /// The column of moments: RFC 3339, or seconds since 1970 in UTC.
        time: String,
        /// The column of numbers.
        value: String,
        /// The column that names which of several numbers of one moment this is.
        replicate: Option<String>,
    },
}

/// Where the files are and what is in them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CsvFolderSettings {
    /// The folder. Folders in it are left alone.
    pub path: PathBuf,
    /// What a line is.
    pub rows: CsvRows,
    /// Types of columns, by name, for all files that have a column of this name; text otherwise.
    pub columns: Vec<(String, ColumnType)>,
    /// True: a file is the whole truth, and what is gone from it is withdrawn. False: lines are added and corrected.
    pub reconciled: bool,
    /// Between fields. Default: a comma.
    pub delimiter: u8,
    /// How long a file must have been left alone. Default: 1 s.
    pub settle: Duration,
}

impl CsvFolderSettings {
    /// Files of records.
    pub fn records(path: impl Into<PathBuf>, key: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(path.into(), CsvRows::Records { key: key.into_iter().map(Into::into).collect() })
    }

    /// Files of readings.
    pub fn readings(path: impl Into<PathBuf>, time: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(path.into(), CsvRows::Readings { time: time.into(), value: value.into(), replicate: None })
    }

    /// Files of what `rows` says.
    pub fn new(path: PathBuf, rows: CsvRows) -> Self {
        let settle = Duration::from_secs(1);
        Self { path, rows, columns: Vec::new(), reconciled: false, delimiter: b',', settle }
    }

    /// Says the type of the columns of a name.
    #[must_use]
    pub fn with_column(mut self, name: impl Into<String>, kind: ColumnType) -> Self {
        self.columns.push((name.into(), kind));
        self
    }

    /// Names the column that tells several numbers of one moment apart. Files of records have none.
    #[must_use]
    pub fn with_replicate(mut self, column: impl Into<String>) -> Self {
        if let CsvRows::Readings { replicate, .. } = &mut self.rows {
            *replicate = Some(column.into());
        }
        self
    }

    /// Says whether a file is the whole truth.
    #[must_use]
    pub fn with_reconciled(mut self, reconciled: bool) -> Self {
        self.reconciled = reconciled;
        self
    }

    /// Says what stands between fields.
    #[must_use]
    pub fn with_delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Says how long a file must have been left alone.
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }
}

/// A folder of CSV files as a source: see this module's page.
pub struct CsvFolder {
    settings: Arc<CsvFolderSettings>,
    // All held for a look or a change only, never across an await.
    pins: Mutex<HashMap<StreamKey, Arc<HashMap<String, u32>>>>,
    known: Mutex<HashMap<StreamKey, Known>>,
    prefixes: Arc<Mutex<HashMap<StreamKey, Prefix>>>,
}

/// What a look into a file told, as long as the file stays as it is.
#[derive(Clone)]
struct Known {
    stat: Stat,
    descriptor: StreamDescriptor,
}

/// Bytes that are read for one page in append mode; more where a single line is longer.
const PAGE: u64 = 1 << 20;

/// The most that a first line may be.
const HEADER: u64 = 64 << 10;

impl CsvFolder {
    /// A backend over these files. Looks at nothing yet.
    pub fn new(settings: CsvFolderSettings) -> Self {
        let settings = Arc::new(settings);
        Self { settings, pins: Mutex::default(), known: Mutex::default(), prefixes: Arc::default() }
    }

    /// The file of a stream.
    fn file(&self, key: &StreamKey) -> PathBuf {
        self.settings.path.join(format!("{key}.csv"))
    }

    /// What a file's first line, and the replicates in it, make of it.
    fn describe(&self, key: &StreamKey) -> Result<StreamDescriptor, BackendError> {
        let path = self.file(key);
        let stat = Stat::of(&path)?;
        if let Some(known) = lock(&self.known).get(key).filter(|known| known.stat == stat) {
            return Ok(known.descriptor.clone());
        }
        let file = OpenFile::open(&path)?;
        let header = header_of(&file, key, &self.settings)?;
        let mut descriptor = header.descriptor(key, &self.settings);
        if header.has_replicates() {
            let text = file.part(header.end as u64, u64::MAX)?.bytes;
            descriptor = descriptor.with_replicates(header.replicates(&text));
        }
        if file.stat()? == stat {
            lock(&self.known).insert(key.clone(), Known { stat, descriptor: descriptor.clone() });
        }
        Ok(descriptor)
    }

    /// Waits for files that were written just now, and tells which of them stand still.
    async fn settled(&self, keys: impl Iterator<Item = &StreamKey>) -> HashMap<StreamKey, bool> {
        let stats: Vec<_> = keys.map(|key| (key.clone(), Stat::of(&self.file(key)).ok())).collect();
        let fresh = |stat: &Option<Stat>| stat.as_ref().is_some_and(|stat| stat.is_fresh(self.settings.settle));
        if stats.iter().any(|(_, stat)| fresh(stat)) {
            tokio::time::sleep(self.settings.settle).await;
        }
        let now = |key: &StreamKey, stat: Option<Stat>| !fresh(&stat) || Stat::of(&self.file(key)).ok() == stat;
        stats.into_iter().map(|(key, stat)| (key.clone(), now(&key, stat))).collect()
    }
}

#[async_trait]
impl SourceBackend for CsvFolder {
    fn source_system(&self) -> &str {
        "csv_folder"
    }

    fn reconciled(&self) -> bool {
        self.settings.reconciled
    }

    fn rediscover_every_cycle(&self) -> bool {
        true
    }

    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
        let keys = keys_in(&self.settings.path)?;
        let mut streams = Vec::with_capacity(keys.len());
        for key in &keys {
            match self.describe(key) {
                Ok(descriptor) => streams.push(descriptor),
                // Gone again, or without a first line yet: it is a stream once it has one.
                Err(error) if error.is_retryable() => {}
                // A stream all the same: fetching it tells what is wrong, and withholds no other.
                Err(_) => streams.push(row::bare(key, &self.settings)),
            }
        }
        Ok(streams)
    }

    async fn apply_replicate_assignments(
        &self,
        key: &StreamKey,
        assignments: &[ColumnAssignment],
    ) -> Result<(), BackendError> {
        let pins = assignments.iter().map(|pin| (pin.name.clone(), pin.index)).collect();
        lock(&self.pins).insert(key.clone(), Arc::new(pins));
        Ok(())
    }

    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
        let settled = self.settled(requests.iter().map(StreamFetchRequest::key)).await;
        let mut fetches = Vec::with_capacity(requests.len());
        for request in requests {
            let key = request.key().clone();
            let pins = lock(&self.pins).get(&key).cloned().unwrap_or_default();
            let reading = Reading {
                path: self.file(&key),
                key: key.clone(),
                settings: self.settings.clone(),
                pins,
                prefixes: self.prefixes.clone(),
                settled: settled.get(&key).copied().unwrap_or(false),
                checkpoint: request.checkpoint.as_ref().map(|checkpoint| checkpoint.0.clone()),
                mode: request.mode,
            };
            let page = tokio::task::spawn_blocking(move || reading.page()).await;
            match page.transient().and_then(|page| page) {
                Ok(None) => {}
                Ok(Some(page)) => fetches.push(StreamFetch { stream: key, outcome: Ok(page) }),
                Err(error) => fetches.push(StreamFetch::failed(key, error)),
            }
        }
        Ok(fetches)
    }
}

/// One look into one file, on a thread that may block.
struct Reading {
    path: PathBuf,
    key: StreamKey,
    settings: Arc<CsvFolderSettings>,
    pins: Arc<HashMap<String, u32>>,
    prefixes: Arc<Mutex<HashMap<StreamKey, Prefix>>>,
    settled: bool,
    checkpoint: Option<String>,
    mode: Mode,
}

impl Reading {
    /// The page; `None`: nothing new, or not now.
    fn page(self) -> Result<Option<Page>, BackendError> {
        if self.mode == Mode::Reconciled && !self.settled {
            return Ok(None);
        }
        let file = OpenFile::open(&self.path)?;
        let stat = file.stat()?;
        let header = header_of(&file, &self.key, &self.settings)?;
        match self.mode {
            Mode::Reconciled => {
                let text = file.part(header.end as u64, u64::MAX)?.bytes;
                let lines = header.lines(&text, header.lines, &self.pins, true, true);
                let (payload, refused) = header.everything(lines);
                let page = Page { payload, refused, checkpoint: None, more: false };
                // Somebody wrote to it meanwhile: what was read may be half of each.
                Ok(Some(page).filter(|_| file.stat().is_ok_and(|after| after == stat)))
            }
            Mode::Append => self.next(&file, &header, stat),
        }
    }

    /// What stands behind the checkpoint.
    fn next(&self, file: &OpenFile, header: &Header, stat: Stat) -> Result<Option<Page>, BackendError> {
        let cached = lock(&self.prefixes).remove(&self.key);
        let mut prefix = match &self.checkpoint {
            Some(checkpoint) => Prefix::find(file, checkpoint, cached)?.unwrap_or_else(Prefix::nothing),
            None => Prefix::nothing(),
        };
        let skip = if prefix.end == 0 { (header.end, header.lines) } else { (0, 0) };
        let mut size = PAGE;
        let (text, is_end, lines) = loop {
            let part = file.part(prefix.end, size)?;
            let behind = &part.bytes[skip.0.min(part.bytes.len())..];
            let is_whole = part.is_end && self.settled;
            let lines = header.lines(behind, prefix.lines + skip.1, &self.pins, is_whole, false);
            if lines.end > 0 || part.is_end {
                break (part.bytes, part.is_end, lines);
            }
            size *= 2;
        };
        let read = lines.end;
        if read > 0 {
            prefix.extend(&text[..skip.0 + read], skip.1 + lines.lines, stat);
        }
        let checkpoint = prefix.to_checkpoint();
        lock(&self.prefixes).insert(self.key.clone(), prefix);
        let (payload, refused) = header.some(lines);
        let fetch = StreamFetch::new(self.key.clone(), payload).with_refused(refused);
        match (read > 0, is_end) {
            (false, _) => Ok(None),
            (true, false) => fetch.with_more(checkpoint).outcome.map(Some),
            (true, true) => fetch.with_checkpoint(checkpoint).outcome.map(Some),
        }
    }
}

/// What the first line of a stream's file says.
fn header_of(file: &OpenFile, key: &StreamKey, settings: &CsvFolderSettings) -> Result<Header, BackendError> {
    Header::read(&format!("{key}.csv"), &file.part(0, HEADER)?.bytes, settings)
}

/// The streams in a folder, by name.
fn keys_in(folder: &Path) -> Result<Vec<StreamKey>, BackendError> {
    let at = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => BackendErrorKind::Configuration,
            _ => BackendErrorKind::Transient,
        };
        BackendError::new(kind, format!("the folder can't be read (path={}): {error}", folder.display()))
    };
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some(stem) = name.strip_suffix(".csv").filter(|stem| !stem.is_empty() && !stem.starts_with('.'))
            && path.is_file()
        {
            keys.push(StreamKey::new(stem));
        }
    }
    keys.sort_unstable();
    Ok(keys)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
