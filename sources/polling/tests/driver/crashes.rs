//! A process that is killed loses no update and tells no tombstone too early.

use std::collections::BTreeMap;

use millstream_core::SourceSpec;
use millstream_polling::model::{Reading, ReadingWindow, StreamDescriptor, StreamFetch};
use millstream_polling::scripted::{ScriptedSource, SourceScript};

use crate::stage::{Policy, Stage, ago, now, readings, settings, until};

/// The same source, as the process that comes after sees it.
fn again(script: impl FnOnce(&SourceScript)) -> (ScriptedSource, SourceScript) {
    let (source, hand) = ScriptedSource::new();
    script(&hand);
    (source, hand)
}

fn two(script: &SourceScript) {
    script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
    script.answers("a", readings("a", vec![Reading::new(ago(10), 1.0)]));
    script.answers("b", readings("b", vec![Reading::new(ago(20), 1.0)]));
}

#[tokio::test]
async fn killed_between_fetch_and_ack_all_is_told_again() {
    let stage = Stage::with(settings(), Policy::Hold, SourceSpec::default(), two).await;
    stage.live.told_of("readings", 2).await;
    // The source has forgotten what it told: the store has not.
    let (source, hand) =
        again(|script| script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]));
    let after = stage.killed_now(source, hand, Policy::Confirm).await;
    let mut told = after.live.told_of("readings", 2).await;
    told.sort_unstable();
    assert_eq!(told.len(), 2);
    after.acked().await;
    assert_eq!((after.since("a").await, after.since("b").await), (Some(ago(10)), Some(ago(20))));
    assert_eq!(after.live.texts("streams").len(), 2, "what is told of the streams themselves, too");
}

#[tokio::test]
async fn killed_between_two_streams_acks_only_the_other_is_told_again() {
    let stage = Stage::with(settings(), Policy::Hold, SourceSpec::default(), two).await;
    stage.live.told_of("readings", 2).await;
    let told = stage.live.told();
    let b = told.iter().find(|told| told.row.key.get("stream") == Some("b")).unwrap().line;
    stage.live.confirm(Some(b));
    until("b is acked", async || stage.since("b").await).await;
    let (source, hand) = again(two);
    let after = stage.killed_now(source, hand, Policy::Hold).await;
    let told = after.live.told_of("readings", 1).await;
    assert!(told[0].starts_with("+readings/a:"), "{told:?}");
    let since: Vec<_> = after.fetches()[0].iter().map(|request| request.since).collect();
    assert_eq!(since, [None, Some(ago(20))]);
    after.live.confirm(None);
    after.live.set_policy(Policy::Confirm);
    after.acked().await;
    assert_eq!(after.live.texts("readings").len(), 1, "b is not told again");
}

#[tokio::test]
async fn killed_after_a_reconciled_pass_it_converges_with_no_early_tombstone() {
    let window = |values: &[(u64, f64)]| {
        let readings = values.iter().map(|(seconds, value)| Reading::new(ago(*seconds), *value)).collect();
        ReadingWindow::new(ago(1000), now(), readings)
    };
    let answers = |window: ReadingWindow| {
        move |script: &SourceScript| {
            script.set_reconciled(true);
            script.streams([StreamDescriptor::readings("a")]);
            script.answers("a", move |_| StreamFetch::window("a", window.clone()));
        }
    };
    let first = window(&[(30, 3.0), (20, 2.0), (10, 1.0)]);
    let mut stage = Stage::with(settings(), Policy::Confirm, SourceSpec::default(), answers(first.clone())).await;
    stage.acked().await;
    stage.live.set_policy(Policy::Hold);
    let second = window(&[(30, 3.0), (20, 22.0)]);
    answers(second.clone())(&stage.script);
    stage.cycle().await;
    stage.live.told_of("readings", 5).await;
    // Killed before the ack: the pass is told again, and its digest does not count.
    let (source, hand) = again(answers(second.clone()));
    let mut after = stage.killed_now(source, hand, Policy::Confirm).await;
    let told = after.live.told_of("readings", 2).await;
    assert!(told[0].starts_with('+') && told[1].starts_with('-'), "{told:?}");
    after.acked().await;
    assert!(after.cycle().await.log.iter().any(|line| line.contains("nothing changed")));
    // Killed there as well, but the source has restored the row: what is told last is that it is there.
    let (source, hand) = again(answers(first));
    let restored = stage.killed_now(source, hand, Policy::Confirm).await;
    let told = restored.live.told_of("readings", 4).await;
    let of_ten: Vec<&String> =
        told.iter().filter(|text| text.contains(&ago(10).to_string().replace(':', "%3A"))).collect();
    assert_eq!(of_ten.last().unwrap().chars().next(), Some('+'), "{told:?}");
    assert_eq!(
        restored.rows("select cast(cast(value as integer) as text) from readings order by instant").await,
        ["3", "2", "1"]
    );
}

