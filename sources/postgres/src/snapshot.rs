use millstream_core::{Result, SourceError};
use millstream_model::{Fence, Position, Sight};

/// What a statement could see: the text of `pg_current_snapshot()`, read in the same statement, and on a standby the replay
/// position, read in an *earlier* statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Every transaction below has ended.
    pub xmin: u64,
    /// No transaction from here on had ended.
    pub xmax: u64,
    /// Those between that had not ended; ascending.
    pub in_progress: Vec<u64>,
    /// On a standby: how far it had replayed before the statement began. `None` on a primary.
    pub replayed: Option<Position>,
}

impl Snapshot {
    /// Reads `xmin:xmax:xip,xip,…`.
    ///
    /// # Errors
    /// `Decode` when it is anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.split(':');
            let xmin = parts.next()?.parse().ok()?;
            let xmax = parts.next()?.parse().ok()?;
            let list = parts.next()?;
            let in_progress =
                list.split(',').filter(|id| !id.is_empty()).map(|id| id.parse().ok()).collect::<Option<_>>()?;
            Some(Self { xmin, xmax, in_progress, replayed: None })
        };
        read().ok_or_else(|| SourceError::decode(format!("pg_current_snapshot() gave an unknown form (text={text})")))
    }

    /// The same, read on a standby that had replayed up to `position`.
    #[must_use]
    pub fn on_standby(mut self, position: Position) -> Self {
        self.replayed = Some(position);
        self
    }

    /// The log's 32-bit transaction id as the 64-bit one that is nearest to this snapshot.
    fn widen(&self, transaction: u64) -> u64 {
        const EPOCH: u64 = 1 << 32;
        let near = (self.xmax & !(EPOCH - 1)) | (transaction & (EPOCH - 1));
        if near > self.xmax + EPOCH / 2 {
            near.saturating_sub(EPOCH)
        } else if near + EPOCH / 2 < self.xmax {
            near + EPOCH
        } else {
            near
        }
    }

    fn sees(&self, transaction: u64) -> bool {
        let transaction = self.widen(transaction);
        transaction < self.xmin || (transaction < self.xmax && self.in_progress.binary_search(&transaction).is_err())
    }
}

impl Sight for Snapshot {
    fn covers(&self, fence: &Fence) -> bool {
        if fence.is_none() {
            return true;
        }
        // On a standby an id that was never seen there counts as ended: only the position tells.
        let replayed = self.replayed.is_none_or(|replayed| replayed >= fence.position());
        replayed && self.sees(fence.transaction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(transaction: u64) -> Fence {
        Fence::new(transaction, Position(100))
    }

    #[test]
    fn an_open_transaction_is_not_covered() {
        let snapshot = Snapshot::parse("10:20:10,15").unwrap();
        assert!(snapshot.covers(&fence(9)));
        assert!(!snapshot.covers(&fence(10)));
        assert!(snapshot.covers(&fence(11)));
        assert!(!snapshot.covers(&fence(15)));
        assert!(!snapshot.covers(&fence(20)));
        assert!(snapshot.covers(&Fence::NONE));
    }

    #[test]
    fn case_g6_the_logs_id_is_widened_to_the_nearest_epoch() {
        let epoch = 3u64 << 32;
        let snapshot = Snapshot::parse(&format!("{}:{}:", epoch + 5, epoch + 5)).unwrap();
        assert!(snapshot.covers(&fence(4)));
        assert!(!snapshot.covers(&fence(5)));
        // An id from before the wrap belongs to the epoch before.
        assert!(snapshot.covers(&fence(u64::from(u32::MAX))));
        // And one after it to the next.
        let before_wrap = Snapshot::parse(&format!("{}:{}:", epoch - 2, epoch - 2)).unwrap();
        assert!(!before_wrap.covers(&fence(3)));
    }

    #[test]
    fn case_g5_on_a_standby_the_position_must_be_replayed_too() {
        let snapshot = Snapshot::parse("30:30:").unwrap();
        assert!(!snapshot.clone().on_standby(Position(99)).covers(&fence(9)));
        assert!(snapshot.on_standby(Position(100)).covers(&fence(9)));
    }

    #[test]
    fn an_unknown_form_is_an_error() {
        assert!(Snapshot::parse("10:20").is_err());
        assert!(Snapshot::parse("10:20:x").is_err());
    }
}
