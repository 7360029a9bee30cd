use std::fmt;

use serde_json::Value;

use crate::meters::Metrics;

/// What the engine's process tells. Times are nanoseconds of [`crate::clock`].
#[derive(Clone, Debug)]
pub enum Event {
    /// The live stream runs.
    Running(u64),
    /// An index begins to be filled.
    Begun(String, u64),
    /// It is filled.
    Finished(String, u64),
    /// A document was written: index, id, time.
    Written(String, String, u64),
    /// The asked position is confirmed: when that was seen, and when the last document was written.
    Reached {
        /// When it was seen.
        at: u64,
        /// When a document was written last; 0: none was.
        last_write: u64,
    },
    /// Metrics and status.
    Sample(Box<Sample>),
    /// The engine ended, and why.
    Ended(String),
}

/// Metrics and status at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub at: u64,
    /// What `/status` would say.
    pub status: Value,
    /// What `/metrics` would say.
    pub metrics: Metrics,
}

impl Sample {
    /// Depth and capacity of each channel, lanes together, by the stage that reads it.
    pub fn depths(&self) -> Vec<(String, f64, f64)> {
        let mut depths: Vec<(String, f64, f64)> = Vec::new();
        for channel in self.status["channels"].as_array().into_iter().flatten() {
            let name = channel["channel"].as_str().unwrap_or_default();
            let (depth, capacity) =
                (channel["depth"].as_f64().unwrap_or(0.0), channel["capacity"].as_f64().unwrap_or(0.0));
            match depths.iter_mut().find(|(known, ..)| known == name) {
                Some((_, depths, capacities)) => {
                    *depths += depth;
                    *capacities += capacity;
                }
                None => depths.push((name.to_owned(), depth, capacity)),
            }
        }
        depths
    }
}

/// One line each, but for a sample, whose metrics follow in so many lines.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(at) => write!(f, "running {at}"),
            Self::Begun(index, at) => write!(f, "begun {index} {at}"),
            Self::Finished(index, at) => write!(f, "finished {index} {at}"),
            Self::Written(index, id, at) => write!(f, "written {index} {at} {id}"),
            Self::Reached { at, last_write } => write!(f, "reached {at} {last_write}"),
            Self::Sample(_) => Err(fmt::Error),
            Self::Ended(why) => write!(f, "ended {}", why.replace('\n', " ")),
        }
    }
}

impl Event {
    /// Reads a line that is not a sample's.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        let two = || rest.split_once(' ');
        Some(match word {
            "running" => Self::Running(rest.parse().ok()?),
            "begun" => Self::Begun(two()?.0.to_owned(), two()?.1.parse().ok()?),
            "finished" => Self::Finished(two()?.0.to_owned(), two()?.1.parse().ok()?),
            "written" => {
                let (index, rest) = two()?;
                let (at, id) = rest.split_once(' ')?;
                Self::Written(index.to_owned(), id.to_owned(), at.parse().ok()?)
            }
            "reached" => Self::Reached { at: two()?.0.parse().ok()?, last_write: two()?.1.parse().ok()? },
            "ended" => Self::Ended(rest.to_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        for line in
            ["running 1", "begun users 2", "finished users 3", "written users 4 a b:c", "reached 5 0", "ended it broke"]
        {
            assert_eq!(Event::parse(line).map(|event| event.to_string()).as_deref(), Some(line));
        }
        assert!(Event::parse("nonsense").is_none());
    }
}
