//! Prerequisites → coverage → slot → start line.

use std::time::Duration;

use futures::future::{Either, select};
use millstream_core::{Result, SourceError};
use millstream_postgres::provision::{Facts, Finding, Needs};
use millstream_postgres::slot::{Slot, is_slot_name};
use millstream_postgres::sqlx;
use millstream_postgres::{Connections, PostgresProvisioning, classify};

use super::memo::{Memo, to_be_listed};
use super::{PostgresCaptureSettings, Waiting};
use crate::PrepareMode;

/// How often we say what the making of the slot waits for.
const SLOT_PATIENCE: Duration = Duration::from_secs(10);

/// What the live stream starts from.
pub(crate) struct Covered {
    pub(crate) needs: Needs,
    pub(crate) facts: Facts,
    pub(crate) found: Vec<Finding>,
}

/// Brings coverage and slot into being, or checks them, after what `memo` remembers.
pub(crate) async fn prepare(
    connections: &Connections,
    provisioning: &PostgresProvisioning,
    settings: &PostgresCaptureSettings,
    waiting: &Waiting,
    needs: Needs,
    mode: PrepareMode,
    memo: Option<&Memo>,
) -> Result<Covered> {
    // What can't go on is said before anything is changed.
    usable(connections, settings, mode).await?;
    let facts = provisioning.facts(&needs).await?;
    let publication = facts.publication.as_ref().map(|found| found.oid);
    same_publication(settings, mode, memo.and_then(Memo::publication), publication)?;
    // A slot that is made now begins behind all that was attached.
    let is_made = !facts.server.has_slot || (mode == PrepareMode::StartOver && settings.manage.slot);
    let needs = if is_made { needs } else { with_listed(needs, memo, &facts) };
    let found = refusable(provisioning.findings(&facts, &needs), mode);
    if found.iter().any(Finding::is_in_the_way) {
        return Err(provisioning.refusal(&found).expect("something is wrong"));
    }
    let (facts, found) = provisioning.ensure(&needs).await?;
    if let Some(refusal) = provisioning.refusal(&refusable(found.clone(), mode)) {
        return Err(refusal);
    }
    for price in found.iter().filter(|finding| finding.code == "column-list") {
        tracing::warn!("{}", price.reason);
    }
    if mode != PrepareMode::Resume {
        make(connections, settings, waiting, mode).await?;
    }
    Ok(Covered { needs, facts, found })
}

fn with_listed(needs: Needs, memo: Option<&Memo>, facts: &Facts) -> Needs {
    let listed = to_be_listed(memo, &needs, facts);
    needs.with_listed(listed)
}

/// Whether the slot can be used as [`prepare`] would use it. Changes nothing.
pub(crate) async fn inspect(
    connections: &Connections,
    settings: &PostgresCaptureSettings,
    mode: PrepareMode,
    publication: Option<i64>,
) -> Result<()> {
    usable(connections, settings, mode).await?;
    if mode != PrepareMode::Resume || publication.is_none() {
        return Ok(());
    }
    let mut lease = connections.get().await?;
    let found: Option<i64> = sqlx::query_scalar("select oid::int8 from pg_publication where pubname = $1")
        .bind(&settings.publication)
        .fetch_optional(&mut *lease)
        .await
        .map_err(|error| classify("can't read the publication", error))?;
    lease.keep();
    same_publication(settings, mode, publication, found)
}

/// Refuses a slot that is not fit for what is to be done with it.
async fn usable(connections: &Connections, settings: &PostgresCaptureSettings, mode: PrepareMode) -> Result<()> {
    let slot = &settings.slot;
    if !is_slot_name(slot) {
        return Err(SourceError::setup(format!("this is no name for a replication slot (slot={slot})"))
            .with_remedy("use small letters, digits and underscores, at most 63"));
    }
    let Some(found) = read(connections, slot).await? else {
        return match mode {
            PrepareMode::Resume => Err(SourceError::gap(format!("the replication slot is gone (slot={slot})"))
                .with_remedy("fill the indexes again (on_gap: backfill)")),
            _ => Ok(()),
        };
    };
    match (found.lost(), mode) {
        (Some(why), PrepareMode::Resume) => {
            Err(SourceError::gap(why).with_remedy("fill the indexes again (on_gap: backfill)"))
        }
        (Some(why), PrepareMode::Create) => {
            foreign(connections, &found)?;
            Err(SourceError::gap(why).with_remedy(made_anew(slot)))
        }
        _ => foreign(connections, &found),
    }
}

