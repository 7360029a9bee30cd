use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use millstream_model::{Body, Document, Generation, IndexMapping, IndexName, RowKey, Version};
use millstream_sinks::{
    DeadLetter, DeadLetterState, Outcome, Refill, Result as SinkResult, Sink, SinkError, WriteBatch,
};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::retry::Waits;
use crate::{Board, DeadLetterDesk, Failure, Gates, Meters, Opening, Settings, Signals, Ticket, TroubleSource};

/// A document on its way to one sink.
#[derive(Debug)]
pub struct Outgoing {
    /// The document.
    pub document: Document,
    /// Settle when it is durable.
    pub tickets: SmallVec<[Ticket; 1]>,
}

/// Documents of one index from one builder.
#[derive(Debug)]
pub struct DocumentBatch {
    /// Their index.
    pub index: IndexName,
    /// The documents, each at most once.
    pub documents: Vec<Outgoing>,
    /// True when only a backfill asks for them.
    pub fill: bool,
}

/// What a sink is asked beside writing.
#[derive(Debug)]
#[allow(missing_docs)] // A variant's own line says what its fields are.
pub enum SinkCommand {
    /// Remove every document of an index.
    Clear { index: IndexName, version: Version, done: oneshot::Sender<()> },
    /// Begin to fill an index anew.
    Begin { mapping: IndexMapping, generation: Generation, version: Version, done: oneshot::Sender<()> },
    /// Go on filling after a restart.
    Continue { index: IndexName, generation: Generation },
    /// The filling is complete.
    Finish { index: IndexName, generation: Generation, done: oneshot::Sender<()> },
}

/// The way to one sink's actor, beside the documents' channel.
pub type SinkDesk = flume::Sender<SinkCommand>;

/// Owns one sink: the order of each document's writes, retries, batches by bytes, and the tickets of what is on its way.
///
/// Of a document that is still waiting only the newest state is kept, with the tickets of all: so a retry can never overtake
/// a newer state. It writes one batch at a time and settles tickets only for what the sink called durable. It knows nothing of
/// sources.
pub struct SinkActor {
    number: usize,
    name: Arc<str>,
    sink: Arc<dyn Sink>,
    documents: flume::Receiver<DocumentBatch>,
    commands: flume::Receiver<SinkCommand>,
    dead_letters: DeadLetterDesk,
    stops_on_error: BTreeMap<IndexName, crate::IndexDesk>,
    gates: Gates,
    board: Arc<Board>,
    meters: Meters,
    settings: Settings,
    signals: Signals,
    backlog: IndexMap<(IndexName, RowKey), Waiting, FixedState>,
    bytes: usize,
    generations: BTreeMap<IndexName, Generations>,
    waits: Waits,
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    document: Document,
    tickets: SmallVec<[Ticket; 1]>,
    fill: bool,
    attempts: u32,
    not_before: Option<Instant>,
    alone: bool,
    stops: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Generations {
    serving: Generation,
    filling: Option<Generation>,
}

/// Everything that a sink's actor is made of.
pub struct SinkParts {
    /// The sink's number.
    pub number: usize,
    /// Its name.
    pub name: Arc<str>,
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// Documents to write.
    pub documents: flume::Receiver<DocumentBatch>,
    /// What else is asked.
    pub commands: flume::Receiver<SinkCommand>,
    /// Where rejected documents go.
    pub dead_letters: DeadLetterDesk,
    /// The indexes that stop rather than use dead letters.
    pub stops_on_error: BTreeMap<IndexName, crate::IndexDesk>,
    /// Each index's gate.
    pub gates: Gates,
    /// The generation that serves in each index.
    pub serving: BTreeMap<IndexName, Generation>,
}

impl SinkActor {
    /// An actor over one sink.
    pub fn new(parts: SinkParts, board: Arc<Board>, meters: Meters, settings: Settings, signals: Signals) -> Self {
        let serving = parts.serving.into_iter();
        let generations = serving.map(|(index, serving)| (index, Generations { serving, filling: None })).collect();
        Self {
            number: parts.number,
            name: parts.name,
            sink: parts.sink,
            documents: parts.documents,
            commands: parts.commands,
            dead_letters: parts.dead_letters,
            stops_on_error: parts.stops_on_error,
            gates: parts.gates,
            board,
            meters,
            waits: Waits::new(&settings, parts.number as u64),
            settings,
            signals,
            backlog: IndexMap::default(),
            bytes: 0,
            generations,
            not_before: None,
        }
    }

