//! Routes with MLE against wrong tokens, replays, callers without a certificate and keys that come and go. The official clients are in
//! `mle_clients`.

use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use sealway_gateway::jose_provider;
use sealway_proto::mle::{
    Alg, Enc, KidSource, Message, OpenRandoms, Opening, OpeningKey, OpeningKeys, Profile, SealRandoms, SealingKey,
    Side, Wrapper, body, seal,
};
use sealway_proto::session::Fresh;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;

pub(crate) const PLAIN: &[u8] = br#"{"pan":"4111111111111111","n":12345678901234567890,"amount":1.0}"#;

pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) service: Upstream,
    pub(crate) folder: tempfile::TempDir,
}

/// Returns the body that came, and whether it came in clear with the header of MLE.
pub(crate) fn echo(head: &RequestHead, body: &[u8]) -> Vec<u8> {
    if head.method_and_target().1 == "/visa/unframed" {
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}".to_vec();
    }
    let wire = head.header("x-sealway-wire").unwrap_or("none").to_owned();
    answer("200 OK", &[("Content-Type", "application/json"), ("X-Wire", &wire)], body)
}

pub(crate) fn config(service: &Upstream, open: &str) -> String {
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
mle_keys:
  one: {{ file: one.key.pem, kid: kid-one }}
  two: {{ file: two.key.pem, kid: kid-two }}
  caller: {{ certificate: caller.cert.pem, kid: kid-caller, enc: A128GCM }}
routes:
  - match: {{ path_prefix: /visa }}
    upstream: service
    sealed_body_max: 4096
    mle: {{ direction: inbound, profile: visa, caller: anybody, open: {open}, seal: [{{ keys: [caller] }}] }}
  - match: {{ path_prefix: /optional }}
    upstream: service
    mle: {{ direction: inbound, profile: visa, accept: optional, caller: anybody, open: {open}, seal: [{{ keys: [caller] }}] }}
  - match: {{ path_prefix: /known }}
    upstream: service
    mle: {{ direction: inbound, profile: visa, open: {open}, seal: [{{ keys: [caller] }}] }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        service.address
    )
}

fn setup(open: &str) -> Setup {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two", "caller"] {
        make_pair(folder.path(), name).unwrap();
    }
    let service = Upstream::answering(echo).unwrap();
    let server = Launch::new(BINARY, &config(&service, open)).folder(folder.path()).start().unwrap();
    Setup { server, service, folder }
}

pub(crate) fn now_ms() -> u64 {
    SystemClock.now_ms()
}

