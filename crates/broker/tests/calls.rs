//! Tests of calls with and without a connection: their memory, their deadlines, and the parts of a message.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use sealway_broker::audit::Audit;
use sealway_broker::benchmark::Inputs;
use sealway_broker::callers::{Callers, Peer};
use sealway_broker::profile::{Leniency, Live};
use sealway_broker::server::{Limits, Server};
use sealway_broker::service::{Service, Turns};
use sealway_broker::socket::{self, Place};
use sealway_broker::wire::{Answer, Options, Wires};
use sealway_proto::broker::{open, v1};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::shutdown::Shutdown;
use tempfile::TempDir;
use tonic::{Code, Status};

const PROFILES: &str = "\
- Name: P
  Settings: {CryptoLibrary: native}
  API:
    HashData: {HashAlg: sha-256}
    EncryptData: {EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided}
    Random: true
";
const HASH: &str = "/sealway.broker.v1.Broker/Hash";
const MIB: usize = 1024 * 1024;

fn wires(calls_memory: usize) -> (TempDir, Arc<Wires>) {
    wires_with(calls_memory, None)
}

fn wires_with(calls_memory: usize, dev: Option<Inputs>) -> (TempDir, Arc<Wires>) {
    use std::os::unix::fs::PermissionsExt;
    let ground = tempfile::tempdir().unwrap();
    let file = ground.path().join("Profiles.yaml");
    std::fs::write(&file, PROFILES).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let service = Service {
        profiles: Arc::new(Live::load(file, Leniency::Strict).unwrap()),
        callers: None,
        audit: Some(Audit::open(&ground.path().join("audit.jsonl")).unwrap()),
        keys: None,
        clock: Arc::new(SystemClock),
        owner: Callers::only(uid()),
        is_fips: false,
        turns: Turns::default(),
    };
    let options = Options { has_earlier_wires: true, dev, calls_memory };
    (ground, Arc::new(Wires::new(Arc::new(service), options)))
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn frame(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let len = u32::try_from(message.len()).unwrap();
    [&[0][..], &len.to_be_bytes(), &message].concat()
}

fn hash(inputs: Vec<Vec<u8>>) -> Vec<u8> {
    frame(&v1::HashRequest { profile: "P".into(), inputs })
}

/// A request body that begins and then stalls.
fn stalled() -> impl Body<Data = Bytes, Error = Status> + Send + Unpin + 'static {
    StreamBody::new(tokio_stream::pending::<Result<Frame<Bytes>, Status>>())
}

async fn ask<B>(wires: &Arc<Wires>, path: &str, timeout: Option<&str>, body: B) -> (Code, http::Response<Answer>)
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    let mut request = http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let peer = Peer { uid: uid(), gid: 1000, ..Peer::default() };
    let Ok(answer) = wires.clone().answer(request.body(body).unwrap(), peer).await;
    (Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code()), answer)
}

async fn whole(wires: &Arc<Wires>, path: &str, timeout: Option<&str>, message: Vec<u8>) -> Code {
    ask(wires, path, timeout, Full::new(Bytes::from(message))).await.0
}

#[tokio::test]
async fn calls_beyond_the_memory_budget_get_code_8() {
    // Three quarters of the memory are one user's: four calls.
    let (ground, wires) = wires(4 * 32 * 1024 / 3);
    let hold = |wires: &Arc<Wires>| {
        let wires = wires.clone();
        tokio::spawn(async move { ask(&wires, HASH, None, stalled()).await.0 })
    };
    let held: Vec<_> = (0..4).map(|_| hold(&wires)).collect();
    // On this single thread, all of them have begun afterwards.
    tokio::task::yield_now().await;
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::ResourceExhausted);
    for call in held {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::Ok);
    // A call that outgrows the rest while it arrives, and an answer that does.
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 30_000]])).await, Code::ResourceExhausted);
    let random = frame(&v1::RandomRequest { profile: "P".into(), length: 30_000, count: 1 });
    assert_eq!(whole(&wires, "/sealway.broker.v1.Broker/Random", None, random).await, Code::ResourceExhausted);
    // An unread answer is held like an unfinished request.
    let mut unread = Vec::new();
    for _ in 0..3 {
        let (code, answer) = ask(&wires, HASH, None, Full::new(Bytes::from(hash(vec![vec![7; 1000]])))).await;
        unread.push((code == Code::Ok).then_some(answer).expect("a place"));
    }
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::ResourceExhausted);
    drop(unread);
    let log = std::fs::read_to_string(ground.path().join("audit.jsonl")).unwrap();
    assert_eq!(log.matches("\"operation\":\"Hash\",\"wire\":\"sealway.broker.v1.Broker\"").count(), 3, "{log}");
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::Ok);
}

