//! HTTP/2 as only a hostile client uses it: frames written by hand, over TCP.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::tests::{PATIENCE, TestServer, served, until};
use super::{HttpLimits, RequestBody, UNREAD_TIME, full};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Encodes the head of a request (RFC 7541): the method by its index, `:scheme` http, `:authority` h, and this target.
fn head(method: u8, target: &str) -> Vec<u8> {
    let len = u8::try_from(target.len()).unwrap();
    [&[0x80 | method, 0x86, 0x41, 1, b'h', 0x04, len], target.as_bytes()].concat()
}

const GET: u8 = 2;

async fn echo(request: Request<RequestBody>) -> Response<super::Body> {
    Response::new(full(request.uri().to_string()))
}

async fn begin(server: &TestServer) -> TcpStream {
    let mut stream = server.open().await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    stream
}

const RST_STREAM: u8 = 3;

/// Returns the first byte of the header block that answers stream 1; `None` if the stream, or the connection, ended without
/// one.
async fn status(server: &TestServer, block: &[u8]) -> Option<u8> {
    let mut stream = begin(server).await;
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, block)).await.unwrap();
    loop {
        let mut start = [0; 9];
        if timeout(PATIENCE, stream.read_exact(&mut start)).await.unwrap().is_err() {
            return None;
        }
        let mut payload = vec![0; usize::from(start[1]) << 8 | usize::from(start[2])];
        stream.read_exact(&mut payload).await.unwrap();
        if start[3] == HEADERS {
            return Some(payload[0]);
        }
        if start[3] == RST_STREAM {
            return None;
        }
    }
}

#[tokio::test]
async fn a_target_that_http1_refuses_is_refused_over_http2() {
    let server = served(HttpLimits::default(), echo).await;
    const OK: u8 = 0x88;
    const BAD_REQUEST: u8 = 0x8c;
    let options = [&[0x02, 7][..], b"OPTIONS", &head(GET, "*")[1..]].concat();
    for (what, block, expected) in [
        ("GET /x?y", head(GET, "/x?y"), OK),
        ("OPTIONS *", options, OK),
        ("GET *", head(GET, "*"), BAD_REQUEST),
        ("GET ?q", head(GET, "?q"), BAD_REQUEST),
        ("POST *", head(3, "*"), BAD_REQUEST),
    ] {
        assert_eq!(status(&server, &block).await, Some(expected), "{what}");
    }
    // The library rejects targets that no URI can hold.
    for target in ["*x", "x", ""] {
        assert_ne!(status(&server, &head(GET, target)).await, Some(OK), "{target}");
    }
}

#[tokio::test]
async fn a_flood_of_any_frame_that_carries_nothing_ends_its_connection_and_no_other() {
    const FLOOD: usize = 20_000;
    let server = served(HttpLimits::default(), echo).await;
    let reset = |number: usize| {
        let stream = u32::try_from(number * 2 + 1).unwrap();
        let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, &head(GET, "/"));
        [request, frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    type Flood = (&'static str, Box<dyn Fn(usize) -> Vec<u8>>);
    let floods: [Flood; 9] = [
        ("PING", Box::new(|_| frame(6, 0, 0, &[0; 8]))),
        ("PING that answers none", Box::new(|_| frame(6, 1, 0, &[7; 8]))),
        ("SETTINGS", Box::new(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]))),
        ("PRIORITY", Box::new(|_| frame(2, 0, 1, &[0, 0, 0, 3, 7]))),
        ("WINDOW_UPDATE", Box::new(|_| frame(8, 0, 0, &[0, 0, 0, 1]))),
        ("unknown", Box::new(|_| frame(0x42, 0, 0, &[0; 16]))),
        ("RST_STREAM", Box::new(reset)),
        (
            "empty DATA",
            Box::new(|number| match number {
                0 => frame(HEADERS, END_HEADERS, 1, &head(3, "/")),
                _ => frame(0, 0, 1, &[]),
            }),
        ),
        (
            "CONTINUATION",
            Box::new(|number| match number {
                0 => frame(HEADERS, END_STREAM, 1, &head(GET, "/")),
                _ => frame(9, 0, 1, &[]),
            }),
        ),
    ];
    for (name, next) in floods {
        let (mut read, mut write) = begin(&server).await.into_split();
        // The client reads its input, so that unread data does not stop the flood.
        let reading = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
        let mut sent = 0;
        let flooding = async {
            while sent < FLOOD && !reading.is_finished() {
                let frames: Vec<u8> = (sent..sent + 100).flat_map(&next).collect();
                if write.write_all(&frames).await.is_err() {
                    return;
                }
                sent += 100;
            }
        };
        timeout(PATIENCE, flooding).await.unwrap();
        let ended = timeout(PATIENCE / 4, reading).await.is_ok();
        assert!(ended, "{name}: {sent} frames, and the connection goes on");
    }
    assert_eq!(status(&server, &head(GET, "/")).await, Some(0x88));
    until("the floods' places are free", || server.listening.connections.open() == 0).await;
}

