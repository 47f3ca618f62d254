//! Relay nodes, the short form: a few short seeds, one of them twice, and a planted defect that they must find.

use std::time::Duration;

use sealway_evidence_simulation::Outcome;
use sealway_evidence_simulation::relay::{Counts, Defect, run_with};

/// Simulated time of a run, before its recovery.
const TIME: Duration = Duration::from_secs(3);
const SEEDS: u64 = 24;

fn again(seed: u64) -> String {
    format!("again: cargo run -p sealway-evidence-simulation -- --relay --seed {seed} --time {}", TIME.as_secs())
}

#[test]
fn invariants_of_relay_nodes_hold_in_24_seeds() {
    let outcomes: Vec<Outcome> = (1..=SEEDS).map(|seed| run_with(seed, TIME, None)).collect();
    for Outcome { seed, violations, .. } in &outcomes {
        assert!(violations.is_empty(), "seed {seed}: {violations:?}\n{}", again(*seed));
    }
    // Runs in which nothing happens hold every invariant.
    let sum = |of: fn(&Counts) -> u64| outcomes.iter().map(|outcome| of(&outcome.counts.relay)).sum::<u64>();
    assert!(sum(|counts| counts.connected) > 4 * SEEDS);
    assert!(sum(|counts| counts.bridged) > SEEDS);
    assert!(sum(|counts| counts.delivered) > 20 * SEEDS);
    assert!(sum(|counts| counts.rejected) > 4 * SEEDS);
    assert!(sum(|counts| counts.unavailable) > 4 * SEEDS);
    assert!(sum(|counts| counts.tampered) > 0);
}

#[test]
fn a_seed_of_relay_nodes_has_one_course() {
    let (one, other) = (run_with(5, TIME, None), run_with(5, TIME, None));
    assert_eq!(one.events, other.events, "{}", again(5));
    assert_eq!(one.hash, other.hash, "{}", again(5));
    assert_ne!(one.hash, run_with(6, TIME, None).hash, "another seed has another course");
}

#[test]
fn a_directory_that_forgets_tokens_is_found() {
    let finds = |seed| !run_with(seed, TIME, Some(Defect::TokensForgotten)).violations.is_empty();
    assert!((1..=SEEDS).any(finds));
}
