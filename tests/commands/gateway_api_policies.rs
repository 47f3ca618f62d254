//! `sealway gateway-api render`: SealPolicy and BackendTLSPolicy, which of several applies, and what an invalid one leaves.

use serde_json::json;

use crate::gateway_api::{PUBLIC, gateway, policy, render, route, rule, service};

#[test]
fn the_most_specific_policy_applies_and_the_older_one_of_two() {
    let shop = route("shop", &format!("rules: [{}, {}]", rule("{ value: /a }", "a"), rule("{ value: /b }", "b")));
    let other = route("other", &format!("rules: [{}]", rule("{ value: /c }", "c")));
    let of_gateway = "kind: Gateway, name: public";
    let policies = [
        policy(
            "everything",
            of_gateway,
            "sealed: optional, sessions: { wires: [3], ttl: { maxSeconds: 600, defaultSeconds: 600 } }",
        ),
        policy("later", of_gateway, "sealed: 'off'"),
        policy("shop", "kind: HTTPRoute, name: shop", "sealed: 'off'"),
        policy("payments", "kind: HTTPRoute, name: shop, sectionName: ra", "sealed: required, keepAnswersSeconds: 30"),
        policy("nothing", "kind: HTTPRoute, name: none", "sealed: required"),
        policy("section", "kind: Gateway, name: public, sectionName: none", "sealed: required"),
    ];
    let services = ["a", "b", "c"].map(|name| service(name, "")).concat();
    let made = render(&[gateway(PUBLIC), shop, other, policies.concat(), services], &[]);
    assert_eq!(
        made.routes(),
        ["any /v3/sessions/* sessions", "any /c/* c optional", "any /a/* a required", "any /b/* b off"]
    );
    assert_eq!(made.config["routes"][2]["keep_answers_sec"], 30);
    assert_eq!(made.config["sessions"], json!({"wires": [3], "ttl": {"max_sec": 600, "default_sec": 600}}));
    for (name, reason) in [
        ("everything", "Accepted"),
        ("later", "Conflicted"),
        ("payments", "Accepted"),
        ("nothing", "TargetNotFound"),
        ("section", "TargetNotFound"),
    ] {
        assert_eq!(made.condition("SealPolicy", name, "Accepted").0, reason, "{name}");
    }
}

/// A BackendTLSPolicy for the Service `a`.
fn tls_policy(name: &str, validation: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{ name: {name} }}\n\
         spec: {{ targetRefs: [{{ group: '', kind: Service, name: a }}], validation: {{ {validation} }} }}\n"
    )
}

#[test]
fn a_backend_is_reached_by_tls_as_the_older_policy_says_and_the_newer_one_conflicts() {
    let shop = route("shop", &format!("rules: [{}]", rule("{ value: /a }", "a")));
    let system = |hostname: &str| format!("hostname: {hostname}, wellKnownCACertificates: System");
    let policies = tls_policy("first", &system("one.example")) + &tls_policy("second", &system("two.example"));
    let made = render(&[gateway(PUBLIC), shop.clone(), policies, service("a", "")], &[]);
    let upstreams: Vec<_> = made.config["upstreams"].as_object().unwrap().values().collect();
    assert_eq!(upstreams.len(), 1);
    assert_eq!(upstreams[0]["tls"], json!({"server_name": "one.example"}));
    assert!(upstreams[0]["servers"][0].as_str().unwrap().starts_with("https://a.default"), "{upstreams:?}");
    assert_eq!(made.condition("BackendTLSPolicy", "first", "Accepted").0, "Accepted");
    assert_eq!(made.condition("BackendTLSPolicy", "second", "Accepted").0, "Conflicted");

    let missing =
        tls_policy("first", "hostname: one.example, caCertificateRefs: [{ group: '', kind: Secret, name: ca }]");
    let made = render(&[gateway(PUBLIC), shop, missing, service("a", "")], &[]);
    assert_eq!(made.condition("BackendTLSPolicy", "first", "Accepted").0, "NoValidCACertificate");
    assert_eq!(made.condition("BackendTLSPolicy", "first", "ResolvedRefs").0, "InvalidKind");
    assert_eq!(made.routes(), ["any /a/* unavailable"]);
}

#[test]
fn what_a_policy_that_is_not_accepted_targets_is_unavailable() {
    for more in [
        "sealed: required, sealedBodyMaxBytes: 1",
        "sealed: required, future: 1",
        "sealed: 'off', clientIdFrom: dns",
        "sealed: 'off', sessions: { wires: [3] }",
    ] {
        let shop = route("shop", &format!("rules: [{}]", rule("{ value: /a }", "a")));
        let policy = policy("p", "kind: HTTPRoute, name: shop", more);
        let made = render(&[gateway(PUBLIC), shop, policy, service("a", "")], &[]);
        assert_eq!(made.condition("SealPolicy", "p", "Accepted").0, "Invalid", "{more}");
        assert_eq!(made.routes(), ["any /a/* unavailable"], "{more}");
    }
}
