//! Servers that jobs start, on ports of their own, ended by their process ids; and one request to a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::shell;

/// Longest time for a server to report its address, and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a command of the binary `sealway` of a profile.
pub(crate) fn sealway(profile: &str) -> anyhow::Result<Command> {
    let binary = shell::target_dir().join(profile).join("sealway");
    ensure!(binary.is_file(), "{} is missing: run `cargo build -p sealway-cli`", binary.display());
    Ok(shell::command(binary))
}

/// A process that serves on a port of its own.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) url: String,
    child: Child,
}

/// The stream on which a program reports its address.
#[derive(PartialEq)]
pub(crate) enum Stream {
    Output,
    Errors,
}

impl Server {
    /// Starts `sealway serve` of a profile.
    pub(crate) fn gateway(profile: &str, config: &Path) -> anyhow::Result<Self> {
        let mut command = sealway(profile)?;
        command.arg("serve").arg("--config").arg(config);
        Server::start("gateway", command, Stream::Errors, gateway_address)
    }

    /// Starts a program, and waits until it reports its address.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        stream: Stream,
        address: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::null());
        if stream == Stream::Output {
            command.stdout(Stdio::piped());
        } else {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().with_context(|| format!("the server of {name} does not start"))?;
        let said: Box<dyn Read + Send> = match stream {
            Stream::Output => Box::new(child.stdout.take().context("no output")?),
            Stream::Errors => Box::new(child.stderr.take().context("no output")?),
        };
        let (to, lines) = channel();
        // Reads on, so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        // Kills the child if it never reports its address.
        let mut server = Server { name: name.to_owned(), url: String::new(), child };
        let mut last = String::new();
        while server.url.is_empty() {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    server.url = address(&line).unwrap_or_default();
                    last = line;
                }
                Err(_) => bail!("the server of {name} does not say where it serves; its last line: {last:?}"),
            }
        }
        Ok(server)
    }

    /// Returns the processor time that it has used, in user and system mode.
    pub(crate) fn cpu_ms(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .with_context(|| format!("the server of {} has ended", self.name))?;
        // The name of the program may contain blanks; numbers begin after its parenthesis.
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).context("/proc/…/stat");
        // Linux has reported these in hundredths of a second on every architecture for decades.
        Ok((ticks(11)? + ticks(12)?) * 10.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address in the log line that reports it.
fn gateway_address(line: &str) -> Option<String> {
    let said: Value = serde_json::from_str(line).ok()?;
    let fields = if said["fields"].is_object() { &said["fields"] } else { &said };
    if fields["message"] != "serving" {
        return None;
    }
    let addresses = fields["addresses"].as_str()?;
    let first = addresses.trim_matches(['[', ']']).split(',').next()?;
    Some(format!("http://{}", first.trim()))
}

/// An answer, its body without the framing of HTTP.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Sends a request over a connection of its own, and reads the answer to its end.
pub(crate) fn send(
    url: &str,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> anyhow::Result<Answer> {
    let host = url.trim_start_matches("http://");
    let mut connection = TcpStream::connect(host)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n{lines}\r\n",
        body.len()
    );
    // A character of a value stands for the byte of its number.
    let head: Option<Vec<u8>> = head.chars().map(|character| u8::try_from(character).ok()).collect();
    connection.write_all(&[&head.context("a header is no bytes")?, body].concat())?;
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes)?;
    parse(&bytes).with_context(|| format!("{method} {target}: the answer is not HTTP"))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head: String = bytes[..end].iter().map(|byte| char::from(*byte)).collect();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers = lines.map(pair).collect::<Option<Vec<_>>>()?;
    let is_chunked = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
    let mut rest = &bytes[end + 4..];
    if !is_chunked {
        return Some(Answer { status, headers, body: rest.to_vec() });
    }
    let mut body = Vec::new();
    loop {
        let line = rest.iter().position(|byte| *byte == b'\r')?;
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        if len == 0 {
            return Some(Answer { status, headers, body });
        }
        body.extend_from_slice(rest.get(line + 2..)?.get(..len)?);
        rest = rest.get(line + 2 + len + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_with_and_without_chunks() {
        let whole = parse(b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nbody").unwrap();
        assert_eq!((whole.status, &*whole.body), (200, &b"body"[..]));
        assert_eq!(whole.headers, [("X-A".to_owned(), "b".to_owned())]);
        let chunks = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n";
        assert_eq!(parse(chunks).unwrap().body, b"body");
        assert!(parse(&chunks[..chunks.len() - 6]).is_none());
        assert!(parse(b"HTTP/1.1 200").is_none());
    }
}