#[tokio::test]
async fn trailers_follow_an_answer_of_no_bytes() {
    let server = served(HttpLimits::default(), |_| async {
        let trailers = http::HeaderMap::from_iter([(http::header::ETAG, "t".parse().unwrap())]);
        let body = http_body_util::Empty::new().with_trailers(std::future::ready(Some(Ok(trailers))));
        let body = body.map_err(|never: std::convert::Infallible| match never {}).boxed_unsync();
        Response::builder().header("content-length", "0").body(body).unwrap()
    })
    .await;
    let mut stream = begin(&server).await;
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head(GET, "/"))).await.unwrap();
    let mut flags = Vec::new();
    while flags.len() < 2 {
        let mut start = [0; 9];
        timeout(PATIENCE, stream.read_exact(&mut start)).await.unwrap().unwrap();
        let mut payload = vec![0; usize::from(start[1]) << 8 | usize::from(start[2])];
        stream.read_exact(&mut payload).await.unwrap();
        if start[3] == HEADERS {
            flags.push(start[4]);
        }
    }
    assert_eq!(flags, [END_HEADERS, END_HEADERS | END_STREAM]);
}

#[tokio::test]
async fn a_busy_client_whose_reads_always_end_within_a_frame_is_no_slow_one() {
    let limits = HttpLimits { header_timeout: std::time::Duration::from_millis(400), ..HttpLimits::default() };
    let server = served(limits, echo).await;
    let (mut read, mut write) = begin(&server).await.into_split();
    let reading = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
    let since = std::time::Instant::now();
    let mut rest = Vec::new();
    for number in 0.. {
        if since.elapsed() > std::time::Duration::from_millis(1500) {
            break;
        }
        rest.extend(frame(HEADERS, END_STREAM | END_HEADERS, number * 2 + 1, &head(GET, "/")));
        let cut = rest.len() - 5;
        write.write_all(&rest[..cut]).await.expect("the connection goes on");
        rest.drain(..cut);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(!reading.is_finished(), "the connection has ended");
}

/// A client that reads all frames and answers pings, and opens windows only by hand.
struct Reader {
    stream: TcpStream,
    pings: usize,
}

impl Reader {
    /// Opens a connection whose streams have no window, and sends a request of each target on streams 1, 3 and so on.
    async fn begin(server: &TestServer, targets: &[&str]) -> Reader {
        let mut stream = server.open().await;
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()).await.unwrap();
        for (id, target) in (1..).step_by(2).zip(targets) {
            stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, id, &head(GET, target))).await.unwrap();
        }
        Reader { stream, pings: 0 }
    }

    /// Returns kind, stream and payload of the next frame that belongs to a stream.
    async fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        loop {
            let mut start = [0; 9];
            timeout(PATIENCE, self.stream.read_exact(&mut start)).await.expect("a frame").ok()?;
            let mut payload = vec![0; usize::from(start[1]) << 8 | usize::from(start[2])];
            self.stream.read_exact(&mut payload).await.ok()?;
            match start[3] {
                6 => {
                    self.pings += 1;
                    self.stream.write_all(&frame(6, 1, 0, &payload)).await.unwrap();
                }
                kind if start[8] > 0 => return Some((kind, u32::from(start[8]), payload)),
                _ => {}
            }
        }
    }

    async fn update(&mut self, stream: u32, by: u32) {
        self.stream.write_all(&frame(8, 0, stream, &by.to_be_bytes())).await.unwrap();
    }
}

/// A body that never ends, and is counted while it is held.
struct Endless(Arc<AtomicUsize>);

impl Endless {
    fn new(held: &Arc<AtomicUsize>) -> Endless {
        held.fetch_add(1, Ordering::Relaxed);
        Endless(held.clone())
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = super::BodyError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 10_000])))))
    }
}

