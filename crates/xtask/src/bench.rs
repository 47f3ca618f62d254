//! `cargo xtask bench`: the benchmark programs, always from `release`, the only profile whose figures are published.

use crate::shell;

/// Builds the server and the benchmarks together, then runs the benchmarks: they look for the server beside themselves.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--release", "--locked", "-p", "sealway-cli", "-p", "sealway-bench"]))?;
    shell::run(shell::command(shell::target_dir().join("release/sealway-bench")).args(arguments))
}

/// The comparison of proxies: first what it compares with is installed.
pub(crate) fn gateway(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-bench.sh"))?;
    run(&with("gateway", arguments))
}

/// The comparison of load generators: first what it compares with is installed.
pub(crate) fn load(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(shell::command("scripts/setup-bench.sh").arg("load"))?;
    run(&with("load", arguments))
}

/// The broker, beside what it is compared with, which is installed first.
pub(crate) fn broker(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(shell::command("scripts/setup-bench.sh").arg("broker"))?;
    run(&with("broker", arguments))
}

/// Wire 3 in one process: no server, no socket.
pub(crate) fn wire3(arguments: &[String]) -> anyhow::Result<()> {
    // Not beside the server, which has one provider.
    let mut build = shell::cargo(&["build", "--release", "--locked", "-p", "sealway-bench", "--features", "providers"]);
    shell::run(&mut build)?;
    shell::run(shell::command(shell::target_dir().join("release/sealway-bench")).args(with("wire3", arguments)))
}

/// Channels: handshakes and records, then the relay, then its memory over three waves of idle channels.
pub(crate) fn channel(arguments: &[String]) -> anyhow::Result<()> {
    if !arguments.is_empty() {
        return run(&with("relay", arguments));
    }
    run(&["channel".into()])?;
    run(&["relay".into()])?;
    run(&with("relay", &["--waves".into(), "5000".into()]))
}

/// The published acceptance test; its verdict is the exit code.
pub(crate) fn accept(arguments: &[String]) -> anyhow::Result<()> {
    run(&with("accept", arguments))
}

fn with(program: &str, arguments: &[String]) -> Vec<String> {
    [program.to_owned()].into_iter().chain(arguments.iter().cloned()).collect()
}
