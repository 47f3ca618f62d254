//! `sealway gateway-api render`: what each resource becomes, what is refused, and requests to a gateway with the result.

use std::path::Path;

use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{Upstream, answer};
use serde_json::{Value, json};

use crate::BINARY;
use crate::command_line::{run, text};

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: sealway }
spec: { controllerName: sealway.dev/gateway }
";
pub(crate) const PUBLIC: &str = "[{ name: http, port: 80, protocol: HTTP }]";

pub(crate) fn gateway(listeners: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public }}\n\
         spec: {{ gatewayClassName: sealway, listeners: {listeners} }}\n"
    )
}

/// An HTTPRoute of the Gateway; `more` are fields of its spec, and its namespace may stand before its name.
pub(crate) fn route(name: &str, more: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}, namespace: {namespace} }}\n\
         spec: {{ parentRefs: [{{ name: public, namespace: default }}], {more} }}\n"
    )
}

pub(crate) fn rule(path: &str, service: &str) -> String {
    format!("{{ name: r{service}, matches: [{{ path: {path} }}], backendRefs: [{{ name: {service}, port: 80 }}] }}")
}

pub(crate) fn service(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec: {{ ports: [{{ port: 80 }}] {more} }}\n"
    )
}

pub(crate) fn policy(name: &str, target: &str, more: &str) -> String {
    let group = "group: gateway.networking.k8s.io";
    format!(
        "---\napiVersion: sealway.dev/v1alpha1\nkind: SealPolicy\nmetadata: {{ name: {name} }}\n\
         spec: {{ targetRefs: [{{ {group}, {target} }}], {more} }}\n"
    )
}

/// Configuration, statuses and messages of one run of the command.
pub(crate) struct Output {
    pub(crate) config: Value,
    statuses: Vec<Value>,
    said: String,
}

impl Output {
    /// Returns reason and message of the condition of an object, at its first parent, ancestor or at itself.
    pub(crate) fn condition(&self, kind: &str, name: &str, condition: &str) -> (String, String) {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        let status = &self
            .statuses
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("no {kind} {name}: {:#?}", self.statuses))["status"];
        let holder = ["parents", "ancestors"].iter().find_map(|list| status[*list].get(0)).unwrap_or(status);
        reason(holder, condition)
    }

    fn listener(&self, index: usize, condition: &str) -> (String, String) {
        let gateway = self.statuses.iter().find(|object| object["kind"] == "Gateway").unwrap();
        reason(&gateway["status"]["listeners"][index], condition)
    }

    /// Returns `HOST PATH ACTION` of each route, in order.
    pub(crate) fn routes(&self) -> Vec<String> {
        let path = |keys: &Value| {
            let exact = keys["path"].get(0).and_then(Value::as_str).filter(|_| keys["path_prefix"].is_null());
            exact.map_or_else(|| format!("{}*", keys["path_prefix"][0].as_str().unwrap()), str::to_owned)
        };
        let action = |route: &Value| {
            let upstream =
                route["upstream"].as_str().map(|name| self.config["upstreams"][name]["servers"][0].to_string());
            let service =
                upstream.map(|server| server.trim_start_matches("\"http://").split('.').next().unwrap().to_owned());
            let sealed = route["sealed"].as_str().map(|sealed| format!(" {sealed}")).unwrap_or_default();
            let other = || {
                if route["sessions"].is_null() {
                    route["standalone"].as_str().unwrap().into()
                } else {
                    "sessions".into()
                }
            };
            service.unwrap_or_else(other) + &sealed
        };
        let routes = self.config["routes"].as_array().unwrap().iter();
        routes
            .map(|it| {
                format!("{} {} {}", it["match"]["host"].as_str().unwrap_or("any"), path(&it["match"]), action(it))
            })
            .collect()
    }
}

fn reason(holder: &Value, condition: &str) -> (String, String) {
    let conditions = holder["conditions"].as_array().unwrap_or_else(|| panic!("{holder}"));
    let found =
        conditions.iter().find(|it| it["type"] == condition).unwrap_or_else(|| panic!("no {condition}: {holder}"));
    (found["reason"].as_str().unwrap().into(), found["message"].as_str().unwrap().into())
}

