use std::collections::{BTreeMap, BTreeSet};

use millstream_actors::{SinkProgress, SinkSet, StartState, Waits, highest_epoch, of_index, save};
use millstream_cdc::{Continuity, CoverageChange, CoverageNotice, PrepareMode, SourceIdentity, StartLine};
use millstream_core::{Diagnostic, SourceError, SourceErrorKind};
use millstream_model::{
    Epoch, Generation, IndexMapping, IndexName, KeyColumns, QualifiedTable, RowKey, SourcePoint, Text,
};
use millstream_sinks::{FillState, IndexProgress, Progress, SinkError, SinkErrorKind};

use crate::builder::OnGap;
use crate::error::StartError;
use crate::parts::Parts;

/// What a run begins with: everything is prepared, nothing runs yet.
pub(crate) struct Begun {
    pub line: StartLine,
    pub progress: Vec<SinkProgress>,
    pub epoch: Epoch,
    pub states: BTreeMap<IndexName, StartState>,
    pub mappings: BTreeMap<IndexName, IndexMapping>,
}

/// Looks at every sink, at what it keeps of its progress, and at the dead letters: what each would refuse, and the progress.
/// Changes nothing.
pub(crate) async fn look_at_sinks(parts: &Parts) -> (Vec<SinkProgress>, Vec<StartError>) {
    let mappings = parts.spec.index_mappings();
    let (mut progress, mut refused) = (Vec::new(), Vec::new());
    for part in &parts.sinks {
        let (name, store) = (part.name.to_string(), part.progress());
        let kept = match part.sink.inspect(&mappings).await {
            Ok(()) => store.peek().await,
            Err(error) => Err(error),
        };
        match kept.and_then(known_format) {
            Ok(kept) => progress.push(SinkProgress { name, store, progress: kept }),
            Err(error) => refused.push(StartError::Sink { name, error }),
        }
    }
    let letters = match parts.dead_letters.inspect().await {
        Ok(()) => parts.dead_letters.open().await.map(drop),
        Err(error) => Err(error),
    };
    refused.extend(letters.err().map(|error| StartError::Sink { name: "dead letters".to_owned(), error }));
    (progress, refused)
}

fn known_format(progress: Option<Progress>) -> millstream_sinks::Result<Progress> {
    let progress = progress.unwrap_or_default();
    let (found, known) = (progress.format, Progress::FORMAT);
    if found <= known {
        return Ok(progress);
    }
    Err(SinkError::setup(format!("progress was written by a newer version (format={found}, known={known})")))
}

/// Holds the indexes against the source. Those that were never filled must agree with it. Warnings are logged once an engine.
pub(crate) async fn validate(
    parts: &Parts,
    progress: &[SinkProgress],
) -> Result<BTreeMap<IndexName, Diagnostic>, StartError> {
    let (mut down, mut invalid) = (BTreeMap::new(), Vec::new());
    for index in parts.spec.indexes() {
        let found = parts.documents.inspect(&index.name).await?;
        let was_filled = !of_index(progress, &index.name).is_empty();
        for diagnostic in found.into_iter().map(|found| parts.spec.located(found)) {
            match (diagnostic.is_error(), was_filled) {
                (true, true) => drop(down.entry(index.name.clone()).or_insert(diagnostic)),
                (true, false) => invalid.push(diagnostic),
                (false, _) if parts.is_new(&diagnostic) => tracing::warn!("{diagnostic}"),
                (false, _) => {}
            }
        }
    }
    if invalid.is_empty() { Ok(down) } else { Err(StartError::Invalid(invalid)) }
}

/// What can be said before the first run: an engine that can't work is refused at once. What another process has is its own:
/// then that is for the run to find out, when its turn comes.
pub(crate) async fn look(parts: &Parts) -> Result<(), StartError> {
    let (progress, refused) = look_at_sinks(parts).await;
    let mut is_held = false;
    for refusal in refused {
        match refusal {
            StartError::Sink { name, error } if error.kind() == SinkErrorKind::Held => {
                tracing::warn!(sink = name, %error, "another process is at work");
                is_held = true;
            }
            refusal => return Err(refusal),
        }
    }
    if is_held {
        return Ok(());
    }
    parts.capture.open(&parts.spec).await?;
    validate(parts, &progress).await.map(|_| ())
}

