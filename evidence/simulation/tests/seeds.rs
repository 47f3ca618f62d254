//! The short form: 200 seeds, and some of them twice.

use std::time::Duration;

use sealway_evidence_simulation::run;

/// Simulated time of a run.
const TIME: Duration = Duration::from_secs(6);

#[test]
fn invariants_hold_in_200_seeds() {
    for seed in 1..=200 {
        let outcome = run(seed, TIME);
        assert!(
            outcome.violations.is_empty(),
            "seed {seed}: {:?}\nagain: cargo run -p sealway-evidence-simulation -- --seed {seed} --time {}",
            outcome.violations,
            TIME.as_secs()
        );
        assert!(outcome.counts.served > 0, "seed {seed} served nothing: {:?}", outcome.counts);
    }
}

#[test]
fn a_seed_has_one_course() {
    for seed in [1, 2, 3, 5, 8] {
        let (one, other) = (run(seed, TIME), run(seed, TIME));
        assert_eq!(one.events, other.events, "seed {seed}");
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert_ne!(one.hash, run(seed + 1, TIME).hash, "another seed has another course");
    }
}
