//! Registered streams: their descriptors, tables, pins and how far each is acked.

use std::collections::BTreeSet;

use millstream_cdc::Line;
use millstream_core::{Result, SourceError};
use millstream_model::Operation;
use serde_json::{Map, Value as Json};

use super::changes::{self, Pending};
use super::content::{canonical, is_own_column};
use super::dialect::{ident, idents};
use super::shape::DIGEST;
use super::sql::{SqlRow, Tx, Value, values};
use super::{Store, pins};
use crate::model::{
    Carries, Checkpoint, Column, ColumnAssignment, ColumnType, DataStream, Mode, RecordShape, StreamDescriptor,
    StreamKey, Timestamp,
};

/// A stream and how far it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registered {
    pub stream: DataStream,
    pub line: Line,
    pub mode: Mode,
    /// The source no longer has it.
    pub gone: bool,
    /// The newest acked instant.
    pub since: Option<Timestamp>,
    /// The backend's mark of the last acked page.
    pub checkpoint: Option<Checkpoint>,
    /// Of the last acked clean pass.
    pub digest: Option<String>,
    /// Why the brake is on.
    pub brake: Option<String>,
    /// True: the next pass is let through.
    pub released: bool,
}

/// What became of a stream that was discovered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Registration {
    /// It is known as it is.
    Unchanged,
    /// It is new or looks otherwise.
    Written,
    /// It can't be registered as it is: why.
    Refused(String),
}

/// The state of a stream's brake.
pub(super) struct BrakeState {
    pub brake: Option<String>,
    pub released: bool,
}

/// Names of tables that are the store's own.
const RESERVED: [&str; 5] = ["streams", "replicates", "readings", "status_events", "curves"];

/// Bytes of a name: what Postgres keeps of one.
const NAME_BYTES_MAX: usize = 63;

const COLUMNS: &str = "s.id, m.descriptor, m.line, m.gone, m.since, m.checkpoint, m.digest, m.brake, m.released, s.mode \
                       from millstream_streams m join streams s on s.key = m.key";

impl Registered {
    fn read(row: &SqlRow) -> Result<Self> {
        let descriptor = serde_json::from_str(&row.text(1)?)
            .map_err(|error| SourceError::decode("a stream of the store can't be read").with_cause(error))?;
        Ok(Self {
            stream: DataStream { id: row.text(0)?, descriptor },
            line: Line(u64::try_from(row.integer(2)?).unwrap_or(0)),
            gone: row.integer(3)? != 0,
            since: row.integer_or_null(4)?.map(Timestamp::from_micros),
            checkpoint: row.text_or_null(5)?.map(Checkpoint),
            digest: row.text_or_null(6)?,
            brake: row.text_or_null(7)?,
            released: row.integer(8)? != 0,
            mode: if row.text(9)? == "reconciled" { Mode::Reconciled } else { Mode::Append },
        })
    }

    pub(super) async fn brake_in(tx: &mut Tx, stream: &StreamKey) -> Result<BrakeState> {
        const BRAKE: &str = "select brake, released from millstream_streams where key = $1";
        let rows = tx.fetch(BRAKE, &values![stream.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(BrakeState { brake: None, released: false }) };
        Ok(BrakeState { brake: row.text_or_null(0)?, released: row.integer(1)? != 0 })
    }
}

impl Store {
    /// Every stream that was ever registered, in order of its key.
    pub(crate) async fn streams(&self) -> Result<Vec<Registered>> {
        let rows = self.sql().fetch(format!("select {COLUMNS} order by m.key"), &[]).await?;
        rows.iter().map(Registered::read).collect()
    }