/// Prepares sinks and source in the order in which they depend on each other: what the sinks keep decides what the source may do.
pub(crate) async fn begin(parts: &Parts) -> Result<Begun, StartError> {
    let mappings = parts.spec.index_mappings();
    prepare_sinks(parts, &mappings).await?;
    let mut progress = load(parts).await?;
    parts.capture.open(&parts.spec).await?;
    let down = validate(parts, &progress).await?;
    let Outlook { mode, gap, behind } = outlook(parts, &progress).await?;
    if let Some(reason) = gap {
        forget(&mut progress, &reason);
    }
    for sink in progress.iter_mut().filter(|sink| behind.contains(&sink.name)) {
        tracing::warn!(sink = sink.name, "others were written without this sink; it is filled again");
        forget_sink(sink, BEHIND);
        // What it remembers of the tables is as old.
        sink.progress.memo = None;
    }
    let memo = memo(&progress);
    let prepared = match parts.capture.prepare(&parts.spec, mode, memo.as_deref()).await {
        Err(error) if error.kind() == SourceErrorKind::Gap && parts.on_gap == OnGap::Backfill => {
            forget(&mut progress, &error.to_string());
            parts.capture.prepare(&parts.spec, PrepareMode::StartOver, None).await?
        }
        prepared => prepared?,
    };
    let line = prepared.line;
    let identity = parts.capture.identity().await?;
    let epoch = Epoch(highest_epoch(&progress).0 + 1);
    let mut states = BTreeMap::new();
    let uncovered = heed(parts, &prepared.notices, &mut progress)?;
    for mapping in &mappings {
        let mut state = start_state(&progress, mapping);
        state.down = down.get(&mapping.index).map(ToString::to_string);
        if let Some((tables, reason)) = uncovered.get(&mapping.index) {
            state.down = Some(reason.clone());
            state.uncovered.clone_from(tables);
        }
        states.insert(mapping.index.clone(), state);
    }
    for sink in &mut progress {
        note(sink, &identity, epoch, &states, &mappings);
        // Durable before the first write of the epoch.
        save(sink, &parts.settings).await;
    }
    // Only behind the states of all sinks: what was noticed is not noticed again by this memo.
    for sink in &mut progress {
        sink.progress.memo.clone_from(&prepared.memo);
        save(sink, &parts.settings).await;
    }
    let mappings = mappings.into_iter().map(|mapping| (mapping.index.clone(), mapping)).collect();
    Ok(Begun { line, progress, epoch, states, mappings })
}

async fn prepare_sinks(parts: &Parts, mappings: &[IndexMapping]) -> Result<(), StartError> {
    for (number, part) in parts.sinks.iter().enumerate() {
        let mut waits = Waits::new(&parts.settings, parts.seed.wrapping_add(number as u64));
        while let Err(error) = part.sink.prepare(mappings).await {
            let name = part.name.to_string();
            if error.kind().ends_the_run() {
                return Err(StartError::Sink { name, error });
            }
            tracing::warn!(sink = name, %error, "the sink can't be prepared; trying again");
            parts.board.set_error(format_args!("sink {name}: {error}"));
            parts.board.set_sink_failing(number, true);
            tokio::time::sleep(waits.longer()).await;
        }
        parts.board.set_sink_failing(number, false);
    }
    Ok(())
}

pub(crate) async fn load(parts: &Parts) -> Result<Vec<SinkProgress>, StartError> {
    let mut all = Vec::with_capacity(parts.sinks.len());
    for part in &parts.sinks {
        let store = part.progress();
        let name = part.name.to_string();
        let progress = match store.load().await.and_then(known_format) {
            Ok(progress) => progress,
            Err(error) => return Err(StartError::Sink { name, error }),
        };
        all.push(SinkProgress { name, store, progress });
    }
    Ok(all)
}

/// How a run would begin.
pub(crate) struct Outlook {
    /// What `prepare` may do.
    pub mode: PrepareMode,
    /// Why every index is filled again, if so: the source does not go on where it was left.
    pub gap: Option<String>,
    /// The sinks that others were written without: what they keep does not go on, though the source does.
    pub behind: Vec<String>,
}

/// Why a sink's indexes are filled again when others were written without it.
pub(crate) const BEHIND: &str = "others were written without this sink";

