//! The published acceptance test of Lite Gateway: bursts of new mTLS connections, each with a full handshake and one request,
//! through `sealway serve --litegateway` to a service behind mTLS that waits five seconds. The exit code is the verdict.

mod burst;
mod service;
mod watch;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port};
use tokio::task::LocalSet;

use self::burst::Burst;
pub(crate) use self::service::{Service, run as serve};
use self::watch::{Usage, Watch};
use crate::client::{Group, Identity, Target};
use crate::ours;
use crate::procfs;
use crate::servers::sealway_beside;

/// Published figures of the replaced gateway, for the report.
const PUBLISHED: &str =
    "published figures of the gateway that it replaces: 7.45 to 10.5 s on average, 0.6 to 1.9 % errors, 3 to 7 GB";
/// The largest share of a core that the client or the service may use. Above it, the test may measure them and not the gateway.
const BUSY_MAX: f64 = 0.85;
/// The password of the PKCS#12 files, which exist only during the test.
const PASSWORD: &str = "changeit";

/// The test's size and its bars.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Number of bursts
    #[arg(long, default_value_t = 4)]
    bursts: usize,
    /// New connections in each
    #[arg(long, default_value_t = 3000)]
    size: usize,
    /// Seconds from one burst to the next
    #[arg(long, default_value_t = 5.0)]
    every: f64,
    /// Delay of each answer of the upstream service
    #[arg(long, default_value_t = 5000)]
    delay_ms: u64,
    /// Bar: resident memory of the gateway at its peak, in MiB
    #[arg(long, default_value_t = 300)]
    rss_mib_max: u64,
    /// Bar: processor time of the gateway for a request, in milliseconds
    #[arg(long, default_value_t = 1.5)]
    cpu_ms_max: f64,
    /// Bar: mean time of a request from the start of its burst, in milliseconds
    #[arg(long, default_value_t = 6500.0)]
    average_ms_max: f64,
    /// Handshakes that the client has under way at a time, of a burst; all at once without
    #[arg(long)]
    opening: Option<usize>,
    /// X25519MLKEM768 and not X25519, on both legs
    #[arg(long)]
    hybrid: bool,
    /// Straight to the service, without the gateway: what client and service cost by themselves
    #[arg(long)]
    direct: bool,
}

/// Runs the test and prints the results. Returns an error if a bar is missed.
///
/// # Errors
/// If a bar is missed, or a process does not start.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.bursts > 0 && options.size > 0, "nothing is sent");
    let wait = Duration::from_millis(options.delay_ms);
    raise_descriptor_limit(options)?;
    let folder = tempfile::Builder::new().prefix("sealway-accept-").tempdir()?;
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "sealway bench")?;
    let group = if options.hybrid { Group::X25519MlKem768 } else { Group::X25519 };
    let identity = Identity::read(&certificates)?;
    let service_port = free_port()?;
    let service = start_service(options, &certificates, service_port, folder.path())?;
    let mut watched = vec![("client", std::process::id()), ("service", service.id())];
    let mut gateway = None;
    let mut port = service_port;
    if !options.direct {
        port = free_port()?;
        let sealway = sealway_beside(options.sealway.clone())?;
        let daemon = start_gateway(&sealway, &certificates, port, service_port, folder.path())?;
        watched.push(("gateway", daemon.id()));
        gateway = Some(daemon);
    }

    let target = |port: u16| -> anyhow::Result<Target> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Target { address, tls: Some(identity.config(group, b"http/1.1", true, false)?), source: None })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (through, direct) = (target(port)?, target(service_port)?);
    // One request before the clock starts: a wrong set-up gives one message and not 12,000 errors.
    let probe = LocalSet::new().block_on(
        &runtime,
        burst::run(&through, &burst::Plan { bursts: 1, size: 1, opening: 1, every: Duration::ZERO, delay: wait }),
    );
    if probe[0].tally.failures() > 0 {
        let tail = gateway.as_ref().map_or_else(|| service.tail(), Daemon::tail);
        bail!("no request gets through: {}\n{tail}", probe[0].tally.faults_in_words());
    }
    let others = procfs::Others::start(&watched[1..].iter().map(|(_, pid)| *pid).collect::<Vec<_>>())?;
    let watch = Watch::start(&watched)?;
    let plan = burst::Plan {
        bursts: options.bursts,
        size: options.size,
        opening: options.opening.unwrap_or(options.size),
        every: Duration::from_secs_f64(options.every),
        delay: wait,
    };
    let bursts = LocalSet::new().block_on(&runtime, burst::run(&through, &plan));
    let usage = watch.stop()?;
    let noise = others.in_words()?;
    let counts = LocalSet::new().block_on(&runtime, burst::counts(&direct))?;
    let _ = service.signal(rustix::process::Signal::TERM);
    report(options, group, &bursts, &usage, &counts);
    println!("{noise}\n");
    verdict(options, &bursts, &usage, &counts)
}

