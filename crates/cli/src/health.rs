//! `sealway health`: one request to a health endpoint, for the health check of a container that has no other program.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http::Uri;
use http::uri::Scheme;
use sealway_runtime::output::{Usage, out};

/// Longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 4096;
/// Shortest time for one read or write: a socket takes no timeout of zero.
const STEP_MIN: Duration = Duration::from_millis(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Health {
    /// Address of the endpoint, as http://127.0.0.1:3000/ready
    #[arg(env = "SEALWAY_HEALTH_URL")]
    url: Uri,
    /// Time for the whole exchange, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout_ms: u64,
}

/// Requests the URL by `GET`, and prints the status if it is 2xx.
///
/// # Errors
/// The URL is not `http://`, no answer within the time, or another status.
pub(crate) fn run(health: &Health) -> anyhow::Result<()> {
    let url = &health.url;
    let (Some(authority), true) = (url.authority(), url.scheme() == Some(&Scheme::HTTP)) else {
        return Err(Usage::new(format_args!(
            "{url}: expected http://HOST:PORT/PATH; for a service that listens with TLS alone, probe its port with another tool"
        ))
        .into());
    };
    let end = Instant::now() + Duration::from_millis(health.timeout_ms);
    let answer = exchange(authority.host(), authority.port_u16().unwrap_or(80), url, end)
        .with_context(|| format!("{url} did not answer within {} ms", health.timeout_ms))?;
    let Some(status) = status(&answer) else { bail!("{url} did not answer in HTTP/1") };
    if !(200..300).contains(&status) {
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
        bail!("{url} answered {status} {body}");
    }
    Ok(writeln!(out(), "{status}")?)
}

/// Returns the status of an answer whose first line is there.
fn status(answer: &str) -> Option<u16> {
    let (line, _) = answer.split_once("\r\n")?;
    line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

/// Sends the request, and returns the answer: only its beginning if it is good or long.
fn exchange(host: &str, port: u16, url: &Uri, end: Instant) -> std::io::Result<String> {
    let left = || end.saturating_duration_since(Instant::now()).max(STEP_MIN);
    let host = host.trim_matches(['[', ']']);
    let mut connected = Err(std::io::Error::other("the name has no address"));
    for address in (host, port).to_socket_addrs()? {
        connected = TcpStream::connect_timeout(&address, left());
        if connected.is_ok() {
            break;
        }
    }
    let mut stream = connected?;
    stream.set_write_timeout(Some(left()))?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let (mut answer, mut part) = (String::new(), [0; 1024]);
    while answer.len() < ANSWER_LEN_MAX && !status(&answer).is_some_and(|status| (200..300).contains(&status)) {
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(len) => answer.push_str(&String::from_utf8_lossy(&part[..len])),
            // A server that keeps the connection open has said enough.
            Err(_) if answer.contains('\n') => break,
            Err(err) => return Err(err),
        }
    }
    Ok(answer)
}
