//! `cargo xtask load-long`: the load generator's searches in their long form, one at a time.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    // In release: in a debug build half of the measured time is the build's.
    let long = [
        "test",
        "--locked",
        "--profile",
        "relfast",
        "-p",
        "sealway-cli",
        "--test",
        "load",
        "--",
        "truth::",
        "--ignored",
    ];
    shell::run(&mut shell::cargo(&long))
}
