//! How a worker lives, and what each one does.
//!
//! In the order data meets them: [`CaptureActor`] admits change batches under [`Ticket`]s; [`ResolverActor`]s turn them into
//! touches; [`Lanes`] carry those to [`BuilderActor`]s, a document always to the same one, and [`Claims`] keep a backfill's
//! [`Page`]s and live touches of one document apart; [`SinkActor`]s write and settle
//! the tickets; the settled numbers come back to the capture actor's [`Ledger`]. Beside them an [`IndexActor`] for each index
//! fills it and keeps its state, the [`ProgressActor`] saves what must outlive a run, and the [`DeadLetterActor`] keeps what
//! could not be written. Actors know traits only, never a particular source or sink.

mod actor;
mod board;
mod builder;
mod capture;
mod claims;
mod dead_letter;
mod describe;
mod faults;
mod fill;
mod gate;
mod index;
mod lane;
mod ledger;
mod lines;
mod meters;
mod page;
mod pending;
mod progress;
mod resolver;
mod retry;
mod settings;
mod sink;
mod ticket;
mod versions;

pub use actor::{Actors, Ended, Failure, Signals};
pub use board::{Board, IndexStatus, StageDepth};
pub use builder::{BuilderActor, BuilderParts};
pub use capture::{CaptureActor, CaptureParts, TicketedBatch};
pub use claims::Claims;
pub use dead_letter::{DeadLetterActor, DeadLetterDesk};
pub use faults::Faults;
pub use fill::FillParts;
pub use gate::{Gate, GateKeeper, Gates, Opening};
pub use index::{IndexActor, IndexDesk, IndexEvent, IndexParts, Inspect, StartState, TroubleSource};
pub use lane::{Lanes, Mailbox, SinkSet, Touch, TouchBatch};
pub use ledger::{Ledger, Payload};
pub use lines::Lines;
pub use meters::{IndexMeters, Meters, SinkMeters};
pub use page::Page;
pub use progress::{ProgressActor, ProgressDesk, SinkProgress, highest_epoch, of_index, save};
pub use resolver::{ResolverActor, ResolverParts};
pub use retry::Waits;
pub use settings::Settings;
pub use sink::{DocumentBatch, Outgoing, SinkActor, SinkCommand, SinkDesk, SinkParts};
pub use ticket::{Alarm, Ticket, TicketNumber, TicketPrinter};
pub use versions::Versions;