    /// Registers a stream under an identity, makes its table, pins its columns.
    ///
    /// # Errors
    /// When the store fails; what it refuses is a [`Registration::Refused`].
    pub(crate) async fn register(&self, new: &StreamDescriptor, id: &str, mode: Mode) -> Result<Registration> {
        if let Err(why) = check(new) {
            return Ok(Registration::Refused(why));
        }
        let mut tx = self.sql().begin().await?;
        let sql = format!("select {COLUMNS} where m.key = $1");
        let found = tx.fetch(sql, &values![new.key.as_str()]).await?;
        let found = found.first().map(Registered::read).transpose()?;
        if let Some(Err(why)) = found.as_ref().map(|found| agrees(&found.stream.descriptor, new)) {
            return Ok(Registration::Refused(why));
        }
        let new = &match &found {
            Some(found) => with_columns_of(&found.stream.descriptor, new),
            None => new.clone(),
        };
        if let Some(found) = &found {
            let same = found.stream.descriptor == *new && !found.gone && found.stream.id == id;
            if same && found.mode == mode {
                return Ok(Registration::Unchanged);
            }
        }
        let line = match &found {
            Some(found) => found.line,
            None => self.add(&mut tx, new).await?,
        };
        let mut pending = Vec::new();
        match &new.carries {
            Carries::Records(shape) => {
                let known = found.as_ref().map(|found| &found.stream.descriptor);
                self.make_table(&mut tx, new, shape, known).await?;
            }
            Carries::Readings(shape) => match pin(&mut tx, &new.key, &shape.replicates).await? {
                Ok(pins) => pending.extend(pins),
                Err(why) => return Ok(Registration::Refused(why)),
            },
        }
        write_stream(&mut tx, new, id, mode).await?;
        pending.push(upsert("streams", &[("key", new.key.as_str())]));
        changes::write(&mut tx, line, &pending).await?;
        tx.commit().await?;
        Ok(Registration::Written)
    }

    async fn add(&self, tx: &mut Tx, new: &StreamDescriptor) -> Result<Line> {
        let rows = tx.fetch("select coalesce(max(line), 0) + 1 from millstream_streams", &[]).await?;
        let line = rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or(1);
        const ADD: &str =
            "insert into millstream_streams (key, line, descriptor, gone, released) values ($1, $2, '', 0, 0)";
        tx.execute(ADD, &values![new.key.as_str(), line]).await?;
        Ok(Line(u64::try_from(line).unwrap_or(1)))
    }

    async fn make_table(
        &self,
        tx: &mut Tx,
        new: &StreamDescriptor,
        shape: &RecordShape,
        known: Option<&StreamDescriptor>,
    ) -> Result<()> {
        let dialect = self.dialect();
        let name = ident(new.key.as_str());
        if known.is_none() {
            let mut lines: Vec<String> = shape
                .key
                .iter()
                .map(|key| format!("{} {} not null", ident(key), dialect.type_name(shape.kind(key))))
                .collect();
            let others = shape.columns.iter().filter(|column| !shape.key.contains(&column.name));
            lines.extend(others.map(|column| format!("{} {}", ident(&column.name), dialect.type_name(column.kind))));
            lines.push(format!("{DIGEST} text not null"));
            lines.push(format!("primary key ({})", idents(shape.key.iter().map(String::as_str))));
            tx.execute(format!("create table {name} ({})", lines.join(", ")), &[]).await?;
            return Ok(());
        }
        let known: &[Column] = match known.map(|known| &known.carries) {
            Some(Carries::Records(known)) => &known.columns,
            _ => &[],
        };
        let is_new = |column: &&Column| !known.iter().any(|known| known.name == column.name);
        for column in shape.columns.iter().filter(is_new).filter(|column| !shape.key.contains(&column.name)) {
            let (column, kind) = (ident(&column.name), dialect.type_name(column.kind));
            tx.execute(format!("alter table {name} add column {column} {kind}"), &[]).await?;
        }
        Ok(())
    }

    /// Marks streams that the source no longer has.
    pub(crate) async fn set_gone(&self, stream: &Registered) -> Result<()> {
        let mut tx = self.sql().begin().await?;
        let key = stream.stream.key().as_str();
        tx.execute("update millstream_streams set gone = 1 where key = $1", &values![key]).await?;
        tx.execute("update streams set active = $2 where key = $1", &values![key, false]).await?;
        changes::write(&mut tx, stream.line, &[upsert("streams", &[("key", key)])]).await?;
        tx.commit().await
    }

