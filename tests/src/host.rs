//! The program `millstream`, run as a process that a test may kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::tail;
use crate::http;
use crate::json::Json;
use crate::wait::{PATIENCE, until, until_within};

/// The program: `MILLSTREAM_HOST_BIN`, else the one that was built beside this test. It is built if it is not there.
///
/// # Panics
/// When it can't be built.
pub fn host_bin() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(named) = std::env::var_os("MILLSTREAM_HOST_BIN") {
                return PathBuf::from(named);
            }
            let ours = std::env::current_exe().expect("a program knows its path");
            let mut folder = ours.parent().expect("a program is in a folder");
            if folder.ends_with("deps") {
                folder = folder.parent().expect("deps is in the profile's folder");
            }
            let path = folder.join("millstream");
            if !path.is_file() {
                build(folder);
            }
            path
        })
        .clone()
}

/// Runs the program over a configuration to its end: its code, standard output and standard error.
///
/// # Panics
/// When it can't be run or does not end by itself within a minute.
pub async fn ask(config: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tokio::process::Command::new(host_bin());
    command.args(arguments).arg("--config").arg(config).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = ended.expect("the program ends by itself").expect("the program can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn build(profile: &Path) {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--package", "millstream-host"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().expect("cargo is there").success(), "millstream-host does not build");
}

/// A running host. Dropping it kills it.
#[derive(Debug)]
pub struct Host {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Host {
    /// Starts `millstream run --config …` with its log in `log` (appended) and its answers on `port`.
    pub fn spawn(config: &Path, log: &Path, port: u16) -> Self {
        Self::spawn_with(config, log, port, &[])
    }

    /// The same with more arguments.
    ///
    /// # Panics
    /// When the program can't be run.
    pub fn spawn_with(config: &Path, log: &Path, port: u16, more: &[&str]) -> Self {
        let mut command = Command::new(host_bin());
        command.args(["run", "--config"]).arg(config).args(more);
        Self::spawn_command(command, log, port)
    }

    /// The same for a command made by the caller.
    ///
    /// # Panics
    /// When the program can't be run.
    pub fn spawn_command(mut command: Command, log: &Path, port: u16) -> Self {
        let file = std::fs::File::options().create(true).append(true).open(log).expect("our own folder can be written");
        let stdout = file.try_clone().expect("a file can be shared");
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("the host can't be run ({command:?}): {error}"));
        Self { child, port, log: log.to_owned() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The port of `/status` and the rest.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All that it wrote to stderr, by this host and those before it.
    pub fn log(&self) -> String {
        tail(&self.log, usize::MAX)
    }

    /// Ends it at once, without a chance to do anything: `kill -9`.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Asks it to drain and end (SIGTERM), and waits until it has.
    pub async fn stop(self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn ended(mut self) -> ExitStatus {
        let child = tokio::sync::Mutex::new(&mut self.child);
        until("the host to end", || async { child.lock().await.try_wait().ok().flatten() }).await
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().ok().flatten().is_some()
    }

    /// What `/status` says; `None` when it does not answer.
    pub async fn status(&self) -> Option<Json> {
        let (code, body) = http::get(self.port, "/status").await?;
        (code == 200).then(|| Json::parse(&body).expect("a status is JSON"))
    }

    /// What `/metrics` says; empty when it does not answer.
    pub async fn metrics(&self) -> String {
        http::get(self.port, "/metrics").await.map(|(_, body)| body).unwrap_or_default()
    }

    /// The value of one series; see [`http::metric`].
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        http::metric(&self.metrics().await, name, labels)
    }

    /// Waits until `/status` is as asked.
    ///
    /// # Panics
    /// When it is not within `patience`; shows the last status and the log's end.
    pub async fn until_status(&self, patience: Duration, what: &str, asked: impl Fn(&Json) -> bool) -> Json {
        until_within(patience, format!("the host's status to say: {what}"), || async {
            self.status().await.filter(|status| asked(status))
        })
        .await
    }

    /// Waits until its log holds a text.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn until_log(&self, text: &str) {
        until(format!("the host to log {text:?}"), || async { self.log().contains(text).then_some(()) }).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The state that a status gives an index.
pub fn index_state<'a>(status: &'a Json, index: &str) -> Option<&'a str> {
    status.get("indexes")?.get(index)?.get("state")?.as_text()
}
