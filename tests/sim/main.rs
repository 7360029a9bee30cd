//! The real actors over a scripted source, on paused time and a seed.
//!
//! `MILLSTREAM_SIM_SEEDS` sets how many seeds run (default 500), `MILLSTREAM_SIM_FROM` the first (default 0).

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

mod script;
mod sink;
mod source;
mod world;

use millstream::Faults;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn every_seed_ends_equal_to_the_oracle() {
    let from = setting("MILLSTREAM_SIM_FROM", 0);
    let mut transactions = 0;
    for seed in from..from + setting("MILLSTREAM_SIM_SEEDS", 500) {
        match script::run(seed, Faults::default()) {
            Ok(report) => transactions += report.transactions,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(transactions > 0, "the writers wrote nothing");
}

#[test]
fn the_same_seed_twice_is_the_same_run() {
    for seed in 0..10 {
        assert_eq!(script::run(seed, Faults::default()), script::run(seed, Faults::default()), "seed {seed}");
    }
}

/// A deliberate fault must be noticed within so many seeds, or the simulation proves nothing.
fn is_caught(fault: Faults) -> bool {
    (0..200).any(|seed| script::run(seed, fault).is_err())
}

#[test]
fn an_ack_on_build_is_caught() {
    assert!(is_caught(Faults { ack_on_build: true, ..Faults::default() }));
}

#[test]
fn a_dropped_ticket_is_caught() {
    assert!(is_caught(Faults { drop_a_document: true, ..Faults::default() }));
}

#[test]
fn a_missing_fence_is_caught() {
    assert!(is_caught(Faults { no_fence: true, ..Faults::default() }));
}

#[test]
fn two_lanes_for_one_document_are_caught() {
    assert!(is_caught(Faults { two_lanes: true, ..Faults::default() }));
}

#[test]
fn a_page_beside_a_live_build_of_one_document_is_caught() {
    assert!(is_caught(Faults { no_claims: true, ..Faults::default() }));
}

#[test]
fn only_new_link_values_are_caught() {
    assert!(is_caught(Faults { only_new_links: true, ..Faults::default() }));
}