/// Raises the limit of descriptors. The gateway has two connections for each request, and a burst may start before the previous
/// one is answered.
fn raise_descriptor_limit(options: &Options) -> anyhow::Result<()> {
    let overlap = 1 + (options.delay_ms as f64 / 1000.0 / options.every.max(0.001)).ceil() as usize;
    let needed = 2 * options.size * overlap.min(options.bursts) + 200;
    let limit = ours::raise_descriptor_limit()?;
    if limit < needed as u64 {
        println!(
            "The hard limit of descriptors is {limit}, and the gateway needs {needed}: raise it (ulimit -Hn), or make --size less."
        );
    }
    Ok(())
}

fn start_service(options: &Options, certificates: &Certificates, port: u16, folder: &Path) -> anyhow::Result<Daemon> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("delayed-service").arg(port.to_string());
    command.arg("--cert").arg(&certificates.server.0).arg("--key").arg(&certificates.server.1);
    command.arg("--client-ca").arg(&certificates.ca).args(["--delay-ms", &options.delay_ms.to_string()]);
    if options.hybrid {
        command.arg("--hybrid");
    }
    let mut service = Daemon::start(command, &folder.join("service.output"))?;
    service.wait_for((Ipv4Addr::LOCALHOST, port).into())?;
    Ok(service)
}

/// Starts the gateway as operators start the replaced one: configured by its environment, with PKCS#12 files.
fn start_gateway(
    sealway: &Path,
    certificates: &Certificates,
    port: u16,
    service: u16,
    folder: &Path,
) -> anyhow::Result<Daemon> {
    let server = pkcs12(folder, "server", &certificates.server)?;
    let client = pkcs12(folder, "client", &certificates.client)?;
    let mut command = Command::new(sealway);
    command.args(["serve", "--litegateway"]).current_dir(folder);
    let mut set = |name: &str, value: &str| {
        command.env(format!("LITEGATEWAY_Proxy__{name}"), value);
    };
    set("EnableHttp", "false");
    set("EnableHttps", "false");
    set("EnableMtls", "true");
    set("MtlsPort", &port.to_string());
    set("SleepDurationMs", "0");
    set("ServerCertificatePath", &server);
    set("ServerCertificatePassword", PASSWORD);
    set("TrustedCaPath", &certificates.ca.display().to_string());
    set("OutboundClientCertificatePath", &client);
    set("OutboundClientCertificatePassword", PASSWORD);
    set("UpstreamUrl", &format!("https://localhost:{service}"));
    set("PassConnectionClose", "true");
    let mut gateway = Daemon::start(command, &folder.join("gateway.output"))?;
    gateway.wait_for((Ipv4Addr::LOCALHOST, port).into()).context("the gateway does not start")?;
    Ok(gateway)
}

/// Writes certificate and key into one PKCS#12 file with the `openssl` command.
fn pkcs12(folder: &Path, name: &str, (certificate, key): &(PathBuf, PathBuf)) -> anyhow::Result<String> {
    let file = folder.join(format!("{name}.pfx"));
    let mut openssl = Command::new("openssl");
    openssl.args(["pkcs12", "-export", "-passout", &format!("pass:{PASSWORD}"), "-in"]).arg(certificate);
    let done = openssl.arg("-inkey").arg(key).arg("-out").arg(&file).output().context("cannot run openssl")?;
    ensure!(done.status.success(), "openssl pkcs12: {}", String::from_utf8_lossy(&done.stderr));
    Ok(file.display().to_string())
}

