//! Two ends of a channel in one process, over loopback and without a relay: streams, calls, closing, liveness, forwarding.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealway_client::channel::rpc::{CallError, Handlers, Rpc, RpcError};
use sealway_client::channel::{self, Channel, DirectInfo, Hello, Liveness, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::SUITES;

const LONG: Duration = Duration::from_secs(30);

fn info(address: std::net::SocketAddr, suite: u16) -> DirectInfo {
    #[expect(clippy::disallowed_methods, reason = "a grant's end is a time of day")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    DirectInfo {
        ws_url: format!("ws://{address}/ws"),
        channel_id: "a channel".into(),
        psk: [7; 32].into(),
        default_suite: suite,
        init_exp_s: now as i64 + 60,
    }
}

async fn pair_with(suite: u16, client: Options, server: Options) -> (Channel, Channel) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let info = info(listener.local_addr().unwrap(), suite);
    let theirs = info.clone();
    let accepting = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        channel::accept_direct(stream, &theirs, &server).await.unwrap()
    });
    let client = channel::connect_direct(&info, &client, |_| ()).await.unwrap();
    (client, accepting.await.unwrap())
}

async fn pair(suite: u16) -> (Channel, Channel) {
    pair_with(suite, Options::default(), Options::default()).await
}

/// Opens a stream of calls between two ends; `handlers` are the server's.
async fn calls(suite: u16, handlers: Handlers) -> (Rpc, Rpc, (Channel, Channel)) {
    let (client, server) = pair(suite).await;
    let asking = Rpc::open(&client, Handlers::none()).await.unwrap();
    let incoming = server.accept().await.unwrap();
    assert_eq!(incoming.hello, Hello::new(Hello::RPC).unwrap());
    (asking, Rpc::over(incoming.stream, handlers), (client, server))
}

