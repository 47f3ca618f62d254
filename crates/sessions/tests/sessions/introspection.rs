//! Token introspection (RFC 7662) on every wire. The endpoint is a test server: a closure behind a socket.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::desk::{Call, Desk, SESSION, V1};
use http::Request;
use sealway_proto::Error;
use sealway_proto::session::Auth;
use sealway_proto::wire::SessionId;
use sealway_sessions::authentication::{
    Authentication, ClaimNames, ClientIdentity, InitCredentials, Introspection, IntrospectionConfig,
};
use sealway_sessions::{Policy, Refusal};
use sealway_testkit::store_contract::claims::START_MS;
use sealway_testkit::upstream::{Upstream, answer};
use serde_json::{Value, json};

const TOKEN: &str = "an-opaque-token";
const NOW_SEC: u64 = START_MS / 1000;

/// An endpoint that gives the same answer for every token until the test changes it.
struct Endpoint {
    says: Arc<Mutex<(&'static str, String)>>,
    asked: Arc<AtomicUsize>,
    server: Upstream,
    folder: tempfile::TempDir,
}

impl Endpoint {
    fn new(says: Value) -> Self {
        let says = Arc::new(Mutex::new(("200 OK", says.to_string())));
        let asked = Arc::new(AtomicUsize::new(0));
        let (to_say, count) = (says.clone(), asked.clone());
        let server = Upstream::answering(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            let (status, body) = to_say.lock().unwrap().clone();
            answer(status, &[("content-type", "application/json")], body.as_bytes())
        });
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "s:cret %+\n").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Endpoint { says, asked, server: server.unwrap(), folder }
    }

    fn say(&self, status: &'static str, body: &str) {
        *self.says.lock().unwrap() = (status, body.to_owned());
    }

    fn config(&self) -> IntrospectionConfig {
        IntrospectionConfig {
            url: format!("http://{}/introspect", self.server.address).parse().unwrap(),
            client_id: "us".into(),
            client_secret_file: self.folder.path().join("secret"),
            ca_file: None,
            issuer: None,
            audience: None,
            leeway_sec: 60,
            timeout: Duration::from_secs(20),
            cache: Duration::from_secs(60),
        }
    }

    fn desk(&self, config: IntrospectionConfig) -> Desk {
        let authentication = Authentication {
            introspection: Some(Introspection::open(config).unwrap()),
            claims: ClaimNames { tenant: Some("org".into()), ..ClaimNames::default() },
            ..Authentication::default()
        };
        Desk::new(Policy { authentication, ..Policy::default() })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Authenticates as an init of wire 3 with this `Authorization`.
async fn recognise(desk: &Desk, authorization: &str) -> Result<ClientIdentity, Refusal> {
    let request = Request::post("/v3/sessions").header("authorization", authorization).body(()).unwrap();
    let (parts, ()) = request.into_parts();
    desk.authority.recognise(&InitCredentials::of(&parts, None, [0; 32], desk.authority_now_ms())).await
}

impl Desk {
    fn authority_now_ms(&self) -> u64 {
        use sealway_runtime::clock::Clock;
        self.clock.now_ms()
    }
}

#[tokio::test]
async fn an_active_token_names_subject_and_tenant_and_is_asked_about_once_in_a_while() {
    let says = json!({"active": true, "sub": "alice", "org": "acme", "exp": NOW_SEC + 100});
    let endpoint = Endpoint::new(says);
    let desk = endpoint.desk(endpoint.config());
    let who = recognise(&desk, &format!("Bearer {TOKEN}")).await.unwrap();
    assert_eq!((who.auth, who.subject.as_deref(), who.tenant.as_deref()), (Auth::Bearer, Some("alice"), Some("acme")));
    assert_eq!(who.ttl_max_sec, Some(100));
    let (head, body) = endpoint.server.next().unwrap();
    assert_eq!(head.method_and_target(), ("POST", "/introspect"));
    // Client id and secret are form-encoded before they are joined.
    assert_eq!(head.header("authorization"), Some("Basic dXM6cyUzQWNyZXQlMjAlMjUlMkI="));
    assert_eq!(head.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(String::from_utf8(body).unwrap(), format!("token={TOKEN}&token_type_hint=access_token"));

    recognise(&desk, &format!("Bearer {TOKEN}")).await.unwrap();
    assert_eq!(endpoint.asked(), 1, "it was not remembered");
    recognise(&desk, "Bearer another").await.unwrap();
    assert_eq!(endpoint.asked(), 2);
    // Not cached beyond the token's own end.
    desk.clock.set(START_MS + 100_000);
    endpoint.say("200 OK", r#"{"active":false}"#);
    assert_eq!(recognise(&desk, &format!("Bearer {TOKEN}")).await, Err(Refusal::Token("not active")));
    // Bad answers are not cached.
    endpoint.say("200 OK", r#"{"active":true}"#);
    let who = recognise(&desk, &format!("Bearer {TOKEN}")).await.unwrap();
    assert_eq!((who.subject, who.ttl_max_sec), (None, None));
}

#[tokio::test]
async fn claims_of_an_introspection_response_are_checked() {
    let endpoint = Endpoint::new(json!({}));
    let config = IntrospectionConfig {
        issuer: Some("https://login.example".into()),
        audience: Some("sealway".into()),
        cache: Duration::ZERO,
        ..endpoint.config()
    };
    let desk = endpoint.desk(config);
    let with = |name: &str, value: Value| {
        let mut claims = json!({"active": true, "iss": "https://login.example", "aud": ["x", "sealway"], "sub": "alice",
            "exp": NOW_SEC + 60, "nbf": NOW_SEC});
        claims[name] = value;
        claims.to_string()
    };
    for (name, value, reason) in [
        ("active", json!(false), "not active"),
        ("exp", json!(NOW_SEC - 60), "expired"),
        ("exp", json!(NOW_SEC - 1), "expired"),
        ("exp", json!("soon"), "malformed"),
        ("nbf", json!(NOW_SEC + 61), "not yet valid"),
        ("iss", json!("https://evil.example"), "issuer"),
        ("iss", Value::Null, "issuer"),
        ("aud", json!("another"), "audience"),
        ("aud", json!([]), "audience"),
        ("sub", json!(7), "malformed"),
        ("org", json!("a\r\nb"), "malformed"),
        ("cnf", json!({"jkt": "k"}), "it is bound to a key, and no proof came with it"),
        ("cnf", json!({"x5t#S256": "k"}), "it is bound to another certificate"),
    ] {
        endpoint.say("200 OK", &with(name, value.clone()));
        let refused = recognise(&desk, "Bearer t").await;
        assert_eq!(refused, Err(Refusal::Token(reason)), "{name}: {value}");
    }
    endpoint.say("200 OK", &with("nbf", json!(NOW_SEC + 60)));
    let before = endpoint.asked();
    for _ in 0..2 {
        recognise(&desk, "Bearer t").await.unwrap();
    }
    assert_eq!(endpoint.asked(), before + 2, "remembered, though told not to");
}

#[tokio::test]
async fn a_failed_introspection_is_not_blamed_on_the_client() {
    let endpoint = Endpoint::new(json!({"active": true}));
    let desk = endpoint.desk(endpoint.config());
    let long = format!(r#"{{"active":true,"sub":"{}"}}"#, "x".repeat(70_000));
    for (status, body) in [
        ("401 Unauthorized", r#"{"active":true}"#),
        ("500 Oops", "{}"),
        ("302 Found", "{}"),
        ("200 OK", "[true]"),
        ("200 OK", "no JSON"),
        ("200 OK", "{}"),
        ("200 OK", r#"{"active":"true"}"#),
        ("200 OK", &long),
    ] {
        endpoint.say(status, body);
        let refusal = recognise(&desk, &format!("Bearer {TOKEN}")).await.unwrap_err();
        assert!(matches!(refusal, Refusal::IntrospectionUnavailable(_)), "{status} {body:.20}: {refusal:?}");
        assert!(!format!("{refusal:?} {refusal}").contains(TOKEN), "{refusal}");
    }
    let call = Call::init(V1).with("authorization", &format!("Bearer {TOKEN}"));
    let answer = desk.send(call.clone()).await;
    answer.is_v1("/v1", (503, "Service Unavailable", "Token verification temporarily unavailable"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let plain = desk.send(Call::init(SESSION).with("authorization", "Bearer t")).await;
    plain.is("/session", 503, r#"{"error":"SERVICE_UNAVAILABLE"}"#);

    // No listener at all, and a listener that never answers: both fail within the deadline.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [mute.local_addr().unwrap(), gone] {
        let url = format!("http://{address}/").parse().unwrap();
        let config = IntrospectionConfig { url, timeout: Duration::from_millis(200), ..endpoint.config() };
        let refusal = recognise(&endpoint.desk(config), "Bearer t").await.unwrap_err();
        assert!(matches!(refusal, Refusal::IntrospectionUnavailable(_)), "{refusal:?}");
    }
}

#[tokio::test]
async fn introspection_also_identifies_clients_of_wires_1_and_2() {
    let endpoint = Endpoint::new(json!({"active": true, "sub": "alice", "org": "acme", "exp": NOW_SEC + 100}));
    let desk = endpoint.desk(endpoint.config());
    for call in [Call::init(SESSION), Call::wire1(SESSION), Call::init(V1)] {
        let (id, _) = desk.send(call.with("authorization", "Bearer t")).await.agreed();
        let session = desk.authority.store().get(&SessionId::parse(&id).unwrap()).await.unwrap().unwrap();
        let record = session.record();
        assert_eq!(record.auth, Auth::Bearer);
        assert_eq!((record.subject.as_deref(), record.tenant.as_deref()), (Some("alice"), Some("acme")));
    }
    endpoint.say("200 OK", r#"{"active":false}"#);
    desk.send(Call::init(SESSION).with("authorization", "Bearer u")).await.is("bad", 400, crate::desk::CRYPTO_ERROR);
    let refused = (401, "Unauthorized", "Invalid or expired token");
    desk.send(Call::init(V1).with("authorization", "Bearer u")).await.is_v1("bad", refused);
    desk.send(Call::init(V1).with("authorization", "DPoP u")).await.is_v1("not theirs", refused);
    let (id, _) = desk.send(Call::init(SESSION)).await.agreed();
    let session = desk.authority.store().get(&SessionId::parse(&id).unwrap()).await.unwrap().unwrap();
    assert_eq!(session.record().auth, Auth::None, "nobody was recognised");
}

#[tokio::test]
async fn without_a_valid_credential_no_session_is_agreed_where_one_is_required() {
    let endpoint = Endpoint::new(json!({"active": true, "sub": "alice"}));
    let authentication = Authentication {
        require: true,
        introspection: Some(Introspection::open(endpoint.config()).unwrap()),
        ..Authentication::default()
    };
    let desk = Desk::new(Policy { authentication, ..Policy::default() });
    desk.send(Call::init(SESSION)).await.is("nobody", 400, crate::desk::CRYPTO_ERROR);
    desk.send(Call::init(V1)).await.is_v1("nobody", (401, "Unauthorized", "Authorization is required"));
    desk.send(Call::init(V1).with("authorization", "Bearer t")).await.agreed();
    desk.send(Call::init(crate::desk::ANON)).await.agreed();
    assert_eq!(recognise(&desk, "").await, Err(Refusal::Wire(Error::Unauthenticated)));
    recognise(&desk, "Bearer t").await.unwrap();
    // Without token verification `Authorization` belongs to the application.
    let open = Desk::new(Policy::default());
    assert_eq!(recognise(&open, "Basic x").await, Ok(ClientIdentity::default()));
}
