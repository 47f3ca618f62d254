//! Connections from end to end over TCP, with services whose behaviour no test of the whole program can produce.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::{Body, BodyError, HttpLimits, Interim, Listening, RequestBody, TakeOver, full, serve};
use crate::listener::Socket;
use crate::shutdown::Shutdown;

pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    shutdown: Shutdown,
    pub(super) listening: Arc<Listening>,
}

pub(super) async fn served<F, A>(limits: HttpLimits, answer: F) -> TestServer
where
    F: Fn(Request<RequestBody>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", limits)));
    shutdown.spawn(serve(Socket::Tcp(listener), listening.clone(), service, shutdown.clone()));
    TestServer { address, shutdown, listening }
}

impl TestServer {
    pub(super) async fn open(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends everything, and reads until the end.
    async fn ask(&self, sent: &str) -> Result<String, std::io::ErrorKind> {
        let mut stream = self.open().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let done = timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("an end");
        done.map(|_| String::from_utf8_lossy(&read).into_owned()).map_err(|err| err.kind())
    }
}

pub(super) async fn until(what: &str, is: impl Fn() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A body of these frames, then its end, an error, or nothing more for ever.
struct Frames(Vec<Frame<Bytes>>, Option<Result<(), ()>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.0.is_empty() {
            return Poll::Ready(Some(Ok(self.0.remove(0))));
        }
        match self.1 {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(())) => Poll::Ready(Some(Err("broken".into()))),
            None => Poll::Pending,
        }
    }
}

