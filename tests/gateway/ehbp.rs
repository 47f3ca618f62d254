//! Routes with `sealed: ehbp` against a client of this test's own, which can send what the published clients cannot. Those are in
//! `ehbp_clients`, and keys in `ehbp_keys`.

use std::process::{Command, Stdio};

use sealway_proto::crypto::default_provider;
use sealway_proto::ehbp::SUITE;
use sealway_proto::hpke::{Context, Kem, PublicKey, Sender, setup_sender};
use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;

const KEY_HEADER: &str = "Ehbp-Encapsulated-Key";
pub(crate) const PLAIN: &[u8] = br#"{"prompt":"4111111111111111"}"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame(ciphertext: &[u8]) -> Vec<u8> {
    [&u32::try_from(ciphertext.len()).unwrap().to_be_bytes(), ciphertext].concat()
}

/// Runs `sealway one-shot-keys` and returns what it printed.
pub(crate) fn one_shot_keys(arguments: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).arg("one-shot-keys").args(arguments).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// One request of a client, which can open the answer.
pub(crate) struct SealedRequest {
    enc: Vec<u8>,
    context: Context<Sender>,
    frames: Vec<Vec<u8>>,
}

impl SealedRequest {
    fn body(&self) -> Vec<u8> {
        self.frames.concat()
    }

    pub(crate) fn request(&self, path: &str) -> Request {
        Request::post(path, self.body()).header(KEY_HEADER, hex(&self.enc))
    }

    /// Opens the frames of an answer, one after the other.
    fn open(&self, answer: &Answer) -> Vec<u8> {
        let nonce = answer.header("ehbp-response-nonce").unwrap_or_else(|| panic!("no nonce: {}", answer.text()));
        self.open_body(nonce, &answer.body)
    }

    fn open_body(&self, nonce: &str, mut body: &[u8]) -> Vec<u8> {
        let nonce: Vec<u8> =
            (0..nonce.len()).step_by(2).map(|at| u8::from_str_radix(&nonce[at..at + 2], 16).unwrap()).collect();
        assert_eq!(nonce.len(), 32);
        let provider = default_provider();
        let mut secret = [0; 32];
        self.context.export(provider, b"ehbp response", &mut secret).unwrap();
        let salt = [self.enc.as_slice(), &nonce].concat();
        let key = provider.aes256_gcm(&provider.hkdf_sha256(&secret, &salt, &[b"key"]).unwrap()).unwrap();
        let base: [u8; 12] = provider.hkdf_sha256(&secret, &salt, &[b"nonce"]).unwrap()[..12].try_into().unwrap();
        let (mut plaintext, mut number) = (Vec::new(), 0_u64);
        while !body.is_empty() {
            let (len, rest) = body.split_first_chunk::<4>().unwrap();
            let (ciphertext, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
            body = rest;
            let mut iv = base;
            iv.iter_mut().skip(4).zip(number.to_be_bytes()).for_each(|(to, from)| *to ^= from);
            let mut opened = ciphertext.to_vec();
            key.open_in_place(&iv, &[], &mut opened).unwrap();
            plaintext.extend_from_slice(&opened[..opened.len() - 16]);
            number += 1;
        }
        plaintext
    }
}

pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) service: Upstream,
    pub(crate) folder: tempfile::TempDir,
}

/// Answers as the path says, with the body that came.
pub(crate) fn serve(head: &RequestHead, body: &[u8]) -> Vec<u8> {
    let (_, target) = head.method_and_target();
    let wire = head.header("x-sealway-wire").unwrap_or("none").to_owned();
    let headers = [("Content-Type", "application/json"), ("X-Wire", wire.as_str())];
    match target.rsplit('/').next().unwrap() {
        "204" => answer("204 No Content", &[], b""),
        "304" => answer("304 Not Modified", &[("ETag", "\"a\"")], b""),
        "500" => answer("500 Internal Server Error", &headers, b"{\"error\":\"own\"}"),
        "nonce" => answer("200 OK", &[("Ehbp-Response-Nonce", "00"), ("Ehbp-Encapsulated-Key", "11")], body),
        "gzip" => answer("200 OK", &[("Content-Encoding", "gzip")], body),
        "headers" => answer("200 OK", &[("ETag", "\"a\""), ("Content-Encoding", "identity"), ("X-Kept", "1")], body),
        _ => answer("200 OK", &headers, body),
    }
}

