//! Routes of Oblivious HTTP on a real `sealway serve`, against the published crate `ohttp` as it is and against requests that break a
//! rule. Its peers in other languages are in `ohttp_clients`, the relay in `ohttp_relay`.

use std::io::Cursor;
use std::process::Command;

use sealway_runtime::clock::{Clock, SystemClock, http_date};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;

/// A gateway with its service.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) service: Upstream,
    _folder: tempfile::TempDir,
}

/// Returns the body that came, and of the head what a client wants to compare.
pub(crate) fn echo(head: &RequestHead, body: &[u8]) -> Vec<u8> {
    let (method, target) = head.method_and_target();
    let kept = |name: &str| head.header(name).unwrap_or("none").to_owned();
    let headers = [("X-Method", method.to_owned()), ("X-Path", target.to_owned()), ("X-Host", kept("host"))];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    answer("201 Created", &headers, body)
}

/// Makes keys of use ohttp: the first has key id 1, and so on.
pub(crate) fn make_keys(folder: &std::path::Path, kems: &[&str]) {
    for kem in kems {
        let mut command = Command::new(BINARY);
        command.args(["one-shot-keys", "add"]).arg(folder.join("keys.json"));
        let made = command.args(["--use", "ohttp", "--kem", kem, "--days", "7"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

pub(crate) fn config(service: &Upstream, ohttp: &str) -> String {
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
one_shot: {{ keys: keys.json }}
routes:
  - {{ match: {{ path: /gateway }}, ohttp: {{ role: gateway, targets: {{ 'api.example': service, 'other.example:8443': service }}{ohttp} }} }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'file:sessions.redb', allow_generated_kek: true }}
",
        service.address
    )
}

impl Setup {
    pub(crate) fn new(kems: &[&str], ohttp: &str) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        make_keys(folder.path(), kems);
        let service = Upstream::answering(echo).unwrap();
        let server = Launch::new(BINARY, &config(&service, ohttp)).folder(folder.path()).start().unwrap();
        Setup { server, service, _folder: folder }
    }

    pub(crate) fn keys(&self) -> Vec<u8> {
        let answer = Request::get("/ohttp-keys").send(self.server.address()).unwrap();
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/ohttp-keys")));
        answer.body
    }

    /// Sends a message by the published client, and returns the answer outside and what is in it.
    fn ask(&self, list: &[u8], message: &[u8]) -> (Answer, Option<bhttp::Message>) {
        let client = ohttp::ClientRequest::from_encoded_config_list(list).unwrap();
        let (sealed, opener) = client.encapsulate(message).unwrap();
        let answer = self.post(&sealed);
        let is_sealed = answer.header("content-type") == Some("message/ohttp-res");
        let opened = is_sealed.then(|| opener.decapsulate(&answer.body).unwrap());
        (answer, opened.map(|bytes| bhttp::Message::read_bhttp(&mut Cursor::new(bytes)).unwrap()))
    }

    fn post(&self, sealed: &[u8]) -> Answer {
        let request = Request::post("/gateway", sealed).set("Content-Type", "message/ohttp-req");
        request.send(self.server.address()).unwrap()
    }

    fn metric(&self, line: &str) -> f64 {
        let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let text = request.send(self.server.admin()).unwrap().text();
        text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or_default()
    }
}

fn varint(value: usize) -> Vec<u8> {
    match value {
        0..=0x3f => vec![value as u8],
        0x40..=0x3fff => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&varint(bytes.len()), bytes].concat()
}

type Line<'a> = (&'a str, &'a [u8]);

fn lines(lines: &[Line<'_>]) -> Vec<u8> {
    lines.iter().flat_map(|(name, value)| [text(name.as_bytes()), text(value)].concat()).collect()
}

/// A request of known length.
pub(crate) fn message(control: [&str; 4], headers: &[Line<'_>], content: &[u8]) -> Vec<u8> {
    let control = control.iter().flat_map(|part| text(part.as_bytes())).collect();
    [vec![0], control, text(&lines(headers)), text(content), vec![0]].concat()
}

const GET: [&str; 4] = ["GET", "https", "api.example", "/"];

fn field(message: &bhttp::Message, name: &str) -> String {
    String::from_utf8_lossy(message.header().get(name.as_bytes()).unwrap_or_default()).into_owned()
}

fn status(message: &bhttp::Message) -> u16 {
    message.control().status().unwrap().code()
}

/// Returns the parts of a list of key configurations.
fn configs(mut list: &[u8]) -> Vec<Vec<u8>> {
    let mut configs = Vec::new();
    while let [high, low, rest @ ..] = list {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        configs.push(list[..2 + len].to_vec());
        list = &rest[len..];
    }
    configs
}

#[test]
fn the_published_client_reaches_a_target_with_each_key() {
    let setup = Setup::new(&["x25519", "p256", "x-wing"], "");
    let list = setup.keys();
    let each = configs(&list);
    let kems: Vec<_> = each.iter().map(|config| u16::from_be_bytes([config[3], config[4]])).collect();
    assert_eq!(kems, [0x0020, 0x0010, 0x647a], "a client that takes the last gets the hybrid");
    for list in each.iter().chain([&list]) {
        let head = [("accept", &b"text/plain"[..]), ("x-kid", b"k"), ("x-forwarded-for", b"192.0.2.1"), ("via", b"x")];
        let control = ["POST", "https", "API.example:443", "/pay?x=1"];
        let (outer, inner) = setup.ask(list, &message(control, &head, b"content"));
        let inner = inner.unwrap();
        assert_eq!((outer.status, status(&inner), inner.content()), (200, 201, &b"content"[..]));
        assert_eq!(outer.header("cache-control"), Some("no-store"));
        assert_eq!((field(&inner, "x-method"), field(&inner, "x-path")), ("POST".into(), "/pay?x=1".into()));
        assert_eq!(field(&inner, "x-host"), "api.example");
        let (head, _) = setup.service.next().unwrap();
        for name in
            ["x-kid", "x-forwarded-for", "x-forwarded-host", "forwarded", "via", "traceparent", "x-sealway-subject"]
        {
            assert_eq!(head.header(name), None, "{name}");
        }
        assert_eq!(head.header("accept"), Some("text/plain"));
    }
    let control = ["GET", "https", "", "/"];
    let (_, inner) = setup.ask(&list, &message(control, &[("host", b"other.example:8443")], b""));
    assert_eq!(field(&inner.unwrap(), "x-host"), "other.example:8443");
    // The request of RFC 9458 appendix A, which ends behind its control data.
    let (_, inner) = setup.ask(&list, b"\x00\x03GET\x05https\x0bapi.example\x01/");
    assert_eq!(status(&inner.unwrap()), 201);
    assert_eq!(setup.metric("sealway_sealed_calls_total{wire=\"ohttp\"}"), 6.0);
}

#[test]
fn keys_are_published_at_the_paths_that_clients_look_at() {
    let setup = Setup::new(&["x25519", "x-wing"], "");
    let list = setup.keys();
    let get = |path: &str| Request::get(path).header("Accept", "text/html, application/ohttp-keys;q=0.9");
    for path in ["/.well-known/ohttp-gateway", "/gateway", "/ohttp-keys"] {
        let answer = get(path).send(setup.server.address()).unwrap();
        assert_eq!((answer.status, &answer.body), (200, &list), "{path}");
        let caching = answer.header("cache-control").unwrap_or_default().to_owned();
        assert!(caching.starts_with("public, max-age="), "{path}: {caching}");
    }
    let bare = get("/ohttp-configs").send(setup.server.address()).unwrap();
    assert!(configs(&list).iter().any(|config| config[2..] == bare.body), "the configuration of the preferred key");
    let sealed = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
    let (sealed, _) = sealed.encapsulate(&message(GET, &[], b"")).unwrap();
    let request = Request::post("/.well-known/ohttp-gateway", sealed).set("Content-Type", "message/ohttp-req");
    let answer = request.send(setup.server.address()).unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("message/ohttp-res")));
}

#[test]
fn what_is_wrong_outside_is_told_outside() {
    let setup = Setup::new(&["x25519"], ", request_max: 1024, chunked: false");
    let list = setup.keys();
    let good = || {
        let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
        client.encapsulate(&message(GET, &[], b"")).unwrap().0
    };
    let to = setup.server.address();
    let typed = |content_type: &str| {
        Request::post("/gateway", good()).set("Content-Type", content_type).send(to).unwrap().status
    };
    assert_eq!(Request::new("PUT", "/gateway").send(to).unwrap().status, 405);
    assert_eq!(Request::get("/gateway").send(to).unwrap().status, 405);
    for content_type in ["application/json", "message/bhttp", "message/ohttp-res", "message/ohttp-chunked-req", ""] {
        assert_eq!(typed(content_type), 415, "{content_type}");
    }
    assert_eq!(typed("message/ohttp-req; a=b"), 200);
    for len in [0, 1, 6, 7, 8, 38, 39, 54] {
        assert_eq!(setup.post(&good()[..len]).status, 400, "{len} bytes");
    }
    let long = message(["POST", "https", "api.example", "/"], &[], &[7; 4096]);
    assert_eq!(setup.ask(&list, &long).0.status, 413);
    // Key id, KEM, KDF, AEAD, a suite that is not published, and a ciphertext that does not open: the same bytes.
    let mut answers = Vec::new();
    for (at, byte) in [(0, 99), (2, 0x10), (4, 9), (6, 9), (1, 0x64), (6, 2), (60, 1), (10, 1)] {
        let mut sealed = good();
        sealed[at] ^= byte;
        let answer = setup.post(&sealed);
        assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")));
        answers.push(answer.text());
    }
    let problem = "https://iana.org/assignments/http-problem-types#ohttp-key";
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.contains(problem)), "{answers:?}");
    // Only the one good request reached the service.
    assert!(setup.service.next().is_ok() && setup.service.is_untouched());
}

