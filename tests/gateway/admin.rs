//! The admin listener over HTTP: the token on every path, every action and its errors, events, and no secret in any output.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use sealway_proto::wire::Wire;
use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::wire_client::WireSession;
use serde_json::Value;

use crate::BINARY;
use crate::upstreams::until;

fn config(port: u16, more: &str) -> String {
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:{port}' }}, {{ name: other, address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/], path: /health }}, sessions: {{}} }}
  - {{ match: {{ path: /ok }}, standalone: ok }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, far: {{ servers: ['http://127.0.0.1:1'] }} }}
sessions: {{ store: 'memory:' }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token{more} }}
"
    )
}

pub(crate) fn start() -> Server {
    Launch::new(BINARY, &config(free_port().unwrap(), "")).start().unwrap()
}

fn with_token(method: &str, path: &str) -> Request {
    Request::new(method, path).header("Authorization", format!("Bearer {ADMIN_TOKEN}"))
}

fn ask(server: &Server, method: &str, path: &str) -> Answer {
    with_token(method, path).send(server.admin()).unwrap()
}

fn get(server: &Server, path: &str) -> Value {
    let answer = ask(server, "GET", path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    answer.json()
}

pub(crate) fn health(address: SocketAddr) -> anyhow::Result<u16> {
    Ok(Request::get("/health").send(address)?.status)
}

#[test]
fn every_path_but_the_page_and_the_probes_takes_the_token_in_a_header() {
    let server = start();
    let paths = [
        ("GET", "/admin/status"),
        ("GET", "/admin/events"),
        ("GET", "/admin/config"),
        ("GET", "/admin/connections?listener=main"),
        ("GET", "/admin/certificates"),
        ("GET", "/admin/upstreams"),
        ("GET", "/admin/sessions"),
        ("GET", "/admin/identity"),
        ("GET", "/admin/routes"),
        ("GET", "/admin/refusals"),
        ("GET", "/admin/logs"),
        ("POST", "/admin/reload"),
        ("POST", "/admin/drain"),
        ("POST", "/admin/listeners/main/stop"),
        ("POST", "/admin/listeners/main/start"),
        ("POST", "/admin/certificates/rotate"),
        ("DELETE", "/admin/sessions/S-x"),
        ("DELETE", "/admin/connections/1?listener=main"),
        ("GET", "/admin/"),
        ("GET", "/metrics"),
        ("POST", "/page.js"),
    ];
    for (method, path) in paths {
        let stranger = || Request::new(method, path);
        for request in [
            stranger(),
            stranger().header("Authorization", "Bearer wrong"),
            stranger().header("Authorization", format!("Basic {ADMIN_TOKEN}")),
            stranger().header("Cookie", format!("token={ADMIN_TOKEN}")),
            stranger().target(&format!("{path}{}token={ADMIN_TOKEN}", if path.contains('?') { '&' } else { '?' })),
        ] {
            let answer = request.send(server.admin()).unwrap();
            assert_eq!(answer.status, 401, "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {path}");
        }
    }
    // The rejected action changed nothing.
    assert_eq!(health(server.addresses[0]).unwrap(), 200);
    for path in ["/", "/page.js", "/charts.js", "/page.css", "/health", "/ready"] {
        assert_eq!(Request::get(path).send(server.admin()).unwrap().status, 200, "{path}");
    }
}

#[test]
fn the_page_holds_no_data_and_lets_nothing_in() {
    let server = start();
    let page = Request::get("/").send(server.admin()).unwrap();
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for path in ["/", "/page.js", "/charts.js", "/page.css"] {
        let text = Request::get(path).send(server.admin()).unwrap().text();
        for bad in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "http://", "//cdn"]
        {
            assert!(!text.contains(bad), "{path} has {bad}");
        }
        assert!(!text.contains("127.0.0.1") && !text.contains(ADMIN_TOKEN), "{path}");
    }
}

