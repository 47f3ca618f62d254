//! Routes of open banking: signatures beside the body and inside of tokens. What is wrong with one is never told apart.

use std::process::Command;

use sealway_gateway::{jose_provider, jws_provider};
use sealway_proto::mle::compact::encode;
use sealway_proto::mle::sign::{SigningKey, jws};
use sealway_proto::mle::{Alg, Enc, JwsAlg, KidSource, Message, Profile, SealRandoms, SealingKey, Side, Wrapper, seal};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::Upstream;
use serde_json::{Value, json};

use crate::BINARY;
use crate::mle::{echo, now_ms};

const PLAIN: &str = r#"{"pan":"4111111111111111"}"#;

struct Setup {
    server: Server,
    service: Upstream,
    folder: tempfile::TempDir,
    tpp: SigningKey,
    stranger: SigningKey,
    bank: SealingKey,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    for name in ["bank", "bank-sign", "tpp", "tpp-sign", "stranger"] {
        make_pair(folder.path(), name).unwrap();
    }
    let service = Upstream::answering(echo).unwrap();
    let mle = |accept: &str, sign: &str, verify: &str| {
        format!(
            "upstream: service, mle: {{ direction: inbound, profile: open-banking, accept: {accept}, caller: anybody, open: [bank], seal: [{{ keys: [tpp] }}], sign: {{ {sign} }}, verify: [{{ {verify} }}] }}"
        )
    };
    let detached = "jws_detached: { key: bank-sign, issuer: bank, trust_anchor: openbanking.org.uk }";
    let nested = "jws_nested: { key: bank-sign, issuer: bank, audience: tpp }";
    let from_tpp = "keys: [tpp-sign], jws_detached: { issuer: tpp, trust_anchor: openbanking.org.uk }";
    let inside = "keys: [tpp-sign], jws_nested: { issuer: tpp, audience: bank }";
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys:
  bank: {{ file: bank.key.pem, kid: kid-bank }}
  bank-sign: {{ file: bank-sign.key.pem, alg: PS256, kid: kid-bank-sign }}
  tpp: {{ certificate: tpp.cert.pem, kid: kid-tpp }}
  tpp-sign: {{ certificate: tpp-sign.cert.pem, alg: PS256, kid: kid-tpp-sign }}
routes:
  - {{ match: {{ path_prefix: /detached }}, {} }}
  - {{ match: {{ path_prefix: /optional }}, {} }}
  - {{ match: {{ path_prefix: /nested }}, {} }}
  - {{ match: {{ path_prefix: /known }}, {} }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        mle("required", detached, from_tpp),
        mle("optional", detached, from_tpp),
        mle("required", nested, inside),
        mle("required", nested, &format!("caller: 'CN=acme', {inside}")),
        service.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let read = |file: &str| std::fs::read(folder.path().join(file)).unwrap();
    let (provider, hashes) = (jws_provider(), jose_provider().base());
    let kid = KidSource::Fixed("kid-tpp-sign".into());
    let signing = |file| SigningKey::rsa(JwsAlg::Ps256, &read(file), None, &kid, provider, hashes).unwrap();
    let (tpp, stranger) = (signing("tpp-sign.key.pem"), signing("stranger.key.pem"));
    let kid = KidSource::Fixed("kid-bank".into());
    let bank = SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, &read("bank.cert.pem"), &kid, jose_provider()).unwrap();
    Setup { server, service, folder, tpp, stranger, bank }
}

/// Signs texts as they are, right or wrong.
fn compact(header: &Value, payload: &[u8], key: &SigningKey) -> String {
    let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(payload));
    format!("{signed}.{}", encode(&key.sign(signed.as_bytes()).unwrap()))
}

fn header() -> Value {
    json!({ "alg": "PS256", "kid": "kid-tpp-sign", "typ": "JWT" })
}

fn claims(id: &str) -> Value {
    let now_s = now_ms() / 1000;
    json!({ "iss": "tpp", "aud": "bank", "iat": now_s, "exp": now_s + 300, "jti": id, "pan": "4111111111111111" })
}

impl Setup {
    fn sealed(&self, plaintext: &[u8]) -> String {
        let profile = Profile::open_banking(Side::new(&[Alg::RsaOaep256], &[Enc::A256Gcm], Wrapper::Bare));
        let provider = jose_provider();
        let randoms = SealRandoms::draw(provider.base()).unwrap();
        seal::seal(plaintext, &profile, Message::Request, &self.bank, now_ms(), randoms, provider).unwrap()
    }