#[tokio::test]
async fn killed_in_the_middle_of_a_landing_nothing_of_it_is_there() {
    let stage = Stage::new(|script| {
        script.set_reconciled(true);
        script.streams([StreamDescriptor::readings("a")]);
        let readings = (1..=8).map(|at| Reading::new(ago(at), 1.0)).collect();
        let window = ReadingWindow::new(ago(1000), now(), readings);
        script.answers("a", move |_| StreamFetch::window("a", window.clone()));
    })
    .await;
    stage.acked().await;
    // As the dying process would: rows deleted and changes half written, no commit.
    let mut open = stage.open_transaction().await;
    sqlx::raw_sql(
        "delete from readings; insert into millstream_changes (line, tbl, key, op) values (1, 'readings', '[]', 'd')",
    )
    .execute(&mut *open)
    .await
    .unwrap();
    let (source, hand) = again(|script| script.streams([StreamDescriptor::readings("a")]));
    let after = stage.killed_now(source, hand, Policy::Confirm).await;
    assert_eq!(after.rows("select cast(count(*) as text) from readings").await, ["8"]);
    assert!(after.live.texts("readings").is_empty());
}

/// A source that is corrected and a sink that reads the store whenever it is told of a row.
struct World {
    seed: u64,
    chance: fastrand::Rng,
    truth: BTreeMap<u64, f64>,
    /// What the sink has, by seconds ago.
    sink: BTreeMap<u64, f64>,
    /// What of it survives a kill: all that was there when everything was last confirmed.
    durable: BTreeMap<u64, f64>,
    seen: usize,
}

impl World {
    fn change_source(&mut self) {
        // No more than the brake lets through.
        for _ in 0..self.chance.usize(0..=4) {
            let at = self.chance.u64(1..60);
            if self.chance.bool() {
                self.truth.insert(at, f64::from(self.chance.u8(..)));
            } else if self.truth.len() > 8 {
                self.truth.remove(&at);
            }
        }
    }

    fn script(&self) -> impl Fn(&SourceScript) + use<> {
        let readings: Vec<Reading> = self.truth.iter().map(|(at, value)| Reading::new(ago(*at), *value)).collect();
        move |script| {
            script.set_reconciled(true);
            script.streams([StreamDescriptor::readings("a")]);
            let window = ReadingWindow::new(ago(1000), now(), readings.clone());
            script.answers("a", move |_| StreamFetch::window("a", window.clone()));
        }
    }

    /// Everything that is open was told; the sink reads what it was told of.
    async fn read(&mut self, stage: &Stage) {
        until("all is told", async || {
            let open = stage.rows("select cast(coalesce(max(seq), 0) as text) from millstream_changes").await;
            let told = stage.live.last().map_or(0, |position| position.0);
            (open[0].parse::<u64>().unwrap() <= told).then_some(())
        })
        .await;
        let rows = stage.rows("select instant || ' ' || value from readings").await;
        let stored: BTreeMap<&str, f64> = rows
            .iter()
            .map(|row| row.split_once(' ').unwrap())
            .map(|(at, value)| (at, value.parse().unwrap()))
            .collect();
        let told = stage.live.told();
        for told in &told[self.seen..] {
            let Some(instant) = told.row.key.get("instant") else { continue };
            let second = now().since(millstream_polling::model::Timestamp::parse(instant).unwrap()).as_secs();
            if let Some(value) = stored.get(instant) {
                self.sink.insert(second, *value);
            } else {
                self.sink.remove(&second);
            }
        }
        self.seen = told.len();
    }

    async fn confirm(&mut self, stage: &Stage) {
        stage.live.confirm(None);
        stage.acked().await;
        self.durable = self.sink.clone();
    }
}

#[tokio::test]
async fn random_corrections_acks_and_kills_converge() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut world = World {
        seed,
        chance: fastrand::Rng::with_seed(seed),
        truth: (1..40).map(|at| (at, 1.0)).collect(),
        sink: BTreeMap::new(),
        durable: BTreeMap::new(),
        seen: 0,
    };
    let mut stage = Stage::with(settings(), Policy::Hold, SourceSpec::default(), world.script()).await;
    for _ in 0..40 {
        world.change_source();
        world.script()(&stage.script);
        stage.cycle().await;
        world.read(&stage).await;
        match world.chance.u8(0..10) {
            0..4 => world.confirm(&stage).await,
            4..7 => {
                let (source, hand) = again(world.script());
                stage = stage.killed_now(source, hand, Policy::Hold).await;
                world.sink = world.durable.clone();
                world.seen = 0;
                world.read(&stage).await;
            }
            _ => {}
        }
    }
    let report = stage.cycle().await;
    assert_eq!(report.errors, Vec::<String>::new(), "seed {}", world.seed);
    world.read(&stage).await;
    world.confirm(&stage).await;
    assert_eq!(world.durable, world.truth, "seed {}", world.seed);
}
