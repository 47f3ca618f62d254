//! `POST /v1/session/init`: every row of its table, and the order of its checks.

use crate::desk::{CRYPTO_ERROR, Call, Desk, SESSION, V1, WINDOW_MS, nonce, public_key};
use sealway_sessions::Policy;
use sealway_sessions::authentication::Authentication;
use sealway_sessions::token::{TokenPolicy, TokenVerifier};
use sealway_testkit::store_contract::claims::START_MS;
use serde_json::json;

const KEY_REQUIRED: (u16, &str, &str) = (400, "Bad Request", "X-Idempotency-Key header is required");
const CLIENT_REQUIRED: (u16, &str, &str) = (400, "Bad Request", "X-ClientId header is required");
const PUBLIC_REQUIRED: (u16, &str, &str) = (400, "Bad Request", "clientPublicKey is required");
const KEY_SHAPE: (u16, &str, &str) =
    (400, "Bad Request", "Invalid X-Idempotency-Key format (expected: timestamp.nonce)");
const NONCE: (u16, &str, &str) = (400, "Bad Request", "Invalid nonce format");
const STAMP: (u16, &str, &str) = (400, "Bad Request", "Invalid or expired timestamp");
const REPLAYED: (u16, &str, &str) = (409, "Conflict", "Request already processed (replay detected)");
const PUBLIC_INVALID: (u16, &str, &str) = (400, "Bad Request", "Invalid client public key");
const NOT_JSON: (u16, &str, &str) = (415, "Unsupported Media Type", "Content-Type must be application/json");
const BROKEN_JSON: (u16, &str, &str) = (400, "Bad Request", "Request body is not valid JSON");

fn desk() -> Desk {
    Desk::new(Policy::default())
}

/// An init in parts, so that faults can be combined.
#[derive(Clone)]
struct Parts {
    content_type: Option<&'static str>,
    body: Option<&'static str>,
    key: bool,
    dot: &'static str,
    stamp: String,
    nonce: String,
    client_id: Option<&'static str>,
    public: Option<String>,
}

impl Parts {
    fn good() -> Self {
        Parts {
            content_type: Some("application/json"),
            body: None,
            key: true,
            dot: ".",
            stamp: START_MS.to_string(),
            nonce: nonce(),
            client_id: Some("web"),
            public: Some(public_key()),
        }
    }

    fn call(self) -> Call {
        let mut call = Call::new("POST", V1);
        if let Some(media) = self.content_type {
            call = call.with("content-type", media);
        }
        if self.key {
            call = call.with("x-idempotency-key", &[self.stamp.as_str(), self.nonce.as_str()].join(self.dot));
        }
        if let Some(id) = self.client_id {
            call = call.with("x-clientid", id);
        }
        match (self.body, self.public) {
            (Some(text), _) => call.body(text),
            (None, Some(public)) => call.json(json!({"clientPublicKey": public})),
            (None, None) => call.json(json!({})),
        }
    }
}

type Fault = (&'static str, fn(&mut Parts), (u16, &'static str, &'static str));

const USED: &str = "0123456789abcdef-used";

/// Faults, one for each check, in the order of the checks.
const IN_ORDER: [Fault; 11] = [
    ("content type", |parts| parts.content_type = Some("text/plain"), NOT_JSON),
    ("JSON", |parts| parts.body = Some("{"), BROKEN_JSON),
    ("X-Idempotency-Key", |parts| parts.key = false, KEY_REQUIRED),
    ("X-ClientId", |parts| parts.client_id = None, CLIENT_REQUIRED),
    ("clientPublicKey", |parts| parts.public = None, PUBLIC_REQUIRED),
    ("shape", |parts| parts.dot = "", KEY_SHAPE),
    ("nonce length", |parts| parts.nonce = "fifteen-chars-x".into(), NONCE),
    ("stamp digits", |parts| parts.stamp = "18e11".into(), STAMP),
    ("window", |parts| parts.stamp = (START_MS - WINDOW_MS - 1).to_string(), STAMP),
    ("public key", |parts| parts.public = Some("AAAA".into()), PUBLIC_INVALID),
    ("nonce", |parts| parts.nonce = USED.into(), REPLAYED),
];

#[tokio::test]
async fn of_two_errors_the_earlier_check_decides() {
    let desk = desk();
    let used = Parts { nonce: USED.into(), ..Parts::good() };
    desk.send(used.call()).await.agreed();
    for (first, (name, fault, want)) in IN_ORDER.iter().enumerate() {
        let mut parts = Parts::good();
        fault(&mut parts);
        desk.send(parts.call()).await.is_v1(name, *want);
        for (later_name, later, _) in &IN_ORDER[first + 1..] {
            let mut parts = Parts::good();
            later(&mut parts);
            fault(&mut parts);
            desk.send(parts.call()).await.is_v1(&format!("{name} and {later_name}"), *want);
        }
    }
}

#[tokio::test]
async fn no_malformed_request_burns_a_nonce() {
    let desk = desk();
    for (name, fault, _) in &IN_ORDER[..10] {
        let good = Parts::good();
        let mut faulty = good.clone();
        fault(&mut faulty);
        assert_ne!(desk.send(faulty.call()).await.status, 200, "{name}");
        assert_eq!(desk.send(good.call()).await.status, 200, "{name} burnt the nonce");
    }
}

#[tokio::test]
async fn every_row_of_the_table() {
    let desk = desk();
    let good = || Call::init(V1);
    let key = |text: &str| good().with("x-idempotency-key", text);
    for (what, call, want) in [
        ("an empty key", key(""), KEY_REQUIRED),
        ("two keys", good().and("x-idempotency-key", "1.2"), KEY_SHAPE),
        ("no dot", key("1800000000000"), KEY_SHAPE),
        ("two dots", key("1800000000000.0123456789abcdef.0"), KEY_SHAPE),
        ("no stamp", key(".0123456789abcdef"), KEY_SHAPE),
        ("no nonce", key("1800000000000."), KEY_SHAPE),
        ("a nonce too long", key(&format!("{START_MS}.{}", "n".repeat(129))), NONCE),
        ("a nonce of another alphabet", key(&format!("{START_MS}.0123456789abcdef!")), NONCE),
        ("an answer's nonce", key(&format!("{START_MS}.r-0123456789abcdef")), NONCE),
        ("a stamp with a sign", key("-1800000000000.0123456789abcdef"), STAMP),
        ("a stamp ahead", key(&format!("{}.0123456789abcdef", START_MS + WINDOW_MS + 1)), STAMP),
        ("an empty client id", good().with("x-clientid", ""), CLIENT_REQUIRED),
        ("an empty body", good().body(""), BROKEN_JSON),
        ("an array", good().json(json!([])), PUBLIC_REQUIRED),
        ("a string", good().json(json!("clientPublicKey")), PUBLIC_REQUIRED),
        ("null", good().body("null"), PUBLIC_REQUIRED),
        ("an empty public key", good().json(json!({"clientPublicKey": ""})), PUBLIC_REQUIRED),
        ("a number", good().json(json!({"clientPublicKey": 7})), PUBLIC_REQUIRED),
        ("no content type", good().without("content-type"), NOT_JSON),
        ("a form", good().with("content-type", "application/x-www-form-urlencoded"), NOT_JSON),
    ] {
        desk.send(call).await.is_v1(what, want);
    }
    for media in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"] {
        desk.send(good().with("content-type", media)).await.agreed();
    }
    desk.send(key(&format!("{START_MS}.0123456789abcdef"))).await.agreed();
}

