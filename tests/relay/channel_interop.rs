//! Sealway's channels and an endpoint of Flowersec v1 that was written from the description of its protocol alone, with
//! HashiCorp's yamux. Each is client or server, with both suites. SPEC channel.md, rpc.md

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealway_client::channel::rpc::{CallError, Handlers, Rpc};
use sealway_client::channel::{self, Channel, Options};
use sealway_testkit::fleet::is_full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::channel_ground::{
    Direct, Gate, LONG, Peer, SUITES, WINDOW, client_of_v1, client_of_v1_from_afar, drain, go, open, pour, read_frame,
    serve, server_of_v1, soon, write_frame,
};

const BULK: u64 = 64 << 20;

/// Runs a job of the peer with Sealway's server, and returns the peer's report.
async fn does(suite: u16, arguments: &[&str]) -> Value {
    let (peer, channel) = client_of_v1(suite, arguments).await;
    let (channel, gate) = (channel.unwrap(), Gate::new());
    let seen = tokio::select! {
        () = serve(&channel, &gate) => peer.done().await,
        () = tokio::time::sleep(2 * LONG) => panic!("the channel does not end"),
    };
    // An endpoint of v1 ends without a message, and its kernel resets the connection if Sealway sends more.
    let over = soon(channel.over()).await;
    let is_end = ["closed", "connection_lost"].contains(&over.code.as_ref());
    assert!(is_end, "{over} after {} with suite {suite}: {seen}", arguments.join(" "));
    seen
}

async fn our_client(suite: u16, arguments: &[&str]) -> (Peer, Channel) {
    let (peer, channel) = server_of_v1(suite, arguments, &Options::default()).await;
    (peer, channel.unwrap())
}

/// Closes the channel of Sealway's client, and returns its server's report.
async fn ended((peer, channel): (Peer, Channel)) -> Value {
    soon(channel.close(1000, "")).await;
    peer.done().await
}

