//! Old deployments: two ports, the old environment names, and the messages of a start about them.

use std::process::Command;

use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init, now_ms};

use crate::BINARY;

const ONE_PORT: &str = include_str!("../../deploy/config/one-port.yaml");
const TWO_PORTS: &str = include_str!("../../deploy/config/ports-3000-3001.yaml");

/// The sample with other ports.
fn on_free_ports(sample: &str) -> String {
    let config = sample.replace("localhost:3000\"", "localhost:0\"").replace("localhost:3001\"", "localhost:0\"");
    assert_ne!(config, sample);
    config
}

fn status(server: &Server, authority: bool, request: &Request) -> u16 {
    let ports = ports(server);
    request.send(if authority { ports.1 } else { ports.0 }).unwrap().status
}

/// Returns the first address of each of the two ports; the second loopback may be missing.
fn ports(server: &Server) -> (std::net::SocketAddr, std::net::SocketAddr) {
    let api = server.addresses[0];
    (api, *server.addresses.iter().find(|address| address.port() != api.port()).unwrap())
}

#[test]
fn on_two_ports_each_path_is_served_only_on_its_original_port() {
    let server = Launch::new(BINARY, &on_free_ports(TWO_PORTS)).start().unwrap();
    let init = |path: &str| init(Wire::V2, path, CLIENT_ID, None).1;
    let anonymous = || sealway_testkit::wire_client::init(Wire::V1, "/session/init/anon", CLIENT_ID, None).1;
    for (request, api, authority) in [
        (init("/session/init"), 200, 404),
        (anonymous(), 200, 404),
        (init("/v1/session/init"), 404, 200),
        (Request::get("/health"), 200, 200),
        (Request::get("/ready"), 404, 200),
        (Request::get(&format!("/v1/session/S-{}", "0".repeat(32))), 404, 400),
        (Request::post(PURCHASE, ORDER), 400, 404),
        (Request::get("/metrics"), 404, 404),
        (Request::get("/"), 404, 404),
    ] {
        assert_eq!(status(&server, true, &request), authority, "{request:?} on 3001");
        assert_eq!(status(&server, false, &request), api, "{request:?} on 3000");
    }
}

#[test]
fn on_two_ports_sessions_of_either_are_good_on_the_api_side_and_its_key_can_be_fetched() {
    let server = Launch::new(BINARY, &on_free_ports(TWO_PORTS)).start().unwrap();
    let (api, authority) = ports(&server);
    let v1 = WireSession::open(authority, Wire::V2, "/v1/session/init").unwrap();
    let (request, pending) = v1.seal(PURCHASE, ORDER);
    let answer = request.send(api).unwrap();
    assert!(sealway_testkit::wire_client::open(&pending, &answer).is_ok(), "{}", answer.text());
    for wire in [Wire::V1, Wire::V2] {
        assert_eq!(WireSession::open(api, wire, "/session/init").unwrap().call(PURCHASE, ORDER).unwrap().0.status, 200);
    }
    let anonymous = WireSession::open(api, Wire::V1, "/session/init/anon").unwrap();
    assert_eq!(anonymous.call(PURCHASE, ORDER).unwrap().0.status, 200);
    let key = Request::get(&format!("/v1/session/{}", v1.id())).header("X-ClientId", CLIENT_ID);
    assert_eq!(key.send(authority).unwrap().status, 200);
    assert_eq!(key.send(api).unwrap().status, 404);
    let health = Request::get("/health").send(api).unwrap();
    assert!(health.text().contains("open_key_endpoint") && health.json()["store"] == "memory", "{}", health.text());
    assert!(server.log().iter().any(|line| line.contains("open_key_endpoint")), "no warning at start");
    // `localhost` is either loopback, where there are two.
    for address in &server.addresses {
        assert_eq!(Request::get("/health").send(*address).unwrap().status, 200, "{address}");
    }
}

#[test]
fn on_one_port_everything_answers() {
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT)).start().unwrap();
    for path in ["/session/init", "/v1/session/init"] {
        let agreed = WireSession::open(server.address(), Wire::V2, path).unwrap();
        assert_eq!(agreed.call(PURCHASE, ORDER).unwrap().0.status, 200);
    }
    for path in ["/health", "/ready"] {
        assert_eq!(Request::get(path).send(server.address()).unwrap().status, 200);
    }
    let key = Request::get(&format!("/v1/session/S-{}", "0".repeat(32))).header("X-ClientId", CLIENT_ID);
    assert_eq!(key.send(server.address()).unwrap().status, 404, "closed unless it is opened");
}

