//! A new process takes over the address of an old one (`reuse_port`), several times under load, without a lost connection.

use std::net::SocketAddr;

use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::steady::Steady;

use crate::BINARY;

const HAND_OVERS: usize = 6;

fn start(port: u16, more: &str) -> anyhow::Result<Server> {
    start_on("memory:", port, more)
}

fn start_on(store: &str, port: u16, more: &str) -> anyhow::Result<Server> {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:{port}'{more} }}]
routes: [{{ match: {{}}, standalone: ok }}]
sessions: {{ store: '{store}', allow_generated_kek: true }}
"
    );
    Launch::new(BINARY, &config).start()
}

#[test]
fn processes_take_over_from_each_other_under_load_and_no_connection_is_lost() {
    let port = free_port().unwrap();
    let shared = ", reuse_port: true";
    let mut serving = start(port, shared).unwrap();
    let address: SocketAddr = serving.address();
    let request = Request::get("/");
    let fresh = Steady::start(address, &request, 6, false);
    let kept = Steady::start(address, &request, 4, true);
    for _ in 0..HAND_OVERS {
        fresh.more(300).unwrap();
        kept.more(300).unwrap();
        let next = start(port, shared).unwrap();
        let mut old = std::mem::replace(&mut serving, next);
        assert_eq!(old.stop().unwrap().code(), Some(0));
    }
    fresh.more(300).unwrap();
    let (fresh, kept) = (fresh.finish(), kept.finish());
    println!("{} connections, {} requests on kept ones", fresh.done, kept.done);
    fresh.assert_flawless();
    kept.assert_flawless();
}

#[test]
fn an_address_is_shared_only_if_both_configurations_allow_it() {
    let port = free_port().unwrap();
    let _first = start(port, "").unwrap();
    let err = start(port, ", reuse_port: true").unwrap_err().to_string();
    assert!(err.contains("in use"), "{err}");
}

#[test]
fn a_store_in_a_file_is_not_shared_with_the_next_process_and_the_first_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().join("sessions.redb").display());
    let (port, shared) = (free_port().unwrap(), ", reuse_port: true");
    let mut first = start_on(&store, port, shared).unwrap();
    let address = first.address();
    let err = start_on(&store, port, shared).unwrap_err().to_string();
    assert!(err.contains("sessions.redb: another process uses it") && err.contains("stop that process first"), "{err}");
    // A socket of the second one that outlives it would take some of these connections.
    for _ in 0..50 {
        assert_eq!(Request::get("/").send(address).unwrap().status, 200);
    }
    assert_eq!(first.stop().unwrap().code(), Some(0));
    start_on(&store, port, shared).unwrap();
}
