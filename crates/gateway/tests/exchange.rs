//! One exchange with a server, byte by byte: interim answers, bodies both ways at once, trailers, back-pressure, tunnels,
//! and the same over HTTP/2.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_gateway::upstream::{
    Protocol, ServerAddress, Target, Upstream, UpstreamIo, UpstreamLimits, UpstreamSettings,
};
use sealway_runtime::http::{Body, BodyError, Interim, full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

const WAIT: Duration = Duration::from_secs(20);

/// A body of frames that the test sends.
struct Fed(mpsc::Receiver<Frame<Bytes>>);

impl HttpBody for Fed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

fn fed() -> (mpsc::Sender<Frame<Bytes>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Fed(receiver).boxed_unsync())
}

async fn listen() -> (TcpListener, Upstream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream(&listener, Protocol::Auto);
    (listener, upstream)
}

fn upstream(listener: &TcpListener, protocol: Protocol) -> Upstream {
    let address = ServerAddress::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let settings = UpstreamSettings { name: "test".into(), protocol, ..UpstreamSettings::default() };
    Upstream::new(Target::Servers(vec![address]), settings)
}

fn post(body: Body) -> Request<Body> {
    Request::post("http://client.example/path?query").body(body).unwrap()
}

/// Reads until the received text ends in `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut chunk = [0; 4096];
        let len = timeout(WAIT, stream.read(&mut chunk)).await.expect(end).unwrap();
        assert!(len > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&chunk[..len]);
    }
    String::from_utf8(seen).unwrap()
}

async fn accept(listener: &TcpListener) -> TcpStream {
    timeout(WAIT, listener.accept()).await.unwrap().unwrap().0
}

