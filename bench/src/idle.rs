//! The memory cost of an idle connection: opens as many connections as the limit of descriptors permits between two processes,
//! holds them open, and measures the growth of the gateway.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use sealway_testkit::certificates::Certificates;
use tokio::task::{LocalSet, spawn_local};

use crate::client::{H1, Identity, Target};
use crate::ours::{Ours, Scheme, raise_descriptor_limit};
use crate::procfs;
use crate::servers::sealway_beside;
use crate::table::verdict;

/// Descriptors that a process needs beside its connections.
const SPARE: u64 = 500;
/// Connections from one address: half of the ports that the system assigns.
const PER_SOURCE: usize = 14_000;
/// Connections that are opened at the same time.
const BATCH: usize = 100;
/// The wait before memory is read, in which the gateway frees unused memory.
const SETTLE: Duration = Duration::from_secs(2);

const REQUEST: &[u8] = b"GET /idle HTTP/1.1\r\nHost: localhost\r\nUser-Agent: sealway-bench\r\n\r\n";

const CONFIG: &str = "routes: [{ match: {}, standalone: ok }]
limits: { connections_max: 100000, connections_per_address_max: 100000, header_timeout_ms: 600000, idle_timeout_ms: 600000 }
telemetry: { log_level: warn }
";

/// Connections to open.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Number of connections [default: as many as possible]
    #[arg(long)]
    connections: Option<usize>,
    /// Schemes to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    schemes: Vec<Scheme>,
}

/// Measures and prints. Returns an error if a bar is missed.
///
/// # Errors
/// If a connection costs more than its bar, or a process does not start.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let sealway = sealway_beside(options.sealway.clone())?;
    let limit = raise_descriptor_limit()?;
    let most = usize::try_from(limit.saturating_sub(SPARE))?;
    let count = options.connections.unwrap_or(most.min(100_000));
    ensure!(count > 0 && count <= most, "the hard limit of descriptors is {limit}: {count} connections do not fit");
    let folder = tempfile::Builder::new().prefix("sealway-idle-").tempdir()?;
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "sealway bench")?;
    let schemes = [Scheme::Http, Scheme::Https, Scheme::Mtls];
    let schemes = if options.schemes.is_empty() { &schemes[..] } else { &options.schemes };
    println!("## Idle connections: {count} of HTTP/1.1, growth of the gateway's resident memory for each\n");
    println!("| scheme | before MiB | open, nothing sent: KiB each | after a request: KiB each | bar KiB | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let mut missed = Vec::new();
    for scheme in schemes {
        let bar = if *scheme == Scheme::Http { 20.0 } else { 40.0 };
        let measured = measure(&sealway, folder.path(), *scheme, &certificates, count);
        let (before, fresh, used) = measured.with_context(|| format!("{scheme:?}"))?;
        let each = |kib: u64| kib.saturating_sub(before) as f64 / count as f64;
        let worst = each(fresh).max(each(used));
        println!(
            "| {scheme:?} | {:.1} | {:.1} | {:.1} | {bar} | {} |",
            before as f64 / 1024.0,
            each(fresh),
            each(used),
            verdict(worst, bar)
        );
        if worst > bar {
            missed.push(format!("{scheme:?}"));
        }
    }
    println!();
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Returns the resident KiB of the gateway before the connections, with connections that sent nothing, and after each sent a
/// request.
fn measure(
    sealway: &Path,
    folder: &Path,
    scheme: Scheme,
    certificates: &Certificates,
    count: usize,
) -> anyhow::Result<(u64, u64, u64)> {
    let identity = Identity::read(certificates)?;
    let ours = Ours::start(sealway, folder, scheme, certificates, CONFIG)?;
    let target = ours.target(scheme, &identity)?;
    let net = scheme as u8 + 1;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        // The first connections create the state that all share: threads, tables, the route's answer.
        drop(exchange(open(&target, net, BATCH).await?).await?);
        let rss = async || {
            tokio::time::sleep(SETTLE).await;
            procfs::memory_kib(ours.pid(), "VmRSS")
        };
        let before = rss().await?;
        let connections = open(&target, net, count).await?;
        let fresh = rss().await?;
        let connections = exchange(connections).await?;
        let used = rss().await?;
        let held = procfs::descriptors(ours.pid())?;
        ensure!(held >= count, "the gateway holds {held} descriptors: some connection was closed");
        drop(connections);
        Ok((before, fresh, used))
    })
}

/// Opens connections from addresses of one network for each scheme: the ports of the previous scheme are still in TIME_WAIT.
async fn open(target: &Target, net: u8, count: usize) -> anyhow::Result<Vec<H1>> {
    let mut connections = Vec::with_capacity(count);
    while connections.len() < count {
        let batch = BATCH.min(count - connections.len());
        let tasks: Vec<_> = (0..batch)
            .map(|index| {
                let source = (connections.len() + index) / PER_SOURCE + 1;
                let target = Target { source: Some(Ipv4Addr::new(127, 0, net, source as u8)), ..target.clone() };
                spawn_local(async move { target.open().await })
            })
            .collect();
        for task in tasks {
            let (stream, _) = task.await?.map_err(|fault| anyhow::anyhow!("{fault}"))?;
            connections.push(H1::new(stream));
        }
    }
    Ok(connections)
}

/// Sends a request on each connection, and returns the connections.
async fn exchange(mut connections: Vec<H1>) -> anyhow::Result<Vec<H1>> {
    for connection in &mut connections {
        connection.exchange(REQUEST).await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
    }
    Ok(connections)
}
