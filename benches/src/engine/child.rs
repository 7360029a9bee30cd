use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Event, Sample};
use crate::Result;

/// How long the engine may be silent before the bench gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long anything that is waited for may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// How the engine is run.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The configuration file.
    pub config: PathBuf,
    /// `null`, or a file of JSON Lines.
    pub sink: PathBuf,
    /// Touch nothing.
    pub capture_only: bool,
    /// Tell of every document.
    pub each: bool,
}

/// An engine in a process of its own. Dropping it kills it.
pub struct EngineProcess {
    child: Child,
    stdin: ChildStdin,
    events: mpsc::UnboundedReceiver<Event>,
    reader: JoinHandle<()>,
    samples: Vec<Sample>,
    log: PathBuf,
}

impl EngineProcess {
    /// Starts it: this program once more, with its `engine` verb. What it logs goes into `log`.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(options: &EngineOptions, log: &Path) -> Result<Self> {
        let program = program()?;
        let file = std::fs::File::options().create(true).append(true).open(log);
        let file = file.map_err(|error| format!("can't write the engine's log (path={}): {error}", log.display()))?;
        let mut command = Command::new(&program);
        command.arg("engine").arg("--config").arg(&options.config).arg("--sink").arg(&options.sink);
        command.arg("--progress").arg(options.config.parent().unwrap_or(Path::new(".")));
        command.args(options.capture_only.then_some("--capture-only")).args(options.each.then_some("--each"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| format!("can't start the engine (program={}): {error}", program.display()))?;
        let stdin = child.stdin.take().expect("it was asked for");
        let stdout = child.stdout.take().expect("it was asked for");
        let (tx, events) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(BufReader::new(stdout).lines(), tx));
        Ok(Self { child, stdin, events, reader, samples: Vec::new(), log: log.to_owned() })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// The next event; samples are kept aside, and count as a sign of life.
    ///
    /// # Errors
    /// When the engine has ended or is silent for too long.
    pub async fn event(&mut self) -> Result<Event> {
        loop {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await {
                Err(_) => return Err(self.failed(&format!("the engine was silent for {} s", PATIENCE.as_secs()))),
                Ok(None) => return Err(self.failed("the engine ended without a word")),
                Ok(Some(Event::Ended(why))) => return Err(self.failed(&format!("the engine ended: {why}"))),
                Ok(Some(Event::Sample(sample))) => {
                    // Whoever starts again measures nothing any more.
                    if sample.status["restarts"].as_u64().is_some_and(|restarts| restarts > 0) {
                        return Err(self.failed(&format!("the engine failed: {}", sample.status["last_error"])));
                    }
                    self.samples.push(*sample);
                }
                Ok(Some(event)) => return Ok(event),
            }
        }
    }

    /// The event that is waiting, if any.
    pub fn waiting(&mut self) -> Option<Event> {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Sample(sample) => self.samples.push(*sample),
                event => return Some(event),
            }
        }
        None
    }

    /// Waits for an event that `wanted` takes; others are dropped.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub async fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> Result<T> {
        let search = async {
            loop {
                let event = self.event().await?;
                if let Some(found) = wanted(&event) {
                    return Ok(found);
                }
            }
        };
        let found = tokio::time::timeout(LONGEST, search).await;
        found.unwrap_or_else(|_| Err(format!("waited {} s in vain for {what}", LONGEST.as_secs())))
    }

    /// Waits until the live stream runs; when that was.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub async fn until_running(&mut self) -> Result<u64> {
        self.until("the engine to run", |event| match event {
            Event::Running(at) => Some(*at),
            _ => None,
        })
        .await
    }

    /// Waits until each of these indexes was filled; when the first began and when the last was done.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub async fn until_filled(&mut self, indexes: &[String]) -> Result<(u64, u64)> {
        let (mut began, mut done) = (u64::MAX, Vec::new());
        self.until("every index to be filled", |event| {
            match event {
                Event::Begun(_, at) => began = began.min(*at),
                Event::Finished(index, at) if indexes.contains(index) => done.push(*at),
                _ => {}
            }
            (done.len() == indexes.len()).then(|| (began, done.iter().copied().max().unwrap_or(began)))
        })
        .await
    }

    /// Waits until a position is confirmed; when that was seen, and when the last document was written.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub async fn until_confirmed(&mut self, position: u64) -> Result<(u64, u64)> {
        self.say(&format!("until {position}")).await?;
        self.until("the position to be confirmed", |event| match event {
            Event::Reached { at, last_write } => Some((*at, *last_write)),
            _ => None,
        })
        .await
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// When it does not listen any more.
    pub async fn say(&mut self, line: &str) -> Result {
        let written = self.stdin.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| self.failed(&format!("the engine does not listen: {error}")))
    }

    /// The samples taken so far, the oldest first.
    pub fn samples(&mut self) -> &[Sample] {
        &self.samples
    }

    /// Lets it drain and end; gives all its samples, the last of them taken at its end.
    ///
    /// # Errors
    /// When it does not end cleanly.
    pub async fn stop(mut self) -> Result<Vec<Sample>> {
        self.say("stop").await?;
        loop {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await {
                Ok(Some(Event::Sample(sample))) => self.samples.push(*sample),
                Ok(Some(Event::Ended(why))) if why.contains("Clean") => break,
                Ok(Some(Event::Ended(why))) => return Err(self.failed(&format!("the engine did not drain: {why}"))),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(self.failed("the engine did not say that it had ended")),
            }
        }
        let status = self.child.wait().await.map_err(|error| error.to_string())?;
        if status.success() { Ok(std::mem::take(&mut self.samples)) } else { Err(self.failed("the engine failed")) }
    }

    fn failed(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        format!("{what}; the end of its log:\n{tail}")
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// This program.
fn program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| format!("a program does not know its path: {error}"))
}

async fn read<R: AsyncRead + Unpin>(mut lines: Lines<BufReader<R>>, tx: mpsc::UnboundedSender<Event>) {
    while let Ok(Some(line)) = lines.next_line().await {
        let event = match line.strip_prefix("sample ") {
            Some(head) => sample(head, &mut lines).await,
            None => Event::parse(&line),
        };
        if let Some(event) = event
            && tx.send(event).is_err()
        {
            return;
        }
    }
}

async fn sample<R: AsyncRead + Unpin>(head: &str, lines: &mut Lines<BufReader<R>>) -> Option<Event> {
    let (at, count) = head.split_once(' ')?;
    let status = lines.next_line().await.ok()??;
    let mut metrics = String::new();
    for _ in 0..count.parse::<usize>().ok()? {
        metrics.push_str(&lines.next_line().await.ok()??);
        metrics.push('\n');
    }
    Some(Event::Sample(Box::new(Sample::parse(at.parse().ok()?, &status, &metrics))))
}