async fn text(body: Body) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn head_and_available_body_are_sent_in_one_write() {
    let (listener, upstream) = listen().await;
    let asked = tokio::spawn(async move { upstream.call(post(full("the body"))).await.unwrap() });
    let mut stream = accept(&listener).await;
    let mut seen = vec![0; 4096];
    let len = stream.read(&mut seen).await.unwrap();
    let seen = String::from_utf8_lossy(&seen[..len]).into_owned();
    assert!(seen.starts_with("POST /path?query HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nthe body"), "{seen}");
    assert!(seen.contains("content-length: 8\r\n") && seen.contains("host: 127.0.0.1:"), "{seen}");
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert_eq!(asked.await.unwrap().status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn interim_answers_are_passed_on_and_the_final_one_waited_for() {
    let (listener, upstream) = listen().await;
    let interim = Interim::default();
    let mut request = post(full(""));
    request.extensions_mut().insert(interim.clone());
    let asked = tokio::spawn(async move { upstream.call(request).await.unwrap() });
    let mut stream = accept(&listener).await;
    read_until(&mut stream, "\r\n\r\n").await;
    let hints =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n";
    stream.write_all(hints).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    assert_eq!(text(asked.await.unwrap().into_body()).await, "ok");
    let (status, headers) = interim.next().unwrap();
    assert_eq!((status.as_u16(), headers.len(), headers["link"].to_str().unwrap()), (103, 1, "</x>"));
    assert!(interim.next().is_none());
}

#[tokio::test]
async fn a_body_waits_for_a_100_or_a_second_and_is_not_sent_after_a_refusal() {
    let (listener, upstream) = listen().await;
    let upstream = Arc::new(upstream);
    for (word, refused) in [
        (Some("HTTP/1.1 100 Continue\r\n\r\n"), false),
        (Some("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"), true),
        // Last: after a server ignored `Expect` once, it is not awaited again.
        (None, false),
    ] {
        let mut request = post(full("the body"));
        request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        let caller = upstream.clone();
        let asked = tokio::spawn(async move { caller.call(request).await.unwrap() });
        let mut stream = accept(&listener).await;
        let began = Instant::now();
        assert!(read_until(&mut stream, "\r\n\r\n").await.contains("expect: 100-continue\r\n"));
        let mut byte = [0; 1];
        assert!(timeout(Duration::from_millis(200), stream.read(&mut byte)).await.is_err(), "it does not wait");
        if let Some(word) = word {
            stream.write_all(word.as_bytes()).await.unwrap();
        }
        if refused {
            assert_eq!(asked.await.unwrap().status(), 417);
            assert_eq!(stream.read(&mut byte).await.unwrap(), 0, "what it announced never comes: the connection ends");
            continue;
        }
        assert_eq!(read_until(&mut stream, "body").await, "the body");
        assert_eq!(word.is_none(), began.elapsed() > Duration::from_millis(900));
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        assert_eq!(asked.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn both_bodies_flow_at_once_and_trailers_follow_them() {
    let (listener, upstream) = listen().await;
    let (send, body) = fed();
    let asked = tokio::spawn(async move { upstream.call(post(body)).await.unwrap() });
    let mut stream = accept(&listener).await;
    assert!(read_until(&mut stream, "\r\n\r\n").await.contains("transfer-encoding: chunked"));
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let mut answer = asked.await.unwrap().into_body();
    for chunk in ["one", "second"] {
        // The chunk is sent while the answer is read: reading the answer drives both.
        send.send(Frame::data(Bytes::from(chunk))).await.unwrap();
        let reading = tokio::spawn(async move { (answer.frame().await.unwrap().unwrap(), answer) });
        let framed = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        assert_eq!(read_until(&mut stream, &framed).await, framed);
        stream.write_all(framed.as_bytes()).await.unwrap();
        let (frame, rest) = timeout(WAIT, reading).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), chunk);
        answer = rest;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("1"));
    send.send(Frame::trailers(trailers)).await.unwrap();
    drop(send);
    let reading = tokio::spawn(async move { answer.frame().await.unwrap().unwrap() });
    assert_eq!(read_until(&mut stream, "\r\n\r\n").await, "0\r\nx-sum: 1\r\n\r\n");
    stream.write_all(b"0\r\nX-Sum: 2\r\n\r\n").await.unwrap();
    assert_eq!(reading.await.unwrap().into_trailers().unwrap()["x-sum"], "2");
    // Both are over: the connection is free for the next request.
}

#[tokio::test]
async fn an_answer_before_the_body_is_over_is_passed_on() {
    let (listener, upstream) = listen().await;
    let (upstream, (send, body)) = (Arc::new(upstream), fed());
    let caller = upstream.clone();
    let asked = tokio::spawn(async move { caller.call(post(body)).await.unwrap() });
    let mut stream = accept(&listener).await;
    read_until(&mut stream, "\r\n\r\n").await;
    stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig").await.unwrap();
    let answer = asked.await.unwrap();
    assert_eq!((answer.status().as_u16(), text(answer.into_body()).await.as_str()), (413, "big"));
    // The rest of the body is not read, and the connection is not used again.
    assert!(timeout(WAIT, send.closed()).await.is_ok());
    assert_eq!(timeout(WAIT, stream.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    assert_eq!((upstream.status()[0].in_flight, upstream.status()[0].idle), (0, 0));
}

#[tokio::test]
async fn a_server_that_does_not_read_slows_its_sender() {
    struct Endless(Arc<AtomicUsize>);
    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.fetch_add(64 * 1024, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 64 * 1024])))))
        }
    }
    let (listener, upstream) = listen().await;
    let taken = Arc::new(AtomicUsize::new(0));
    let body = Endless(taken.clone()).boxed_unsync();
    let asked = tokio::spawn(async move { upstream.call(post(body)).await.map(|answer| answer.status()) });
    let stream = accept(&listener).await;
    // The kernel's buffers, and one chunk.
    let mut before = usize::MAX;
    let until = Instant::now() + WAIT;
    while taken.load(Ordering::Relaxed) != before {
        assert!(Instant::now() < until, "it goes on taking");
        before = taken.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(before < 32 * 1024 * 1024, "{before}");
    drop(stream);
    assert!(asked.await.unwrap().is_err());
}

#[tokio::test]
async fn a_switch_of_protocols_gives_the_connection_away() {
    let (listener, upstream) = listen().await;
    let mut request = Request::get("/chat").body(full("")).unwrap();
    request.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
    request.headers_mut().insert("upgrade", HeaderValue::from_static("chat"));
    let asked = tokio::spawn(async move { upstream.call(request).await.unwrap() });
    let mut stream = accept(&listener).await;
    assert!(read_until(&mut stream, "\r\n\r\n").await.contains("upgrade: chat\r\n"));
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\n\r\nfirst ").await.unwrap();
    let answer = asked.await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["upgrade"]), (101, &HeaderValue::from_static("chat")));
    let mut tunnel = answer.extensions().get::<UpstreamIo>().unwrap().take().unwrap();
    stream.write_all(b"words").await.unwrap();
    let mut words = [0; 11];
    tunnel.read_exact(&mut words).await.unwrap();
    assert_eq!(&words, b"first words");
    tunnel.write_all(b"back").await.unwrap();
    assert_eq!(read_until(&mut stream, "back").await, "back");
    drop(tunnel);
    assert_eq!(stream.read(&mut words).await.unwrap(), 0);
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_the_connection() {
    let (listener, upstream) = listen().await;
    let asked = tokio::spawn(async move { upstream.call(post(full("x"))).await.map(|answer| answer.status()) });
    let mut stream = accept(&listener).await;
    read_until(&mut stream, "\r\n\r\nx").await;
    asked.abort();
    assert_eq!(timeout(WAIT, stream.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
}

/// Echoes bodies with their trailers over HTTP/2, and reports the requests.
async fn serve_h2(listener: TcpListener, connections: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::Relaxed);
        let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
            let mut answer = Response::builder();
            for name in ["te", "grpc-timeout", "host"] {
                if let Some(value) = request.headers().get(name) {
                    answer = answer.header(format!("seen-{name}"), value);
                }
            }
            let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            let answer = answer.header("seen-authority", authority).header("seen-path", request.uri().path());
            Ok::<_, Infallible>(answer.body(request.into_body()).unwrap())
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(async move { serving.serve_connection(TokioIo::new(stream), service).await });
    }
}

