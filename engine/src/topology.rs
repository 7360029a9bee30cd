//! Start reading here: every channel between actors is made here, and every actor is spawned here, from the sink backwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use millstream_actors::{
    Actors, BuilderActor, BuilderParts, CaptureActor, CaptureParts, Claims, DeadLetterActor, FillParts, GateKeeper,
    Gates, IndexActor, IndexDesk, IndexEvent, IndexParts, Inspect, Lanes, Mailbox, Meters, ProgressActor, ProgressDesk,
    ResolverActor, ResolverParts, Signals, SinkActor, SinkParts, SinkSet, StageDepth, StartState, TicketPrinter,
    Versions,
};
use millstream_cdc::CaptureEvent;
use millstream_core::{Result, SnapshotTable};
use millstream_model::{Generation, IndexName, QualifiedTable};
use millstream_sinks::{DeadLetter, FillState};
use tokio::sync::{Semaphore, watch};

use crate::builder::OnError;
use crate::observer::Observer;
use crate::parts::Parts;
use crate::start::Begun;
use crate::status::StatusBook;

/// One run: its actors, and how to talk to them.
pub(crate) struct Run {
    pub actors: Actors,
    pub signals: Signals,
    pub desks: BTreeMap<IndexName, IndexDesk>,
}

/// Everything of one run that is not an actor.
pub(crate) struct RunInputs {
    pub begun: Begun,
    pub stream: BoxStream<'static, Result<CaptureEvent>>,
    pub open_letters: Vec<DeadLetter>,
    pub paused: watch::Receiver<bool>,
    pub meters: Meters,
    pub book: Arc<StatusBook>,
}

