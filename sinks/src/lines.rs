//! A file of whole lines that only grows, safe against crashes, full disks and other processes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::{can_create, create_parents, file_error, sync_folder};
use crate::{Result, SinkError};

/// What a [`LinesFile`] asks of a file. Tests put failing ones in its place.
pub(crate) trait Disk: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Its length, and whether it is still the one that its name leads to.
    fn look(&mut self) -> io::Result<(u64, bool)>;
}

/// A file, and the path by which others find it.
struct Named {
    file: File,
    path: PathBuf,
}

impl Disk for Named {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn look(&mut self) -> io::Result<(u64, bool)> {
        let ours = self.file.metadata()?;
        let named = match fs::metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) == (ours.dev(), ours.ino()),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        Ok((ours.len(), named))
    }
}

/// A file of whole lines that only grows. Held under an advisory lock while it is open.
///
/// [`append`](Self::append) makes lines durable or leaves none of them behind. An fsync that failed is final: the kernel may
/// have dropped what it could not write, so nothing later can be trusted until the file is opened anew.
pub(crate) struct LinesFile {
    path: PathBuf,
    disk: Box<dyn Disk>,
    durable: u64,
    // A write that failed, and why: what it left behind the durable lines is cut off before the next one.
    torn: Option<String>,
    broken: Option<String>,
}

impl LinesFile {
    /// Opens a file, or creates it and the folders above it, and locks it.
    ///
    /// # Errors
    /// `Held` when another process has it open, `Setup` when it can't be opened.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        refuse_unfit(path)?;
        create_parents(path).map_err(|error| file_error("create the folders above the file", path, error))?;
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| file_error("open the file", path, error))?;
        locked(path, file.try_lock())?;
        sync_folder(path).map_err(|error| file_error("fsync the file's folder", path, error))?;
        let length = file.metadata().map_err(|error| file_error("look at the file", path, error))?.len();
        Ok(Self::over(path, Box::new(Named { file, path: path.to_owned() }), length))
    }

    /// Looks whether [`open`](Self::open) would go well. Makes nothing, and holds nothing afterwards.
    ///
    /// # Errors
    /// As `open`.
    pub(crate) fn inspect(path: &Path) -> Result<()> {
        refuse_unfit(path)?;
        if !path.try_exists().map_err(|error| file_error("look at the file", path, error))? {
            return can_create(path).map_err(|error| file_error("create the file", path, error));
        }
        let file = OpenOptions::new().read(true).append(true).open(path);
        let file = file.map_err(|error| file_error("open the file", path, error))?;
        // Shared, so that two who look do not see each other.
        locked(path, file.try_lock_shared())
    }

    /// The same over any disk that holds `length` durable bytes.
    pub(crate) fn over(path: &Path, disk: Box<dyn Disk>, length: u64) -> Self {
        Self { path: path.to_owned(), disk, durable: length, torn: None, broken: None }
    }

    /// Bytes that are durable: the offset behind the last whole line.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Ok unless an earlier fault was final.
    pub(crate) fn check(&self) -> Result<()> {
        self.broken.as_ref().map_or(Ok(()), |message| Err(SinkError::broken(message.clone())))
    }

    /// Cuts the file back to `length` bytes, durably.
    pub(crate) fn cut_back(&mut self, length: u64) -> Result<()> {
        if length == self.durable {
            return Ok(());
        }
        self.disk.cut(length).map_err(|error| file_error("cut the file back", &self.path, error))?;
        self.durable = length;
        self.sync()
    }

    /// Writes whole lines with one call and makes them durable.
    ///
    /// # Errors
    /// `Retry`: none of the lines is there (a full disk). `Broken`: the file can't be trusted any more.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.check()?;
        self.mend()?;
        self.torn = Some("it broke off".to_owned());
        if let Err(error) = self.disk.append(lines) {
            // If even this fails, the next write tries it again first.
            self.torn = self.disk.cut(self.durable).is_err().then(|| error.to_string());
            return Err(file_error("write to the file", &self.path, error));
        }
        self.sync()?;
        self.durable += lines.len() as u64;
        self.torn = None;
        Ok(())
    }

    /// Brings the file back to its durable length, and notices when somebody else changed it.
    fn mend(&mut self) -> Result<()> {
        if let Some(why) = &self.torn {
            let doing = format!("cut the file back after a write had failed ({why})");
            self.disk.cut(self.durable).map_err(|error| file_error(&doing, &self.path, error))?;
            self.torn = None;
        }
        let (length, named) = self.disk.look().map_err(|error| file_error("look at the file", &self.path, error))?;
        let path = self.path.display();
        if !named {
            return self.give_up(format!(
                "the file was deleted, or another put in its place, while it was being written (path={path})"
            ));
        }
        if length != self.durable {
            let durable = self.durable;
            return self.give_up(format!(
                "the file was changed by somebody else (path={path}, bytes={length}, expected={durable})"
            ));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let Err(error) = self.disk.sync() else { return Ok(()) };
        let path = self.path.display();
        self.give_up(format!("fsync failed, so what was written may be lost (path={path}): {error}"))
    }

    fn give_up(&mut self, message: String) -> Result<()> {
        self.broken = Some(message.clone());
        Err(SinkError::broken(message))
    }
}

