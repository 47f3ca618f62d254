//! `cargo xtask soak`: all services under load with a fault each minute; no answer may be wrong, and nothing may grow.

use crate::shell;

/// Arguments of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Length of the run in minutes; at least 7
    #[arg(long, default_value_t = 10)]
    minutes: u32,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    // The services as they are deployed, without the minutes of link-time optimisation.
    let soak = ["test", "--locked", "--profile", "relfast", "-p", "sealway-cli", "--test", "watch", "--", "soak::"];
    let mut command = shell::cargo(&soak);
    command.args(["--ignored", "--nocapture"]).env("SEALWAY_SOAK_MINUTES", arguments.minutes.to_string());
    shell::run(&mut command)
}
