//! HTTP as real clients and browsers use it: CORS, `Server-Timing`, upgrades that the gateway declines, h2c, slow heads.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_proto::wire::Wire;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init, open};

use crate::BINARY;

const PAGE: &str = "http://localhost:4200";

fn server() -> SocketAddr {
    static SETUP: OnceLock<(Server, Upstream)> = OnceLock::new();
    let (server, _) = SETUP.get_or_init(|| {
        let upstream = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/], path: [/health, /ready] }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop }}
  - {{ match: {{ path_prefix: /either/ }}, sealed: optional, upstream: service }}
  - {{ match: {{ path_prefix: /plain/ }}, upstream: service }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, service: {{ servers: ['http://{}'] }} }}
sessions: {{ anonymous_paths: [] }}
cors: {{ origins: ['{PAGE}', 'http://localhost:4201'] }}
limits: {{ header_timeout_ms: 700 }}
",
            upstream.address
        );
        (Launch::new(BINARY, &config).start().unwrap(), upstream)
    });
    server.address()
}

fn list(answer: &Answer, name: &str) -> Vec<String> {
    answer.header(name).unwrap_or_default().split(',').map(|item| item.trim().to_ascii_lowercase()).collect()
}

const WIRE_HEADERS: [&str; 10] = [
    "x-kid",
    "x-idempotency-key",
    "x-nonce",
    "x-timestamp",
    "x-enc-alg",
    "x-iv",
    "x-tag",
    "x-aad",
    "x-seal",
    "x-sealed",
];