/// A request that breaks a rule: its control data and headers, and the status within.
type Case<'a> = ([&'a str; 4], &'a [Line<'a>], u16);

#[test]
fn what_is_wrong_within_is_told_within_and_no_service_is_asked() {
    let setup = Setup::new(&["x25519"], ", request_max: 131072");
    let list = setup.keys();
    let (path, many) = (format!("/{}", "a".repeat(9000)), vec![("a", &b"b"[..]); 10_000]);
    let cases: &[Case<'_>] = &[
        (["GET", "https", "evil.example", "/"], &[], 403),
        (["GET", "https", "user@api.example", "/"], &[], 403),
        (["GET", "https", "api.example.", "/"], &[], 403),
        (["GET", "https", "127.0.0.1", "/"], &[], 403),
        (["GET", "https", "api.example:8443", "/"], &[], 403),
        (["GET", "http", "api.example", "/"], &[], 403),
        (["GET", "ftp", "api.example", "/"], &[], 403),
        (["GET", "", "api.example", "/"], &[], 403),
        (["GET", "https", "", "/"], &[], 403),
        (GET, &[("host", b"other.example:8443")], 400),
        (GET, &[("host", b"api.example"), ("host", b"api.example")], 400),
        (["CONNECT", "https", "api.example", "/"], &[], 405),
        (["TRACE", "https", "api.example", "/"], &[], 405),
        (["G T", "https", "api.example", "/"], &[], 400),
        (["", "https", "api.example", "/"], &[], 400),
        (["GET", "https", "api.example", ""], &[], 400),
        (["GET", "https", "api.example", "*"], &[], 400),
        (["GET", "https", "api.example", "https://api.example/"], &[], 400),
        (["GET", "https", "api.example", "/a\r\nb"], &[], 400),
        (["GET", "https", "api.example", "/a/../b"], &[], 400),
        (["GET", "https", "api.example", "/a/%2E%2e/b"], &[], 400),
        (["GET", "https", "api.example", &path], &[], 400),
        (GET, &[("", b"a")], 400),
        (GET, &[("a b", b"a")], 400),
        (GET, &[("a:b", b"a")], 400),
        (GET, &[(":path", b"/")], 400),
        (GET, &[(":unknown", b"1")], 400),
        (GET, &[("a", b"b"), (":unknown", b"1")], 400),
        (GET, &[("a", b"b\0")], 400),
        (GET, &[("a", b"b\r\nc: d")], 400),
        (GET, &[("a", b" b")], 400),
        (GET, &[("content-length", b"3")], 400),
        (GET, &[("content-length", b"0"), ("content-length", b"0")], 400),
        (GET, &[("expect", b"100-continue")], 400),
        (GET, &[("date", b"yesterday")], 400),
        (GET, &[("date", b"Sun, 06 Nov 1994 08:49:37 GMT")], 400),
        (GET, &[("content-type", b"message/ohttp-req")], 403),
        (GET, &[("x-seal", b"4")], 403),
        (GET, &[("x_seal", b"4")], 403),
        (GET, &[("ehbp-encapsulated-key", b"00")], 403),
        (GET, &[("ehbp_response-nonce", b"00")], 403),
        (GET, &many, 431),
    ];
    for (control, headers, expected) in cases {
        let (outer, inner) = setup.ask(&list, &message(*control, headers, b""));
        let inner = inner.unwrap_or_else(|| panic!("{control:?} {headers:?}: {}", outer.text()));
        assert_eq!((outer.status, status(&inner)), (200, *expected), "{control:?} {:?}", headers.first());
        assert_eq!(field(&inner, "content-type"), "application/problem+json");
    }
    for (bytes, expected) in [
        (b"\x01\x40\xc8".to_vec(), 400),
        (vec![3], 400),
        (vec![4], 400),
        (vec![0xff; 8], 400),
        ([message(GET, &[], b""), vec![0, 1]].concat(), 400),
        ([&message(GET, &[], b"")[..25], &[0xff; 8]].concat(), 431),
        ([&message(GET, &[], b"")[..24], &[0xff; 8]].concat(), 400),
        (b"\x02\x03GET\x05https\x0bapi.example\x01/\x01a\x01b".to_vec(), 400),
    ] {
        let (_, inner) = setup.ask(&list, &bytes);
        assert_eq!(status(&inner.unwrap()), expected, "{bytes:?}");
    }
    assert!(setup.service.is_untouched(), "a service was asked");
    assert!(setup.metric("sealway_ohttp_targets_refused_total") >= 10.0);
    // What is unusual and right is served.
    let now = http_date(SystemClock.now_ms());
    for (control, headers) in [
        (GET, &[("connection", &b"x-a"[..]), ("x-a", b"1"), ("transfer-encoding", b"gzip"), ("upgrade", b"h2c")][..]),
        (GET, &[("transfer_encoding", b"chunked"), ("content_length", b"7"), ("x_kid", b"k")]),
        (GET, &[("HOST", b"API.example:443"), ("Date", now.as_bytes())]),
        (["OPTIONS", "https", "api.example", "*"], &[]),
    ] {
        let (_, inner) = setup.ask(&list, &message(control, headers, b""));
        assert_eq!(status(&inner.unwrap()), 201, "{control:?} {headers:?}");
        let (head, _) = setup.service.next().unwrap();
        let removed = ["x-a", "transfer-encoding", "transfer_encoding", "content_length", "x_kid", "upgrade"];
        assert!(removed.iter().all(|name| head.header(name).is_none()));
    }
    for padding in [1, 1000] {
        let padded = [message(GET, &[], b""), vec![0; padding]].concat();
        assert_eq!(status(&setup.ask(&list, &padded).1.unwrap()), 201);
    }
}