/// Wires one run of the engine.
pub(crate) fn wire(parts: &Arc<Parts>, inputs: RunInputs) -> Run {
    let RunInputs { begun, stream, open_letters, paused, meters, book } = inputs;
    let (settings, signals, board) = (parts.settings.clone(), Signals::default(), parts.board.clone());
    let all_sinks = SinkSet::all(parts.sinks.len());
    let versions = Versions::new(begun.epoch);
    let mut actors = Actors::default();
    let mut depths = Depths::default();

    let (letters, dead_letters) = DeadLetterActor::new(parts.dead_letters.clone(), open_letters, 64, settings.clone());
    actors.spawn("dead_letters", letters.run());
    let (progress, mailbox) = ProgressDesk::open(64);
    let serving: Vec<_> = begun.progress.iter().map(serving).collect();
    actors.spawn("progress", ProgressActor::new(begun.progress, mailbox, versions.clone(), settings.clone()).run());

    let (desks, keepers) = index_desks(parts);
    let (gates, gate_keepers) = gates(parts);
    let stops = |index: &IndexName| parts.on_error.get(index) == Some(&OnError::Stop);

    // Documents to each sink.
    let (mut documents, mut commands) = (Vec::new(), Vec::new());
    for ((number, part), serving) in parts.sinks.iter().enumerate().zip(serving) {
        let (tx, rx) = flume::bounded(settings.sink_batches);
        let (command_tx, command_rx) = flume::bounded(16);
        depths.watch(format!("sink {}", part.name), &tx);
        let sink = SinkParts {
            number,
            name: part.name.clone(),
            sink: part.sink.clone(),
            documents: rx,
            commands: command_rx,
            dead_letters: dead_letters.clone(),
            stops_on_error: desks
                .iter()
                .filter(|(index, _)| stops(index))
                .map(|(i, d)| (i.clone(), d.clone()))
                .collect(),
            gates: gates.clone(),
            serving,
        };
        let name = format!("sink {}", part.name);
        actors
            .spawn(name, SinkActor::new(sink, board.clone(), meters.clone(), settings.clone(), signals.clone()).run());
        documents.push(tx);
        commands.push(command_tx);
    }

    // Touches to each lane, and pages of backfills to whichever is free: live before backfill.
    let (live, live_rx): (Vec<_>, Vec<_>) =
        (0..settings.builders).map(|_| flume::bounded(settings.lane_batches)).unzip();
    let (pages, pages_rx) = flume::bounded(settings.builders);
    live.iter().for_each(|tx| depths.watch("build".to_owned(), tx));
    let (live, claims) = (Lanes::new(live).with_faults(parts.faults), Claims::new(settings.builders, parts.faults));
    for (lane, live_rx) in live_rx.into_iter().enumerate() {
        let builder = BuilderParts {
            lane,
            documents: parts.documents.clone(),
            mailbox: Mailbox { live: live_rx, pages: pages_rx.clone() },
            sinks: documents.clone(),
            lanes: live.clone(),
            claims: claims.clone(),
            dead_letters: dead_letters.clone(),
            indexes: desks.iter().map(|(index, desk)| (index.clone(), (desk.clone(), stops(index)))).collect(),
            gates: gates.clone(),
            versions: versions.clone(),
        };
        let builder = BuilderActor::new(builder, meters.clone(), settings.clone(), signals.clone(), parts.faults);
        actors.spawn(format!("builder {lane}"), builder.run());
    }

    // Changes to the resolvers.
    let (changes, changes_rx) = flume::bounded(settings.change_batches);
    depths.watch("resolve".to_owned(), &changes);
    for number in 0..settings.resolvers {
        let resolver = ResolverParts {
            number,
            documents: parts.documents.clone(),
            changes: changes_rx.clone(),
            lanes: live.clone(),
            sinks: all_sinks,
            spec: parts.spec.clone(),
            indexes: desks.clone(),
            gates: gates.clone(),
        };
        let resolver = ResolverActor::new(resolver, meters.clone(), settings.clone(), signals.clone(), parts.faults);
        actors.spawn(format!("resolver {number}"), resolver.run());
    }

    // One keeper an index: its state, its backfill.
    let places = Arc::new(Semaphore::new(settings.backfills));
    let tables: BTreeMap<IndexName, SnapshotTable> =
        parts.spec.snapshot_tables().into_iter().map(|table| (table.index.clone(), table)).collect();
    for (((index, gate), events), table) in gate_keepers.into_iter().zip(keepers).zip(tables.into_values()) {
        let filler = FillParts {
            capture: parts.capture.clone(),
            table,
            mapping: begun.mappings[&index].clone(),
            pages: pages.clone(),
            sinks: commands.clone(),
            progress: progress.clone(),
            places: places.clone(),
            versions: versions.clone(),
            board: board.clone(),
            meters: meters.clone(),
            settings: settings.clone(),
            signals: signals.clone(),
        };
        let start: StartState = begun.states[&index].clone();
        let inspect = inspect(parts, &index);
        let keeper = IndexParts { fill: filler, inspect, gate, events, start, line: begun.line };
        actors.spawn(format!("index {index}"), IndexActor::new(keeper).run());
    }

    // The Ack channel has a place for every ticket: settling never waits.
    let (settled_tx, settled) = flume::bounded(settings.tickets);
    let heartbeat_book = (parts.clone(), book.clone());
    let capture = CaptureParts {
        stream,
        changes,
        printer: TicketPrinter::new(settled_tx, signals.alarm.clone(), meters.durable_seconds.clone()),
        settled,
        progress,
        readers: by_table(parts, &desks, |spec, table| names(spec.indexes_of(table))),
        roots: by_table(parts, &desks, |spec, table| names(spec.rooted_at(table))),
        paused,
        heartbeat: Box::new(move |age| heartbeat_book.1.update(&heartbeat_book.0, |run| run.heartbeat = Some(age))),
    };
    actors.spawn("capture", CaptureActor::new(capture, board, meters.clone(), settings, signals.clone()).run());
    depths.publish(parts, &book, &dead_letters);
    actors.spawn("observer", Observer::new(parts.clone(), book, meters, desks.clone(), signals.clone()).run());
    Run { actors, signals, desks }
}