fn frames(texts: &[&'static str], end: Option<Result<(), ()>>) -> Body {
    Frames(texts.iter().map(|text| Frame::data(Bytes::from_static(text.as_bytes()))).collect(), end).boxed_unsync()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[tokio::test]
async fn a_body_of_unknown_length_is_chunked_with_its_trailers() {
    let server = served(HttpLimits::default(), |_| async {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let mut all: Vec<_> = ["ab", "", "c"].map(|text| Frame::data(Bytes::from_static(text.as_bytes()))).into();
        all.push(Frame::trailers(trailers));
        Response::new(Frames(all, Some(Ok(()))).boxed_unsync())
    })
    .await;
    let answer = server.ask(GET).await.unwrap();
    assert!(answer.contains("\r\ntransfer-encoding: chunked\r\n"), "{answer}");
    assert_eq!(body_of(&answer), "2\r\nab\r\n1\r\nc\r\n0\r\nx-sum: 1\r\n\r\n");
    // HTTP/1.0 has no chunks: the connection's end is the body's.
    let answer = server.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
    assert!(!answer.contains("chunked") && answer.contains("connection: close"), "{answer}");
    assert_eq!(body_of(&answer), "abc");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_never_a_whole_one() {
    let server = served(HttpLimits::default(), |request| async move {
        let mut response = Response::new(frames(&["abc"], Some(Err(()))));
        if request.uri().path() == "/length" {
            response.headers_mut().insert("content-length", 9.into());
        }
        if request.uri().path() == "/short" {
            *response.body_mut() = frames(&["abc"], Some(Ok(())));
            response.headers_mut().insert("content-length", 9.into());
        }
        response
    })
    .await;
    for path in ["/length", "/short"] {
        let answer = server.ask(&GET.replace(" / ", &format!(" {path} "))).await.unwrap();
        assert!(answer.contains("content-length: 9") && body_of(&answer) == "abc", "{answer}");
    }
    let answer = server.ask(GET).await.unwrap();
    assert!(answer.contains("chunked") && !body_of(&answer).contains("0\r\n"), "{answer}");
    // Where the end of the connection would be the end of the body, it is reset.
    let reset = server.ask("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(reset, Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn answers_without_a_body_have_only_the_allowed_content_length() {
    let server = served(HttpLimits::default(), |request| async move {
        let mut response = Response::new(full(""));
        match request.uri().path() {
            "/get" => *response.body_mut() = full("abc"),
            "/announced" => drop(response.headers_mut().insert("content-length", 7.into())),
            "/204" => {
                *response.status_mut() = StatusCode::NO_CONTENT;
                response.headers_mut().insert("content-length", 0.into());
            }
            _ => *response.status_mut() = StatusCode::NOT_MODIFIED,
        }
        response
    })
    .await;
    for (method, path, length) in [
        ("HEAD", "/get", Some("3")),
        ("HEAD", "/announced", Some("7")),
        ("GET", "/204", None),
        ("GET", "/304", None),
        ("HEAD", "/304", None),
    ] {
        let answer = server.ask(&GET.replace("GET / ", &format!("{method} {path} "))).await.unwrap();
        let said = answer.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!((said, body_of(&answer)), (length, ""), "{method} {path}");
    }
}

#[tokio::test]
async fn a_disconnected_client_cancels_its_request() {
    struct Working(Arc<AtomicUsize>);
    impl Drop for Working {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let working = Arc::new(AtomicUsize::new(0));
    let count = working.clone();
    let server = served(HttpLimits::default(), move |request| {
        let count = count.clone();
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let working = Working(count);
            if request.uri().path() == "/body" {
                let body = frames(&["abc"], None).map_frame(move |frame| {
                    let _kept = &working;
                    frame
                });
                return Response::new(body.boxed_unsync());
            }
            std::future::pending::<()>().await;
            drop(working);
            Response::new(full(""))
        }
    })
    .await;
    for sent in [
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /body HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na",
    ] {
        let mut stream = server.open().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        until("it is worked on", || working.load(Ordering::SeqCst) == 1).await;
        drop(stream);
        until("the work is dropped", || working.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn interim_answers_come_first_and_only_to_clients_that_support_them() {
    let server = served(HttpLimits::default(), |request| async move {
        if let Some(interim) = request.extensions().get::<Interim>() {
            let mut headers = HeaderMap::new();
            headers.insert("link", "</a>".parse().unwrap());
            interim.send(StatusCode::EARLY_HINTS, headers);
            // Nobody waits for the answer.
            interim.send(StatusCode::CONTINUE, HeaderMap::new());
            sleep(Duration::from_millis(20)).await;
        }
        Response::new(full("x"))
    })
    .await;
    let answer = server.ask(GET).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(server.ask("GET / HTTP/1.0\r\n\r\n").await.unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_connection_is_taken_with_what_was_sent_ahead() {
    let server = served(HttpLimits::default(), |request| async move {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("connection", "upgrade".parse().unwrap());
        if request.uri().path() == "/" {
            response.extensions_mut().insert(TakeOver::new(|mut io| async move {
                let mut read = [0; 5];
                io.read_exact(&mut read).await.unwrap();
                io.write_all(&read).await.unwrap();
                io.shutdown().await.unwrap();
            }));
        }
        response
    })
    .await;
    let asked = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nahead";
    let answer = server.ask(asked).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\r\nahead"), "{answer}");
    // Without a taker there is nothing to switch to; HTTP/1.0 has no switch.
    assert!(server.ask(&asked.replace(" / ", " /x ")).await.unwrap().starts_with("HTTP/1.1 500 "));
    assert!(server.ask("GET / HTTP/1.0\r\n\r\n").await.unwrap().starts_with("HTTP/1.1 500 "));
}

#[tokio::test]
async fn closing_a_connection_ends_its_tunnel_and_a_shutdown_lets_it_go_on() {
    let server = served(HttpLimits::default(), |_| async {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.extensions_mut().insert(TakeOver::new(|mut io| async move {
            let mut byte = [0];
            while io.read_exact(&mut byte).await.is_ok() && io.write_all(&byte).await.is_ok() {}
        }));
        response
    })
    .await;
    let mut stream = server.open().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").await.unwrap();
    let mut head = [0; 36];
    timeout(PATIENCE, stream.read_exact(&mut head)).await.unwrap().unwrap();
    server.shutdown.begin();
    sleep(Duration::from_millis(100)).await;
    stream.write_all(b"x").await.unwrap();
    assert_eq!(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap(), b'x');
    let [connection] = &server.listening.connections.list(2)[..] else { panic!("one connection") };
    assert!(server.listening.connections.close(connection.id));
    assert!(timeout(PATIENCE, stream.read_u8()).await.unwrap().is_err(), "the tunnel goes on");
}

#[tokio::test]
async fn an_echo_sends_100_continue_before_its_answer() {
    let server = served(HttpLimits::default(), |request| async {
        Response::new(request.into_body().map_err(Into::into).boxed_unsync())
    })
    .await;
    let mut stream = server.open().await;
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_body_that_outlives_its_request_reads_nothing_of_the_next() {
    let (sender, mut bodies) = tokio::sync::mpsc::unbounded_channel();
    let server = served(HttpLimits::default(), move |request| {
        sender.send(request.into_body()).unwrap();
        async { Response::new(full("x")) }
    })
    .await;
    let mut stream = server.open().await;
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nfirst";
    stream.write_all(post.as_bytes()).await.unwrap();
    let mut kept = bodies.recv().await.unwrap();
    stream.write_all(GET.as_bytes()).await.unwrap();
    let mut answers = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert!(kept.frame().await.is_some_and(|frame| frame.is_err()));
}

#[tokio::test]
async fn stopping_closes_the_idle_and_says_close_to_the_busy() {
    let server = served(HttpLimits::default(), |_| async {
        sleep(Duration::from_millis(300)).await;
        Response::new(full("x"))
    })
    .await;
    let mut idle = server.open().await;
    let mut busy = server.open().await;
    busy.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    until("it is worked on", || server.listening.connections.list(9).iter().any(|info| info.requests == 1)).await;
    assert_eq!(server.listening.connections.open(), 2);
    server.shutdown.begin();
    let (mut nothing, mut answer) = (Vec::new(), String::new());
    timeout(PATIENCE, idle.read_to_end(&mut nothing)).await.unwrap().unwrap();
    timeout(PATIENCE, busy.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(nothing.is_empty() && answer.contains("connection: close"), "{answer}");
    drop((idle, busy));
    assert_eq!(server.shutdown.drain(PATIENCE).await, 0);
    assert_eq!((server.listening.connections.open(), server.listening.connections.accepted()), (0, 2));
}

#[tokio::test]
async fn one_connection_can_be_closed_by_its_number() {
    let server = served(HttpLimits::default(), |_| async { Response::new(full("x")) }).await;
    let (mut one, _other) = (server.open().await, server.open().await);
    until("both are there", || server.listening.connections.open() == 2).await;
    let id = server.listening.connections.list(1)[0].id;
    assert!(server.listening.connections.close(id));
    let mut nothing = Vec::new();
    timeout(PATIENCE, one.read_to_end(&mut nothing)).await.unwrap().unwrap();
    until("its place is free", || server.listening.connections.open() == 1).await;
}

/// Creates an answer without end.
fn endless() -> Body {
    struct Endless;
    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = BodyError;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])))))
        }
    }
    Endless.boxed_unsync()
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let server = served(HttpLimits::default(), |_| async { Response::new(endless()) }).await;
    let mut unread = server.open().await;
    unread.write_all(GET.as_bytes()).await.unwrap();
    until("it is there", || server.listening.connections.open() == 1).await;
    until("it is cut off", || server.listening.connections.open() == 0).await;
}

#[tokio::test]
async fn an_http2_connection_that_is_idle_ends_well() {
    let limits = HttpLimits { idle_timeout: Duration::from_millis(300), ..HttpLimits::default() };
    let server = served(limits, |_| async { Response::new(full("x")) }).await;
    let stream = TokioIo::new(server.open().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), stream).await.unwrap();
    let ended = tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::get("http://h/").body(full("")).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
        sleep(Duration::from_millis(100)).await;
    }
    timeout(PATIENCE, ended).await.expect("it ends").unwrap().expect("by GOAWAY, not by an error");
    assert_eq!(server.listening.connections.accepted(), 1);
}

#[tokio::test]
async fn http2_rejects_a_host_that_differs_from_the_authority() {
    let server = served(HttpLimits::default(), |_| async { Response::new(full("x")) }).await;
    let stream = TokioIo::new(server.open().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    for (host, status) in [("h", 200), ("H", 200), ("other", 400)] {
        let request = Request::get("http://h/").header("host", host).body(full("")).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{host}");
    }
    let many = (0..200).fold(Request::get("http://h/"), |request, n| request.header(format!("x-{n}"), "1"));
    assert_eq!(sender.send_request(many.body(full("")).unwrap()).await.unwrap().status(), 431);
    let head = Request::head("http://h/").body(full("")).unwrap();
    let answer = sender.send_request(head).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "1");
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn http2_requests_carry_no_field_that_http1_could_not() {
    let server = served(HttpLimits::default(), |request: Request<RequestBody>| async move {
        let cookies: Vec<_> = request.headers().get_all("cookie").iter().cloned().collect();
        let body = request.into_body().collect().await.unwrap();
        let trailers: Vec<_> = body.trailers().into_iter().flat_map(HeaderMap::keys).map(ToString::to_string).collect();
        Response::new(full(format!("{cookies:?} {trailers:?}")))
    })
    .await;
    let stream = TokioIo::new(server.open().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    for (target, status) in [("/%C3%A9", 200), ("/\u{e9}", 400), ("/x?\u{e9}", 400)] {
        let mut parts = http::Uri::from_static("http://h/").into_parts();
        parts.path_and_query = Some(target.parse().unwrap());
        let request = Request::get(http::Uri::from_parts(parts).unwrap()).body(full("")).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{target}");
    }
    let two = Request::post("http://h/").header("content-length", "1").header("content-length", "1");
    assert_eq!(sender.send_request(two.body(full("x")).unwrap()).await.unwrap().status(), 400);

    let mut trailers = HeaderMap::new();
    for name in ["x-sum", "host", "content-length", "x-client-cert", "client-cert", "x-forwarded-for", "cookie"] {
        trailers.insert(name, "1".parse().unwrap());
    }
    let frames = vec![Frame::data(Bytes::from_static(b"x")), Frame::trailers(trailers)];
    let request = Request::post("http://h/").header("cookie", "a=1").header("x-a", "1").header("cookie", "b=2");
    let answer = sender.send_request(request.body(Frames(frames, Some(Ok(()))).boxed_unsync()).unwrap()).await.unwrap();
    let told = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(told, r#"["a=1; b=2"] ["x-sum"]"#);
}
