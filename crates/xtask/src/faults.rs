//! `cargo xtask e2e-faults`: the fault tests in their long form, one at a time, their tables printed.

use crate::{sdk, shell};

/// The fastest profile without link-time optimisation: the long form sends a million replays.
const PROFILE: &str = "relfast";

pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    let nextest = shell::venv_required("cargo-nextest")?;
    let mut command = shell::command(nextest);
    command.args([
        "nextest",
        "run",
        "--locked",
        "-p",
        "sealway-cli",
        "--cargo-profile",
        PROFILE,
        "--profile",
        "faults",
        "--run-ignored",
        "all",
    ]);
    shell::run(command.env("SEALWAY_FAULTS", "full"))?;
    sdk::transfer_long()
}