/// Runs the command on manifests, and asserts that `config check` accepts the result.
pub(crate) fn render(manifests: &[String], args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("all.yaml"), CLASS.to_owned() + &manifests.concat()).unwrap();
    let (from, output, status) = (path("all.yaml"), path("config.yaml"), path("status.yaml"));
    let mut all = vec!["gateway-api", "render", "--from", &from, "--output", &output, "--status", &status];
    all.extend(args);
    let done = run(&all);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    let checked = run(&["config", "check", &output, "--files=false"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let read = |path: &str| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    Output { config: read(&output), statuses: read(&status)["items"].as_array().unwrap().clone(), said }
}

/// Runs the command and returns why it failed.
fn fails(manifests: &str, args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, manifests).unwrap();
    let mut all = vec!["gateway-api", "render", "--from", file.to_str().unwrap()];
    all.extend(args);
    let done = run(&all);
    assert!(!done.status.success(), "{}", text(&done.stdout));
    text(&done.stderr)
}

#[test]
fn routes_are_in_the_order_of_precedence_and_whatever_no_rule_names_is_not_found() {
    let listeners =
        "[{ name: any, port: 80, protocol: HTTP }, { name: shop, port: 80, protocol: HTTP, hostname: '*.shop.test' }]";
    let made = render(
        &[
            gateway(listeners),
            route("wide", &format!("rules: [{}]", rule("{ value: /api }", "a"))),
            route(
                "hosts",
                &format!("hostnames: ['*.test', a.shop.test, '*.a.shop.test'], rules: [{}]", rule("{ value: / }", "b")),
            ),
            route(
                "paths",
                &format!(
                    "hostnames: [b.shop.test], rules: [{}, {}, {}]",
                    rule("{ value: /api/ }", "a"),
                    rule("{ type: Exact, value: /api }", "b"),
                    rule("{ value: /api/v2 }", "c")
                ),
            ),
            service("a", ""),
            service("b", ""),
            service("c", ""),
        ],
        &[],
    );
    assert_eq!(made.said, "");
    assert_eq!(
        made.routes(),
        [
            // The listener for *.shop.test, whose last route keeps its requests from the other one.
            "a.shop.test /* b",
            "b.shop.test /api b",
            "b.shop.test /api/v2/* c",
            "b.shop.test /api/* a",
            "*.a.shop.test /* b",
            "*.shop.test /api/* a",
            "*.shop.test /* b",
            "*.shop.test /* not_found",
            "a.shop.test /* b",
            "b.shop.test /api b",
            "b.shop.test /api/v2/* c",
            "b.shop.test /api/* a",
            "*.a.shop.test /* b",
            "*.test /* b",
            "any /api/* a",
        ]
    );
    let prefix = &made.config["routes"][2]["match"];
    assert_eq!((&prefix["path"], &prefix["path_prefix"]), (&json!(["/api/v2"]), &json!(["/api/v2/"])));
}

