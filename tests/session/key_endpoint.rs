//! `GET /v1/session/:id`, `/health`, `/ready` and the admin listener over real HTTP.

use std::sync::OnceLock;
use std::time::Duration;

use sealway_proto::wire::Wire;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, now_ms};
use serde_json::json;

use crate::BINARY;
use crate::init_v1::assert_message;

fn config(more: &str) -> String {
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/], path: [/health, /ready] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
{more}
"
    )
}

/// A server with an open key endpoint, whose sessions may be short.
fn open_server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let config = config(
        "compat: { open_key_endpoint: true }\nsessions: { ttl: { min_sec: 1 }, anonymous_paths: [/transaction/purchase] }",
    );
    SERVER.get_or_init(|| Launch::new(BINARY, &config).start().unwrap())
}

fn closed_server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Launch::new(BINARY, &config("")).start().unwrap())
}

fn key_of(id: &str) -> Request {
    Request::get(&format!("/v1/session/{id}")).header("X-ClientId", CLIENT_ID)
}

fn admin(request: &Request) -> Answer {
    let request = request.clone().set("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    request.send(open_server().admin()).unwrap()
}

#[test]
fn an_open_key_endpoint_gives_the_key_to_any_caller_with_id_and_client() {
    let server = open_server();
    for path in ["/session/init", "/v1/session/init"] {
        let agreed = WireSession::open(server.address(), Wire::V2, path).unwrap();
        let answer = key_of(&agreed.id()).send(server.address()).unwrap();
        let body = answer.json();
        assert_eq!((answer.status, body.as_object().unwrap().len()), (200, 3), "{body}");
        assert_eq!(body["sessionId"], agreed.id());
        assert_eq!(body["sessionKey"].as_str().unwrap().len(), 44);
        let left = body["expiresAt"].as_u64().unwrap() - now_ms();
        assert!((1_790_000..=1_800_000).contains(&left), "{left}");
    }
}

#[test]
fn the_rows_of_the_key_endpoint_stand_in_their_order() {
    let server = open_server();
    let send = |request: &Request| request.send(server.address()).unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let unknown = format!("S-{}", "0".repeat(32));
    let no_client = ["X-ClientId header is required"];
    for id in ["nonsense", &unknown, &agreed.id()] {
        assert_message(id, &send(&key_of(id).without("x-clientid")), 400, "Bad Request", no_client[0]);
        assert_message(id, &send(&key_of(id).set("X-ClientId", "")), 400, "Bad Request", no_client[0]);
    }
    let upper = format!("S-{}", "A".repeat(32));
    let anonymous = WireSession::open(server.address(), Wire::V1, "/session/init/anon").unwrap().id();
    for id in ["S-", "x", &upper, &unknown[..33], &format!("{unknown}0"), &unknown[2..], &anonymous, "a/b"] {
        for request in [key_of(id), key_of(id).set("X-ClientId", "another")] {
            assert_message(id, &send(&request), 400, "Bad Request", "Invalid session ID format");
        }
    }
    assert_message("unknown", &send(&key_of(&unknown)), 404, "Not Found", "Session not found");
    let another = key_of(&agreed.id()).set("X-ClientId", "another");
    assert_message("another's", &send(&another), 403, "Forbidden", "Not authorized to access this session");
    // Sessions of wire 1 have no client id, so no request can name it.
    let wire_1 = WireSession::open(server.address(), Wire::V1, "/session/init").unwrap().id();
    assert_message("wire 1", &send(&key_of(&wire_1)), 403, "Forbidden", "Not authorized to access this session");
    assert_eq!(send(&key_of(&agreed.id()).method("POST")).status, 405);
}

#[test]
fn an_expired_session_is_410_to_its_owner_403_to_others_and_401_on_calls() {
    // A separate server: the purge, which turns 410 into 404, runs ten seconds after its start.
    let config = config("compat: { open_key_endpoint: true }\nsessions: { ttl: { min_sec: 1 } }");
    let server = Launch::new(BINARY, &config).start().unwrap();
    let open = |wire| WireSession::open_as(server.address(), wire, "/session/init", CLIENT_ID, Some(1)).unwrap();
    let (two, one) = (open(Wire::V2), open(Wire::V1));
    assert_eq!(two.answer.json()["expiresInSec"], 1);
    std::thread::sleep(Duration::from_millis(1100));
    let send = |request: &Request| request.send(server.address()).unwrap();
    assert_message("expired", &send(&key_of(&two.id())), 410, "Gone", "Session has expired");
    let another = key_of(&two.id()).set("X-ClientId", "another");
    assert_message("another's", &send(&another), 403, "Forbidden", "Not authorized to access this session");
    for agreed in [&one, &two] {
        send(&agreed.seal(PURCHASE, ORDER).0).assert_error("expired", 401, "SESSION_EXPIRED");
    }
}

#[test]
fn a_closed_key_endpoint_is_404_and_its_secret_opens_it() {
    let server = closed_server();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    key_of(&agreed.id()).send(server.address()).unwrap().assert_error("closed", 404, "NOT_FOUND");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "0123456789abcdef\n").unwrap();
    let config = config("sessions: { key_endpoint_secret_file: secret }");
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    for authorization in ["", "Bearer wrong", "0123456789abcdef", "Bearer 0123456789abcde", "Bearer 0123456789abcdefg"]
    {
        let answer = key_of(&agreed.id()).header("Authorization", authorization).send(server.address()).unwrap();
        assert_eq!((answer.status, answer.json()["error"].as_str()), (401, Some("Unauthorized")), "{authorization}");
    }
    let answer =
        key_of(&agreed.id()).header("Authorization", "Bearer 0123456789abcdef").send(server.address()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn an_open_key_endpoint_says_so_in_the_log_and_in_health_and_a_closed_one_does_not() {
    let warns = |server: &Server| {
        server.log().iter().any(|line| line.contains("open_key_endpoint") && line.contains("\"WARN\""))
    };
    let health = |server: &Server| Request::get("/health").send(server.address()).unwrap();
    assert!(warns(open_server()));
    assert!(health(open_server()).text().contains("open_key_endpoint"), "{}", health(open_server()).text());
    assert!(!warns(closed_server()));
    assert!(health(closed_server()).json().get("warnings").is_none());
}

#[test]
fn health_and_readiness_have_their_members() {
    let server = closed_server();
    let send = |path: &str| Request::get(path).send(server.address()).unwrap();
    let is_iso = |value: &serde_json::Value| {
        let text = value.as_str().unwrap();
        text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
    };
    let answer = send("/health");
    let health = answer.json();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(health["status"], "ok");
    assert_eq!((health["redis"].as_str(), health["postgres"].as_str()), (Some("unused"), Some("unused")));
    assert_eq!(health["store"], "memory");
    assert!(is_iso(&health["timestamp"]), "{health}");
    let answer = send("/ready");
    let ready = answer.json();
    assert_eq!(answer.status, 200);
    assert_eq!((ready["status"].as_str(), ready["database"].as_str()), (Some("ready"), Some("up")));
    assert_eq!(ready["cache"], "up");
    let mut pool: Vec<&String> = ready["pool"].as_object().unwrap().keys().collect();
    pool.sort();
    assert_eq!(pool, ["idleCount", "totalCount", "waitingCount"]);
    assert!(ready["pool"].as_object().unwrap().values().all(serde_json::Value::is_u64) && is_iso(&ready["timestamp"]));
    let head = Request::new("HEAD", "/health").send(server.address()).unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(Request::post("/health", "").send(server.address()).unwrap().status, 405);
}

#[test]
fn the_admin_listener_requires_its_token_except_for_probes() {
    let server = open_server();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let paths = ["/metrics", "/admin/sessions/x", "/nowhere"];
    for path in paths {
        for token in ["", "Bearer", "Bearer wrong", ADMIN_TOKEN, &format!("Bearer {ADMIN_TOKEN}x"), "Basic eDp5"] {
            let request = Request::get(path).header("Authorization", token).header("X-ClientId", CLIENT_ID);
            let answer = request.send(server.admin()).unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (401, r#"{"error":"UNAUTHORIZED"}"#), "{path} {token}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    for path in ["/health", "/ready"] {
        assert_eq!(Request::get(path).send(server.admin()).unwrap().status, 200);
    }
    assert_eq!(admin(&Request::get("/nowhere")).status, 404);
    assert_eq!(admin(&Request::post("/metrics", "")).status, 405);
    // The key endpoint is as open or closed here as on every listener.
    assert_eq!(key_of(&agreed.id()).send(server.admin()).unwrap().json()["sessionId"], agreed.id());
    let closed = closed_server();
    let agreed = WireSession::open(closed.address(), Wire::V2, "/session/init").unwrap();
    let request = key_of(&agreed.id()).header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    assert_eq!(request.send(closed.admin()).unwrap().status, 404);
    // The public listener serves none of it.
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    for request in [Request::get("/metrics"), Request::new("DELETE", &format!("/admin/sessions/{}", agreed.id()))] {
        let request = request.header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        assert!([400, 404, 405].contains(&request.send(server.address()).unwrap().status));
    }
}

#[test]
fn a_revoked_session_is_401_on_its_next_call() {
    let server = open_server();
    for wire in [Wire::V1, Wire::V2] {
        let agreed = WireSession::open(server.address(), wire, "/session/init").unwrap();
        assert_eq!(agreed.call(PURCHASE, ORDER).unwrap().0.status, 200);
        let delete = |id: &str| admin(&Request::new("DELETE", &format!("/admin/sessions/{id}")));
        let answer = delete(&agreed.id());
        assert_eq!((answer.status, answer.json()), (200, json!({"revoked": agreed.id()})));
        let (request, _) = agreed.seal(PURCHASE, ORDER);
        request.send(server.address()).unwrap().assert_error("revoked", 401, "SESSION_EXPIRED");
        assert_eq!(delete(&agreed.id()).status, 404);
        assert_eq!(delete("nonsense").status, 400);
    }
}

#[test]
fn the_metrics_are_prometheus_text_and_count_what_happened() {
    let server = open_server();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    agreed.call(PURCHASE, ORDER).unwrap();
    Request::post("/session/init", "").send(server.address()).unwrap();
    let answer = admin(&Request::get("/metrics"));
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    for name in [
        "sealway_inits_total{wire=\"2\"}",
        "sealway_sealed_calls_total{wire=\"2\"}",
        "sealway_refusals_total{on=\"init\",class=\"json_invalid\"}",
        "sealway_sessions ",
        "sealway_nonces{scope=\"sealed\"}",
        "sealway_requests_total{route=\"routes[0]\",status=\"2xx\"}",
        "sealway_request_seconds",
    ] {
        assert!(text.contains(name), "{name} is not in:\n{text}");
    }
    assert!(!text.contains(&agreed.id()), "no session is named");
}
