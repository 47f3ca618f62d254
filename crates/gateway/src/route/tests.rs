use sealway_proto::mle::{Profile, Scalars};
use sealway_proto::wire::ReplayPolicy;
use serde::Deserialize;

use super::*;
use crate::mle::{Caller, Direction, KeyRing, PlainAnswers};
use crate::upstream::{ServerAddress, Target, UpstreamSettings};

fn route(matcher: Matcher, sealed: Sealing) -> Route {
    let target = Target::Servers(vec![ServerAddress::parse("http://127.0.0.1:1").unwrap()]);
    let upstream = Arc::new(Upstream::new(target, UpstreamSettings::default()));
    let policy = ForwardPolicy { sealed, ..ForwardPolicy::default() };
    let action = Action::Forward(Box::new(Forward { upstream, policy, kept: None, mle: None }));
    Route { name: "r".into(), matcher, delay: Duration::ZERO, action }
}

fn decision(found: &Selection<'_>) -> &'static str {
    match found {
        Selection::None => "sealed",
        Selection::Disguised => "refused",
        Selection::Route(_, route) => match route.mode() {
            routes::SealMode::Required => "sealed",
            routes::SealMode::Optional => "optional",
            routes::SealMode::Off => "plain",
        },
    }
}

#[tokio::test]
async fn each_target_of_the_vectors_comes_to_its_decision() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/routes");
    let route = |rule: &serde_json::Value| {
        let pattern = match rule["exact"].as_str() {
            Some(path) => Pattern::exact(path),
            None => Pattern::prefix(rule["prefix"].as_str().unwrap()),
        };
        let matcher = Matcher { patterns: vec![pattern.unwrap()], ..Matcher::default() };
        route(matcher, Sealing::deserialize(&rule["sealed"]).unwrap())
    };
    let mut played = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        if vector["type"] != "routes" {
            assert_eq!(vector["type"], "routes-rejected");
            continue;
        }
        let routes: Vec<Route> = vector["rules"].as_array().unwrap().iter().map(route).collect();
        for case in vector["cases"].as_array().unwrap() {
            let target = case["target"].as_str().unwrap();
            let found = find(&routes, asked(target.split('?').next().unwrap()));
            assert_eq!(decision(&found), case["decision"], "{}: {target}", vector["name"]);
            played += 1;
        }
    }
    assert!(played >= 300, "{played}");
}

#[tokio::test]
async fn routes_of_other_listeners_and_hosts_seal_nothing_here() {
    let prefix = |path: &str| vec![Pattern::prefix(path).unwrap()];
    let elsewhere = Matcher { hosts: vec!["b".into()], patterns: prefix("/api/"), ..Matcher::default() };
    let routes = [route(elsewhere, Sealing::Required), route(Matcher::default(), Sealing::Off)];
    assert_eq!(decision(&find(&routes, asked("//api/x"))), "plain");
    assert_eq!(decision(&find(&routes, RouteQuery { host: "b", ..asked("//api/x") })), "refused");
}

fn asked(path: &str) -> RouteQuery<'_> {
    RouteQuery { listener: "a", host: "h", path }
}

#[test]
fn the_services_own_path_stands_before_the_requests_with_one_slash() {
    let target = |base: &str, uri: &str| {
        let policy = ForwardPolicy { upstream_path: Some(base.into()), ..ForwardPolicy::default() };
        let mut uri = uri.parse().unwrap();
        policy.retarget(&mut uri);
        uri.to_string()
    };
    assert_eq!(target("/base", "/a%2fb/../c?x=/y"), "/base/a%2fb/../c?x=/y");
    assert_eq!(target("/base/", "/a"), "/base/a");
    assert_eq!(target("/base/", "/?q"), "/base/?q");
    assert_eq!(target("/base", "/"), "/base");
    let mut uri: Uri = "/a//b".parse().unwrap();
    ForwardPolicy::default().retarget(&mut uri);
    assert_eq!(uri, "/a//b");
}

#[test]
fn a_host_is_matched_whatever_its_case_and_a_star_is_all_below() {
    let matcher = Matcher { hosts: vec!["example.com".into(), "*.example.org".into()], ..Matcher::default() };
    let matches = |host| matcher.is_for(RouteQuery { host, ..asked("/") });
    assert!(matches("example.com") && matches("EXAMPLE.com") && matches("a.example.org") && matches("a.b.Example.org"));
    assert!(!matches("a.example.com") && !matches("example.org") && !matches(".example.org") && !matches(""));
}

#[test]
fn a_mode_is_read_from_its_name_or_from_a_list_of_session_and_hpke() {
    let read = |value: serde_json::Value| Sealing::deserialize(value).ok();
    for (value, mode) in [
        (serde_json::json!("required"), Sealing::Required),
        (serde_json::json!("optional"), Sealing::Optional),
        (serde_json::json!("ehbp"), Sealing::Ehbp),
        (serde_json::json!("hpke"), Sealing::Hpke),
        (serde_json::json!("[session, hpke]"), Sealing::SessionOrHpke),
        (serde_json::json!("off"), Sealing::Off),
        (serde_json::json!("false"), Sealing::Off),
        (serde_json::json!(false), Sealing::Off),
        (serde_json::json!(["session"]), Sealing::Required),
        (serde_json::json!(["hpke"]), Sealing::Hpke),
        (serde_json::json!(["hpke", "session"]), Sealing::SessionOrHpke),
    ] {
        assert_eq!(read(value.clone()), Some(mode), "{value}");
    }
    for value in [
        serde_json::json!("on"),
        serde_json::json!(true),
        serde_json::json!([]),
        serde_json::json!(["off"]),
        serde_json::json!(["hpke", "hpke"]),
    ] {
        assert_eq!(read(value.clone()), None, "{value}");
    }
    let error = Sealing::deserialize(serde_json::json!("on")).unwrap_err().to_string();
    assert!(error.contains("a list of session and hpke"), "{error}");
}

