//! The short form: 200 seeds, one of each kind of store twice, and planted defects that they must find.

use std::time::Duration;

use sealway_evidence_simulation::{Defect, Outcome, run, run_with};

/// Simulated time of a run.
const TIME: Duration = Duration::from_secs(2);
const SEEDS: u64 = 200;

fn again(seed: u64) -> String {
    format!("again: cargo run -p sealway-evidence-simulation -- --seed {seed} --time {}", TIME.as_secs())
}

#[test]
fn invariants_hold_in_200_seeds() {
    let outcomes: Vec<Outcome> = (1..=SEEDS).map(|seed| run(seed, TIME)).collect();
    for Outcome { seed, violations, .. } in &outcomes {
        assert!(violations.is_empty(), "seed {seed}: {violations:?}\n{}", again(*seed));
    }
    for store in ["Local", "Single", "Sentinel", "Postgres(", "Tiered"] {
        let is_meant =
            |outcome: &Outcome| outcome.events.iter().any(|event| event.contains(&format!("store: {store}")));
        assert!(outcomes.iter().any(is_meant), "no seed has the store {store}");
    }
    // Runs in which nothing happens hold every invariant.
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    assert!(sum(|outcome| outcome.counts.served) > 4 * SEEDS);
    assert!(sum(|outcome| outcome.counts.answered) > 3 * SEEDS);
    assert!(sum(|outcome| outcome.counts.rejected) > SEEDS);
    assert!(sum(|outcome| outcome.counts.revocations) > SEEDS / 4);
    assert!(sum(|outcome| outcome.counts.faults) > SEEDS / 4);
}

#[test]
fn a_seed_has_one_course() {
    // Redis with Sentinels, PostgreSQL, and both.
    let hashes = [1, 9, 14].map(|seed| {
        let (one, other) = (run(seed, TIME), run(seed, TIME));
        assert_eq!(one.events, other.events, "{}", again(seed));
        assert_eq!(one.hash, other.hash, "{}", again(seed));
        one.hash
    });
    assert_ne!(hashes[0], hashes[1], "another seed has another course");
}

#[test]
fn a_script_that_forgets_nonces_is_found() {
    let finds = |seed| !run_with(seed, TIME, Some(Defect::NoncesForgotten)).violations.is_empty();
    assert!((1..=SEEDS).any(finds));
}

#[test]
fn a_server_that_returns_a_row_twice_is_found() {
    let finds = |seed| !run_with(seed, TIME, Some(Defect::RowsTwice)).violations.is_empty();
    assert!((1..=SEEDS).any(finds));
}