    /// Writes until every builder is gone and nothing waits.
    ///
    /// # Errors
    /// When the sink lost what it had called durable, or another engine took over.
    pub async fn run(mut self) -> Result<(), Failure> {
        let abort = self.signals.abort.clone();
        loop {
            self.settle_shut();
            let room = self.bytes < self.settings.sink_bytes;
            let due = self.next_due();
            if self.documents.is_disconnected() && self.documents.is_empty() && self.backlog.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(()),
                command = self.commands.recv_async(), if !self.commands.is_disconnected() || !self.commands.is_empty() => {
                    if let Ok(command) = command {
                        self.command(command).await?;
                    }
                }
                batch = self.documents.recv_async(), if room && due.is_none_or(|due| due > Instant::now()) => {
                    if let Ok(batch) = batch {
                        self.admit(batch);
                    } else if let Some(due) = due {
                        tokio::time::sleep_until(due).await;
                    }
                }
                () = wait_until(due) => {
                    self.take_waiting();
                    self.write_due().await?;
                }
            }
        }
    }

    /// When something can be written: now, later, or never (nothing waits).
    fn next_due(&self) -> Option<Instant> {
        let first =
            self.backlog.values().map(|waiting| waiting.not_before).min_by_key(|due| due.unwrap_or(Instant::now()))?;
        let due = first.unwrap_or_else(Instant::now);
        Some(self.not_before.map_or(due, |not_before| not_before.max(due)))
    }

    /// Documents that the sink rejected are kept while their index is held. Once it is given up, it is filled again anyway.
    fn settle_shut(&mut self) {
        if self.stops_on_error.is_empty() {
            return;
        }
        let gates = &self.gates;
        let given_up = |(index, _): &(IndexName, RowKey), waiting: &mut Waiting| {
            waiting.stops && gates.of(index).opening == Opening::Shut
        };
        let gone: Vec<Waiting> = self.backlog.extract_if(.., given_up).map(|(_, waiting)| waiting).collect();
        self.bytes -= gone.iter().map(|waiting| waiting.document.size()).sum::<usize>();
        gone.into_iter().flat_map(|waiting| waiting.tickets).for_each(Ticket::settle);
    }

    /// Takes what is in the channel without waiting: loaded, many are written together; idle, one alone.
    fn take_waiting(&mut self) {
        while self.bytes < self.settings.sink_bytes
            && let Ok(batch) = self.documents.try_recv()
        {
            self.admit(batch);
        }
    }

    fn admit(&mut self, batch: DocumentBatch) {
        for Outgoing { document, tickets } in batch.documents {
            self.bytes += document.size();
            let key = (batch.index.clone(), document.key.clone());
            match self.backlog.entry(key) {
                indexmap::map::Entry::Occupied(mut entry) => {
                    let waiting = entry.get_mut();
                    self.bytes -= waiting.document.size();
                    waiting.document = document;
                    waiting.tickets.extend(tickets);
                    waiting.fill &= batch.fill;
                    waiting.alone = false;
                }
                indexmap::map::Entry::Vacant(entry) => {
                    let fill = batch.fill;
                    entry.insert(Waiting {
                        document,
                        tickets,
                        fill,
                        attempts: 0,
                        not_before: None,
                        alone: false,
                        stops: false,
                    });
                }
            }
        }
    }

    /// Writes one batch of what is due: documents of the first due one's index, up to the sink's bytes.
    async fn write_due(&mut self) -> Result<(), Failure> {
        let Some((index, batch)) = self.next_batch() else { return Ok(()) };
        let started = Instant::now();
        let outcomes = self.write(&index, &batch).await;
        let meters = self.meters.of_sink(self.number);
        meters.write_seconds.record(started.elapsed());
        meters.write_documents.record(batch.len() as f64);
        match outcomes {
            Ok(outcomes) => {
                self.waits.reset();
                self.not_before = None;
                self.board.set_sink_failing(self.number, false);
                self.conclude(index, batch, outcomes).await;
                Ok(())
            }
            Err(error) => {
                self.put_back(&index, batch);
                self.failed(error)
            }
        }
    }

