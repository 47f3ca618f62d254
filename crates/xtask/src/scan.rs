//! `cargo xtask scan-tls`: testssl.sh and sslyze at a real listener; a test judges their findings.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    let scan = ["test", "--locked", "-p", "sealway-cli", "--test", "gateway", "--", "tls_scan::", "--include-ignored"];
    shell::run(&mut shell::cargo(&scan))
}