#[test]
fn a_field_that_cannot_be_expressed_is_named_and_its_route_serves_nothing() {
    let backend = "backendRefs: [{ name: a, port: 80 }]";
    for (rules, field) in [
        (
            format!("{{ {backend}, matches: [{{ headers: [{{ name: x, value: v }}] }}] }}"),
            "spec.rules[0].matches[0].headers: not supported",
        ),
        (format!("{{ {backend} }}, {{ {backend}, matches: [{{ method: GET }}] }}"), "spec.rules[1].matches[0].method"),
        (
            format!("{{ {backend}, matches: [{{ queryParams: [{{ name: x, value: v }}] }}] }}"),
            "spec.rules[0].matches[0].queryParams",
        ),
        (
            format!("{{ {backend}, matches: [{{ path: {{ type: RegularExpression, value: /a }} }}] }}"),
            "matches.path.type RegularExpression",
        ),
        (
            format!("{{ {backend}, matches: [{{ path: {{ value: '/a?b' }} }}] }}"),
            "spec.rules[0]: routes[0].match.path: ",
        ),
        (format!("{{ {backend}, timeouts: {{ request: 1s }} }}"), "spec.rules[0].timeouts"),
        (format!("{{ {backend}, retry: {{ attempts: 1 }} }}"), "spec.rules[0].retry"),
        (
            format!("{{ {backend}, filters: [{{ type: RequestRedirect, requestRedirect: {{ port: 1 }} }}] }}"),
            "spec.rules[0].filters[0].requestRedirect",
        ),
        (format!("{{ {backend}, filters: [{{ type: RequestMirror }}] }}"), "filters.type RequestMirror"),
        (
            format!(
                "{{ {backend}, filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ add: [{{ name: x, value: v }}] }} }}] }}"
            ),
            "spec.rules[0].filters[0].requestHeaderModifier.add",
        ),
        (
            format!(
                "{{ {backend}, filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{{ name: Host, value: v }}] }} }}] }}"
            ),
            "request_headers.set.Host",
        ),
        (
            // A variable of the environment, which may be a secret.
            format!(
                "{{ {backend}, filters: [{{ type: ResponseHeaderModifier, responseHeaderModifier: {{ set: [{{ name: x, value: '${{PATH}}' }}] }} }}] }}"
            ),
            "spec.rules[0]: filters: the value of x",
        ),
        (
            "{ backendRefs: [{ name: a, port: 80, weight: 9 }, { name: b, port: 80 }] }".into(),
            "weights other than 0 must be equal",
        ),
        ("{ backendRefs: [{ name: a, port: 80 }, { name: a, port: 80 }] }".into(), "stands twice"),
        (
            "{ backendRefs: [{ name: a, port: 80, filters: [{ type: RequestMirror }] }] }".into(),
            "spec.rules[0].backendRefs[0].filters",
        ),
    ] {
        let shop = route("shop", &format!("rules: [{rules}]"));
        let other = route("other", &format!("hostnames: [other.test], rules: [{}]", rule("{ value: / }", "b")));
        let made = render(&[gateway(PUBLIC), shop, other, service("a", ""), service("b", "")], &[]);
        let (reason, message) = made.condition("HTTPRoute", "shop", "Accepted");
        assert!(reason == "UnsupportedValue" && message.contains(field), "{field}: {reason}: {message}");
        assert!(made.said.contains(field) && made.said.contains("HTTPRoute default/shop"), "{}", made.said);
        assert_eq!(made.condition("HTTPRoute", "other", "Accepted").0, "Accepted");
        assert_eq!(made.routes(), ["other.test /* b"], "{field}");
    }
}