pub(crate) fn config(service: &str, store: &str) -> String {
    let route = |path: &str, ehbp: &str| {
        format!(
            "  - {{ match: {{ path_prefix: {path} }}, upstream: service, sealed: ehbp, sealed_body_max: 4096, ehbp: {{ {ehbp} }} }}\n"
        )
    };
    let routes = [
        route("/v1/", ""),
        route("/bodyless/", "unsealed: bodyless"),
        route("/pass/", "unsealed: pass"),
        route("/stream/", "stream: true"),
        route("/again/", "replay: 'off'"),
    ];
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
one_shot: {{ keys: keys.json }}
cors: {{ origins: ['https://shop.example'] }}
routes:
  - {{ match: {{ path: /ready }}, sessions: {{}} }}
{}  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{service}'] }} }}
sessions: {{ store: '{store}', allow_generated_kek: true, store_deadline_ms: 60000 }}
",
        routes.concat()
    )
}

impl Setup {
    pub(crate) fn new() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys.json");
        one_shot_keys(&["add", keys.to_str().unwrap(), "--use", "ehbp", "--days", "2"]);
        let service = Upstream::answering(serve).unwrap();
        let config = config(&service.address.to_string(), "file:sessions.redb");
        let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
        Setup { server, service, folder }
    }

    pub(crate) fn keys(&self) -> String {
        self.folder.path().join("keys.json").to_str().unwrap().to_owned()
    }

    pub(crate) fn public(&self) -> PublicKey {
        let published = Request::get("/.well-known/hpke-keys").send(self.server.address()).unwrap();
        assert_eq!((published.status, published.header("content-type")), (200, Some("application/ohttp-keys")));
        assert_eq!(published.header("cache-control"), Some("no-cache"));
        assert_eq!(published.body.len(), 41);
        PublicKey::from_bytes(default_provider(), Kem::X25519, &published.body[3..35]).unwrap()
    }

    pub(crate) fn seal(&self, parts: &[&[u8]]) -> SealedRequest {
        seal_to(&self.public(), parts)
    }

    pub(crate) fn send(&self, request: &Request) -> Answer {
        request.send(self.server.address()).unwrap()
    }

    fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let text = request.send(self.server.admin()).unwrap().text();
        let found =
            text.lines().filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
        found.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

pub(crate) fn seal_to(public: &PublicKey, parts: &[&[u8]]) -> SealedRequest {
    let (enc, mut context) = setup_sender(default_provider(), SUITE, public, b"ehbp request", None).unwrap();
    let frames = parts.iter().map(|part| frame(&context.seal(&[], part).unwrap())).collect();
    SealedRequest { enc, context, frames }
}

#[test]
fn a_request_is_opened_for_the_service_and_its_answer_sealed_to_the_client() {
    let setup = Setup::new();
    for (path, parts) in [("/v1/chat", &[PLAIN][..]), ("/v1/chat", &[b"{", b"", b"}"]), ("/stream/chat", &[b"{", b"}"])]
    {
        let sealed = setup.seal(parts);
        let request =
            sealed.request(path).header("Content-Type", "application/json").header("Ehbp-Response-Nonce", "00");
        let request = request.header("Accept-Encoding", "gzip").header("Range", "bytes=0-1");
        let answer = setup.send(&request);
        assert_eq!((answer.status, answer.header("x-wire")), (200, Some("ehbp")), "{}", answer.text());
        assert_eq!(sealed.open(&answer), parts.concat());
        assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
        assert_eq!(answer.header("content-length"), None);
        let (head, body) = setup.service.next().unwrap();
        assert_eq!((head.method_and_target().1, &body), (path, &parts.concat()));
        assert_eq!(head.header("content-type"), Some("application/json"));
        assert_eq!(head.header("accept-encoding"), Some("identity"));
        for gone in [KEY_HEADER, "Ehbp-Response-Nonce", "Range"] {
            assert_eq!(head.header(gone), None);
        }
    }
    assert_eq!(setup.metric("sealway_sealed_calls_total", &["wire=\"ehbp\""]), 3.0);
    // Chunked as well as with a length, and one byte at a time.
    for size in [1, 7] {
        let sealed = setup.seal(&[PLAIN]);
        assert_eq!(sealed.open(&setup.send(&sealed.request("/v1/chunked").chunked(size))), PLAIN);
    }
    // Another spelling of the path does not pass by.
    assert_eq!(setup.send(&Request::post("/%761/chat", PLAIN)).status, 400);
}