/// Refuses what can't be a file of lines, before anything is opened: a pipe would never be done with opening.
fn refuse_unfit(path: &Path) -> Result<()> {
    let unfit = |what: &str| {
        SinkError::setup(format!("{what}: name a file, or `-` for standard output (path={})", path.display()))
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(unfit("this is a folder")),
        Ok(metadata) if !metadata.is_file() => Err(unfit("this is no file but a pipe or a device")),
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
            Err(unfit("this is a symbolic link that leads nowhere"))
        }
        _ if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(unfit("this is a folder's name")),
        _ => Ok(()),
    }
}

fn locked(path: &Path, lock: Result<(), TryLockError>) -> Result<()> {
    match lock {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let message = format!(
                "the file is in use by another process: stop that one or name another file (path={})",
                path.display()
            );
            Err(SinkError::held(message))
        }
        Err(TryLockError::Error(error)) => Err(file_error("lock the file", path, error)),
    }
}

/// The file's bytes behind its last line break: a line that was never finished. Reads from the end, a page at a time.
pub(crate) fn unfinished_line(path: &Path) -> io::Result<Vec<u8>> {
    const PAGE: u64 = 64 * 1024;
    let mut file = File::open(path)?;
    let mut start = file.metadata()?.len();
    let mut tail = Vec::new();
    while start > 0 {
        let length = start.min(PAGE);
        start -= length;
        file.seek(SeekFrom::Start(start))?;
        let mut page = Vec::new();
        Read::by_ref(&mut file).take(length).read_to_end(&mut page)?;
        let line_break = page.iter().rposition(|byte| *byte == b'\n');
        let mut found = page.split_off(line_break.map_or(0, |at| at + 1));
        found.append(&mut tail);
        tail = found;
        if line_break.is_some() {
            break;
        }
    }
    Ok(tail)
}