#[test]
fn the_endpoint_of_v1_agrees_with_the_vectors_and_with_itself() {
    println!("{}", go(&["vet", "./..."]));
    println!("{}", go(&["test", "./..."]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_v1_calls_our_server() {
    for suite in SUITES {
        let seen = does(suite, &["--job", "rpc", "--calls", "50"]).await;
        assert_eq!((&seen["notices"], &seen["unknown_code"]), (&json!(50), &json!(404)), "{seen}");
        assert_eq!(seen["unknown_message"], "handler not found");
        assert_eq!(seen["unknown_payload"], "null");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_calls_a_server_of_v1_which_answers_one_after_the_other() {
    for suite in SUITES {
        let (peer, channel) = our_client(suite, &[]).await;
        let heard = Arc::new(AtomicUsize::new(0));
        let hearing = heard.clone();
        let handlers = Handlers::none().on_notification(2, move |_| {
            hearing.fetch_add(1, Ordering::Relaxed);
        });
        let rpc = soon(Rpc::open(&channel, handlers)).await.unwrap();
        let calls = (0..50).map(|at| {
            let rpc = rpc.clone();
            tokio::spawn(async move { (at, rpc.call(1, json!({ "call": at })).await.unwrap()) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (at, answer) = soon(call).await.unwrap();
            assert_eq!(answer, json!({ "call": at }));
        }
        assert_eq!(heard.load(Ordering::Relaxed), 50, "its notification comes before its answer");
        assert_eq!(rpc.call(4_000_000_000, json!({})).await.unwrap_err().code(), "handler_not_found");
        let Err(CallError::Refused(error)) = rpc.call(6, json!({})).await else { panic!("it is refused") };
        assert_eq!((error.code, error.message.as_str()), (1234, "refused"));
        assert_eq!(rpc.call(9, json!(9)).await.unwrap(), 9, "a frame that is no envelope came before it");
        rpc.notify(77, json!({})).await.unwrap();
        let long = json!("x".repeat(900_000));
        assert_eq!(rpc.call(1, long.clone()).await.unwrap(), long);
        // A caller that stops waiting cancels its call: in v1 that is a notification, of a type without a handler.
        let late = rpc.call_within(5, json!({ "ms": 500 }), Duration::from_millis(50)).await;
        assert!(matches!(late, Err(CallError::TimedOut(_))), "{late:?}");
        assert_eq!(rpc.call(1, json!(1)).await.unwrap(), 1);
        let seen = ended((peer, channel)).await;
        assert_eq!(
            (&seen["calls"], &seen["notices_in"], &seen["streams_in"]),
            (&json!(56), &json!(2), &json!(1)),
            "{seen}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_of_a_client_of_v1_run_at_once_and_each_end_closes_by_itself() {
    for suite in SUITES {
        // Together within the bytes that an endpoint of v1 keeps unread.
        does(suite, &["--job", "echo", "--streams", "200", "--bytes", "20000"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_of_ours_run_at_once_and_each_end_closes_by_itself() {
    for suite in SUITES {
        let (peer, channel) = our_client(suite, &[]).await;
        let mut all = Vec::new();
        for _ in 0..200 {
            all.push(open(&channel, "echo").await);
        }
        let echoes = all.into_iter().enumerate().map(|(at, stream)| {
            tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(stream);
                let sending = tokio::spawn(async move {
                    let sent = pour(&mut to, 20_000 + at as u64).await.unwrap();
                    // Only one direction has ended: the other side's bytes still arrive.
                    to.shutdown().await.unwrap();
                    sent
                });
                let got = drain(&mut from).await.unwrap();
                assert_eq!(sending.await.unwrap(), got);
            })
        });
        for echo in echoes.collect::<Vec<_>>() {
            soon(echo).await.unwrap();
        }
        let seen = ended((peer, channel)).await;
        assert_eq!(seen["streams_in"], 200, "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_v1_sends_and_takes_much() {
    does(1, &["--job", "bulk", "--bytes", &BULK.to_string()]).await;
    does(2, &["--job", "bulk", "--bytes", "3000001"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_sends_and_takes_much() {
    for (suite, bytes) in [(1, BULK), (2, 3_000_001)] {
        let (peer, channel) = our_client(suite, &[]).await;
        let mut up = open(&channel, "sink").await;
        let sent = soon(pour(&mut up, bytes)).await.unwrap();
        up.shutdown().await.unwrap();
        assert_eq!(soon(read_frame(&mut up)).await.unwrap(), sent);
        let mut down = open(&channel, "source").await;
        write_frame(&mut down, &json!({ "bytes": bytes })).await.unwrap();
        assert_eq!(soon(drain(&mut down)).await.unwrap(), sent);
        println!("{}", ended((peer, channel)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_v1_far_away_that_writes_megabytes_at_a_time_gets_them_through() {
    // The window stays at 256 KiB whatever the latency: peers of v1 end a session whose window grows.
    let arguments = ["--job", "bulk", "--bytes", "8000000", "--part", "16777216"];
    let (peer, channel) = client_of_v1_from_afar(1, &arguments, Duration::from_millis(20)).await;
    let (channel, gate) = (channel.unwrap(), Gate::new());
    soon(serve(&channel, &gate)).await;
    println!("{} {}", channel.over().await, peer.done().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_takes_new_keys_while_streams_go_on() {
    for suite in SUITES {
        let seen = does(suite, &["--job", "rekey", "--calls", "5"]).await;
        assert_eq!(seen["rekeys_out"], 5, "{seen}");
        let seen = does(suite, &["--job", "bulk", "--bytes", "3000000", "--rekey-every", "7"]).await;
        assert!(seen["rekeys_out"].as_u64() > Some(5), "{seen}");

        let (peer, channel) = our_client(suite, &["--rekey-every", "3"]).await;
        let mut stream = open(&channel, "echo").await;
        // Twice the number asked for: the peer's library decides how many records an echo is.
        for round in 0..10_u8 {
            channel.rekey();
            stream.write_all(&[round; 1000]).await.unwrap();
            stream.flush().await.unwrap();
            let mut back = [0; 1000];
            soon(stream.read_exact(&mut back)).await.unwrap();
            assert_eq!(back, [round; 1000]);
        }
        drop(stream);
        let seen = ended((peer, channel)).await;
        assert!(seen["rekeys_in"].as_u64() >= Some(5) && seen["rekeys_out"].as_u64() >= Some(5), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_of_the_first_weeks_and_of_later_are_both_served() {
    // Sealway's server always sends its proof; a client that does not wait for it ignores it.
    for arguments in
        [&["--job", "rpc", "--early"][..], &["--job", "rpc"], &["--job", "rpc", "--fault", "init-suite-zero"]]
    {
        does(1, arguments).await;
    }
    let seen = does(1, &["--job", "rpc", "--early"]).await;
    assert_eq!(seen["pings"], 1, "{seen}");
    // Sealway's client requires the proof by default.
    let eager = Options { handshake_timeout: Duration::from_millis(500), ..Options::default() };
    let (_peer, refused) = server_of_v1(1, &["--early"], &eager).await;
    let err = refused.unwrap_err();
    assert_eq!((err.stage.name(), err.code.as_ref()), ("handshake", "timeout"), "{err}");
    for arguments in [&["--early"][..], &[]] {
        let trusting = Options { accept_unconfirmed: true, ..Options::default() };
        let (peer, channel) = server_of_v1(1, arguments, &trusting).await;
        let channel = channel.unwrap();
        let rpc = soon(Rpc::open(&channel, Handlers::none())).await.unwrap();
        assert_eq!(rpc.call(1, json!(1)).await.unwrap(), 1);
        ended((peer, channel)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_accepted_is_acknowledged_though_nothing_is_written_on_it() {
    // HashiCorp's library ends a session whose stream is not acknowledged in time.
    let (timeout, pause) = if is_full() { ("75s", "80s") } else { ("2s", "5s") };
    does(1, &["--job", "mute", "--open-timeout", timeout, "--pause", pause]).await;
    // Without an earlier stream the acknowledgement comes by itself; 40 earlier streams do not delay it.
    does(1, &["--job", "echo", "--streams", "40", "--bytes", "1", "--open-timeout", timeout]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_idle_lives() {
    let pause = if is_full() { Duration::from_secs(90) } else { Duration::from_secs(2) };
    let text = format!("{}s", pause.as_secs());
    let seen = does(1, &["--job", "idle", "--pause", &text]).await;
    println!("{seen}");
    let (peer, channel) = our_client(1, &["--ping-every", "100ms"]).await;
    let mut stream = open(&channel, "echo").await;
    for text in [b"before", b"after!"] {
        stream.write_all(text).await.unwrap();
        stream.flush().await.unwrap();
        let mut back = [0; 6];
        soon(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, text);
        tokio::time::sleep(pause).await;
    }
    ended((peer, channel)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_stream_stalls_at_the_window_of_a_peer_that_does_not_read_and_resumes() {
    const BYTES: usize = 3 << 20;
    let (peer, channel) = our_client(1, &[]).await;
    let mut slow = open(&channel, "slow").await;
    let (written, part) = (Arc::new(AtomicUsize::new(0)), vec![7; 4096]);
    let counting = written.clone();
    let writing = tokio::spawn(async move {
        while counting.load(Ordering::Relaxed) < BYTES {
            slow.write_all(&part).await.unwrap();
            counting.fetch_add(part.len(), Ordering::Relaxed);
        }
        slow.shutdown().await.unwrap();
        slow
    });
    // The stream has stalled when it makes no progress while another stream does.
    let rpc = soon(Rpc::open(&channel, Handlers::none())).await.unwrap();
    let mut before = usize::MAX;
    while before != written.load(Ordering::Relaxed) {
        before = written.load(Ordering::Relaxed);
        for _ in 0..20 {
            rpc.call(1, json!(1)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    // The prologue uses a little of the window, and the library keeps some frames of its own.
    assert!((WINDOW / 2..=WINDOW + (128 << 10)).contains(&before), "{before} of {WINDOW}");
    rpc.call(7, json!({})).await.unwrap();
    let mut slow = soon(writing).await.unwrap();
    let got = soon(read_frame(&mut slow)).await.unwrap();
    assert_eq!(got["bytes"], BYTES, "{got}");
    ended((peer, channel)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_v1_stalls_at_our_window_and_goes_on_when_we_read() {
    let (mut peer, channel) = client_of_v1(1, &["--job", "stall", "--bytes", "3000000", "--pause", "1500ms"]).await;
    let (channel, gate) = (Arc::new(channel.unwrap()), Gate::new());
    let (served, gates) = (channel.clone(), gate.clone());
    let serving = tokio::spawn(async move { serve(&served, &gates).await });
    let stalled = peer.line().await;
    let at = stalled["stalled_at"].as_u64().unwrap() as usize;
    assert!((WINDOW / 2..=WINDOW).contains(&at), "{stalled}");
    gate.open();
    peer.done().await;
    soon(serving).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_one_side_resets_breaks_off_for_the_other_and_the_channel_goes_on() {
    let seen = does(1, &["--job", "reset"]).await;
    assert!(seen["stream_error"].as_str().unwrap().contains("reset"), "{seen}");

    // HashiCorp's library resets a stream that it has closed if the other side does not close in time.
    let (peer, channel) = our_client(1, &["--close-timeout", "100ms"]).await;
    let mut stream = open(&channel, "reset").await;
    assert_eq!(soon(stream.read_to_end(&mut Vec::new())).await.unwrap(), 0, "it closes first");
    let broke = async {
        while stream.write_all(b"more").await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(broke).await;
    let rpc = soon(Rpc::open(&channel, Handlers::none())).await.unwrap();
    assert_eq!(rpc.call(1, json!(1)).await.unwrap(), 1);
    ended((peer, channel)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_a_server_opens_are_served_by_a_client_of_v1_with_the_same_yamux() {
    let (peer, channel) = client_of_v1(1, &["--job", "serve"]).await;
    let channel = channel.unwrap();
    for _ in 0..3 {
        let mut stream = open(&channel, "echo").await;
        assert_eq!(stream.id() % 2, 0);
        let sent = pour(&mut stream, 100_000).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(soon(drain(&mut stream)).await.unwrap(), sent);
    }
    let seen = ended((peer, channel)).await;
    assert_eq!(seen["streams_in"], 3, "{seen}");
}

/// Runs a client of v1 that violates one rule. Returns the error of Sealway's server.
async fn refused_by_our_server(arguments: &[&str]) -> (Peer, String) {
    let (peer, channel) = client_of_v1(1, arguments).await;
    let err = match channel {
        Ok(channel) => soon(channel.over()).await,
        Err(err) => err,
    };
    (peer, format!("{} {}", err.stage, err.code))
}

/// Runs a server of v1 that violates one rule. Returns the error of Sealway's client.
async fn refused_by_our_client(arguments: &[&str]) -> (Peer, String) {
    let (peer, channel) = server_of_v1(1, arguments, &Options::default()).await;
    let err = match channel {
        Ok(channel) => soon(channel.over()).await,
        Err(err) => err,
    };
    (peer, format!("{} {}", err.stage, err.code))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_record_of_a_peer_of_v1_ends_the_channel_and_is_named() {
    let mut wrong = Vec::new();
    for (fault, want) in [
        ("text", "record unexpected_text_frame"),
        ("record-tag", "record record_unsealable"),
        ("record-order", "record record_missing"),
        ("record-twice", "record record_replayed"),
        ("record-oversize", "record record_too_large"),
        ("record-flags", "record record_flags"),
        ("record-long", "record record_truncated"),
        ("record-short", "record record_truncated"),
        ("record-magic", "record record_invalid"),
        ("record-empty", "record record_truncated"),
        ("rekey-old-key", "record record_unsealable"),
    ] {
        let arguments = ["--job", "fault", "--fault", fault];
        for (peer, got) in [refused_by_our_server(&arguments).await, refused_by_our_client(&arguments).await] {
            if got != want {
                wrong.push(format!("{fault}: {got}"));
            }
            let seen = peer.done().await;
            assert_eq!(seen["cut_off"], true, "{fault}: {seen}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wrong_handshake_of_a_peer_of_v1_is_refused_and_named() {
    let mut wrong = Vec::new();
    let mut judge = |fault: &str, got: String, want: &str| {
        if got != want {
            wrong.push(format!("{fault}: {got}"));
        }
    };
    for (fault, want) in [
        ("init-channel", "handshake channel_mismatch"),
        ("init-role", "handshake role_mismatch"),
        ("init-version", "handshake version_mismatch"),
        ("init-suite", "handshake suite_mismatch"),
        ("init-other", "handshake init_changed"),
        ("key-zero", "handshake peer_key_invalid"),
        ("nonce-short", "handshake handshake_field_invalid"),
        ("padded", "handshake handshake_field_invalid"),
        ("ack-tag", "handshake handshake_unauthentic"),
        ("ack-tag-short", "handshake handshake_field_invalid"),
        ("ack-key", "handshake handshake_unauthentic"),
        ("ack-id", "handshake handshake_id_mismatch"),
        ("ack-stamp", "handshake handshake_timestamp"),
    ] {
        let (peer, got) = refused_by_our_server(&["--job", "rpc", "--fault", fault]).await;
        judge(fault, got, want);
        peer.failed().await;
    }
    for (fault, want) in [
        ("handshake-id-empty", "handshake handshake_field_invalid"),
        ("key-zero", "handshake peer_key_invalid"),
        ("nonce-short", "handshake handshake_field_invalid"),
        ("padded", "handshake handshake_field_invalid"),
    ] {
        let (peer, got) = refused_by_our_client(&["--fault", fault]).await;
        judge(fault, got, want);
        peer.failed().await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // An unusual but permitted case: the same Init twice.
    does(1, &["--job", "rpc", "--fault", "init-again"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_init_and_an_ack_that_are_sent_again_on_a_second_connection_open_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let direct = Direct::new(1, format!("ws://{}/ws", listener.local_addr().unwrap()));
    let peer = direct.peer("client", &["--job", "replay"]);
    let (first, _) = soon(listener.accept()).await.unwrap();
    let first = soon(channel::accept_direct(first, &direct.info, &Options::default())).await.unwrap();
    let (second, _) = soon(listener.accept()).await.unwrap();
    let err = soon(channel::accept_direct(second, &direct.info, &Options::default())).await.unwrap_err();
    assert_eq!((err.stage.name(), err.code.as_ref()), ("handshake", "handshake_id_mismatch"), "{err}");
    let seen = peer.done().await;
    assert_eq!(seen["cut_off"], true, "{seen}");
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_of_v1_hears_by_a_close_frame_that_and_why_our_channel_ends() {
    let (peer, channel) = our_client(1, &[]).await;
    // The code is for native records; here every regular end has the code 1000.
    soon(channel.close(7, "enough")).await;
    let seen = peer.done().await;
    let why = seen["why"].as_str().unwrap();
    assert!(why.contains("StatusNormalClosure") && why.contains("enough"), "{seen}");
}
