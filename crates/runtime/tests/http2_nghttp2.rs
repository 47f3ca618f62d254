//! HTTP/2 against the programs of nghttp2 and against curl: the listener with nghttp, h2load and curl as clients, the client with
//! nghttpd as server.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use sealway_runtime::http::h2::{Config, FieldLimits, RequestHead, ResponseHead, Sender, connect};
use sealway_runtime::http::{Body, HttpLimits, Listening, RequestBody, full, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(120);

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing and this test needs it: run scripts/setup-tests.sh"))
}

async fn run(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program(name));
    command.args(arguments).stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output());
    let ran = tokio::time::timeout(PATIENCE, ran).await.expect("an end").unwrap().unwrap();
    assert!(ran.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    ran
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

/// Answers `/size/N` with N bytes, and everything else with the request's body; its trailer `x-sum` becomes the answer's.
async fn answer(request: Request<RequestBody>) -> Response<Body> {
    if let Some(len) = request.uri().path().strip_prefix("/size/") {
        return Response::new(full(bytes(len.parse().unwrap())));
    }
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET {
        return Response::new(full("hello"));
    }
    // Streamed back as it arrives, with its trailers.
    Response::new(body.map_err(Into::into).boxed_unsync())
}

async fn listener() -> (SocketAddr, Shutdown) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", HttpLimits::DEFAULT)));
    shutdown.spawn(serve(Socket::Tcp(listener), listening, service, shutdown.clone()));
    (address, shutdown)
}