fn inspect(parts: &Parts, index: &IndexName) -> Inspect {
    let (documents, spec, index) = (parts.documents.clone(), parts.spec.clone(), index.clone());
    Arc::new(move || {
        let (documents, spec, index) = (documents.clone(), spec.clone(), index.clone());
        Box::pin(async move {
            let found = documents.inspect(&index).await?;
            Ok(found.into_iter().map(|found| spec.located(found)).collect())
        })
    })
}

/// Channels to look at: their senders' kept ends would keep them open, so the look is through receivers' counts.
#[derive(Default)]
struct Depths(Vec<(String, Look)>);

/// How full a channel is and how much it can hold; `None` once it is gone.
type Look = Box<dyn Fn() -> Option<(usize, usize)> + Send>;

impl Depths {
    fn watch<T: Send + 'static>(&mut self, channel: String, sender: &flume::Sender<T>) {
        let sender = sender.downgrade();
        let look = move || sender.upgrade().map(|sender| (sender.len(), sender.capacity().unwrap_or(usize::MAX)));
        self.0.push((channel, Box::new(look)));
    }

    fn publish(self, parts: &Arc<Parts>, book: &StatusBook, letters: &millstream_actors::DeadLetterDesk) {
        let open = letters.watch_open();
        let depths = move || {
            let looks =
                self.0.iter().filter_map(|(channel, look)| look().map(|(depth, capacity)| (channel, depth, capacity)));
            looks.map(|(channel, depth, capacity)| StageDepth { channel: channel.clone(), depth, capacity }).collect()
        };
        book.update(parts, |run| {
            run.depths = Some(Box::new(depths));
            run.dead_letters_open = Some(Box::new(open));
        });
    }
}

fn index_desks(parts: &Parts) -> (BTreeMap<IndexName, IndexDesk>, Vec<flume::Receiver<IndexEvent>>) {
    let opened = parts.spec.indexes().map(|index| (index.name.clone(), IndexDesk::open()));
    let (desks, mailboxes): (Vec<_>, Vec<_>) = opened.map(|(name, (desk, mailbox))| ((name, desk), mailbox)).unzip();
    (desks.into_iter().collect(), mailboxes)
}

fn gates(parts: &Parts) -> (Gates, Vec<(IndexName, GateKeeper)>) {
    let mut gates = Gates::default();
    let keepers = parts.spec.indexes().map(|index| (index.name.clone(), gates.add(&index.name))).collect();
    (gates, keepers)
}

/// The generation that serves in each index of a sink: while another is being filled, the one before it.
fn serving(sink: &millstream_actors::SinkProgress) -> BTreeMap<IndexName, Generation> {
    let of = |(index, kept): (&IndexName, &millstream_sinks::IndexProgress)| {
        let serving =
            if kept.state == FillState::Live { kept.generation.0 } else { kept.generation.0.saturating_sub(1) };
        (index.clone(), Generation(serving))
    };
    sink.progress.indexes.iter().map(of).collect()
}

fn by_table(
    parts: &Parts,
    desks: &BTreeMap<IndexName, IndexDesk>,
    of: impl Fn(&millstream_core::SourceSpec, &QualifiedTable) -> Vec<IndexName>,
) -> BTreeMap<QualifiedTable, Vec<IndexDesk>> {
    let tables = parts.spec.all_tables().into_iter();
    let found = tables.map(|table| {
        let indexes = of(&parts.spec, &table);
        let desks: Vec<IndexDesk> = indexes.iter().filter_map(|index| desks.get(index)).cloned().collect();
        (table, desks)
    });
    found.filter(|(_, desks)| !desks.is_empty()).collect()
}

fn names(indexes: Vec<&millstream_core::IndexSpec>) -> Vec<IndexName> {
    indexes.into_iter().map(|index| index.name.clone()).collect()
}
