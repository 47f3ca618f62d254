//! `cargo xtask check`: what is quick enough to run before every commit, and the steps it shares with `test`.

use crate::steps::Steps;
use crate::{shell, tidy};

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    add(&mut steps);
    steps.finish()
}

/// Tidy, format, clippy: what reads code and runs none.
pub(crate) fn add(steps: &mut Steps) {
    steps.step("tidy", tidy::run);
    steps.step("fmt", || shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])));
    steps.step("clippy", || {
        shell::run(&mut shell::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    });
}
