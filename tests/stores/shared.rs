//! Several gateways that share a store, as clients and operators see them: PostgreSQL and Redis, PostgreSQL alone, Redis alone,
//! another authority.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use sealway_proto::wire::Wire;
use sealway_testkit::fleet::Fleet;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::redis::Redis;
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession};
use serde_json::{Value, json};

use crate::{BINARY, SOON};

const WIRES: [Wire; 2] = [Wire::V1, Wire::V2];

fn sessions(store: &str, keys: &Path, more: &str) -> String {
    let migrate = if store.contains("postgres") { ", postgres: { migrate: true }" } else { "" };
    format!("\nsessions: {{ store: '{store}', kek_file: '{}'{migrate}{more} }}\n", keys.display())
}

/// Gateways on `store` that open sessions.
fn fleet(count: usize, store: &str, more: &str) -> Fleet {
    let fleet = Fleet::start(BINARY, count, |_, keys| sessions(store, keys, more)).unwrap();
    fleet.wait_for_ready(SOON).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    fleet
}

/// A gateway whose admin listener is known.
fn gateway(store: &str, keys: &Path, more: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/], path: [/health, /ready] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
{}",
        sessions(store, keys, more)
    );
    let server = Launch::new(BINARY, &config).start().unwrap();
    wait_until("it grants", || {
        let agreed = WireSession::open(server.address(), Wire::V2, "/session/init");
        agreed.is_ok_and(|agreed| agreed.seal(PURCHASE, ORDER).0.send(server.address()).unwrap().status == 200)
    });
    server
}