#[test]
fn each_mode_serves_its_kinds_of_requests() {
    for (mode, hpke, sessions, document) in [
        (Sealing::Required, false, true, false),
        (Sealing::Optional, false, true, false),
        (Sealing::Ehbp, false, false, true),
        (Sealing::Hpke, true, false, true),
        (Sealing::SessionOrHpke, true, true, true),
        (Sealing::Off, false, false, false),
    ] {
        let serves = (mode.serves_hpke(), mode.serves_sessions(), mode.document().is_some());
        assert_eq!(serves, (hpke, sessions, document), "{mode:?}");
    }
}

#[test]
fn a_route_is_for_its_listeners_and_paths() {
    let matcher = Matcher { listeners: vec!["a".into()], ..Matcher::default() };
    assert!(matcher.is_for(asked("/")) && !matcher.is_for(RouteQuery { listener: "b", ..asked("/") }));
    assert!(!matcher.is_for_all() && Matcher::default().is_for_all());
    assert!(!Matcher { hosts: vec!["h".into()], ..Matcher::default() }.is_for_all());
    let patterns = vec![Pattern::prefix("/api/").unwrap()];
    let below = Matcher { patterns, ..Matcher::default() };
    assert!(below.is_for_path("/api/x") && !below.is_for_path("/x") && Matcher::default().is_for_path("/x"));
}

#[tokio::test]
async fn a_route_holds_a_request_in_memory_only_if_it_opens_it() {
    let held = |sealed| route(Matcher::default(), sealed).held_max();
    assert_eq!((held(Sealing::Off), held(Sealing::Required)), (0, SEALED_BODY_MAX_DEFAULT));
    let sessions = Route { action: Action::Sessions, ..route(Matcher::default(), Sealing::Off) };
    assert_eq!((sessions.held_max(), sessions.upstream(), sessions.is_oblivious()), (INIT_V1_BODY_MAX, "", false));
    assert_eq!(sessions.mode(), routes::SealMode::Off);
}

#[tokio::test]
async fn a_route_of_ehbp_requires_the_seal_unless_it_passes_clear_requests() {
    let mut ehbp = route(Matcher::default(), Sealing::Ehbp);
    for (unsealed, mode) in [
        (ClearRequests::Refuse, routes::SealMode::Required),
        (ClearRequests::Bodyless, routes::SealMode::Required),
        (ClearRequests::Pass, routes::SealMode::Optional),
    ] {
        let Action::Forward(forward) = &mut ehbp.action else { unreachable!("the route forwards") };
        forward.policy.ehbp.unsealed = unsealed;
        assert_eq!(ehbp.mode(), mode, "{unsealed:?}");
    }
    let closed = Route { action: Action::Standalone(Standalone::Unavailable), ..ehbp };
    assert_eq!(closed.mode(), routes::SealMode::Required);
    for sealed in [Sealing::Required, Sealing::Hpke, Sealing::SessionOrHpke] {
        assert_eq!(route(Matcher::default(), sealed).mode(), routes::SealMode::Required, "{sealed:?}");
    }
}

#[tokio::test]
async fn a_route_of_a_card_scheme_requires_the_seal_if_a_clear_request_would_be_wrong() {
    let mle = |direction, is_required| {
        let policy = MlePolicy {
            direction,
            profile: Profile::visa(),
            is_required,
            caller: Caller::Anybody,
            open: Vec::new(),
            seal: Vec::new(),
            request: Vec::new(),
            answer: Vec::new(),
            scalars: Scalars::Refuse,
            plain_answers: PlainAnswers::None,
            refuses_replays: false,
            sign: None,
            verify: Vec::new(),
        };
        Mle::new(policy, &KeyRing::default(), &[], &ReplayPolicy::default(), 1000).unwrap()
    };
    for (direction, is_required, mode) in [
        (Direction::Inbound, true, routes::SealMode::Required),
        (Direction::Inbound, false, routes::SealMode::Off),
        (Direction::Outbound, false, routes::SealMode::Required),
    ] {
        let mut scheme = route(Matcher::default(), Sealing::Off);
        let Action::Forward(forward) = &mut scheme.action else { unreachable!("the route forwards") };
        forward.mle = Some(mle(direction, is_required));
        assert_eq!(scheme.mode(), mode, "{direction:?} {is_required}");
        assert_eq!(scheme.held_max(), SEALED_BODY_MAX_DEFAULT);
    }
}

#[tokio::test]
async fn a_route_names_its_upstream_and_that_of_its_oblivious_gateway() {
    let forward = |name: &str| {
        let target = Target::Servers(vec![ServerAddress::parse("http://127.0.0.1:1").unwrap()]);
        let settings = UpstreamSettings { name: name.into(), ..UpstreamSettings::default() };
        let upstream = Arc::new(Upstream::new(target, settings));
        Forward { upstream, policy: ForwardPolicy::default(), kept: None, mle: None }
    };
    let plain = route(Matcher::default(), Sealing::Off);
    let plain = Route { action: Action::Forward(Box::new(forward("shop"))), ..plain };
    assert_eq!((plain.upstream(), plain.is_oblivious()), ("shop", false));
    let policy = ohttp::RelayPolicy { gateway_path: Uri::from_static("/gateway"), message_max: 1000 };
    let relay = Box::new(ohttp::Relay { policy, forward: forward("far") });
    let relay = Route { action: Action::OhttpRelay(relay), ..plain };
    assert_eq!((relay.upstream(), relay.is_oblivious(), relay.held_max()), ("far", true, 0));
    assert_eq!(relay.mode(), routes::SealMode::Off);
}