impl Setup {
    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(file)).unwrap()
    }

    /// Seals a request to a key of the gateway, at a time.
    pub(crate) fn token_at(&self, name: &str, at_ms: u64) -> String {
        let provider = jose_provider();
        let kid = KidSource::Fixed(format!("kid-{name}"));
        let certificate = self.read(&format!("{name}.cert.pem"));
        let key = SealingKey::rsa(Alg::RsaOaep256, Enc::A128Gcm, &certificate, &kid, provider).unwrap();
        let randoms = SealRandoms::draw(provider.base()).unwrap();
        seal::seal(PLAIN, &Profile::visa(), Message::Request, &key, at_ms, randoms, provider).unwrap()
    }

    pub(crate) fn token(&self, name: &str) -> String {
        self.token_at(name, now_ms())
    }

    pub(crate) fn post(&self, path: &str, token: &str) -> Answer {
        Request::post(path, format!(r#"{{"encData":"{token}"}}"#)).send(self.server.address()).unwrap()
    }

    /// Opens an answer with the caller's key.
    fn open(&self, answer: &Answer) -> Vec<u8> {
        let (provider, profile) = (jose_provider(), Profile::visa());
        let kid = KidSource::Fixed("kid-caller".into());
        let key = OpeningKey::rsa(Alg::RsaOaep256, &self.read("caller.key.pem"), None, &kid, provider).unwrap();
        let keys = OpeningKeys::new([key.into()]).unwrap();
        let token = body::unwrap(&answer.body, profile.wrapper(Message::Answer)).unwrap();
        let opening = Opening::begin(&token, &profile, Message::Answer, &keys, now_ms()).unwrap();
        let cek = opening.wants().unwrap_here().unwrap();
        let randoms = OpenRandoms::draw(provider.base()).unwrap();
        let opened = opening.unwrapped(Some(&cek), &randoms, provider).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        opened.release(fresh).unwrap().bytes().unwrap().to_vec()
    }

    fn metric(&self, line: &str) -> f64 {
        let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let text = request.send(self.server.admin()).unwrap().text();
        let found = text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_default()
    }
}

#[test]
fn a_token_is_opened_for_the_service_and_its_answer_sealed_to_the_caller() {
    let setup = setup("[one, two]");
    for name in ["one", "two"] {
        let answer = setup.post("/visa/pay?x=1", &setup.token(name));
        assert_eq!((answer.status, answer.header("x-wire")), (200, Some("mle:visa")), "{}", answer.text());
        assert_eq!(setup.open(&answer), PLAIN);
        let (head, body) = setup.service.next().unwrap();
        assert_eq!((head.method_and_target(), &body[..]), (("POST", "/visa/pay?x=1"), PLAIN));
        assert_eq!(head.header("content-length"), Some(PLAIN.len().to_string().as_str()));
    }
    assert_eq!(setup.metric(r#"sealway_mle_key_uses_total{kid="kid-two"}"#), 1.0);
    // Another spelling of the path would reach a service behind a route that takes every path.
    for path in ["/%76isa", "//visa", "/x/../visa"] {
        let disguised = Request::post(path, PLAIN).send(setup.server.address()).unwrap();
        assert_eq!(disguised.status, 400, "{path}: {}", disguised.text());
    }
    // A request without a body has nothing to open; its answer has.
    let answer = Request::get("/visa/x").send(setup.server.address()).unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[test]
fn whatever_is_wrong_gets_the_same_bytes_and_the_service_hears_nothing() {
    let setup = setup("[one]");
    let good = setup.token("one");
    let parts: Vec<&str> = good.split('.').collect();
    let flipped = |index: usize| {
        let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let other = if parts[index].starts_with('A') { "B" } else { "A" };
        parts[index].replace_range(..1, other);
        parts.join(".")
    };
    let header = |json: &str| {
        let encoded = sealway_proto::mle::compact::encode(json.as_bytes());
        [&[encoded.as_str()], &parts[1..]].concat().join(".")
    };
    let now = now_ms();
    let member = |name: &str, token: &str| format!(r#"{{"{name}":"{token}"}}"#);
    let cases = [
        ("tag", "tag", member("encData", &flipped(4))),
        ("ciphertext", "tag", member("encData", &flipped(3))),
        ("encrypted key", "unwrap", member("encData", &flipped(1))),
        ("another key", "kid", member("encData", &setup.token("two"))),
        ("an old one", "iat", member("encData", &setup.token_at("one", now - 3_600_000))),
        ("one ahead", "iat", member("encData", &setup.token_at("one", now + 3_600_000))),
        (
            "none",
            "alg",
            member("encData", &header(&format!(r#"{{"alg":"none","enc":"A128GCM","kid":"kid-one","iat":{now}}}"#))),
        ),
        (
            "RSA1_5",
            "alg",
            member("encData", &header(&format!(r#"{{"alg":"RSA1_5","enc":"A128GCM","kid":"kid-one","iat":{now}}}"#))),
        ),
        (
            "zip",
            "zip",
            member("encData", &header(r#"{"alg":"RSA-OAEP-256","enc":"A128GCM","kid":"kid-one","zip":"DEF"}"#)),
        ),
        (
            "jku",
            "param",
            member("encData", &header(r#"{"alg":"RSA-OAEP-256","enc":"A128GCM","kid":"kid-one","jku":"http://a/"}"#)),
        ),
        ("four parts", "shape", member("encData", &parts[..4].join("."))),
        ("another member", "json", member("encryptedData", &good)),
        ("clear beside it", "json", format!(r#"{{"encData":"{good}","pan":"4111111111111111"}}"#)),
        ("twice", "json", format!(r#"{{"encData":"{good}","encData":"{good}"}}"#)),
        ("clear", "json", String::from_utf8(PLAIN.to_vec()).unwrap()),
        ("nothing", "json", String::new()),
    ];
    for (what, class, body) in cases {
        let line = format!(r#"sealway_refusals_total{{on="mle",class="{class}"}}"#);
        let other = format!(r#"sealway_refusals_total{{class="{class}",on="mle"}}"#);
        let count = || setup.metric(&line) + setup.metric(&other);
        let before = count();
        let answer = Request::post("/visa", body).send(setup.server.address()).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#), "{what}");
        let names: Vec<String> = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert_eq!(names, ["content-type", "server-timing", "connection", "date", "content-length"], "{what}");
        let timing = answer.header("server-timing").unwrap();
        assert!(timing.starts_with("total;"), "{what}: {timing}");
        assert_eq!(count(), before + 1.0, "{what}: {class}");
    }
    assert!(setup.service.is_untouched());
    // Of all this, the token itself is still good, once.
    assert_eq!(setup.post("/visa", &good).status, 200);
    let again = setup.post("/visa", &good);
    assert_eq!((again.status, again.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#));
    // The same token with its parts spelt anew would be the same claim; a strict profile does not read it at all.
    assert_eq!(setup.post("/visa", &format!("{good}=")).status, 400);
    let log = setup.server.log().join("\n");
    assert!(!log.contains("4111111111111111") && !log.contains(parts[3]), "{log}");
}

#[test]
fn an_answer_whose_end_nothing_proves_is_not_sealed() {
    let setup = setup("[one]");
    assert_eq!(setup.post("/visa/unframed", &setup.token("one")).status, 502);
    assert!(setup.service.next().is_ok());
}

#[test]
fn bounds_and_callers_are_checked_before_a_private_key_is_used() {
    let setup = setup("[one]");
    let long = format!(r#"{{"encData":"{}"}}"#, "A".repeat(5000));
    let answer = Request::post("/visa", long).send(setup.server.address()).unwrap();
    assert_eq!(answer.status, 413, "{}", answer.text());
    let body = format!(r#"{{"encData":"{}"}}"#, setup.token("one"));
    let zipped = Request::post("/visa", body.clone()).header("Content-Encoding", "gzip");
    assert_eq!(zipped.send(setup.server.address()).unwrap().status, 415);
    assert_eq!(setup.post("/known", &setup.token("one")).status, 403, "without a certificate");
    let named = Request::post("/visa", body.clone()).header("keyId", "kid-two");
    assert_eq!(named.send(setup.server.address()).unwrap().status, 400, "keyId and kid differ");
    let named = Request::post("/visa", body.clone()).header("keyId", "kid-one").header("keyId", "kid-two");
    assert_eq!(named.send(setup.server.address()).unwrap().status, 400, "the second keyId differs");
    assert_eq!(setup.metric(r#"sealway_mle_key_uses_total{kid="kid-one"}"#), 0.0);
    assert!(setup.service.is_untouched());
    let named = Request::post("/visa", body).header("keyId", "kid-one");
    assert_eq!(named.send(setup.server.address()).unwrap().status, 200);
}

#[test]
fn a_route_that_takes_both_tells_them_apart_by_their_form() {
    let setup = setup("[one]");
    let plain = Request::post("/optional", PLAIN).send(setup.server.address()).unwrap();
    assert_eq!((plain.status, plain.header("x-wire"), &plain.body[..]), (200, Some("none"), PLAIN));
    let sealed = setup.post("/optional", &setup.token("one"));
    assert_eq!(setup.open(&sealed), PLAIN);
    // One that does not open is not taken for one in clear.
    assert_eq!(setup.post("/optional", "a.b.c.d.e").status, 400);
}

#[test]
fn an_outbound_message_that_has_nothing_at_its_paths_does_not_leave_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    make_pair(folder.path(), "scheme").unwrap();
    let scheme = Upstream::answering(echo).unwrap();
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys: {{ scheme: {{ certificate: scheme.cert.pem, kid: kid-scheme }} }}
routes:
  - match: {{}}
    upstream: scheme
    mle:
      direction: outbound
      profile: mastercard-jwe
      seal: [{{ keys: [scheme] }}]
      request: [{{ from: $.card, to: $.secret, field: encryptedData }}]
      plain_answers: all
upstreams: {{ scheme: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        scheme.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let mistyped = Request::post("/pay", r#"{"kard":{"pan":"4111111111111111"}}"#).send(server.address()).unwrap();
    assert_eq!(mistyped.status, 400, "{}", mistyped.text());
    assert!(scheme.is_untouched());
    let right = Request::post("/pay", r#"{"id":1,"card":{"pan":"4111111111111111"}}"#).send(server.address()).unwrap();
    assert_eq!((right.status, right.header("accept-encoding")), (200, None), "{}", right.text());
    let (head, body) = scheme.next().unwrap();
    assert_eq!(head.header("accept-encoding"), Some("identity"));
    let sent = String::from_utf8(body).unwrap();
    assert!(sent.starts_with(r#"{"id":1,"secret":{"encryptedData":"ey"#) && !sent.contains("4111"), "{sent}");
}

#[test]
fn keys_change_by_a_reload_and_a_broken_file_leaves_them_in_force() {
    let mut setup = setup("[one]");
    assert_eq!(setup.post("/visa", &setup.token("two")).status, 400);
    let one = setup.read("one.key.pem");
    std::fs::write(setup.folder.path().join("one.key.pem"), "no key").unwrap();
    let from = setup.server.log().len();
    setup.server.hang_up().unwrap();
    let failed = setup.server.wait_for_log(from, |line| line.to_string().contains("mle_keys.one.file")).unwrap();
    assert!(failed.to_string().contains("one.key.pem"), "{failed}");
    assert_eq!(setup.post("/visa", &setup.token("one")).status, 200, "the old keys are in force");
    std::fs::write(setup.folder.path().join("one.key.pem"), one).unwrap();
    setup.server.write_config(&config(&setup.service, "[one, two]")).unwrap();
    setup.server.hang_up().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while setup.post("/visa", &setup.token("two")).status != 200 {
        assert!(Instant::now() < until, "the second key is never live");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(setup.post("/visa", &setup.token("one")).status, 200);
}

#[test]
fn a_shared_key_opens_requests_and_seals_answers() {
    for (alg, enc, secret) in [(Alg::Dir, Enc::A128CbcHs256, [7; 32]), (Alg::A256Kw, Enc::A256Gcm, [8; 32])] {
        let folder = tempfile::tempdir().unwrap();
        let text = base64::engine::general_purpose::STANDARD.encode(secret);
        std::fs::write(folder.path().join("shared"), format!("{text}\n")).unwrap();
        let service = Upstream::answering(echo).unwrap();
        let config = format!(
            "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys: {{ shared: {{ secret_file: shared, alg: {alg}, enc: {enc}, kid: kid-shared }} }}
routes:
  - match: {{}}
    upstream: service
    mle:
      direction: inbound
      profile: generic-jwe
      generic: {{ algs: [{alg}], encs: [{enc}] }}
      caller: anybody
      open: [shared]
      seal: [{{ keys: [shared] }}]
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
            service.address
        );
        let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
        let (provider, side) = (jose_provider(), Side::new(&[alg], &[enc], Wrapper::Bare));
        let profile = Profile::generic(side.clone(), side, None);
        let key = SealingKey::secret(alg, enc, &secret, "kid-shared", provider).unwrap();
        let randoms = SealRandoms::draw(provider.base()).unwrap();
        let token = seal::seal(PLAIN, &profile, Message::Request, &key, now_ms(), randoms, provider).unwrap();
        let request = Request::post("/", token).header("Content-Type", "application/jose");
        let answer = request.send(server.address()).unwrap();
        assert_eq!((answer.status, answer.header("x-wire")), (200, Some("mle:generic-jwe")), "{alg} {}", answer.text());
        let key = OpeningKey::secret(alg, enc, &secret, "kid-shared", provider).unwrap();
        let keys = OpeningKeys::new([key.into()]).unwrap();
        let opening = Opening::begin(&answer.body, &profile, Message::Answer, &keys, now_ms()).unwrap();
        let cek = opening.wants().unwrap_here().unwrap();
        let randoms = OpenRandoms::draw(provider.base()).unwrap();
        let opened = opening.unwrapped(Some(&cek), &randoms, provider).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        assert_eq!(opened.release(fresh).unwrap().bytes().unwrap(), PLAIN, "{alg}");
    }
}

#[test]
fn a_wrong_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    make_pair(folder.path(), "one").unwrap();
    let key = "mle_keys: { one: { file: one.key.pem, kid: a }, twin: { file: one.key.pem, kid: a }, peer: { certificate: one.cert.pem, kid: b, enc: A192GCM } }";
    let inbound = "direction: inbound, profile: visa, open: [one], seal: [{ keys: [peer] }]";
    for (keys, mle, said) in [
        ("mle_keys: { one: { kid: a } }", inbound, "mle_keys.one: expected file"),
        ("mle_keys: { one: { file: one.key.pem } }", inbound, "mle_keys.one: expected one of: kid, kid_from"),
        (
            "mle_keys: { one: { file: one.cert.pem, kid: a }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "mle_keys.one.file",
        ),
        (
            "mle_keys: { one: { file: one.key.pem, kid: a }, peer: { certificate: one.key.pem, kid: b } }",
            inbound,
            "mle_keys.peer.certificate",
        ),
        (
            "mle_keys: { one: { file: gone.pem, kid: a }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "gone.pem",
        ),
        (
            "mle_keys: { one: { file: one.key.pem, kid: a, alg: A128KW }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "mle_keys.one.alg: A128KW is not an algorithm of this kind of key: it needs a secret_file",
        ),
        (
            "mle_keys: { one: { secret_file: one.key.pem, kid: a }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "mle_keys.one.alg: RSA-OAEP-256 is not an algorithm of this kind of key: expected A128KW",
        ),
        (
            "mle_keys: { one: { secret_file: one.key.pem, kid: a, alg: dir }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "a shared key is base64",
        ),
        (
            "mle_keys: { one: { secret_file: one.key.pem, kid_from: x5t_s256, alg: dir }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "mle_keys.one.kid_from: a shared key has no certificate",
        ),
        (
            "mle_keys: { one: { file: one.key.pem, kid: a, alg: ECDH-ES }, peer: { certificate: one.cert.pem, kid: b } }",
            inbound,
            "the key is not of its algorithm's kind",
        ),
        (key, inbound, "the profile visa does not allow RSA-OAEP-256 with A192GCM"),
        (
            key,
            "direction: inbound, profile: visa, open: [peer], plain_answers: all",
            "open[0]: \"peer\" is of the other kind",
        ),
        (
            key,
            "direction: inbound, profile: visa, open: [none], plain_answers: all",
            "no key of mle_keys is named \"none\"",
        ),
        (key, "direction: inbound, profile: visa, open: [one]", "mle.seal: expected keys for answers"),
        (key, "direction: outbound, profile: visa, seal: [{ keys: [peer] }]", "mle.open: expected keys for answers"),
        (
            key,
            "direction: outbound, profile: mastercard-jwe, accept: required, seal: [{ keys: [peer] }], open: [one]",
            "mle.accept: only an inbound route",
        ),
        (
            key,
            "direction: inbound, profile: visa, generic: {}, open: [one], plain_answers: all",
            "only the profiles generic-jwe",
        ),
        (
            key,
            "direction: inbound, profile: mastercard-jwe, open: [one], plain_answers: all, request: [{ from: '$.a[*].b[*]', to: '$' }]",
            "mle.request[0]",
        ),
    ] {
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:0' }}]\n{keys}\nroutes: [{{ match: {{}}, upstream: s, mle: {{ {mle} }} }}]\nupstreams: {{ s: {{ servers: ['http://127.0.0.1:9'] }} }}\n"
        );
        let file = folder.path().join("serve.yaml");
        std::fs::write(&file, config).unwrap();
        let checked = Command::new(BINARY).args(["config", "check"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && text.contains(said), "{said:?} is not in {text:?}");
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}
