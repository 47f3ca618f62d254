//! Results of harnesses, as tests and as lines for `cargo xtask evidence proofs`.

use std::time::Instant;

use crate::Outcome;

/// Checks that a property holds, and reports harness, property, bound, number of cases and time.
#[track_caller]
pub(crate) fn holds(harness: &str, property: &str, bound: &str, check: impl FnOnce() -> Outcome) {
    let start = Instant::now();
    match check() {
        Ok(cases) => {
            assert!(cases > 0, "{harness} checked nothing");
            line(&["holds", harness, property, bound, &cases.to_string(), &start.elapsed().as_millis().to_string()]);
        }
        Err(found) => {
            line(&["fails", harness, &found.0]);
            panic!("{harness}: {property}: {}", found.0);
        }
    }
}

/// Checks that a harness finds a planted defect, and reports the defect and the counter-example.
#[track_caller]
pub(crate) fn finds(harness: &str, defect: &str, check: impl FnOnce() -> Outcome) {
    match check() {
        Ok(cases) => panic!("{harness} does not find in {cases} cases: {defect}"),
        Err(found) => line(&["finds", harness, defect, &found.0]),
    }
}

/// Prints a line if `SEALWAY_PROOFS` is set.
#[allow(clippy::print_stdout, reason = "the lines are the report")]
fn line(cells: &[&str]) {
    if std::env::var_os("SEALWAY_PROOFS").is_some() {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace(['\t', '\n'], " ")).collect();
        println!("\nproof\t{}", cells.join("\t"));
    }
}
