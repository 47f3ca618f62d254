//! Answers to outbound routes of open banking: those without a body, and those that were signed for another request.

use std::sync::{Arc, Mutex};

use sealway_gateway::{jose_provider, jws_provider};
use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::{Parties, SigningKey, nested};
use sealway_proto::mle::{Alg, Enc, JwsAlg, KidSource, Message, Profile, SealRandoms, SealingKey, Side, Wrapper, seal};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;
use crate::mle::now_ms;

const PLAIN: &str = r#"{"status":"accepted"}"#;
const BARE: (&str, &str) = ("Content-Type", "application/jose+jwe");

struct Setup {
    server: Server,
    /// The next answer of the bank, which is the same until it is set anew.
    next: Arc<Mutex<Vec<u8>>>,
    bank: SigningKey,
    tpp: SealingKey,
    _upstream: Upstream,
    _folder: tempfile::TempDir,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bank", "bank-sign", "tpp", "tpp-sign"] {
        make_pair(folder.path(), name).unwrap();
    }
    let next = Arc::new(Mutex::new(Vec::new()));
    let shown = next.clone();
    let upstream = Upstream::answering(move |_, _| shown.lock().unwrap().clone()).unwrap();
    let route = |path: &str, more: &str, sign: &str, verify: &str| {
        format!(
            "  - {{ match: {{ path_prefix: /{path} }}, upstream: bank, mle: {{ direction: outbound, profile: open-banking, open: [tpp], seal: [{{ keys: [bank] }}], {more} sign: {{ {sign} }}, verify: [{{ keys: [bank-sign], {verify} }}] }} }}\n"
        )
    };
    let beside = |path: &str, more: &str| {
        let sign = "jws_detached: { key: tpp-sign, issuer: tpp, trust_anchor: openbanking.org.uk }";
        route(path, more, sign, "jws_detached: { issuer: bank, trust_anchor: openbanking.org.uk }")
    };
    let inside = |path: &str, more: &str| {
        let sign = "jws_nested: { key: tpp-sign, issuer: tpp, audience: bank }";
        route(path, more, sign, "jws_nested: { issuer: bank, audience: tpp }")
    };
    let routes = [
        beside("detached", ""),
        beside("errors", "plain_answers: errors,"),
        beside("clear", "plain_answers: all,"),
        beside("again", "refuse_replays: false,"),
        inside("nested", ""),
        inside("plain", "plain_answers: all,"),
    ];
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys:
  tpp: {{ file: tpp.key.pem, kid: kid-tpp }}
  tpp-sign: {{ file: tpp-sign.key.pem, alg: PS256, kid: kid-tpp-sign }}
  bank: {{ certificate: bank.cert.pem, kid: kid-bank }}
  bank-sign: {{ certificate: bank-sign.cert.pem, alg: PS256, kid: kid-bank-sign }}
routes:
{}upstreams: {{ bank: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        routes.concat(),
        upstream.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let read = |file: &str| std::fs::read(folder.path().join(file)).unwrap();
    let kid = KidSource::Fixed("kid-bank-sign".into());
    let (private, hashes) = (read("bank-sign.key.pem"), jose_provider().base());
    let bank = SigningKey::rsa(JwsAlg::Ps256, &private, None, &kid, jws_provider(), hashes).unwrap();
    let kid = KidSource::Fixed("kid-tpp".into());
    let tpp = SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, &read("tpp.cert.pem"), &kid, jose_provider()).unwrap();
    Setup { server, next, bank, tpp, _upstream: upstream, _folder: folder }
}

impl Setup {
    fn beside(&self, body: &[u8], now_ms: u64) -> String {
        let signer = Signer { issuer: "bank".into(), trust_anchor: "openbanking.org.uk".into() };
        jws::sign_detached(body, &signer, &self.bank, now_ms).unwrap()
    }

    fn set(&self, status: &str, headers: &[(&str, &str)], body: &[u8]) {
        *self.next.lock().unwrap() = answer(status, headers, body);
    }

