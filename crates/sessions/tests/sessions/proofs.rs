//! Proofs of a key (RFC 9449) and certificates: each part of a proof changed by itself, and the choice of the
//! certificate.

use crate::desk::Desk;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use sealway_proto::session::Auth;
use sealway_runtime::http::{FromTrustedProxy, Origin, Peer};
use sealway_runtime::tls::{CertificateField, PeerCertificate};
use sealway_sessions::authentication::{
    Authentication, ClientIdentity, InitCredentials, Introspection, IntrospectionConfig,
};
use sealway_sessions::{Policy, Refusal};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::store_contract::claims::{START_MS, provider};
use sealway_testkit::upstream::{Upstream, answer};
use serde_json::{Value, json};

const TOKEN: &str = "an-opaque-token";
const NOW_SEC: u64 = START_MS / 1000;
const INIT_HASH: [u8; 32] = [9; 32];

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn sha256(bytes: &[u8]) -> String {
    b64(provider().sha256(&[bytes]))
}

struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        Signer(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn jwk(&self) -> Value {
        let point = self.0.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..])})
    }

    fn thumbprint(&self) -> String {
        let (x, y) = (self.jwk()["x"].clone(), self.jwk()["y"].clone());
        sha256(format!(r#"{{"crv":"P-256","kty":"EC","x":{x},"y":{y}}}"#).as_bytes())
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", b64(signature.as_ref()))
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk()})
    }

    fn proof(&self, claims: &Value) -> String {
        self.sign(&self.header(), claims)
    }
}

