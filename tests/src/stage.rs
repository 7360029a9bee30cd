//! What most end-to-end tests share: a database, indexes with their oracles, and a host that keeps one in step with the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, free_port, tail};
use crate::config::{HostConfig, dead_letters_path, documents_path};
use crate::database::{Connection, Database};
use crate::embedded::Embedded;
use crate::folder::Folder;
use crate::host::{Host, index_state};
use crate::json::Json;
use crate::oracle::{Documents, Fold, assert_same, differences, oracle};
use crate::recorder::Recorder;
use crate::wait::{PATIENCE, until, until_within};

/// A database, a folder with a configuration, and at most one host over both.
#[derive(Debug)]
pub struct Stage {
    /// The configuration that the next host gets.
    pub config: HostConfig,
    /// A session of the superuser in the test's database.
    pub sql: Connection,
    database: Database,
    folder: Folder,
    oracles: BTreeMap<String, String>,
    runner: Option<Runner>,
    recorders: Vec<(String, Recorder)>,
    patience: Duration,
}

/// What keeps documents in step: the program, or an engine in this process over a sink that fails on demand.
#[derive(Debug)]
enum Runner {
    Host(Host),
    Embedded(Embedded),
}

impl Runner {
    fn has_ended(&mut self) -> bool {
        match self {
            Self::Host(host) => host.has_ended(),
            Self::Embedded(engine) => engine.has_ended(),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Host(host) => host.port(),
            Self::Embedded(_) => free_port(),
        }
    }

    async fn status(&self) -> Option<Json> {
        match self {
            Self::Host(host) => host.status().await,
            Self::Embedded(engine) => engine.status(),
        }
    }
}

impl Stage {
    /// In a database of its own on the shared server.
    pub async fn new(test: &str) -> Self {
        Self::on(&Cluster::shared().await, test).await
    }

    /// In a database of its own on some server.
    pub async fn on(cluster: &Arc<Cluster>, test: &str) -> Self {
        let database = cluster.database(test).await;
        let sql = database.connect().await;
        let config = HostConfig::new(database.name(), &database.url());
        Self {
            config,
            sql,
            database,
            folder: Folder::new(),
            oracles: BTreeMap::new(),
            runner: None,
            recorders: Vec::new(),
            patience: PATIENCE * 2,
        }
    }

    /// Waits longer for the host to catch up.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs statements.
    pub async fn run(&mut self, sql: &str) {
        self.sql.run(sql).await;
    }

    /// Runs statements and returns a position of the log behind them.
    pub async fn write(&mut self, sql: &str) -> String {
        self.sql.run(sql).await;
        self.sql.text("pg_current_wal_insert_lsn()").await
    }

    /// Whether the slot's confirmed position has reached one of the log's.
    pub async fn is_confirmed(&mut self, position: &str) -> bool {
        let reached = format!("({}).confirmed_flush_lsn >= '{position}'", self.slot());
        self.sql.flag(&reached).await
    }

    /// Adds an index (or changes its schema) and says by a query of `id, json` what it should hold.
    pub fn index(&mut self, name: &str, schema: &str, oracle: &str) -> &mut Self {
        self.config.index(name, schema);
        self.oracles.insert(name.to_owned(), oracle.to_owned());
        self
    }

    /// Changes what an index should hold.
    pub fn oracle(&mut self, name: &str, oracle: &str) {
        self.oracles.insert(name.to_owned(), oracle.to_owned());
    }

    /// Takes an index out of the configuration.
    pub fn without_index(&mut self, name: &str) {
        self.config.without_index(name);
        self.oracles.remove(name);
    }

