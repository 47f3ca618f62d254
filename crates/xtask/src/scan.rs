//! `cargo xtask scan-tls`: testssl.sh and sslyze at a real listener; what they find is a test's to judge.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    let mut command = shell::cargo(&["test", "--locked", "-p", "sealway-cli", "--test", "tls_scan"]);
    shell::run(command.env("SEALWAY_GATEWAY", "full"))
}
