//! Bodies over HTTP/2 that are larger than any memory: they pass in both directions, unchanged, and the gateway's memory does not
//! grow with them. The services are listeners of this repository, over HTTP/1 and over HTTP/2.
#![allow(clippy::print_stdout, reason = "the long form prints what it measured")]

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::service::service_fn;
use sealway_runtime::http::h2::{Config, FieldLimits, RequestHead, Sender, connect};
use sealway_runtime::http::{Body, BodyError, HttpLimits, Listening, RequestBody, full, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::usage;
use tokio::net::{TcpListener, TcpStream};

use crate::BINARY;

const MIB: u64 = 1024 * 1024;
/// Most memory that the gateway may take for bodies of any size, in KiB.
const GROWTH_MAX_KIB: u64 = 64 * 1024;
/// Length after which the bytes of a body repeat: no length of a frame or of a buffer is a multiple of it.
const PERIOD: usize = 65_521;
const PIECE: usize = 64 * 1024;

/// Returns bytes of which every piece of a body is a part.
fn pattern() -> Bytes {
    (0..PERIOD + PIECE).map(|at| ((at % PERIOD) * 31 % 251) as u8).collect()
}

/// A body of this number of bytes.
struct Pattern {
    pattern: Bytes,
    at: u64,
    len: u64,
}

impl Pattern {
    fn new(len: u64) -> Pattern {
        Pattern { pattern: pattern(), at: 0, len }
    }
}

impl HttpBody for Pattern {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let len = (self.len - self.at).min(PIECE as u64) as usize;
        if len == 0 {
            return Poll::Ready(None);
        }
        let begin = (self.at % PERIOD as u64) as usize;
        self.at += len as u64;
        Poll::Ready(Some(Ok(Frame::data(self.pattern.slice(begin..begin + len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.at == self.len
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len - self.at)
    }
}

/// Compares a body with the pattern as it arrives.
struct Check {
    pattern: Bytes,
    at: u64,
}

impl Check {
    fn new() -> Check {
        Check { pattern: pattern(), at: 0 }
    }

    fn take(&mut self, data: &[u8]) {
        for piece in data.chunks(PIECE) {
            let begin = (self.at % PERIOD as u64) as usize;
            assert!(
                self.pattern[begin..begin + piece.len()] == *piece,
                "other bytes within {} bytes of {}",
                PIECE,
                self.at
            );
            self.at += piece.len() as u64;
        }
    }
}

/// Answers a GET of `/N` with N bytes, and another request with the length of its body, which is checked.
async fn answer(request: Request<RequestBody>) -> Response<Body> {
    if *request.method() == Method::GET {
        let len = request.uri().path().trim_start_matches('/').parse().unwrap();
        return Response::new(Pattern::new(len).boxed_unsync());
    }
    let (mut body, mut check) = (request.into_body(), Check::new());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => check.take(frame.data_ref().unwrap()),
            Err(err) => return Response::new(full(err.to_string())),
        }
    }
    Response::new(full(check.at.to_string()))
}

async fn service() -> (SocketAddr, Shutdown) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", HttpLimits::DEFAULT)));
    shutdown.spawn(serve(Socket::Tcp(listener), listening, service, shutdown.clone()));
    (address, shutdown)
}

async fn client(to: SocketAddr) -> Sender {
    let config = Config {
        streams_max: 0,
        stream_window: 256 * 1024,
        connection_window: MIB as u32,
        fields: FieldLimits { bytes_max: 32 * 1024, fields_max: 100 },
        pending_max: 64 * 1024,
        connect_protocol: false,
    };
    let (sender, drive) = connect(TcpStream::connect(to).await.unwrap(), config, None);
    tokio::spawn(drive);
    sender
}

/// Sends a request with a body of this number of bytes, and passes each part of the answer on.
async fn ask(sender: &Sender, method: Method, path: &str, len: u64, mut part: impl FnMut(&[u8])) {
    let uri = format!("http://a.example{path}").parse().unwrap();
    let head = RequestHead { method, uri, headers: HeaderMap::new(), protocol: None };
    let mut exchange = sender.send(head, Some(Pattern::new(len))).await.map_err(|(err, _)| err).unwrap();
    assert_eq!(poll_fn(|cx| exchange.poll_response(cx)).await.unwrap().status, 200);
    while let Some(piece) = poll_fn(|cx| exchange.poll_piece(cx)).await {
        part(piece.unwrap().data_ref().unwrap());
    }
}

async fn upload(sender: &Sender, len: u64) {
    let mut answer = Vec::new();
    ask(sender, Method::POST, "/", len, |part| answer.extend_from_slice(part)).await;
    assert_eq!(String::from_utf8_lossy(&answer), len.to_string());
}

async fn download(sender: &Sender, len: u64) {
    let mut check = Check::new();
    ask(sender, Method::GET, &format!("/{len}"), 0, |part| check.take(part)).await;
    assert_eq!(check.at, len);
}

/// Runs a transfer, and watches the gateway's memory. Returns its growth in KiB.
async fn watched(server: &Server, before_kib: u64, transfer: impl Future<Output = ()>) -> u64 {
    let mut transfer = std::pin::pin!(transfer);
    let mut growth = 0;
    loop {
        let is_over = tokio::time::timeout(Duration::from_millis(100), &mut transfer).await.is_ok();
        let growth_now = usage::status(server.id(), "RssAnon:").unwrap().saturating_sub(before_kib);
        growth = growth.max(growth_now);
        assert!(growth < GROWTH_MAX_KIB, "the gateway has grown by {growth} KiB");
        if is_over {
            return growth;
        }
    }
}

async fn transfer(len: u64) {
    for protocol in ["http1", "http2"] {
        let (service, _shutdown) = service().await;
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{service}'], protocol: {protocol} }} }}
"
        );
        let server = Launch::new(BINARY, &config).start().unwrap();
        let sender = client(server.address()).await;
        // What the first requests allocate for all.
        upload(&sender, MIB).await;
        download(&sender, MIB).await;
        let before = usage::status(server.id(), "RssAnon:").unwrap();
        let begun = Instant::now();
        let up = watched(&server, before, upload(&sender, len)).await;
        let took_up = begun.elapsed();
        let down = watched(&server, before, download(&sender, len)).await;
        let took_down = begun.elapsed() - took_up;
        println!(
            "{} MiB to and from {protocol}: up in {took_up:.1?}, {up} KiB more memory; down in {took_down:.1?}, {down} KiB",
            len / MIB
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_larger_than_all_buffers_passes_in_both_directions_in_constant_memory() {
    // More than the gateway may grow, in each direction.
    transfer(96 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: 40 GB; `make e2e-faults` runs it"]
async fn bodies_of_10_gb_pass_in_both_directions_in_constant_memory() {
    transfer(10_000_000_000).await;
}