    fn post(&self, path: &str, body: &str, signatures: &[&str]) -> Answer {
        let request = Request::post(path, body).header("Content-Type", "application/jose+jwe");
        let request = signatures.iter().fold(request, |request, value| request.header("X-JWS-Signature", *value));
        request.send(self.server.address()).unwrap()
    }

    fn nested(&self, header: &Value, claims: &Value) -> String {
        self.sealed(compact(header, claims.to_string().as_bytes(), &self.tpp).as_bytes())
    }

    /// Signs a body beside it, with changes to the header.
    fn beside(&self, body: &str, change: impl FnOnce(&mut Value)) -> String {
        let names = ["iat", "iss", "tan"].map(|name| format!("http://openbanking.org.uk/{name}"));
        let mut header = json!({ "alg": "PS256", "kid": "kid-tpp-sign", "crit": names, names[0].as_str(): now_ms() / 1000,
            names[1].as_str(): "tpp", names[2].as_str(): "openbanking.org.uk" });
        change(&mut header);
        let token = compact(&header, body.as_bytes(), &self.tpp);
        let parts: Vec<&str> = token.split('.').collect();
        format!("{}..{}", parts[0], parts[2])
    }

    fn check_refused(&self, what: &str, answer: &Answer) {
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#), "{what}");
        let names: Vec<String> = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert_eq!(names, ["content-type", "server-timing", "connection", "date", "content-length"], "{what}");
        let timing = answer.header("server-timing").unwrap();
        assert!(timing.starts_with("total;"), "{what}: {timing}");
    }
}

fn set(value: &Value, name: &str, member: Value) -> Value {
    let mut changed = value.clone();
    changed[name] = member;
    changed
}

fn without(value: &Value, name: &str) -> Value {
    let mut changed = value.clone();
    changed.as_object_mut().unwrap().remove(name);
    changed
}