fn key_file(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("sessions.kek");
    let key = base64::engine::general_purpose::STANDARD.encode(sealway_testkit::wire_client::random::<32>());
    std::fs::write(&path, format!("kek-1 {key}\n")).unwrap();
    path
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "it does not come to that: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

fn ask(server: &Server, path: &str) -> (u16, Value) {
    let answer = Request::get(path).send(server.address()).unwrap();
    let mut body = answer.json();
    body.as_object_mut().unwrap().remove("timestamp");
    (answer.status, body)
}

fn admin(method: &str, server: &Server, path: &str) -> u16 {
    let request = Request::new(method, path).header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    request.send(server.admin()).unwrap().status
}

/// The shared stores, each with its name.
fn stores(postgres: &Postgres, redis: &Redis) -> [(&'static str, String); 3] {
    let (database, other) = (postgres.create_database().unwrap(), postgres.create_database().unwrap());
    [("tiered", format!("{database} + {}", redis.url())), ("postgres", other), ("redis", format!("{}/1", redis.url()))]
}

#[test]
fn a_session_agreed_at_one_gateway_is_used_at_every_other_and_a_request_is_accepted_once_among_them() {
    let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    for (name, store) in stores(&postgres, &redis) {
        let fleet = fleet(3, &store, "");
        let addresses = fleet.addresses();
        for (wire, from) in WIRES.into_iter().zip(0..) {
            let agreed = WireSession::open(addresses[from], wire, "/session/init").unwrap();
            for address in &addresses {
                let (request, pending) = agreed.seal(PURCHASE, ORDER);
                let answer = request.send(*address).unwrap();
                assert_eq!(answer.status, 200, "{name}: {}", answer.text());
                sealway_testkit::wire_client::open(&pending, &answer).unwrap();
                for address in &addresses {
                    let again = request.send(*address).unwrap();
                    again.assert_error(&format!("{name}: a replay"), 400, "CRYPTO_ERROR");
                }
            }
            // Sent to all three at once, repeatedly.
            for _ in 0..20 {
                let request = agreed.seal(PURCHASE, ORDER).0;
                let tries: Vec<_> = addresses
                    .iter()
                    .map(|address| {
                        let (request, address) = (request.clone(), *address);
                        std::thread::spawn(move || request.send(address).unwrap().status)
                    })
                    .collect();
                let mut answers: Vec<u16> = tries.into_iter().map(|thread| thread.join().unwrap()).collect();
                answers.sort_unstable();
                assert_eq!(answers, [200, 400, 400], "{name}");
            }
        }
    }
}

#[test]
fn a_revoked_session_is_refused_by_every_gateway_within_a_second() {
    let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let keys = key_file(&folder);
    for (name, store) in stores(&postgres, &redis) {
        let gateways = [(); 3].map(|()| gateway(&store, &keys, ""));
        let agreed = WireSession::open(gateways[0].address(), Wire::V2, "/session/init").unwrap();
        let call = |gateway: &Server| agreed.seal(PURCHASE, ORDER).0.send(gateway.address()).unwrap().status;
        for gateway in &gateways {
            assert_eq!(call(gateway), 200, "{name}");
        }
        assert_eq!(admin("DELETE", &gateways[1], &format!("/admin/sessions/{}", agreed.id())), 200);
        let took = wait_until("revoked everywhere", || gateways.iter().all(|gateway| call(gateway) == 401));
        assert!(took < Duration::from_secs(1), "{name}: {took:?}");
        assert_eq!(admin("DELETE", &gateways[2], &format!("/admin/sessions/{}", agreed.id())), 404, "{name}");
        // A gateway that starts later has none either.
        assert_eq!(call(&gateway(&store, &keys, "")), 401, "{name}");
    }
}

#[test]
fn neither_a_dump_nor_a_snapshot_holds_a_session_key_in_any_spelling() {
    let (postgres, redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let keys = key_file(&folder);
    let gateway =
        gateway(&format!("{} + {}", postgres.url(), redis.url()), &keys, " }\ncompat: { open_key_endpoint: true");
    let agreed: Vec<_> =
        (0..5).map(|_| WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap()).collect();
    let mut session_keys = Vec::new();
    for agreed in &agreed {
        agreed.call(PURCHASE, ORDER).unwrap();
        let request = Request::get(&format!("/v1/session/{}", agreed.id())).header("X-ClientId", CLIENT_ID);
        let key = request.send(gateway.admin()).unwrap().json()["sessionKey"].as_str().unwrap().to_owned();
        session_keys.push(base64::engine::general_purpose::STANDARD.decode(key).unwrap());
    }
    let in_redis = |id: &str| redis.cli(&["--scan", "--pattern", &format!("*{id}")]).unwrap().contains(id);
    wait_until("Redis has copies of the sessions", || agreed.iter().all(|agreed| in_redis(&agreed.id())));
    let (dump, snapshot) = (postgres.dump("postgres").unwrap(), redis.save().unwrap());
    let holds = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    for (agreed, key) in agreed.iter().zip(&session_keys) {
        assert!(dump.contains(&agreed.id()) && holds(&snapshot, agreed.id().as_bytes()), "the search finds nothing");
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = base64::engine::general_purpose::STANDARD.encode(key);
        let unpadded = base64.trim_end_matches('=');
        for (name, bytes) in [("the dump", dump.as_bytes()), ("the snapshot", snapshot.as_slice())] {
            for text in [key.as_slice(), hex.as_bytes(), hex.to_uppercase().as_bytes(), unpadded.as_bytes()] {
                assert!(!holds(bytes, text), "{name} holds a session key");
            }
        }
    }
}

#[test]
fn health_and_readiness_report_servers_that_are_down_and_back() {
    let (mut postgres, mut redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let keys = key_file(&folder);
    let gateway = gateway(&format!("{} + {}", postgres.url(), redis.url()), &keys, "");
    let health = |postgres: &str, redis: &str| {
        let status = if (postgres, redis) == ("ok", "ok") { "ok" } else { "degraded" };
        (200, json!({"status": status, "redis": redis, "postgres": postgres, "store": "tiered"}))
    };
    let unready =
        |database: &str, cache: &str| (503, json!({"status": "unhealthy", "database": database, "cache": cache}));
    let is_ready = || {
        let (status, mut body) = ask(&gateway, "/ready");
        let pool = body.as_object_mut().unwrap().remove("pool");
        let is_pool = pool
            .is_some_and(|pool| ["totalCount", "idleCount", "waitingCount"].iter().all(|name| pool[*name].is_u64()));
        is_pool && (status, body) == (200, json!({"status": "ready", "database": "up", "cache": "up"}))
    };
    assert!(is_ready(), "{:?}", ask(&gateway, "/ready"));
    assert_eq!(ask(&gateway, "/health"), health("ok", "ok"));

    redis.kill().unwrap();
    wait_until("Redis is missed", || ask(&gateway, "/ready") == unready("up", "down"));
    assert_eq!(ask(&gateway, "/health"), health("ok", "disconnected"));
    postgres.kill().unwrap();
    wait_until("PostgreSQL is missed too", || ask(&gateway, "/ready") == unready("down", "down"));
    assert_eq!(ask(&gateway, "/health"), health("disconnected", "disconnected"));
    redis.start_again().unwrap();
    postgres.start_again().unwrap();
    wait_until("both are back", is_ready);
    assert_eq!(ask(&gateway, "/health"), health("ok", "ok"));

    postgres.kill().unwrap();
    wait_until("PostgreSQL is missed", || ask(&gateway, "/ready") == unready("down", "up"));
    assert_eq!(ask(&gateway, "/health"), health("disconnected", "ok"));
}

#[test]
fn with_the_fallback_to_memory_calls_go_on_without_redis_and_health_says_so() {
    let (postgres, mut redis) = (Postgres::start().unwrap(), Redis::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let keys = key_file(&folder);
    let fall_back = " }\nreplay: { nonces_max: 1000 }\ncompat: { nonce_fallback: memory";
    let gateway = gateway(&format!("{} + {}", postgres.url(), redis.url()), &keys, fall_back);
    let agreed = WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap();
    let before = agreed.seal(PURCHASE, ORDER).0;
    assert_eq!(before.send(gateway.address()).unwrap().status, 200);
    redis.kill().unwrap();
    let degraded = || {
        let (status, body) = ask(&gateway, "/ready");
        status == 200 && body["cache"] == "degraded"
    };
    wait_until("Redis is missed", degraded);
    assert_eq!(ask(&gateway, "/health").1["redis"], "disconnected");
    let send = |request: &Request| request.send(gateway.address()).unwrap();
    send(&before).assert_error("a replay of before", 400, "CRYPTO_ERROR");
    let during = agreed.seal(PURCHASE, ORDER).0;
    assert_eq!(send(&during).status, 200);
    send(&during).assert_error("a replay", 400, "CRYPTO_ERROR");
    // One session does not fill it, and no entry is evicted.
    let mut last = 200;
    for _ in 0..1100 {
        last = send(&agreed.seal(PURCHASE, ORDER).0).status;
        if last != 200 {
            break;
        }
    }
    assert_eq!(last, 429, "more than its share was taken");
    for request in [&before, &during] {
        assert_eq!(send(request).status, 429, "its session has had its share, and no replay is looked at");
    }
    redis.start_again_empty().unwrap();
    wait_until("Redis is available again", || ask(&gateway, "/ready").1["cache"] == "up");
    for request in [&before, &during] {
        send(request).assert_error("a replay after the return", 400, "CRYPTO_ERROR");
    }
}

#[test]
fn an_api_side_that_keeps_nothing_asks_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("authority.secret");
    std::fs::write(&secret, "a-secret-between-the-two\n").unwrap();
    let secret = secret.display();
    let keys = key_file(&folder);
    let authority = gateway("memory:", &keys, &format!(", authority_secret_file: '{secret}'"));
    let url = format!("http://{}", authority.address());
    let mut sides = [(); 2].map(|()| gateway(&url, &keys, &format!(", remote: {{ secret_file: '{secret}' }}")));
    let agreed = WireSession::open(authority.address(), Wire::V2, "/session/init").unwrap();
    for side in &sides {
        agreed.call(PURCHASE, ORDER).unwrap();
        let request = agreed.seal(PURCHASE, ORDER).0;
        assert_eq!(request.send(side.address()).unwrap().status, 200);
        for at in [side.address(), authority.address(), sides[0].address(), sides[1].address()] {
            request.send(at).unwrap().assert_error("a replay", 400, "CRYPTO_ERROR");
        }
    }
    assert_eq!(admin("DELETE", &authority, &format!("/admin/sessions/{}", agreed.id())), 200);
    let call = |side: &Server| agreed.seal(PURCHASE, ORDER).0.send(side.address()).unwrap().status;
    let took = wait_until("revoked", || sides.iter().all(|side| call(side) == 401));
    assert!(took < Duration::from_secs(1), "{took:?}");
    // Without the authority no session is opened, and the log says so.
    drop(authority);
    wait_until("it is missed", || ask(&sides[0], "/ready").0 == 503);
    let answer = Request::get("/ready").send(sides[0].address()).unwrap();
    assert_eq!(answer.json()["database"], "down");
    let refused = sealway_testkit::wire_client::init(Wire::V2, "/session/init", CLIENT_ID, None).1;
    let refused = refused.send(sides[0].address()).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(sides[0].stop().unwrap().success());
}
