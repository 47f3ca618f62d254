//! Fixtures of the tests of channels against an endpoint of v1: the endpoint of `tests/channel_peer` in its own process,
//! Sealway's channel to it, and Sealway's answers to the kinds of streams that the endpoint opens.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealway_client::channel::rpc::{Handlers, Rpc};
use sealway_client::channel::{self, Channel, DirectInfo, Error, Grant, Hello, Instance, Options, Stream};
use sealway_proto::crypto::default_provider;
use sealway_testkit::daemon::program;
use sealway_testkit::wire_client::now_ms;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// The longest time of a step on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// The suites of v1: X25519 and P-256.
pub(crate) const SUITES: [u16; 2] = [1, 2];
/// The number of bytes that an endpoint of v1 accepts on a stream before the other side reads.
pub(crate) const WINDOW: usize = 256 << 10;

/// Waits for a future, at most [`LONG`].
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it takes too long")
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/channel_peer")
}

/// Runs a Go command in the folder of the endpoint's source, and returns its output.
pub(crate) fn go(arguments: &[&str]) -> String {
    let mut go = Command::new(program("go").unwrap());
    let output = go.args(arguments).current_dir(source()).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "go {}: {said}", arguments.join(" "));
    said
}

/// Builds the endpoint from its source. Tests are parallel processes, and a second build of the same source is cheap.
fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let lock = std::fs::File::create(folder.join("channel_peer.lock")).unwrap();
        lock.lock().unwrap();
        let binary = folder.join("channel_peer");
        go(&["build", "-buildvcs=false", "-o", binary.to_str().unwrap(), "."]);
        binary
    })
}

/// A process with an endpoint of v1. It is killed when dropped.
pub(crate) struct Peer {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Peer {
    pub(crate) fn start(arguments: &[&str]) -> Peer {
        let mut command = Command::new(binary());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, lines) = mpsc::unbounded_channel();
        let output = child.stdout.take().unwrap();
        // A line is short; endless output is cut off.
        let output = BufReader::new(output.take(1 << 20));
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| to.send(line).is_ok()));
        Peer { child, lines }
    }

    /// Returns the next line of its output.
    pub(crate) async fn line(&mut self) -> Value {
        let line = soon(self.lines.recv()).await.expect("the peer said nothing more");
        serde_json::from_str(&line).unwrap()
    }

    /// Returns the last line of its output, which must report success.
    pub(crate) async fn done(mut self) -> Value {
        let said = self.line().await;
        assert_eq!(said["ok"], true, "{said}");
        said
    }

    /// Returns the last line of its output, which must report a failure.
    pub(crate) async fn failed(mut self) -> Value {
        let said = self.line().await;
        assert_eq!(said["ok"], false, "{said}");
        said
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Data that both ends of a channel without a relay share, in a file for the peer.
pub(crate) struct Direct {
    pub(crate) info: DirectInfo,
    folder: tempfile::TempDir,
}

impl Direct {
    pub(crate) fn new(suite: u16, ws_url: String) -> Direct {
        let mut psk = [0; 32];
        default_provider().fill_random(&mut psk).unwrap();
        let (channel_id, init_exp_s) = (format!("chan_{}", now_ms()), now_ms() as i64 / 1000 + 120);
        let info = DirectInfo { ws_url, channel_id, psk: psk.into(), default_suite: suite, init_exp_s };
        let direct = Direct { info, folder: tempfile::tempdir().unwrap() };
        std::fs::write(direct.file(), direct.info.encode().as_bytes()).unwrap();
        direct
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("direct.json")
    }

    /// Starts the endpoint of v1 with these arguments.
    pub(crate) fn peer(&self, role: &str, arguments: &[&str]) -> Peer {
        let file = self.file();
        Peer::start(&[&["--role", role, "--direct", file.to_str().unwrap()], arguments].concat())
    }
}

/// A proxy with latency to `upstream`: it delays the bytes of both directions by this time.
pub(crate) async fn far(upstream: SocketAddr, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(upstream).await.unwrap();
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            let ((near_from, near_to), (far_from, far_to)) = (near.into_split(), far.into_split());
            tokio::spawn(later(near_from, far_to, delay));
            tokio::spawn(later(far_from, near_to, delay));
        }
    });
    address
}