/// Whether the source goes on where we left it (P16), and what `prepare` may do. Changes nothing.
///
/// # Errors
/// When it does not, and policy says to stop.
pub(crate) async fn outlook(parts: &Parts, progress: &[SinkProgress]) -> Result<Outlook, SourceError> {
    let identity = parts.capture.identity().await?;
    let filled = |sink: &&SinkProgress| {
        sink.progress.indexes.values().any(|index| !matches!(index.state, FillState::NeedsBackfill(_)))
    };
    let saved: Vec<(&str, &SourcePoint)> = progress
        .iter()
        .filter(filled)
        .filter_map(|sink| Some((sink.name.as_str(), sink.progress.source.as_ref()?)))
        .collect();
    let mut gaps = Vec::new();
    for (name, saved) in &saved {
        if let Continuity::Gap(reason) = identity.continuity(saved) {
            gaps.push(((*name).to_owned(), reason));
        }
    }
    // Every sink's point is saved before the source is told: where one goes on, one that does not was not there.
    let Some((_, reason)) = gaps.first().filter(|_| gaps.len() == saved.len()).cloned() else {
        // With every index waiting for its filling, what was begun goes on all the same: an uncovered table is no end.
        let is_known = |sink: &SinkProgress| sink.progress.source.is_some() && !sink.progress.indexes.is_empty();
        let goes_on = !saved.is_empty() || (identity.durable.is_some() && progress.iter().any(is_known));
        let mode = if goes_on { PrepareMode::Resume } else { PrepareMode::Create };
        let mode = if identity.lost.is_some() { PrepareMode::StartOver } else { mode };
        let behind = gaps.into_iter().map(|(name, _)| name).collect();
        return Ok(Outlook { mode, gap: None, behind });
    };
    match parts.on_gap {
        OnGap::Stop => Err(SourceError::gap(reason)
            .with_remedy("set on_gap to backfill to fill every index again, or bring the expected source back")),
        OnGap::Backfill => Ok(Outlook { mode: PrepareMode::StartOver, gap: Some(reason), behind: Vec::new() }),
    }
}

/// What the capture asked to be given back.
pub(crate) fn memo(progress: &[SinkProgress]) -> Option<String> {
    progress.iter().find_map(|sink| sink.progress.memo.clone())
}

/// The indexes that were filled and must be filled again by another schema or mapping.
pub(crate) fn changed(parts: &Parts, progress: &[SinkProgress]) -> Vec<IndexName> {
    let mappings = parts.spec.index_mappings();
    let is_changed = |mapping: &&IndexMapping| {
        of_index(progress, &mapping.index).values().any(|kept| {
            !matches!(kept.state, FillState::NeedsBackfill(_))
                && matches!(effective_state(kept, mapping), FillState::NeedsBackfill(_))
        })
    };
    mappings.iter().filter(is_changed).map(|mapping| mapping.index.clone()).collect()
}

/// The source does not go on where it was left, and policy says to fill again.
fn forget(progress: &mut [SinkProgress], reason: &str) {
    tracing::warn!(reason, "the source does not go on where it was left; every index is filled again");
    for sink in progress {
        forget_sink(sink, reason);
    }
}

fn forget_sink(sink: &mut SinkProgress, reason: &str) {
    sink.progress.source = None;
    for index in sink.progress.indexes.values_mut() {
        index.state = FillState::NeedsBackfill(reason.to_owned());
    }
}

/// What happened to tables while nobody watched: the indexes that read them must be filled again, once their changes are told.
/// One that was never filled must not begin with a table that is not covered.
fn heed(
    parts: &Parts,
    notices: &[CoverageNotice],
    progress: &mut [SinkProgress],
) -> Result<BTreeMap<IndexName, (BTreeSet<QualifiedTable>, String)>, StartError> {
    let mut uncovered: BTreeMap<IndexName, (BTreeSet<QualifiedTable>, String)> = BTreeMap::new();
    for notice in notices {
        for index in parts.spec.indexes_of(&notice.table) {
            let (reason, is_broken) = match &notice.change {
                CoverageChange::Broken { reason, remedy } => (format!("{reason}; to mend it: {remedy}"), true),
                CoverageChange::Rewritten { reason, .. } => (reason.clone(), false),
                _ => continue,
            };
            if is_broken && of_index(progress, &index.name).is_empty() {
                return Err(SourceError::setup(reason).context(format_args!("index {}", index.name)).into());
            }
            tracing::warn!(index = %index.name, reason, "a table changed while nobody watched; the index is filled again");
            for kept in progress.iter_mut().filter_map(|sink| sink.progress.indexes.get_mut(&index.name)) {
                kept.state = FillState::NeedsBackfill(reason.clone());
            }
            if is_broken {
                let (tables, said) = uncovered.entry(index.name.clone()).or_default();
                tables.insert(notice.table.clone());
                *said = reason;
            }
        }
    }
    Ok(uncovered)
}