/// Refuses a publication that is another one than it was.
fn same_publication(
    settings: &PostgresCaptureSettings,
    mode: PrepareMode,
    known: Option<i64>,
    found: Option<i64>,
) -> Result<()> {
    if mode == PrepareMode::Resume && known.is_some_and(|known| found != Some(known)) {
        return Err(publication_lost(&settings.publication));
    }
    Ok(())
}

/// The statements that put a new slot in place of one.
fn made_anew(slot: &str) -> String {
    format!(
        "SELECT pg_drop_replication_slot('{slot}'); SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput');"
    )
}

/// The log is decoded by the catalog of its own time: what was written before a publication was made can't be told by it.
pub(crate) fn publication_lost(name: &str) -> SourceError {
    SourceError::gap(format!(
        "the publication is gone or was made anew, so the log before can't be told (publication={name})"
    ))
    .with_remedy("fill the indexes again (on_gap: backfill), which also makes the slot anew")
}

/// What stops everything. When indexes were filled already, a table that is not covered stops only those that read it.
fn refusable(found: Vec<Finding>, mode: PrepareMode) -> Vec<Finding> {
    found.into_iter().filter(|finding| mode != PrepareMode::Resume || finding.table.is_none()).collect()
}

async fn read(connections: &Connections, name: &str) -> Result<Option<Slot>> {
    let mut lease = connections.get().await?;
    let slot = Slot::read(&mut lease, name).await?;
    lease.keep();
    Ok(slot)
}

fn foreign(connections: &Connections, slot: &Slot) -> Result<()> {
    match slot.foreign(&connections.settings().database) {
        Some(why) => Err(SourceError::setup(why).with_remedy("name another slot in the configuration")),
        None => Ok(()),
    }
}

/// Makes the slot where there is none; replaces one that is lost if everything is filled again anyway.
async fn make(
    connections: &Connections,
    settings: &PostgresCaptureSettings,
    waiting: &Waiting,
    mode: PrepareMode,
) -> Result<()> {
    let name = &settings.slot;
    if let Some(slot) = read(connections, name).await? {
        foreign(connections, &slot)?;
        let replaced = (mode == PrepareMode::StartOver && settings.manage.slot)
            .then(|| format!("the replication slot is made anew (slot={name})"));
        let Some(why) = slot.lost().or(replaced) else { return Ok(()) };
        if mode == PrepareMode::Create {
            return Err(SourceError::gap(why).with_remedy(made_anew(name)));
        }
        if !settings.manage.slot {
            return Err(SourceError::setup(why).with_remedy(made_anew(name)));
        }
        let mut lease = connections.get().await?;
        Slot::drop(&mut lease, name, settings.slot_wait).await?;
        lease.keep();
    } else if !settings.manage.slot {
        return Err(SourceError::setup(format!("the replication slot is not there (slot={name})"))
            .with_remedy(format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput');")));
    }
    let mut lease = connections.get().await?;
    {
        let created = Box::pin(Slot::create(&mut lease, name));
        let waited = Box::pin(name_what_is_waited_for(connections, waiting));
        match select(created, waited).await {
            Either::Left((created, _)) => {
                waiting.set(None);
                created?;
            }
            Either::Right((never, _)) => match never {},
        }
    }
    lease.keep();
    tracing::info!(slot = %name, "made the replication slot");
    Ok(())
}

/// A slot comes into being once every transaction that was open has ended: says which, over and over.
async fn name_what_is_waited_for(connections: &Connections, waiting: &Waiting) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(SLOT_PATIENCE).await;
        let Ok(mut lease) = connections.get().await else { continue };
        let open: Result<Vec<String>, _> = sqlx::query_scalar(
            "select format('transaction %s of %s (pid=%s, application=%s)', backend_xid, usename, pid, application_name) \
             from pg_stat_activity where backend_xid is not null order by xact_start limit 5",
        )
        .fetch_all(&mut *lease)
        .await;
        if let Ok(open) = open {
            lease.keep();
            waiting.set(Some(format!("the replication slot waits for open transactions to end: {}", open.join(", "))));
            tracing::warn!(waiting_for = ?open, "the replication slot waits for open transactions to end");
        }
    }
}
