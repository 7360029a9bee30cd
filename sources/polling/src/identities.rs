use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::BackendError;
use crate::model::{StandardCurve, StreamDescriptor};

/// Gives streams and curves their identities in the store: for destinations that assign their own.
#[async_trait]
pub trait Identities: Send + Sync + 'static {
    /// The identity of a stream; the same one each time.
    ///
    /// # Errors
    /// The stream is not registered in this cycle; the others are.
    async fn stream(&self, system: &str, stream: &StreamDescriptor) -> Result<Identity, BackendError>;

    /// The identity of a curve; the same one each time.
    ///
    /// # Errors
    /// The curve is not registered in this cycle; the others are.
    async fn curve(&self, system: &str, curve: &StandardCurve) -> Result<Identity, BackendError>;
}

/// What is said to a stream or curve that wants an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// This one.
    Known(String),
    /// None yet, for this reason (someone must approve it first): asked again in the next cycle.
    Held(String),
}

/// Identities that follow from system and key alone: the same everywhere, with nobody asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalIdentities;

#[async_trait]
impl Identities for LocalIdentities {
    async fn stream(&self, system: &str, stream: &StreamDescriptor) -> Result<Identity, BackendError> {
        Ok(Identity::Known(local("stream", system, stream.key.as_str())))
    }

    async fn curve(&self, system: &str, curve: &StandardCurve) -> Result<Identity, BackendError> {
        Ok(Identity::Known(local("curve", system, &curve.key)))
    }
}

/// A UUID of version 8, made of a digest.
fn local(kind: &str, system: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    for part in [kind, system, key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut bytes: Vec<u8> = hash.finalize().iter().take(16).copied().collect();
    bytes[6] = (bytes[6] & 0x0F) | 0x80;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_follow_from_kind_system_and_key() {
        let one = local("stream", "lab", "a");
        assert_eq!(one, local("stream", "lab", "a"));
        assert!(one != local("curve", "lab", "a") && one != local("stream", "laba", ""));
        assert_eq!(one.as_bytes()[14], b'8');
    }
}
