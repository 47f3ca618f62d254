//! Nodes and strangers: who is let in on the port for nodes, whom a node tells of its endpoints, and certificates that are
//! replaced while nodes serve.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sealway_runtime::clock::SystemClock;
use sealway_runtime::tls::{Client, ClientFiles};
use sealway_testkit::daemon::free_port;
use sealway_testkit::raw_ws::Got;
use sealway_testkit::redis::Redis;
use sealway_testkit::relay::{Issuer, NODE_NAME, NodeFleet, Relay, instance};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::BINARY;
use crate::commands::sealway;
use crate::nodes::{lives, pair, send, settled};

const ALPN: &[u8] = b"sealway-relay-bridge/2";

#[test]
fn certificates_that_other_nodes_would_reject_end_the_start_with_the_flag_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(sealway(folder.path(), &["relay", "keys"]).output().unwrap().status.success());
    let [ours, other] = [(); 2].map(|()| NodeFleet::new(folder.path(), "redis://127.0.0.1:1").unwrap());
    let good = ours.issue_node().unwrap();
    let expired = ours.issue(NODE_NAME, "serverAuth,clientAuth", 0).unwrap();
    let other_name = ours.issue("gateway.test", "serverAuth,clientAuth", 2).unwrap();
    let [server_only, client_only] = ["serverAuth", "clientAuth"].map(|usage| ours.issue(NODE_NAME, usage, 2).unwrap());
    let other_fleet = other.issue_node().unwrap();
    let (garbage, none) = (folder.path().join("garbage"), PathBuf::from("none"));
    std::fs::write(&garbage, "-----BEGIN nothing").unwrap();
    let ca = &ours.certificates.ca;
    let rejected = "would reject it: ";
    for (cert, key, ca, name, begins, names) in [
        (&none, &good.1, ca, NODE_NAME, "--node-cert: none: ", "cannot be read"),
        (&good.0, &none, ca, NODE_NAME, "--node-key: none: ", "cannot be read"),
        (&good.0, &good.1, &none, NODE_NAME, "--node-ca: none: ", "cannot be read"),
        (&garbage, &good.1, ca, NODE_NAME, "--node-cert: ", "garbage"),
        (&good.0, &expired.1, ca, NODE_NAME, "--node-", "key"),
        (&good.0, &good.1, ca, "*.test", "--node-name: ", "no DNS name"),
        (&good.0, &good.1, ca, "10.0.0.1", "--node-name: ", "no DNS name"),
        (&good.0, &good.1, ca, "not a name", "--node-name: ", "neither a DNS name"),
        (&good.0, &good.1, ca, "relay-node.other", "--node-cert: ", rejected),
        (&other_name.0, &other_name.1, ca, NODE_NAME, "--node-cert: ", rejected),
        (&expired.0, &expired.1, ca, NODE_NAME, "--node-cert: ", rejected),
        (&server_only.0, &server_only.1, ca, NODE_NAME, "--node-cert: ", rejected),
        (&client_only.0, &client_only.1, ca, NODE_NAME, "--node-cert: ", rejected),
        (&other_fleet.0, &other_fleet.1, ca, NODE_NAME, "--node-cert: ", rejected),
    ] {
        let [cert, key, ca] = [cert, key, ca].map(|file| file.display().to_string());
        let serve = ["relay", "serve", "--aud", "a", "--issuer-keys-file", "issuer-keys.json", "--log-level", "error"];
        let node = ["--redis-url", "redis://127.0.0.1:1", "--node-cert", &cert, "--node-key", &key, "--node-ca", &ca];
        let arguments = [&serve[..], &node, &["--node-name", name]].concat();
        let output = sealway(folder.path(), &arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let told = told.strip_prefix("sealway: ").unwrap_or(&told);
        assert!(told.starts_with(begins) && told.contains(names), "{cert} {key} {ca} {name}: {told}");
        assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    }
    let [cert, key, ca] = [&good.0, &good.1, ca].map(|file| file.display().to_string());
    let serve = ["relay", "serve", "--aud", "a", "--issuer-keys-file", "issuer-keys.json", "--node-cert", &cert];
    let node = ["--redis-url", "redis://127.0.0.1:1", "--node-key", &key, "--node-ca", &ca, "--node-name", NODE_NAME];
    let output = sealway(folder.path(), &[&serve[..], &node].concat()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("--redis-url: "), "good certificates are accepted: {told}");
}

/// A node whose port for nodes is known.
fn node_at(fleet: &NodeFleet, folder: &std::path::Path) -> (Relay, SocketAddr) {
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    (fleet.start(BINARY, folder, &["--node-listen", &address]).unwrap(), address.parse().unwrap())
}

