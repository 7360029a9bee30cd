//! Runs scenarios: the engine and the limit, turn about.

mod backfill;
mod drain;
mod fan_out;
mod idle;
mod open_loop;
mod outcome;
mod soak;
mod stage;

use std::collections::BTreeMap;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

use crate::machine;
use crate::result::{BenchResult, ScenarioResult};
use crate::scenario::{Kind, Scenario};
use crate::server::Server;
use crate::shop::Sizes;
use crate::{Result, clock};

pub(crate) use self::stage::Stage;

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of engine and limit.
    pub pairs: usize,
    /// Where documents go.
    pub sink: SinkKind,
    /// How many times the default amount of data.
    pub scale: f64,
    /// A server to use instead of one of our own.
    pub url: Option<String>,
    /// Keys under `engine:` in the configuration, over those of the scenario.
    pub settings: BTreeMap<String, String>,
    /// Where the engines' logs go, one a scenario; without it they go with the scenario.
    pub logs: Option<PathBuf>,
    /// No bars.
    pub quiet: bool,
}

/// Where documents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SinkKind {
    /// Nowhere: what everything but the sink costs.
    Null,
    /// A file of JSON Lines.
    Jsonl,
}

impl SinkKind {
    /// As the result names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Jsonl => "jsonl",
        }
    }
}

/// A server with a filled shop, on which scenarios run one after the other.
pub struct Bench {
    server: Server,
    sizes: Sizes,
}

impl Bench {
    /// Starts the server and fills the shop.
    ///
    /// # Errors
    /// When that fails.
    pub async fn open(options: &Options) -> Result<Self> {
        let sizes = Sizes::at(options.scale);
        let bar = bar(options, 1, "starting a server and filling the shop");
        let server = Server::start(options.url.as_deref()).await?;
        server.fill(&sizes).await?;
        bar.finish_and_clear();
        Ok(Self { server, sizes })
    }

    /// Runs one scenario.
    ///
    /// # Errors
    /// When the engine, the server or the limit fails.
    pub async fn scenario(&mut self, scenario: &Scenario, options: &Options) -> Result<ScenarioResult> {
        let database = self.server.database(&scenario.name).await?;
        let postmaster = self.server.postmaster();
        let mut stage = Stage::new(scenario, database, postmaster, self.sizes, options).await?;
        let measured = match scenario.kind {
            Kind::Backfill => backfill::run(&mut stage).await,
            Kind::Drain => drain::run(&mut stage).await,
            Kind::FanOut => fan_out::run(&mut stage).await,
            Kind::Idle => idle::run(&mut stage).await,
            Kind::OpenLoop => open_loop::run(&mut stage).await,
            Kind::Soak => soak::run(&mut stage).await,
        };
        let database = stage.database.clone();
        let result = measured.map(|outcome| outcome.result(&stage));
        drop(stage);
        // A run that failed has more to say than what could not be cleaned up behind it.
        let removed = self.server.remove(&database).await;
        let result = result.map_err(|error| format!("scenario {}: {error}", scenario.name))?;
        removed.map(|()| result)
    }

    /// Runs several and puts all that they found out together.
    ///
    /// # Errors
    /// As [`scenario`](Self::scenario).
    pub async fn all(&mut self, scenarios: &[Scenario], options: &Options) -> Result<BenchResult> {
        let mut result = BenchResult {
            format: BenchResult::FORMAT,
            commit: machine::commit(),
            started: clock::now_ns() / 1_000_000_000,
            machine: machine::here(),
            postgres: self.server.settings().await?,
            scale: options.scale,
            unoptimised: cfg!(debug_assertions),
            scenarios: Vec::new(),
        };
        for scenario in scenarios {
            result.scenarios.push(self.scenario(scenario, options).await?);
        }
        Ok(result)
    }

    /// Drops what was made.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn close(self) -> Result {
        self.server.close().await
    }
}

/// A bar over so many steps.
pub(crate) fn bar(options: &Options, steps: u64, what: &str) -> ProgressBar {
    if options.quiet {
        return ProgressBar::hidden();
    }
    let style = "{msg} [{bar:30}] {pos}/{len} {elapsed}";
    let style = ProgressStyle::with_template(style).expect("the template is right").progress_chars("=> ");
    let bar = ProgressBar::new(steps).with_style(style).with_message(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}