fn report(options: &Options, group: Group, bursts: &[Burst], usage: &[Usage], counts: &str) {
    println!(
        "## Acceptance: {} x {} new mTLS connections {} s apart, {} s delay, {group:?} on both legs{}{}\n",
        options.bursts,
        options.size,
        options.every,
        options.delay_ms as f64 / 1000.0,
        options.opening.map_or(String::new(), |opening| format!(", {opening} handshakes of a burst at a time")),
        if options.direct { ", straight to the service" } else { "" },
    );
    println!("Times in ms from the start of the burst, a request's wait for its turn in the client included.\n");
    println!(
        "| burst | answered | errors | full | resumed | min | avg | p50 | p95 | p99 | max | handshakes done after |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (index, burst) in bursts.iter().enumerate() {
        let tally = &burst.tally;
        let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(|share| tally.quantile_ms(share));
        println!(
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} | {p50:.0} | {p95:.0} | {p99:.0} | {max:.0} | {:.0} |",
            index + 1,
            tally.requests,
            tally.failures(),
            tally.full,
            tally.resumed,
            tally.min_ms(),
            tally.mean_ms(),
            burst.connected_ms,
        );
    }
    for (index, burst) in bursts.iter().enumerate().filter(|(_, burst)| burst.tally.failures() > 0) {
        println!("\nErrors of burst {}: {}", index + 1, burst.tally.faults_in_words());
    }
    let requests = (options.bursts * options.size) as f64;
    println!("\n| process | CPU s | CPU ms / request | busiest second, share of a core | peak RSS MiB | descriptors |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for usage in usage {
        println!(
            "| {} | {:.2} | {:.3} | {:.0} % | {:.0} | {} |",
            usage.name,
            usage.cpu_ns / 1e9,
            usage.cpu_ns / 1e6 / requests,
            usage.busy_max * 100.0,
            usage.rss_kib_max as f64 / 1024.0,
            usage.descriptors_max,
        );
    }
    println!("\nThe service counted: {counts}\n{PUBLISHED}\n");
}

fn verdict(options: &Options, bursts: &[Burst], usage: &[Usage], counts: &str) -> anyhow::Result<()> {
    let requests = (options.bursts * options.size) as f64;
    let mut missed = Vec::new();
    let mut judge = |what: String, met: bool| {
        println!("* {what}: {}", if met { "met" } else { "MISSED" });
        if !met {
            missed.push(what);
        }
    };
    let errors: u64 = bursts.iter().map(|burst| burst.tally.failures()).sum();
    judge(format!("no error (there were {errors})"), errors == 0);
    let full: u64 = bursts.iter().map(|burst| burst.tally.full).sum();
    judge(format!("a full handshake each ({full} of {requests})"), full as f64 == requests);
    // The probe and the query of the counts are requests to the service too.
    let expected = service::counts(requests as u64 + 1, 0, requests as u64 + 1);
    if !options.direct {
        judge("a new connection to the service each".to_owned(), counts == expected);
    }
    if let Some(gateway) = usage.iter().find(|usage| usage.name == "gateway") {
        let rss = gateway.rss_kib_max as f64 / 1024.0;
        judge(format!("peak RSS {rss:.0} MiB, below {}", options.rss_mib_max), rss < options.rss_mib_max as f64);
        let cpu = gateway.cpu_ns / 1e6 / requests;
        judge(format!("CPU {cpu:.3} ms a request, at most {}", options.cpu_ms_max), cpu <= options.cpu_ms_max);
    }
    let answered: u64 = bursts.iter().map(|burst| burst.tally.requests).sum();
    let sum: f64 = bursts.iter().map(|burst| burst.tally.mean_ms() * burst.tally.requests as f64).sum();
    let average = sum / answered.max(1) as f64;
    let limited: Vec<_> =
        usage.iter().filter(|usage| usage.name != "gateway" && usage.busy_max >= BUSY_MAX).map(|u| u.name).collect();
    let what = format!("average {average:.0} ms, at most {}", options.average_ms_max);
    if average > options.average_ms_max && !limited.is_empty() {
        println!(
            "* {what}: not judged, limited by {} (over {:.0} % of a core)",
            limited.join(" and "),
            BUSY_MAX * 100.0
        );
    } else {
        judge(what, average <= options.average_ms_max);
    }
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    println!("\nAccepted.");
    Ok(())
}