#[test]
fn a_wrong_signature_inside_gets_the_same_bytes_and_the_service_hears_nothing() {
    let setup = setup();
    let (good_header, good) = (header(), claims("never-used"));
    let mut tokens: Vec<(String, String)> = Vec::new();
    for alg in ["none", "None", "HS256", "RS256", "ES256", "PS384", "ps256", ""] {
        tokens.push((format!("alg {alg}"), setup.nested(&set(&good_header, "alg", json!(alg)), &good)));
    }
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("jku", json!("https://a.example")),
        ("jwk", json!({})),
        ("x5u", json!("https://a.example")),
        ("x5c", json!([])),
        ("x5t", json!("AAAA")),
        ("x5t#S256", json!("AAAA")),
        ("kid", json!("kid-bank-sign")),
        ("kid", json!("kid-bank")),
        ("kid", json!("../tpp")),
        ("kid", json!(1)),
        ("typ", json!(1)),
        ("pad", json!("p".repeat(4096))),
    ] {
        tokens.push((format!("{name} {value:.40}"), setup.nested(&set(&good_header, name, value.clone()), &good)));
    }
    let now_s = now_ms() / 1000;
    for (name, value) in [
        ("iss", json!("bank")),
        ("iss", json!(["tpp"])),
        ("aud", json!("tpp")),
        ("aud", json!([])),
        ("aud", json!(["a", "b"])),
        ("exp", json!(now_s - 120)),
        ("exp", json!((now_s + 300).to_string())),
        ("nbf", json!(now_s + 300)),
        ("iat", json!(now_s - 86_400)),
        ("iat", json!(now_s + 86_400)),
        ("iat", json!(now_ms())),
        ("iat", json!("0")),
        ("jti", json!("")),
        ("jti", json!(7)),
        ("jti", json!("j".repeat(300))),
    ] {
        tokens.push((format!("{name} {value:.40}"), setup.nested(&good_header, &set(&good, name, value.clone()))));
    }
    for name in ["iss", "aud", "exp", "iat", "jti"] {
        tokens.push((format!("{name} absent"), setup.nested(&good_header, &without(&good, name))));
    }
    tokens.push(("alg absent".to_owned(), setup.nested(&without(&good_header, "alg"), &good)));
    let signed = compact(&good_header, good.to_string().as_bytes(), &setup.tpp);
    let parts: Vec<&str> = signed.split('.').collect();
    for (what, plaintext) in [
        ("not signed", good.to_string()),
        ("nothing", String::new()),
        ("a stranger's", compact(&good_header, good.to_string().as_bytes(), &setup.stranger)),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("another payload", format!("{}.{}.{}", parts[0], encode(b"{}"), parts[2])),
        ("detached", format!("{}..{}", parts[0], parts[2])),
        ("two parts", parts[..2].join(".")),
        ("four parts", format!("{signed}.")),
        ("padding", format!("{signed}=")),
        ("white space", format!(" {signed}")),
        ("a JWE in a JWE", setup.sealed(signed.as_bytes())),
        ("a JWS in a JWS", compact(&good_header, signed.as_bytes(), &setup.tpp)),
        ("a list", compact(&good_header, b"[]", &setup.tpp)),
        ("no JSON", compact(&good_header, b"{", &setup.tpp)),
        (
            "a claim twice",
            compact(&good_header, format!("{{\"iss\":\"a\",{}", &good.to_string()[1..]).as_bytes(), &setup.tpp),
        ),
    ] {
        tokens.push((what.to_owned(), setup.sealed(plaintext.as_bytes())));
    }
    tokens.push(("a JWS that is not encrypted".into(), signed.clone()));
    tokens.push(("in clear".into(), PLAIN.into()));
    assert!(tokens.len() >= 60, "{}", tokens.len());
    for (what, token) in &tokens {
        setup.check_refused(what, &setup.post("/nested", token, &[]));
    }
    assert!(setup.service.is_untouched());
    // Of all this, the claims are still good, once: another encryption of them is the same message.
    let answer = setup.post("/nested", &setup.sealed(signed.as_bytes()), &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/jwt")), "{}", answer.text());
    let (head, body) = setup.service.next().unwrap();
    assert_eq!(
        (head.header("x-sealway-wire"), serde_json::from_slice(&body).ok()),
        (Some("mle:open-banking"), Some(good))
    );
    setup.check_refused("the same id", &setup.post("/nested", &setup.sealed(signed.as_bytes()), &[]));
    let again = compact(&header(), set(&claims("never-used"), "pan", json!("5")).to_string().as_bytes(), &setup.tpp);
    setup.check_refused("the same id of another payload", &setup.post("/nested", &setup.sealed(again.as_bytes()), &[]));
    let known = setup.post("/known", &setup.nested(&header(), &claims("other")), &[]);
    assert_eq!(known.status, 403, "a caller without keys: {}", known.text());
    let log = setup.server.log().join("\n");
    assert!(!log.contains("4111111111111111") && !log.contains(parts[1]), "{log}");
}

