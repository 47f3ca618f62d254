//! Signatures of outbound routes with MLE: what an upstream received is verified by Mastercard's library, jose and jwcrypto, in
//! `tests/mle_clients`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_testkit::daemon::{program, root};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{Upstream, answer};
use serde_json::{Value, json};

use crate::BINARY;

const CONSUMER_KEY: &str = "acme-Payments_0001.~!0123456789abcdef0123456789abcdef";
const SHARED_SECRET: &str = "m@1{a+shared}secret$of:Visa";
const ISSUER: &str = "C=UK, ST=England, O=\"Acme\", CN=0014H00001lFE7dQAG";

struct Setup {
    server: Server,
    scheme: Upstream,
    folder: tempfile::TempDir,
}

fn config(scheme: &Upstream) -> String {
    let route = |prefix: &str, more: &str, profile: &str, sign: &str| {
        format!(
            "
  - match: {{ path_prefix: {prefix} }}
    upstream: scheme
    {more}
    mle: {{ direction: outbound, profile: {profile}, seal: [{{ keys: [scheme] }}], open: [second, own], plain_answers: all, sign: {sign} }}"
        )
    };
    let routes = [
        route("/mc", "", "mastercard-jwe", "{ oauth1: { consumer_key_file: consumer.key, key: signer } }"),
        route(
            "/gw",
            "upstream_path: /base",
            "mastercard-jwe",
            "{ oauth1: { consumer_key_file: consumer.key, key: signer }, origin: 'https://Sandbox.API.mastercard.com:443' }",
        ),
        route("/pss", "", "mastercard-jwe", "{ oauth1: { consumer_key_file: consumer.key, key: pss } }"),
        route("/vdp", "", "visa", "{ x_pay_token: { shared_secret_file: shared.secret, path_prefix: /vdp/ } }"),
        route("/pts", "", "visa-acceptance", "{ visa_acceptance_jwt: { merchant_id: acme_1, key: signer } }"),
        route(
            "/ob",
            "",
            "generic-jwe",
            "{ jws_detached: { key: pss, issuer: 'C=UK, ST=England, O=\"Acme\", CN=0014H00001lFE7dQAG', trust_anchor: openbanking.org.uk } }",
        ),
    ];
    format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
mle_keys:
  scheme: {{ certificate: scheme.cert.pem, kid: kid-scheme }}
  own: {{ file: own.key.pem, kid: kid-own }}
  second: {{ file: second.key.pem, kid: kid-second }}
  signer: {{ file: signer.key.pem, alg: RS256, kid: kid-signer }}
  pss: {{ file: signer.key.pem, alg: PS256, kid: kid-pss }}
routes:{}
upstreams: {{ scheme: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        routes.concat(),
        scheme.address
    )
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    for name in ["scheme", "own", "second", "signer"] {
        make_pair(folder.path(), name).unwrap();
    }
    std::fs::write(folder.path().join("consumer.key"), format!("{CONSUMER_KEY}\n")).unwrap();
    std::fs::write(folder.path().join("shared.secret"), SHARED_SECRET).unwrap();
    let scheme = Upstream::answering(|_, _| answer("200 OK", &[("Content-Type", "application/json")], b"{}")).unwrap();
    let server = Launch::new(BINARY, &config(&scheme)).folder(folder.path()).start().unwrap();
    Setup { server, scheme, folder }
}

impl Setup {
    /// Sends a request with signatures of its own, and returns what the scheme received, for the verifiers.
    fn exchange(&self, method: &str, target: &str, scheme: &str) -> Value {
        let body: &[u8] = if method == "GET" { b"" } else { br#"{"pan":"4111111111111111","name":"Zo\u00eb"}"# };
        let request = Request::new(method, target).body(body).header("Content-Type", "application/json");
        let request = request.header("Authorization", "Bearer stolen").header("X-Pay-Token", "xv2:1:00");
        let request = request.header("X-JWS-Signature", "a..b").header("keyId", "another");
        let answered = request.send(self.server.address()).unwrap();
        assert_eq!(answered.status, 200, "{target}: {}\n{:#?}", answered.text(), self.server.log());
        let (head, body) = self.scheme.next().unwrap();
        let name = match scheme {
            "oauth1" | "visa_acceptance_jwt" => "authorization",
            "x_pay_token" => "x-pay-token",
            _ => "x-jws-signature",
        };
        let values: Vec<_> = head.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name)).collect();
        assert_eq!(values.len(), 1, "{values:?}");
        assert!(!String::from_utf8_lossy(&body).contains("4111"), "the body is sealed");
        let kid = if scheme == "x_pay_token" { Some("kid-scheme") } else { Some("another") };
        assert_eq!(head.header("keyid"), kid, "Visa's header is the kid of its key");
        let origin = format!("http://{}", self.scheme.address);
        let origin = if target.starts_with("/gw") { "https://sandbox.api.mastercard.com" } else { &origin };
        let (_, target) = head.method_and_target();
        json!({
            "scheme": scheme, "method": method, "url": format!("{origin}{target}"), "body": STANDARD.encode(&body),
            "headers": { name: values[0].1 }, "certificate": self.folder.path().join("signer.cert.pem"),
            "signature_method": if target.starts_with("/pss") { "RSA-PSS" } else { "RSA-SHA256" },
            "consumer_key": CONSUMER_KEY, "shared_secret": SHARED_SECRET, "merchant_id": "acme_1",
            "resource_path": target.split('?').next().unwrap().trim_start_matches("/vdp/"),
            "kid": if scheme == "jws_detached" { "kid-pss" } else { "kid-signer" }, "answer_kid": "kid-second",
            "issuer": ISSUER, "trust_anchor": "openbanking.org.uk",
        })
    }
}

