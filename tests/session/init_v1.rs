//! `POST /v1/session/init` over real HTTP: every row of its table, and their order.

use std::net::SocketAddr;
use std::sync::OnceLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::wire_client::{CLIENT_ID, init, nonce, now_ms, public_key};
use serde_json::json;

use crate::BINARY;

const PATH: &str = "/v1/session/init";
const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: { path_prefix: [/session/, /v1/session/] }, sessions: {} }]
";

fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Launch::new(BINARY, CONFIG).start().unwrap()).address()
}

fn good() -> Request {
    init(Wire::V2, PATH, CLIENT_ID, None).1
}

fn body(key: &str) -> String {
    format!(r#"{{"clientPublicKey":{key}}}"#)
}

pub(crate) fn assert_message(what: &str, answer: &Answer, status: u16, error: &str, message: &str) {
    assert_eq!((answer.status, answer.json()), (status, json!({"error": error, "message": message})), "{what}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
}

fn bad(what: &str, request: &Request, message: &str) {
    assert_message(what, &request.send(server()).unwrap(), 400, "Bad Request", message);
}

const KEY_REQUIRED: &str = "X-Idempotency-Key header is required";
const CLIENT_REQUIRED: &str = "X-ClientId header is required";
const PUBLIC_REQUIRED: &str = "clientPublicKey is required";
const SHAPE: &str = "Invalid X-Idempotency-Key format (expected: timestamp.nonce)";
const NONCE: &str = "Invalid nonce format";
const STAMP: &str = "Invalid or expired timestamp";
const PUBLIC: &str = "Invalid client public key";

#[test]
fn the_answer_has_four_members_and_the_bare_session_id_in_a_header() {
    let answer = good().send(server()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 4, "{body}");
    assert_eq!(body["encAlg"], "aes-256-gcm");
    assert_eq!(body["expiresInSec"], 1800);
    assert_eq!(answer.header("x-kid"), body["sessionId"].as_str());
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn the_ttl_is_the_servers_alone_and_authorization_lengthens_it() {
    for ttl in ["60", "-1", "1.5", "\"x\"", "[]", "null"] {
        let request = good().body(format!(r#"{{"clientPublicKey":"{}","ttlSec":{ttl}}}"#, public_key()));
        assert_eq!(request.send(server()).unwrap().json()["expiresInSec"], 1800, "{ttl}");
    }
    for (authorization, granted) in [("Bearer x", 3600), ("anything", 3600), ("", 1800)] {
        let answer = good().header("Authorization", authorization).send(server()).unwrap();
        assert_eq!(answer.json()["expiresInSec"], granted, "{authorization:?}");
    }
}

#[test]
fn every_row_of_the_table_has_its_message() {
    bad("no key", &good().without("X-Idempotency-Key"), KEY_REQUIRED);
    bad("empty key", &good().set("X-Idempotency-Key", ""), KEY_REQUIRED);
    bad("no client id", &good().without("X-ClientId"), CLIENT_REQUIRED);
    bad("empty client id", &good().set("X-ClientId", ""), CLIENT_REQUIRED);
    let now = now_ms();
    for key in [format!("{now}"), format!("{now}."), format!(".{}", nonce()), format!("{now}.{}.x", nonce())] {
        bad(&key, &good().set("X-Idempotency-Key", key.clone()), SHAPE);
    }
    for short in ["x".to_owned(), "x".repeat(15), "x".repeat(129), format!("{}!", nonce()), format!("r-{}", nonce())] {
        bad(&short, &good().set("X-Idempotency-Key", format!("{now}.{short}")), NONCE);
    }
    for stamp in ["abc".to_owned(), "-1".into(), (now - 303_000).to_string(), (now + 303_000).to_string(), "0".into()] {
        bad(&stamp, &good().set("X-Idempotency-Key", format!("{stamp}.{}", nonce())), STAMP);
    }
    for key in ["null", "7", "[]", "\"\"", "{}"] {
        bad(key, &good().body(body(key)), PUBLIC_REQUIRED);
    }
    for text in ["[]", "7", "null", "\"x\"", "{}"] {
        bad(text, &good().body(text), PUBLIC_REQUIRED);
    }
    for key in ["\"AAAA\"", "\"not base64\"", "\"A2sX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW\""] {
        bad(key, &good().body(body(key)), PUBLIC);
    }
}

#[test]
fn a_repeated_or_malformed_header_is_refused_by_its_own_name() {
    let key = good().value("x-idempotency-key").unwrap().to_owned();
    bad("key twice", &good().set("X-Idempotency-Key", key.clone()).header("X-Idempotency-Key", key), SHAPE);
    for request in [good().header("X-ClientId", CLIENT_ID), good().set("X-ClientId", "a|b")] {
        let answer = request.send(server()).unwrap();
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("Bad Request")), "{}", answer.text());
    }
}

#[test]
fn a_nonce_of_16_characters_is_enough_and_one_used_again_is_409() {
    let request = good().set("X-Idempotency-Key", format!("{}.{}", now_ms(), &nonce()[..16]));
    assert_eq!(request.send(server()).unwrap().status, 200);
    let again = request.send(server()).unwrap();
    assert_message("again", &again, 409, "Conflict", "Request already processed (replay detected)");
    assert_eq!(request.set("X-ClientId", "another").send(server()).unwrap().status, 200);
}

/// The faults of an init, in the order of their checks. A request may have several.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Json,
    NoKey,
    NoClient,
    NoPublic,
    Shape,
    NonceShort,
    StampNoDigits,
    StampOld,
    Public,
    Replayed,
}
use Fault::*;

/// Returns true if two faults can occur together. Faults of one part exclude each other.
fn compatible(a: Fault, b: Fault) -> bool {
    let with = |group: &[Fault]| group.contains(&a) && group.contains(&b);
    !(with(&[Json, NoPublic, Public])
        || with(&[StampNoDigits, StampOld])
        || with(&[NonceShort, Replayed])
        || with(&[NoKey, Shape])
        || (a == NoKey && [NonceShort, StampNoDigits, StampOld, Replayed].contains(&b))
        || with(&[Shape, Replayed])
        || with(&[NoClient, Replayed]))
}

fn with_faults(faults: &[Fault], used: &str) -> Request {
    let has = |fault| faults.contains(&fault);
    let stamp = match () {
        () if has(StampNoDigits) => "12x".to_owned(),
        () if has(StampOld) => (now_ms() - 400_000).to_string(),
        () => now_ms().to_string(),
    };
    let nonce = match () {
        () if has(NonceShort) => "short".to_owned(),
        () if has(Replayed) => used.to_owned(),
        () => nonce(),
    };
    let shape = if has(Shape) { ".x" } else { "" };
    let mut request = good().set("X-Idempotency-Key", format!("{stamp}.{nonce}{shape}"));
    if has(NoKey) {
        request = request.without("X-Idempotency-Key");
    }
    if has(NoClient) {
        request = request.without("X-ClientId");
    }
    match () {
        () if has(Json) => request.body("{"),
        () if has(NoPublic) => request.body("{}"),
        () if has(Public) => request.body(body("\"AAAA\"")),
        () => request,
    }
}

#[test]
fn of_two_errors_the_first_in_the_order_is_reported() {
    let used = nonce();
    let first = good().set("X-Idempotency-Key", format!("{}.{used}", now_ms()));
    assert_eq!(first.send(server()).unwrap().status, 200);
    let order = [
        (Json, 400, "Request body is not valid JSON"),
        (NoKey, 400, KEY_REQUIRED),
        (NoClient, 400, CLIENT_REQUIRED),
        (NoPublic, 400, PUBLIC_REQUIRED),
        (Shape, 400, SHAPE),
        (NonceShort, 400, NONCE),
        (StampNoDigits, 400, STAMP),
        (StampOld, 400, STAMP),
        (Public, 400, PUBLIC),
        (Replayed, 409, "Request already processed (replay detected)"),
    ];
    let mut pairs = 0;
    for (i, (earlier, status, message)) in order.iter().enumerate() {
        for (later, ..) in &order[i..] {
            if earlier != later && !compatible(*earlier, *later) {
                continue;
            }
            let answer = with_faults(&[*earlier, *later], &used).send(server()).unwrap();
            let error = if *status == 409 { "Conflict" } else { "Bad Request" };
            assert_message(&format!("{earlier:?} and {later:?}"), &answer, *status, error, message);
            pairs += 1;
        }
    }
    assert!(pairs > 35, "{pairs}");
}

#[test]
fn empty_and_broken_json_is_400_and_another_content_type_415() {
    for text in ["", " ", "{", "{\"clientPublicKey\":", "<a/>", "{\"clientPublicKey\":\"x\"} y"] {
        let answer = good().body(text).send(server()).unwrap();
        assert_eq!((answer.status, answer.json()["error"].as_str()), (400, Some("Bad Request")), "{text}");
        assert!(answer.json()["message"].is_string(), "{text}");
    }
    let others = ["text/plain", "application/octet-stream", "json", "application/jsonp", "text/json", ""];
    for request in
        others.map(|media| good().set("Content-Type", media)).into_iter().chain([good().without("content-type")])
    {
        let answer = request.send(server()).unwrap();
        assert_eq!((answer.status, answer.json()["error"].as_str()), (415, Some("Unsupported Media Type")));
        assert!(answer.json()["message"].is_string());
    }
    for media in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"] {
        assert_eq!(good().set("Content-Type", media).send(server()).unwrap().status, 200, "{media}");
    }
}

#[test]
fn bodies_up_to_1_mib_are_taken_and_longer_ones_are_413_that_the_client_can_read() {
    let padded = |len: usize| {
        let request = good();
        let mut body = request.body_bytes().to_vec();
        body.resize(len, b' ');
        request.body(body)
    };
    for len in [65 * 1024, 1024 * 1024 - 1, 1024 * 1024] {
        assert_eq!(padded(len).send(server()).unwrap().status, 200, "{len}");
    }
    for len in [1024 * 1024 + 1, 10 * 1024 * 1024] {
        for request in [padded(len), padded(len).chunked(16 * 1024)] {
            let answer = request.send(server()).unwrap();
            assert_eq!((answer.status, answer.json()["error"].as_str()), (413, Some("Payload Too Large")), "{len}");
            assert!(answer.json()["message"].is_string());
        }
    }
}

#[test]
fn header_names_are_taken_in_any_case() {
    assert_eq!(good().rename(str::to_ascii_uppercase).send(server()).unwrap().status, 200);
    assert_eq!(good().rename(str::to_ascii_lowercase).chunked(11).send(server()).unwrap().status, 200);
}

#[test]
fn a_full_nonce_store_is_503_here_and_400_on_the_other_family_and_nothing_is_evicted() {
    // Many clients behind a proxy: a single one gets only a share.
    let config = CONFIG.replace(":0' }", ":0', trusted_proxies: ['127.0.0.1'] }");
    let full = Launch::new(BINARY, &format!("{config}replay: {{ nonces_max: 1000 }}\n")).start().unwrap();
    let mut connection = Connection::open(full.address()).unwrap();
    let first = good();
    assert_eq!(first.send(full.address()).unwrap().status, 200);
    let mut client = 0;
    let mut good = || {
        client += 1;
        good().header("X-Forwarded-For", format!("192.0.{}.{}", client / 250, client % 250 + 1))
    };
    for _ in 0..999 {
        connection.write(&good().header("Connection", "keep-alive").bytes()).unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, 200);
    }
    let answer = good().send(full.address()).unwrap();
    let message = "Replay protection service temporarily unavailable";
    assert_message("full", &answer, 503, "Service Unavailable", message);
    let answer = good().target("/session/init").send(full.address()).unwrap();
    answer.assert_error("full", 400, "CRYPTO_ERROR");
    assert_eq!(first.send(full.address()).unwrap().status, 409, "an old nonce is still known");
}

