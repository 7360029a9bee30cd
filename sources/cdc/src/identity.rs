use millstream_model::{Position, SourcePoint};

/// Which source this is, and where its durable point stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// Tells one source from another: for Postgres the cluster's system identifier and the database.
    pub system: String,
    /// The history that it is on now.
    pub timeline: u32,
    /// Where each earlier history that led here ended, oldest first.
    pub forks: Vec<Fork>,
    /// The source's own head.
    pub head: Position,
    /// The durable point; `None` when there is none.
    pub durable: Option<Position>,
    /// Why the durable point can't be used although it is there (the log was removed).
    pub lost: Option<String>,
}

/// Where a timeline ended and the next began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The timeline that ended.
    pub timeline: u32,
    /// Its last position.
    pub at: Position,
}

/// Whether a source goes on where we left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// It does; after a failover, on a new timeline that contains all that we had seen.
    Continues,
    /// It does not: the sentence says why.
    Gap(String),
}

impl SourceIdentity {
    /// Holds the source against what was saved: another cluster, a restored backup, a lost, moved or re-made durable point.
    pub fn continuity(&self, saved: &SourcePoint) -> Continuity {
        match self.gap_since(saved) {
            Some(reason) => Continuity::Gap(reason),
            None => Continuity::Continues,
        }
    }

    fn gap_since(&self, saved: &SourcePoint) -> Option<String> {
        if self.system != saved.system {
            return Some(format!("this is another source (found={}, expected={})", self.system, saved.system));
        }
        if let Some(reason) = self.history_gap(saved) {
            return Some(reason);
        }
        if let Some(reason) = &self.lost {
            return Some(format!("the durable point is lost: {reason}"));
        }
        match self.durable {
            None => Some("the durable point is gone".to_owned()),
            Some(durable) if durable > saved.position => Some(format!(
                "the durable point was moved or made anew by someone else (found={durable}, last confirmed={})",
                saved.position
            )),
            Some(_) => None,
        }
    }

    /// A fork at or after what was saved is a failover; before it, a restored backup.
    fn history_gap(&self, saved: &SourcePoint) -> Option<String> {
        if self.timeline < saved.timeline {
            return Some(format!("the source went back to timeline {} from {}", self.timeline, saved.timeline));
        }
        if self.timeline == saved.timeline {
            return (self.head < saved.position).then(|| {
                format!("the source is an older copy of itself (head={}, last confirmed={})", self.head, saved.position)
            });
        }
        match self.forks.iter().find(|fork| fork.timeline == saved.timeline) {
            Some(fork) if fork.at >= saved.position => None,
            Some(fork) => Some(format!(
                "the source was restored to a moment before our last confirmation (fork={}, last confirmed={})",
                fork.at, saved.position
            )),
            None => Some(format!("timeline {} did not come from {}", self.timeline, saved.timeline)),
        }
    }
}