#[test]
fn the_status_reports_every_component() {
    let server = start();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let _ = agreed;
    for _ in 0..20 {
        assert_eq!(Request::get("/ok").send(server.address()).unwrap().status, 200);
    }
    assert_eq!(Request::get("/nothing/../is").send(server.address()).unwrap().status / 100, 4);
    // Rates and percentiles cover whole seconds.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let status = loop {
        let status = get(&server, "/admin/status");
        if status["requests"]["latency_us"]["p99"].is_u64() || std::time::Instant::now() > until {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(status["health"]["is_ready"], true, "{status:#}");
    assert_eq!(status["requests"]["total"], 22, "{status:#}");
    assert_eq!(status["requests"]["by_class"]["2xx"], 21, "{status:#}");
    assert!(status["requests"]["latency_us"]["p50"].as_u64() <= status["requests"]["latency_us"]["max"].as_u64());
    assert!(status["process"]["resident_bytes"].as_u64().unwrap() > 1_000_000, "{status:#}");
    assert!(status["process"]["descriptors"].as_u64().unwrap() > 3, "{status:#}");
    assert_eq!(status["listeners"][0]["name"], "main");
    assert_eq!(status["listeners"][0]["accepted"], 22, "{status:#}");
    assert_eq!(status["upstreams"][0]["name"], "far");
    assert_eq!(status["upstreams"][0]["servers"][0]["address"], "http://127.0.0.1:1");
    assert_eq!(status["sessions"]["count"], 1);
    assert_eq!(get(&server, "/admin/sessions"), status["sessions"]);
    assert_eq!(get(&server, "/admin/upstreams"), status["upstreams"]);
    assert_eq!(get(&server, "/admin/config")["listeners"][0]["name"], "main");
}

#[test]
fn routes_identity_keys_and_refusals_are_shown_without_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("keys");
    for more in [&[][..], &["--not-before", "1d", "--not-after", "30d"]] {
        let mut command = Command::new(BINARY);
        let made = command.args(["identity", "generate"]).arg(&key_file).args(more).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let config = config(free_port().unwrap(), "")
        .replace("[/session/, ", "[/session/, /v3/, ")
        .replace("store: 'memory:'", "store: 'memory:', identity: { key_file: keys }")
        .replace(
            "sealed: required,",
            "name: all, sealed: required, request_headers: { set: { X-Key: of-the-upstream } },",
        );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    for (path, status) in [("/ok", 200), ("/ok", 200), ("/transaction/purchase", 400)] {
        assert_eq!(Request::post(path, "{}").send(server.address()).unwrap().status, status, "{path}");
    }

    let keys = get(&server, "/admin/identity");
    let states = keys.as_array().unwrap().iter().map(|key| (&key["state"], &key["signs_by_default"]));
    assert_eq!(states.collect::<Vec<_>>(), [(&"next".into(), &false.into()), (&"active".into(), &true.into())]);
    assert_eq!(keys[1]["id"].as_str().unwrap().len(), 32, "{keys:#}");
    assert!(keys[1]["not_before_ms"].as_u64().unwrap() < keys[0]["not_before_ms"].as_u64().unwrap(), "{keys:#}");

    let routes = get(&server, "/admin/routes");
    assert_eq!(routes.as_array().unwrap().len(), 4, "{routes:#}");
    assert_eq!(routes[1]["match"]["path"], serde_json::json!(["/ok"]));
    assert_eq!((&routes[1]["action"], &routes[1]["requests"]["2xx"]), (&"standalone".into(), &2.into()), "{routes:#}");
    assert_eq!((&routes[2]["name"], &routes[2]["sealed"]), (&"all".into(), &"required".into()));
    assert_eq!((&routes[2]["upstream"], routes[2]["requests"]["4xx"].as_u64() > Some(0)), (&"shop".into(), true));
    assert_eq!((&routes[3]["name"], &routes[3]["match"]), (&"none".into(), &Value::Null));

    let refusals = get(&server, "/admin/refusals");
    let calls = refusals.as_array().unwrap().iter().find(|one| one["on"] == "call").expect("a call was refused");
    assert!(calls["class"].is_string() && calls["count"].as_u64() > Some(0), "{refusals:#}");

    let status = get(&server, "/admin/status");
    assert_eq!((&status["identity_keys"], &status["refusals"]), (&keys, &refusals));
    let file = std::fs::read_to_string(&key_file).unwrap();
    let secrets: Vec<_> = file.split('"').filter(|text| text.len() > 150).chain(["of-the-upstream"]).collect();
    assert_eq!(secrets.len(), 3, "the private halves of two keys, and a header");
    for path in ["/admin/identity", "/admin/routes", "/admin/refusals", "/admin/status"] {
        let text = ask(&server, "GET", path).text();
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{path} has a secret");
    }
}

#[test]
fn a_listener_stops_and_starts_alone() {
    let server = start();
    let [main, other] = [server.addresses[0], server.addresses[1]];
    let mut open = Connection::open(main).unwrap();
    let kept = Request::get("/health").header("Connection", "keep-alive").bytes();
    open.write(&kept).unwrap();
    assert_eq!(open.read_answer("GET").unwrap().status, 200);
    assert_eq!(ask(&server, "POST", "/admin/listeners/main/stop").json()["is_serving"], false);
    // What connected before its socket closed is still served.
    until("the listener's socket is closed", || health(main).is_err());
    assert_eq!(health(other).unwrap(), 200);
    // It ends as in a drain: a kept connection gets its answer with `Connection: close`.
    open.write(&kept).unwrap();
    assert_eq!(open.read_answer("GET").unwrap().header("connection"), Some("close"));
    let again = ask(&server, "POST", "/admin/listeners/main/stop");
    assert_eq!((again.status, again.json()["message"].as_str().unwrap().contains("already stopped")), (409, true));
    assert_eq!(get(&server, "/admin/status")["listeners"][0]["is_serving"], false);

    // A reload leaves it stopped, and another process may take its port meanwhile.
    assert_eq!(ask(&server, "POST", "/admin/reload").json()["kept"], serde_json::json!(["main", "other"]));
    assert!(health(main).is_err());
    let taken = std::net::TcpListener::bind(main).unwrap();
    let refused = ask(&server, "POST", "/admin/listeners/main/start");
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("in use"), "{}", refused.text());
    drop(taken);
    assert_eq!(ask(&server, "POST", "/admin/listeners/m%61in/start").json()["is_serving"], true);
    assert_eq!(health(main).unwrap(), 200);
    assert_eq!(ask(&server, "POST", "/admin/listeners/main/start").status, 409);
}