fn url_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

fn token(key: &EcdsaKeyPair, header: &str, claims: &serde_json::Value) -> String {
    let signed = format!("{}.{}", url_base64(header.as_bytes()), url_base64(claims.to_string().as_bytes()));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("Bearer {signed}.{}", url_base64(signature.as_ref()))
}

#[test]
fn with_a_verifier_a_good_token_lengthens_a_bad_one_is_401_and_none_at_all_is_anonymous() {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = key.public_key().as_ref();
    let (x, y) = (url_base64(&point[1..33]), url_base64(&point[33..]));
    let folder = tempfile::tempdir().unwrap();
    let jwks = json!({"keys": [{"kty": "EC", "crv": "P-256", "x": x, "y": y}]});
    std::fs::write(folder.path().join("jwks.json"), jwks.to_string()).unwrap();
    let config = format!("{CONFIG}sessions: {{ tokens: {{ jwks_file: jwks.json, audience: us }} }}\n");
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let send = |token: &str| good().header("Authorization", token).send(server.address()).unwrap();
    let es256 = r#"{"alg":"ES256"}"#;
    let now = now_ms() / 1000;
    let claims = |exp: u64, audience: &str| json!({"exp": exp, "aud": audience, "sub": "someone"});
    let fine = token(&key, es256, &claims(now + 600, "us"));
    assert_eq!(send(&fine).json()["expiresInSec"], 3600);
    let stranger = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    for bad in [
        "Bearer x",
        "x",
        "Basic eDp5",
        "Bearer ",
        &fine[..fine.len() - 4],
        &fine.replace("Bearer", "Basic"),
        &token(&stranger, es256, &claims(now + 600, "us")),
        &token(&key, es256, &claims(now - 600, "us")),
        &token(&key, es256, &claims(now + 600, "them")),
        &token(&key, es256, &json!({"aud": "us"})),
        &token(&key, r#"{"alg":"none"}"#, &claims(now + 600, "us")),
        &token(&key, r#"{"alg":"HS256"}"#, &claims(now + 600, "us")),
    ] {
        let answer = send(bad);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (401, Some("Unauthorized")), "{bad}");
    }
    let twice = good().header("Authorization", fine.clone()).header("Authorization", fine);
    assert_eq!(twice.send(server.address()).unwrap().status, 401);
    assert_eq!(good().send(server.address()).unwrap().json()["expiresInSec"], 1800);
}

#[test]
fn other_methods_are_405() {
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(good().method(method).send(server()).unwrap().status, 405, "{method}");
    }
}