    /// The pinned indexes of a stream's replicate columns, in their order.
    pub(crate) async fn pins(&self, stream: &StreamKey) -> Result<Vec<ColumnAssignment>> {
        let rows = self.sql().fetch(PINS, &values![stream.as_str()]).await?;
        rows.iter().map(read_pin).collect()
    }

    /// Lets the next pass of a stream through. False: its brake is not on.
    pub(crate) async fn release(&self, stream: &StreamKey) -> Result<bool> {
        const RELEASE: &str = "update millstream_streams set released = 1 where key = $1 and brake is not null";
        Ok(self.sql().execute(RELEASE, &values![stream.as_str()]).await? > 0)
    }

    /// Registers a stream that turned out to have more columns, under the identity and mode that it has.
    pub(crate) async fn add_columns(&self, stream: &StreamDescriptor) -> Result<Registration> {
        let rows =
            self.sql().fetch("select id, mode from streams where key = $1", &values![stream.key.as_str()]).await?;
        let Some(row) = rows.first() else {
            return Ok(Registration::Refused(format!("the stream is not registered (stream={})", stream.key)));
        };
        let mode = if row.text(1)? == "reconciled" { Mode::Reconciled } else { Mode::Append };
        self.register(stream, &row.text(0)?, mode).await
    }
}

const PINS: &str = "select name, replicate, active from replicates where stream = $1 order by replicate";

fn read_pin(row: &SqlRow) -> Result<ColumnAssignment> {
    let index = u32::try_from(row.integer(1)?).map_err(|_| SourceError::decode("a pinned index can't be read"))?;
    Ok(ColumnAssignment { name: row.text(0)?, index, active: row.boolean(2)? })
}

/// Pins a stream's columns; the changes of those that are new, retired or back.
async fn pin(tx: &mut Tx, stream: &StreamKey, names: &[String]) -> Result<Result<Vec<Pending>, String>> {
    let rows = tx.fetch(PINS, &values![stream.as_str()]).await?;
    let held: Vec<ColumnAssignment> = rows.iter().map(read_pin).collect::<Result<_>>()?;
    let pins = match pins::assign(&held, names) {
        Ok(pins) => pins,
        Err(why) => return Ok(Err(why)),
    };
    let mut pending = Vec::new();
    for pin in pins.iter().filter(|pin| !held.contains(pin)) {
        const PIN: &str = "insert into replicates (stream, name, replicate, active) values ($1, $2, $3, $4) \
                           on conflict (stream, name) do update set active = excluded.active";
        let values = values![stream.as_str(), pin.name.as_str(), i64::from(pin.index), pin.active];
        tx.execute(PIN, &values).await?;
        pending.push(upsert("replicates", &[("stream", stream.as_str()), ("name", &pin.name)]));
    }
    Ok(Ok(pending))
}

async fn write_stream(tx: &mut Tx, new: &StreamDescriptor, id: &str, mode: Mode) -> Result<()> {
    let (carries, unit) = match &new.carries {
        Carries::Readings(shape) => ("readings", shape.unit.clone()),
        Carries::Records(_) => ("records", None),
    };
    let json = super::Dialect::cast(tx.dialect(), 8, ColumnType::Json);
    let sql = format!(
        "insert into streams (key, id, name, carries, mode, unit, curve, attributes, active) \
         values ($1, $2, $3, $4, $5, $6, $7, {json}, $9) \
         on conflict (key) do update set id = excluded.id, name = excluded.name, carries = excluded.carries, \
         mode = excluded.mode, unit = excluded.unit, curve = excluded.curve, attributes = excluded.attributes, \
         active = excluded.active"
    );
    let attributes = canonical(&Json::Object(new.attributes.clone())).to_string();
    let values: [Value; 9] = values![
        new.key.as_str(),
        id,
        new.name.as_str(),
        carries,
        mode_name(mode),
        unit,
        new.curve.clone(),
        attributes,
        true
    ];
    tx.execute(sql, &values).await?;
    let descriptor = serde_json::to_string(new)
        .map_err(|error| SourceError::decode("a stream's description can't be written").with_cause(error))?;
    const DESCRIBE: &str = "update millstream_streams set descriptor = $2, gone = 0 where key = $1";
    tx.execute(DESCRIBE, &values![new.key.as_str(), descriptor]).await?;
    Ok(())
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Append => "append",
        Mode::Reconciled => "reconciled",
    }
}