#[tokio::test]
async fn a_call_past_its_deadline_gets_code_4_and_does_no_work() {
    let (ground, wires) = wires(MIB);
    let input = || hash(vec![vec![7; 64]]);
    assert_eq!(ask(&wires, HASH, Some("30m"), stalled()).await.0, Code::DeadlineExceeded);
    // The deadline has passed when the message is read: nothing is done.
    assert_eq!(whole(&wires, HASH, Some("1n"), input()).await, Code::DeadlineExceeded);
    assert_eq!(whole(&wires, HASH, Some("60S"), input()).await, Code::Ok);
    assert_eq!(whole(&wires, HASH, Some("soon"), input()).await, Code::Ok, "what is no timeout is none");
    assert_eq!(whole(&wires, HASH, None, input()).await, Code::Ok);
    let log = std::fs::read_to_string(ground.path().join("audit.jsonl")).unwrap();
    let lines = |code: &str| log.lines().filter(|line| line.contains("HashData") && line.contains(code)).count();
    assert_eq!((lines("\"code\":0,"), lines("\"code\":4,")), (3, 1), "{log}");
}

#[tokio::test]
async fn a_message_of_a_million_empty_entries_is_refused_before_it_is_read() {
    let (_ground, wires) = wires(Options::CALLS_MEMORY);
    let empty = frame(&v1::DecryptRequest { ciphers: vec![v1::Cipher::default(); 1_000_000], ..Default::default() });
    assert!(empty.len() < 2 * MIB);
    let body = Full::new(Bytes::from(empty));
    let (code, answer) = ask(&wires, "/sealway.broker.v1.Broker/Decrypt", None, body).await;
    let told = Status::from_header_map(answer.headers()).unwrap().message().to_owned();
    assert_eq!((code, told.as_str()), (Code::InvalidArgument, "a message of more than 4096 fields"));
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![1; 1000]; 1024])).await, Code::Ok);
    // A second message after the first is read, and a stream of them is bounded.
    let many = hash(vec![vec![1; 60]]).repeat(40_000);
    assert_eq!(whole(&wires, HASH, None, many).await, Code::OutOfRange);
}

#[tokio::test]
async fn a_message_of_w4_and_what_authenticates_it_have_a_bound_each() {
    let (_ground, wires) = wires(Options::CALLS_MEMORY);
    let request = |len: usize, aad: usize| {
        frame(&open::EncryptDataRequest {
            profile: "P".into(),
            key_source: Some(open::KeySource { source: Some(open::key_source::Source::RawKey(vec![9; 32])) }),
            plaintext: vec![1; len],
            encrypt_metadata: Some(open::EncryptMetadata { nonce: vec![3; 12], aad: Some(vec![2; aad]) }),
            metadata: None,
        })
    };
    const PATH: &str = "/CryptoBroker.CryptoGrpc/EncryptData";
    assert_eq!(whole(&wires, PATH, None, request(MIB, 64 * 1024)).await, Code::Ok);
    assert_eq!(whole(&wires, PATH, None, request(MIB + 1, 0)).await, Code::InvalidArgument);
    assert_eq!(whole(&wires, PATH, None, request(0, 64 * 1024 + 1)).await, Code::InvalidArgument);
}

/// Connects to a broker's socket.
async fn connect<B>(path: &std::path::Path) -> hyper::client::conn::http2::SendRequest<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

fn over_socket<B>(body: B) -> http::Request<B> {
    let request = http::Request::post(format!("http://broker{HASH}")).header("content-type", "application/grpc");
    request.header("te", "trailers").body(body).unwrap()
}

/// Starts a server on a new socket.
fn serve(wires: Arc<Wires>, ground: &TempDir, limits: Limits) -> (std::path::PathBuf, Server) {
    let path = ground.path().join("run/s");
    let place = Place { path: path.clone(), link: None, is_folder_shared: false };
    let server = Server::start(socket::bind(&place).unwrap(), wires, limits, Shutdown::new()).unwrap();
    (path, server)
}