/// Waits until a relay has logged a text this often.
fn says(relay: &Relay, text: &str, count: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    while relay.log().matches(text).count() < count {
        assert!(Instant::now() < until, "{text}:\n{}", relay.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hello(channel: &str) -> Vec<u8> {
    let hello = serde_json::json!({
        "tenant": [1, 2, 3, 4, 5, 6, 7, 8], "channel_id": channel, "role": 1, "init_exp": 4_000_000_000_i64,
        "idle_s": null, "eid": instance(1), "is_native": false, "client": null,
    });
    let text = hello.to_string().into_bytes();
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], &text].concat()
}

/// Connects as a node with these files, sends bytes after the handshake, and returns whether the answer is that of a node.
async fn is_welcome(address: SocketAddr, files: ClientFiles, alpn: &'static [u8], hello: &[u8]) -> bool {
    let client = Client::load(files, Arc::new(SystemClock)).unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let Ok(mut stream) = client.connect(stream, alpn).await else { return false };
    let _ = stream.write_all(hello).await;
    let _ = stream.flush().await;
    matches!(tokio::time::timeout(Duration::from_secs(10), stream.read_u8()).await, Ok(Ok(1)))
}

#[tokio::test]
async fn only_a_node_of_the_fleet_is_welcome() {
    let folder = tempfile::tempdir().unwrap();
    Issuer::new(folder.path()).unwrap();
    let redis = Redis::start().unwrap();
    let [ours, other] = [(); 2].map(|()| NodeFleet::new(folder.path(), &redis.url()).unwrap());
    let (node, address) = node_at(&ours, folder.path());
    let with = |(cert, key): (PathBuf, PathBuf)| ClientFiles {
        ca: Some(ours.certificates.ca.clone()),
        cert: Some(cert),
        key: Some(key),
        server_name: Some(NODE_NAME.into()),
        ..ClientFiles::default()
    };
    let good = ours.issue_node().unwrap();
    let all = "serverAuth,clientAuth";
    let strangers = [
        ("no certificate", ClientFiles { cert: None, key: None, ..with(good.clone()) }),
        ("another fleet's", with(other.issue_node().unwrap())),
        ("another name of this authority", with(ours.issue("gateway.test", all, 2).unwrap())),
        ("a wildcard", with(ours.issue("*.test", all, 2).unwrap())),
        ("an expired one", with(ours.issue(NODE_NAME, all, 0).unwrap())),
        ("one for servers", with(ours.issue(NODE_NAME, "serverAuth", 2).unwrap())),
    ];
    assert!(is_welcome(address, with(good.clone()), ALPN, &hello("good")).await, "{}", node.log());
    for (what, files) in strangers {
        assert!(!is_welcome(address, files, ALPN, &hello("bad")).await, "{what}");
    }
    assert!(!is_welcome(address, with(good.clone()), b"http/1.1", &hello("bad")).await, "another protocol");
    let too_long = [&40_000_u32.to_be_bytes()[..], &[b' '; 40_000]].concat();
    for (what, bytes) in [("no hello", &b"\0\0\0\x02{}"[..]), ("a hello that is too long", &too_long)] {
        assert!(!is_welcome(address, with(good.clone()), ALPN, bytes).await, "{what}");
    }
    // The bytes of a node without TLS, such as those of an older release.
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    plain.write_all(&hello("bad")).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.contains(&1) || answer.first() == Some(&21), "TLS alert or nothing: {answer:?}");
    assert!(node.log().contains("from no known node"), "{}", node.log());
}

#[test]
fn nodes_do_not_announce_endpoints_to_a_stranger() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let redis = Redis::start().unwrap();
    let [ours, other] = [(); 2].map(|()| NodeFleet::new(folder.path(), &redis.url()).unwrap());
    // A stranger who can write to Redis, and has certificates of another authority for the right name.
    let stranger = NodeFleet { prefix: ours.prefix.clone(), ..other };
    let node = ours.start(BINARY, folder.path(), &[]).unwrap();
    let beside = stranger.start(BINARY, folder.path(), &[]).unwrap();
    settled(&node, &issuer);
    for (first, second) in [(&node, &beside), (&beside, &node)] {
        let claims = pair();
        let mut ws = send(first, &issuer, &claims[0]);
        ws.answers = false;
        ws.send(0x89, b"").unwrap();
        assert_eq!(ws.got(), Got::Frame(0x8a, Vec::new()));
        assert_eq!(send(second, &issuer, &claims[1]).got(), Got::Close(1013, "node unavailable".into()));
        says(first, "from no known node", 1);
        says(second, "no connection to a channel's node", 1);
    }
}

/// Bytes on their way to a node.
#[derive(Default)]
struct Tap {
    toward: Mutex<Vec<u8>>,
    flips: std::sync::atomic::AtomicBool,
}