#[tokio::test]
async fn http_2_shares_a_connection_and_keeps_trailers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Arc::new(upstream(&listener, Protocol::Http2));
    let connections = Arc::new(AtomicUsize::new(0));
    tokio::spawn(serve_h2(listener, connections.clone()));
    let call = |number: usize| {
        let upstream = upstream.clone();
        async move {
            let (send, body) = fed();
            let mut request = post(body);
            request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
            request.headers_mut().insert("connection", HeaderValue::from_static("te"));
            let mut answer = upstream.call(request).await.unwrap();
            assert_eq!(answer.headers()["seen-te"], "trailers");
            assert_eq!(answer.headers()["seen-path"], "/path");
            assert!(answer.headers()["seen-authority"].to_str().unwrap().starts_with("127.0.0.1:"));
            // The answer has begun; the request's body continues.
            send.send(Frame::data(Bytes::from(format!("message {number}")))).await.unwrap();
            let data = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(data, format!("message {number}"));
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from(number));
            send.send(Frame::trailers(trailers)).await.unwrap();
            drop(send);
            let rest = answer.into_body().collect().await.unwrap();
            assert_eq!(rest.trailers().unwrap()["grpc-status"], HeaderValue::from(number));
        }
    };
    call(0).await;
    let calls: Vec<_> = (1..40).map(|number| tokio::spawn(call(number))).collect();
    for call in calls {
        timeout(WAIT, call).await.unwrap().unwrap();
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    assert_eq!(upstream.status()[0].in_flight, 0);
}

#[tokio::test]
async fn a_closed_http_2_connection_is_reopened() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream(&listener, Protocol::Http2);
    let get = || Request::get("/x").body(full("")).unwrap();
    let cut = tokio::spawn(async move {
        for _ in 0..3 {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper::service::service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(full("once")))
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let serving = serving.serve_connection(TokioIo::new(stream), service);
            // Cut some time after the only answer, without notice.
            let _ = timeout(Duration::from_millis(300), serving).await;
        }
    });
    for _ in 0..3 {
        let answer = timeout(WAIT, upstream.call(get())).await.unwrap().unwrap();
        assert_eq!(text(answer.into_body()).await, "once");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    cut.await.unwrap();
}

#[tokio::test]
async fn http_2_without_an_answer_is_slow() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = ServerAddress::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap();
    let limits = UpstreamLimits { response_ms: 400, ..UpstreamLimits::default() };
    let settings = UpstreamSettings { protocol: Protocol::Http2, limits, ..UpstreamSettings::default() };
    let slow = Upstream::new(Target::Servers(vec![server]), settings);
    let get = Request::get("/x").body(full("")).unwrap();
    assert_eq!(slow.call(get).await.unwrap_err().status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn a_server_is_not_late_with_what_the_client_did_not_take() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = ServerAddress::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let limits = UpstreamLimits { idle_ms: 2000, ..UpstreamLimits::default() };
    let upstream =
        Upstream::new(Target::Servers(vec![address]), UpstreamSettings { limits, ..UpstreamSettings::default() });
    let asked = tokio::spawn(async move { upstream.call(post(full(""))).await.unwrap() });
    let mut stream = accept(&listener).await;
    read_until(&mut stream, "\r\n\r\n").await;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na").await.unwrap();
    let mut body = asked.await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
    // The chunk is awaited, and comes.
    let (second, ()) = tokio::join!(body.frame(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(b"b").await.unwrap();
    });
    assert_eq!(second.unwrap().unwrap().into_data().unwrap(), "b");
    // Now the client pauses, and the server sends a moment later.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let (third, ()) = tokio::join!(body.frame(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(b"c").await.unwrap();
    });
    assert_eq!(third.unwrap().unwrap().into_data().unwrap(), "c");
}
