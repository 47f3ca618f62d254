//! Bodies that are larger than memory: sends 10 GB up and 10 GB down through the gateway, and measures the growth of its memory.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{H1, Identity};
use crate::ours::{Ours, Scheme};
use crate::procfs;
use crate::servers::sealway_beside;
use crate::table::verdict;

const CHUNK: usize = 256 * 1024;
/// The largest permitted growth of the gateway, in MiB.
const GROWTH_MIB_MAX: f64 = 32.0;

/// Requests to send.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Gigabytes each way
    #[arg(long, default_value_t = 10.0)]
    gigabytes: f64,
}

/// The direction of a body, as the client sees it.
#[derive(Clone, Copy, Debug)]
enum Way {
    Up,
    Down,
}

/// Measures and prints. Returns an error if a bar is missed.
///
/// # Errors
/// If the gateway grows too much, or bytes are missing.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let sealway = sealway_beside(options.sealway.clone())?;
    let folder = tempfile::Builder::new().prefix("sealway-big-").tempdir()?;
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "sealway bench")?;
    let port = free_port()?;
    let mut service = std::process::Command::new(std::env::current_exe()?);
    service.arg("body-service").arg(port.to_string());
    let mut service = sealway_testkit::daemon::Daemon::start(service, &folder.path().join("service.output"))?;
    service.wait_for((Ipv4Addr::LOCALHOST, port).into())?;
    let len = (options.gigabytes * 1e9) as u64;
    println!("## Bodies of {} GB through the gateway, HTTP/1.1, plain HTTP behind it\n", options.gigabytes);
    println!("| scheme | way | MB/s | gateway CPU s / GB | before MiB | growth at the peak MiB | bar MiB | |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut missed = Vec::new();
    for scheme in [Scheme::Http, Scheme::Https] {
        for way in [Way::Up, Way::Down] {
            let growth = runtime
                .block_on(measure(&sealway, folder.path(), scheme, way, &certificates, port, len))
                .with_context(|| format!("{scheme:?}, {way:?}"))?;
            if growth > GROWTH_MIB_MAX {
                missed.push(format!("{scheme:?} {way:?}"));
            }
        }
    }
    println!();
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// Sends one body through a new gateway. Returns its growth in MiB.
async fn measure(
    sealway: &Path,
    folder: &Path,
    scheme: Scheme,
    way: Way,
    certificates: &Certificates,
    service: u16,
    len: u64,
) -> anyhow::Result<f64> {
    let rest = format!(
        "routes: [{{ match: {{}}, sealed: off, upstream: service, body_max: {} }}]
upstreams: {{ service: {{ servers: ['http://127.0.0.1:{service}'] }} }}
limits: {{ request_ms: 3600000 }}
telemetry: {{ log_level: warn }}
",
        len.max(1 << 20)
    );
    let identity = Identity::read(certificates)?;
    let ours = Ours::start(sealway, folder, scheme, certificates, &rest)?;
    let target = ours.target(scheme, &identity)?;
    let (stream, _) = target.open().await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let mut connection = H1::with_buffer(stream, CHUNK);
    // A small body in each direction first: memory that the process needs for any request is not growth.
    transfer(&mut connection, way, 100_000).await?;
    let before_kib = procfs::memory_kib(ours.pid(), "VmRSS")?;
    let before_ns = procfs::cpu_ns(ours.pid())?;
    let start = Instant::now();
    transfer(&mut connection, way, len).await?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = (procfs::cpu_ns(ours.pid())? - before_ns) as f64;
    let growth = (procfs::memory_kib(ours.pid(), "VmHWM")?.saturating_sub(before_kib)) as f64 / 1024.0;
    println!(
        "| {scheme:?} | {way:?} | {:.0} | {:.2} | {:.1} | {growth:.1} | {GROWTH_MIB_MAX} | {} |",
        len as f64 / 1e6 / seconds,
        cpu / len as f64,
        before_kib as f64 / 1024.0,
        verdict(growth, GROWTH_MIB_MAX)
    );
    Ok(growth)
}

async fn transfer(connection: &mut H1, way: Way, len: u64) -> anyhow::Result<()> {
    match way {
        Way::Down => {
            let request = format!("GET /{len} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let came = connection.exchange(request.as_bytes()).await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
            ensure!(came == len, "{came} bytes came, of {len}");
        }
        Way::Up => {
            let head = format!("POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n\r\n");
            connection.stream.write_all(head.as_bytes()).await?;
            let chunk = vec![b'a'; CHUNK];
            let mut left = len;
            while left > 0 {
                let part = left.min(CHUNK as u64);
                connection.stream.write_all(&chunk[..part as usize]).await?;
                left -= part;
            }
            connection.stream.flush().await?;
            // The service answers once it has the whole body, and closes the connection if it does not get it.
            connection.answer().await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
        }
    }
    Ok(())
}

/// Serves as the service behind the gateway until killed: `GET /N` returns N bytes, a POST is read to its end.
pub(crate) fn serve(port: u16) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let _ = serve_one(stream).await;
            });
        }
    })
}

async fn serve_one(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut filled = 0;
        let head_len = loop {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            if let Some(at) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(filled < buffer.len(), "a head without an end");
        };
        let head = String::from_utf8_lossy(&buffer[..head_len]).to_ascii_lowercase();
        if let Some(rest) = head.strip_prefix("get /") {
            let len: u64 = rest.split(' ').next().unwrap_or_default().parse()?;
            send(&mut stream, &buffer, len).await?;
            continue;
        }
        let Some(len) = head.lines().find_map(|line| line.strip_prefix("content-length:")) else {
            bail!("a body without a length");
        };
        let mut left = len.trim().parse::<u64>()?.checked_sub((filled - head_len) as u64).context("too much")?;
        while left > 0 {
            let read = stream.read(&mut buffer).await? as u64;
            ensure!(read > 0, "the body broke off");
            left = left.checked_sub(read).context("more than was announced")?;
        }
        send(&mut stream, &buffer, 0).await?;
    }
}

async fn send(stream: &mut TcpStream, buffer: &[u8], len: u64) -> anyhow::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut left = len;
    while left > 0 {
        let part = left.min(buffer.len() as u64);
        stream.write_all(&buffer[..part as usize]).await?;
        left -= part;
    }
    Ok(())
}
