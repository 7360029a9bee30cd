//! A Postgres of a test's own, gone when it is dropped.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use millstream_model::Secret;
use millstream_polling::StoreSettings;
use nix::unistd::{Uid, User};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

/// A running server on a socket in a folder of its own.
pub struct Cluster {
    folder: TempDir,
}

impl Cluster {
    /// Makes and starts one.
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("millstream-polling-").tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        if let Some(user) = unprivileged() {
            chown(folder.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        }
        let cluster = Self { folder };
        let (data, socket) = (cluster.path("data"), cluster.path(""));
        run(&["initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D", &data]);
        let options = format!("-k {socket} -c listen_addresses= -c fsync=off -c TimeZone=Asia/Kolkata");
        run(&["pg_ctl", "-w", "-D", &data, "-l", &cluster.path("log"), "-o", &options, "start"]);
        cluster
    }

    /// A store in one of its schemas.
    pub fn store(&self, schema: &str) -> StoreSettings {
        StoreSettings::Postgres { url: Secret::new(self.url()), schema: schema.to_owned() }
    }

    /// What a query says, by plain SQL: one text a row.
    pub async fn rows(&self, sql: &'static str) -> Vec<String> {
        let options: sqlx::postgres::PgConnectOptions = self.url().parse().unwrap();
        let mut connection = options.connect().await.unwrap();
        let rows: Vec<(String,)> = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows.into_iter().map(|(row,)| row).collect()
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let host = self.path("").replace('/', "%2F");
        format!("postgres://postgres@localhost/postgres?host={host}")
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        run(&["pg_ctl", "-w", "-m", "immediate", "-D", &self.path("data"), "stop"]);
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
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join(name)).collect();
    let packaged = (13..=18).rev().map(|major| PathBuf::from(format!("/usr/lib/postgresql/{major}/bin/{name}")));
    let found = on_path.into_iter().chain(packaged).find(|file| file.is_file());
    found.expect("a Postgres server: install the package postgresql")
}