fn file(folder: &Path, len: usize) -> String {
    let path = folder.join(len.to_string());
    std::fs::write(&path, bytes(len)).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nghttp_gets_answers_echoes_and_trailers() {
    let (address, _shutdown) = listener().await;
    let folder = tempfile::tempdir().unwrap();
    let url = |path: &str| format!("http://{address}{path}");
    for len in [0, 1, 16_384, 65_536, 1_000_000] {
        let got = run("nghttp", &[&url(&format!("/size/{len}"))]).await.stdout;
        assert!(got == bytes(len), "{len} bytes down, {}", got.len());
        let got = run("nghttp", &["-d", &file(folder.path(), len), &url("/echo")]).await.stdout;
        assert!(got == bytes(len), "{len} bytes up, {}", got.len());
    }
    // Small windows, padding, many streams, and a table of another size.
    let small = ["-w", "10", "-W", "16", "-b", "200", "-c", "100", "-m", "50", "-n"];
    run("nghttp", &[&small[..], &["-d", &file(folder.path(), 300_000), &url("/echo")]].concat()).await;
    let trailers = ["-v", "--trailer=x-sum: 7", "-d", &file(folder.path(), 20_000), &url("/echo")];
    let shown = String::from_utf8_lossy(&run("nghttp", &trailers).await.stdout).into_owned();
    let received = shown.lines().filter(|line| line.contains("recv ") && line.contains("x-sum: 7")).count();
    assert_eq!(received, 1, "{shown}");
}

/// Runs h2load, and checks that each of its requests got its answer. Returns its figures.
async fn load(requests: usize, arguments: &[&str]) -> String {
    let requests = requests.to_string();
    let shown = run("h2load", &[&["-n", &requests], arguments].concat()).await.stdout;
    let shown = String::from_utf8_lossy(&shown);
    let line = |begin: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("{shown}"))
    };
    let succeeded = format!(
        " {requests} total, {requests} started, {requests} done, {requests} succeeded, 0 failed, 0 errored, 0 timeout"
    );
    assert_eq!(line("requests:"), succeeded);
    assert_eq!(line("status codes:"), format!(" {requests} 2xx, 0 3xx, 0 4xx, 0 5xx"));
    format!("h2load {}:{}", arguments.join(" "), line("finished in"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2load_gets_every_answer_on_many_streams_with_bodies_up_and_down() {
    let (address, _shutdown) = listener().await;
    let folder = tempfile::tempdir().unwrap();
    let url = |path: &str| format!("http://{address}{path}");
    let (body, small_body) = (file(folder.path(), 20_000), file(folder.path(), 9_000));
    let (root, down, echo) = (url("/"), url("/size/20000"), url("/echo"));
    for (requests, arguments) in [
        (20_000, &["-c", "10", "-m", "32", &root][..]),
        (2_000, &["-c", "10", "-m", "32", &down]),
        (2_000, &["-c", "10", "-m", "32", "-d", &body, &echo]),
        (500, &["-c", "5", "-m", "100", "-w", "12", "-W", "16", "-d", &small_body, &echo]),
        // More streams than the listener allows: nghttp2 waits.
        (2_000, &["-c", "2", "-m", "1000", &root]),
    ] {
        eprintln!("{}", load(requests, arguments).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_gets_answers_and_sends_bodies() {
    let (address, _shutdown) = listener().await;
    let folder = tempfile::tempdir().unwrap();
    let (url, large) = (|path: &str| format!("http://{address}{path}"), file(folder.path(), 3_000_000));
    let prior = ["-s", "-S", "-f", "--http2-prior-knowledge"];
    let curl = async |arguments: &[&str]| run("curl", &[&prior[..], arguments].concat()).await.stdout;
    assert_eq!(curl(&["-w", "%{http_version}", &url("/")]).await, b"hello2");
    assert!(curl(&[&url("/size/3000000")]).await == bytes(3_000_000));
    assert!(curl(&["-T", &large, &url("/echo")]).await == bytes(3_000_000));
    assert!(curl(&["--data-binary", &format!("@{large}"), &url("/echo")]).await == bytes(3_000_000));
    let head = String::from_utf8(curl(&["-I", &url("/size/77")]).await).unwrap();
    assert!(head.contains("HTTP/2 200") && head.contains("content-length: 77"), "{head}");
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Running {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Begins nghttpd with the files of a folder.
async fn nghttpd(folder: &Path, arguments: &[&str]) -> (Running, SocketAddr) {
    // The port is free when it is looked up; nghttpd has no way to say which one it got.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut command = Command::new(program("nghttpd"));
    command.args(["--no-tls", "-a", "127.0.0.1", "-d"]).arg(folder).args(arguments).arg(address.port().to_string());
    let running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let since = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "nghttpd does not listen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (running, address)
}

const CONFIG: Config = Config {
    streams_max: 0,
    stream_window: 100_000,
    connection_window: 200_000,
    fields: FieldLimits { bytes_max: 32 * 1024, fields_max: 100 },
    pending_max: 64 * 1024,
    connect_protocol: false,
};

async fn client(address: SocketAddr) -> (Sender, tokio::task::JoinHandle<String>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, drive) = connect(stream, CONFIG, Some(Duration::from_secs(5)));
    (sender, tokio::spawn(async move { format!("{:?}", drive.await) }))
}

type RequestData = UnsyncBoxBody<Bytes, Infallible>;

/// Sends a request. Returns the head of its answer, the data and the trailers.
async fn ask(
    sender: &Sender,
    method: Method,
    path: &str,
    body: Option<RequestData>,
) -> (ResponseHead, Vec<u8>, Option<HeaderMap>) {
    let uri = format!("http://a.example{path}").parse().unwrap();
    let head = RequestHead { method, uri, headers: HeaderMap::new(), protocol: None };
    let mut exchange = sender.send(head, body).await.map_err(|(err, _)| err).unwrap();
    let head = poll_fn(|cx| exchange.poll_response(cx)).await.unwrap();
    let (mut data, mut trailers) = (Vec::new(), None);
    while let Some(piece) = poll_fn(|cx| exchange.poll_piece(cx)).await {
        match piece.unwrap().into_data() {
            Ok(part) => data.extend_from_slice(&part),
            Err(piece) => trailers = piece.into_trailers().ok(),
        }
    }
    (head, data, trailers)
}

fn upload(len: usize) -> Option<RequestData> {
    Some(Full::new(bytes(len).into()).boxed_unsync())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_gets_files_of_nghttpd_of_any_size_on_many_streams() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [0, 1, 9, 16_383, 16_384, 16_385, 65_535, 300_000, 2_000_000];
    sizes.iter().for_each(|len| drop(file(folder.path(), *len)));
    // Padding, small windows, another table, few streams, trailers, and a length that is not announced.
    let manners: [&[&str]; 4] = [
        &[],
        &["-b", "255", "-w", "8", "-c", "0", "--encoder-header-table-size=0"],
        &["-m", "3", "-c", "100000", "--trailer=x-sum: 7"],
        &["--no-content-length", "-n", "2"],
    ];
    for manner in manners {
        let (_nghttpd, address) = nghttpd(folder.path(), manner).await;
        let (sender, driving) = client(address).await;
        // Before the server's settings, more requests than it allows may be sent; it refuses these.
        ask(&sender, Method::GET, "/1", None).await;
        let gets = sizes.into_iter().cycle().take(60).map(|len| {
            let sender = sender.clone();
            tokio::spawn(async move {
                let (head, data, trailers) = ask(&sender, Method::GET, &format!("/{len}"), None).await;
                assert_eq!(head.status, StatusCode::OK, "{len}");
                assert!(data == bytes(len), "{len}: {} bytes", data.len());
                trailers
            })
        });
        for get in gets.collect::<Vec<_>>() {
            let trailers = get.await.unwrap();
            let expected =
                manner.iter().any(|argument| argument.contains("trailer")).then(|| HeaderValue::from_static("7"));
            assert_eq!(trailers.as_ref().and_then(|trailers| trailers.get("x-sum")), expected.as_ref(), "{manner:?}");
        }
        assert_eq!(ask(&sender, Method::GET, "/none", None).await.0.status, StatusCode::NOT_FOUND);
        drop(sender);
        assert_eq!(driving.await.unwrap(), "Ok(())");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_uploads_to_nghttpd_and_reads_the_echo() {
    let folder = tempfile::tempdir().unwrap();
    for manner in [&["--echo-upload"][..], &["--echo-upload", "-w", "10", "-W", "16", "-b", "100"]] {
        let (_nghttpd, address) = nghttpd(folder.path(), manner).await;
        let (sender, _driving) = client(address).await;
        let posts = [0, 1, 16_384, 70_000, 1_000_000].iter().cycle().take(20).map(|len| {
            let sender = sender.clone();
            tokio::spawn(async move {
                let (head, data, _) = ask(&sender, Method::POST, "/", upload(*len)).await;
                assert_eq!(head.status, StatusCode::OK);
                // Without data, nghttpd has nothing to echo.
                assert!(*len == 0 || data == bytes(*len), "{len}: {} bytes", data.len());
            })
        });
        for post in posts.collect::<Vec<_>>() {
            post.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_of_nghttpd_is_whole_and_its_end_ends_the_client() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), 100_000);
    let (mut nghttpd, address) = nghttpd(folder.path(), &["--early-response"]).await;
    let (sender, driving) = client(address).await;
    for _ in 0..20 {
        let (head, data, _) = ask(&sender, Method::POST, "/100000", upload(2_000_000)).await;
        assert!(head.status == StatusCode::OK && data == bytes(100_000));
    }
    nghttpd.end();
    let ended = tokio::time::timeout(Duration::from_secs(10), driving).await;
    assert!(ended.is_ok(), "the client goes on without its server");
    assert!(sender.is_closed());
}
