//! A throwaway Postgres server: started from a template in a fraction of a second, so that a test may even kill it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::OnceCell;

use crate::account::Account;
use crate::binaries::postgres_bin;
use crate::database::{Connection, Database, connect};
use crate::folder::Folder;
use crate::wait::{until, until_within};

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Clients are thrown out, all is written: `pg_ctl stop -m fast`.
    Fast,
    /// Every process quits at once; the next start recovers from the log: `pg_ctl stop -m immediate`.
    Immediate,
    /// `kill -9` of the postmaster.
    Kill,
}

impl Stop {
    fn signal(self) -> Signal {
        match self {
            Self::Fast => Signal::SIGINT,
            Self::Immediate => Signal::SIGQUIT,
            Self::Kill => Signal::SIGKILL,
        }
    }
}

/// A Postgres server of our own, on `127.0.0.1` and a Unix socket, superuser `postgres` without a password.
///
/// Its processes end and its files go when it is dropped, when a test panics, and when this process is killed.
#[derive(Debug)]
pub struct Cluster {
    account: Account,
    bin: PathBuf,
    port: u16,
    // Held for a look or a change only, never across an await.
    server: Mutex<Option<Child>>,
    // Dropped last: its guard removes what the server left.
    folder: Folder,
}

/// What a cluster should be like before its first start.
#[derive(Clone, Debug, Default)]
pub struct ClusterBuilder {
    conf: String,
    resetwal: Vec<String>,
    fresh: bool,
}

impl ClusterBuilder {
    /// Adds a line to `postgresql.conf`.
    #[must_use]
    pub fn conf(mut self, line: &str) -> Self {
        self.conf.push_str(line);
        self.conf.push('\n');
        self
    }

    /// Runs `pg_resetwal` with these arguments before the first start (`["-e", "3"]` moves the epoch of transaction ids).
    #[must_use]
    pub fn resetwal(mut self, arguments: &[&str]) -> Self {
        self.resetwal = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// Initialises it anew, so that it has a system identifier of its own: copies of the template share one.
    #[must_use]
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Copies the template and starts it.
    ///
    /// # Panics
    /// When the server does not start.
    pub async fn start(self) -> Arc<Cluster> {
        let account = Account::choose();
        let folder = if self.fresh {
            initialised().await
        } else {
            let folder = Folder::owned_by(Some(&account));
            copy(&template().await.path().join("data"), &folder.path().join("data"));
            folder
        };
        let cluster = Cluster::unstarted(account, folder);
        cluster.configure(COMMON);
        cluster.configure(&self.conf);
        if !self.resetwal.is_empty() {
            let mut command = account.command(&cluster.bin.join("pg_resetwal"));
            run(command.args(&self.resetwal).arg("-D").arg(cluster.data()));
        }
        cluster.start().await;
        Arc::new(cluster)
    }
}

/// Small, quick and roomy: what every test needs.
const COMMON: &str = "
wal_level = logical
fsync = off
synchronous_commit = on
full_page_writes = off
max_replication_slots = 100
max_wal_senders = 100
max_connections = 300
shared_buffers = 64MB
max_wal_size = 2GB
autovacuum_naptime = 5s
log_min_messages = warning
log_line_prefix = '%m [%p] %a '
listen_addresses = '127.0.0.1'
";

impl Cluster {
    /// One with settings of its own.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// The one that this process's tests share, each in a database of its own.
    ///
    /// A test that keeps a transaction open, restarts the server or changes its settings takes its own: a slot is only made
    /// once every transaction of the *server* that was open has ended.
    pub async fn shared() -> Arc<Self> {
        static SHARED: OnceCell<Arc<Cluster>> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::builder().start()).await.clone()
    }

    /// Whether the server comes with `pg_resetwal`.
    pub fn has_resetwal() -> bool {
        postgres_bin().join("pg_resetwal").is_file()
    }