/// True when the file has at least `offset` bytes and a line ends there.
pub(crate) fn ends_a_line_at(path: &Path, offset: u64) -> io::Result<bool> {
    if offset == 0 {
        return Ok(true);
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset - 1))?;
    let mut byte = [0];
    match file.read_exact(&mut byte) {
        Ok(()) => Ok(byte == *b"\n"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::SinkErrorKind;

    /// A disk in memory: holds `room` bytes, and fails when told.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<FakeState>>);

    #[derive(Default)]
    struct FakeState {
        bytes: Vec<u8>,
        room: usize,
        sync_fails: bool,
        cut_fails: bool,
    }

    impl Disk for Fake {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut state = self.0.lock().unwrap();
            let fits = bytes.len().min(state.room - state.bytes.len());
            state.bytes.extend_from_slice(&bytes[..fits]);
            if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn sync(&mut self) -> io::Result<()> {
            if self.0.lock().unwrap().sync_fails { Err(io::Error::other("gone")) } else { Ok(()) }
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            let mut state = self.0.lock().unwrap();
            if state.cut_fails {
                return Err(io::Error::other("not now"));
            }
            state.bytes.truncate(length as usize);
            Ok(())
        }

        fn look(&mut self) -> io::Result<(u64, bool)> {
            Ok((self.0.lock().unwrap().bytes.len() as u64, true))
        }
    }

    fn fake(room: usize) -> (Fake, LinesFile) {
        let fake = Fake::default();
        fake.0.lock().unwrap().room = room;
        (fake.clone(), LinesFile::over(Path::new("x"), Box::new(fake), 0))
    }

    #[test]
    fn a_full_disk_leaves_no_torn_line_and_may_be_tried_again() {
        let (fake, mut lines) = fake(10);
        lines.append(b"12345\n").unwrap();
        let error = lines.append(b"67890\n").unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Retry);
        assert_eq!(fake.0.lock().unwrap().bytes, b"12345\n");
        fake.0.lock().unwrap().room = 100;
        lines.append(b"67890\n").unwrap();
        assert_eq!(fake.0.lock().unwrap().bytes, b"12345\n67890\n");
    }

    #[test]
    fn a_file_that_takes_no_write_and_can_not_be_cut_names_the_first_fault() {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().read(true).append(true).open(&path).unwrap();
        let mut lines = LinesFile::over(&path, Box::new(Named { file, path: path.clone() }), 0);
        for _ in 0..2 {
            let error = lines.append(b"x\n").unwrap_err().to_string();
            assert_eq!(error.matches("No space left on device").count(), 1, "{error}");
        }
    }

    #[test]
    fn a_torn_line_that_could_not_be_cut_off_is_cut_before_the_next_write() {
        let (fake, mut lines) = fake(8);
        lines.append(b"12345\n").unwrap();
        fake.0.lock().unwrap().cut_fails = true;
        assert_eq!(lines.append(b"67890\n").unwrap_err().kind(), SinkErrorKind::Retry);
        assert_eq!(fake.0.lock().unwrap().bytes, b"12345\n67");
        fake.0.lock().unwrap().room = 100;
        assert_eq!(lines.append(b"67890\n").unwrap_err().kind(), SinkErrorKind::Retry);
        fake.0.lock().unwrap().cut_fails = false;
        lines.append(b"67890\n").unwrap();
        assert_eq!(fake.0.lock().unwrap().bytes, b"12345\n67890\n");
    }

    #[test]
    fn a_failed_fsync_is_final() {
        let (fake, mut lines) = fake(100);
        fake.0.lock().unwrap().sync_fails = true;
        let first = lines.append(b"1\n").unwrap_err();
        fake.0.lock().unwrap().sync_fails = false;
        let second = lines.append(b"2\n").unwrap_err();
        assert_eq!((first.kind(), second.kind()), (SinkErrorKind::Broken, SinkErrorKind::Broken));
        assert_eq!(first.to_string(), second.to_string());
        assert_eq!(lines.durable(), 0);
    }

    #[test]
    fn a_file_that_somebody_cut_or_deleted_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/x.jsonl");
        let mut lines = LinesFile::open(&path).unwrap();
        lines.append(b"1\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let error = lines.append(b"2\n").unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Broken);
        assert!(error.to_string().contains("bytes=0, expected=2"), "{error}");
        drop(lines);
        let mut lines = LinesFile::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(lines.append(b"2\n").unwrap_err().to_string().contains("deleted"));
        let mut lines = LinesFile::open(&path).unwrap();
        fs::rename(&path, folder.path().join("rotated")).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(lines.append(b"2\n").unwrap_err().kind(), SinkErrorKind::Broken);
        assert!(LinesFile::open(&path).unwrap().append(b"2\n").is_ok());
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/nowhere/at/all", at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [at("link"), at("pipe"), at("docs.jsonl/"), at("."), PathBuf::from("/dev/null")] {
            for error in [LinesFile::inspect(&path).unwrap_err(), LinesFile::open(&path).err().unwrap()] {
                assert_eq!(error.kind(), SinkErrorKind::Setup, "{error}");
            }
        }
        assert!(LinesFile::inspect(&at("new")).is_ok() && !at("new").exists());
    }

    #[test]
    fn a_file_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let lines = LinesFile::open(&path).unwrap();
        let error = LinesFile::open(&path).err().expect("the file is locked");
        assert_eq!(error.kind(), SinkErrorKind::Held);
        assert!(error.to_string().contains("in use by another process"), "{error}");
        drop(lines);
        assert!(LinesFile::open(&path).is_ok());
    }

    #[test]
    fn the_unfinished_line_is_found_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let long = vec![b'a'; 200_000];
        for (contents, expected) in [
            (b"".to_vec(), b"".to_vec()),
            (b"1\n2\n".to_vec(), b"".to_vec()),
            (b"1\n2".to_vec(), b"2".to_vec()),
            (b"12".to_vec(), b"12".to_vec()),
            ([b"1\n".as_slice(), &long].concat(), long.clone()),
        ] {
            fs::write(&path, &contents).unwrap();
            assert_eq!(unfinished_line(&path).unwrap(), expected);
        }
    }
}