/// Makes a call over a new connection; true if it is answered.
async fn is_answered(path: &std::path::Path) -> bool {
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let Ok((mut sender, connection)) = builder.handshake(TokioIo::new(stream)).await else { return false };
    tokio::spawn(async move { drop(connection.await) });
    let request = over_socket(Full::new(Bytes::from(hash(vec![vec![7; 64]]))));
    // hyper's HTTP/2 client can wait forever if the peer closes the connection just before the request is sent.
    let sent = tokio::time::timeout(Duration::from_secs(5), sender.send_request(request)).await;
    sent.is_ok_and(|answer| answer.is_ok_and(|answer| Status::from_header_map(answer.headers()).is_none()))
}

async fn until_answered(path: &std::path::Path) {
    let begin = Instant::now();
    while !is_answered(path).await {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is never answered");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_counts_until_it_is_written_though_its_reader_takes_a_byte_of_it() {
    // Three quarters of it are one user's: four calls.
    let (ground, wires) = wires(4 * 32 * 1024 / 3);
    let (path, server) = serve(wires, &ground, Limits::default());
    let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    // The window lets a byte of each answer through, and is never enlarged.
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(1).clone();
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let mut unread = Vec::new();
    for _ in 0..3 {
        let request = over_socket(Full::new(Bytes::from(hash(vec![vec![7; 1000]]))));
        let answer = sender.send_request(request).await.unwrap();
        assert!(Status::from_header_map(answer.headers()).is_none());
        unread.push(answer);
    }
    // Whatever the server does with an answer that it has handed to the connection is done by then.
    for _ in 0..20 {
        assert!(!is_answered(&path).await, "an unread answer does not count");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    connection.abort();
    drop((unread, sender));
    until_answered(&path).await;
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}

#[tokio::test]
async fn a_request_in_pieces_gets_the_answer_of_a_whole_one() {
    let (_ground, wires) = wires(Options::CALLS_MEMORY);
    let request = hash(vec![vec![7; 64]]);
    let bytes = async |answer: http::Response<Answer>| {
        let whole = answer.into_body().collect().await.unwrap();
        (whole.trailers().unwrap()["grpc-status"].clone(), whole.to_bytes())
    };
    let whole = bytes(ask(&wires, HASH, None, Full::new(Bytes::from(request.clone()))).await.1).await;
    assert_eq!(whole.0, "0");
    for at in [1, 5, 20, request.len()] {
        let pieces = [&request[..at], &request[at..]].map(|piece| Ok::<_, Status>(Frame::data(piece.to_vec().into())));
        let answer = ask(&wires, HASH, None, StreamBody::new(tokio_stream::iter(pieces))).await.1;
        assert_eq!(bytes(answer).await, whole, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_over_their_bound_get_431_and_the_connection_serves_on() {
    let (ground, wires) = wires(Options::CALLS_MEMORY);
    let (path, server) = serve(wires, &ground, Limits::default());
    let mut sender = connect(&path).await;
    let request = || over_socket(Full::new(Bytes::from(hash(vec![vec![7; 64]]))));
    let mut large = request();
    large.headers_mut().insert("x-large", http::HeaderValue::from_bytes(&[b'a'; 17 * 1024]).unwrap());
    assert_eq!(sender.send_request(large).await.unwrap().status(), 431);
    assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
    drop(sender);
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_and_half_open_connections_block_no_other_client() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (ground, wires) = wires(Options::CALLS_MEMORY);
    let limits = Limits { connections_max: 16, preface_max: Duration::from_millis(500), ..Limits::default() };
    let (path, server) = serve(wires, &ground, limits);
    // The share of this process is four connections; all of them are silent, or nearly.
    let mut silent = Vec::new();
    for begun in [&b""[..], b"PRI * HTTP/2.0\r\n", b"", b"P"] {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        stream.write_all(begun).await.unwrap();
        silent.push(stream);
    }
    until_answered(&path).await;
    for stream in &mut silent {
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut [0])).await;
        assert_eq!(read.expect("it is not closed").unwrap(), 0, "a silent connection is closed");
    }
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}

/// Opens 256 connections, sends one of the given byte strings over each, reports this, and holds them until its input
/// ends.
const HOLDER: &str = "import socket, sys
held = []
for place in range(256):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    held.append(s)
    try:
        s.sendall(bytes.fromhex(sys.argv[2 + place % (len(sys.argv) - 2)]))
    except (BrokenPipeError, ConnectionResetError):
        pass
print('held', flush=True)
sys.stdin.read()
for s in held:
    s.settimeout(30)
    try:
        while s.recv(4096):
            pass
    except ConnectionResetError:
        pass
print('closed', flush=True)
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_request_are_closed_and_used_idle_ones_stay() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    let (ground, wires) = wires(Options::CALLS_MEMORY);
    let limits = Limits { request_max: Duration::from_secs(3), ..Limits::default() };
    let (path, server) = serve(wires, &ground, limits);
    let mut idle = connect(&path).await;
    let request = || over_socket(Full::new(Bytes::from(hash(vec![vec![7; 64]]))));
    idle.send_request(request()).await.unwrap();
    // The preface alone, with SETTINGS, and with half of a request's HEADERS.
    let preface = "505249202a20485454502f322e300d0a0d0a534d0d0a0d0a";
    let settings = format!("{preface}000000040000000000");
    let headers = format!("{settings}00000101000000000183");
    let begin = Instant::now();
    let mut holders: Vec<_> = (0..3)
        .map(|_| {
            let mut holder = Command::new("python3");
            holder.args(["-c", HOLDER]).arg(&path).args([preface, &settings, &headers]);
            holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for holder in &mut holders {
        let mut line = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
    }
    until_answered(&path).await;
    // Without the deadline they end after 50 s without an answer to PING.
    assert!(begin.elapsed() < Duration::from_secs(45), "honest callers are locked out for {:?}", begin.elapsed());
    for mut holder in holders {
        drop(holder.stdin.take());
        let mut told = String::new();
        holder.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!((told.as_str(), holder.wait().unwrap().success()), ("closed\n", true));
    }
    assert!(idle.send_request(request()).await.is_ok(), "a connection that made a request may be idle");
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_cannot_take_every_connection_of_its_user() {
    let (ground, wires) = wires(Options::CALLS_MEMORY);
    let limits = Limits { connections_max: 16, ..Limits::default() };
    let (path, server) = serve(wires, &ground, limits);
    let mut held = Vec::new();
    for _ in 0..4 {
        let sender = connect::<Full<Bytes>>(&path).await;
        held.push(sender);
    }
    assert!(!is_answered(&path).await, "a quarter is one process's");
    // Another process of the same user.
    let other = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1]); \
                 s.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0'); sys.exit(not s.recv(9))";
    let other = std::process::Command::new("python3").args(["-c", other]).arg(&path).status().unwrap();
    assert!(other.success(), "another process finds room");
    drop(held);
    until_answered(&path).await;
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}

#[tokio::test]
async fn one_process_or_user_cannot_occupy_all_health_watches() {
    let (_ground, wires) = wires(Options::CALLS_MEMORY);
    let watch = async |uid: u32, pid: i32, message: &'static [u8]| {
        let peer = Peer { uid, pid: Some(pid), ..Peer::default() };
        let request = http::Request::post("/grpc.health.v1.Health/Watch").header("content-type", "application/grpc");
        let request = request.header("te", "trailers").body(Full::new(Bytes::from_static(message))).unwrap();
        let Ok(answer) = wires.clone().answer(request, peer).await;
        Status::from_header_map(answer.headers()).map_or(Ok(answer), Err)
    };
    // A known and an unknown service: both streams stay open.
    let messages: [&[u8]; 2] = [&[0, 0, 0, 0, 0], &[0, 0, 0, 0, 3, 0x0a, 1, b'x']];
    let mut held = Vec::new();
    for place in 0..256 {
        held.push(watch(1, 1, messages[place % 2]).await.unwrap());
    }
    let full = watch(1, 1, messages[0]).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert_eq!(full.message(), "Watch: process 1 has its share of places, 256; use Check instead");
    for place in 0..512 {
        held.push(watch(1, 2 + place / 256, messages[0]).await.unwrap());
    }
    let full = watch(1, 4, messages[0]).await.unwrap_err();
    assert_eq!(full.message(), "Watch: user 1 has its share of places, 768; use Check instead");
    held.push(watch(2, 5, messages[0]).await.unwrap());
    held.truncate(255);
    assert!(watch(1, 1, messages[1]).await.is_ok(), "places come back");
}

/// Request of clients of v0.2.3: a time as the second field of the metadata, at which later wires have a message.
#[tokio::test]
async fn metadata_with_a_time_as_its_second_field_comes_back_byte_for_byte() {
    let (_ground, wires) = wires_with(Options::CALLS_MEMORY, Some(Inputs::default()));
    let metadata = [&[0x0a, 2][..], b"id", &[0x12, 20], b"2026-04-01T12:00:00Z"].concat();
    let len = u8::try_from(metadata.len()).unwrap();
    let request = [&[0, 0, 0, 0, len + 2, 0x0a, len][..], &metadata].concat();
    for path in ["/CryptoBroker.CryptoGrpc/FakeEndpoint", "/CryptoBroker.CryptoGrpcDev/FakeEndpoint"] {
        for is_answered in [false, false, false, false, true] {
            let (code, answer) = ask(&wires, path, None, Full::new(Bytes::from(request.clone()))).await;
            assert_eq!(code, if is_answered { Code::Ok } else { Code::Unavailable }, "{path}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let echoed = [&[0x12, len][..], &metadata].concat();
            assert_eq!(body.ends_with(&echoed), is_answered, "{path}: {body:?}");
        }
    }
    let body = Full::new(Bytes::from(request));
    let (code, answer) = ask(&wires, "/CryptoBroker.CryptoGrpc/Benchmark", None, body).await;
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(code == Code::Ok && body.ends_with(&[&[0x12, len][..], &metadata].concat()), "{code:?}: {body:?}");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_the_callers_fault_on_every_call() {
    let (_ground, wires) = wires(Options::CALLS_MEMORY);
    let cut = [&[0, 0, 0, 0, 4][..], &[0x0a, 0x7f, 1, 2]].concat();
    // A field 1 that is not UTF-8, a number instead of bytes, invalid flags, and no message at all.
    let text = [&[0, 0, 0, 0, 3][..], &[0x0a, 1, 0xff]].concat();
    let number = [&[0, 0, 0, 0, 2][..], &[0x08, 1]].concat();
    let flags = [&[7, 0, 0, 0, 2][..], &[0x0a, 0]].concat();
    for method in sealway_broker::wire::METHODS {
        // Development is off, and with it these methods; a message without fields has no invalid ones.
        let is_off = matches!(method.name, "Benchmark" | "FakeEndpoint");
        for message in [&cut, &text, &number, &flags, &Vec::new()] {
            let has_none = matches!(method.name, "Information") || method.service == "grpc.health.v1.Health";
            if is_off || (has_none && (message == &text || message == &number)) {
                continue;
            }
            let body = Full::new(Bytes::from(message.clone()));
            let (code, answer) = ask(&wires, method.path, None, body).await;
            let told = Status::from_header_map(answer.headers()).map(|status| status.message().to_owned());
            assert_eq!(code, Code::InvalidArgument, "{}: {message:?}: {told:?}", method.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_of_a_peer_is_released_when_it_disconnects() {
    let (ground, wires) = wires(4 * 32 * 1024 / 3);
    let (path, server) = serve(wires, &ground, Limits::default());
    // Dropping its runtime ends all of a peer at once, like the end of its process.
    let peer = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let slow = path.clone();
    peer.spawn(async move {
        let sender = connect(&slow).await;
        for _ in 0..4 {
            let mut sender = sender.clone();
            // A call without room, because another one held it briefly, tries again.
            tokio::spawn(async move { while sender.send_request(over_socket(stalled())).await.is_ok() {} });
        }
        std::future::pending::<()>().await;
    });
    let sender = connect(&path).await;
    let code = async || {
        let mut sender = sender.clone();
        let sent = sender.send_request(over_socket(Full::new(Bytes::from(hash(vec![vec![7; 64]])))));
        let answer = sent.await.unwrap();
        Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code())
    };
    let until = async |wanted: Code| {
        let begin = Instant::now();
        while code().await != wanted {
            assert!(begin.elapsed() < Duration::from_secs(30), "never {wanted:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until(Code::ResourceExhausted).await;
    peer.shutdown_background();
    until(Code::Ok).await;
    assert_eq!(server.stop(Duration::from_secs(30)).await, 0);
}
