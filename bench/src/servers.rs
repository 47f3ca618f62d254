//! The baseline over HTTP, a bare hyper server; and the server processes to measure.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// The core of the server. The load uses the other one.
pub(crate) const SERVER_CORE: usize = 0;
pub(crate) const LOAD_CORE: usize = 1;

/// Serves until killed: reads the body, and answers 200 with as many bytes.
pub(crate) fn bare(port: u16) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
                    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::new(body)))
                });
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// Returns the path of the server's binary: the given one, or the one beside this program.
pub(crate) fn sealway_beside(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let me = std::env::current_exe()?;
    // `cargo bench` puts this program into `deps`; the server is one folder up.
    let beside =
        || me.ancestors().skip(1).take(2).map(|folder| folder.join("sealway")).find(|program| program.exists());
    given
        .or_else(beside)
        .context("no sealway binary beside this one: cargo build --release -p sealway-cli, or --sealway PATH")
}

/// A process on one core with one worker thread. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(program: &Path, args: &[&str], port: u16, core: usize) -> anyhow::Result<Self> {
        let child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .arg(program)
            .args(args)
            .env("TOKIO_WORKER_THREADS", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {} under taskset", program.display()))?;
        let server = Server { child, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                bail!("{} does not listen on port {port}", program.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Waits until `/ready` answers 200.
    pub(crate) fn wait_until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            if answer.starts_with("HTTP/1.1 200") {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("it does not get ready: {answer}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the user and system time so far, in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Fields 14 and 15, counted after the name, which may contain spaces.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(ticks / per_second * 1e9)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