#[test]
fn a_wrong_signature_beside_a_token_costs_no_private_key_and_gets_the_same_bytes() {
    let setup = setup();
    let token = setup.sealed(PLAIN.as_bytes());
    let good = setup.beside(&token, |_| {});
    let member = |name: &str| format!("http://openbanking.org.uk/{name}");
    let cut = good.split("..").next().unwrap().to_owned();
    let attached = compact(&header(), token.as_bytes(), &setup.tpp);
    let other = setup.beside(&setup.sealed(PLAIN.as_bytes()), |_| {});
    let wrong: Vec<(&str, Vec<String>)> = vec![
        ("absent", vec![]),
        ("twice", vec![good.clone(), good.clone()]),
        ("empty", vec![String::new()]),
        ("of another token", vec![other]),
        ("of the plaintext", vec![setup.beside(PLAIN, |_| {})]),
        ("attached", vec![attached]),
        ("no signature", vec![format!("{cut}..")]),
        ("none", vec![setup.beside(&token, |header| header["alg"] = json!("none"))]),
        ("HS256", vec![setup.beside(&token, |header| header["alg"] = json!("HS256"))]),
        ("crit of two", vec![setup.beside(&token, |header| header["crit"] = json!([member("iat"), member("iss")]))]),
        ("crit absent", vec![setup.beside(&token, |header| *header = without(header, "crit"))]),
        ("b64", vec![setup.beside(&token, |header| header["b64"] = json!(false))]),
        ("jwk", vec![setup.beside(&token, |header| header["jwk"] = json!({}))]),
        ("another issuer", vec![setup.beside(&token, |header| header[member("iss")] = json!("bank"))]),
        ("another anchor", vec![setup.beside(&token, |header| header[member("tan")] = json!("a.example"))]),
        ("another kid", vec![setup.beside(&token, |header| header["kid"] = json!("kid-bank"))]),
        ("old", vec![setup.beside(&token, |header| header[member("iat")] = json!(1))]),
        ("in milliseconds", vec![setup.beside(&token, |header| header[member("iat")] = json!(now_ms()))]),
    ];
    for (what, signatures) in &wrong {
        let signatures: Vec<&str> = signatures.iter().map(String::as_str).collect();
        setup.check_refused(what, &setup.post("/detached", &token, &signatures));
        setup.check_refused(what, &setup.post("/optional", PLAIN, &signatures));
    }
    // Each was refused before its token was read.
    let log = setup.server.log().join("\n");
    assert!(!log.contains(r#""class":"replayed""#) && !log.contains(r#""class":"tag""#), "{log}");
    assert!(setup.service.is_untouched());
    let answer = setup.post("/detached", &token, &[&good]);
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/jose+jwe")),
        "{}",
        answer.text()
    );
    assert!(answer.header("x-jws-signature").is_some_and(|value| value.contains("..")));
    let (head, body) = setup.service.next().unwrap();
    assert_eq!((body.as_slice(), head.header("x-jws-signature")), (PLAIN.as_bytes(), None));
    setup.check_refused("the same token", &setup.post("/detached", &token, &[&setup.beside(&token, |_| {})]));
    // In clear a request is signed too, and so is its answer.
    let at_s = now_ms() / 1000;
    let clear = |signature: &str| {
        let request = Request::post("/optional", PLAIN).header("Content-Type", "application/json");
        request.header("X-JWS-Signature", signature).send(setup.server.address()).unwrap()
    };
    let signed_at = |at_s: u64| setup.beside(PLAIN, |header| header[member("iat")] = json!(at_s));
    let first = signed_at(at_s);
    let plain = clear(&first);
    assert_eq!((plain.status, plain.text().as_str()), (200, PLAIN));
    assert!(plain.header("x-jws-signature").is_some());
    assert_eq!(setup.service.next().unwrap().1, PLAIN.as_bytes());
    // It counts once, also with another signature over the same bytes.
    let second = signed_at(at_s);
    assert_ne!(first, second, "PSS has a salt");
    setup.check_refused("the same bytes", &clear(&first));
    setup.check_refused("the same bytes under another signature", &clear(&second));
    assert!(setup.service.is_untouched());
    assert_eq!(clear(&signed_at(at_s - 1)).status, 200, "another time");
    // A GET without a body needs none, and a DELETE does; a wrong one is not overlooked.
    let send = |method: &str, path: &str, value: Option<&str>| {
        let request = Request::new(method, path);
        let request = value.iter().fold(request, |request, value| request.header(jws::X_JWS_SIGNATURE, *value));
        request.send(setup.server.address()).unwrap()
    };
    let empty = setup.beside("", |_| {});
    for (method, path, signature, due) in [
        ("GET", "/detached", None, 200),
        ("GET", "/detached", Some(&good), 400),
        ("GET", "/detached", Some(&empty), 200),
        ("DELETE", "/detached", None, 400),
        ("DELETE", "/detached", Some(&good), 400),
        ("DELETE", "/detached", Some(&empty), 200),
        ("GET", "/nested", None, 200),
        ("DELETE", "/nested", None, 400),
    ] {
        let answer = send(method, path, signature.map(String::as_str));
        assert_eq!(answer.status, due, "{method} {path}, signed: {}", signature.is_some());
        let is_signed = answer.header("x-jws-signature").is_some();
        assert_eq!(is_signed, due == 200 && path == "/detached", "the empty answer to {method} {path}");
    }
}

#[test]
fn a_wrong_configuration_is_named() {
    let setup = setup();
    let keys = "bank: { file: bank.key.pem, kid: a }, sign: { file: bank-sign.key.pem, alg: PS256, kid: b }, \
        tpp: { certificate: tpp.cert.pem, kid: c }, verify: { certificate: tpp-sign.cert.pem, alg: PS256, kid: d }, \
        rsa: { certificate: tpp-sign.cert.pem, alg: RS256, kid: e }, curve: { certificate: tpp-sign.cert.pem, alg: ES256, kid: f }";
    let sign = "sign: { jws_nested: { key: sign, issuer: bank, audience: tpp } }";
    let verify = "verify: [{ keys: [verify], jws_nested: { issuer: tpp, audience: bank } }]";
    let inbound = "direction: inbound, profile: open-banking, caller: anybody, open: [bank], seal: [{ keys: [tpp] }]";
    for (mle, said) in [
        (format!("{inbound}, {verify}"), "mle.sign: messages of open-banking are signed"),
        (format!("{inbound}, {sign}"), "mle.verify: messages of open-banking are signed"),
        (format!("{inbound}, {sign}, verify: []"), "mle.verify: messages of open-banking are signed"),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [], jws_nested: {{ issuer: a, audience: b }} }}]"),
            "verify[0].keys: expected at least one key",
        ),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [rsa], jws_nested: {{ issuer: a, audience: b }} }}]"),
            "keys[0]: \"rsa\" is of another kind: expected a certificate with alg: PS256 or alg: ES256",
        ),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [sign], jws_nested: {{ issuer: a, audience: b }} }}]"),
            "keys[0]: \"sign\" is of another kind",
        ),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [gone], jws_nested: {{ issuer: a, audience: b }} }}]"),
            "no key of mle_keys is named \"gone\"",
        ),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [verify] }}]"),
            "verify[0]: expected one of: jws_detached, jws_nested",
        ),
        (
            format!("{inbound}, {sign}, verify: [{{ keys: [verify], jws_nested: {{ issuer: '', audience: b }} }}]"),
            "jws_nested.issuer: expected 1 to 256",
        ),
        (
            format!("{inbound}, {sign}, {verify}, accept: optional"),
            "verify[0].jws_nested: a request in clear has no such signature",
        ),
        (
            format!("{inbound}, {sign}, {verify}, generic: {{ iat: seconds }}"),
            "generic.iat: the signatures of open-banking have a time",
        ),
        (
            format!("{inbound}, sign: {{ jws_nested: {{ key: verify, issuer: a, audience: b }} }}, {verify}"),
            "jws_nested.key: \"verify\" is of another kind: this signature needs a private key with alg: PS256",
        ),
        (
            format!("{inbound}, sign: {{ x_pay_token: {{ shared_secret_file: bank.key.pem }} }}, {verify}"),
            "signed with jws_detached or jws_nested",
        ),
        (format!("{}, {verify}", inbound.replace("open-banking", "visa")), "mle.verify: only the profile open-banking"),
        (
            format!("direction: outbound, profile: generic-jwe, open: [bank], seal: [{{ keys: [tpp] }}], {sign}"),
            "sign.jws_nested: only the profile open-banking",
        ),
        (
            format!(
                "direction: outbound, profile: open-banking, open: [bank], seal: [{{ keys: [tpp] }}], {sign}, verify: [{{ caller: CN=a, keys: [verify], jws_nested: {{ issuer: a, audience: b }} }}]"
            ),
            "verify[0].caller: an outbound route has one signer",
        ),
        (
            format!(
                "{inbound}, {sign}, verify: [{{ keys: [verify, verify], jws_nested: {{ issuer: a, audience: b }} }}]"
            ),
            "verify[0].keys[1]: it stands twice",
        ),
        (format!("{inbound}, {sign}, {verify}"), "mle_keys.curve.certificate"),
        (
            format!("{}, {sign}, {verify}", inbound.replace("[tpp]", "[verify]")),
            "\"verify\" is of another kind: it signs or verifies",
        ),
    ] {
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:0' }}]\nmle_keys: {{ {keys} }}\nroutes: [{{ match: {{}}, upstream: s, mle: {{ {mle} }} }}]\nupstreams: {{ s: {{ servers: ['http://127.0.0.1:9'] }} }}\nsessions: {{ store: 'memory:' }}\n"
        );
        let file = setup.folder.path().join("wrong.yaml");
        std::fs::write(&file, config).unwrap();
        let checked = Command::new(BINARY).args(["config", "check"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && text.contains(said), "{said:?} is not in {text:?}");
    }
}