    fn next_batch(&mut self) -> Option<(IndexName, Vec<Waiting>)> {
        let now = Instant::now();
        let is_due = |waiting: &Waiting| waiting.not_before.is_none_or(|due| due <= now);
        let (first, waiting) = self.backlog.iter().find(|(_, waiting)| is_due(waiting))?;
        let (index, fill, alone) = (first.0.clone(), waiting.fill, waiting.alone);
        let most = if alone { 0 } else { self.sink.capabilities().batch_bytes_max };
        let mut bytes = 0;
        let mut full = false;
        let taken = self.backlog.extract_if(.., |key, waiting| {
            let fits = !full && key.0 == index && waiting.fill == fill && waiting.alone == alone && is_due(waiting);
            if !fits {
                return false;
            }
            let size = waiting.document.size();
            // The first one goes in any case: alone if it is larger than all.
            full = bytes > 0 && bytes + size > most;
            bytes += if full { 0 } else { size };
            !full
        });
        let batch: Vec<Waiting> = taken.map(|(_, waiting)| waiting).collect();
        self.bytes -= batch.iter().map(|waiting| waiting.document.size()).sum::<usize>();
        Some((index, batch))
    }

    /// Writes to the generation that serves, to the one that is being filled, or to both; durable means in all of them.
    async fn write(&mut self, index: &IndexName, batch: &[Waiting]) -> SinkResult<Vec<Outcome>> {
        let generations = self.generations.get(index).copied().unwrap_or_default();
        let only_fill = batch.first().is_some_and(|waiting| waiting.fill);
        let targets: SmallVec<[Generation; 2]> = match generations.filling {
            Some(filling) if only_fill => SmallVec::from_slice(&[filling]),
            Some(filling) => SmallVec::from_slice(&[generations.serving, filling]),
            None => SmallVec::from_slice(&[generations.serving]),
        };
        let mut worst: Vec<Outcome> = Vec::new();
        for generation in targets {
            let documents = batch.iter().map(|waiting| waiting.document.clone()).collect();
            let batch = WriteBatch { index: index.clone(), generation, documents };
            let outcomes = self.sink.write(&batch).await?;
            if outcomes.len() != batch.documents.len() {
                let (found, expected) = (outcomes.len(), batch.documents.len());
                return Err(SinkError::setup(format!(
                    "the sink gave a wrong number of outcomes (found={found}, expected={expected})"
                )));
            }
            if worst.is_empty() {
                worst = outcomes;
            } else {
                worst
                    .iter_mut()
                    .zip(outcomes)
                    .filter(|(so_far, _)| **so_far == Outcome::Durable)
                    .for_each(|(so_far, outcome)| *so_far = outcome);
            }
        }
        Ok(worst)
    }

    async fn conclude(&mut self, index: IndexName, batch: Vec<Waiting>, outcomes: Vec<Outcome>) {
        let several = batch.len() > 1;
        let (mut durable, mut rejected) = (Vec::with_capacity(batch.len()), Vec::new());
        for (mut waiting, outcome) in batch.into_iter().zip(outcomes) {
            waiting.attempts += 1;
            match outcome {
                Outcome::Durable => durable.push(waiting),
                Outcome::Retry(after) => self.again(&index, waiting, after),
                Outcome::TooLarge if several => {
                    waiting.alone = true;
                    self.again(&index, waiting, Duration::ZERO);
                }
                Outcome::TooLarge => rejected.push((waiting, "the document is too large for the sink".to_owned())),
                Outcome::Rejected(reason) => rejected.push((waiting, reason)),
                _ => self.again(&index, waiting, self.settings.retry_first),
            }
        }
        self.settle(&index, durable).await;
        self.reject(&index, rejected).await;
    }

    async fn settle(&mut self, index: &IndexName, durable: Vec<Waiting>) {
        let written = durable.iter().map(|waiting| (waiting.document.key.clone(), waiting.document.version));
        if !self.dead_letters.written(&self.name, index, written).await {
            return forget(durable);
        }
        // Told again as long as the gate says that the index is held.
        if let Some(desk) = self.stops_on_error.get(index)
            && self.gates.of(index).opening == Opening::Held
            && !self.backlog.iter().any(|(key, waiting)| waiting.stops && key.0 == *index)
        {
            desk.recovered(TroubleSource::Sink(self.number));
        }
        let meters = self.meters.of_index(index);
        for waiting in durable {
            match waiting.document.body {
                Body::Upsert(_) => meters.written.increment(1),
                Body::Tombstone => meters.deleted.increment(1),
            }
            waiting.tickets.into_iter().for_each(Ticket::settle);
        }
    }