#[test]
fn a_cors_preflight_is_answered_on_every_own_route() {
    for path in [
        "/session/init",
        "/session/init/anon",
        "/v1/session/init",
        "/v1/session/S-0",
        "/health",
        "/ready",
        PURCHASE,
        "/either/x",
        "/nowhere",
        "/plain/x",
    ] {
        for origin in [PAGE, "http://localhost:4201"] {
            let question = Request::new("OPTIONS", path)
                .header("Origin", origin)
                .header("Access-Control-Request-Method", "POST")
                .header("Access-Control-Request-Headers", "content-type,x-kid");
            let answer = question.send(server()).unwrap();
            assert_eq!((answer.status, answer.body.len()), (204, 0), "{path}");
            assert_eq!(answer.header("access-control-allow-origin"), Some(origin), "{path}");
            let allowed = list(&answer, "access-control-allow-headers");
            for name in ["content-type", "x-clientid", "authorization"].iter().chain(&WIRE_HEADERS) {
                assert!(allowed.contains(&(*name).to_owned()), "{path}: {name} in {allowed:?}");
            }
            assert!(list(&answer, "access-control-allow-methods").contains(&"post".into()));
            assert!(answer.header("access-control-max-age").unwrap().parse::<u32>().unwrap() > 0);
            assert!(list(&answer, "vary").contains(&"origin".into()));
        }
        let plain = Request::new("OPTIONS", path).send(server()).unwrap();
        let want = match path {
            "/nowhere" => 404,
            // Not a preflight: the service answers this request itself.
            "/plain/x" => 200,
            _ => 204,
        };
        assert_eq!(plain.status, want, "{path}");
        assert!(plain.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn a_page_may_read_answers_and_errors_and_another_origin_none() {
    let agreed = WireSession::open(server(), Wire::V2, "/session/init").unwrap();
    let requests = [
        (200, init(Wire::V2, "/session/init", CLIENT_ID, None).1),
        (200, init(Wire::V2, "/v1/session/init", CLIENT_ID, None).1),
        (200, agreed.seal(PURCHASE, ORDER).0),
        (200, Request::get("/health")),
        (200, Request::post("/plain/x", "x")),
        (400, Request::post("/session/init", "")),
        (400, Request::post(PURCHASE, "")),
        (401, agreed.seal(PURCHASE, ORDER).0.set("X-Kid", format!("session:S-{}", "0".repeat(32)))),
        (404, Request::get("/nowhere")),
        (405, Request::get(PURCHASE)),
        (413, Request::post("/session/init", vec![b' '; 70_000])),
        (415, init(Wire::V2, "/v1/session/init", CLIENT_ID, None).1.without("content-type")),
    ];
    for (status, request) in requests {
        let stranger = request.clone().header("Origin", "http://evil.example");
        // The foreign origin comes first: a rejection must not come from the nonce, so sealed requests are sent once.
        if status != 200 {
            let answer = stranger.send(server()).unwrap();
            assert_eq!(answer.status, status);
            let cors = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control-"));
            assert_eq!(cors.count(), 0, "{answer:?}");
        }
        let answer = request.header("Origin", PAGE).send(server()).unwrap();
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE), "{status}");
        let exposed = list(&answer, "access-control-expose-headers");
        for name in ["server-timing"].iter().chain(&WIRE_HEADERS) {
            assert!(exposed.contains(&(*name).to_owned()), "{name} in {exposed:?}");
        }
    }
    for origin in
        ["null", "http://localhost:42000", "https://localhost:4200", "http://localhost", "HTTP://LOCALHOST:4200"]
    {
        let answer = Request::get("/health").header("Origin", origin).send(server()).unwrap();
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
    }
}

/// Returns the names in a `Server-Timing` header after checking its format: `name;dur=1.234`, three decimals.
fn timing(answer: &Answer) -> Vec<String> {
    let value = answer.header("server-timing").expect("Server-Timing");
    let names = value.split(", ").map(|entry| {
        let (name, dur) = entry.split_once(";dur=").unwrap_or_else(|| panic!("{value}"));
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{value}");
        let (whole, decimals) = dur.split_once('.').unwrap_or_else(|| panic!("{value}"));
        assert!(!whole.is_empty() && decimals.len() == 3, "{value}");
        assert!(whole.bytes().chain(decimals.bytes()).all(|b| b.is_ascii_digit()), "{value}");
        name.to_owned()
    });
    names.collect()
}

#[test]
fn server_timing_names_the_steps_and_ends_in_total() {
    let steps_of_init =
        ["replay-protection", "validate-pubkey", "ecdh-keygen", "ecdh-compute", "hkdf", "session-store", "total"];
    for (wire, path) in [
        (Wire::V1, "/session/init"),
        (Wire::V2, "/session/init"),
        (Wire::V2, "/v1/session/init"),
        (Wire::V1, "/session/init/anon"),
    ] {
        let agreed = WireSession::open(server(), wire, path).unwrap();
        assert_eq!(timing(&agreed.answer), steps_of_init, "{path}");
        if path.ends_with("/anon") {
            continue;
        }
        let mut names = timing(&agreed.call(PURCHASE, ORDER).unwrap().0);
        assert_eq!(names.pop().as_deref(), Some("total"));
        names.sort();
        let mut steps =
            ["replay-protection", "session-get", "aad-build", "aes-gcm-decrypt", "upstream", "aes-gcm-encrypt"];
        steps.sort_unstable();
        assert_eq!(names, steps);
    }
    for request in [
        Request::get("/health"),
        Request::get("/nowhere"),
        Request::post("/session/init", ""),
        Request::post(PURCHASE, ""),
        Request::new("OPTIONS", PURCHASE),
        Request::get(PURCHASE),
        Request::post("/plain/x", "x"),
    ] {
        assert_eq!(timing(&request.send(server()).unwrap()).last().map(String::as_str), Some("total"), "{request:?}");
    }
}

#[test]
fn a_post_that_offers_an_upgrade_to_h2c_is_answered() {
    let agreed = WireSession::open(server(), Wire::V2, "/session/init").unwrap();
    let offer = |request: Request| {
        request
            .header("Connection", "Upgrade, HTTP2-Settings")
            .header("Upgrade", "h2c")
            .header("HTTP2-Settings", "AAMAAABkAAQBAAAAAAIAAAAA")
    };
    let answer = offer(init(Wire::V2, "/session/init", CLIENT_ID, None).1).send(server()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (request, pending) = agreed.seal(PURCHASE, ORDER);
    let answer = offer(request).send(server()).unwrap();
    assert!(String::from_utf8_lossy(&open(&pending, &answer).unwrap()).contains("SUCCESS"));
    assert_eq!(offer(Request::post("/plain/x", "x")).send(server()).unwrap().text(), "x");
}

#[tokio::test]
async fn http_2_with_prior_knowledge_carries_inits_and_sealed_calls() {
    let agreed = WireSession::open(server(), Wire::V2, "/session/init").unwrap();
    let stream = tokio::net::TcpStream::connect(server()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let to_http2 = |request: &Request, path: &str| {
        let mut built = http::Request::post(format!("http://shop.example{path}"));
        for (name, value) in request.headers() {
            built = built.header(name, value);
        }
        built.body(Full::new(Bytes::from(request.body_bytes().to_vec()))).unwrap()
    };
    let (_, init) = init(Wire::V2, "/session/init", CLIENT_ID, None);
    let answer = sender.send_request(to_http2(&init, "/session/init")).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    answer.into_body().collect().await.unwrap();

    // Several at once on the one connection.
    let sealed: Vec<_> = (0..10).map(|_| agreed.seal(PURCHASE, ORDER)).collect();
    let sent: Vec<_> = sealed.iter().map(|(request, _)| sender.send_request(to_http2(request, PURCHASE))).collect();
    for ((_, pending), sent) in sealed.iter().zip(sent) {
        let (head, body) = sent.await.unwrap().into_parts();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let answer = Answer { status: head.status.as_u16(), headers: headers.collect(), body };
        assert!(String::from_utf8_lossy(&open(pending, &answer).unwrap()).contains("SUCCESS"));
        assert!(!timing(&answer).is_empty());
    }
    let mut large = to_http2(&init, "/session/init");
    *large.body_mut() = Full::new(Bytes::from(vec![b' '; 10 * 1024 * 1024]));
    let answer = sender.send_request(large).await.unwrap();
    assert_eq!(answer.status().as_u16(), 413);
}

#[test]
fn a_connection_that_does_not_get_on_with_its_head_is_cut() {
    for part in
        [&b""[..], b"P", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n", b"POST /session/init HTTP/1.1\r\nHost: x\r\n"]
    {
        let mut connection = Connection::open(server()).unwrap();
        connection.set_wait(Duration::from_secs(30)).unwrap();
        let started = Instant::now();
        connection.write(part).unwrap();
        let read = connection.read_to_end();
        // With or without an answer: the connection must not stay open.
        assert!(started.elapsed() < Duration::from_secs(25), "{:?}: {read:?}", String::from_utf8_lossy(part));
    }
}

#[test]
fn a_connection_that_stays_silent_after_an_answer_is_cut() {
    let mut connection = Connection::open(server()).unwrap();
    connection.set_wait(Duration::from_secs(30)).unwrap();
    connection.write(&Request::get("/health").header("Connection", "keep-alive").bytes()).unwrap();
    assert_eq!(connection.read_answer("GET").unwrap().status, 200);
    assert_eq!(connection.read_to_end().unwrap(), b"");
}

#[test]
fn a_head_that_trickles_is_cut_and_one_that_is_too_large_refused() {
    let mut connection = Connection::open(server()).unwrap();
    let started = Instant::now();
    let mut cut = false;
    for byte in b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ".iter().chain(&[b'x'; 60]) {
        cut = connection.write(&[*byte]).is_err();
        if cut {
            break;
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    let rest = if cut { Vec::new() } else { connection.read_to_end().unwrap_or_default() };
    assert!(!rest.starts_with(b"HTTP/1.1 200") && started.elapsed() < Duration::from_secs(25));
    let large = Request::get("/health").header("X-Large", "x".repeat(40 * 1024)).send(server());
    assert!(large.map_or(true, |answer| answer.status == 431));
    let many = (0..300).fold(Request::get("/health"), |request, n| request.header(&format!("X-{n}"), "x"));
    assert!(many.send(server()).map_or(true, |answer| answer.status == 431));
    assert_eq!(Request::get("/health").send(server()).unwrap().status, 200);
}

#[test]
fn a_connection_is_kept_for_the_next_request_after_errors_too() {
    let mut connection = Connection::open(server()).unwrap();
    for (request, status) in [
        (Request::get("/health"), 200),
        (Request::post("/session/init", "{"), 400),
        (Request::post("/session/init", vec![b' '; 1024 * 1024]), 413),
        (Request::post(PURCHASE, vec![b' '; 1024 * 1024]), 400),
        (Request::get("/nowhere"), 404),
        (init(Wire::V1, "/session/init", CLIENT_ID, None).1, 200),
    ] {
        connection.write(&request.header("Connection", "keep-alive").bytes()).unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, status);
    }
}

#[test]
fn connections_over_the_bound_get_503_with_retry_after() {
    let config = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: {}, sessions: {} }]
limits: { connections_max: 3 }
";
    let server = Launch::new(BINARY, config).start().unwrap();
    let held: Vec<Connection> = (0..3).map(|_| Connection::open(server.address()).unwrap()).collect();
    let mut over = Connection::open(server.address()).unwrap();
    let answer = over.read_answer("GET").unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    drop(held);
    let until = Instant::now() + Duration::from_secs(10);
    while Request::get("/health").send(server.address()).map_or(true, |answer| answer.status != 200) {
        assert!(Instant::now() < until, "the places of those who left are not free again");
    }
}

/// A gateway with these sections and its upstream's address, whose log the test reads.
fn logged(upstream: SocketAddr, more: &str) -> Server {
    let config = format!(
        "
listeners: [{{ name: front, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{upstream}'] }} }}
{more}
"
    );
    Launch::new(BINARY, &config).log_level("info").start().unwrap()
}

fn metric(server: &Server, line: &str) -> u64 {
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = request.send(server.admin()).unwrap().text();
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("{line} is not in {text}"))
}

#[test]
fn malformed_requests_are_logged_with_their_peer_and_do_not_fill_the_log() {
    const SENT: u64 = 200;
    let upstream = Upstream::answering(|_, _| answer("200 OK", &[], b"")).unwrap();
    let mut server = logged(upstream.address, "");
    let mut peer = String::new();
    for _ in 0..SENT {
        let mut connection = Connection::open(server.address()).unwrap();
        connection.write(b"GET /SECRET HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
        assert!(connection.read_head().unwrap().0.starts_with("HTTP/1.1 400"));
        peer = "127.0.0.1:".into();
    }
    let line = server.wait_for_log(0, |line| line["status"] == 400).unwrap();
    assert!(line["peer"].as_str().unwrap().starts_with(&peer), "{line}");
    assert_eq!((&line["listener"], &line["why"]), (&"front".into(), &"Host stands twice".into()));
    let log = server.log();
    let lines = log.iter().filter(|line| line.contains("Host stands twice")).count();
    // Ten in ten seconds, however long a busy machine takes for all of them.
    assert!(lines < 100 && !log.join("").contains("SECRET"), "{lines}");
    let counted = metric(&server, "sealway_refused_requests_total{listener=\"front\",status=\"400\"}");
    assert_eq!(counted, SENT);
}

#[test]
fn an_upstreams_failure_names_route_upstream_and_peer_and_a_clients_abort_is_no_warning() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut server = logged(gone, "");
    assert_eq!(Request::get("/").send(server.address()).unwrap().status, 502);
    let line = server.wait_for_log(0, |line| line["message"] == "upstream did not answer").unwrap();
    assert_eq!(
        (&line["route"], &line["upstream"], &line["level"]),
        (&"routes[0]".into(), &"service".into(), &"WARN".into())
    );
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");

    let upstream = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
    let server = logged(upstream.address, "");
    for begun in ["POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", "GET / HTTP/1.1\r\nHo"] {
        let mut connection = Connection::open(server.address()).unwrap();
        connection.write(begun.as_bytes()).unwrap();
        drop(connection);
    }
    // Behind those that went away.
    assert_eq!(Request::post("/", "x").send(server.address()).unwrap().text(), "x");
    let until = Instant::now() + Duration::from_secs(20);
    while metric(&server, "sealway_connections{listener=\"front\"}") > 0 {
        assert!(Instant::now() < until, "connections stay");
        std::thread::sleep(Duration::from_millis(20));
    }
    let warnings: Vec<_> = server.log().into_iter().filter(|line| line.contains("\"WARN\"")).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn the_access_log_has_a_line_for_each_request_with_the_fields_that_were_chosen_and_no_secret() {
    let upstream = Upstream::serve(|received, connection| {
        if received.method_and_target().1.starts_with("/broken") {
            connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")?;
            return Ok(Vec::new());
        }
        connection.write(&answer("200 OK", &[], b"hello"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let fields = "time, listener, peer, client, method, host, path, version, user_agent, route, upstream, status, \
                  duration_ms, bytes_sent, complete";
    let server = logged(upstream.address, &format!("access_log: {{ file: access.log, fields: [{fields}] }}"));
    let request = Request::get("/a%20b?token=SECRET")
        .header("Authorization", "Bearer SECRET")
        .header("Cookie", "SECRET=1")
        .header("User-Agent", "a \"b\"\\\u{e9}");
    request.send(server.address()).unwrap();
    let _ = Request::get("/broken").send(server.address());
    let file = server.folder.join("access.log");
    let until = Instant::now() + Duration::from_secs(20);
    let lines = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.lines().count() >= 2 {
            assert!(!text.contains("SECRET"), "{text}");
            break text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>();
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let line = lines.iter().find(|line| line["path"] == "/a%20b").unwrap();
    for (field, value) in [
        ("listener", "front".into()),
        ("client", "127.0.0.1".into()),
        ("method", "GET".into()),
        ("version", "HTTP/1.1".into()),
        ("route", "routes[0]".into()),
        ("upstream", "service".into()),
        ("status", 200.into()),
        ("bytes_sent", 5.into()),
        ("complete", true.into()),
    ] as [(&str, serde_json::Value); 9]
    {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert_eq!(line.as_object().unwrap().len(), 15);
    assert!(line["duration_ms"].as_f64().unwrap() > 0.0 && line["time"].as_str().unwrap().ends_with('Z'), "{line}");
    let broken = lines.iter().find(|line| line["path"] == "/broken").unwrap();
    assert_eq!((&broken["complete"], &broken["bytes_sent"]), (&false.into(), &3.into()), "{broken}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn head_on_the_demo_page_answers_as_get_does_without_the_body() {
    let config = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: {}, upstream: shop }]
upstreams: { shop: { servers: ['demo:'] } }
";
    let server = Launch::new(BINARY, config).start().unwrap();
    let own = |answer: &Answer| {
        let mut headers: Vec<_> = answer.headers.clone();
        headers.retain(|(name, _)| !["date", "server-timing"].contains(&name.to_ascii_lowercase().as_str()));
        headers
    };
    for path in ["/", "/index.html", "/assets/index.js", "/assets/index.css", "/config.json", "/icon.svg"] {
        let get = Request::get(path).send(server.address()).unwrap();
        let head = Request::new("HEAD", path).send(server.address()).unwrap();
        assert_eq!((head.status, own(&head)), (200, own(&get)), "{path}");
        assert_eq!(head.header("content-length"), Some(get.body.len().to_string().as_str()), "{path}");
        assert!(head.body.is_empty() && !get.body.is_empty(), "{path}");

        let mut curl = std::process::Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "--http2-prior-knowledge", "--head"]);
        let done =
            curl.arg(format!("http://{}{path}", server.address())).output().expect("the package curl is missing");
        let said = String::from_utf8(done.stdout).unwrap().to_ascii_lowercase();
        assert!(said.starts_with("http/2 200") && done.status.success(), "{path}: {said}");
        assert!(said.contains(&format!("content-length: {}\r\n", get.body.len())), "{path}: {said}");
    }
    assert_eq!(Request::new("HEAD", "/nothing").send(server.address()).unwrap().status, 404);
    assert_eq!(Request::new("HEAD", "/transaction/purchase").send(server.address()).unwrap().status, 405);
}