/// Serves bodies that never end. Returns the number of those that are held.
async fn endless() -> (TestServer, Arc<AtomicUsize>) {
    let held = Arc::new(AtomicUsize::new(0));
    let bodies = held.clone();
    // Pings are due during the wait.
    let limits = HttpLimits { header_timeout: UNREAD_TIME / 3, ..HttpLimits::default() };
    let server = served(limits, move |_| {
        let body = Endless::new(&bodies).boxed_unsync();
        async { Response::new(body) }
    });
    (server.await, held)
}

const CANCEL: &[u8] = &[0, 0, 0, 8];
const WINDOW: u32 = 1_000_000;

#[tokio::test]
async fn a_stream_that_its_client_does_not_read_is_reset_while_another_one_is_served() {
    let (server, held) = endless().await;
    let mut client = Reader::begin(&server, &["/unread", "/read"]).await;
    client.update(0, WINDOW).await;
    client.update(3, WINDOW).await;
    let since = std::time::Instant::now();
    let (mut read, mut given) = (0, 0);
    loop {
        match client.next().await.expect("the connection goes on") {
            (HEADERS, ..) => {}
            (0, 3, payload) => {
                read += payload.len();
                given += u32::try_from(payload.len()).unwrap();
                tokio::time::sleep(UNREAD_TIME / 100).await;
                if given > WINDOW / 4 {
                    client.update(0, given).await;
                    client.update(3, given).await;
                    given = 0;
                }
            }
            (RST_STREAM, 1, payload) => {
                assert_eq!(payload, CANCEL);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let took = since.elapsed();
    assert!(took >= UNREAD_TIME * 3 / 4, "{took:?} of {UNREAD_TIME:?}");
    assert!(read > 0, "the other stream is served");
    until("the unread body is gone, and the other one is not", || held.load(Ordering::Relaxed) == 1).await;
    assert!(matches!(client.next().await, Some((0, 3, _))), "the other stream goes on");
}

#[tokio::test]
async fn a_stream_whose_client_takes_a_byte_now_and_then_is_reset_and_its_body_is_gone() {
    let (server, held) = endless().await;
    let mut client = Reader::begin(&server, &["/"]).await;
    let mut read = 0;
    client.update(1, 1).await;
    loop {
        match client.next().await.expect("the connection goes on") {
            (HEADERS, ..) => {}
            (0, 1, payload) => {
                read += payload.len();
                tokio::time::sleep(UNREAD_TIME / 50).await;
                client.update(1, 1).await;
            }
            (RST_STREAM, 1, payload) => {
                assert_eq!(payload, CANCEL);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(read > 0 && read < super::h2::UNREAD_LEN, "{read} bytes");
    until("the body is gone", || held.load(Ordering::Relaxed) == 0).await;
}

#[tokio::test]
async fn an_idle_connection_that_has_released_memory_answers_as_before() {
    let server = served(HttpLimits { header_timeout: UNREAD_TIME / 3, ..HttpLimits::default() }, echo).await;
    let mut stream = begin(&server).await;
    // The second head takes `:authority` from the table.
    for (id, block) in [(1, head(GET, "/")), (3, vec![0x80 | GET, 0x86, 0x84, 0xbe])] {
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, id, &block)).await.unwrap();
        let mut status = None;
        loop {
            let mut start = [0; 9];
            timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("a frame").unwrap();
            let mut payload = vec![0; usize::from(start[1]) << 8 | usize::from(start[2])];
            stream.read_exact(&mut payload).await.unwrap();
            match start[3] {
                HEADERS => status = Some((u32::from(start[8]), payload[0])),
                // It comes after a time of silence, with the release of memory.
                6 if start[4] == 0 => {
                    stream.write_all(&frame(6, 1, 0, &payload)).await.unwrap();
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(status, Some((id, 0x88)));
    }
}

#[tokio::test]
async fn a_client_that_answers_pings_and_never_opens_its_connection_window_is_disconnected_in_time() {
    let (server, held) = endless().await;
    let mut client = Reader::begin(&server, &["/"]).await;
    client.update(1, WINDOW).await;
    let since = std::time::Instant::now();
    while let Some((kind, _, payload)) = client.next().await {
        assert!(kind != RST_STREAM || payload != CANCEL, "the stream ends with its connection");
    }
    let took = since.elapsed();
    assert!(client.pings > 0, "the server looks whether the client is there");
    assert!(took >= UNREAD_TIME * 3 / 4, "{took:?} of {UNREAD_TIME:?}");
    until("its place is free", || server.listening.connections.open() == 0).await;
    assert_eq!(held.load(Ordering::Relaxed), 0);
}