/// Runs a verifier over requests, and returns what it printed.
fn verify(mut verifier: Command, requests: &Path) -> String {
    let done = verifier.arg(requests).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn needs(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is missing and this test needs it: run scripts/setup-tests.sh", path.display());
    path
}

#[test]
fn every_signature_verifies_by_another_implementation_over_what_the_scheme_received() {
    let setup = setup();
    let mut requests = Vec::new();
    for (target, scheme) in [
        ("/mc/a/pay", "oauth1"),
        ("/gw/pay", "oauth1"),
        ("/pss/pay", "oauth1"),
        ("/vdp/v1/pay", "x_pay_token"),
        ("/pts/v2/payments", "visa_acceptance_jwt"),
        ("/ob/v4.0/consents", "jws_detached"),
    ] {
        for query in ["?apikey=KEY", "?b=2&a=3&a=1&Format=XML&ab=x", "?b=%2F%20%C3%A9&a=x%7Cy&c="] {
            for method in ["POST", "GET", "PUT"] {
                requests.push(setup.exchange(method, &format!("{target}{query}"), scheme));
            }
        }
    }
    let file = setup.folder.path().join("requests.json");
    std::fs::write(&file, Value::from(requests).to_string()).unwrap();
    let folder = root().join("tests/mle_clients");
    needs(folder.join("node/node_modules/mastercard-oauth1-signer"));
    let mut node = Command::new(program("node").unwrap());
    node.arg(folder.join("node/verify.mjs"));
    assert_eq!(verify(node, &file), "54 signatures");
    let mut python = Command::new(needs(root().join(".venv/mle/bin/python")));
    python.arg(folder.join("python/verify.py"));
    assert_eq!(verify(python, &file), "27 signatures");
    let log = setup.server.log().join("\n");
    assert!(![CONSUMER_KEY, SHARED_SECRET, "PRIVATE KEY", "xv2:"].iter().any(|secret| log.contains(secret)), "{log}");
}

#[test]
fn a_request_that_cannot_be_signed_does_not_leave() {
    let mut setup = setup();
    for target in ["/mc/pay?oauth_nonce=1", "/mc/pay?a=%zz", "/vdp"] {
        let answered = Request::post(target, "{}").send(setup.server.address()).unwrap();
        let is_refused = (answered.status, answered.text().as_str()) == (400, r#"{"error":"CRYPTO_ERROR"}"#);
        assert!(is_refused, "{target}: {} {}", answered.status, answered.text());
    }
    assert!(setup.scheme.is_untouched());
    let refused = |line: &Value| line.to_string().contains(r#""class":"signature""#);
    setup.server.wait_for_log(0, refused).unwrap();
}

#[test]
fn secrets_are_read_again_at_a_reload() {
    let mut setup = setup();
    let file = setup.folder.path().join("shared.secret");
    let fits = |setup: &Setup, secret: &str| {
        let request = setup.exchange("GET", "/vdp/x", "x_pay_token");
        let token = request["headers"]["x-pay-token"].as_str().unwrap().to_owned();
        let (head, mac) = token.rsplit_once(':').unwrap();
        let message = format!("{}x", head.strip_prefix("xv2:").unwrap());
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        let due = aws_lc_rs::hmac::sign(&key, message.as_bytes());
        due.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>() == mac
    };
    assert!(fits(&setup, SHARED_SECRET));
    std::fs::write(&file, "two\nlines\n").unwrap();
    let from = setup.server.log().len();
    setup.server.hang_up().unwrap();
    let at = "routes[3].mle.sign.x_pay_token.shared_secret_file";
    setup.server.wait_for_log(from, |line| line.to_string().contains(at)).unwrap();
    assert!(fits(&setup, SHARED_SECRET), "the old secret is in force");
    std::fs::write(&file, "the next one\n").unwrap();
    setup.server.hang_up().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !fits(&setup, "the next one") {
        assert!(Instant::now() < until, "the next secret is never in force");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_wrong_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["own", "signer"] {
        make_pair(folder.path(), name).unwrap();
    }
    std::fs::write(folder.path().join("consumer.key"), "abc!def").unwrap();
    std::fs::write(folder.path().join("bad.key"), "abc \"def\"").unwrap();
    std::fs::write(folder.path().join("empty"), "\n").unwrap();
    let keys = "scheme: { certificate: own.cert.pem, kid: a }, own: { file: own.key.pem, kid: b }, \
        signer: { file: signer.key.pem, alg: RS256, kid: c }";
    let oauth1 = "{ oauth1: { consumer_key_file: consumer.key, key: signer } }";
    let mle = |sign: &str| {
        format!(
            "mle: {{ direction: outbound, profile: visa, seal: [{{ keys: [scheme] }}], open: [own], sign: {sign} }}"
        )
    };
    let one = "'http://127.0.0.1:9'";
    for (keys, route, servers, said) in [
        (keys, mle("{}"), one, "routes[0].mle.sign: expected one of: oauth1"),
        (
            keys,
            mle(
                "{ oauth1: { consumer_key_file: consumer.key, key: signer }, x_pay_token: { shared_secret_file: consumer.key } }",
            ),
            one,
            "routes[0].mle.sign: expected one of: oauth1",
        ),
        (
            keys,
            mle("{ oauth1: { consumer_key_file: gone, key: signer } }"),
            one,
            "routes[0].mle.sign.oauth1.consumer_key_file",
        ),
        (keys, mle("{ oauth1: { consumer_key_file: bad.key, key: signer } }"), one, "bad.key: expected one line"),
        (keys, mle("{ oauth1: { consumer_key_file: consumer.key, key: nobody } }"), one, "is named \"nobody\""),
        (
            keys,
            mle("{ oauth1: { consumer_key_file: consumer.key, key: own } }"),
            one,
            "sign.oauth1.key: \"own\" is of another kind: this signature needs a private key with alg: RS256 or alg: PS256",
        ),
        (
            keys,
            mle("{ jws_detached: { key: signer, issuer: a, trust_anchor: b } }"),
            one,
            "jws_detached.key: \"signer\" is of another kind: this signature needs a private key with alg: PS256",
        ),
        (keys, mle("{ visa_acceptance_jwt: { merchant_id: '', key: signer } }"), one, "merchant_id: expected 1 to 256"),
        (
            keys,
            mle("{ x_pay_token: { shared_secret_file: empty } }"),
            one,
            "empty: expected one line of 1 to 4096 bytes",
        ),
        (
            keys,
            mle("{ x_pay_token: { shared_secret_file: consumer.key, path_prefix: vdp } }"),
            one,
            "path_prefix: expected the start of a path",
        ),
        (
            keys,
            mle("{ x_pay_token: { shared_secret_file: consumer.key }, origin: 'https://a.example' }"),
            one,
            "sign.origin: the signature of x_pay_token does not name the server",
        ),
        (
            keys,
            mle("{ oauth1: { consumer_key_file: consumer.key, key: signer }, origin: 'https://a.example/path' }"),
            one,
            "sign.origin: \"https://a.example/path\" is no server",
        ),
        (
            keys,
            mle(oauth1),
            "'http://127.0.0.1:9', 'http://127.0.0.1:8'",
            "routes[0].mle.sign.origin: the upstream has",
        ),
        (keys, mle(oauth1), "'unix:/run/egress.sock'", "routes[0].mle.sign.origin: the upstream has"),
        (keys, format!("preserve_host: true, {}", mle(oauth1)), one, "routes[0].mle.sign: the signature names"),
        (
            keys,
            format!("mle: {{ direction: inbound, profile: visa, open: [own], plain_answers: all, sign: {oauth1} }}"),
            one,
            "routes[0].mle.sign: only an outbound route",
        ),
        (
            keys,
            "mle: { direction: inbound, profile: visa, open: [signer], plain_answers: all }".to_owned(),
            one,
            "open[0]: \"signer\" is of another kind: it signs",
        ),
        (
            "scheme: { certificate: own.cert.pem, kid: a }, own: { file: own.key.pem, kid: b }, signer: { file: own.key.pem, alg: RS256, kid: c }",
            mle(oauth1),
            one,
            "mle_keys.signer.file: this private key also opens, as \"own\"",
        ),
        (
            "scheme: { certificate: own.cert.pem, kid: a }, own: { file: own.key.pem, kid: b }, signer: { certificate: own.cert.pem, alg: RS256, kid: c }",
            mle(oauth1),
            one,
            "sign.oauth1.key: \"signer\" is of another kind: this signature needs a private key with alg: RS256",
        ),
        (
            "scheme: { certificate: own.cert.pem, kid: a }, own: { file: own.key.pem, kid: b }, signer: { file: own.cert.pem, alg: RS256, kid: c }",
            mle(oauth1),
            one,
            "mle_keys.signer.file",
        ),
        (
            "scheme: { certificate: own.cert.pem, kid: a }, own: { file: own.key.pem, kid: b }, signer: { file: signer.key.pem, alg: ES256, kid: c }",
            mle(oauth1),
            one,
            "mle_keys.signer.alg: \"ES256\" is none of RSA-OAEP-256, RSA-OAEP, RSA-OAEP-512, ECDH-ES, dir, A128KW, A256KW, RS256, PS256, and ES256 of a key that verifies",
        ),
    ] {
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:0' }}]\nmle_keys: {{ {keys} }}\nroutes: [{{ match: {{}}, upstream: s, {route} }}]\nupstreams: {{ s: {{ servers: [{servers}] }} }}\n"
        );
        let file = folder.path().join("serve.yaml");
        std::fs::write(&file, config).unwrap();
        let checked = Command::new(BINARY).args(["config", "check"]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success() && text.contains(said), "{said:?} is not in {text:?}");
        assert!(!text.contains("PRIVATE KEY") && !text.contains("abc"), "{text}");
    }
}
