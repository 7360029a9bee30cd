use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use millstream::config::Config;
use millstream_tests::{Connection, Folder, HostConfig, free_port, until_sql};

use super::{Options, SinkKind, bar};
use crate::Result;
use crate::delay::delayed;
use crate::engine::{EngineOptions, EngineProcess, Sample};
use crate::limit::{Shape, correlated_sql};
use crate::processes::{Look, Watch};
use crate::scenario::{LineKind, Scenario};
use crate::server::{Database, address, session, through, try_run};
use crate::shop::{self, Sizes};

/// What one scenario works with: a database, a configuration, a session.
pub(crate) struct Stage {
    pub scenario: Scenario,
    pub options: Options,
    pub sizes: Sizes,
    pub database: Database,
    pub sql: Connection,
    pub postmaster: u32,
    pub bar: ProgressBar,
    pub settings: BTreeMap<String, String>,
    config: PathBuf,
    near_config: PathBuf,
    // Last: its files go when the rest has gone.
    folder: Folder,
}

/// One run of an engine, from when it was at work until all was durable.
pub(crate) struct EngineRun {
    pub from: u64,
    pub to: u64,
    pub samples: Vec<Sample>,
    pub looks: Vec<Look>,
}

impl Stage {
    pub async fn new(
        scenario: &Scenario,
        database: Database,
        postmaster: u32,
        sizes: Sizes,
        options: &Options,
    ) -> Result<Self> {
        let mut sql = session(&database.url).await?;
        try_run(&mut sql, &sizes.fill_in(&scenario.setup)).await?;
        if !scenario.setup.is_empty() {
            try_run(&mut sql, "vacuum analyze").await?;
        }
        let folder = Folder::new();
        let mut settings = scenario.engine.clone();
        settings.extend(options.settings.clone());
        let url = match scenario.round_trip_ms {
            0.0 => database.url.clone(),
            ms => through(&database.url, delayed(address(&database.url)?, Duration::from_secs_f64(ms / 1_000.0))?)?,
        };
        let config = configuration(scenario, &database, &url, &settings, &folder, "engine.yaml")?;
        let near_config = configuration(scenario, &database, &database.url, &settings, &folder, "near.yaml")?;
        let bar = bar(options, 1, &scenario.name);
        let (scenario, options) = (scenario.clone(), options.clone());
        Ok(Self { scenario, options, sizes, database, sql, postmaster, bar, settings, config, near_config, folder })
    }

    /// Starts the engine.
    pub fn engine(&self, each: bool) -> Result<EngineProcess> {
        self.engine_on(&self.config, each)
    }

    /// Starts the engine without the scenario's delay: the same engine on another way, with the same progress.
    pub fn near_engine(&self) -> Result<EngineProcess> {
        self.engine_on(&self.near_config, false)
    }

    fn engine_on(&self, config: &Path, each: bool) -> Result<EngineProcess> {
        let sink = match self.options.sink {
            SinkKind::Null => PathBuf::from("null"),
            SinkKind::Jsonl => self.folder.path().join("docs.jsonl"),
        };
        let options = EngineOptions { config: config.to_owned(), sink, capture_only: self.scenario.capture_only, each };
        let log = match &self.options.logs {
            Some(folder) => folder.join(format!("{}.log", self.scenario.name)),
            None => self.folder.path().join("engine.log"),
        };
        EngineProcess::start(&options, &log)
    }

    /// Watches an engine and the server.
    pub fn watch(&self, engine: &EngineProcess) -> Watch {
        Watch::start(engine.pid(), self.postmaster)
    }

    /// Fills every index for the first time: none of what is measured.
    pub async fn fill(&mut self) -> Result {
        let mut engine = self.engine(false)?;
        engine.until_filled(&self.scenario.indexes).await?;
        engine.stop().await.map(|_| ())
    }

    /// Builder lanes: as many connections as a limit line gets.
    pub fn builders(&self) -> usize {
        self.setting("builders", 4)
    }

    /// Resolvers.
    pub fn resolvers(&self) -> usize {
        self.setting("resolvers", 2)
    }

    pub fn setting(&self, name: &str, default: usize) -> usize {
        self.settings.get(name).and_then(|value| value.parse().ok()).unwrap_or(default)
    }

    /// Makes the changes of a pair and returns a position of the log behind them, as text and as a number.
    pub async fn write(&mut self, pair: usize) -> Result<(String, u64)> {
        let rows = self.scenario.rows_at(self.options.scale, 100);
        let writes = self.sizes.fill_in(&self.scenario.writes);
        let writes = writes.replace(":rows", &rows.to_string()).replace(":pair", &pair.to_string());
        try_run(&mut self.sql, &writes).await?;
        self.position().await
    }

    /// A position of the log behind all that was committed, with a change behind that: whoever reads up to it sees it pass.
    pub async fn position(&mut self) -> Result<(String, u64)> {
        let position = self.sql.text("pg_current_wal_insert_lsn()").await;
        let number = self.sql.number(&format!("pg_wal_lsn_diff('{position}', '0/0')")).await;
        try_run(&mut self.sql, "update tags set name = name where id = 12").await?;
        Ok((position, number as u64))
    }

    /// A slot of the limit's own, from now on.
    pub async fn make_slot(&mut self, slot: &str) -> Result {
        let make = format!("select slot_name::text from pg_create_logical_replication_slot('{slot}', 'pgoutput')");
        self.sql.try_rows(&make).await.map(|_| ()).map_err(|error| format!("can't make the limit's slot: {error}"))
    }

    /// Drops it, once its reader has gone.
    pub async fn drop_slot(&mut self, slot: &str) -> Result {
        let free = format!("exists (select from pg_replication_slots where slot_name = '{slot}' and not active)");
        until_sql(&mut self.sql, Duration::from_secs(30), &free).await;
        let drop = format!("select pg_drop_replication_slot('{slot}')::text");
        self.sql.try_rows(&drop).await.map(|_| ()).map_err(|error| format!("can't drop the limit's slot: {error}"))
    }

    /// The engine's own query of an index, as a limit line runs it.
    pub async fn correlated(&self, index: &str) -> Result<Shape> {
        Ok(Shape::Correlated(correlated_sql(&self.loaded()?, index).await?))
    }

    /// The shape of a line for an index.
    pub async fn shape(&self, line: LineKind, index: &str) -> Result<Shape> {
        match (line, shop::set_based(index)) {
            (LineKind::CopySetBased, Some(sql)) => Ok(Shape::SetBased(sql)),
            (LineKind::CopySetBased, None) => Err(format!("nobody has written a query by hand for index {index}")),
            _ => self.correlated(index).await,
        }
    }

    /// The configuration, read.
    pub fn loaded(&self) -> Result<Config> {
        Config::load(&self.near_config).map_err(|error| error.to_string())
    }
}

fn configuration(
    scenario: &Scenario,
    database: &Database,
    url: &str,
    settings: &BTreeMap<String, String>,
    folder: &Folder,
    name: &str,
) -> Result<PathBuf> {
    let mut config = HostConfig::new(&database.name, url);
    for (key, value) in settings {
        config.engine(key, value);
    }
    for index in &scenario.indexes {
        config.index(index, shop::schema(index).ok_or_else(|| format!("there is no index {index} in the shop"))?);
    }
    let path = folder.path().join(name);
    std::fs::rename(config.write(folder, free_port()), &path).map_err(|error| error.to_string())?;
    Ok(path)
}
