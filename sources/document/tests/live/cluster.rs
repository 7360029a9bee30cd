//! A Postgres of a test's own, gone when it is dropped.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millstream_postgres::{Connections, PostgresSettings, sqlx};
use nix::unistd::{Uid, User};
use tempfile::TempDir;

/// A running server on a socket in a folder of its own.
pub struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// Makes and starts one.
    pub fn start() -> Self {
        let cluster = Self::empty();
        let data = cluster.data();
        run(&["initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D", &data]);
        cluster.serve();
        cluster
    }

    /// A standby of this one, that follows it.
    pub fn standby(&self) -> Self {
        let cluster = Self::empty();
        let socket = self.folder.path().display().to_string();
        run(&[
            "pg_basebackup",
            "-h",
            &socket,
            "-U",
            "postgres",
            "-c",
            "fast",
            "-R",
            "--no-sync",
            "-D",
            &cluster.data(),
        ]);
        cluster.serve();
        cluster
    }

    fn empty() -> Self {
        let folder = tempfile::Builder::new().prefix("millstream-document-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        if let Some(user) = unprivileged() {
            chown(folder.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        }
        Self { folder }
    }

    fn serve(&self) {
        let options = format!(
            "-k {} -c listen_addresses= -c fsync=off -c wal_level=logical -c max_connections=30",
            self.folder.path().display()
        );
        let log = self.folder.path().join("log").display().to_string();
        run(&["pg_ctl", "-w", "-D", &self.data(), "-l", &log, "-o", &options, "start"]);
    }

    /// Connections as the superuser.
    pub fn connections(&self) -> Connections {
        self.connections_as("postgres")
    }

    /// Connections as another role.
    pub fn connections_as(&self, role: &str) -> Connections {
        let mut settings: PostgresSettings = format!("postgres://{role}@localhost/postgres").parse().unwrap();
        settings.host = self.folder.path().display().to_string();
        Connections::new(settings, 8)
    }

    /// Runs statements.
    pub async fn execute(&self, sql: &str) {
        let mut lease = self.connections().get().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *lease).await.unwrap();
    }

    /// One text that a query gives.
    pub async fn text(&self, sql: &str) -> Option<String> {
        let mut lease = self.connections().get().await.unwrap();
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut *lease).await.unwrap()
    }

    /// Asks until a query says true, ten seconds at most.
    pub async fn wait_for(&self, sql: &str) {
        let mut lease = self.connections().get().await.unwrap();
        let asking = async {
            while !sqlx::query_scalar::<_, bool>(sqlx::AssertSqlSafe(sql)).fetch_one(&mut *lease).await.unwrap() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), asking).await.expect("in time");
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        run(&["pg_ctl", "-w", "-m", "immediate", "-D", &self.data(), "stop"]);
    }
}

/// The server refuses to run as root: then it is someone else's.
fn unprivileged() -> Option<User> {
    let find = |name| User::from_name(name).ok().flatten();
    Uid::effective().is_root().then(|| find("postgres").or_else(|| find("nobody")).expect("an unprivileged user"))
}

fn run(command: &[&str]) {
    let mut process = Command::new(program(command[0]));
    if let Some(user) = unprivileged() {
        process.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    // No pipes: the server that pg_ctl leaves behind would hold them open.
    let status = process.args(&command[1..]).current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{} failed", command[0]);
}

/// On PATH, or the newest that the machine's packages have.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    on_path.unwrap_or_else(|| {
        let majors = (13..=18).rev().map(|major| format!("/usr/lib/postgresql/{major}/bin/{name}"));
        let found = majors.map(PathBuf::from).find(|file| Path::is_file(file));
        found.expect("a Postgres server: install the package postgresql")
    })
}
