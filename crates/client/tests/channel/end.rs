//! Data that streams have sent arrives when the sender ends the channel, however slowly the other side reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use sealway_client::channel::{self, Channel, DirectInfo, Hello, Options};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Interval, MissedTickBehavior};

use crate::SUITES;

const LONG: Duration = Duration::from_secs(60);
/// Bytes that fit into a stream's window: the sender has finished before anything is read.
const LEN: usize = 200 * 1024;
/// Bytes that the slow side reads at once.
const BITE: usize = 4 * 1024;

/// A connection that reads small pieces once it is switched to slow. Writes pass at once.
struct Slow {
    io: TcpStream,
    is_slow: Arc<AtomicBool>,
    bites: Interval,
}

impl AsyncRead for Slow {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_slow.load(Ordering::SeqCst) {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        std::task::ready!(self.bites.poll_tick(cx));
        let mut bite = [0; BITE];
        let mut into = ReadBuf::new(&mut bite[..BITE.min(buf.remaining())]);
        let polled = Pin::new(&mut self.io).poll_read(cx, &mut into);
        buf.put_slice(into.filled());
        polled
    }
}

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

fn info(ws_url: String, suite: u16) -> DirectInfo {
    #[expect(clippy::disallowed_methods, reason = "a grant's end is a time of day")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (channel_id, init_exp_s) = ("a channel".into(), now as i64 + 60);
    DirectInfo { ws_url, channel_id, psk: [7; 32].into(), default_suite: suite, init_exp_s }
}

/// Two ends over loopback. The kernel buffers little between the server and the client, and the flag makes the client
/// slow: it reads one bite in each interval.
async fn pair(suite: u16, every: Duration, is_slow: Arc<AtomicBool>) -> (Channel, Channel) {
    let listener = TcpSocket::new_v4().unwrap();
    listener.set_send_buffer_size(64 * 1024).unwrap();
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(1).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let address = listener.local_addr().unwrap();
    let io = socket.connect(address).await.unwrap();
    let mut bites = tokio::time::interval(every);
    bites.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let info = info(format!("ws://{address}/ws"), suite);
    let (options, theirs) = (Options::default(), info.clone());
    let accepting = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        channel::accept_direct(stream, &theirs, &Options::default()).await.unwrap()
    });
    let client = channel::connect_direct_on(Slow { io, is_slow, bites }, &info, &options, |_| ()).await.unwrap();
    (client, accepting.await.unwrap())
}

/// The server sends and ends the channel. The client reads slowly, and writes something that the closing server does
/// not read.
async fn arrives(suite: u16, every: Duration) {
    let is_slow = Arc::new(AtomicBool::new(false));
    let (client, server) = pair(suite, every, is_slow.clone()).await;
    let mut stream = client.open(&Hello::new("take").unwrap()).await.unwrap();
    let mut sending = server.accept().await.unwrap().stream;
    is_slow.store(true, Ordering::SeqCst);
    sending.write_all(&[1; LEN]).await.unwrap();
    sending.shutdown().await.unwrap();
    let ending = tokio::spawn(async move { server.close(0, "enough").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _more = client.open(&Hello::new("late").unwrap()).await;
    let mut got = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut got)).await;
    assert!(got.len() == LEN, "suite {suite}: {} of {LEN} bytes came, and then {read:?}", got.len());
    tokio::time::timeout(LONG, ending).await.expect("ending has an end").unwrap();
    let over = tokio::time::timeout(LONG, client.over()).await.unwrap();
    assert!(over.code == "ended" && over.text.contains("enough"), "suite {suite}: {over}");
}

#[tokio::test]
async fn all_that_was_sent_arrives_at_a_peer_that_speaks_while_the_sender_ends() {
    for suite in SUITES {
        arrives(suite, Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_peer_may_take_longer_than_a_silent_one_would_be_waited_for() {
    // 50 bites take 10 s.
    arrives(0x100, Duration::from_millis(200)).await;
}

/// Two ends, and the task that carries bytes between them. Dropping the task ends both connections.
async fn pair_on_a_line(suite: u16) -> (Channel, Channel, tokio::task::JoinHandle<()>) {
    let (near, mut left) = tokio::io::duplex(64 * 1024);
    let (far, mut right) = tokio::io::duplex(64 * 1024);
    let line = tokio::spawn(async move {
        let _ = tokio::io::copy_bidirectional(&mut left, &mut right).await;
    });
    let info = info("ws://127.0.0.1:1/ws".into(), suite);
    let (options, theirs) = (Options::default(), info.clone());
    let accepting = tokio::spawn(async move { channel::accept_direct(far, &theirs, &Options::default()).await });
    let client = channel::connect_direct_on(near, &info, &options, |_| ()).await.unwrap();
    (client, accepting.await.unwrap().unwrap(), line)
}

#[tokio::test]
async fn a_stream_whose_channel_is_lost_breaks_off_with_the_reason_and_does_not_end() {
    for suite in SUITES {
        for has_finished in [false, true] {
            let (client, server, line) = pair_on_a_line(suite).await;
            let mut stream = client.open(&Hello::new("lost").unwrap()).await.unwrap();
            let mut other = server.accept().await.unwrap().stream;
            other.write_all(b"the first half").await.unwrap();
            stream.read_exact(&mut [0; 14]).await.unwrap();
            if has_finished {
                stream.shutdown().await.unwrap();
            }
            line.abort();
            let read = tokio::time::timeout(LONG, stream.read_u8()).await.unwrap().unwrap_err();
            assert_eq!(read.kind(), io::ErrorKind::ConnectionReset, "suite {suite}, finished {has_finished}: {read}");
            let over = client.over().await;
            assert!(read.to_string().contains(over.code.as_ref()), "suite {suite}: {read}, and not {over}");
            if !has_finished {
                let written = stream.write_all(b"more").await.unwrap_err();
                assert_eq!(written.kind(), io::ErrorKind::ConnectionReset, "suite {suite}: {written}");
                stream.shutdown().await.expect_err("what was not sent has no end");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_unfinished_is_reset_even_where_the_peer_has_finished() {
    for suite in SUITES {
        for peer_finishes in [false, true] {
            let (client, server) = pair(suite, Duration::from_millis(1), Arc::default()).await;
            let mut stream = client.open(&Hello::new("dropped").unwrap()).await.unwrap();
            let mut other = server.accept().await.unwrap().stream;
            if peer_finishes {
                other.shutdown().await.unwrap();
                assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the peer's end is one");
            }
            stream.write_all(b"the first half").await.unwrap();
            other.read_exact(&mut [0; 14]).await.unwrap();
            drop(stream);
            let read = tokio::time::timeout(LONG, other.read_u8()).await.unwrap().unwrap_err();
            assert_eq!(read.kind(), io::ErrorKind::ConnectionReset, "suite {suite}, peer finishes {peer_finishes}");
        }
    }
}
