//! Every client against every server: `cargo xtask matrix`. Real processes on loopback: a gateway that is also the authority
//! of all, the purchase service of each SDK, and the program `benchmark` of each SDK as client.

mod fleet;
mod report;

use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::server::Server;
use crate::{sdk, shell};
use fleet::Fleet;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of measurements of each pair
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Calls of one run
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
    /// Calls at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Wires to speak
    #[arg(long, value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u8).range(1..=3))]
    wires: Vec<u8>,
    /// Of debug builds, to see that all work; their times are no measure
    #[arg(long)]
    debug: bool,
    /// Rust's programs are built: cargo would wait for what runs beside
    #[arg(skip)]
    is_built: bool,
}

impl Arguments {
    /// Returns the run of `make test`: whether each pair works.
    pub(crate) fn short() -> Self {
        Self { runs: 1, calls: 20, concurrency: 2, wires: vec![1, 2, 3], debug: true, is_built: true }
    }

    fn profile(&self) -> &'static str {
        if self.debug { "debug" } else { "release" }
    }
}

/// One client, one server, one wire: the results of each run.
pub(crate) struct Cell {
    client: &'static str,
    server: String,
    wire: u8,
    runs: Vec<Run>,
    /// The cause of its failure, if it failed.
    fault: Option<String>,
}

/// One run of a client's `benchmark`.
struct Run {
    calls_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the server for a call, in milliseconds.
    server_cpu_ms: f64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.is_built {
        build(arguments.debug)?;
    }
    let sdks = sdk::all(arguments.profile());
    let fleet = Fleet::start(&sdks, arguments.profile())?;
    let mut cells = Vec::new();
    let count = arguments.wires.len() * sdks.len() * fleet.servers.len();
    for &wire in &arguments.wires {
        for client in &sdks {
            for server in &fleet.servers {
                let mut cell =
                    Cell { client: client.name, server: server.name.clone(), wire, runs: Vec::new(), fault: None };
                for _ in 0..arguments.runs {
                    match measure(client, &fleet, server, wire, arguments) {
                        Ok(run) => cell.runs.push(run),
                        Err(err) => {
                            cell.fault = Some(format!("{err:#}"));
                            break;
                        }
                    }
                }
                let said = cell.fault.as_ref().map_or_else(|| "ok".to_owned(), |fault| format!("FAILED: {fault}"));
                println!("{}/{count}  wire {wire}  {} -> {}  {said}", cells.len() + 1, client.name, server.name);
                cells.push(cell);
            }
        }
    }
    drop(fleet);
    let folder = shell::target_dir().join("matrix");
    std::fs::create_dir_all(&folder).context("target/matrix")?;
    let told = report::Parameters {
        debug: arguments.debug,
        runs: arguments.runs,
        calls: arguments.calls,
        concurrency: arguments.concurrency,
    };
    for (name, text) in [("matrix.md", report::markdown(&cells, &told)), ("matrix.html", report::html(&cells, &told))] {
        std::fs::write(folder.join(name), text).with_context(|| format!("target/matrix/{name}"))?;
    }
    let failed: Vec<_> = cells.iter().filter(|cell| cell.fault.is_some()).map(Cell::name).collect();
    println!(
        "matrix: {} cells, {} failed; written to matrix/matrix.md and matrix.html of the target folder",
        cells.len(),
        failed.len()
    );
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

impl Cell {
    fn name(&self) -> String {
        format!("wire {}, {} -> {}", self.wire, self.client, self.server)
    }

    /// Returns the median of its runs' results, or nothing.
    fn median(&self, of: impl Fn(&Run) -> f64) -> Option<f64> {
        let mut values: Vec<_> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        if self.fault.is_some() { None } else { values.get(values.len() / 2).copied() }
    }
}

/// Builds Rust's programs. Those in other languages are built by their steps of `make test`, or `cargo xtask sdk`.
fn build(debug: bool) -> anyhow::Result<()> {
    let mut arguments = vec!["build", "--locked", "--workspace", "--bins", "--examples"];
    if !debug {
        arguments.push("--release");
    }
    shell::run(&mut shell::cargo(&arguments))
}

fn measure(client: &sdk::Sdk, fleet: &Fleet, server: &Server, wire: u8, arguments: &Arguments) -> anyhow::Result<Run> {
    let mut command = client.program("benchmark")?;
    command
        .arg(arguments.calls.to_string())
        .arg("--json")
        .env("SESSION_URL", &fleet.authority)
        .env("SERVER_URL", &server.url)
        .env("SEALWAY_PINS", &fleet.pin)
        .env("SEALWAY_WIRE", wire.to_string())
        .env("BENCHMARK_CONCURRENCY", arguments.concurrency.to_string())
        .stdin(Stdio::null());
    let before = server.cpu_ms()?;
    let output = command.output().context("it does not start")?;
    let cpu_ms = server.cpu_ms()? - before;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, errors.lines().last().unwrap_or("nothing said"));
    let told: Value = serde_json::from_str(said.trim()).with_context(|| format!("not one line of JSON: {said:?}"))?;
    let number = |value: &Value, name: &str| value.as_f64().with_context(|| format!("no {name} in {told}"));
    ensure!(told["failed"] == 0, "{} calls failed", told["failed"]);
    ensure!(told["n"] == arguments.calls, "{} calls, of {}", told["n"], arguments.calls);
    ensure!(told["wire"] == wire, "wire {}, of {wire}", told["wire"]);
    let warmup = number(&told["warmup"], "warmup")?;
    Ok(Run {
        calls_per_s: number(&told["throughput_per_s"], "throughput_per_s")?,
        p50_ms: number(&told["latency_ms"]["p50"], "p50")?,
        p99_ms: number(&told["latency_ms"]["p99"], "p99")?,
        server_cpu_ms: cpu_ms / (f64::from(arguments.calls) + warmup),
    })
}
