//! Commands: on a task of their own, once for each id.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::Result;
use serde_json::{Value as Json, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::queue::Plan;
use crate::model::StreamKey;
use crate::store::{CommandState, KeptCommand};

/// How long an id is remembered once its command has ended.
const REMEMBERED: Duration = Duration::from_secs(90 * 86_400);

/// What a command came to at once; `None`: a cycle will tell.
type Answer = std::result::Result<Option<Json>, String>;

impl Driver {
    /// Serves commands until it is stopped. Those of the backend's own run beside each other; one that takes a minute blocks
    /// neither the others nor a cycle.
    pub(crate) async fn serve(self: Arc<Self>, mut inbox: mpsc::Receiver<KeptCommand>, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(self.settings.commands_at_once.max(1)));
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_) = running.join_next(), if !running.is_empty() => {}
                command = inbox.recv() => {
                    let Some(command) = command else { return };
                    if is_own(&command.name) {
                        self.run_own(&command).await;
                    } else if let Ok(place) = places.clone().try_acquire_owned() {
                        let driver = self.clone();
                        running.spawn(async move {
                            driver.run_custom(&command).await;
                            drop(place);
                        });
                    } else {
                        let error = "too many commands run already; send it again under another id";
                        self.keep(&command.id, Err(error.to_owned())).await;
                    }
                }
            }
        }
    }

    /// Takes up what was received and not done when the last run ended. What the backend had begun is not begun again.
    pub(super) async fn take_up_commands(&self) -> Result<()> {
        self.store.forget_commands(self.settings.now().minus(REMEMBERED)).await?;
        for command in self.store.unfinished().await? {
            if is_own(&command.name) {
                self.run_own(&command).await;
            } else {
                let error = "the process ended while it ran; it is not run again";
                self.keep(&command.id, Err(error.to_owned())).await;
            }
        }
        Ok(())
    }

    async fn run_own(&self, command: &KeptCommand) {
        match self.own(command).await {
            Ok(Some(result)) => self.keep(&command.id, Ok(result)).await,
            Ok(None) => {}
            Err(why) => self.keep(&command.id, Err(why)).await,
        }
    }

    async fn run_custom(&self, command: &KeptCommand) {
        let answer = self.backend.handle_command(&command.name, command.payload.clone()).await;
        self.keep(&command.id, answer.map_err(|error| error.to_string())).await;
    }

    async fn keep(&self, id: &str, answer: std::result::Result<Json, String>) {
        let (state, result) = match answer {
            Ok(result) => (CommandState::Done, result),
            Err(error) => (CommandState::Failed, json!({ "error": error })),
        };
        self.finish(&[id.to_owned()], state, &result).await;
    }

    async fn own(&self, command: &KeptCommand) -> Answer {
        let order = Plan { ids: vec![command.id.clone()], ..Plan::default() };
        match command.name.as_str() {
            "pause" => self.pause(true).await,
            "resume" => self.pause(false).await,
            "trigger" => self.order(order),
            "full" => self.order(Plan { full: true, ..order }),
            "audit" => self.order(Plan { audit: true, ..order }),
            "resync" => {
                let streams = streams(&command.payload)?;
                self.order(Plan { resync: streams, ..order })
            }
            "release_brake" => self.release(&command.payload).await,
            "set_interval" => self.set_interval(&command.payload).await,
            other => Err(format!("unknown command (name={other})")),
        }
    }

    fn order(&self, plan: Plan) -> Answer {
        self.queue.push(plan);
        Ok(None)
    }

    async fn pause(&self, paused: bool) -> Answer {
        self.store.keep_paused(paused).await.map_err(|error| error.to_string())?;
        self.paused.send_replace(paused);
        self.meters.paused(paused);
        Ok(Some(json!({ "paused": paused })))
    }

    async fn release(&self, payload: &Json) -> Answer {
        let mut released = Vec::new();
        for stream in streams(payload)? {
            if self.store.release(&stream).await.map_err(|error| error.to_string())? {
                released.push(stream.to_string());
            }
        }
        Ok(Some(json!({ "released": released })))
    }

    async fn set_interval(&self, payload: &Json) -> Answer {
        let seconds = payload.get("seconds").and_then(Json::as_f64).filter(|seconds| *seconds >= 0.0 && *seconds < 1e9);
        let seconds = seconds.ok_or_else(|| "it needs {\"seconds\": number}".to_owned())?;
        let every = self.settings.check_every(Duration::from_secs_f64(seconds)).map_err(|error| error.to_string())?;
        self.store.keep_every(every).await.map_err(|error| error.to_string())?;
        self.every.send_replace(every);
        Ok(Some(json!({ "seconds": seconds })))
    }
}

fn is_own(name: &str) -> bool {
    const OWN: [&str; 8] = ["pause", "resume", "trigger", "full", "resync", "release_brake", "audit", "set_interval"];
    OWN.contains(&name)
}

fn streams(payload: &Json) -> std::result::Result<BTreeSet<StreamKey>, String> {
    let named = payload.get("streams").and_then(Json::as_array);
    let keys: Option<BTreeSet<StreamKey>> =
        named.and_then(|names| names.iter().map(|name| name.as_str().map(StreamKey::new)).collect());
    keys.filter(|keys| !keys.is_empty()).ok_or_else(|| "it needs {\"streams\": [names]}".to_owned())
}