#[test]
fn the_compat_environment_sets_lifetimes_windows_and_origins() {
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT))
        .env("SESSION_TTL_MIN_SEC", "10")
        .env("SESSION_TTL_MAX_SEC", "20")
        .env("SESSION_TTL_DEFAULT_SEC", "15")
        .env("SESSION_TTL_ANONYMOUS_SEC", "100")
        .env("SESSION_TTL_AUTHENTICATED_SEC", "200")
        .env("TIMESTAMP_WINDOW_MS", "5000")
        .env("CORS_ORIGIN", "http://one.example, http://two.example")
        .start()
        .unwrap();
    let granted = |path: &str, ttl: Option<u32>, authorization: &str| {
        let request = init(Wire::V2, path, CLIENT_ID, ttl).1.header("Authorization", authorization);
        request.send(server.address()).unwrap().json()["expiresInSec"].as_u64()
    };
    assert_eq!(granted("/session/init", None, ""), Some(15));
    assert_eq!(granted("/session/init", Some(1), ""), Some(10));
    assert_eq!(granted("/session/init", Some(99), ""), Some(20));
    assert_eq!(granted("/v1/session/init", None, ""), Some(100));
    assert_eq!(granted("/v1/session/init", None, "Bearer x"), Some(200));
    let agreed = WireSession::open(server.address(), Wire::V2, "/v1/session/init").unwrap();
    let late = agreed.seal_as(PURCHASE, ORDER, &(now_ms() - 10_000).to_string(), "late").0;
    late.send(server.address()).unwrap().assert_error("outside 5 s", 400, "CRYPTO_ERROR");
    for (origin, allowed) in [("http://two.example", true), ("http://localhost:4200", false)] {
        let answer = Request::get("/health").header("Origin", origin).send(server.address()).unwrap();
        assert_eq!(answer.header("access-control-allow-origin").is_some(), allowed, "{origin}");
    }
}

#[test]
fn a_nonce_lifetime_below_twice_the_window_is_raised_with_a_warning_never_refused() {
    for (name, value) in [("NONCE_TTL_SEC", "300"), ("REPLAY_NONCE_TTL_SEC", "1")] {
        let server = Launch::new(BINARY, &on_free_ports(ONE_PORT)).env(name, value).start().unwrap();
        let warned = server.log().into_iter().find(|line| line.contains("nonce_ttl_ms")).unwrap();
        assert!(warned.contains("WARN") && warned.contains("600000"), "{warned}");
    }
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT)).env("REPLAY_NONCE_TTL_SEC", "600").start().unwrap();
    assert!(!server.log().iter().any(|line| line.contains("nonce_ttl_ms")));
}

/// Returns the number of calls with the old environment: for the short form, or for `make e2e-faults`.
fn calls() -> usize {
    if sealway_testkit::fleet::is_full() { 1_000_000 } else { 2500 }
}

/// Sends inits over one connection, as a proxy would for this client. Returns the number of answers of each status.
fn inits(server: &Server, count: usize, client: &str, body: Option<&str>) -> std::collections::BTreeMap<u16, usize> {
    let mut connection = sealway_testkit::raw_http::Connection::open(server.address()).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..count {
        let mut request = init(Wire::V2, "/v1/session/init", CLIENT_ID, None).1.header("X-Forwarded-For", client);
        if let Some(body) = body {
            request = request.body(body);
        }
        connection.write(&request.header("Connection", "keep-alive").bytes()).unwrap();
        *seen.entry(connection.read_answer("POST").unwrap().status).or_insert(0) += 1;
    }
    seen
}

fn behind_a_proxy() -> String {
    let local = "localhost:0\"\n    trusted_proxies: [\"127.0.0.0/8\", \"::1\"]";
    on_free_ports(ONE_PORT).replace("localhost:0\"", local)
}

