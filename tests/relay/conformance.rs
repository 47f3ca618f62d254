//! The relay against its spec, from outside: every row of the close table, every rule of pairing, buffering, replacement, limits
//! and clean-up. The same cases run against a plain relay, one with TLS, and two nodes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use sealway_testkit::certificates::Certificates;
use sealway_testkit::redis::Redis;
use sealway_testkit::relay::{Issuer, NODE_NAME, unique};

use crate::BINARY;
use crate::cases::{Fleet, Ground, run};

fn one(_: &Path) -> Vec<Vec<String>> {
    vec![Vec::new()]
}

fn ground(folder: &Path, ca: Option<&Path>, nodes: fn(&Path) -> Vec<Vec<String>>, arguments: Vec<String>) -> Ground {
    let issuer = Issuer::new(folder).unwrap();
    let all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let shared = Fleet::start(BINARY, folder, ca, &nodes(folder), &all);
    let (folder, ca) = (folder.to_owned(), ca.map(Path::to_owned));
    Ground { binary: BINARY, folder, issuer, ca, arguments, nodes, shared }
}

#[test]
fn a_plain_relay_does_as_the_spec_says() {
    let folder = tempfile::tempdir().unwrap();
    run(&ground(folder.path(), None, one, Vec::new()));
}

#[test]
fn a_relay_with_tls_does_as_the_spec_says() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "client").unwrap();
    let (cert, key) = (made.server.0.display().to_string(), made.server.1.display().to_string());
    let arguments = ["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key];
    run(&ground(folder.path(), Some(&made.ca), one, arguments.to_vec()));
}

#[test]
fn two_nodes_that_share_a_redis_do_as_the_spec_says() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start().unwrap();
    std::fs::write(folder.path().join("redis-url"), redis.url()).unwrap();
    let authority = Certificates::make(folder.path(), "DNS:localhost", "client").unwrap();
    let names = format!("subjectAltName=DNS:{NODE_NAME}");
    authority.issue("node", "/CN=a node", &[&names, "extendedKeyUsage=serverAuth,clientAuth"], 2).unwrap();
    run(&ground(folder.path(), None, two, Vec::new()));
}

/// Starts two nodes. Each fleet has a prefix of its own, so nodes of different fleets do not find each other.
fn two(folder: &Path) -> Vec<Vec<String>> {
    let url = std::fs::read_to_string(folder.join("redis-url")).unwrap();
    let [cert, key, ca] = ["node.pem", "node.key", "ca.pem"].map(|name| folder.join(name).display().to_string());
    let prefix = unique("fleet");
    // As in an old fleet: a new one rejects tokens that were issued before it began.
    let mut redis = TcpStream::connect(url.trim_start_matches("redis://").trim_end_matches('/')).unwrap();
    let server = "string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')";
    let values = format!("'id', 'known', 'server', {server}, 'made', '0', 'floor', '0'");
    let epoch = format!("EVAL \"return redis.call('HSET', KEYS[1], {values})\" 1 {{{prefix}:relay:0}}:epoch\r\n");
    redis.write_all(epoch.as_bytes()).unwrap();
    let mut answer = [0; 4];
    redis.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b":4\r\n");
    let shared = ["--redis-url", &url, "--redis-prefix", &prefix, "--node-cert", &cert, "--node-key", &key];
    let node = [&shared[..], &["--node-ca", &ca, "--node-name", NODE_NAME]].concat();
    vec![node.into_iter().map(str::to_owned).collect(); 2]
}