#[test]
fn an_impossible_action_is_explained_in_a_sentence() {
    let server = start();
    for (method, path, status) in [
        ("POST", "/admin/listeners/none/stop", 404),
        ("POST", "/admin/listeners/%zz/stop", 400),
        ("GET", "/admin/listeners/main/stop", 405),
        ("POST", "/admin/listeners/main/explode", 404),
        ("GET", "/admin/reload", 405),
        ("PUT", "/admin/drain", 405),
        ("POST", "/admin/status", 405),
        ("POST", "/admin/certificates", 405),
        ("POST", "/admin/certificates/rotate", 409),
        ("GET", "/admin/connections", 404),
        ("GET", "/admin/connections?listener=none", 404),
        ("DELETE", "/admin/connections/1", 404),
        ("DELETE", "/admin/connections/x?listener=main", 400),
        ("DELETE", "/admin/connections/99?listener=main", 404),
        ("POST", "/admin/connections/99?listener=main", 405),
        ("GET", "/admin/nothing", 404),
        ("GET", "/admin/", 404),
    ] {
        let answer = ask(&server, method, path);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(answer.json()["message"].as_str().is_some_and(|text| text.contains(' ')), "{path}: {}", answer.text());
    }
    let bad = server.write_config("listeners: []\n");
    bad.unwrap();
    let answer = ask(&server, "POST", "/admin/reload");
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("listeners"), "{}", answer.text());
    let reloads = &get(&server, "/admin/status")["reloads"];
    assert_eq!((&reloads["failed"], &reloads["ok"]), (&1.into(), &0.into()));
    assert!(reloads["last_error"].as_str().unwrap().contains("listeners"));
}

#[test]
fn connections_are_listed_and_closed_one_by_one() {
    let server = start();
    let kept = Request::get("/ok").header("Connection", "keep-alive").bytes();
    let mut open: Vec<Connection> = (0..3).map(|_| Connection::open(server.addresses[1]).unwrap()).collect();
    for connection in &mut open {
        connection.write(&kept).unwrap();
        connection.read_answer("GET").unwrap();
    }
    let list = get(&server, "/admin/connections?listener=other");
    assert_eq!(list.as_array().unwrap().len(), 3, "{list:#}");
    assert_eq!((&list[0]["protocol"], &list[0]["requests"]), (&"h1".into(), &1.into()), "{list:#}");
    assert_eq!(get(&server, "/admin/connections?listener=other&max=2").as_array().unwrap().len(), 2);
    let id = &list[1]["id"];
    assert_eq!(ask(&server, "DELETE", &format!("/admin/connections/{id}?listener=other")).status, 200);
    assert_eq!(open[1].read_to_end().unwrap(), b"");
    for index in [0, 2] {
        open[index].write(&kept).unwrap();
        assert_eq!(open[index].read_answer("GET").unwrap().status, 200);
    }
}