async fn later(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sent, mut on_the_way) = mpsc::channel::<(Instant, Vec<u8>)>(4096);
    tokio::spawn(async move {
        while let Some((due, part)) = on_the_way.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&part).await.is_err() {
                return;
            }
        }
    });
    let mut part = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut part).await {
        if sent.send((Instant::now() + delay, part[..len].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Runs a job of a client of v1 with Sealway's server, if the channel opens.
pub(crate) async fn client_of_v1(suite: u16, arguments: &[&str]) -> (Peer, Result<Channel, Error>) {
    client_of_v1_from_afar(suite, arguments, Duration::ZERO).await
}

pub(crate) async fn client_of_v1_from_afar(
    suite: u16,
    arguments: &[&str],
    delay: Duration,
) -> (Peer, Result<Channel, Error>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut address = listener.local_addr().unwrap();
    if delay > Duration::ZERO {
        address = far(address, delay).await;
    }
    let direct = Direct::new(suite, format!("ws://{address}/ws"));
    let peer = direct.peer("client", arguments);
    let (stream, _) = soon(listener.accept()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    (peer, soon(channel::accept_direct(stream, &direct.info, &Options::default())).await)
}

/// Opens Sealway's client to a server of v1.
pub(crate) async fn server_of_v1(suite: u16, arguments: &[&str], options: &Options) -> (Peer, Result<Channel, Error>) {
    let direct = Direct::new(suite, String::new());
    let mut peer = direct.peer("server", arguments);
    let ws_url = peer.line().await["ws_url"].as_str().unwrap().to_owned();
    let info = DirectInfo { ws_url, ..direct.info.clone() };
    (peer, soon(channel::connect_direct(&info, options, |_| ())).await)
}

/// Issues the grants of a channel with the peer's code, without any code of Sealway.
pub(crate) fn issue(folder: &Path, url: &str, suite: u16) -> (Grant, Grant) {
    let mut issuing = Command::new(binary());
    let issuing = issuing.args(["--issue", url, "--suite", &suite.to_string()]).arg("--into").arg(folder);
    assert!(issuing.stdout(Stdio::null()).status().unwrap().success());
    let grant = |name| Grant::parse(&std::fs::read(folder.join(name)).unwrap()).unwrap();
    (grant("client.json"), grant("server.json"))
}

/// Opens Sealway's end of a channel over a relay.
pub(crate) async fn attach(grant: &Grant) -> Result<Channel, Error> {
    attach_with(grant, &Options::default()).await
}

pub(crate) async fn attach_with(grant: &Grant, options: &Options) -> Result<Channel, Error> {
    soon(channel::attach(grant, &Instance::draw().unwrap(), options, |_| ())).await
}

/// A signal for which the streams of the peer may wait.
#[derive(Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// Answers the streams that the peer opens until the channel is over, in the same way as the peer answers Sealway's streams.
pub(crate) async fn serve(channel: &Channel, gate: &Gate) {
    while let Some(incoming) = channel.accept().await {
        let gate = gate.clone();
        tokio::spawn(async move {
            let (kind, stream) = (incoming.hello.kind.to_string(), incoming.stream);
            let _ = answer(&kind, stream, &gate).await;
        });
    }
}

async fn answer(kind: &str, mut stream: Stream, gate: &Gate) -> std::io::Result<()> {
    match kind {
        "rpc" => {
            calls(stream).over_now().await;
            Ok(())
        }
        "echo" => {
            let (mut from, mut to) = tokio::io::split(stream);
            tokio::io::copy(&mut from, &mut to).await?;
            to.shutdown().await
        }
        "sink" => answer_count(stream).await,
        "slow" => {
            gate.wait().await;
            answer_count(stream).await
        }
        // The stream stays open without a byte.
        "mute" => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
        "source" => {
            let asked = read_frame(&mut stream).await?;
            pour(&mut stream, asked["bytes"].as_u64().unwrap()).await?;
            stream.shutdown().await
        }
        // The stream is dropped without an end.
        "reset" => Ok(()),
        other => panic!("a stream of the kind {other}"),
    }
}

async fn answer_count(mut stream: Stream) -> std::io::Result<()> {
    let got = drain(&mut stream).await?;
    write_frame(&mut stream, &got).await?;
    stream.shutdown().await
}

/// Answers calls of type 1 with their payload, after a notification of type 2.
fn calls(stream: Stream) -> Rpc {
    let own: Arc<OnceLock<Rpc>> = Arc::default();
    let mine = own.clone();
    let handlers = Handlers::none().on(1, move |called| {
        let mine = mine.clone();
        async move {
            let rpc = mine.get().expect("it is set before anything is read").clone();
            rpc.notify(2, json!({ "first": true })).await.expect("the stream is there");
            Ok(called.payload)
        }
    });
    // Its own handle ends with the stream: a reference cycle, which lives as long as the test.
    let rpc = Rpc::over(stream, handlers);
    let _ = own.set(rpc.clone());
    rpc
}

/// Opens a stream of a kind.
pub(crate) async fn open(channel: &Channel, kind: &str) -> Stream {
    soon(channel.open(&Hello::new(kind).unwrap())).await.unwrap()
}

pub(crate) async fn write_frame(stream: &mut Stream, what: &Value) -> std::io::Result<()> {
    let json = what.to_string();
    stream.write_all(&(json.len() as u32).to_be_bytes()).await?;
    stream.write_all(json.as_bytes()).await?;
    stream.flush().await
}

pub(crate) async fn read_frame(stream: &mut Stream) -> std::io::Result<Value> {
    let mut json = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut json).await?;
    Ok(serde_json::from_slice(&json)?)
}

/// A count of bytes and their SHA-256 in hexadecimal, as the peer computes them.
struct Count {
    bytes: u64,
    sum: aws_lc_rs::digest::Context,
}

impl Count {
    fn new() -> Count {
        Count { bytes: 0, sum: aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256) }
    }

    fn add(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.sum.update(part);
    }

    fn done(self) -> Value {
        let hex: String = self.sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "bytes": self.bytes, "sha256": hex })
    }
}

/// Writes this many bytes: consecutive 64-bit numbers. Returns their count and hash.
pub(crate) async fn pour(stream: &mut (impl AsyncWriteExt + Unpin), bytes: u64) -> std::io::Result<Value> {
    let mut count = Count::new();
    while count.bytes < bytes {
        let part: Vec<u8> = (count.bytes / 8..count.bytes / 8 + 8192).flat_map(u64::to_be_bytes).collect();
        let part = &part[..part.len().min((bytes - count.bytes) as usize)];
        stream.write_all(part).await?;
        count.add(part);
    }
    stream.flush().await?;
    Ok(count.done())
}

/// Reads the stream to its end. Returns the count and the hash.
pub(crate) async fn drain(stream: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<Value> {
    let (mut count, mut part) = (Count::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut part).await? {
            0 => return Ok(count.done()),
            read => count.add(&part[..read]),
        }
    }
}
