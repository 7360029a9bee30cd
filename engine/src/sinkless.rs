use std::sync::{Mutex, PoisonError};

use millstream_sinks::{DeadLetter, DeadLetterState, DeadLetters, Result, async_trait};

/// Dead letters when nobody keeps them: logged, and known until the process ends.
#[derive(Default)]
pub(crate) struct LoggedLetters(Mutex<Vec<DeadLetter>>);

#[async_trait]
impl DeadLetters for LoggedLetters {
    async fn write(&self, letters: &[DeadLetter]) -> Result<()> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for letter in letters {
            tracing::warn!(
                index = %letter.index, id = letter.key.to_id(), kind = letter.kind, reason = letter.reason,
                resolved = letter.state == DeadLetterState::Resolved, "dead letter"
            );
            open.retain(|other| (&other.index, &other.key, &other.sink) != (&letter.index, &letter.key, &letter.sink));
            if letter.state == DeadLetterState::Open {
                open.push(letter.clone());
            }
        }
        Ok(())
    }

    async fn open(&self) -> Result<Vec<DeadLetter>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
