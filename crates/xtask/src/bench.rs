//! `cargo xtask bench`: the benchmark programs, always from `release`, the only profile whose figures are published.

use crate::shell;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(shell::cargo(&["run", "--release", "--locked", "-p", "sealway-bench", "--"]).args(arguments))
}
