use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use crate::{Progress, Result, SinkError};

/// Standard output. Every method blocks.
pub(super) struct StdoutStore {
    out: Option<Out>,
    /// For another run of this process, to the same reader; gone with it.
    progress: Option<Progress>,
    broken: Option<String>,
}

struct Out {
    file: File,
    /// A regular file, which fsync makes durable; a pipe or a terminal has no such thing.
    syncs: bool,
}

impl StdoutStore {
    pub(super) fn new() -> Self {
        Self { out: None, progress: None, broken: None }
    }

    #[cfg(test)]
    pub(super) fn over(file: File) -> Self {
        let out = Out::over(file).expect("it was just opened");
        Self { out: Some(out), ..Self::new() }
    }

    pub(super) fn ready(&mut self) -> Result<()> {
        self.opened().map(|_| ())
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> Result<()> {
        let out = self.opened()?;
        let written = out.file.write_all(lines);
        let written = written.and_then(|()| if out.syncs { out.file.sync_data() } else { Ok(()) });
        let Err(error) = written else { return Ok(()) };
        let message = match error.kind() {
            ErrorKind::BrokenPipe => "standard output is closed: its reader went away".to_owned(),
            _ => format!("standard output can't be written to: {error}"),
        };
        self.broken = Some(message.clone());
        Err(SinkError::gone(message))
    }

    pub(super) fn load(&self) -> Option<Progress> {
        self.progress.clone()
    }

    pub(super) fn save(&mut self, progress: Progress) -> Result<()> {
        self.opened()?;
        self.progress = Some(progress);
        Ok(())
    }

    /// Does nothing: standard output is the process's, not ours to close, and a fault of it stays one.
    pub(super) fn close(&mut self) {}

    fn opened(&mut self) -> Result<&mut Out> {
        if let Some(message) = &self.broken {
            return Err(SinkError::gone(message.clone()));
        }
        if self.out.is_none() {
            // A descriptor of our own, past std's line buffer: a batch is one write call.
            let file = io::stdout().as_fd().try_clone_to_owned().map(File::from).and_then(Out::over);
            let out = file.map_err(|error| SinkError::setup("standard output is not open").with_cause(error))?;
            return Ok(self.out.insert(out));
        }
        Ok(self.out.as_mut().expect("checked just above"))
    }
}

impl Out {
    fn over(file: File) -> io::Result<Self> {
        let syncs = file.metadata()?.is_file();
        Ok(Self { file, syncs })
    }
}
