//! The broker: compares the cost of a call with a bare Unix socket, with bare cryptography, and with a minimal server of grpc-go.
//! The servers have core 0, and one of them works at a time; the client is one thread on core 1, the same for all gRPC servers.
//! Each round measures each row in turn, so that disturbances of the machine affect all.

mod bare;
mod cases;
mod driver;
mod ground;
mod kpi;
mod ping;
mod process;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use self::cases::{Case, INPUT_LEN, Row, Server};
use self::driver::{Call, Driver};
pub(crate) use self::ping::serve;
use self::process::Process;
use crate::http::{pin_to, pin_to_load_core};
use crate::procfs::Others;
use crate::servers::{SERVER_CORE, sealway_beside};
use crate::table::median;

/// The number of calls before memory is measured.
const CALLS: u64 = 10_000;
/// The number of starts that are timed.
const STARTS: usize = 5;

/// Settings of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Path of the FIPS broker, compared with the plain one [default: target/fips/release/sealway]
    #[arg(long)]
    fips: Option<PathBuf>,
    /// Path of the echo server of grpc-go [default: target/tools/bin/grpc-echo]
    #[arg(long)]
    echo: Option<PathBuf>,
    /// Seconds a row and round
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Write the figures to this file, in JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// All figures of a run, for the report.
pub(super) struct Figures {
    rows: Vec<Row>,
    bare: bare::Bare,
    ours: Memory,
    echo: Memory,
    starts_ms: f64,
    fips: Option<Vec<Row>>,
    others: String,
}

/// The resident memory of a server, in KiB.
pub(super) struct Memory {
    started: u64,
    after_calls: u64,
}

/// The server processes of the comparison.
struct Servers {
    ours: Process,
    echo: Process,
    ping: Process,
}

/// Measures, prints, and compares with the last committed result.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let sealway = sealway_beside(options.sealway.clone())?;
    let echo = options.echo.clone().unwrap_or_else(|| report::root().join("target/tools/bin/grpc-echo"));
    pin_to(SERVER_CORE)?;
    let folder = tempfile::tempdir()?;
    let keys = ground::signing_keys(folder.path())?;
    // Before the servers start, because this measurement runs on their core.
    let bare = bare::Bare::measure(&keys)?;
    pin_to_load_core()?;
    let servers = start(&sealway, &echo, folder.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(ground::import(&servers.ours.socket, &keys))?;
    let mut cases = cases::plain();
    cases.extend(cases::signing(&keys));
    let others = Others::start(&[servers.ours.pid(), servers.echo.pid(), servers.ping.pid()])?;
    let ours = runtime.block_on(memory(&servers.ours, &cases::hash_one()))?;
    let echo = runtime.block_on(memory(&servers.echo, &cases::echo_one()))?;
    rounds(options, &runtime, &servers, &mut cases)?;
    let rows: Vec<_> = cases.iter().map(Case::row).collect();
    let others = others.in_words()?;
    let starts_ms = starts(&sealway, folder.path())?;
    let fips = fips(options, &runtime, folder.path(), &keys)?;
    let measured = Figures { rows, bare, ours, echo, starts_ms, fips, others };
    report::print(&measured, options)
}

fn start(sealway: &Path, echo: &Path, folder: &Path) -> anyhow::Result<Servers> {
    let me = std::env::current_exe()?;
    let echo_socket = folder.join("echo.sock");
    let ping_socket = folder.join("ping.sock");
    let text = |path: &Path| path.display().to_string();
    let echoes = Process::start(echo, &[&text(&echo_socket)], echo_socket.clone())
        .context("the echo of grpc-go: run scripts/setup-bench.sh broker")?;
    Ok(Servers {
        ours: broker(sealway, &folder.join("ours"), &["broker", "serve"])?,
        echo: echoes,
        ping: Process::start(&me, &["ping-service", &text(&ping_socket), &INPUT_LEN.to_string()], ping_socket)?,
    })
}