/// A change of one row of a table whose key columns are text.
pub(super) fn upsert(table: &str, key: &[(&str, &str)]) -> Pending {
    Pending {
        table: table.to_owned(),
        key: key.iter().map(|(column, text)| ((*column).to_owned(), (*text).to_owned())).collect(),
        operation: Operation::Upsert,
        before: None,
        after: Some(Map::new()),
    }
}

/// What no store could hold.
fn check(new: &StreamDescriptor) -> Result<(), String> {
    let key = new.key.as_str();
    check_name("the stream's key", key)?;
    let Carries::Records(shape) = &new.carries else { return Ok(()) };
    let lower = key.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) || lower.starts_with("millstream_") || lower.starts_with("sqlite_") {
        return Err(format!("a table of the store's own has this name: give the stream another (stream={key})"));
    }
    if shape.key.is_empty() {
        return Err("a stream of records names no key column".to_owned());
    }
    let mut seen = BTreeSet::new();
    let others = shape.columns.iter().map(|column| &column.name).filter(|name| !shape.key.contains(name));
    for name in shape.key.iter().chain(others) {
        check_name("a column's name", name)?;
        if is_own_column(name) || !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("a column is named twice, or as one of the driver's own (column={name})"));
        }
    }
    let odd = |name: &&String| matches!(shape.kind(name), ColumnType::Double | ColumnType::Decimal | ColumnType::Json);
    match shape.key.iter().find(odd) {
        // One value must have one text, or two spellings would be two records.
        Some(name) => Err(format!("a key column can't be of this type (column={name})")),
        None => Ok(()),
    }
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('\0') || name.len() > NAME_BYTES_MAX {
        return Err(format!("{what} must have 1 to {NAME_BYTES_MAX} bytes, none of them zero (found={name:?})"));
    }
    Ok(())
}

/// The description with all columns that the stream ever had: a row without one of them has NULL there.
fn with_columns_of(old: &StreamDescriptor, new: &StreamDescriptor) -> StreamDescriptor {
    let mut merged = new.clone();
    if let (Carries::Records(old), Carries::Records(shape)) = (&old.carries, &mut merged.carries) {
        let others = std::mem::replace(&mut shape.columns, old.columns.clone());
        let is_new = |column: &Column| !old.columns.iter().any(|old| old.name == column.name);
        shape.columns.extend(others.into_iter().filter(is_new));
    }
    merged
}

/// What a stream's rows in the store can't follow.
fn agrees(old: &StreamDescriptor, new: &StreamDescriptor) -> Result<(), String> {
    match (&old.carries, &new.carries) {
        (Carries::Readings(_), Carries::Readings(_)) => Ok(()),
        (Carries::Records(old), Carries::Records(new)) if old.key == new.key => {
            let is_known =
                |name: &str| old.key.iter().any(|key| key == name) || old.columns.iter().any(|c| c.name == name);
            let named = new.columns.iter().map(|column| column.name.as_str()).chain(new.key.iter().map(String::as_str));
            let mut differing = named.filter(|name| is_known(name) && old.kind(name) != new.kind(name));
            match differing.next() {
                Some(name) => Err(format!(
                    "a column has another type now (column={name}, was={:?}, is={:?}); rename the stream, or drop its table",
                    old.kind(name),
                    new.kind(name)
                )),
                None => Ok(()),
            }
        }
        (Carries::Records(old), Carries::Records(new)) => Err(format!(
            "the key has other columns now (was={}, is={}); rename the stream",
            old.key.join(","),
            new.key.join(",")
        )),
        _ => Err("it carries readings where it carried records, or the other way round; rename the stream".to_owned()),
    }
}
