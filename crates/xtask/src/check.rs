//! `cargo xtask check`: the steps that are quick enough to run before every commit, and that `test` shares.

use crate::steps::Steps;
use crate::{shell, tidy};

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    add_forms(&mut steps);
    steps.step("clippy", || shell::run(&mut clippy()));
    steps.finish()
}

/// Adds tidy and format: the steps that read files and compile nothing.
pub(crate) fn add_forms(steps: &mut Steps) {
    steps.step("tidy", || tidy::run(false));
    steps.step("fmt", || shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])));
}

/// Returns the command of clippy over all targets of the workspace; a warning is an error.
pub(crate) fn clippy() -> std::process::Command {
    shell::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}