/// Starts a broker in its own folder.
fn broker(program: &Path, folder: &Path, serve: &[&str]) -> anyhow::Result<Process> {
    use std::os::unix::fs::DirBuilderExt;
    if !folder.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        ground::files(folder)?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let (socket, profiles, keys, kek) = (path("b.sock"), path("Profiles.yaml"), path("keys"), path("store.kek"));
    let mut arguments = serve.to_vec();
    arguments.extend(["--socket", &socket, "--profiles", &profiles, "--keys", &keys, "--kek-file", &kek]);
    Process::start(program, &arguments, folder.join("b.sock"))
}

/// Runs every row in turn, round after round. The first round warms up.
fn rounds(
    options: &Options,
    runtime: &tokio::runtime::Runtime,
    servers: &Servers,
    cases: &mut [Case],
) -> anyhow::Result<()> {
    for round in 0..=options.rounds {
        let time = Duration::from_secs_f64(if round == 0 { 0.1 } else { options.seconds });
        for case in cases.iter_mut() {
            let server = match case.server {
                Server::Ours => &servers.ours,
                Server::Echo => &servers.echo,
                Server::Ping => &servers.ping,
            };
            let seen = match &case.call {
                Some(call) => runtime.block_on(drive(server, call, case.row.in_flight, time)),
                None => ping(server, time),
            };
            let (seen, cpu_ns) = seen.with_context(|| case.row.name.clone())?;
            if round > 0 {
                case.keep(&seen, cpu_ns);
            }
        }
    }
    Ok(())
}

/// Runs a call for some time. Returns the figures, and the server's processor time in nanoseconds.
async fn drive(
    server: &Process,
    call: &Call,
    in_flight: usize,
    time: Duration,
) -> anyhow::Result<(driver::CaseFigures, u64)> {
    let mut driver = Driver::connect(&server.socket).await?;
    // The cost of connecting is not part of the call.
    driver.call(call).await?;
    let before = server.cpu_ns()?;
    let seen = driver.drive(call, in_flight, time).await?;
    Ok((seen, server.cpu_ns()?.saturating_sub(before)))
}

/// Does the same as [`drive`] over the bare socket.
fn ping(server: &Process, time: Duration) -> anyhow::Result<(driver::CaseFigures, u64)> {
    let before = server.cpu_ns()?;
    let seen = ping::drive(&server.socket, INPUT_LEN, time)?;
    Ok((seen, server.cpu_ns()?.saturating_sub(before)))
}

async fn memory(process: &Process, call: &Call) -> anyhow::Result<Memory> {
    let started = process.rss_kib()?;
    let driver = Driver::connect(&process.socket).await?;
    let mut calls = 0;
    while calls < CALLS {
        calls += driver.drive(call, cases::IN_FLIGHT, Duration::from_millis(200)).await?.calls;
    }
    Ok(Memory { started, after_calls: process.rss_kib()? })
}

/// Returns the median time in milliseconds from the start of the process until a client can connect, including the loading of
/// keys and profiles.
fn starts(sealway: &Path, folder: &Path) -> anyhow::Result<f64> {
    let mut times = Vec::new();
    for number in 0..STARTS {
        let process = broker(sealway, &folder.join(format!("start-{number}")), &["broker", "serve"])?;
        times.push(process.start.as_secs_f64() * 1e3);
    }
    Ok(median(&mut times))
}

/// Returns the rows of the FIPS broker, if it was built.
fn fips(
    options: &Options,
    runtime: &tokio::runtime::Runtime,
    folder: &Path,
    keys: &[ground::SigningKey],
) -> anyhow::Result<Option<Vec<Row>>> {
    let usual = report::root().join("target/fips/release/sealway");
    let Some(program) = options.fips.clone().or_else(|| usual.exists().then_some(usual)) else { return Ok(None) };
    let process = broker(&program, &folder.join("fips"), &["broker", "serve"])?;
    runtime.block_on(ground::import(&process.socket, keys))?;
    let mut cases = cases::plain();
    cases.extend(cases::signing(keys));
    cases.retain(|case| case.server == Server::Ours && case.row.in_flight == 1);
    for case in &mut cases {
        let Some(call) = &case.call else { continue };
        let time = Duration::from_secs_f64(options.seconds);
        let seen = runtime.block_on(drive(&process, call, 1, time));
        let (seen, cpu_ns) = seen.with_context(|| case.row.name.clone())?;
        case.keep(&seen, cpu_ns);
    }
    Ok(Some(cases.iter().map(Case::row).collect()))
}
