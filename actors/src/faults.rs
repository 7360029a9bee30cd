/// Deliberate faults, by which the simulation shows that it would notice. All off by default; nothing outside tests sets one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct Faults {
    /// Settle tickets when a document is built, not when it is durable.
    pub ack_on_build: bool,
    /// Drop one ticket as if it had settled: its document is never written.
    pub drop_a_document: bool,
    /// Count every read, whatever it could see.
    pub no_fence: bool,
    /// Send a document's touches to lanes in turn instead of always to the same one.
    pub two_lanes: bool,
    /// Let a backfill's page and a live build have one document at once.
    pub no_claims: bool,
    /// Forget what a row's links were before the change.
    pub only_new_links: bool,
}
