//! Measures a real `sealway serve` on one core with 64 keep-alive connections from the other core: the server's CPU time for each
//! request, compared with a bare hyper server in the same run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use sealway_testkit::daemon::free_port;

use crate::load::{Kind, drive};
use crate::servers::{LOAD_CORE, SERVER_CORE, Server, sealway_beside};
use crate::table::{median, us};

struct Case {
    name: &'static str,
    server: usize,
    kind: Kind,
    cpu_ns: Vec<f64>,
    rate: Vec<f64>,
}

pub(crate) fn pin_to_load_core() -> anyhow::Result<()> {
    pin_to(LOAD_CORE)
}

/// Pins this thread, and threads that it starts later, to one core.
pub(crate) fn pin_to(core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).context("cannot pin the load to its core: this needs two")
}

/// Drives one server that another process has started.
pub(crate) fn drive_one(port: u16, kind: Kind, seconds: f64) -> anyhow::Result<()> {
    pin_to_load_core()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, drive(port, kind, Duration::from_secs_f64(seconds)))?;
    println!("{} requests in {:.1} s", outcome.requests, outcome.elapsed.as_secs_f64());
    Ok(())
}

/// Measures every case in turn, round after round.
pub(crate) fn run(sealway: Option<PathBuf>, seconds: f64, rounds: usize) -> anyhow::Result<()> {
    let me = std::env::current_exe()?;
    let sealway = sealway_beside(sealway)?;
    pin_to_load_core()?;

    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let bare = Server::start(&me, &["bare", &port.to_string()], port, SERVER_CORE)?;
    // The upstream runs on the load's core, so its CPU time is not the gateway's. It echoes the request.
    let upstream_port = free_port()?;
    let upstream = Server::start(&me, &["bare", &upstream_port.to_string()], upstream_port, LOAD_CORE)?;
    let behind = format!("http://127.0.0.1:{}", upstream.port);
    let mut servers = vec![bare];
    for (name, target, store) in
        [("memory", "demo:", "memory:"), ("tcp", behind.as_str(), "memory:"), ("embedded", "demo:", "file:bench.redb")]
    {
        let port = free_port()?;
        let config = write_config(folder.path(), name, port, target, store)?;
        servers.push(Server::start(&sealway, &["serve", "--config", &config], port, SERVER_CORE)?);
    }
    let case = |name, server, kind| Case { name, server, kind, cpu_ns: Vec::new(), rate: Vec::new() };
    let mut cases = [
        case("bare hyper 200, no body", 0, Kind::Bare(0)),
        case("bare hyper 200, 1 KiB each way", 0, Kind::Bare(1024)),
        case("bare hyper 200, 64 KiB each way", 0, Kind::Bare(65_536)),
        case("init, memory", 1, Kind::Init),
        case("sealed call 1 KiB, small answer, demo in process", 1, Kind::Call(1024)),
        case("sealed call 64 KiB, small answer, demo in process", 1, Kind::Call(65_536)),
        case("sealed call 1 KiB each way, TCP upstream", 2, Kind::Call(1024)),
        case("sealed call 64 KiB each way, TCP upstream", 2, Kind::Call(65_536)),
        case("native call 1 KiB each way, TCP upstream", 2, Kind::Native(1024)),
        case("native call 64 KiB each way, TCP upstream", 2, Kind::Native(65_536)),
        case("plain pass-through 1 KiB each way, TCP upstream", 2, Kind::Plain(1024)),
        case("plain pass-through 64 KiB each way, TCP upstream", 2, Kind::Plain(65_536)),
        case("init, embedded", 3, Kind::Init),
        case("sealed call 1 KiB, small answer, embedded", 3, Kind::Call(1024)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for round in 0..=rounds {
        for case in &mut cases {
            let server = &servers[case.server];
            let before = server.cpu_ns()?;
            let time = Duration::from_secs_f64(if round == 0 { 0.5 } else { seconds });
            let local = tokio::task::LocalSet::new();
            let outcome =
                local.block_on(&runtime, drive(server.port, case.kind, time)).with_context(|| case.name.to_owned())?;
            if outcome.requests == 0 {
                bail!("{}: no request was answered", case.name);
            }
            // The first round warms up.
            if round > 0 {
                case.cpu_ns.push((server.cpu_ns()? - before) / outcome.requests as f64);
                case.rate.push(outcome.requests as f64 / outcome.elapsed.as_secs_f64());
            }
        }
    }
    report(&mut cases, seconds, rounds);
    Ok(())
}

fn write_config(folder: &Path, name: &str, port: u16, target: &str, store: &str) -> anyhow::Result<String> {
    let path = folder.join(format!("{name}.yaml"));
    let text = format!(
        "listeners: [{{ address: '127.0.0.1:{port}' }}]\nroutes:\n  - {{ match: {{ path_prefix: [/session/, /v3/sessions, \
         /.well-known/] }}, sessions: {{}} }}\n  - {{ match: {{ path: /plain }}, sealed: off, upstream: shop }}\n  - {{ match: {{}}, sealed: required, upstream: shop }}\nupstreams: {{ shop: {{ servers: ['{target}'] }} }}\n\
         sessions: {{ store: '{store}', allow_generated_kek: true, identity: {{ allow_generated: true }} }}\ntelemetry: {{ log_level: warn }}\n"
    );
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

fn report(cases: &mut [Case], seconds: f64, rounds: usize) {
    println!(
        "## Over HTTP/1.1: 64 keep-alive connections, server and load on a core each (server CPU per request, median of \
         {rounds} rounds of {seconds} s that take turns)\n"
    );
    println!("| case | server CPU µs | requests/s |");
    println!("| --- | ---: | ---: |");
    for case in cases {
        println!("| {} | {} | {:.0} |", case.name, us(median(&mut case.cpu_ns)), median(&mut case.rate));
    }
    println!();
}