#[test]
fn an_answer_that_no_message_can_have_becomes_a_502_within() {
    let folder = tempfile::tempdir().unwrap();
    make_keys(folder.path(), &["x25519"]);
    let service = Upstream::serve(|head: &RequestHead, connection| {
        connection.write(match head.method_and_target().1 {
            "/status" => b"HTTP/1.1 799 Own\r\nContent-Length: 0\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf",
        })?;
        Ok(Vec::new())
    });
    let service = service.unwrap();
    let server = Launch::new(BINARY, &config(&service, "")).folder(folder.path()).start().unwrap();
    let setup = Setup { server, service, _folder: folder };
    for path in ["/status", "/unframed"] {
        let (outer, inner) = setup.ask(&setup.keys(), &message(["GET", "https", "api.example", path], &[], b""));
        assert_eq!((outer.status, status(&inner.unwrap())), (200, 502), "{path}");
    }
}

#[test]
fn a_gateway_limits_openings_by_the_network_of_its_peer_if_its_route_says_so() {
    for (setting, is_limited) in [("", false), (", opens_per_minute: 2", true)] {
        let setup = Setup::new(&["x25519"], setting);
        let list = setup.keys();
        let mut refused = 0.0;
        for index in 0..12 {
            let (outer, inner) = setup.ask(&list, &message(GET, &[], b""));
            if outer.status == 429 {
                refused += 1.0;
                assert!(index >= 2 && outer.header("retry-after").is_some());
                assert_eq!(outer.header("content-type"), Some("application/problem+json"));
            } else {
                assert_eq!((outer.status, status(&inner.unwrap())), (200, 201));
            }
        }
        assert_eq!(refused > 0.0, is_limited);
        assert_eq!(setup.metric("sealway_refusals_total{on=\"ohttp\",class=\"rate_limited\"}"), refused);
    }
}