    /// Opens the session anew, after the server went away.
    pub async fn reconnect(&mut self) {
        self.sql = self.database.connect().await;
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The folder of the configuration, the documents and the log.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The slot, as SQL sees it.
    pub fn slot(&self) -> String {
        format!("(select s from pg_replication_slots s where slot_name = '{}')", self.database.name())
    }

    /// From now on an engine in this process takes the host's place, and writes to this sink.
    pub fn record(&mut self) -> Recorder {
        self.record_in(Recorder::new())
    }

    /// The same with a sink that the test has made.
    pub fn record_in(&mut self, recorder: Recorder) -> Recorder {
        self.recorders = vec![("recorder".to_owned(), recorder.clone())];
        recorder
    }

    /// One more sink for that engine.
    pub fn record_also(&mut self, name: &str) -> Recorder {
        let recorder = Recorder::new();
        self.recorders.push((name.to_owned(), recorder.clone()));
        recorder
    }

    /// Starts a host (or an engine) and does not wait for anything.
    pub fn spawn(&mut self) {
        self.spawn_with(&[]);
    }

    /// The same with more arguments for the host.
    pub fn spawn_with(&mut self, more: &[&str]) {
        assert!(self.runner.is_none(), "one host at a time");
        let port = free_port();
        let config = self.config.write(&self.folder, port);
        self.runner = Some(if self.recorders.is_empty() {
            Runner::Host(Host::spawn_with(&config, &self.log_path(), port, more))
        } else {
            Runner::Embedded(Embedded::spawn(&config, self.recorders.clone()))
        });
    }

    /// Runs another command of the program over this configuration to its end: its code, standard output and standard error.
    ///
    /// # Panics
    /// When it can't be run or does not end by itself within a minute.
    pub async fn ask(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let port = self.runner.as_ref().map_or_else(free_port, Runner::port);
        let config = self.config.write(&self.folder, port);
        crate::host::ask(&config, arguments).await
    }

    /// Starts a host made by the caller from the path of the configuration.
    pub fn spawn_command(&mut self, command: impl FnOnce(&Path) -> Command) {
        assert!(self.runner.is_none(), "one host at a time");
        let port = free_port();
        let config = self.config.write(&self.folder, port);
        self.runner = Some(Runner::Host(Host::spawn_command(command(&config), &self.log_path(), port)));
    }

    /// Starts a host (or an engine) and waits until every index is live.
    pub async fn start(&mut self) {
        self.spawn();
        self.until_live().await;
    }

    /// The host.
    ///
    /// # Panics
    /// When there is none, or an engine in this process instead.
    pub fn host(&self) -> &Host {
        match &self.runner {
            Some(Runner::Host(host)) => host,
            _ => panic!("a host was started"),
        }
    }

    /// The engine in this process.
    ///
    /// # Panics
    /// When there is none.
    pub fn engine(&self) -> &Embedded {
        match &self.runner {
            Some(Runner::Embedded(engine)) => engine,
            _ => panic!("an engine was started"),
        }
    }

    /// What the host or engine says of itself.
    ///
    /// # Panics
    /// When it says nothing.
    pub async fn status(&self) -> Json {
        let runner = self.runner.as_ref().expect("a host was started");
        until("a status", || runner.status()).await
    }

    /// Waits until every index with an oracle is live.
    ///
    /// # Panics
    /// When the host ends or its patience does.
    pub async fn until_live(&mut self) {
        let names: Vec<String> = self.oracles.keys().cloned().collect();
        for name in names {
            self.until_state(&name, "live").await;
        }
    }

    /// Waits until an index is in a state.
    ///
    /// # Panics
    /// When the host ends or its patience does.
    pub async fn until_state(&mut self, index: &str, state: &str) {
        let runner = tokio::sync::Mutex::new(self.runner.as_mut().expect("a host was started"));
        until_within(self.patience, format!("index {index} to be {state}"), || async {
            let mut host = runner.lock().await;
            assert!(!host.has_ended(), "the host ended instead of being {state}");
            let status = host.status().await?;
            (index_state(&status, index) == Some(state)).then_some(())
        })
        .await;
    }

    /// Waits until an index is anything but live.
    ///
    /// # Panics
    /// When the host ends or its patience does.
    pub async fn until_not_live(&mut self, index: &str) {
        let runner = tokio::sync::Mutex::new(self.runner.as_mut().expect("a host was started"));
        until_within(self.patience, format!("index {index} to be held"), || async {
            let mut host = runner.lock().await;
            assert!(!host.has_ended(), "the host ended instead of holding one index");
            let status = host.status().await?;
            (index_state(&status, index) != Some("live")).then_some(())
        })
        .await;
    }

    /// Waits until all that was committed so far is durable: the slot's confirmed position has passed it.
    pub async fn until_confirmed(&mut self) {
        let position = self.sql.text("pg_logical_emit_message(true, 'quiet', '')").await;
        let passed = format!("({}).confirmed_flush_lsn >= '{position}'", self.slot());
        let shared = tokio::sync::Mutex::new((&mut self.sql, self.runner.as_mut()));
        until_within(self.patience, "the slot to pass the last write", || async {
            let (sql, host) = &mut *shared.lock().await;
            if let Some(host) = host {
                assert!(!host.has_ended(), "the host ended before all was durable");
            }
            sql.flag(&passed).await.then_some(())
        })
        .await;
    }

    /// Waits until every index is live and all is durable, then compares every index with its oracle.
    pub async fn settled(&mut self) {
        self.until_live().await;
        self.until_confirmed().await;
        self.compare().await;
    }

    /// Waits until every index is live and equals its oracle: for what the engine finds out by itself after a while.
    ///
    /// # Panics
    /// When that is not so in the end, with the first differences.
    pub async fn equal_in_the_end(&mut self, what: &str) {
        let deadline = tokio::time::Instant::now() + self.patience / 2;
        loop {
            self.until_live().await;
            self.until_confirmed().await;
            let mut said = Vec::new();
            let names: Vec<String> = self.oracles.keys().cloned().collect();
            for name in names {
                let expected = self.expected(&name).await;
                said.extend(differences(&name, &expected, &self.documents(&name)));
            }
            if said.is_empty() {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "after {what}:\n  {}", said.join("\n  "));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Compares every index with its oracle as it is now.
    pub async fn compare(&mut self) {
        let names: Vec<String> = self.oracles.keys().cloned().collect();
        for name in names {
            self.compare_index(&name).await;
        }
    }

    /// Compares one index with its oracle as it is now.
    pub async fn compare_index(&mut self, name: &str) {
        let expected = self.expected(name).await;
        assert_same(name, &expected, &self.documents(name));
    }

    /// What an index should hold now.
    pub async fn expected(&mut self, name: &str) -> Documents {
        oracle(&mut self.sql, &self.oracles[name]).await
    }

    /// What the sink holds of an index.
    pub fn documents(&self, name: &str) -> Documents {
        match self.recorders.first() {
            Some((_, recorder)) => recorder.documents(name),
            None => self.fold().documents(name),
        }
    }

    /// What the documents' file says.
    pub fn fold(&self) -> Fold {
        Fold::read(&documents_path(self.folder.path()))
    }

    /// How long the documents' file is, in bytes: cheap to look at again and again, unlike [`fold`](Self::fold).
    pub fn written(&self) -> u64 {
        std::fs::metadata(documents_path(self.folder.path())).map_or(0, |file| file.len())
    }

    /// A document as the sink has it.
    pub fn document(&self, index: &str, id: &str) -> Option<Json> {
        self.documents(index).remove(id)
    }

    /// The dead letters' lines.
    pub fn dead_letters(&self) -> Vec<Json> {
        let text = std::fs::read_to_string(dead_letters_path(self.folder.path())).unwrap_or_default();
        text.lines().map(|line| Json::parse(line).expect("a dead letter is JSON")).collect()
    }

    /// True when a host was started and has not ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.runner.as_mut().is_some_and(|runner| !runner.has_ended())
    }

    /// Kills the host with -9; an engine in this process is dropped where it stands.
    pub fn kill(&mut self) {
        match self.runner.take().expect("a host was started") {
            Runner::Host(host) => host.kill(),
            Runner::Embedded(engine) => engine.kill(),
        }
    }

    /// Lets the host drain and end; true when it did so cleanly.
    pub async fn stop(&mut self) -> bool {
        self.stop_within(Duration::from_secs(20)).await
    }

    /// The same with a deadline for an engine in this process (a host has its own).
    pub async fn stop_within(&mut self, deadline: Duration) -> bool {
        match self.runner.take().expect("a host was started") {
            Runner::Host(host) => host.stop().await.success(),
            Runner::Embedded(engine) => engine.stop(deadline).await,
        }
    }

    /// Waits until the host ends by itself; its exit code and its log.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub async fn ended(&mut self) -> (Option<i32>, String) {
        let Some(Runner::Host(host)) = self.runner.take() else { panic!("a host was started") };
        let status = host.ended().await;
        (status.code(), self.log())
    }

    /// What hosts wrote to stderr so far.
    pub fn log(&self) -> String {
        tail(&self.log_path(), usize::MAX)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("host.log")
    }

    /// Ends the host and drops slot and database.
    pub async fn close(mut self) {
        if self.runner.is_some() {
            self.kill();
        }
        self.database.clone().remove().await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the end of the host's log:\n{}", tail(&self.log_path(), 60));
            eprintln!("--- the end of the server's log:\n{}", self.database.cluster().log_tail());
        }
    }
}
