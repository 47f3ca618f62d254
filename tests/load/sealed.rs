//! `sealway load` with sealed sessions against a real gateway: all wires, each time at which a session is opened, over HTTP/1.1
//! and HTTP/2.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use sealway_client::{Pin, SUITES_DEFAULT, Suite, Trust, TrustStore};
use sealway_load::plan::{Agree, Assertion, Plan, Protocol, SealedSessions, Stop, Text};
use sealway_load::record::{Class, Phase};
use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::ORDER;

use crate::BINARY;
use crate::ground::{fault, plan, run, run_well, workers};

fn server() -> SocketAddr {
    static SERVER: OnceLock<(Server, Upstream)> = OnceLock::new();
    let (server, _) = SERVER.get_or_init(|| {
        let echo = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/, /v3/], path: /.well-known/sealway-keys }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: echo }}
upstreams: {{ echo: {{ servers: ['http://{}'] }} }}
sessions: {{ identity: {{ allow_generated: true }}, anonymous_paths: [/echo], anonymous_inits_per_minute: 0, authenticated_inits_per_minute: 0 }}
",
            echo.address
        );
        (Launch::new(BINARY, &config).start().unwrap(), echo)
    });
    server.address()
}

/// Four workers seal so many numbered requests and check the echo.
fn sealed(wire: u8, agree: Agree, init_path: &str, requests: u64) -> Plan {
    let mut plan = plan(&format!("http://{}/echo?n={{{{counter}}}}", server()).replace(['{', '}'], ""), None, requests);
    plan.request.method = http::Method::POST;
    plan.request.path = "/echo?n={{counter}}".into();
    plan.request.body = Some(Text::Template(r#"{"n":"{{counter}}","id":"{{uuid}}"}"#.into()));
    plan.target.sealed = Some(SealedSessions {
        wire,
        agree,
        init_path: init_path.into(),
        client_id: "load-test".into(),
        token_file: None,
        trust: Trust::FirstUse(TrustStore::Memory),
        suites: SUITES_DEFAULT.to_vec(),
        signature_algorithms: Vec::new(),
    });
    if agree != Agree::InitOnly {
        plan.assertions = vec![
            Assertion::JsonPath { path: "$.n".into(), equals: "{{counter}}".into() },
            Assertion::BodyIs(r#"{"n":"{{counter}}","id":"{{uuid}}"}"#.into()),
        ];
    }
    workers(&mut plan, 4);
    plan
}

#[test]
fn sessions_are_agreed_when_the_plan_says_and_each_phase_is_timed() {
    let requests = 60;
    for (wire, init_path) in [
        (1, "/session/init"),
        (2, "/session/init"),
        (2, "/v1/session/init"),
        (1, "/session/init/anon"),
        (3, "/v3/sessions"),
    ] {
        for (agree, reuse, sessions) in [
            (Agree::PerRequest, true, requests),
            (Agree::PerConnection, true, 4),
            (Agree::PerConnection, false, requests),
            (Agree::Reuse, true, 4),
            (Agree::Reuse, false, 4),
            (Agree::InitOnly, true, requests),
        ] {
            let what = format!("wire {wire} {init_path} {agree:?} {reuse}");
            let mut plan = sealed(wire, agree, init_path, requests);
            plan.connections.reuse = reuse;
            plan.connections.close_header = !reuse;
            let outcome = run_well(plan);
            let sum = &outcome.totals.sum;
            let calls = if agree == Agree::InitOnly { 0 } else { requests };
            assert_eq!((sum.counts.succeeded, sum.counts.sessions_agreed), (requests, sessions), "{what}");
            assert_eq!(sum.times(Phase::KeyAgreement).len(), sessions, "{what}");
            assert_eq!((sum.times(Phase::Seal).len(), sum.times(Phase::Open).len()), (calls, calls), "{what}");
            assert_eq!(sum.times(Phase::Server).len(), requests, "{what}");
            let status = if wire == 3 && agree == Agree::InitOnly { 201 } else { 200 };
            assert_eq!(sum.statuses(), [(status, requests)], "{what}");
            assert_eq!(sum.counts.sessions_by_suite.x25519_ml_kem, if wire == 3 { sessions } else { 0 }, "{what}");
            assert_eq!(sum.counts.connections_opened, if reuse { 4 } else { requests }, "{what}");
        }
    }
}

#[test]
fn sealed_requests_go_over_streams_of_http2_too() {
    for (wire, init_path) in [(1, "/session/init"), (2, "/session/init"), (3, "/v3/sessions")] {
        let mut plan = sealed(wire, Agree::Reuse, init_path, 100);
        plan.target.protocol = Protocol::Http2;
        plan.connections.streams = 4;
        let counts = run_well(plan).totals.sum.counts;
        assert_eq!((counts.succeeded, counts.sessions_agreed, counts.connections_opened), (100, 4, 1), "{counts:?}");
    }
}

#[test]
fn any_method_goes_on_wire_3_under_the_key_that_is_pinned_and_under_no_other() {
    let mut plan = sealed(3, Agree::PerRequest, "/v3/sessions", 20);
    plan.request.method = http::Method::PUT;
    plan.target.sealed.as_mut().unwrap().suites = vec![Suite::P256];
    let counts = run_well(plan).totals.sum.counts;
    assert_eq!((counts.sessions_agreed, counts.sessions_by_suite.p256), (20, 20));
    let mut plan = sealed(3, Agree::Reuse, "/v3/sessions", 4);
    let other = Pin::parse("00112233445566778899aabbccddeeff").unwrap();
    plan.target.sealed.as_mut().unwrap().trust = Trust::Pins(vec![other]);
    let (class, words) = fault(&run(plan));
    assert!(class == Class::Session && words.contains("key_retired"), "{class:?}: {words}");
}

#[test]
fn a_rejected_init_and_a_rejected_call_are_distinguished() {
    // Without a route for sessions, the gateway treats the init as a call that is not sealed.
    let (class, words) = fault(&run(sealed(2, Agree::Reuse, "/elsewhere", 8)));
    assert!(class == Class::Session && words.contains("refused: 400"), "{class:?}: {words}");
    let mut plan = sealed(1, Agree::PerConnection, "/session/init/anon", 8);
    plan.request.path = "/not-for-strangers".into();
    let (class, words) = fault(&run(plan));
    assert!(class == Class::Status && words.contains("rejected without sealing: 403"), "{class:?}: {words}");
}

#[test]
fn a_wrong_echo_is_a_failed_assertion() {
    let mut plan = sealed(2, Agree::Reuse, "/session/init", 8);
    plan.assertions = vec![Assertion::BodyHolds("something else".into())];
    let (class, words) = fault(&run(plan));
    assert!(class == Class::Assertion && words.contains("does not contain"), "{class:?}: {words}");
}

/// A gateway whose anonymous sessions last six seconds, and which forgets them when it stops.
fn forgetful(port: u16) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:{port}' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions:
  ttl: {{ wire1_anonymous_sec: 6 }}
  anonymous_paths: [/transaction/purchase]
  anonymous_inits_per_minute: 0
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

/// Returns the number of sessions that a server has.
fn sessions(server: &Server) -> u64 {
    let asked = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = asked.send(server.admin()).unwrap().text();
    let found = text.lines().find_map(|line| line.strip_prefix("sealway_sessions ")?.parse().ok());
    found.unwrap_or_else(|| panic!("the sessions are not in {text}"))
}

/// A plan in which one worker calls about every 20 ms.
fn steady(port: u16, init_path: &str, duration: Duration) -> Plan {
    let mut plan = sealed(1, Agree::Reuse, init_path, 0);
    plan.target.url = format!("http://127.0.0.1:{port}/").parse().unwrap();
    plan.request.path = "/transaction/purchase".into();
    plan.request.body = Some(Text::Fixed(ORDER.to_vec()));
    plan.assertions.clear();
    plan.stop = Stop { duration: Some(duration), requests: None };
    plan.think = Some((Duration::from_millis(20), Duration::from_millis(20)));
    workers(&mut plan, 1);
    plan
}

#[test]
fn a_session_that_is_about_to_end_is_agreed_anew_before_it_does() {
    let port = free_port().unwrap();
    let _server = forgetful(port);
    let outcome = run_well(steady(port, "/session/init/anon", Duration::from_millis(3_500)));
    let agreed = outcome.totals.sum.counts.sessions_agreed;
    // Each session is used for its first second.
    assert!((2..=4).contains(&agreed), "{agreed}");
}

#[test]
fn a_session_that_the_service_lost_is_agreed_anew() {
    let port = free_port().unwrap();
    let server = forgetful(port);
    let load = std::thread::spawn(move || run(steady(port, "/session/init", Duration::from_secs(6))));
    // On a busy machine the run takes its time to begin.
    while sessions(&server) == 0 {
        assert!(!load.is_finished(), "no session was agreed");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    let _server = forgetful(port);
    let outcome = load.join().unwrap();
    let faults = outcome.totals.sum.faults();
    let is_down = |class| matches!(class, Class::Refused | Class::Reset | Class::Closed);
    assert!(faults.iter().all(|fault| is_down(fault.class)), "{faults:?}");
    assert_eq!(outcome.totals.sum.counts.sessions_agreed, 2, "{faults:?}");
    let end = outcome.seconds.iter().filter(|second| second.index >= 4);
    assert!(end.map(|second| second.counts.succeeded).sum::<u64>() > 0, "it goes on: {faults:?}");
}
