//! A small closed-loop load: so many keep-alive connections, each sending its next request when the last is answered.
//! (`sealway load` takes its place when it exists.)

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::native::Suite;
use sealway_proto::session::{ClientInit, ClientSession, SealBuffer, SealRandoms, SealedMessage};
use sealway_proto::wire::Wire;
use sealway_testkit::native_client::{self, NativeSession};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const CONNECTIONS: usize = 64;

/// The kind of request that a connection sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A body of so many bytes to the bare server.
    Bare(usize),
    /// Key agreements, each of which opens a session.
    Init,
    /// Sealed purchases with a plaintext of so many bytes, on wire 2.
    Call(usize),
    /// The same on wire 3, in one frame for each 64 KiB.
    Native(usize),
    /// Requests with a body of so many bytes to a route that is not sealed.
    Plain(usize),
}

/// The number of requests and the time that they took.
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) elapsed: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a load generator stamps its requests")]
fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Drives `port` for `time`. Any answer but 200 ends the run: a benchmark of failures is useless.
pub(crate) async fn drive(port: u16, kind: Kind, time: Duration) -> anyhow::Result<Outcome> {
    // The load's core never sleeps. Otherwise each answer would cost the server the wake-up of another core, but only if the load
    // is lighter than the server.
    let awake = tokio::task::spawn_local(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let outcome = drive_with(port, kind, CONNECTIONS, time).await;
    awake.abort();
    outcome
}

/// Does the same as [`drive`] with this many connections, on a core shared with other threads.
pub(crate) async fn drive_with(port: u16, kind: Kind, count: usize, time: Duration) -> anyhow::Result<Outcome> {
    let mut connections = Vec::new();
    for index in 0..count {
        connections.push(Connection::open(port, kind, index).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            tokio::task::spawn_local(async move {
                let mut count = 0_u64;
                while start.elapsed() < time {
                    connection.exchange().await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut requests = 0;
    for task in tasks {
        requests += task.await??;
    }
    Ok(Outcome { requests, elapsed: start.elapsed() })
}

/// The longest plaintext of a frame (`spec/session-3.md`), without the two bytes for the inner headers.
const FRAME_MAX: usize = 65_536 - 2;

/// A purchase of about this many bytes, in the format of the demo service.
fn purchase(len: usize) -> Vec<u8> {
    let frame = r#"{"schemeCode":"AEF","amount":5000,"note":""}"#.len();
    let note = "x".repeat(len.saturating_sub(frame));
    format!(r#"{{"schemeCode":"AEF","amount":5000,"note":"{note}"}}"#).into_bytes()
}

struct Connection {
    stream: TcpStream,
    kind: Kind,
    session: Option<ClientSession>,
    native: Option<NativeSession>,
    plaintext: Vec<u8>,
    out: Vec<u8>,
    input: Vec<u8>,
    share: Option<String>,
    client_id: String,
}

impl Connection {
    async fn open(port: u16, kind: Kind, index: usize) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            stream,
            kind,
            session: None,
            native: None,
            plaintext: Vec::new(),
            out: Vec::new(),
            input: vec![0; 256 * 1024],
            share: None,
            client_id: format!("bench-{index}"),
        };
        let provider = default_provider();
        match kind {
            Kind::Bare(len) | Kind::Plain(len) => connection.plaintext = vec![b'a'; len],
            Kind::Init => {
                // One key share for all inits: the server's work is the same, and the load's is small.
                let (_, request) = ClientInit::new(Wire::V2, false, "x", None, provider.p256_generate()?, &[0; 16], 0)?;
                connection.share = Some(request.body);
            }
            Kind::Call(len) => {
                let (init, request) = ClientInit::new(
                    Wire::V2,
                    false,
                    &connection.client_id,
                    None,
                    provider.p256_generate()?,
                    &SealRandoms::draw(provider)?.nonce,
                    now_ms(),
                )?;
                connection.write("/session/init", &request.headers, request.body.as_bytes());
                let range = connection.round_trip().await?;
                let answer = &connection.input[range];
                connection.session = Some(init.finish(provider, answer, now_ms(), &mut |_| ())?);
                connection.plaintext = purchase(len);
            }
            Kind::Native(len) => {
                let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                let offer = native_client::offer(Suite::X25519MlKem768, &[]);
                let trusted = native_client::key_set(to)?;
                connection.native = Some(NativeSession::open_as(&mut native_client::Link::new(to), &trusted, offer)?);
                connection.plaintext = purchase(len);
            }
        }
        Ok(connection)
    }

    fn write<N: AsRef<str>>(&mut self, path: &str, headers: &[(N, String)], body: &[u8]) {
        self.out.clear();
        self.out.extend_from_slice(
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len()).as_bytes(),
        );
        for (name, value) in headers {
            self.out.extend_from_slice(name.as_ref().as_bytes());
            self.out.extend_from_slice(b": ");
            self.out.extend_from_slice(value.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(body);
    }

    async fn exchange(&mut self) -> anyhow::Result<()> {
        let provider = default_provider();
        match self.kind {
            Kind::Bare(_) | Kind::Plain(_) => {
                let body = std::mem::take(&mut self.plaintext);
                self.write::<&str>("/plain", &[], &body);
                self.plaintext = body;
            }
            Kind::Native(_) => {
                let agreed = self.native.take().context("no session")?;
                let parts: Vec<&[u8]> = self.plaintext.chunks(FRAME_MAX).collect();
                let (request, _) = agreed.seal("POST", "/transaction/purchase", &parts);
                self.out = request.header("Connection", "keep-alive").bytes();
                self.native = Some(agreed);
            }
            Kind::Init => {
                let nonce: String =
                    SealRandoms::draw(provider)?.nonce.iter().map(|byte| format!("{byte:02x}")).collect();
                let headers = [
                    ("x-idempotency-key", format!("{}.{nonce}", now_ms())),
                    ("x-clientid", self.client_id.clone()),
                    ("content-type", "application/json".into()),
                ];
                let body = self.share.clone().unwrap_or_default();
                self.write("/session/init", &headers, body.as_bytes());
            }
            Kind::Call(_) => {
                let randoms = SealRandoms::draw(provider)?;
                let session = self.session.take().context("no session")?;
                let path = "/transaction/purchase";
                let plaintext = SealBuffer::from(self.plaintext.as_slice());
                let (message, _) = session.seal(path, plaintext, now_ms(), &randoms, &mut |_| ())?;
                let SealedMessage { headers, body, .. } = message;
                self.write(path, &headers, &body);
                self.session = Some(session);
            }
        }
        self.round_trip().await.map(|_| ())
    }

    /// Sends the buffered request and reads one answer. Returns the range of its body.
    async fn round_trip(&mut self) -> anyhow::Result<std::ops::Range<usize>> {
        self.stream.write_all(&self.out).await?;
        let mut len = 0;
        loop {
            len += self.more(len).await?;
            let seen = &self.input[..len];
            let Some(head) = seen.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
                continue;
            };
            let text = std::str::from_utf8(&seen[..head])?;
            if !text.starts_with("HTTP/1.1 200") {
                bail!(
                    "not 200: {} {}",
                    text.lines().next().unwrap_or_default(),
                    String::from_utf8_lossy(&seen[head..])
                );
            }
            let body_len = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let Some(body_len) = body_len.map(str::parse::<usize>).transpose()? else {
                // A sealed stream: its bytes look random, so that the last chunk is its end.
                while !self.input[head..len].ends_with(b"\r\n0\r\n\r\n") {
                    len += self.more(len).await?;
                }
                return Ok(head..len);
            };
            while len < head + body_len {
                len += self.more(len).await?;
            }
            return Ok(head..head + body_len);
        }
    }

    /// Reads on into the input behind its first `len` bytes: how many came.
    async fn more(&mut self, len: usize) -> anyhow::Result<usize> {
        if len == self.input.len() {
            bail!("an answer is too long");
        }
        match self.stream.read(&mut self.input[len..]).await? {
            0 => bail!("the server closed a connection"),
            read => Ok(read),
        }
    }
}