#[test]
fn a_request_is_served_once_with_and_without_a_date() {
    let setup = Setup::new(&["x25519"], "");
    let list = setup.keys();
    let now = http_date(SystemClock.now_ms());
    for headers in [&[][..], &[("date", now.as_bytes())]] {
        let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
        let (sealed, opener) = client.encapsulate(&message(GET, headers, b"")).unwrap();
        let inner = opener.decapsulate(&setup.post(&sealed).body).unwrap();
        assert_eq!(&inner[..3], b"\x01\x40\xc9");
        assert!(setup.service.next().is_ok());
        for _ in 0..3 {
            let again = setup.post(&sealed);
            assert_eq!((again.status, again.header("content-type")), (200, Some("message/ohttp-res")));
        }
        assert!(setup.service.is_untouched(), "a replay reached the service");
    }
    assert_eq!(setup.metric("sealway_refusals_total{on=\"ohttp\",class=\"replayed\"}"), 6.0);
}

#[test]
fn a_request_without_a_date_is_remembered_by_a_process_that_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    make_keys(folder.path(), &["x25519"]);
    let service = Upstream::answering(echo).unwrap();
    let start = || Launch::new(BINARY, &config(&service, "")).folder(folder.path()).start().unwrap();
    let send = |server: &Server, sealed: &[u8]| {
        let request = Request::post("/gateway", sealed).set("Content-Type", "message/ohttp-req");
        request.send(server.address()).unwrap()
    };
    let mut first = start();
    let list = Request::get("/ohttp-keys").send(first.address()).unwrap().body;
    let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
    let (sealed, opener) = client.encapsulate(&message(GET, &[], b"")).unwrap();
    assert_eq!(send(&first, &sealed).status, 200);
    assert!(service.next().is_ok());
    first.kill().unwrap();
    let inner = opener.decapsulate(&send(&start(), &sealed).body).unwrap();
    assert_eq!(&inner[..3], b"\x01\x41\x99", "409");
    assert!(service.is_untouched(), "a replay reached the service");
}