/// Reads events until one of this name arrives. Returns its data.
fn event(stream: &mut Connection, rest: &mut String, name: &str) -> Value {
    loop {
        while let Some((event, after)) =
            rest.split_once("\n\n").map(|(event, after)| (event.to_owned(), after.to_owned()))
        {
            *rest = after;
            if let Some(data) = event.strip_prefix(&format!("event: {name}\ndata: ")) {
                return serde_json::from_str(data).unwrap();
            }
        }
        rest.push_str(&String::from_utf8(stream.read_chunk().unwrap()).unwrap());
    }
}

#[test]
fn events_carry_the_state_each_second_and_new_log_lines() {
    let server = start();
    let watch = |query: &str| {
        let mut stream = Connection::open(server.admin()).unwrap();
        stream.write(&with_token("GET", &format!("/admin/events{query}")).bytes()).unwrap();
        let (line, headers) = stream.read_head().unwrap();
        (line, headers, stream)
    };
    let (line, headers, mut stream) = watch("");
    assert!(line.contains(" 200 "), "{line}");
    assert!(headers.iter().any(|(_, value)| value == "text/event-stream"), "{headers:?}");
    let rest = &mut String::new();
    assert!(event(&mut stream, rest, "history").is_array());
    let first = event(&mut stream, rest, "status")["now_ms"].as_u64().unwrap();
    let log = event(&mut stream, rest, "log");
    assert!(log["lines"].to_string().contains("serving"), "{log:#}");
    let next = log["next"].as_u64().unwrap();
    assert!(event(&mut stream, rest, "status")["now_ms"].as_u64().unwrap() > first);
    // New log records arrive by themselves, and a reconnect continues after the last event.
    ask(&server, "POST", "/admin/reload");
    let log = event(&mut stream, rest, "log");
    assert!(log["lines"].to_string().contains("configuration reloaded"), "{log:#}");
    let (_, _, mut again) = watch(&format!("?from={next}"));
    let log = event(&mut again, &mut String::new(), "log");
    assert!(
        log["lines"].to_string().contains("configuration reloaded")
            && !log["lines"].to_string().contains("\\\"serving\\\"")
    );

    // The number of watchers is limited, and a place is free again when one leaves.
    let mut others: Vec<_> = (0..14).map(|_| watch("").2).collect();
    assert!(watch("").0.contains(" 503 "));
    others.truncate(13);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !watch("").0.contains(" 200 ") {
        assert!(std::time::Instant::now() < until, "the place stays taken");
    }
}

#[test]
fn the_log_is_shown_and_downloaded_and_holds_no_secret() {
    let server = start();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let _ = agreed;
    ask(&server, "POST", "/admin/reload");
    let log = ask(&server, "GET", "/admin/logs");
    assert_eq!(log.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(log.header("content-disposition"), None);
    assert!(log.text().contains("configuration reloaded") && !log.text().contains(ADMIN_TOKEN));
    let file = ask(&server, "GET", "/admin/logs?download=1");
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"sealway.log\""));
    for path in ["/admin/status", "/admin/config", "/admin/sessions"] {
        assert!(!ask(&server, "GET", path).text().contains(ADMIN_TOKEN), "{path}");
    }
}

#[test]
fn a_session_is_revoked_by_its_id() {
    let server = start();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let path = format!("/admin/sessions/{}", agreed.id());
    assert_eq!(ask(&server, "DELETE", &path).status, 200);
    assert_eq!(ask(&server, "DELETE", &path).status, 404);
    assert_eq!(get(&server, "/admin/sessions")["count"], 0);
}

#[test]
fn to_drain_ends_the_process_as_sigterm_does() {
    let mut server = start();
    let mut open = Connection::open(server.address()).unwrap();
    open.write(&Request::get("/ok").header("Connection", "keep-alive").bytes()).unwrap();
    open.read_answer("GET").unwrap();
    let answer = ask(&server, "POST", "/admin/drain");
    assert_eq!((answer.status, &answer.json()["draining"]), (202, &true.into()));
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert_eq!(open.read_to_end().unwrap(), b"");
}