/// Forwards connections to an address, records what is sent to it, and flips a bit of it on demand.
fn tap(target: SocketAddr) -> (SocketAddr, Arc<Tap>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, tap) = (listener.local_addr().unwrap(), Arc::new(Tap::default()));
    let shared = tap.clone();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (mut near, mut far) = (near.unwrap(), TcpStream::connect(target).unwrap());
            let (mut back_from, mut back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(std::net::Shutdown::Both);
            });
            let tap = shared.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 64 * 1024];
                while let Ok(len @ 1..) = near.read(&mut bytes) {
                    if tap.flips.load(std::sync::atomic::Ordering::SeqCst) {
                        bytes[len - 1] ^= 1;
                    }
                    tap.toward.lock().unwrap().extend_from_slice(&bytes[..len]);
                    if far.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                }
                let _ = far.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    (address, tap)
}

#[test]
fn who_stands_between_nodes_reads_nothing_replays_nothing_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let redis = Redis::start().unwrap();
    let fleet = NodeFleet::new(folder.path(), &redis.url()).unwrap();
    let listen: SocketAddr = format!("127.0.0.1:{}", free_port().unwrap()).parse().unwrap();
    let (between, tap) = tap(listen);
    let more = ["--node-listen", &listen.to_string(), "--node-advertise", &between.to_string()];
    let has = fleet.start(BINARY, folder.path(), &more).unwrap();
    let beside = fleet.start(BINARY, folder.path(), &[]).unwrap();
    settled(&has, &issuer);
    let claims = pair();
    let mut client = send(&has, &issuer, &claims[0]);
    client.answers = false;
    client.send(0x89, b"").unwrap();
    assert_eq!(client.got(), Got::Frame(0x8a, Vec::new()));
    let mut server = send(&beside, &issuer, &claims[1]);
    lives(&mut client, &mut server);
    let seen = tap.toward.lock().unwrap().clone();
    let channel = claims[1].channel_id.as_bytes();
    assert!(seen.len() > 200, "the bridge is not through the tap");
    assert!(!seen.windows(channel.len()).any(|window| window == channel), "the channel's name is readable");
    assert!(!seen.windows(4).any(|window| window == b"back"), "a payload is readable");

    let before = has.log().matches("from no known node").count();
    let mut replayed = TcpStream::connect(listen).unwrap();
    replayed.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    replayed.write_all(&seen).unwrap();
    let _ = replayed.read_to_end(&mut Vec::new());
    says(&has, "from no known node", before + 1);
    lives(&mut client, &mut server);

    tap.flips.store(true, std::sync::atomic::Ordering::SeqCst);
    server.binary(b"changed on its way");
    assert_ne!(client.message(), Ok(b"changed on its way".to_vec()));
    assert!(matches!(server.end(), Got::Close(1001, _) | Got::Abrupt));
}

#[test]
fn a_replaced_certificate_and_a_replaced_authority_are_in_force_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let redis = Redis::start().unwrap();
    let [ours, next] = [(); 2].map(|()| NodeFleet::new(folder.path(), &redis.url()).unwrap());
    let (files, before) = ([(); 2].map(|()| ours.issue_node().unwrap()), ours.issue_node().unwrap());
    let nodes = files.each_ref().map(|files| ours.start_with(BINARY, folder.path(), files, &[]).unwrap());
    settled(&nodes[0], &issuer);
    let bridged = || {
        let claims = pair();
        let mut client = send(&nodes[0], &issuer, &claims[0]);
        client.answers = false;
        client.send(0x89, b"").unwrap();
        assert_eq!(client.got(), Got::Frame(0x8a, Vec::new()));
        client.answers = true;
        (client, send(&nodes[1], &issuer, &claims[1]))
    };
    let (mut client, mut server) = bridged();
    lives(&mut client, &mut server);
    let reloads = |count| nodes.iter().for_each(|node| says(node, "certificates reloaded", count));
    let replace = |from: &PathBuf, to: &PathBuf| {
        let beside = to.with_extension("next");
        std::fs::copy(from, &beside).unwrap();
        std::fs::rename(&beside, to).unwrap();
    };
    // The authority of both nodes first, which is the same file, then the certificates.
    let both = [&ours, &next].map(|fleet| std::fs::read(&fleet.certificates.ca).unwrap()).concat();
    std::fs::write(next.certificates.ca.with_extension("both"), both).unwrap();
    replace(&next.certificates.ca.with_extension("both"), &ours.certificates.ca);
    reloads(1);
    for files in &files {
        let issued = next.issue_node().unwrap();
        replace(&issued.1, &files.1);
        replace(&issued.0, &files.0);
    }
    reloads(2);
    replace(&next.certificates.ca, &ours.certificates.ca);
    reloads(3);
    let (mut new_client, mut new_server) = bridged();
    lives(&mut new_client, &mut new_server);
    lives(&mut client, &mut server);
    // A node that holds a certificate of the authority before is none of the fleet any more.
    let err = ours.start_with(BINARY, folder.path(), &before, &[]).unwrap_err().to_string();
    assert!(err.contains("other nodes would reject it"), "{err}");
}