#[test]
fn answers_of_every_kind_are_sealed_and_none_has_a_header_of_another_body() {
    let setup = Setup::new();
    for (path, status, expected) in [
        ("/v1/500", 500, &br#"{"error":"own"}"#[..]),
        ("/v1/204", 204, b""),
        ("/v1/304", 304, b""),
        ("/v1/nonce", 200, PLAIN),
        ("/v1/headers", 200, PLAIN),
        ("/v1/gzip", 502, br#"{"error":"SERVICE_UNAVAILABLE"}"#),
    ] {
        let sealed = setup.seal(&[PLAIN]);
        let answer = setup.send(&sealed.request(path));
        assert_eq!((answer.status, sealed.open(&answer).as_slice()), (status, expected), "{path}");
        assert_eq!(answer.all("ehbp-response-nonce").len(), 1, "{path}");
        for gone in ["etag", "content-encoding", "ehbp-encapsulated-key"] {
            assert_eq!(answer.header(gone), None, "{path}: {gone}");
        }
    }
    // A page may send the header and read the nonce.
    let sealed = setup.seal(&[PLAIN]);
    let answer = setup.send(&sealed.request("/v1/cors").header("Origin", "https://shop.example"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("Ehbp-Response-Nonce"));
    let preflight = Request::new("OPTIONS", "/v1/cors").header("Origin", "https://shop.example");
    let preflight = setup.send(&preflight.header("Access-Control-Request-Method", "POST"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains(KEY_HEADER));
}

/// Rows 11 to 18 and 21 of the protocol's abuse cases: what is sent, and the status.
#[test]
fn whatever_is_wrong_is_rejected_and_the_service_hears_nothing() {
    let setup = Setup::new();
    let public = setup.public();
    let good = seal_to(&public, &[b"1", b"22", b"333"]);
    let key = hex(&good.enc);
    let post = |key: &str, body: Vec<u8>| Request::post("/v1/x", body).header(KEY_HEADER, key);
    let [one, two, three] = [0, 1, 2].map(|at| good.frames[at].as_slice());
    let zeros = |count: usize| vec![0; 4 * count];
    let cases = [
        ("the header twice", 400, post(&key, good.body()).header(KEY_HEADER, key.as_str())),
        ("joined by a comma", 400, post(&format!("{key},{key}"), good.body())),
        ("in upper case", 400, post(&key.to_uppercase(), good.body())),
        ("empty", 400, post("", good.body())),
        ("63 digits", 400, post(&key[1..], good.body())),
        ("65 digits", 400, post(&format!("{key}0"), good.body())),
        ("with 0x", 400, post(&format!("0x{}", &key[2..]), good.body())),
        ("a blank inside", 400, post(&format!("{} {}", &key[..31], &key[32..]), good.body())),
        ("a point of small order", 400, post(&"0".repeat(64), good.body())),
        ("an empty body", 400, post(&key, Vec::new())),
        ("empty frames alone", 400, post(&key, zeros(3))),
        ("empty frames without end", 400, post(&key, zeros(70_000))),
        ("a length of 1", 400, post(&key, [&[0, 0, 0, 1, 9][..], one].concat())),
        ("a length of 15", 400, post(&key, [&[0, 0, 0, 15][..], &[9; 15]].concat())),
        ("a length over the bound", 413, post(&key, [&4113_u32.to_be_bytes()[..], one].concat())),
        ("the longest length", 413, post(&key, vec![255; 4])),
        ("more than fits", 413, seal_to(&public, &[&[7; 4000], &[7; 200]]).request("/v1/x")),
        ("a part of a length", 400, post(&key, [one, &[0, 0]].concat())),
        ("a length without its bytes", 400, post(&key, [one, two, &three[..three.len() - 1]].concat())),
        ("frames swapped", 400, post(&key, [one, three, two].concat())),
        ("a frame repeated", 400, post(&key, [one, one].concat())),
        ("a frame left out", 400, post(&key, [one, three].concat())),
        ("the first frame left out", 422, post(&key, [two, three].concat())),
        ("another key", 422, post(&hex(&seal_to(&public, &[]).enc), good.body())),
        ("no header", 400, Request::post("/v1/x", PLAIN)),
        ("no header and no body", 400, Request::get("/v1/x")),
        ("a body without header under bodyless", 400, Request::post("/bodyless/x", PLAIN)),
        ("a session's seal as well", 400, post(&key, good.body()).header("X-Seal", "4")),
    ];
    for (what, status, request) in cases {
        let answer = setup.send(&request);
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(answer.header("ehbp-response-nonce"), None, "{what}");
        match status {
            422 => {
                assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
                assert_eq!(answer.json()["type"], "urn:ietf:params:ehbp:error:key-config", "{what}");
            }
            400 => assert_eq!(answer.text(), r#"{"error":"CRYPTO_ERROR"}"#, "{what}"),
            _ => {}
        }
    }
    assert!(setup.service.is_untouched());
    assert!(setup.metric("sealway_one_shot_trial_opens_total", &[]) >= 2.0);
    // A good secret before a bad stream has burnt nothing.
    assert_eq!(good.open(&setup.send(&post(&key, good.body()))), b"122333");
    // 10,000 empty frames, then data.
    let late = seal_to(&public, &[PLAIN]);
    let request = post(&hex(&late.enc), [zeros(10_000), late.body()].concat());
    assert_eq!(late.open(&setup.send(&request)), PLAIN);
    let log = setup.server.log().join("\n");
    assert!(!log.contains("4111111111111111") && !log.contains(&key), "{log}");
}

#[test]
fn a_route_passes_in_the_clear_what_it_says_and_nothing_else() {
    let setup = Setup::new();
    for (request, expected) in [
        (Request::get("/bodyless/x"), "none"),
        (Request::get("/pass/x"), "none"),
        (Request::post("/pass/x", PLAIN), "none"),
    ] {
        let answer = setup.send(&request);
        assert_eq!((answer.status, answer.header("x-wire")), (200, Some(expected)), "{}", answer.text());
    }
    assert_eq!(setup.send(&Request::get("/pass/nonce")).header("ehbp-response-nonce"), None);
    let sealed = setup.seal(&[PLAIN]);
    let answer = setup.send(&sealed.request("/pass/x"));
    assert_eq!((answer.header("x-wire"), sealed.open(&answer).as_slice()), (Some("ehbp"), PLAIN));
    let wrong = Request::post("/pass/x", PLAIN).header(KEY_HEADER, "00");
    assert_eq!(setup.send(&wrong).status, 400);
}

#[test]
fn a_request_without_a_body_opens_no_tunnel_in_clear() {
    let setup = Setup::new();
    for (path, expected) in [("/bodyless/x", None), ("/pass/x", Some("websocket"))] {
        let request = Request::get(path).set("Connection", "Upgrade").set("Upgrade", "websocket");
        assert_eq!(setup.send(&request).status, 200, "{path}");
        let (head, _) = setup.service.next().unwrap();
        assert_eq!(head.header("upgrade"), expected, "{path}");
    }
}

#[test]
fn a_replay_is_rejected_under_seal_also_by_a_process_that_starts_again() {
    let mut setup = Setup::new();
    let sealed = setup.seal(&[PLAIN]);
    let request = sealed.request("/v1/x");
    let address = setup.server.address();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..20).map(|_| scope.spawn(|| request.send(address).unwrap())).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    let mut nonces: Vec<_> = answers.iter().map(|answer| answer.header("ehbp-response-nonce").unwrap()).collect();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 20, "each answer has a nonce of its own");
    for replayed in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(replayed.status, 409);
        assert_eq!(sealed.open(replayed), br#"{"error":"REPLAYED"}"#);
    }
    // At another path too: the target is not bound, and the claim is of the secret alone.
    assert_eq!(setup.send(&sealed.request("/stream/y")).status, 409);
    // Where the route does not mind, it comes again.
    let again = setup.seal(&[PLAIN]);
    for _ in 0..2 {
        assert_eq!(setup.send(&again.request("/again/x")).status, 200);
    }
    setup.server.stop().unwrap();
    let config = config(&setup.service.address.to_string(), "file:sessions.redb");
    setup.server = Launch::new(BINARY, &config).folder(setup.folder.path()).start().unwrap();
    let after = setup.send(&request);
    assert_eq!(after.status, 409, "{}", after.text());
    assert_eq!(setup.seal(&[PLAIN]).request("/v1/x").send(setup.server.address()).unwrap().status, 200);
}

#[test]
fn a_cut_between_two_frames_passes_and_any_other_is_found() {
    let setup = Setup::new();
    let public = setup.public();
    let (count, mut served) = (3, 0);
    let len = seal_to(&public, &vec![&b"part"[..]; count]).body().len();
    for cut in 0..=len {
        let sealed = seal_to(&public, &vec![&b"part"[..]; count]);
        let request = Request::post("/v1/x", &sealed.body()[..cut]).header(KEY_HEADER, hex(&sealed.enc));
        let answer = setup.send(&request);
        assert!(matches!(answer.status, 200 | 400), "cut at {cut}: {}", answer.text());
        served += usize::from(answer.status == 200);
    }
    // The whole, and the protocol's own weakness: the cuts between frames.
    assert_eq!(served, 1 + (count - 1));
    // With HTTP's own framing broken, none: the length is announced, and the connection ends at a frame's end.
    for path in ["/v1/broken", "/stream/broken"] {
        let sealed = seal_to(&public, &[b"part", b"part"]);
        let head = sealed.request(path).head_bytes();
        let mut connection = Connection::open(setup.server.address()).unwrap();
        connection.write(&[&head[..], &sealed.frames[0]].concat()).unwrap();
        drop(connection);
    }
    let sealed = seal_to(&public, &[b"after"]);
    assert_eq!(sealed.open(&setup.send(&sealed.request("/v1/after"))), b"after");
    loop {
        let (head, _) = setup.service.next().unwrap();
        let (_, target) = head.method_and_target();
        assert!(!target.ends_with("/broken"), "the service took {target} for whole");
        if target == "/v1/after" {
            break;
        }
    }
}

#[test]
fn a_streamed_request_that_goes_wrong_is_never_whole_for_the_service() {
    let setup = Setup::new();
    let sealed = setup.seal(&[b"first", b"second"]);
    let mut body = sealed.body();
    *body.last_mut().unwrap() ^= 1;
    let answer = setup.send(&Request::post("/stream/x", body).header(KEY_HEADER, hex(&sealed.enc)));
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(setup.service.is_untouched(), "the service took it for whole");
}

#[test]
fn an_answer_that_the_service_breaks_off_does_not_end_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    one_shot_keys(&["add", folder.path().join("keys.json").to_str().unwrap(), "--use", "ehbp"]);
    let service = Upstream::serve(|_, connection| {
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        connection.write_chunk(b"begin")?;
        Ok(Vec::new())
    });
    let service = service.unwrap();
    let config = config(&service.address.to_string(), "file:sessions.redb");
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let setup = Setup { server, service, folder };
    let sealed = setup.seal(&[PLAIN]);
    let mut connection = Connection::open(setup.server.address()).unwrap();
    connection.write(&sealed.request("/v1/x").bytes()).unwrap();
    let (status, headers) = connection.read_head().unwrap();
    assert!(status.contains("200"), "{status}");
    let nonce = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("ehbp-response-nonce")).unwrap().1.clone();
    assert_eq!(sealed.open_body(&nonce, &connection.read_chunk().unwrap()), b"begin");
    // Neither a last chunk nor anything else follows.
    assert!(connection.read_chunk().is_err());
}