/// Returns the subject and the validity of the certificate of the TLS listener at `address`, as openssl prints them.
fn serial(address: SocketAddr, ca: &Path) -> String {
    let script = format!(
        "openssl s_client -connect {address} -CAfile {} -verify_return_error </dev/null 2>/dev/null | openssl x509 -noout -serial",
        ca.display()
    );
    let done = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn certificates_are_renewed_and_shown_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pki = folder.path().join("pki");
    assert!(Command::new(BINARY).arg("certs").arg(&pki).output().unwrap().status.success());
    let tls = "tls: { cert: pki/server.cert.pem, key: pki/server.key.pem }";
    let config = config(free_port().unwrap(), ", certificates_folder: pki").replace(
        "{ name: other, address: '127.0.0.1:0' }",
        &format!("{{ name: other, address: '127.0.0.1:0', {tls} }}"),
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let shown = || get(&server, "/admin/certificates");
    assert_eq!(shown()[0]["role"], "server");
    assert!(shown()[0]["days_left"].as_i64().unwrap() > 300);
    assert_eq!(get(&server, "/admin/status")["certificates_folder"], true);
    let before = (serial(server.addresses[1], &pki.join("ca.cert.pem")), shown()[0]["serial"].clone());
    assert!(before.0.contains(before.1.as_str().unwrap()), "{before:?}");
    assert_eq!(ask(&server, "POST", "/admin/certificates/rotate?leaf=everything").status, 400);
    let answer = ask(&server, "POST", "/admin/certificates/rotate");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let after = (serial(server.addresses[1], &pki.join("ca.cert.pem")), shown()[0]["serial"].clone());
    assert!(after.0.contains(after.1.as_str().unwrap()) && after.1 != before.1, "{before:?} {after:?}");
    let metrics = ask(&server, "GET", "/metrics").text();
    assert!(metrics.contains("sealway_certificate_reloads_total{result=\"ok\"} 1"), "{metrics}");
    assert!(metrics.contains("sealway_certificate_expiry_seconds{"), "{metrics}");
}

#[test]
fn the_admin_listener_may_be_a_unix_socket_whose_path_goes_with_it() {
    let config = config(free_port().unwrap(), "")
        .replace("address: '127.0.0.1:0', token_file", "address: 'unix:admin.sock', token_file");
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    let path = server.folder.join("admin.sock");
    let ask = |more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "20", "-w", " %{http_code}", "--unix-socket"]).arg(&path).args(more);
        let done = curl.arg("http://admin/admin/sessions").output().expect("cannot run curl; install the package curl");
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(ask(&[]).ends_with(" 401"));
    let answer = ask(&["-H", &format!("Authorization: Bearer {ADMIN_TOKEN}")]);
    assert!(answer.ends_with(" 200") && answer.contains("\"store\":\"memory\""), "{answer}");
    assert_eq!(server.stop().unwrap().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn the_metrics_listener_serves_metrics_to_its_own_token_and_nothing_else() {
    let (port, metrics) = (free_port().unwrap(), free_port().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("metrics.token"), "a-token-for-the-scraper").unwrap();
    let section = format!(" }}\nmetrics: {{ address: '127.0.0.1:{metrics}', token_file: metrics.token");
    let server = Launch::new(BINARY, &config(port, &section)).folder(folder.path()).start().unwrap();
    let address: SocketAddr = format!("127.0.0.1:{metrics}").parse().unwrap();
    let ask = |method: &str, path: &str, token: &str| {
        Request::new(method, path).header("Authorization", format!("Bearer {token}")).send(address).unwrap()
    };
    let scraper = "a-token-for-the-scraper";
    let answer = ask("GET", "/metrics", scraper);
    assert_eq!(answer.status, 200);
    let text = answer.text();
    for name in
        ["sealway_build_info{", "process_resident_memory_bytes ", "process_start_time_seconds ", "sealway_sessions "]
    {
        assert!(text.contains(name), "{name} is not in:\n{text}");
    }
    // Every metric has a description.
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no HELP");
    }
    assert_eq!(ask("HEAD", "/metrics", scraper).status, 200);
    assert_eq!(ask("GET", "/metrics", ADMIN_TOKEN).status, 401);
    assert_eq!(ask("POST", "/metrics", scraper).status, 405);
    for path in ["/", "/admin/status", "/admin/sessions/x", "/v1/session/S-00000000000000000000000000000000"] {
        assert_eq!(ask("GET", path, scraper).status, 404, "{path}");
    }
    // The scraper's token is not valid on the admin listener.
    let request = Request::get("/admin/status").header("Authorization", format!("Bearer {scraper}"));
    assert_eq!(request.send(server.admin()).unwrap().status, 401);
    assert_eq!(health(address).unwrap(), 200);
}