#[tokio::test]
async fn a_body_over_one_mebibyte_is_refused() {
    let desk = desk();
    let padded = |len: usize| {
        let call = Call::init(V1);
        let text = String::from_utf8(call.body.clone()).unwrap();
        let pad = " ".repeat(len - text.len());
        call.body(text + &pad)
    };
    desk.send(padded(1024 * 1024)).await.agreed();
    let want = (413, "Payload Too Large", "Request body is too large");
    desk.send(padded(1024 * 1024 + 1)).await.is_v1("one more", want);
}

#[tokio::test]
async fn the_scope_of_nonces_is_the_client_id_in_both_families() {
    let desk = desk();
    let mut call = Call::init(SESSION);
    desk.send(call.clone()).await.agreed();
    call.path = V1.into();
    desk.send(call.clone()).await.is_v1("at /v1", REPLAYED);
    desk.send(call.with("x-clientid", "app")).await.agreed();

    let mut call = Call::init(V1);
    desk.send(call.clone()).await.agreed();
    call.path = SESSION.into();
    desk.send(call).await.is("at /session/init", 400, CRYPTO_ERROR);
}

#[tokio::test]
async fn the_ttl_is_the_servers_by_whether_authorization_is_there() {
    let desk = desk();
    for ttl in ["60", "7200", "\"x\"", "-1", "null"] {
        assert_eq!(desk.send(Call::init(V1).member("ttlSec", ttl)).await.agreed().1, 1800, "{ttl}");
        let with = Call::init(V1).with("authorization", "anything").member("ttlSec", ttl);
        assert_eq!(desk.send(with).await.agreed().1, 3600, "{ttl}");
    }
    assert_eq!(desk.send(Call::init(V1).with("authorization", "")).await.agreed().1, 1800);
    let mut policy = Policy::default();
    policy.ttl.v1_anonymous_sec = 77;
    policy.ttl.v1_authenticated_sec = 7777;
    let desk = Desk::new(policy);
    assert_eq!(desk.send(Call::init(V1)).await.agreed().1, 77);
    assert_eq!(desk.send(Call::init(V1).with("authorization", "x")).await.agreed().1, 7777);
}

#[tokio::test]
async fn with_a_verifier_a_bad_token_is_401_and_burns_no_nonce() {
    let folder = tempfile::tempdir().unwrap();
    let jwks_file = folder.path().join("keys.json");
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    std::fs::write(&jwks_file, json!({"keys": [key]}).to_string()).unwrap();
    let policy = TokenPolicy { jwks_file, issuer: None, audience: None, leeway_sec: 0 };
    let desk = Desk::new(Policy {
        authentication: Authentication {
            tokens: Some(TokenVerifier::load(policy).unwrap()),
            ..Authentication::default()
        },
        ..Policy::default()
    });
    let call = Call::init(V1);
    let unauthorized = (401, "Unauthorized", "Invalid or expired token");
    for token in ["Bearer x.y.z", "Basic abc", "x"] {
        let answer = desk.send(call.clone().with("authorization", token)).await;
        answer.is_v1(token, unauthorized);
    }
    let twice = call.clone().and("authorization", "Bearer a").and("authorization", "Bearer b");
    desk.send(twice).await.is_v1("two tokens", unauthorized);
    assert_eq!(desk.send(call).await.agreed().1, 1800);
    let plain = Call::init(SESSION).with("authorization", "Bearer x.y.z");
    desk.send(plain).await.is("/session/init", 400, CRYPTO_ERROR);
}