    fn unstarted(account: Account, folder: Folder) -> Self {
        let sockets = folder.path().join("sockets");
        std::fs::create_dir(&sockets).expect("our own folder can be written");
        account.own(&sockets);
        let cluster = Self { account, bin: postgres_bin(), port: free_port(), server: Mutex::new(None), folder };
        cluster.configure(&format!("port = {}\nunix_socket_directories = '{}'\n", cluster.port, sockets.display()));
        cluster
    }

    /// The port on `127.0.0.1`.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A URL of one of its databases, for a role that needs no password unless `pg_hba` says so.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// The server's major version.
    pub fn major(&self) -> u32 {
        let text = std::fs::read_to_string(self.data().join("PG_VERSION")).expect("a cluster knows its version");
        text.trim().parse().expect("a major version is a number")
    }

    /// Adds lines to `postgresql.conf`; they count from the next start or [`reload`](Self::reload).
    pub fn configure(&self, lines: &str) {
        append(&self.data().join("postgresql.conf"), lines);
    }

    /// Puts lines *before* those of `pg_hba.conf`, where the first match wins.
    pub fn authenticate(&self, lines: &str) {
        let path = self.data().join("pg_hba.conf");
        let rest = std::fs::read_to_string(&path).expect("a cluster has pg_hba.conf");
        std::fs::write(&path, format!("{lines}\n{rest}")).expect("our own folder can be written");
    }

    /// Makes the running server read its files again.
    pub async fn reload(&self) {
        let mut connection = self.connect("postgres").await;
        connection.run("select pg_reload_conf()").await;
    }

    /// A connection as the superuser.
    pub async fn connect(&self, database: &str) -> Connection {
        connect(&self.url("postgres", database)).await.expect("the cluster takes connections")
    }

    /// A new database with a name made of `name`, which tests choose after themselves.
    pub async fn database(self: &Arc<Self>, name: &str) -> Database {
        Database::create(self.clone(), name).await
    }

    /// Starts the server and waits until it takes connections.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn start(&self) {
        // After a kill -9 the old processes may still hold the shared memory for a moment: try again.
        for _ in 0..50 {
            self.spawn();
            if self.came_up().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the server does not start; its log:\n{}", self.log_tail());
    }

    fn spawn(&self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("our own folder can be written");
        let mut command = self.account.command(&self.bin.join("postgres"));
        command.arg("-D").arg(self.data()).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().expect("the server's program can be run");
        *self.server() = Some(child);
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once it takes connections, false if it ended instead.
    async fn came_up(&self) -> bool {
        until("the server to take connections", || async {
            let ended = match self.server().as_mut() {
                Some(child) => child.try_wait().ok().flatten().is_some(),
                None => true,
            };
            if ended {
                return Some(false);
            }
            connect(&self.url("postgres", "postgres")).await.ok().map(|_| true)
        })
        .await
    }

    /// Ends the server and waits until it has ended; returns how long that took.
    ///
    /// # Panics
    /// When it has not ended within a minute.
    pub async fn stop(&self, how: Stop) -> Duration {
        let began = std::time::Instant::now();
        self.signal(how);
        until("the server to end", || async {
            match self.server().as_mut() {
                Some(child) => child.try_wait().ok().flatten().map(|_| ()),
                None => Some(()),
            }
        })
        .await;
        *self.server() = None;
        began.elapsed()
    }

    /// Tells the server to end and does not wait.
    pub fn signal(&self, how: Stop) {
        if let Some(child) = self.server().as_ref() {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(child.id() as i32), how.signal());
        }
    }

    /// Ends it and starts it again.
    pub async fn restart(&self, how: Stop) {
        self.stop(how).await;
        self.start().await;
    }

