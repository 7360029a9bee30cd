use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use millstream::config::Config;
use millstream::{Drained, EndReason, Engine, Finding, Handle};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::cli::RunArgs;
use crate::exit::{Exit, Outcome};
use crate::signals::Signals;
use crate::until_idle::{self, Stuck};
use crate::{control, serve};

/// How long stopping waits for what is under way, unless the configuration says otherwise.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);
/// How long an aborted engine may take to end. A write that is blocked for good, into a pipe that nobody reads, ends with the process.
const ABORT_PATIENCE: Duration = Duration::from_secs(5);
/// How often the recorder forgets what its histograms no longer need.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Hosts an engine: metrics, health and status around it, signals into it, its end out of it.
pub async fn run(config: Config, args: &RunArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    // Before the engine: its metrics go to the recorder that is there when it starts.
    let metrics = record_metrics()?;
    let engine = Engine::from_config(&config)?;
    let (started, handle) = watch::channel(None);
    if let Some(http) = &config.http {
        let listener = listen("http", http.listen).await?;
        tokio::spawn(serve::serve(listener, config.name.as_str().into(), handle.clone(), metrics));
    }
    if let Some(section) = &config.control {
        let token = control::read_token(&section.token_file)?;
        let listener = listen("control", section.listen).await?;
        tokio::spawn(control::serve(listener, handle, token));
    }
    let deadline = config.engine.drain_deadline.map_or(DRAIN_DEADLINE, |span| span.0);
    let handle = tokio::select! {
        biased;
        // Nothing was begun yet.
        () = signals.next() => return Ok(()),
        handle = engine.start() => handle?,
    };
    started.send_replace(Some(handle.clone()));
    let (reason, stuck) = host(&handle, &mut signals, deadline, args.until_idle).await;
    if let Some(Stuck(why)) = stuck {
        return Err(Exit::permanent(why));
    }
    Exit::of(&reason).inspect(|()| tracing::info!("drained"))
}

/// Waits for the first of: the engine's end, a signal, idleness. The latter two drain it; a second signal aborts.
async fn host(
    handle: &Handle,
    signals: &mut Signals,
    deadline: Duration,
    until_idle: bool,
) -> (Arc<EndReason>, Option<Stuck>) {
    let idle = async { if until_idle { until_idle::until_idle(handle).await } else { std::future::pending().await } };
    tokio::select! {
        biased;
        reason = handle.wait() => return (reason, None),
        () = signals.next() => tracing::info!(deadline_seconds = deadline.as_secs_f64(), "draining; a second signal aborts"),
        idle = idle => match idle {
            Ok(()) => tracing::info!("idle: every index is live, and all that the log held at the start is durable"),
            // What is held can't be drained.
            Err(stuck) => return (handle.shutdown(Duration::ZERO).await, Some(stuck)),
        },
    }
    let drained = timeout(deadline + ABORT_PATIENCE, handle.shutdown(deadline));
    let drained = tokio::select! {
        biased;
        drained = drained => drained,
        () = signals.next() => {
            tracing::warn!("aborting");
            timeout(ABORT_PATIENCE, handle.shutdown(Duration::ZERO)).await
        }
    };
    let reason = drained.unwrap_or_else(|_| {
        tracing::warn!("a write that is blocked was left behind");
        Arc::new(EndReason::Shutdown(Drained::Aborted))
    });
    (reason, None)
}

fn record_metrics() -> Result<PrometheusHandle, Exit> {
    let failed =
        |error: metrics_exporter_prometheus::BuildError| Exit::permanent(format!("can't record metrics: {error}"));
    let builder = millstream::metrics::configure(PrometheusBuilder::new()).map_err(failed)?;
    let metrics = builder.install_recorder().map_err(failed)?;
    let kept = metrics.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        loop {
            ticks.tick().await;
            kept.run_upkeep();
        }
    });
    Ok(metrics)
}

/// What `run` would refuse of what it serves itself. Where an engine `runs` already, its addresses are most likely its own.
pub async fn findings(config: &Config, runs: bool) -> Vec<Finding> {
    let http = config.http.as_ref().map(|section| ("http", section.listen));
    let control = config.control.as_ref().map(|section| ("control", section.listen));
    let mut found = Vec::new();
    for (section, address) in http.into_iter().chain(control).filter(|_| !runs) {
        let refused = bind(section, address).await.err();
        found.extend(refused.map(|exit| Finding::error("listen", exit.message)));
    }
    let token = config.control.as_ref().and_then(|section| control::read_token(&section.token_file).err());
    found.extend(token.map(|exit| Finding::error("control", exit.message)));
    found
}

async fn listen(section: &str, address: SocketAddr) -> Result<TcpListener, Exit> {
    let (listener, address) = bind(section, address).await?;
    if section == "http" {
        tracing::info!("listening on http://{address}");
    } else {
        tracing::info!("controlled on http://{address}");
    }
    Ok(listener)
}

/// The listener, and its address: port 0 takes a free one, known only now.
async fn bind(section: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Exit> {
    let failed = |error: std::io::Error| {
        let remedy = format!("give {section}.listen another address, or stop what listens there");
        Exit::configuration(format!("can't listen (address={address}): {error}; to mend it: {remedy}"))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
