//! The driver of connections to a server, against a server of this engine.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::tests::{CONFIG, post};
use super::{Config, Connection, PREFACE, Role};

/// A transport that flushes nothing until it has been read from often enough, as TLS does while the peer does not read.
struct Flushing<IO> {
    io: IO,
    reads_left: u32,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Flushing<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        std::task::ready!(Pin::new(&mut self.io).poll_read(cx, read))?;
        self.reads_left = self.reads_left.saturating_sub(1);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Flushing<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.reads_left > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Serves a connection of this engine: each request is answered with 200 as soon as it has arrived.
async fn answering(mut io: DuplexStream, config: Config) {
    use tokio::io::AsyncReadExt;
    let (mut server, mut input) = (Connection::new(Role::Server, config), BytesMut::new());
    loop {
        std::future::poll_fn(|cx| server.poll_write(&mut io, cx)).await.unwrap();
        if io.read_buf(&mut input).await.unwrap() == 0 {
            return;
        }
        server.receive(&mut input, Duration::ZERO).unwrap();
        while let Some(arrival) = server.next_request() {
            server.respond(arrival.stream, StatusCode::OK, &HeaderMap::new(), true);
        }
    }
}

type NoBody = http_body_util::Empty<Bytes>;

#[tokio::test]
async fn a_client_reads_while_the_transport_cannot_flush() {
    let (near, far) = tokio::io::duplex(100_000);
    let (sender, drive) = super::connect(Flushing { io: near, reads_left: 2 }, CONFIG, None);
    let _serving = tokio::spawn(answering(far, CONFIG));
    let _driving = tokio::spawn(drive);
    let talk = async {
        let mut exchange = sender.send(post("/"), None::<NoBody>).await.unwrap();
        std::future::poll_fn(|cx| exchange.poll_response(cx)).await.unwrap().status
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), talk).await.unwrap(), 200);
}

#[tokio::test]
async fn a_request_that_gives_up_its_wait_for_a_stream_leaves_the_stream_to_the_next() {
    let (near, far) = tokio::io::duplex(100_000);
    let (sender, drive) = super::connect(near, CONFIG, None);
    let _driving = tokio::spawn(drive);
    let (mut server, mut input) = (Connection::new(Role::Server, Config { streams_max: 1, ..CONFIG }), BytesMut::new());
    let mut far = far;
    std::future::poll_fn(|cx| server.poll_write(&mut far, cx)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let first = sender.send(post("/"), None::<NoBody>).await.unwrap();
    let waits = || {
        let sender = sender.clone();
        tokio::spawn(async move { sender.send(post("/"), None::<NoBody>).await.map(drop).map_err(drop) })
    };
    let gives_up = waits();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let next = waits();
    tokio::time::sleep(Duration::from_millis(20)).await;
    gives_up.abort();
    let _ = gives_up.await;
    let arrival = loop {
        tokio::io::AsyncReadExt::read_buf(&mut far, &mut input).await.unwrap();
        server.receive(&mut input, Duration::ZERO).unwrap();
        if let Some(arrival) = server.next_request() {
            break arrival;
        }
    };
    server.respond(arrival.stream, StatusCode::OK, &HeaderMap::new(), true);
    std::future::poll_fn(|cx| server.poll_write(&mut far, cx)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), next).await.expect("it is sent").unwrap().unwrap();
    drop(first);
}

#[tokio::test]
async fn a_connection_ends_with_whole_frames_however_slowly_they_are_read() {
    let (near, mut far) = tokio::io::duplex(10);
    let (sender, drive) = super::connect(near, CONFIG, None);
    let driving = tokio::spawn(drive);
    drop(sender.send(post("/"), None::<NoBody>).await.unwrap());
    drop(sender);
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut far, &mut bytes).await.unwrap();
    driving.await.unwrap().unwrap();
    let (mut rest, mut kinds) = (bytes.strip_prefix(PREFACE).unwrap(), Vec::new());
    while let Some((head, behind)) = rest.split_first_chunk::<9>() {
        kinds.push(head[3]);
        rest = behind.get(usize::from(head[1]) << 8 | usize::from(head[2])..).expect("a whole frame");
    }
    assert!(rest.is_empty() && kinds.ends_with(&[1, 3, 7]), "{kinds:?}");
}
