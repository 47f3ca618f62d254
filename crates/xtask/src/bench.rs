//! `cargo xtask bench`: the benchmark programs, always from `release`, the only profile whose figures are published.

use crate::shell;

/// Builds the server and the benchmarks together, then runs the benchmarks: they look for the server beside themselves.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["build", "--release", "--locked", "-p", "sealway-cli", "-p", "sealway-bench"]))?;
    shell::run(shell::command(shell::target_dir().join("release/sealway-bench")).args(arguments))
}

/// Runs the comparison of proxies, after installing the other proxies.
pub(crate) fn gateway(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(&mut shell::command("scripts/setup-bench.sh"))?;
    run(&with("gateway", arguments))
}

/// Runs the comparison of load generators, after installing the other generators.
pub(crate) fn load(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(shell::command("scripts/setup-bench.sh").arg("load"))?;
    run(&with("load", arguments))
}

/// Runs the comparison of the broker, after installing its counterparts.
pub(crate) fn broker(arguments: &[String]) -> anyhow::Result<()> {
    shell::run(shell::command("scripts/setup-bench.sh").arg("broker"))?;
    run(&with("broker", arguments))
}

/// Runs wire 3 in one process: no server, no socket.
pub(crate) fn wire3(arguments: &[String]) -> anyhow::Result<()> {
    // Not together with the server, which has one provider.
    let mut build = shell::cargo(&["build", "--release", "--locked", "-p", "sealway-bench", "--features", "providers"]);
    shell::run(&mut build)?;
    shell::run(shell::command(shell::target_dir().join("release/sealway-bench")).args(with("wire3", arguments)))
}

/// Runs the channel benchmarks: handshakes and records, then the relay, then its memory over three waves of idle channels.
pub(crate) fn channel(arguments: &[String]) -> anyhow::Result<()> {
    if !arguments.is_empty() {
        return run(&with("relay", arguments));
    }
    run(&["channel".into()])?;
    run(&["relay".into()])?;
    run(&with("relay", &["--waves".into(), "5000".into()]))
}

/// Runs the published acceptance test; its verdict is the exit code.
pub(crate) fn accept(arguments: &[String]) -> anyhow::Result<()> {
    run(&with("accept", arguments))
}

fn with(program: &str, arguments: &[String]) -> Vec<String> {
    [program.to_owned()].into_iter().chain(arguments.iter().cloned()).collect()
}