fn claims(jti: &str) -> Value {
    json!({
        "jti": jti, "htm": "POST", "htu": "https://api.example/v3/sessions", "iat": NOW_SEC,
        "ath": sha256(TOKEN.as_bytes()), "init_hash": b64(INIT_HASH),
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims(&crate::desk::nonce());
    claims[name] = value;
    claims
}

/// An authority whose introspection endpoint reports every token as bound to this key or certificate.
struct Bound {
    desk: Desk,
    _endpoint: Upstream,
}

impl Bound {
    fn new(cnf: &Value, public_urls: &[&str]) -> Self {
        let says = json!({"active": true, "sub": "alice", "cnf": cnf}).to_string();
        let endpoint =
            Upstream::answering(move |_, _| answer("200 OK", &[("content-type", "application/json")], says.as_bytes()));
        let endpoint = endpoint.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let introspection = IntrospectionConfig {
            url: format!("http://{}/", endpoint.address).parse().unwrap(),
            client_id: "us".into(),
            client_secret_file: secret,
            ca_file: None,
            issuer: None,
            audience: None,
            leeway_sec: 0,
            timeout: std::time::Duration::from_secs(20),
            cache: std::time::Duration::from_secs(60),
        };
        let authentication = Authentication {
            introspection: Some(Introspection::open(introspection).unwrap()),
            public_urls: public_urls.iter().map(|url| (*url).to_owned()).collect(),
            ..Authentication::default()
        };
        Bound { desk: Desk::new(Policy { authentication, ..Policy::default() }), _endpoint: endpoint }
    }

    async fn ask(&self, authorization: &str, proof: Option<&str>) -> Result<ClientIdentity, Refusal> {
        let request =
            Request::post("/v3/sessions").header("host", "internal:8080").header("authorization", authorization);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        self.desk.authority.recognise(&InitCredentials::of(&parts, proof, INIT_HASH, START_MS)).await
    }

    async fn dpop(&self, proof: &str) -> Result<ClientIdentity, Refusal> {
        self.ask(&format!("DPoP {TOKEN}"), Some(proof)).await
    }
}

#[tokio::test]
async fn a_proof_of_the_tokens_key_is_taken_once() {
    let signer = Signer::new();
    let bound = Bound::new(&json!({"jkt": signer.thumbprint()}), &["https://api.example"]);
    let proof = signer.proof(&claims("one"));
    let who = bound.dpop(&proof).await.unwrap();
    assert_eq!((who.auth, who.subject.as_deref()), (Auth::Dpop, Some("alice")));
    let again = Err(Refusal::Token("the proof was used before"));
    assert_eq!(bound.dpop(&proof).await, again);
    assert_eq!(bound.dpop(&signer.proof(&claims("one"))).await, again, "by its jti, not by its bytes");
    bound.dpop(&signer.proof(&claims("two"))).await.unwrap();
    bound.dpop(&signer.proof(&with("htu", json!("HTTPS://API.example:443/v3/./sessions?x#y")))).await.unwrap();
    let (oldest, newest) = (NOW_SEC - 300, NOW_SEC + 300);
    for iat in [json!(oldest), json!(newest), json!(NOW_SEC as f64 + 0.5)] {
        bound.dpop(&signer.proof(&with("iat", iat))).await.unwrap();
    }
    bound.dpop(&signer.proof(&with("jti", json!("é".repeat(128))))).await.unwrap();
}

#[tokio::test]
async fn a_proof_with_one_part_wrong_is_refused() {
    let signer = Signer::new();
    let bound = Bound::new(&json!({"jkt": signer.thumbprint()}), &["https://api.example"]);
    for (name, value) in [
        ("htm", json!("GET")),
        ("htm", json!("post")),
        ("htu", json!("https://evil.example/v3/sessions")),
        ("htu", json!("http://api.example/v3/sessions")),
        ("htu", json!("https://api.example/v3/sessions/")),
        ("htu", json!("http://internal:8080/v3/sessions")),
        ("htu", json!("/v3/sessions")),
        ("htu", Value::Null),
        ("ath", json!(sha256(b"another"))),
        ("ath", Value::Null),
        ("init_hash", json!(b64([8; 32]))),
        ("init_hash", json!(STANDARD.encode(INIT_HASH))),
        ("init_hash", Value::Null),
        ("iat", json!(NOW_SEC - 301)),
        ("iat", json!(NOW_SEC + 301)),
        ("iat", json!(-1)),
        ("iat", json!(1e300)),
        ("iat", json!(START_MS)),
        ("iat", json!("now")),
        ("iat", Value::Null),
        ("jti", json!("")),
        ("jti", json!("x".repeat(129))),
        ("jti", json!(7)),
    ] {
        let refused = bound.dpop(&signer.proof(&with(name, value.clone()))).await;
        assert!(matches!(refused, Err(Refusal::Token(_))), "{name}: {value}: {refused:?}");
    }
    let other = Signer::new();
    let mut private = signer.header();
    private["jwk"]["d"] = json!(b64([1; 32]));
    let mut short = signer.header();
    short["jwk"]["x"] = json!(b64([1; 31]));
    let mut off_curve = signer.header();
    off_curve["jwk"]["y"] = json!(b64([1; 32]));
    let mut critical = signer.header();
    critical["crit"] = json!(["x"]);
    for (name, header) in [
        ("typ", json!({"typ": "JWT", "alg": "ES256", "jwk": signer.jwk()})),
        ("alg", json!({"typ": "dpop+jwt", "alg": "none", "jwk": signer.jwk()})),
        ("alg", json!({"typ": "dpop+jwt", "alg": "ES384", "jwk": signer.jwk()})),
        ("jwk", json!({"typ": "dpop+jwt", "alg": "ES256"})),
        ("another's", other.header()),
        ("private", private),
        ("short", short),
        ("off the curve", off_curve),
        ("crit", critical),
    ] {
        let refused = bound.dpop(&signer.sign(&header, &claims(&crate::desk::nonce()))).await;
        assert!(matches!(refused, Err(Refusal::Token(_))), "{name}: {refused:?}");
    }
    let good = signer.proof(&claims("kept"));
    let (signed, _) = good.rsplit_once('.').unwrap();
    for broken in
        [signed, &format!("{good}."), &format!("{signed}."), "", "a.b.c", &good[..good.len() - 2], &format!("{good}=")]
    {
        let refused = bound.dpop(broken).await;
        assert!(matches!(refused, Err(Refusal::Token(_))), "{broken}: {refused:?}");
    }
    // A valid proof by a key that the token is not bound to; a proof and a scheme without each other.
    assert_eq!(bound.dpop(&other.proof(&claims("x"))).await, Err(Refusal::Token("it is not bound to the proof's key")));
    let bearer = format!("Bearer {TOKEN}");
    let stolen = Err(Refusal::Token("it is bound to a key, and no proof came with it"));
    assert_eq!(bound.ask(&bearer, None).await, stolen);
    assert_eq!(bound.ask(&bearer, Some(&good)).await, Err(Refusal::Token("a proof beside a bearer token")));
    assert_eq!(bound.ask(&format!("DPoP {TOKEN}"), None).await, Err(Refusal::Token("no proof")));
    // None of these attempts has used up the proof.
    bound.dpop(&good).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_bound_to_no_key_takes_no_proof_and_without_a_public_url_the_requests_own_counts() {
    let signer = Signer::new();
    let bound = Bound::new(&Value::Null, &["https://api.example"]);
    let refused = Err(Refusal::Token("it is not bound to the proof's key"));
    assert_eq!(bound.dpop(&signer.proof(&claims("a"))).await, refused);
    bound.ask(&format!("Bearer {TOKEN}"), None).await.unwrap();

    let bound = Bound::new(&json!({"jkt": signer.thumbprint()}), &[]);
    bound.dpop(&signer.proof(&with("htu", json!("http://internal:8080/v3/sessions")))).await.unwrap();
    assert_eq!(bound.dpop(&signer.proof(&claims("b"))).await, Err(Refusal::Token("the proof is for another URL")));
}

fn certificate(der: &[u8]) -> PeerCertificate {
    PeerCertificate::parse(vec![der.to_vec().into()]).unwrap()
}

#[tokio::test]
async fn a_connections_certificate_names_the_client_and_behind_a_trusted_proxy_the_forwarded_one_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost", "app-7").unwrap();
    let pem = std::fs::read_to_string(&made.client.0).unwrap();
    let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(&text).unwrap();
    let now_ms = sealway_runtime::clock::Clock::now_ms(&sealway_runtime::clock::SystemClock);
    let authentication =
        Authentication { client_certificate: Some(CertificateField::CommonName), ..Authentication::default() };
    let desk = Desk::new(Policy { authentication, ..Policy::default() });
    let ask = async |shown: bool, trusted: bool, forwarded: &[&str], now_ms: u64| {
        let mut request = Request::post("/v3/sessions");
        for value in forwarded {
            request = request.header("client-cert", *value);
        }
        let peer = Peer::Unix;
        let certificate = shown.then(|| std::sync::Arc::new(certificate(&der)));
        let origin = Origin { listener: "a".into(), peer, client: None, is_tls: true, certificate };
        let (mut parts, ()) = request.extension(origin).body(()).unwrap().into_parts();
        if trusted {
            parts.extensions.insert(FromTrustedProxy);
        }
        desk.authority.recognise(&InitCredentials::of(&parts, None, INIT_HASH, now_ms)).await
    };
    let value = format!(":{text}:");
    let who = ask(true, false, &[], now_ms).await.unwrap();
    assert_eq!((who.auth, who.subject.as_deref()), (Auth::Certificate, Some("app-7")));
    assert!(who.ttl_max_sec.is_some());
    assert_eq!(ask(false, true, &[&value], now_ms).await.unwrap(), who);
    // A header from an untrusted peer, and a proxy's own certificate, identify no client.
    let nobody = Ok(ClientIdentity::default());
    assert_eq!(ask(false, false, &[&value], now_ms).await, nobody);
    assert_eq!(ask(true, true, &[], now_ms).await, nobody);
    assert_eq!(ask(false, false, &[], now_ms).await, nobody);
    let malformed = Err(Refusal::Token("the forwarded certificate is malformed"));
    for broken in [&["x"][..], &[":AAAA:"], &[&text], &[&value, &value], &["::"], &[":not base64:"]] {
        assert_eq!(ask(true, true, broken, now_ms).await, malformed, "{broken:?}");
    }
    let over_ms = certificate(&der).not_after_ms;
    assert_eq!(ask(true, false, &[], over_ms).await, Err(Refusal::Token("the certificate is over")));
}
