//! `cargo xtask bench`: the benchmark programs, always from `release`, the only profile whose figures are published.

use crate::shell;

/// Builds the server and the benchmarks together, then runs the benchmarks: they look for the server beside themselves.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--release", "--locked", "-p", "sealway-cli", "-p", "sealway-bench"]))?;
    shell::run(shell::command(shell::target_dir().join("release/sealway-bench")).args(arguments))
}