#[test]
fn a_listener_that_cannot_be_served_says_why() {
    let listener = |more: &str| gateway(&format!("[{{ name: a, port: 80, protocol: HTTP, {more} }}]"));
    let https = |more: &str| gateway(&format!("[{{ name: a, port: 443, protocol: HTTPS, {more} }}]"));
    let secret = "tls: { certificateRefs: [{ name: cert }] }";
    for (gateway, condition, reason) in [
        (gateway("[{ name: a, port: 80, protocol: TCP }]"), "Accepted", "UnsupportedProtocol"),
        (
            gateway("[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 80, protocol: HTTPS }]"),
            "Accepted",
            "ProtocolConflict",
        ),
        (
            gateway("[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 80, protocol: HTTP }]"),
            "Conflicted",
            "HostnameConflict",
        ),
        (listener("future: 1"), "Accepted", "UnsupportedValue"),
        (listener("hostname: 'a b'"), "Accepted", "UnsupportedValue"),
        (listener("allowedRoutes: { kinds: [{ kind: GRPCRoute }] }"), "ResolvedRefs", "InvalidRouteKinds"),
        (https("tls: { mode: Passthrough }"), "Accepted", "UnsupportedValue"),
        (https("tls: {}"), "ResolvedRefs", "InvalidCertificateRef"),
        (https(secret), "ResolvedRefs", "InvalidCertificateRef"),
        (https("tls: { certificateRefs: [{ name: cert, namespace: other }] }"), "ResolvedRefs", "RefNotPermitted"),
        (https("tls: { certificateRefs: [{ name: '../../etc' }] }"), "ResolvedRefs", "InvalidCertificateRef"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let made = render(&[gateway], &["--mounts", folder.path().to_str().unwrap()]);
        let (found, message) = made.listener(0, condition);
        assert_eq!(found, reason, "{message}");
        assert_eq!(made.listener(0, "Programmed").0, "Invalid");
        assert_eq!(made.condition("Gateway", "public", "Programmed").0, "Invalid");
        assert_eq!(made.config["listeners"], json!([{"name": "none", "address": "127.0.0.1:0"}]));
    }
}

#[test]
fn a_certificate_is_read_from_where_its_secret_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("default/cert");
    std::fs::create_dir_all(mount.parent().unwrap()).unwrap();
    assert!(run(&["certs", mount.to_str().unwrap()]).status.success());
    for (from, to) in [("server.cert.pem", "tls.crt"), ("server.key.pem", "tls.key")] {
        std::fs::rename(mount.join(from), mount.join(to)).unwrap();
    }
    let tls = "tls: { certificateRefs: [{ name: cert }] }";
    let listeners = format!(
        "[{{ name: a, port: 443, protocol: HTTPS, {tls} }}, {{ name: b, port: 443, protocol: HTTPS, hostname: b.test, {tls} }}]"
    );
    let mounts = folder.path().to_str().unwrap();
    let made = render(&[gateway(&listeners)], &["--mounts", mounts, "--port", "443=8443", "--bind", "127.0.0.1"]);
    assert_eq!((made.said.as_str(), made.listener(1, "Programmed").0.as_str()), ("", "Programmed"));
    let tls = json!({"cert": mount.join("tls.crt"), "key": mount.join("tls.key")});
    assert_eq!(
        made.config["listeners"],
        json!([{"name": "default/public:443", "address": "127.0.0.1:8443", "tls": tls}])
    );
}

#[test]
fn references_to_other_namespaces_need_a_grant() {
    let rules = "rules: [{ backendRefs: [{ name: a, namespace: default, port: 80 }] }]";
    let grant = |kind: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{ name: g }}\n\
             spec: {{ from: [{{ group: gateway.networking.k8s.io, kind: {kind}, namespace: team }}], to: [{{ group: '', kind: Service }}] }}\n"
        )
    };
    let all = gateway("[{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }]");
    let made = |grants: String| render(&[all.clone(), route("team/shop", rules), service("a", ""), grants], &[]);
    let without = made(grant("GRPCRoute"));
    assert_eq!(without.condition("HTTPRoute", "shop", "ResolvedRefs").0, "RefNotPermitted");
    assert_eq!(without.routes(), ["any /* unavailable"]);
    assert_eq!(made(grant("HTTPRoute")).routes(), ["any /* a"]);
    let same = render(&[gateway(PUBLIC), route("team/shop", rules), service("a", "")], &[]);
    assert_eq!(same.condition("HTTPRoute", "shop", "Accepted").0, "NotAllowedByListeners");
}

#[test]
fn bad_manifests_and_bad_bases_write_nothing_and_say_what_to_change() {
    let whole = CLASS.to_owned() + &gateway(PUBLIC);
    let off = policy("p", "kind: Gateway, name: public", "sealed: off");
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.yaml");
    let base = base.to_str().unwrap();
    let with_base = |text: &str| {
        std::fs::write(base, text).unwrap();
        fails(&whole, &["--base", base])
    };
    for (said, wants) in [
        (fails(&gateway(PUBLIC), &[]), &["spec.controllerName: sealway.dev/gateway"][..]),
        (fails(&whole, &["--gateway", "default/other"]), &["default/other"]),
        (
            fails(&(whole.clone() + &off), &[]),
            &["all.yaml, object at line 12", "SealPolicy p: spec.sealed", "in quotes"],
        ),
        (fails(&whole, &["--port", "80"]), &["80=8080"]),
        (with_base("routes: [{ match: {}, sessions: {} }]"), &["routes[0].match.listener"]),
        (with_base("limits: { connections_max: 0 }"), &["limits.connections_max"]),
        (with_base("[1]"), &["base.yaml: expected settings by name"]),
        (with_base("sessions: x"), &["sessions: expected"]),
        (with_base("routes: {}"), &["routes: expected"]),
    ] {
        for want in wants {
            assert!(said.contains(want), "{want} is not in: {said}");
        }
    }
}