    /// Sends a request, with a body unless the method has none, and returns the status that the service gets.
    fn status(&self, method: &str, path: &str) -> u16 {
        let request = Request::new(method, path).header("Content-Type", "application/json");
        let request = if method == "POST" { request.body(r#"{"pan":"4111111111111111"}"#) } else { request };
        request.send(self.server.address()).unwrap().status
    }
}

impl Setup {
    fn sealed(&self, plaintext: &[u8]) -> Vec<u8> {
        let profile = Profile::open_banking(Side::new(&[Alg::RsaOaep256], &[Enc::A256Gcm], Wrapper::Bare));
        let randoms = SealRandoms::draw(jose_provider().base()).unwrap();
        let message = Message::Answer;
        let token = seal::seal(plaintext, &profile, message, &self.tpp, now_ms(), randoms, jose_provider()).unwrap();
        token.into_bytes()
    }

    /// Sets an answer with a signature beside its body.
    fn set_signed(&self, status: &str, kind: (&str, &str), body: &[u8], now_ms: u64) {
        self.set(status, &[kind, (jws::X_JWS_SIGNATURE, &self.beside(body, now_ms))], body);
    }

    fn set_nested(&self, signed: &str) {
        self.set("200 OK", &[("Content-Type", "application/jwt")], &self.sealed(signed.as_bytes()));
    }
}

#[test]
fn a_signed_answer_does_not_stand_in_for_another() {
    let setup = setup();
    let (at_ms, token) = (now_ms(), setup.sealed(PLAIN.as_bytes()));
    setup.set_signed("200 OK", BARE, &token, at_ms);
    let twice = |method: &str, path: &str| (setup.status(method, path), setup.status(method, path));
    assert_eq!(twice("GET", "/detached"), (200, 200), "a cache may answer");
    assert_eq!(twice("POST", "/again"), (200, 200), "the configuration lets it come again");
    assert_eq!(twice("POST", "/detached"), (200, 502), "{:#?}", setup.server.log());
    setup.set_signed("200 OK", BARE, &token, at_ms);
    assert_eq!(setup.status("POST", "/detached"), 502, "another signature over the same");
    setup.set_signed("200 OK", BARE, &setup.sealed(PLAIN.as_bytes()), at_ms);
    assert_eq!(twice("DELETE", "/detached"), (200, 502), "another answer");
    let json = ("Content-Type", "application/json");
    setup.set_signed("200 OK", json, PLAIN.as_bytes(), at_ms);
    assert_eq!(twice("POST", "/clear"), (200, 502), "in clear");
    setup.set_signed("400 Bad Request", json, PLAIN.as_bytes(), at_ms);
    assert_eq!(twice("POST", "/errors"), (400, 400), "an error that could be without a signature");
    setup.set_signed("200 OK", json, b"", at_ms);
    assert_eq!(twice("POST", "/detached"), (200, 200), "nothing is signed");

    let parties = Parties { issuer: "bank".into(), audience: "tpp".into(), subject: None };
    let nested = |id| nested::sign(PLAIN.as_bytes(), &parties, &setup.bank, at_ms, [id; 16]).unwrap();
    setup.set_nested(&nested(1));
    assert_eq!(twice("GET", "/nested"), (200, 502), "an id counts once");
    setup.set_nested(&nested(1));
    assert_eq!(setup.status("POST", "/nested"), 502, "encrypted anew");
    setup.set_nested(&nested(2));
    assert_eq!(setup.status("POST", "/nested"), 200, "another id");
    let now_s = at_ms / 1000;
    let claims = format!(r#"{{"iss":"bank","aud":"tpp","iat":{now_s},"exp":{}}}"#, now_s + 300);
    setup.set_nested(&jws::sign(claims.as_bytes(), "JWT", &setup.bank).unwrap());
    assert_eq!(twice("POST", "/nested"), (200, 200), "without an id");
}

#[test]
fn an_answer_without_a_body_is_signed_too() {
    let setup = setup();
    let (good, other) = (setup.beside(b"", now_ms()), setup.beside(b"another", now_ms()));
    for (status, signature, method, path, due) in [
        ("200 OK", None, "POST", "/detached", 502),
        ("200 OK", Some(&good), "POST", "/detached", 200),
        ("200 OK", Some(&other), "POST", "/detached", 502),
        ("200 OK", None, "POST", "/errors", 502),
        ("404 Not Found", None, "POST", "/detached", 502),
        ("404 Not Found", None, "POST", "/errors", 404),
        ("404 Not Found", Some(&other), "POST", "/errors", 502),
        ("204 No Content", None, "POST", "/detached", 204),
        ("204 No Content", Some(&good), "POST", "/detached", 204),
        ("204 No Content", Some(&other), "POST", "/detached", 502),
        ("304 Not Modified", None, "GET", "/detached", 304),
        ("200 OK", None, "HEAD", "/detached", 200),
        ("200 OK", Some(&other), "HEAD", "/detached", 502),
        // A signature inside of a token needs a token.
        ("200 OK", None, "POST", "/nested", 502),
        ("200 OK", None, "POST", "/plain", 200),
        ("404 Not Found", None, "POST", "/nested", 404),
        ("204 No Content", None, "POST", "/nested", 204),
        ("200 OK", None, "HEAD", "/nested", 200),
    ] {
        let headers: Vec<_> = signature.iter().map(|value| (jws::X_JWS_SIGNATURE, value.as_str())).collect();
        setup.set(status, &headers, b"");
        let what = format!("{method} {path}, {status}, signed: {}", signature.is_some());
        assert_eq!(setup.status(method, path), due, "{what}\n{:#?}", setup.server.log());
    }
    // An empty body that is declared as a token is no error in clear of the double, and no token.
    setup.set("200 OK", &[BARE], b"");
    assert_eq!((setup.status("POST", "/detached"), setup.status("POST", "/nested")), (502, 502));
}
