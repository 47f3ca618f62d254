//! `cargo xtask check`: the steps that are quick enough to run before every commit, and that `test` shares.

use crate::steps::Steps;
use crate::{shell, tidy};

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    add(&mut steps);
    steps.finish()
}

/// Adds tidy, format and clippy: the steps that read code and run none.
pub(crate) fn add(steps: &mut Steps) {
    steps.step("tidy", || tidy::run(false));
    steps.step("fmt", || shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])));
    steps.step("clippy", || {
        shell::run(&mut shell::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    });
}
