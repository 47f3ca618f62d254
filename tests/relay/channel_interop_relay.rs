//! Endpoints of Flowersec v1 through Sealway's relay, with each other and with Sealway's endpoints. The endpoint's own code
//! issues the grants. SPEC relay.md, channel.md

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sealway_client::channel::rpc::{Handlers, Rpc};
use sealway_client::channel::{Grant, Liveness, Options};
use sealway_testkit::fleet::is_full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::BINARY;
use crate::channel_ground::{
    Gate, Peer, SUITES, attach, attach_with, drain, issue, open, pour, read_frame, serve, soon, write_frame,
};

/// A `sealway relay serve` that trusts the peer's issuer.
struct Relay {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Relay {
    fn start(arguments: &[&str]) -> Relay {
        let folder = tempfile::tempdir().unwrap();
        // The keyset; the relay's address is known only later.
        issue(folder.path(), "ws://127.0.0.1:1/ws", 1);
        let mut command = Command::new(BINARY);
        command.args(["relay", "serve", "--listen", "127.0.0.1:0", "--aud", "test", "--issuer-keys-file"]);
        command.arg(folder.path().join("keys.json")).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).expect("the relay's first line");
        let url = format!("ws://{}{}", said["listen"].as_str().unwrap(), said["ws_path"].as_str().unwrap());
        Relay { child, url, folder }
    }

    /// Returns the grants of a new channel, and the files that hold them for the peer.
    fn channel(&self, suite: u16) -> ([Grant; 2], [PathBuf; 2]) {
        let (client, server) = issue(self.folder.path(), &self.url, suite);
        let files = ["client.json", "server.json"].map(|name| {
            let file = self.folder.path().join(format!("{}-{name}", client.channel_id));
            std::fs::rename(self.folder.path().join(name), &file).unwrap();
            file
        });
        ([client, server], files)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn peer(grant: &std::path::Path, arguments: &[&str]) -> Peer {
    Peer::start(&[&["--grant", grant.to_str().unwrap()], arguments].concat())
}

const JOBS: [&[&str]; 5] = [
    &["--job", "rpc", "--calls", "20"],
    &["--job", "echo", "--streams", "32", "--bytes", "100000"],
    &["--job", "bulk", "--bytes", "5000000", "--rekey-every", "7"],
    &["--job", "rekey", "--calls", "5"],
    &["--job", "idle", "--pause", "1s"],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_endpoints_of_v1_communicate_through_our_relay_in_either_order() {
    let relay = Relay::start(&[]);
    for (at, job) in JOBS.into_iter().enumerate() {
        let suite = SUITES[at % 2];
        let (_, [client, server]) = relay.channel(suite);
        let (client, server) = if at % 2 == 0 {
            (peer(&client, job), peer(&server, &["--rekey-every", "5"]))
        } else {
            let server = peer(&server, &["--rekey-every", "5"]);
            (peer(&client, job), server)
        };
        println!("{} {}", client.done().await, server.done().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_v1_gets_on_with_our_server_through_our_relay() {
    let relay = Relay::start(&[]);
    let long: &[&str] = &["--job", "bulk", "--bytes", "67108864"];
    for (at, job) in JOBS.into_iter().chain([long]).enumerate() {
        let ([_, server], [client, _]) = relay.channel(SUITES[at % 2]);
        let client = peer(&client, job);
        let channel = attach(&server).await.unwrap();
        let gate = Gate::new();
        soon(serve(&channel, &gate)).await;
        println!("{}", client.done().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_gets_on_with_a_server_of_v1_through_our_relay() {
    let relay = Relay::start(&[]);
    for suite in SUITES {
        let ([client, _], [_, server]) = relay.channel(suite);
        let server = peer(&server, &["--rekey-every", "9"]);
        let channel = attach(&client).await.unwrap();
        let rpc = soon(Rpc::open(&channel, Handlers::none())).await.unwrap();
        for at in 0..20 {
            assert_eq!(rpc.call(1, json!(at)).await.unwrap(), at);
        }
        channel.rekey();
        let bytes: u64 = if suite == 1 { 64 << 20 } else { 3_000_001 };
        let mut up = open(&channel, "sink").await;
        let sent = soon(pour(&mut up, bytes)).await.unwrap();
        up.shutdown().await.unwrap();
        assert_eq!(soon(read_frame(&mut up)).await.unwrap(), sent);
        let mut down = open(&channel, "source").await;
        write_frame(&mut down, &json!({ "bytes": bytes })).await.unwrap();
        assert_eq!(soon(drain(&mut down)).await.unwrap(), sent);
        soon(channel.close(1000, "")).await;
        let seen = server.done().await;
        assert_eq!((&seen["calls"], &seen["rekeys_in"]), (&json!(20), &json!(1)), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_idle_lives_through_our_relay_as_long_as_one_end_of_ours_pings() {
    // The long form uses the relay's own times.
    let (relay, pause, ping_every) = if is_full() {
        (Relay::start(&[]), Duration::from_secs(90), Liveness::default().ping_every)
    } else {
        let relay = Relay::start(&["--idle-timeout-ms", "3000", "--tick-ms", "100"]);
        (relay, Duration::from_secs(6), Duration::from_millis(300))
    };
    let options = Options { liveness: Liveness { ping_every, ..Liveness::default() }, ..Options::default() };
    let text = format!("{}s", pause.as_secs());

    let ([client, _], [_, server]) = relay.channel(1);
    let server = peer(&server, &[]);
    let ours = attach_with(&client, &options).await.unwrap();
    let ([_, theirs], [other, _]) = relay.channel(1);
    let other = peer(&other, &["--job", "idle", "--pause", &text]);
    let served = attach_with(&theirs, &options).await.unwrap();
    // Neither end of this pair pings.
    let (_, [first, second]) = relay.channel(1);
    let (first, second) = (peer(&first, &["--job", "idle", "--pause", &text]), peer(&second, &[]));

    let mut stream = open(&ours, "echo").await;
    let gate = Gate::new();
    let idle = async {
        for text in [b"before", b"after!"] {
            stream.write_all(text).await.unwrap();
            stream.flush().await.unwrap();
            let mut back = [0; 6];
            soon(stream.read_exact(&mut back)).await.unwrap();
            assert_eq!(&back, text);
            tokio::time::sleep(pause).await;
        }
        soon(ours.close(1000, "")).await;
    };
    tokio::join!(idle, serve(&served, &gate));
    let seen = server.done().await;
    assert!(seen["pings"].as_u64() > Some(0), "{seen}");
    other.done().await;
    let seen = first.failed().await;
    println!("{seen} {}", second.done().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_of_v1_hears_from_our_relay_why_it_may_not_attach() {
    let relay = Relay::start(&[]);
    let (_, [client, server]) = relay.channel(1);
    let first = peer(&client, &["--job", "rpc"]);
    peer(&server, &[]).done().await;
    first.done().await;
    let seen = peer(&client, &["--job", "rpc"]).failed().await;
    assert_eq!((&seen["close_code"], &seen["close_reason"]), (&json!(1008), &json!("token replay")), "{seen}");
    // A grant of another issuer, which the relay does not know.
    let other = tempfile::tempdir().unwrap();
    issue(other.path(), &relay.url, 1);
    let seen = peer(&other.path().join("client.json"), &["--job", "rpc"]).failed().await;
    assert_eq!((&seen["close_code"], &seen["close_reason"]), (&json!(1008), &json!("invalid token")), "{seen}");
}
