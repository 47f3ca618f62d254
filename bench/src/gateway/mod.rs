//! Compares proxies by the processor time of a request, for each row (scheme, protocol, reuse of connections). The proxy has core
//! 0 to itself; the client and the service behind are one thread on core 1. Each round measures each proxy in each row in turn,
//! so that disturbances of the machine affect all proxies.

mod report;
mod row;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::free_port;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local, yield_now};

use self::row::Row;
use crate::client::{Identity, Load, Reuse, Tally, Target};
use crate::http::pin_to_load_core;
use crate::procfs;
use crate::proxies::{Headers, Kind, Proxy, Setting};
use crate::servers::{SERVER_CORE, sealway_beside};
use crate::upstream;

/// The time that a proxy gets to finish the work of a round before its processor time is read.
const SETTLE: Duration = Duration::from_millis(30);

/// Proxies to compare, and settings of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Rows whose name has one of these words, such as `mtls`, `new`, `h2`; all without
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Proxies to compare [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    servers: Vec<Kind>,
    /// Headers that every proxy adds to a request
    #[arg(long, value_enum, default_value_t)]
    headers: Headers,
    /// Seconds a row, proxy and round
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// The results of one proxy in one row.
struct Cell {
    server: Kind,
    cpu_ns: Vec<f64>,
    rate: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    busy: Vec<f64>,
    full: u64,
    resumed: u64,
}

/// Measures all rows and prints a table.
///
/// # Errors
/// If a proxy is missing, a request fails, or handshakes are of another kind than the row requires.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let rows = row::select(&options.rows);
    ensure!(!rows.is_empty(), "no row is called that; the rows are: {}", row::names());
    ensure!(options.rounds > 0 && options.seconds > 0.0, "nothing is measured in no time");
    let kinds = if options.servers.is_empty() { Kind::ALL.to_vec() } else { options.servers.clone() };
    let ours = kinds.contains(&Kind::Sealway);
    let sealway = if ours { sealway_beside(options.sealway.clone())? } else { PathBuf::new() };
    pin_to_load_core()?;

    let folder = tempfile::Builder::new().prefix("sealway-bench-").tempdir()?;
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "sealway bench")?;
    let identity = Identity::read(&certificates)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let port = free_port()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?;
    runtime.spawn(upstream::run(listener));
    let proxies = start(&kinds, folder.path(), &certificates, port, &sealway, options.headers)?;

    let mut table: Vec<(Row, Vec<Cell>)> = rows
        .into_iter()
        .map(|row| (row, proxies.iter().filter(|p| row.is_for(p.kind)).map(Cell::of).collect()))
        .collect();
    let others = procfs::Others::start(&proxies.iter().map(Proxy::pid).collect::<Vec<_>>())?;
    for round in 0..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        // The first round warms up.
        let time = Duration::from_secs_f64(if round == 0 { options.seconds.min(0.3) } else { options.seconds });
        for (row, cells) in &mut table {
            for cell in cells {
                let proxy = proxies.iter().find(|proxy| proxy.kind == cell.server).context("no such proxy")?;
                let what = || format!("{}, {}", proxy.kind.name(), row.name());
                let sample = LocalSet::new().block_on(&runtime, measure(proxy, *row, &identity, time));
                let sample = sample.with_context(what)?;
                if round > 0 {
                    cell.add(&sample);
                }
            }
        }
    }
    let noise = others.in_words()?;
    report::print(&mut table, &proxies, options);
    println!("{noise}");
    Ok(())
}

fn start(
    kinds: &[Kind],
    folder: &Path,
    certificates: &Certificates,
    upstream: u16,
    sealway: &Path,
    headers: Headers,
) -> anyhow::Result<Vec<Proxy>> {
    let mut proxies = Vec::new();
    for kind in kinds {
        let setting = Setting::new(*kind, folder, certificates, upstream, SERVER_CORE, sealway, headers)?;
        proxies.push(Proxy::start(*kind, &setting)?);
    }
    Ok(proxies)
}

/// The figures of one round of one proxy in one row.
struct Sample {
    cpu_ns: f64,
    elapsed: Duration,
    tally: Tally,
    full: u64,
    resumed: u64,
}

async fn measure(proxy: &Proxy, row: Row, identity: &Identity, time: Duration) -> anyhow::Result<Sample> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, row.port(proxy.ports)));
    let load = Load {
        target: Target { address, tls: None, source: None },
        tls: row.has_tls().then_some((identity, row.group)),
        with_certificate: row.shows_certificate(),
        protocol: row.protocol,
        reuse: row.reuse,
        connections: row.connections(),
        streams: row.streams(),
    };
    // The load's core never sleeps. Otherwise a proxy would pay for waking it, and a slower proxy more often.
    let awake = spawn_local(async {
        loop {
            yield_now().await;
        }
    });
    let ready = load.prepare().await?;
    let opened = (ready.prepared.full, ready.prepared.resumed);
    tokio::time::sleep(SETTLE).await;
    let before = procfs::cpu_ns(proxy.pid())?;
    let (tally, elapsed) = ready.run(time).await;
    tokio::time::sleep(SETTLE).await;
    let cpu_ns = (procfs::cpu_ns(proxy.pid())? - before) as f64;
    awake.abort();
    if tally.failures() > 0 || tally.requests == 0 {
        bail!("{} requests were answered, and: {}", tally.requests, tally.faults_in_words());
    }
    check_handshakes(row, &load, opened, &tally)?;
    // If connections are kept, the handshakes are those of the preparation.
    let kept = row.reuse == Reuse::Keep;
    let (full, resumed) = if kept { opened } else { (tally.full, tally.resumed) };
    Ok(Sample { cpu_ns, elapsed, tally, full, resumed })
}

/// Checks that all handshakes are of the kind that the row is about. Another kind would make the figure meaningless.
fn check_handshakes(row: Row, load: &Load<'_>, opened: (u64, u64), tally: &Tally) -> anyhow::Result<()> {
    let seen = (tally.connections, tally.full, tally.resumed);
    let tls = u64::from(row.has_tls());
    let wanted = match row.reuse {
        Reuse::Keep => (0, 0, 0),
        Reuse::New => (tally.requests, tally.requests * tls, 0),
        Reuse::Resumed => (tally.requests, 0, tally.requests * tls),
    };
    ensure!(
        seen == wanted,
        "(connections, full handshakes, resumed) are {seen:?} and not {wanted:?} in {} requests",
        tally.requests
    );
    let prepared = match row.reuse {
        Reuse::New => 0,
        Reuse::Keep | Reuse::Resumed => load.connections as u64 * tls,
    };
    ensure!(opened == (prepared, 0), "the preparation made {opened:?} handshakes and not ({prepared}, 0)");
    Ok(())
}

impl Cell {
    fn of(proxy: &Proxy) -> Self {
        let (cpu_ns, rate, p50_ms, p99_ms, busy) = Default::default();
        Cell { server: proxy.kind, cpu_ns, rate, p50_ms, p99_ms, busy, full: 0, resumed: 0 }
    }

    fn add(&mut self, sample: &Sample) {
        let seconds = sample.elapsed.as_secs_f64();
        self.cpu_ns.push(sample.cpu_ns / sample.tally.requests as f64);
        self.rate.push(sample.tally.requests as f64 / seconds);
        self.p50_ms.push(sample.tally.quantile_ms(0.5));
        self.p99_ms.push(sample.tally.quantile_ms(0.99));
        self.busy.push(sample.cpu_ns / 1e7 / seconds);
        self.full += sample.full;
        self.resumed += sample.resumed;
    }
}