    async fn reject(&mut self, index: &IndexName, rejected: Vec<(Waiting, String)>) {
        if rejected.is_empty() {
            return;
        }
        self.meters.of_index(index).rejected.increment(rejected.len() as u64);
        if let Some(desk) = self.stops_on_error.get(index) {
            desk.trouble(
                TroubleSource::Sink(self.number),
                format!("sink {} rejected a document: {}", self.name, rejected[0].1),
            );
            for (mut waiting, _) in rejected {
                waiting.stops = true;
                let wait = self.settings.retry_longest.min(Duration::from_secs(1));
                self.again(index, waiting, wait);
            }
            return;
        }
        let letters = rejected.iter().map(|(waiting, reason)| DeadLetter {
            index: index.clone(),
            key: waiting.document.key.clone(),
            kind: "write".to_owned(),
            reason: reason.clone(),
            sink: Some(self.name.to_string()),
            attempts: waiting.attempts,
            version: waiting.document.version,
            state: DeadLetterState::Open,
        });
        let written = self.dead_letters.write(letters.collect()).await;
        let rejected: Vec<Waiting> = rejected.into_iter().map(|(waiting, _)| waiting).collect();
        if !written {
            return forget(rejected);
        }
        self.meters.of_index(index).dead_lettered.increment(rejected.len() as u64);
        rejected.into_iter().flat_map(|waiting| waiting.tickets).for_each(Ticket::settle);
    }

    /// Keeps a document for another try, unless a newer state of it came meanwhile: then its tickets join that one.
    fn again(&mut self, index: &IndexName, mut waiting: Waiting, after: Duration) {
        self.meters.of_sink(self.number).retries.increment(1);
        waiting.not_before = (!after.is_zero()).then(|| Instant::now() + after);
        let key = (index.clone(), waiting.document.key.clone());
        match self.backlog.entry(key) {
            indexmap::map::Entry::Occupied(mut entry) => entry.get_mut().tickets.extend(waiting.tickets),
            indexmap::map::Entry::Vacant(entry) => {
                self.bytes += waiting.document.size();
                entry.insert(waiting);
            }
        }
    }

    fn put_back(&mut self, index: &IndexName, batch: Vec<Waiting>) {
        for mut waiting in batch {
            waiting.attempts += 1;
            self.again(index, waiting, Duration::ZERO);
        }
    }

    fn failed(&mut self, error: SinkError) -> Result<(), Failure> {
        self.meters.error("sink", error.kind().as_str());
        self.board.set_error(format_args!("sink {}: {error}", self.name));
        if error.kind().ends_the_run() {
            forget(std::mem::take(&mut self.backlog).into_values().collect());
            return Err(Failure::Sink { name: self.name.to_string(), error });
        }
        let wait = self.waits.longer();
        tracing::warn!(sink = %self.name, %error, wait_ms = wait.as_millis() as u64, "the sink failed; trying again");
        self.board.set_sink_failing(self.number, true);
        self.not_before = Some(Instant::now() + wait);
        Ok(())
    }

    /// Does what is asked, trying again until it is done.
    async fn command(&mut self, command: SinkCommand) -> Result<(), Failure> {
        while let Err(error) = attempt(&*self.sink, &command).await {
            self.failed(error)?;
            if let Some(not_before) = self.not_before {
                tokio::time::sleep_until(not_before).await;
            }
        }
        self.waits.reset();
        self.not_before = None;
        self.board.set_sink_failing(self.number, false);
        match command {
            SinkCommand::Clear { done, .. } => drop(done.send(())),
            SinkCommand::Begin { mapping, generation, done, .. } => {
                self.enter(&mapping.index, generation);
                let _ = done.send(());
            }
            SinkCommand::Continue { index, generation } => self.enter(&index, generation),
            SinkCommand::Finish { index, generation, done } => {
                self.generations.insert(index, Generations { serving: generation, filling: None });
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// From now on a filling is written: beside the one that serves, or in its place.
    fn enter(&mut self, index: &IndexName, generation: Generation) {
        let entry = self.generations.entry(index.clone()).or_default();
        if self.sink.capabilities().refill == Refill::Alias {
            entry.filling = Some(generation);
        } else {
            *entry = Generations { serving: generation, filling: None };
        }
    }
}

async fn attempt(sink: &dyn Sink, command: &SinkCommand) -> SinkResult<()> {
    match command {
        SinkCommand::Clear { index, version, .. } => sink.clear(index, *version).await,
        SinkCommand::Begin { mapping, generation, version, .. } => {
            if sink.capabilities().refill == Refill::Clear {
                sink.clear(&mapping.index, *version).await?;
            }
            sink.begin_generation(mapping, *generation).await
        }
        SinkCommand::Continue { .. } => Ok(()),
        SinkCommand::Finish { index, generation, .. } => sink.finish_generation(index, *generation).await,
    }
}

/// The run is ending: nobody is told that these are durable, and they come again.
fn forget(waiting: Vec<Waiting>) {
    drop(waiting);
}

/// Waits until then; for ever when there is no such time.
pub(crate) async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
