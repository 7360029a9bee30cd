//! The decoder's messages (`pgoutput`, protocol version 1), read without copying and without allocating.

use millstream_core::{Result, SourceError};
use millstream_model::Position;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A transaction begins.
    Begin {
        /// Where its commit record stands.
        commit: Position,
        /// Its 32-bit id.
        xid: u32,
    },
    /// The transaction ends.
    Commit {
        /// Just behind its commit record.
        end: Position,
    },
    /// What a relation looks like from here on.
    Relation(Relation<'a>),
    /// A row is new.
    Insert { relation: u32, new: Tuple<'a> },
    /// A row changed.
    Update { relation: u32, old: Option<Old<'a>>, new: Tuple<'a> },
    /// A row is gone.
    Delete { relation: u32, old: Old<'a> },
    /// All rows of these relations are gone.
    Truncate { relations: Ids<'a> },
    /// A logical message.
    Logical { prefix: &'a [u8], content: &'a [u8] },
    /// Types, origins: nothing for us.
    Other,
}

/// The old row, as far as the relation's identity tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Old<'a> {
    /// True when it is whole; else only the identity's columns count.
    pub(crate) whole: bool,
    /// Its values.
    pub(crate) tuple: Tuple<'a>,
}

/// A relation's columns. All are read already; they are walked again by [`columns`](Self::columns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation<'a> {
    pub(crate) id: u32,
    pub(crate) schema: &'a str,
    pub(crate) name: &'a str,
    count: u16,
    columns: &'a [u8],
}

impl<'a> Relation<'a> {
    /// Name of each column, and whether the identity tells its old value.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&'a str, bool)> + use<'a> {
        let mut reader = Reader { bytes: self.columns };
        (0..self.count).map_while(move |_| {
            let in_identity = reader.u8().ok()? & 1 != 0;
            let name = reader.text().ok()?;
            reader.skip(8).ok()?;
            Some((name, in_identity))
        })
    }
}

/// Relations' numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }
}

/// One column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    /// Out of line and unchanged: not told.
    Unchanged,
    Text(&'a [u8]),
}

/// A row's values. All are known to be well-formed; they are walked by [`values`](Self::values).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tuple<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Tuple<'a> {
    /// Each column's value, in the relation's order.
    pub(crate) fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut reader = Reader { bytes: self.bytes };
        (0..self.count).map_while(move |_| reader.value().ok())
    }
}

impl<'a> Message<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// `Decode` when it is cut off or of an unknown form; never a panic.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader { bytes };
        Ok(match reader.u8()? {
            b'B' => {
                let commit = reader.position()?;
                reader.skip(8)?;
                Self::Begin { commit, xid: reader.u32()? }
            }
            b'C' => {
                reader.skip(1 + 8)?;
                Self::Commit { end: reader.position()? }
            }
            b'R' => Self::Relation(reader.relation()?),
            b'I' => {
                let relation = reader.u32()?;
                reader.expect(b'N')?;
                Self::Insert { relation, new: reader.tuple()? }
            }
            b'U' => reader.update()?,
            b'D' => {
                let relation = reader.u32()?;
                let mark = reader.u8()?;
                Self::Delete { relation, old: reader.old(mark)? }
            }
            b'T' => {
                let count = reader.u32()? as usize;
                reader.skip(1)?;
                let length = count.checked_mul(4).ok_or_else(cut_off)?;
                Self::Truncate { relations: Ids(reader.take(length)?) }
            }
            b'M' => {
                reader.skip(1 + 8)?;
                let prefix = reader.bytes_to_zero()?;
                let length = reader.u32()? as usize;
                Self::Logical { prefix, content: reader.take(length)? }
            }
            b'Y' | b'O' => Self::Other,
            tag => {
                return Err(SourceError::decode(format!(
                    "the log holds a message of an unknown sort (tag={tag:#04x})"
                )));
            }
        })
    }
}

fn cut_off() -> SourceError {
    SourceError::decode("the log holds a message that is cut off")
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(cut_off)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.take(length).map(|_| ())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(cut_off)?;
        self.bytes = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn position(&mut self) -> Result<Position> {
        self.array().map(u64::from_be_bytes).map(Position)
    }

    fn expect(&mut self, mark: u8) -> Result<()> {
        let found = self.u8()?;
        if found == mark {
            Ok(())
        } else {
            Err(SourceError::decode(format!("the log holds an unknown mark ({found:#04x})")))
        }
    }

    fn bytes_to_zero(&mut self) -> Result<&'a [u8]> {
        let at = memchr::memchr(0, self.bytes).ok_or_else(cut_off)?;
        let taken = self.take(at)?;
        self.skip(1)?;
        Ok(taken)
    }

    fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes_to_zero()?;
        std::str::from_utf8(bytes).map_err(|_| SourceError::decode("the log holds a name that is not UTF-8"))
    }

    fn relation(&mut self) -> Result<Relation<'a>> {
        let id = self.u32()?;
        let (schema, name) = (self.text()?, self.text()?);
        self.skip(1)?;
        let count = self.u16()?;
        let columns = self.bytes;
        for _ in 0..count {
            self.skip(1)?;
            self.text()?;
            self.skip(8)?;
        }
        // The catalog's own schema is told as an empty name.
        let schema = if schema.is_empty() { "pg_catalog" } else { schema };
        Ok(Relation { id, schema, name, count, columns })
    }

    fn update(&mut self) -> Result<Message<'a>> {
        let relation = self.u32()?;
        let old = match self.u8()? {
            b'N' => None,
            mark => {
                let old = self.old(mark)?;
                self.expect(b'N')?;
                Some(old)
            }
        };
        Ok(Message::Update { relation, old, new: self.tuple()? })
    }

    fn old(&mut self, mark: u8) -> Result<Old<'a>> {
        let whole = match mark {
            b'O' => true,
            b'K' => false,
            other => return Err(SourceError::decode(format!("the log holds an unknown mark ({other:#04x})"))),
        };
        Ok(Old { whole, tuple: self.tuple()? })
    }

    fn tuple(&mut self) -> Result<Tuple<'a>> {
        let count = self.u16()?;
        let begun = self.bytes;
        for _ in 0..count {
            self.value()?;
        }
        Ok(Tuple { count, bytes: &begun[..begun.len() - self.bytes.len()] })
    }

    fn value(&mut self) -> Result<Value<'a>> {
        Ok(match self.u8()? {
            b'n' => Value::Null,
            b'u' => Value::Unchanged,
            b't' => {
                let length = self.u32()? as usize;
                Value::Text(self.take(length)?)
            }
            other => {
                return Err(SourceError::decode(format!("the log holds a value of an unknown form ({other:#04x})")));
            }
        })
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(crate) mod tests;