    /// A standby that streams from this server, with these lines in its `postgresql.conf`. Sessions may be lost meanwhile.
    ///
    /// # Panics
    /// When it can't be made.
    pub async fn standby(&self, conf: &str) -> Arc<Self> {
        let folder = Folder::owned_by(Some(&self.account));
        if self.bin.join("pg_basebackup").is_file() {
            let mut command = self.account.command(&self.bin.join("pg_basebackup"));
            command.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "stream", "-R", "-c", "fast", "-p"]);
            command.arg(self.port.to_string()).arg("-D").arg(folder.path().join("data"));
            tokio::task::spawn_blocking(move || run(&mut command)).await.expect("a backup does not panic");
        } else {
            self.copy_for_standby(&folder).await;
        }
        let standby = Self::unstarted(self.account, folder);
        standby.configure(conf);
        standby.start().await;
        Arc::new(standby)
    }

    /// What `pg_basebackup` makes, for servers that come without it: stopped for a moment and copied, without its slots.
    async fn copy_for_standby(&self, folder: &Folder) {
        self.stop(Stop::Fast).await;
        let data = folder.path().join("data");
        copy(&self.data(), &data);
        self.start().await;
        for slot in std::fs::read_dir(data.join("pg_replslot")).expect("a cluster has its folders").flatten() {
            std::fs::remove_dir_all(slot.path()).expect("our own folder can be written");
        }
        std::fs::write(data.join("standby.signal"), "").expect("our own folder can be written");
        let primary = format!("primary_conninfo = 'host=127.0.0.1 port={} user=postgres'", self.port);
        append(&data.join("postgresql.conf"), &primary);
    }

    /// Copies the data folder of a stopped server to another folder.
    pub fn save_to(&self, folder: &Folder) {
        assert!(self.server().is_none(), "only a stopped server is copied");
        copy(&self.data(), &folder.path().join("saved"));
    }

    /// Puts back what [`save_to`](Self::save_to) saved: the server goes back in time.
    pub fn restore_from(&self, folder: &Folder) {
        assert!(self.server().is_none(), "only a stopped server is replaced");
        std::fs::remove_dir_all(self.data()).expect("our own folder can be removed");
        copy(&folder.path().join("saved"), &self.data());
    }

    /// The end of the server's log, for a failed test's output.
    pub fn log_tail(&self) -> String {
        tail(&self.folder.path().join("log"), 40)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.signal(Stop::Immediate);
        if let Some(mut child) = self.server().take() {
            // SIGQUIT does not wait for anything; should it fail, the guard kills it a moment later.
            let _ = child.wait();
        }
    }
}

/// An initialised cluster that never ran, made once a process.
async fn template() -> &'static Folder {
    static TEMPLATE: OnceCell<Folder> = OnceCell::const_new();
    TEMPLATE.get_or_init(initialised).await
}

async fn initialised() -> Folder {
    let made = tokio::task::spawn_blocking(|| {
        let account = Account::choose();
        let folder = Folder::owned_by(Some(&account));
        let mut command = account.command(&postgres_bin().join("initdb"));
        command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"]);
        run(command.arg(folder.path().join("data")));
        folder
    });
    made.await.expect("initdb does not panic")
}

/// Runs a program to its end.
fn run(command: &mut std::process::Command) {
    let output = command.current_dir("/").stdin(Stdio::null()).output().expect("the server's programs can be run");
    assert!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Copies a folder with its owners.
fn copy(from: &Path, to: &Path) {
    run(std::process::Command::new("cp").arg("-a").arg(from).arg(to));
}

fn append(path: &Path, lines: &str) {
    let mut text = std::fs::read_to_string(path).expect("a cluster has its files");
    writeln!(text, "\n{lines}").expect("a string takes anything");
    std::fs::write(path, text).expect("our own folder can be written");
}

/// A port that nobody listens on, outside the range from which systems take outgoing ones.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start.wrapping_add(step.wrapping_mul(7))) % COUNT;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// The last lines of a file, or nothing.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Waits until a condition of SQL holds on a connection.
///
/// # Panics
/// When it does not within `patience`.
pub async fn until_sql(connection: &mut Connection, patience: Duration, condition: &str) {
    let connection = tokio::sync::Mutex::new(connection);
    until_within(patience, condition, || async { connection.lock().await.flag(condition).await.then_some(()) }).await;
}