#[tokio::test]
async fn bytes_of_many_streams_arrive_as_they_were_sent() {
    for suite in SUITES {
        let (client, server) = pair(suite).await;
        let server = Arc::new(server);
        let echo = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = echo.accept().await {
                let (mut read, mut write) = tokio::io::split(incoming.stream);
                tokio::spawn(async move {
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
        let mut streams = Vec::new();
        for number in 0..20_u8 {
            let stream = client.open(&Hello::new("echo").unwrap()).await.unwrap();
            streams.push(tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(stream);
                let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8 ^ number).collect();
                let expected = sent.clone();
                let writing = tokio::spawn(async move {
                    write.write_all(&sent).await.unwrap();
                    write.shutdown().await.unwrap();
                });
                let mut back = Vec::new();
                read.read_to_end(&mut back).await.unwrap();
                writing.await.unwrap();
                assert!(back == expected, "stream {number} of suite {suite}: {} bytes came back", back.len());
            }));
        }
        for stream in streams {
            tokio::time::timeout(LONG, stream).await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn streams_are_opened_from_either_side() {
    let (client, server) = pair(0x100).await;
    let mut opened = server.open(&Hello::new("told").unwrap()).await.unwrap();
    opened.write_all(b"from the server").await.unwrap();
    opened.shutdown().await.unwrap();
    let mut incoming = client.accept().await.unwrap();
    assert_eq!(incoming.hello.kind, "told");
    let mut text = String::new();
    incoming.stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "from the server");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_stops_its_writer_and_no_other() {
    let (client, server) = pair(0x100).await;
    let mut stalled = client.open(&Hello::new("stalled").unwrap()).await.unwrap();
    let held = server.accept().await.unwrap();
    let chunk = vec![1; 64 * 1024];
    let mut written = 0;
    // The window is 256 KiB while the peer reads nothing.
    while let Ok(result) = tokio::time::timeout(Duration::from_millis(500), stalled.write_all(&chunk)).await {
        result.unwrap();
        written += chunk.len();
        assert!(written <= 8 * 1024 * 1024, "a writer is never stopped");
    }
    let mut other = client.open(&Hello::new("other").unwrap()).await.unwrap();
    let mut incoming = server.accept().await.unwrap();
    other.write_all(b"x").await.unwrap();
    assert_eq!(tokio::time::timeout(LONG, incoming.stream.read_u8()).await.unwrap().unwrap(), b'x');
    drop(held);
    assert!(tokio::time::timeout(LONG, stalled.write_all(&chunk)).await.unwrap().is_err(), "a reset is heard");
}

#[tokio::test]
async fn a_hundred_calls_at_once_each_get_their_own_answer() {
    for suite in SUITES {
        let at_once = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let (counting, highest) = (at_once.clone(), most.clone());
        let handlers = Handlers::none().on(1, move |called| {
            let (counting, highest) = (counting.clone(), highest.clone());
            async move {
                highest.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Later requests are answered sooner.
                let number = called.payload.as_u64().unwrap();
                tokio::time::sleep(Duration::from_millis(200 - number)).await;
                counting.fetch_sub(1, Ordering::SeqCst);
                Ok(json!({"twice": number * 2}))
            }
        });
        let (asking, _answering, _channels) = calls(suite, handlers).await;
        let calls: Vec<_> = (0..100_u64)
            .map(|number| {
                let asking = asking.clone();
                tokio::spawn(async move { (number, asking.call(1, json!(number)).await.unwrap()) })
            })
            .collect();
        for call in calls {
            let (number, answer) = tokio::time::timeout(LONG, call).await.unwrap().unwrap();
            assert_eq!(answer, json!({"twice": number * 2}));
        }
        assert!(most.load(Ordering::SeqCst) > 50, "only {} at once", most.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_call_over_its_time_ends_at_both_sides() {
    let ended = Arc::new(AtomicUsize::new(0));
    struct EndCounter(Arc<AtomicUsize>);
    impl Drop for EndCounter {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let counter = ended.clone();
    let handlers = Handlers::none().on(1, move |_| {
        let guard = EndCounter(counter.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Value::Null)
        }
    });
    let (asking, _answering, _channels) = calls(0x100, handlers).await;
    let err = asking.call_within(1, Value::Null, Duration::from_millis(100)).await.unwrap_err();
    // The peer's answer may arrive at the same moment.
    match &err {
        CallError::TimedOut(_) => {}
        CallError::Refused(refused) => assert_eq!(refused.code, RpcError::DEADLINE_EXCEEDED),
        _ => panic!("{err}"),
    }
    let given_up = tokio::spawn({
        let asking = asking.clone();
        async move { asking.call(1, Value::Null).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    given_up.abort();
    let begun = Instant::now();
    while ended.load(Ordering::SeqCst) < 2 {
        assert!(begun.elapsed() < LONG, "{} handlers were ended", ended.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn errors_panics_and_absent_handlers_are_answers() {
    let handlers = Handlers::none()
        .on(1, |_| async { Err(RpcError::new(1234, "not today")) })
        .on(2, |called| async move { panic!("{}", called.type_id) })
        .on(3, |_| async { Ok(json!("x".repeat(2 << 20))) });
    let (asking, _answering, _channels) = calls(0x100, handlers).await;
    for (type_id, code) in [(1, 1234), (2, RpcError::INTERNAL), (3, RpcError::TOO_LARGE), (9, 404)] {
        match asking.call(type_id, Value::Null).await {
            Err(CallError::Refused(error)) => assert_eq!(error.code, code, "{error}"),
            other => panic!("{type_id}: {other:?}"),
        }
    }
    let too_long = asking.call(1, json!("x".repeat(1 << 20))).await.unwrap_err();
    assert_eq!(too_long.code(), "rpc_too_large");
    assert_eq!(asking.call(9, Value::Null).await.unwrap_err().code(), "handler_not_found", "the stream goes on");
}

#[tokio::test]
async fn notifications_go_either_way_in_order() {
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let handlers = Handlers::none().on_notification(5, move |payload| heard.send(payload).unwrap());
    let (asking, _answering, _channels) = calls(0x100, handlers).await;
    for number in 0..50 {
        asking.notify(5, json!(number)).await.unwrap();
    }
    for number in 0..50 {
        assert_eq!(tokio::time::timeout(LONG, hears.recv()).await.unwrap(), Some(json!(number)));
    }
}

#[tokio::test]
async fn calls_that_wait_hear_that_the_channel_is_over() {
    let (asking, _answering, (client, server)) =
        calls(0x100, Handlers::none().on(1, |_| async { std::future::pending().await })).await;
    let waiting = tokio::spawn({
        let asking = asking.clone();
        async move { asking.call(1, Value::Null).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.close(0, "enough").await;
    let err = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(err.code(), "transport_error");
    let over = tokio::time::timeout(LONG, client.over()).await.unwrap();
    assert!(over.code == "ended" && over.text.contains("enough"), "{over}");
    assert!(client.open(&Hello::new("x").unwrap()).await.is_err());
    assert!(asking.call(1, Value::Null).await.is_err());
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_noticed_and_one_that_only_idles_is_not() {
    let quick = Liveness { ping_every: Duration::from_millis(200), silent_max: Duration::from_millis(1500) };
    let options = Options { liveness: quick, ..Options::default() };
    for suite in SUITES {
        let (client, server) = pair_with(suite, options.clone(), Options::default()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!client.is_over() && !server.is_over(), "suite {suite}: pings keep it alive");
        assert!(client.round_trip().is_some_and(|time| time < LONG), "suite {suite}");
    }
    // Behind a proxy that stops carrying, and closes nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let info = info(listener.local_addr().unwrap(), 0x100);
    let (mut near, far) = tokio::io::duplex(64 * 1024);
    let theirs = info.clone();
    let server = tokio::spawn(async move { channel::accept_direct(far, &theirs, &Options::default()).await });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut near) => {}
            _ = stopped => {}
        }
        std::future::pending::<()>().await;
    });
    let client = channel::connect_direct(&info, &options, |_| ()).await.unwrap();
    let _server = server.await.unwrap().unwrap();
    stop.send(()).unwrap();
    let over = tokio::time::timeout(LONG, client.over()).await.unwrap();
    assert_eq!(over.code, "peer_silent");
}

#[tokio::test]
async fn connections_are_forwarded_and_one_end_may_finish_first() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = channel::forward::Target::Tcp(target.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = target.accept().await.unwrap();
            tokio::spawn(async move {
                let mut all = Vec::new();
                // The answer comes after the end of the request: half-closed connections are carried.
                stream.read_to_end(&mut all).await.unwrap();
                all.reverse();
                stream.write_all(&all).await.unwrap();
            });
        }
    });
    let (client, server) = pair(0x100).await;
    tokio::spawn(async move { channel::forward::serve(&server, &place, |_| ()).await });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Arc::new(client);
    tokio::spawn(async move {
        loop {
            let (local, _) = listener.accept().await.unwrap();
            let client = client.clone();
            tokio::spawn(async move { channel::forward::carry_over(&client, local).await });
        }
    });
    for len in [0, 1, 1_000_000] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let sent: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
        let (mut read, mut write) = stream.split();
        let mut back = Vec::new();
        let (written, got) = tokio::join!(
            async {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await
            },
            tokio::time::timeout(LONG, read.read_to_end(&mut back))
        );
        written.unwrap();
        got.unwrap().unwrap();
        back.reverse();
        assert!(back == sent, "{len} bytes: {} came back", back.len());
    }
}

#[tokio::test]
async fn an_end_that_has_closed_its_output_still_reads_the_peers_input() {
    for is_input_awaited in [true, false] {
        let (client, server) = pair(0x100).await;
        let stream = client.open(&Hello::new("cat").unwrap()).await.unwrap();
        let mut theirs = server.accept().await.unwrap().stream;
        let (mut shown, output) = tokio::io::duplex(64);
        let joining =
            tokio::spawn(
                async move { channel::forward::join(stream, b"all".as_slice(), output, is_input_awaited).await },
            );
        let mut all = String::new();
        theirs.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "all", "the input is over, and the peer has been told");
        theirs.write_all(b"and the answer").await.unwrap();
        theirs.shutdown().await.unwrap();
        tokio::time::timeout(LONG, joining).await.unwrap().unwrap().unwrap();
        let mut answer = String::new();
        shown.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "and the answer");
    }
}

#[tokio::test]
async fn a_notification_arrives_although_its_handle_is_dropped() {
    for number in 0..20 {
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let handlers = Handlers::none().on_notification(5, move |payload| heard.send(payload).unwrap());
        let (asking, _answering, _channels) = calls(0x100, handlers).await;
        asking.notify(5, json!(number)).await.unwrap();
        drop(asking);
        assert_eq!(tokio::time::timeout(LONG, hears.recv()).await.unwrap(), Some(json!(number)));
    }
}

#[tokio::test]
async fn any_times_of_liveness_are_taken() {
    for time in [Duration::ZERO, Duration::MAX] {
        let liveness = Liveness { ping_every: time, silent_max: Duration::MAX };
        let (client, server) = pair_with(0x100, Options { liveness, ..Options::default() }, Options::default()).await;
        let _stream = client.open(&Hello::new("x").unwrap()).await.unwrap();
        assert!(tokio::time::timeout(LONG, server.accept()).await.unwrap().is_some());
    }
}