/// What one index begins with, from what every sink keeps of it.
fn start_state(progress: &[SinkProgress], mapping: &IndexMapping) -> StartState {
    let kept = of_index(progress, &mapping.index);
    let all = SinkSet::all(progress.len());
    let generation = kept.values().map(|kept| kept.generation).max().unwrap_or_default();
    let (mut needs, mut cursors) = (SinkSet::default(), Vec::new());
    for sink in 0..progress.len() {
        match kept.get(&sink).map(|kept| effective_state(kept, mapping)) {
            Some(FillState::Live) => {}
            Some(FillState::Backfilling(after)) => {
                needs.insert(sink);
                cursors.push(Some(after));
            }
            Some(FillState::NeedsBackfill(_)) | None => {
                needs.insert(sink);
                cursors.push(None);
            }
        }
    }
    // Only sinks that stand at the same key can go on together.
    let first = cursors.first().cloned().flatten();
    let resume = first
        .filter(|first| cursors.iter().all(|cursor| cursor.as_ref() == Some(first)))
        .map(|after| after.map(key_of));
    let fresh = !needs.is_empty() && resume.is_none();
    let generation = if fresh { Generation(generation.0 + 1) } else { generation };
    StartState { needs, all, resume, generation, down: None, uncovered: BTreeSet::new() }
}

/// What is kept, unless it is of another schema or mapping. Hashes of another version of hashing are taken over.
fn effective_state(kept: &IndexProgress, mapping: &IndexMapping) -> FillState {
    let same = kept.schema_hash == mapping.schema_hash && kept.mapping_hash == mapping.mapping_hash;
    if same || kept.hash_version != mapping.hash_version {
        kept.state.clone()
    } else {
        FillState::NeedsBackfill("its schema or mapping changed".to_owned())
    }
}

fn key_of(pairs: Vec<(String, String)>) -> RowKey {
    let (columns, values): (Vec<Text>, Vec<Text>) =
        pairs.into_iter().map(|(column, value)| (Text::from(column), Text::from(value))).unzip();
    RowKey::new(KeyColumns::from(columns), values)
}

/// Notes what this run begins with. Indexes that are no longer wanted are forgotten: their changes are missed from now on.
fn note(
    sink: &mut SinkProgress,
    identity: &SourceIdentity,
    epoch: Epoch,
    states: &BTreeMap<IndexName, StartState>,
    mappings: &[IndexMapping],
) {
    let progress = &mut sink.progress;
    let before = progress.source.as_ref().map(|source| source.position).unwrap_or_default();
    let position = before.max(identity.durable.unwrap_or_default());
    progress.format = Progress::FORMAT;
    progress.epoch = epoch;
    progress.source = Some(SourcePoint { system: identity.system.clone(), timeline: identity.timeline, position });
    progress.indexes.retain(|index, _| states.contains_key(index));
    for mapping in mappings {
        let state = match progress.indexes.get(&mapping.index) {
            Some(kept) => effective_state(kept, mapping),
            None => FillState::NeedsBackfill("it was never filled".to_owned()),
        };
        let start = &states[&mapping.index];
        // One that can't go on together with the others begins again.
        let state = match state {
            FillState::Backfilling(_) if start.resume.is_none() => {
                FillState::NeedsBackfill("it begins again".to_owned())
            }
            state => state,
        };
        let generation = match (&state, progress.indexes.get(&mapping.index)) {
            (FillState::Live, Some(kept)) => kept.generation,
            _ => start.generation,
        };
        let kept = IndexProgress {
            hash_version: mapping.hash_version,
            schema_hash: mapping.schema_hash.clone(),
            mapping_hash: mapping.mapping_hash.clone(),
            generation,
            state,
        };
        progress.indexes.insert(mapping.index.clone(), kept);
    }
}