#[test]
fn a_date_that_is_required_must_be_there_and_near() {
    let setup = Setup::new(&["x25519"], ", date: required, padding: 512");
    let list = setup.keys();
    let now_ms = SystemClock.now_ms();
    let dates = [(None, 400), (Some(now_ms), 201), (Some(now_ms - 3_600_000), 400), (Some(now_ms + 3_600_000), 400)];
    for (date, expected) in dates {
        let date = date.map(http_date);
        let headers: Vec<Line<'_>> = date.iter().map(|date| ("date", date.as_bytes())).collect();
        let (outer, inner) = setup.ask(&list, &message(GET, &headers, b""));
        let inner = inner.unwrap();
        assert_eq!(status(&inner), expected, "{date:?}");
        let problem = String::from_utf8_lossy(inner.content()).into_owned();
        assert_eq!(problem.contains("http-problem-types#date"), expected == 400, "{problem}");
        assert!(expected != 400 || !field(&inner, "date").is_empty(), "the client learns the time");
        // Nonce and tag have 32 bytes.
        assert_eq!((outer.body.len() - 32) % 512, 0, "answers are filled up");
    }
}

#[test]
fn a_configuration_that_would_open_to_the_wrong_side_is_an_error_that_names_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    make_keys(folder.path(), &["x25519"]);
    let service = Upstream::answering(echo).unwrap();
    let good = config(&service, "");
    let relay = "  - { match: { path: /relay }, upstream: service, ohttp: { role: relay, gateway_path: /gateway } }\nupstreams:";
    for (from, to, expected) in [
        (
            "'api.example': service",
            "'api.example': other",
            "routes[0].ohttp.targets.api.example: no upstream is named \"other\"",
        ),
        ("'api.example': service", "'127.0.0.1': service", "routes[0].ohttp.targets.127.0.0.1: expected a host name"),
        ("'api.example': service", "'API.example:443': service, 'api.example': service", "it stands twice"),
        (
            "role: gateway,",
            "role: gateway, gateway_path: /x,",
            "routes[0].ohttp.gateway_path: only role: relay takes this",
        ),
        ("upstreams:", relay, "routes[1].ohttp.role: "),
        // A key in a file outlives what the store forgets, with a time inside and without.
        ("file:sessions.redb", "memory:", "routes[0].ohttp: role: gateway needs a store"),
        ("path: /gateway", "path: /ohttp-keys", "/ohttp-keys"),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replacen(from, to, 1);
        let started = Launch::new(BINARY, &bad).folder(folder.path()).start();
        let error = format!("{:#}", started.err().unwrap_or_else(|| panic!("started with {to}")));
        assert!(error.contains(expected), "{to}: {error}");
    }
    let dated = config(&service, ", date: required").replacen("file:sessions.redb", "memory:", 1);
    let started = Launch::new(BINARY, &dated).folder(folder.path()).start();
    let error = format!("{:#}", started.expect_err("a gateway starts that would serve copies after its next start"));
    assert!(error.contains("routes[0].ohttp: role: gateway needs a store"), "{error}");
}