#[test]
fn the_old_bound_of_nonces_is_not_filled_by_malformed_inits_nor_by_one_client() {
    let server = Launch::new(BINARY, &behind_a_proxy())
        .env("MEMORY_NONCE_MAX_SIZE", "1000")
        .env("MEMORY_NONCE_CLEANUP_THRESHOLD", "100")
        .start()
        .unwrap();
    assert!(server.log().iter().any(|line| line.contains("\"calls_per_sec\":1,")), "{:?}", server.log());
    let malformed = inits(&server, 1500, "192.0.2.1", Some(r#"{"clientPublicKey":"AAAA"}"#));
    assert_eq!(malformed.into_iter().collect::<Vec<_>>(), [(400, 1500)]);
    let flood = inits(&server, 1500, "192.0.2.1", None);
    assert!(!flood.contains_key(&503) && flood[&429] > 300, "{flood:?}");
    // Beside it.
    assert_eq!(inits(&server, 3, "192.0.2.2", None).into_iter().collect::<Vec<_>>(), [(200, 3)]);
    assert_eq!(Request::get("/ready").send(server.address()).unwrap().status, 200);
}

#[test]
fn with_redis_the_compat_environment_bounds_nothing_but_the_fallback() {
    let redis = sealway_testkit::redis::Redis::options().password("p@ss:w/rd").start().unwrap();
    let kek = sealway_proto::wire::base64::encode(&sealway_testkit::wire_client::random::<32>());
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT))
        .env("REDIS_URL", &redis.url())
        .env("REDIS_PASSWORD", "p@ss:w/rd")
        .env("MEMORY_NONCE_MAX_SIZE", "1000")
        .env("MEMORY_NONCE_CLEANUP_THRESHOLD", "800")
        .env("CORS_ORIGIN", "true")
        .env("PG_POOL_MAX", "20")
        .env("SEALWAY_KEK", &format!("k {kek}"))
        .start()
        .unwrap();
    let log = server.log().join("\n");
    assert_eq!(log.matches("PG_POOL_MAX").count(), 1, "{log}");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while WireSession::open(server.address(), Wire::V2, "/session/init").is_err() {
        assert!(std::time::Instant::now() < until, "Redis is not used: {}", server.log().join("\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let seen = inits(&server, calls(), "192.0.2.1", None);
    // A busy machine may fail single inits; missing resources would fail most of them.
    let granted = seen.get(&200).copied().unwrap_or_default();
    assert!(granted > calls() * 9 / 10 && !seen.contains_key(&429), "{seen:?}");
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    for _ in 0..10 {
        assert_eq!(agreed.call(PURCHASE, ORDER).unwrap().0.status, 200);
    }
    let ready = Request::get("/ready").send(server.address()).unwrap();
    assert_eq!(ready.status, 200, "{}", ready.text());
    let answer = Request::get("/health").header("Origin", "http://any.example").send(server.address()).unwrap();
    assert!(answer.header("access-control-allow-origin").is_some());
}

/// Returns the output of a start that must fail.
fn failing(env: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.yaml");
    std::fs::write(&file, on_free_ports(ONE_PORT)).unwrap();
    let mut command = Command::new(BINARY);
    command.arg("serve").arg("--config").arg(&file).env_clear().envs(env.iter().copied());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{env:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_bad_integer_stops_the_start_and_is_named() {
    for (name, value) in [
        ("PORT", "eighty"),
        ("PORT", "65536"),
        ("SESSION_TTL_MIN_SEC", "5m"),
        ("SESSION_TTL_MAX_SEC", "-1"),
        ("SESSION_TTL_DEFAULT_SEC", "1.5"),
        ("SESSION_TTL_ANONYMOUS_SEC", "x"),
        ("SESSION_TTL_AUTHENTICATED_SEC", "0x10"),
        ("TIMESTAMP_WINDOW_MS", "1e5"),
        ("REPLAY_TIMESTAMP_WINDOW_SEC", "99999999999999999999"),
        ("NONCE_TTL_SEC", "five"),
        ("REPLAY_NONCE_TTL_SEC", "0"),
        ("MEMORY_NONCE_MAX_SIZE", "999"),
        ("MEMORY_NONCE_CLEANUP_THRESHOLD", "99"),
    ] {
        let said = failing(&[(name, value)]);
        assert!(said.contains(name) && said.contains(value), "{name}={value}: {said}");
    }
    let both = failing(&[("PORT", "x"), ("NONCE_TTL_SEC", "y")]);
    assert!(both.contains("PORT") && both.contains("NONCE_TTL_SEC"), "{both}");
    let source = failing(&[("SESSION_TTL_MAX_SEC", "99999999")]);
    assert!(source.contains("from the environment variable SESSION_TTL_MAX_SEC"), "{source}");
    let threshold = failing(&[("MEMORY_NONCE_MAX_SIZE", "1000"), ("MEMORY_NONCE_CLEANUP_THRESHOLD", "2000")]);
    assert!(threshold.contains("MEMORY_NONCE_CLEANUP_THRESHOLD"), "{threshold}");
}

#[test]
fn the_old_port_name_chooses_the_port() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT)).env("PORT", &free.to_string()).start().unwrap();
    assert!(server.addresses.iter().all(|address| address.port() == free), "{:?}", server.addresses);
}

#[test]
fn our_own_environment_names_come_after_the_old_ones() {
    let server = Launch::new(BINARY, &on_free_ports(ONE_PORT))
        .env("SESSION_TTL_ANONYMOUS_SEC", "100")
        .env("SEALWAY_SESSIONS__TTL__V1_ANONYMOUS_SEC", "111")
        .start()
        .unwrap();
    let answer = init(Wire::V2, "/v1/session/init", CLIENT_ID, None).1.send(server.address()).unwrap();
    assert_eq!(answer.json()["expiresInSec"], 111);
}
