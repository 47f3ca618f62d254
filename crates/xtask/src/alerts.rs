//! `cargo xtask alerts`: each fault by itself, which must fire its own alerts of deploy/prometheus and no others.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    let long =
        ["test", "--locked", "-p", "sealway-cli", "--test", "watch", "--", "alerts::", "--ignored", "--nocapture"];
    shell::run(&mut shell::cargo(&long))
}
