//! Routes with `sealed: hpke`, wire 4, on a real `sealway serve` with the embedded store.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealway_client::{Body, Client, Error, OneShot, OneShotTrust};
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::one_shot::{ClientPsk, KeyConfig, KeyDocument, OneShotCall, seal};
use sealway_proto::session::native::{InnerHeaders, RequestLine};
use sealway_proto::wire::base64;
use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;

const TYPE: &str = "application/octet-stream";
const MASTER: [u8; 32] = [7; 32];

/// Runs `sealway one-shot-keys` and checks its success.
fn one_shot_keys(arguments: &[&str]) {
    let mut command = Command::new(BINARY);
    let done = clear_environment(&mut command).arg("one-shot-keys").args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

struct Setup {
    server: Server,
    _service: Upstream,
    served: Arc<AtomicUsize>,
    folder: tempfile::TempDir,
    config: String,
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// A service that answers with the headers that name the client, and the body; and a gateway with keys of these KEMs.
fn setup(kems: &[&str]) -> Setup {
    limited(kems, 0)
}

/// The same with a limit on openings; 0 is none.
fn limited(kems: &[&str], opens_per_minute: u32) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for kem in kems {
        one_shot_keys(&["add", &at("keys.json"), "--use", "hpke", "--kem", kem, "--max-age", "60s"]);
    }
    std::fs::write(at("psk-master"), base64::encode(&MASTER)).unwrap();
    std::fs::write(at("revoked.txt"), "mallory\n").unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    let service = Upstream::answering(move |head: &RequestHead, body: &[u8]| {
        count.fetch_add(1, Ordering::SeqCst);
        if head.method_and_target().1 == "/pay/unframed" {
            return b"HTTP/1.1 200 OK\r\n\r\n4111".to_vec();
        }
        let who = ["x-sealway-auth", "x-sealway-subject"].map(|name| head.header(name).unwrap_or("-").to_owned());
        answer("200 OK", &[("Content-Type", "text/plain"), ("X-Who", &who.join(" "))], body)
    });
    let service = service.unwrap();
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
one_shot: {{ keys: keys.json, psk: {{ master: psk-master, revoked: revoked.txt }}, max_age_sec: 60, opens_per_minute: {opens_per_minute} }}
routes:
  - {{ match: {{ path_prefix: /pay }}, upstream: service, sealed: hpke }}
  - {{ match: {{ path_prefix: /known }}, upstream: service, sealed: [session, hpke], one_shot: {{ client: psk }} }}
  - {{ match: {{ path_prefix: /x }}, upstream: service, sealed: hpke, one_shot: {{ suites: [x-wing] }} }}
  - {{ match: {{ path_prefix: /gone }}, upstream: nobody, sealed: hpke }}
upstreams:
  service: {{ servers: ['http://{}'] }}
  nobody: {{ servers: ['http://127.0.0.1:1'] }}
sessions: {{ store: 'file:s.redb', allow_generated_kek: true }}
",
        service.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    Setup { server, _service: service, served, folder, config }
}

fn psk(id: &str) -> [u8; 32] {
    *default_provider().hkdf_sha256(id.as_bytes(), &MASTER, &[b"sealway/4 psk"]).unwrap()
}

impl Setup {
    fn client(&self) -> OneShot {
        let kids = self.configs().iter().map(|config| config.kid(default_provider())).collect();
        Client::builder(format!("http://{}", self.server.address())).one_shot(OneShotTrust::Kids(kids)).unwrap()
    }

    /// The key configurations of the published document.
    fn configs(&self) -> Vec<KeyConfig> {
        let answer = self.send(Request::get("/.well-known/sealway-hpke-keys"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let document = KeyDocument::parse(default_provider(), &answer.body).unwrap();
        let keys = document.keys.iter();
        keys.map(|key| KeyConfig::decode(default_provider(), &key.config).unwrap()).collect()
    }

    fn send(&self, request: Request) -> Answer {
        request.send(self.server.address()).unwrap()
    }

    fn metric(&self, line: &str) -> f64 {
        let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let text = request.send(self.server.admin()).unwrap().text();
        text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or_default()
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

/// A sealed request of one frame, which a test may change.
struct ChangeableRequest {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    call: OneShotCall,
}

impl ChangeableRequest {
    fn new(config: &KeyConfig, psk: Option<ClientPsk<'_>>, path: &str, stamp_ms: u64) -> ChangeableRequest {
        let line = RequestLine { method: "POST", target: path };
        let mut nonce = [0; 16];
        default_provider().fill_random(&mut nonce).unwrap();
        let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let (provider, stamp) = (default_provider(), stamp_ms.to_string());
        let mut call = seal(provider, config, psk, line, TYPE, (&stamp, &nonce), None).unwrap();
        let mut body = call.prefix.clone();
        let begun = call.sealer.begin(&mut body);
        InnerHeaders::new().encode(&mut body);
        body.extend_from_slice(b"4111111111111111");
        call.sealer.seal(&mut body, begun, true).unwrap();
        let mut headers: Vec<_> = call.headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        headers.push(("content-type".into(), TYPE.into()));
        ChangeableRequest { method: "POST", path: path.into(), headers, body, call }
    }

    fn request(&self) -> Request {
        let request = Request::post(&self.path, self.body.clone()).method(self.method);
        self.headers.iter().fold(request, |request, (name, value)| request.set(name, value))
    }

    /// Opens an answer, and returns its plaintext; `None` if it does not open.
    fn open(&self, answer: &Answer) -> Option<Vec<u8>> {
        let headers: Vec<(String, String)> =
            answer.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        let (sealed, mut opener) = self.call.pending.open(default_provider(), &headers, answer.status).ok()?;
        let sealed = sealed.unwrap_or_else(|| answer.body.clone());
        let (mut input, mut frame, mut all) = (sealed.as_slice(), Vec::new(), Vec::new());
        while !input.is_empty() {
            opener.read(&mut input, &mut frame).ok()?;
            all.append(&mut frame);
        }
        opener.end().ok()?;
        let (_, from) = InnerHeaders::parse(&all).ok()?;
        Some(all.split_off(from))
    }

    /// The code of a sealed problem.
    fn problem(&self, answer: &Answer) -> String {
        let opened = self.open(answer).unwrap_or_else(|| panic!("it does not open: {}", answer.text()));
        let problem: serde_json::Value = serde_json::from_slice(&opened).unwrap();
        assert!(answer.header("x-idempotency-key").unwrap().contains(".p-"));
        problem["code"].as_str().unwrap().to_owned()
    }
}

async fn post(client: &OneShot, path: &str, body: &str) -> Result<(u16, String, String), Error> {
    let request = http::Request::post(path).body(Body::from(body.to_owned())).unwrap();
    let answer = client.send(request).await?;
    let who = answer.headers()["x-who"].to_str().unwrap().to_owned();
    let status = answer.status().as_u16();
    let body = answer.into_body().bytes().await?;
    Ok((status, who, String::from_utf8(body.to_vec()).unwrap()))
}

#[tokio::test]
async fn a_request_without_a_session_is_served_and_its_client_named() {
    for kem in ["x-wing", "mlkem768-p256", "x25519", "p256"] {
        let setup = setup(&[kem]);
        let client = setup.client();
        let large = "x".repeat(300_000);
        for body in ["", "4111111111111111", &large] {
            let answer = post(&client, "/pay?a=1", body).await.unwrap();
            assert_eq!(answer, (200, "none -".into(), body.into()), "{kem}");
        }
        let get = http::Request::get("/pay").body(Body::empty()).unwrap();
        assert_eq!(client.send(get).await.unwrap().status(), 200);
        assert_eq!(post(&client, "/known", "a").await.unwrap_err().code(), "policy");
        let partner = setup.client().psk("partner-7", psk("partner-7")).unwrap();
        assert_eq!(post(&partner, "/known", "a").await.unwrap(), (200, "psk partner-7".into(), "a".into()));
        // A wrong key and a revoked name look alike.
        for (id, key) in [("partner-7", [1; 32]), ("mallory", psk("mallory"))] {
            let client = setup.client().psk(id, key).unwrap();
            assert_eq!(post(&client, "/known", "a").await.unwrap_err().code(), "unsealable", "{id}");
        }
        assert_eq!(post(&client, "/gone", "a").await.unwrap_err().code(), "upstream_unreachable");
        let other = if kem == "x-wing" { "served" } else { "key_retired" };
        let code = post(&client, "/x", "a").await.map_or_else(|err| err.code().to_owned(), |_| "served".into());
        assert_eq!(code, other);
    }
}

#[test]
fn a_request_is_served_once_also_after_a_restart() {
    let mut setup = setup(&["x25519"]);
    let config = &setup.configs()[0];
    let sealed = ChangeableRequest::new(config, None, "/pay", now_ms());
    let first = setup.send(sealed.request());
    assert_eq!((first.status, sealed.open(&first).as_deref()), (200, Some(&b"4111111111111111"[..])));
    for _ in 0..3 {
        let again = setup.send(sealed.request());
        assert_eq!((again.status, sealed.problem(&again).as_str()), (409, "replayed"));
    }
    // An answer opens for its own request alone.
    assert_eq!(ChangeableRequest::new(config, None, "/pay", now_ms()).open(&first), None);
    setup.server.stop().unwrap();
    setup.server = Launch::new(BINARY, &setup.config).folder(setup.folder.path()).start().unwrap();
    let again = setup.send(sealed.request());
    assert_eq!((again.status, sealed.problem(&again).as_str()), (409, "replayed"));
    assert_eq!(setup.served(), 1);
    let fresh = ChangeableRequest::new(config, None, "/pay", now_ms());
    assert_eq!(setup.send(fresh.request()).status, 200);
    // Stamps count once the request has opened.
    for stamp_ms in [now_ms() - 400_000, now_ms() + 400_000] {
        let old = ChangeableRequest::new(config, None, "/pay", stamp_ms);
        let answer = setup.send(old.request());
        assert_eq!((answer.status, old.problem(&answer).as_str()), (400, "clock_skew"));
    }
    assert_eq!(setup.served(), 2);
}

#[test]
fn a_store_that_loses_its_claims_at_a_restart_is_an_error_at_the_start() {
    let setup = setup(&["x25519"]);
    let config = setup.config.replace("store: 'file:s.redb', allow_generated_kek: true", "store: 'memory:'");
    let started = Launch::new(BINARY, &config).folder(setup.folder.path()).start();
    let why = format!("{:#}", started.err().unwrap());
    assert!(why.contains("routes[0].sealed: hpke needs a store that keeps claims over a restart"), "{why}");
}

#[test]
fn a_seal_header_that_names_no_wire_is_unsealable_where_wire_4_is_served_alone() {
    let setup = setup(&["x25519"]);
    let sealed = ChangeableRequest::new(&setup.configs()[0], None, "/pay", now_ms());
    let changed = ["5", "04"].map(|seal| sealed.request().set("x-seal", seal));
    for request in changed.into_iter().chain([sealed.request().header("x-seal", "4")]) {
        let answer = setup.send(request);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("\"code\":\"unsealable\""), "{}", answer.text());
    }
    assert_eq!(setup.send(sealed.request().set("x-seal", "3")).status, 403);
    assert_eq!((setup.served(), setup.send(sealed.request()).status), (0, 200));
}

#[test]
fn an_answer_whose_end_nothing_proves_is_not_sealed_as_whole() {
    let setup = setup(&["x25519"]);
    let sealed = ChangeableRequest::new(&setup.configs()[0], None, "/pay/unframed", now_ms());
    let answer = sealed.request().send(setup.server.address());
    assert!(answer.ok().is_none_or(|answer| sealed.open(&answer).is_none()));
    assert_eq!(setup.served(), 1);
}

#[test]
fn openings_of_strangers_are_limited_by_their_network_and_those_under_a_pre_shared_key_are_not() {
    let setup = limited(&["x25519"], 3);
    let config = &setup.configs()[0];
    let partner = psk("partner-7");
    let send = |psk: Option<ClientPsk<'_>>| {
        let sealed = ChangeableRequest::new(config, psk, "/pay", now_ms());
        setup.send(sealed.request())
    };
    let known = |key| Some(ClientPsk { id: "partner-7", key });
    for _ in 0..10 {
        assert_eq!(send(known(&partner)).status, 200);
    }
    // Two of three: what comes again, and what does not open.
    let again = ChangeableRequest::new(config, known(&partner), "/pay", now_ms());
    assert_eq!([(); 2].map(|()| setup.send(again.request()).status), [200, 409]);
    assert_eq!((send(known(&[1; 32])).status, send(None).status), (400, 200));
    // A minute's worth comes back bit by bit.
    let more: Vec<_> = (0..10).map(|_| send(None)).collect();
    let refused = more.iter().find(|answer| answer.status == 429).unwrap();
    let served = 12 + more.iter().filter(|answer| answer.status == 200).count();
    let problem: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(problem["code"], "rate_limited");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(setup.served(), served);
    let opens = |result| {
        setup.metric(&format!("sealway_one_shot_opens_total{{mode=\"hpke\",kem=\"x25519\",result=\"{result}\"}}"))
    };
    assert_eq!((opens("ok"), opens("rejected")), (served as f64, 2.0));
    let kid = config.kid(default_provider());
    let name = kid.strip_prefix("hpke:").unwrap();
    assert_eq!(
        setup.metric(&format!("sealway_one_shot_key_used_total{{use=\"hpke\",key_id=\"{name}\"}}")),
        served as f64
    );
    let limited = setup.metric("sealway_refusals_total{on=\"call\",class=\"rate_limited\"}");
    assert_eq!(limited, (22 - served) as f64);
    assert_eq!(setup.configs().len(), 1, "the key document is sent all the same");
}

#[test]
fn a_hundred_copies_at_one_moment_are_served_once() {
    let setup = setup(&["x25519"]);
    let sealed = ChangeableRequest::new(&setup.configs()[0], None, "/pay", now_ms());
    let address = setup.server.address();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let copies: Vec<_> = (0..100)
            .map(|_| {
                let request = sealed.request();
                scope.spawn(move || request.send(address).unwrap().status)
            })
            .collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 99);
    assert_eq!(setup.served(), 1);
}

#[test]
fn no_cut_no_flipped_byte_and_no_changed_header_is_served() {
    let setup = setup(&["x25519"]);
    let config = &setup.configs()[0];
    let sealed = ChangeableRequest::new(config, Some(ClientPsk { id: "p7", key: &psk("p7") }), "/pay", now_ms());
    let mut refused = Vec::new();
    let mut send = |request: Request| {
        let answer = setup.send(request);
        assert!([400, 403, 409].contains(&answer.status), "{}", answer.text());
        if answer.status == 400 {
            refused.push(answer.body);
        }
    };
    for cut in 0..sealed.body.len() {
        send(ChangeableRequest { body: sealed.body[..cut].to_vec(), ..clone(&sealed, config) }.request());
    }
    for at in 0..sealed.body.len().min(300) {
        let mut body = sealed.body.clone();
        body[at] ^= 1 << (at % 8);
        send(ChangeableRequest { body, ..clone(&sealed, config) }.request());
    }
    send(ChangeableRequest { body: [&sealed.body[..], b"x"].concat(), ..clone(&sealed, config) }.request());
    send(ChangeableRequest { method: "PUT", ..clone(&sealed, config) }.request());
    for path in ["/pay?", "/pay/", "/known"] {
        send(ChangeableRequest { path: path.into(), ..clone(&sealed, config) }.request());
    }
    let key = &sealed.headers.iter().find(|(name, _)| name == "x-idempotency-key").unwrap().1;
    let (stamp, nonce) = key.split_once('.').unwrap();
    for (name, value) in [
        ("content-type", "application/json".into()),
        ("x-idempotency-key", format!("{}.{nonce}", stamp.parse::<u64>().unwrap() + 1)),
        ("x-idempotency-key", format!("{stamp}.{nonce}0")),
        ("x-idempotency-key", format!("{stamp}.r-{nonce}")),
        ("x-kid", format!("hpke:{}", "0".repeat(32))),
        ("x-kid", "hpke:".into()),
        ("x-kid", format!("session:S-{}", "0".repeat(32))),
        ("x-seal", "5".into()),
        ("x-seal", "04".into()),
    ] {
        let mut changed = clone(&sealed, config);
        changed.headers.retain(|(known, _)| known != name);
        changed.headers.push((name.into(), value));
        send(changed.request());
    }
    assert_eq!(setup.served(), 0);
    // Forged and damaged requests get the same bytes, whatever the cause.
    assert!(refused.len() > 150 && refused.iter().all(|body| *body == refused[0]), "{}", refused.len());
    assert_eq!(setup.send(sealed.request()).status, 200);
}

/// A copy of a request; what opens its answer belongs to another, as a test of refusals opens none.
fn clone(sealed: &ChangeableRequest, config: &KeyConfig) -> ChangeableRequest {
    let ChangeableRequest { method, path, headers, body, .. } = sealed;
    let call = ChangeableRequest::new(config, None, "/", 1).call;
    ChangeableRequest { method, path: path.clone(), headers: headers.clone(), body: body.clone(), call }
}

#[test]
fn the_command_line_calls_once_with_a_pin_or_a_root() {
    let setup = setup(&["x-wing", "x25519"]);
    let url = |path: &str| format!("http://{}{path}", setup.server.address());
    let call = |arguments: &[&str]| {
        let output =
            Command::new(BINARY).arg("call").args(arguments).current_dir(setup.folder.path()).output().unwrap();
        (output.status.success(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()))
    };
    let kid = setup.configs()[0].kid(default_provider());
    let (done, [answer, errors]) = call(&["POST", &url("/pay"), "--once", "--pin", &kid, "--data", "4111"]);
    assert!(done && answer == "4111", "{errors}");
    let config = base64::encode(&setup.configs()[1].encode());
    let (done, [answer, errors]) = call(&["POST", &url("/pay"), "--once", "--pin", &config, "--data", "4112"]);
    assert!(done && answer == "4112", "{errors}");
    std::fs::write(setup.folder.path().join("psk"), base64::encode(&psk("partner-7"))).unwrap();
    let known =
        ["POST", &url("/known"), "--once", "--pin", &kid, "--data", "1", "--psk", "partner-7", "--psk-file", "psk"];
    let (done, [answer, errors]) = call(&known);
    assert!(done && answer == "1", "{errors}");
    // A root that did not sign the document, and no pin at all.
    let root = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1;
    let (done, [_, errors]) = call(&["POST", &url("/pay"), "--once", "--root", &base64::encode(root.public())]);
    assert!(!done && errors.contains("the key document of"), "{errors}");
    let (done, [_, errors]) = call(&["POST", &url("/pay"), "--once"]);
    assert!(!done && errors.contains("--once: pin the service's key"), "{errors}");
    assert_eq!(setup.served(), 3);
}
