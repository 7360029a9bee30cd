//! A Postgres cluster of a test's own, gone with it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use millstream_postgres::PostgresSettings;
use millstream_postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection, Row};

/// A running server.
pub struct Cluster {
    folder: tempfile::TempDir,
    port: u16,
}

fn binaries() -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .expect("a Postgres is installed")
        .map(|entry| entry.unwrap().path().join("bin"))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    found.sort();
    std::env::var_os("MILLSTREAM_TEST_PG_BIN").map(PathBuf::from).or_else(|| found.pop()).expect("initdb is there")
}

/// Postgres refuses to run as root: then as the user `postgres`.
fn unprivileged() -> Option<u32> {
    let id = |args: &[&str]| {
        let output = Command::new("id").args(args).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    if id(&["-u"])? == 0 { id(&["-u", "postgres"]).or(Some(65534)) } else { None }
}

fn run(program: &str, args: &[&str]) {
    let mut command = Command::new(binaries().join(program));
    command.args(args).stdout(Stdio::null()).current_dir("/");
    if let Some(user) = unprivileged() {
        command.uid(user);
    }
    let status = command.status().unwrap();
    assert!(status.success(), "{program} {args:?} failed");
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        // Processes that run side by side have neighbouring numbers: spread them.
        let spread = (std::process::id().wrapping_mul(97) % 12_000) as u16;
        let port = 20_000 + spread + NEXT.fetch_add(1, Ordering::Relaxed) % 90;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Cluster {
    /// Starts one with logical replication and these further lines of configuration.
    pub fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(user) = unprivileged() {
            std::os::unix::fs::chown(folder.path(), Some(user), None).unwrap();
        }
        let cluster = Self { folder, port: free_port() };
        let data = cluster.data();
        run("initdb", &["-D", &data, "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C"]);
        let settings = format!(
            "\nwal_level=logical\nfsync=off\nport={}\nlisten_addresses='127.0.0.1'\nunix_socket_directories='{}'\n\
             max_prepared_transactions=5\n{more}\n",
            cluster.port,
            cluster.folder.path().display()
        );
        let file = Path::new(&data).join("postgresql.conf");
        let old = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, old + &settings).unwrap();
        cluster.start_again();
        cluster
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// Starts it after a stop.
    pub fn start_again(&self) {
        let log = self.folder.path().join("log").display().to_string();
        run("pg_ctl", &["-D", &self.data(), "-l", &log, "-w", "start"]);
    }

    /// Stops it: `fast` or `immediate`.
    pub fn stop(&self, mode: &str) {
        run("pg_ctl", &["-D", &self.data(), "-m", mode, "-w", "-t", "20", "stop"]);
    }

    /// From now on every role but `postgres` needs its password.
    pub fn ask_for_passwords(&self) {
        let rules = "local all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n\
             host replication all all scram-sha-256\n";
        std::fs::write(Path::new(&self.data()).join("pg_hba.conf"), rules).unwrap();
        run("pg_ctl", &["-D", &self.data(), "reload"]);
    }

    /// Offers TLS for the name `localhost` from the next reload on; gives the authority's certificate.
    pub fn offer_tls(&self) -> PathBuf {
        let folder = self.folder.path();
        let script = "set -e; cd \"$1\"; export RANDFILE=$1/rnd
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=authority 2>/dev/null
            openssl req -newkey rsa:2048 -nodes -keyout data/server.key -out s.csr -subj /CN=localhost 2>/dev/null
            printf 'subjectAltName=DNS:localhost' > ext
            openssl x509 -req -in s.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext \
              -out data/server.crt 2>/dev/null
            chmod 600 data/server.key; echo 'ssl=on' >> data/postgresql.conf";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(folder).current_dir("/");
        if let Some(user) = unprivileged() {
            command.uid(user);
        }
        assert!(command.status().unwrap().success(), "openssl made no certificates");
        folder.join("ca.crt")
    }

    /// Where it is.
    pub fn settings(&self) -> PostgresSettings {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port).parse().unwrap()
    }

    /// The folder of its Unix socket.
    pub fn socket(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// A session of the application's.
    pub async fn session(&self) -> Session {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres?application_name=application", self.port);
        Session(PgConnection::connect(&url).await.unwrap())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut command = Command::new(binaries().join("pg_ctl"));
        command.args(["-D", &self.data(), "-m", "immediate", "stop"]).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(user) = unprivileged() {
            command.uid(user);
        }
        let _ = command.current_dir("/").status();
    }
}

/// A session of the application's.
pub struct Session(PgConnection);

impl Session {
    /// Runs statements.
    pub async fn run(&mut self, sql: &str) {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Runs statements that may fail.
    pub async fn try_run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await.map(|_| ())
    }

    /// The first column of each row, as text.
    pub async fn texts(&mut self, sql: &str) -> Vec<String> {
        let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.0).await.unwrap();
        rows.iter().map(|row| row.try_get_unchecked::<String, _>(0).unwrap_or_default()).collect()
    }
}