/// Starts a gateway with the sample, whose Services are `payments` and `pages` here.
fn shop(change: impl Fn(String) -> String, payments: &Upstream, pages: &Upstream) -> Server {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/gateway-api/shop.yaml");
    let mut sample = std::fs::read_to_string(sample).unwrap();
    for (name, upstream) in [("payments", payments), ("pages", pages)] {
        let port = upstream.address.port();
        sample =
            sample.replace(&format!("{{ name: {name}, port: 8080 }}"), &format!("{{ name: {name}, port: {port} }}"));
        let spec = format!("  selector: {{ app: {name} }}\n  ports: [{{ port: 8080 }}]");
        assert!(sample.contains(&spec));
        sample = sample.replace(&spec, &format!("  clusterIP: 127.0.0.1\n  ports: [{{ port: {port} }}]"));
    }
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base.yaml");
    std::fs::write(&base, "sessions: { identity: { allow_generated: true } }").unwrap();
    let sample = change(sample).replace(CLASS.trim_start(), "");
    let args = ["--base", base.to_str().unwrap(), "--bind", "127.0.0.1", "--port", "80=0"];
    let config = render(&[format!("---\n{sample}")], &args).config;
    let sections = config.as_object().unwrap().iter().map(|(name, section)| format!("{name}: {section}\n"));
    Launch::new(BINARY, &sections.collect::<String>()).start().unwrap()
}

fn get(server: &Server, path: &str) -> Answer {
    Request::get(path).set("Host", "shop.example").send(server.address()).unwrap()
}

#[test]
fn the_sample_seals_payments_and_lets_pages_pass() {
    let upstream =
        |name: &'static str| Upstream::answering(move |_, _| answer("200 OK", &[], name.as_bytes())).unwrap();
    let (payments, pages) = (upstream("payments"), upstream("pages"));
    let server = shop(|sample| sample.replace("hostname: shop.example", "hostname: localhost"), &payments, &pages);
    let url = |path: &str| format!("http://localhost:{}{path}", server.address().port());
    let call = run(&["call", "POST", &url("/transaction/purchase"), "-d", "{}"]);
    assert!(call.status.success() && text(&call.stdout).contains("payments"), "{}", text(&call.stderr));
    payments.next().unwrap();
    let plain = |path: &str| Request::get(path).set("Host", "localhost").send(server.address()).unwrap();
    assert_eq!(plain("/").text(), "pages");
    for path in ["/transaction/purchase", "/transaction", "/%74ransaction/x", "//transaction/x", "/TRANSACTION/x"] {
        assert_eq!(plain(path).status / 100, 4, "{path}");
    }
    assert_eq!(get(&server, "/").status, 404, "another host");
    pages.next().unwrap();
    assert!(payments.is_untouched() && pages.is_untouched());
}

#[test]
fn a_route_that_must_be_sealed_and_is_refused_does_not_fall_to_a_plain_one() {
    let upstream = || Upstream::answering(|_, _| answer("200 OK", &[], b"plain")).unwrap();
    let (payments, pages) = (upstream(), upstream());
    let pages_apart = |sample: String| {
        let with_timeout = sample.replace(
            "    - backendRefs: [{ name: pages",
            "      timeouts: { request: 1s }\n    - backendRefs: [{ name: payments",
        );
        assert_ne!(with_timeout, sample);
        let rules = format!("rules: [{{ backendRefs: [{{ name: pages, port: {} }}] }}]", pages.address.port());
        let other = route("pages", &rules).replace("default", "shop");
        with_timeout + &other
    };
    let server = shop(pages_apart, &payments, &pages);
    assert_eq!(get(&server, "/").text(), "plain");
    pages.next().unwrap();
    for (path, status) in
        [("/transaction/x", 500), ("/transaction", 500), ("/%74ransaction/x", 400), ("//transaction", 400)]
    {
        assert_eq!(get(&server, path).status, status, "{path}");
    }
    assert!(payments.is_untouched() && pages.is_untouched());
}
