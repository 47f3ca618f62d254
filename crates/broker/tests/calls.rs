//! Calls as they come over a connection, but for the connection: what they hold together, by when they are answered, how many
//! parts a message has.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use sealway_broker::audit::Audit;
use sealway_broker::callers::{Callers, Peer};
use sealway_broker::profile::{Leniency, Live};
use sealway_broker::server::Server;
use sealway_broker::service::Service;
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
    };
    let options = Options { has_old_wires: true, dev: None, calls_memory };
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

/// A body that has begun and does not go on.
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
    let peer = Peer { uid: uid(), gid: 1000, pid: None };
    let Ok(answer) = wires.clone().answer(request.body(body).unwrap(), peer).await;
    (Status::from_header_map(answer.headers()).map_or(Code::Ok, |status| status.code()), answer)
}

async fn whole(wires: &Arc<Wires>, path: &str, timeout: Option<&str>, message: Vec<u8>) -> Code {
    ask(wires, path, timeout, Full::new(Bytes::from(message))).await.0
}

#[tokio::test]
async fn calls_hold_no_more_together_than_there_is_for_them_and_those_beyond_are_answered_8() {
    // Three quarters of it are one user's: four calls.
    let (_ground, wires) = wires(4 * 32 * 1024 / 3);
    let hold = |wires: &Arc<Wires>| {
        let wires = wires.clone();
        tokio::spawn(async move { ask(&wires, HASH, None, stalled()).await.0 })
    };
    let held: Vec<_> = (0..4).map(|_| hold(&wires)).collect();
    // On this one thread each of them has begun when this goes on.
    tokio::task::yield_now().await;
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::ResourceExhausted);
    for call in held {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::Ok);
    // One that grows beyond what is left while it comes in, and an answer that does.
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 30_000]])).await, Code::ResourceExhausted);
    let random = frame(&v1::RandomRequest { profile: "P".into(), length: 30_000, count: 1 });
    assert_eq!(whole(&wires, "/sealway.broker.v1.Broker/Random", None, random).await, Code::ResourceExhausted);
    // An answer that nobody reads is held like a request that nobody finishes.
    let mut unread = Vec::new();
    for _ in 0..3 {
        let (code, answer) = ask(&wires, HASH, None, Full::new(Bytes::from(hash(vec![vec![7; 1000]])))).await;
        assert_eq!(code, Code::Ok);
        unread.push(answer);
    }
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::ResourceExhausted);
    drop(unread);
    assert_eq!(whole(&wires, HASH, None, hash(vec![vec![7; 64]])).await, Code::Ok);
}

#[tokio::test]
async fn a_call_whose_deadline_passes_is_answered_4_and_nothing_is_done_for_it() {
    let (ground, wires) = wires(MIB);
    let input = || hash(vec![vec![7; 64]]);
    assert_eq!(ask(&wires, HASH, Some("30m"), stalled()).await.0, Code::DeadlineExceeded);
    // It has passed when the message is read: what was asked for is not done.
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
    // A second message behind the first is read, and a stream of them has an end.
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

/// A connection to a broker's socket.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_peer_held_comes_back_when_it_is_gone() {
    let (ground, wires) = wires(4 * 32 * 1024 / 3);
    let path = ground.path().join("run/s");
    let place = Place { path: path.clone(), link: None, is_folder_shared: false };
    let server = Server::start(socket::bind(&place).unwrap(), wires, 100, Shutdown::new()).unwrap();
    // With its runtime all of a peer goes away at once, as with its process.
    let peer = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let slow = path.clone();
    peer.spawn(async move {
        let sender = connect(&slow).await;
        for _ in 0..4 {
            let mut sender = sender.clone();
            // One that found no room, as another call had it for a moment, tries again.
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
