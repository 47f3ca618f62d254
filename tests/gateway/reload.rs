//! SIGHUP: a reloaded configuration applies completely or not at all, and no request fails because of it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::steady::Steady;

use crate::BINARY;
use crate::upstreams::until;

const MEMORY: &str = "sessions: { store: 'memory:' }\n";

/// A process whose listeners, each a name and a port, answer `/health`, and `/extra/health` if `more` says so.
fn config(listeners: &[(&str, u16)], more: &str) -> String {
    let listeners: Vec<_> =
        listeners.iter().map(|(name, port)| format!("{{ name: {name}, address: '127.0.0.1:{port}' }}")).collect();
    let listeners = listeners.join(", ");
    format!("listeners: [{listeners}]\nroutes:\n  - {{ match: {{ path: /health }}, sessions: {{}} }}\n{more}{MEMORY}")
}

fn port() -> u16 {
    free_port().unwrap()
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn start(config: &str) -> Server {
    Launch::new(BINARY, config).start().unwrap()
}

/// Writes the configuration, sends SIGHUP, and waits for the matching log line.
pub(crate) fn reload(server: &mut Server, config: &str, word: &str) -> serde_json::Value {
    let from = server.log().len();
    server.write_config(config).unwrap();
    server.hang_up().unwrap();
    server.wait_for_log(from, |line| line["message"].as_str().is_some_and(|text| text.starts_with(word))).unwrap()
}

/// Sends a request after which the connection stays open.
fn kept(path: &str) -> Vec<u8> {
    Request::get(path).header("Connection", "keep-alive").bytes()
}

const RELOADED: &str = "configuration reloaded";
const NOT_RELOADED: &str = "configuration not reloaded";

fn health(port: u16) -> anyhow::Result<u16> {
    Ok(Request::get("/health").send(local(port))?.status)
}

#[test]
fn listeners_come_change_and_go_while_requests_flow_and_none_fails() {
    let [stays, comes, goes] = [port(), port(), port()];
    let mut server = start(&config(&[("stays", stays), ("goes", goes)], ""));
    let request = Request::get("/health");
    let kept = Steady::start(local(stays), &request, 2, true);
    let fresh = Steady::start(local(stays), &request, 2, false);
    let leaving = Steady::start(local(goes), &request, 1, true);
    kept.more(50).unwrap();
    leaving.more(50).unwrap();
    // A client of the removed listener gets its answers until the listener is gone.
    let outcome = leaving.finish();
    outcome.assert_flawless();

    for round in 0..5 {
        let line = reload(&mut server, &config(&[("stays", stays), ("comes", comes)], ""), RELOADED);
        assert_eq!(line["added"], r#"["comes"]"#, "{line}");
        assert_eq!(line["changed"], if round == 0 { "[]" } else { r#"["stays"]"# }, "{line}");
        assert_eq!(health(comes).unwrap(), 200, "{round}");
        // A removed listener closes its socket a moment after the reload.
        until("the removed listener accepts nothing", || health(goes).is_err());
        // With other limits, the listener's socket and its connections stay.
        let limits = "limits: { header_timeout_ms: 12345 }\n";
        let line = reload(&mut server, &config(&[("goes", goes), ("stays", stays)], limits), RELOADED);
        assert_eq!(line["changed"], r#"["stays"]"#, "{line}");
        assert_eq!(line["removed"], r#"["comes"]"#, "{line}");
        assert_eq!(health(goes).unwrap(), 200, "{round}");
        until("the removed listener accepts nothing", || health(comes).is_err());
        kept.more(20).unwrap();
        fresh.more(20).unwrap();
    }
    kept.finish().assert_flawless();
    fresh.finish().assert_flawless();
}

#[test]
fn a_connection_goes_on_over_a_change_of_limits_and_a_removed_listener_says_close() {
    let [changed, removed] = [port(), port()];
    let mut server = start(&config(&[("changed", changed), ("removed", removed)], ""));
    let mut connections = [changed, removed].map(|port| Connection::open(local(port)).unwrap());
    let mut ask = |index: usize| {
        let connection: &mut Connection = &mut connections[index];
        connection.write(&kept("/health")).unwrap();
        connection.read_answer("GET").unwrap()
    };
    for index in [0, 1] {
        assert_eq!(ask(index).header("connection"), None);
    }
    let limits = "limits: { connections_max: 7 }\n";
    reload(&mut server, &config(&[("changed", changed)], limits), RELOADED);
    // The removed listener begins to drain a moment after the reload. Until its grace period is over, it answers requests.
    until("the removed listener says close", || {
        let answer = ask(1);
        assert_eq!(answer.status, 200);
        answer.header("connection") == Some("close")
    });
    for _ in 0..3 {
        let answer = ask(0);
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
}

#[test]
fn another_name_for_an_address_keeps_its_socket() {
    let port = port();
    let mut server = start(&config(&[("first", port)], ""));
    let fresh = Steady::start(local(port), &Request::get("/health"), 2, false);
    fresh.more(20).unwrap();
    for name in ["second", "third", "first"] {
        let line = reload(&mut server, &config(&[(name, port)], ""), RELOADED);
        assert_eq!(line["added"], format!(r#"["{name}"]"#), "{line}");
        fresh.more(20).unwrap();
    }
    fresh.finish().assert_flawless();
}

#[test]
fn routes_change_at_once_on_connections_that_are_open() {
    let port = port();
    let mut server = start(&config(&[("a", port)], ""));
    let mut connection = Connection::open(local(port)).unwrap();
    let mut ask = || {
        connection.write(&kept("/shop/")).unwrap();
        connection.read_answer("GET").unwrap().status
    };
    assert_eq!(ask(), 404);
    let shop = "  - { match: { path_prefix: /shop/ }, upstream: shop }\nupstreams: { shop: { servers: ['http://127.0.0.1:1'] } }\n";
    reload(&mut server, &config(&[("a", port)], shop), RELOADED);
    assert_eq!(ask(), 502, "the new route leads nowhere, but it leads");
    reload(&mut server, &config(&[("a", port)], ""), RELOADED);
    assert_eq!(ask(), 404);
}

/// A server that answers each request with 200 and keeps its connections. Returns its port, and how many it has accepted.
fn counting_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, accepted) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = accepted.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut connection = Connection::over(stream).unwrap();
                while connection.read_head().is_ok() {
                    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                }
            });
        }
    });
    (port, accepted)
}

#[test]
fn an_upstream_whose_settings_stay_keeps_its_connections_over_a_reload_and_another_does_not() {
    let port = port();
    let (served, accepted) = counting_server();
    let shop = |more: &str, route: &str| {
        let upstream = format!("upstreams: {{ shop: {{ servers: ['http://127.0.0.1:{served}'] {more} }} }}\n");
        config(
            &[("a", port)],
            &format!("  - {{ match: {{ path_prefix: /shop/ }}, upstream: shop }}\n{route}{upstream}"),
        )
    };
    let mut server = start(&shop("", ""));
    let ask = || Request::get("/shop/").send(local(port)).unwrap().status;
    assert_eq!((ask(), ask(), accepted.load(Ordering::Relaxed)), (200, 200, 1));
    reload(&mut server, &shop("", "  - { match: { path: /other }, upstream: shop }\n"), RELOADED);
    assert_eq!((ask(), accepted.load(Ordering::Relaxed)), (200, 1), "the pool goes on");
    reload(&mut server, &shop(", timeouts: { response_ms: 1234 }", ""), RELOADED);
    assert_eq!((ask(), accepted.load(Ordering::Relaxed)), (200, 2), "other settings are another upstream");
}

#[test]
fn a_configuration_with_a_fault_changes_nothing_and_names_the_setting() {
    let [port, other] = [port(), port()];
    let mut server = start(&config(&[("a", port)], ""));
    let steady = Steady::start(local(port), &Request::get("/health"), 1, true);
    let good = config(&[("a", port), ("b", other)], "");
    for (bad, named) in [
        (good.replace("routes:", "rutes:"), "rutes"),
        (good.replace("/health", "health"), "routes[0].match"),
        (good.clone() + "limits: { connections_max: 0 }\n", "limits.connections_max"),
        (good.clone() + "  : {", "serve.yaml"),
        (String::new(), "routes"),
    ] {
        let line = reload(&mut server, &bad, NOT_RELOADED);
        assert!(line["err"].as_str().unwrap().contains(named), "{named} is not named: {line}");
        assert!(health(other).is_err(), "nothing of it may apply: {bad}");
    }
    // The next valid configuration applies.
    reload(&mut server, &good, RELOADED);
    assert_eq!(health(other).unwrap(), 200);
    steady.finish().assert_flawless();
}

#[test]
fn of_two_new_listeners_the_first_is_not_bound_when_the_second_cannot_be() {
    let [stays, first] = [port(), port()];
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let second = taken.local_addr().unwrap().port();
    let mut server = start(&config(&[("stays", stays)], ""));
    let wanted = config(&[("first", first), ("second", second)], "");
    let line = reload(&mut server, &wanted, NOT_RELOADED);
    let said = line["err"].as_str().unwrap();
    assert!(said.contains("listeners[1].address") && said.contains("in use"), "{said}");
    assert!(health(first).is_err());
    assert_eq!(health(stays).unwrap(), 200);
    drop(taken);
    reload(&mut server, &wanted, RELOADED);
    assert_eq!((health(first).unwrap(), health(second).unwrap()), (200, 200));
    assert!(health(stays).is_err());
}

#[test]
fn settings_that_need_a_restart_are_named_and_the_others_apply() {
    let [port, other] = [port(), port()];
    let mut server = start(&config(&[("a", port)], ""));
    let wanted = config(&[("a", port), ("b", other)], "")
        .replace(MEMORY, "sessions: { store: 'memory:', anonymous_paths: [/x] }\n");
    let from = server.log().len();
    reload(&mut server, &wanted, RELOADED);
    let line = server.wait_for_log(from, |line| line["setting"].is_string()).unwrap();
    assert_eq!(line["setting"], "sessions", "{line}");
    assert_eq!(health(other).unwrap(), 200);
}
