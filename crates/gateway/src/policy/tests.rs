//! Tests of changes to headers, and of trusted proxies.

use super::*;

fn parts(fields: &[(&'static str, &'static str)], peer: &str) -> Parts {
    let mut request = http::Request::builder().uri("/x").body(()).unwrap();
    let peer = Peer::Ip(peer.parse().unwrap());
    let origin = Origin { listener: "a".into(), peer, client: peer.ip(), is_tls: true, certificate: None };
    request.extensions_mut().insert(origin);
    for (name, value) in fields {
        request.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    request.into_parts().0
}

#[test]
fn forwarding_headers_of_an_untrusted_peer_are_replaced() {
    let spoofed = [
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-proto", "gopher"),
        ("forwarded", "for=1.2.3.4"),
        ("via", "1.1 evil"),
        ("traceparent", "00-evil"),
        ("tracestate", "evil=1"),
        ("host", "shop.example"),
        ("x-client-cert", ":evil:"),
        ("client-cert", ":evil:"),
        ("x_client_cert", ":evil:"),
        ("x-client_cert", ":evil:"),
        ("x_forwarded_for", "evil"),
        ("x-real-ip", "evil"),
        ("x-forwarded-port", "evil"),
        ("x-sealway-subject", "evil"),
        ("x_sealway_tenant", "evil"),
        ("x-sealway_client-id", "evil"),
        ("x-sealway-auth", "evil"),
        ("x-sealway-later", "evil"),
    ];
    let mut parts = parts(&spoofed, "[::ffff:127.0.0.1]:9");
    HeaderPolicy::default().to_upstream(&mut parts, false);
    let headers = &parts.headers;
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(headers["x-forwarded-host"], "shop.example");
    assert_eq!(headers["x-forwarded-proto"], "https");
    assert_eq!(headers["forwarded"], "for=127.0.0.1;host=\"shop.example\";proto=https");
    assert_eq!(headers["via"], "1.1 sealway");
    assert_eq!(headers["traceparent"].len(), 55);
    assert!(!headers.values().any(|value| value.to_str().unwrap().contains("evil")), "{headers:?}");
    assert!(parts.extensions.get::<PreservedHost>().is_none());
}

#[test]
fn route_header_rules_apply_to_all_spellings_and_identity_headers_are_always_removed() {
    let spoofed = [("X_Customer_Id", "evil"), ("x_internal", "evil"), ("x-client-cert", "evil"), ("x_name", "evil")];
    let mut parts = parts(&[], "127.0.0.1:9");
    for (name, value) in spoofed {
        parts.headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value));
    }
    let request = HeaderRules {
        set: vec![(HeaderName::from_static("x-customer-id"), HeaderValue::from_static("7"))],
        remove: vec![HeaderName::from_static("x-internal")],
    };
    let identity = vec![(HeaderName::from_static("x-name"), CertificateField::CommonName)];
    let policy = HeaderPolicy { request, identity, ..HeaderPolicy::default() };
    policy.to_upstream(&mut parts, false);
    assert_eq!(parts.headers["x-customer-id"], "7");
    assert!(!parts.headers.values().any(|value| value == "evil"), "{:?}", parts.headers);
    let barred = policy.barred_trailers();
    assert!(
        ["x-customer-id", "x-internal", "x-name", "x-client-cert"]
            .iter()
            .all(|name| barred.contains(&HeaderName::from_static(name)))
    );
}

#[test]
fn forwarding_headers_of_a_trusted_proxy_are_kept_and_extended() {
    let said = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-proto", "http"), ("via", "2 edge"), ("host", "h")];
    let mut parts = parts(&said, "[2001:db8::1]:9");
    parts.version = Version::HTTP_2;
    HeaderPolicy { preserve_host: true, ..HeaderPolicy::default() }.to_upstream(&mut parts, true);
    assert_eq!(parts.headers["x-forwarded-for"], "1.2.3.4, 2001:db8::1");
    assert_eq!(parts.headers["x-forwarded-proto"], "http");
    assert_eq!(parts.headers["forwarded"], "for=\"[2001:db8::1]\";host=\"h\";proto=https");
    assert_eq!(parts.headers["via"], "2 edge, 2 sealway");
    assert_eq!(parts.headers["host"], "h");
    assert!(parts.extensions.get::<PreservedHost>().is_some());
}

#[test]
fn an_address_is_written_as_the_library_writes_it() {
    let of_octets = (0..=255).map(|octet| IpAddr::from([octet, 0, 255 - octet, 10]));
    for address in of_octets.chain(["2001:db8::1".parse().unwrap()]) {
        let mut text = String::new();
        push_address(&mut text, address);
        assert_eq!(text, address.to_string());
    }
}

#[test]
fn a_client_is_the_last_address_that_no_trusted_proxy_has() {
    let trusted = TrustedProxies { networks: vec!["10.0.0.0/8".parse().unwrap()], unix: false };
    let cases = [
        ("10.0.0.1:1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1:1", "6.6.6.6, 1.2.3.4, 10.2.2.2", "1.2.3.4"),
        ("10.0.0.1:1", "garbage, 10.2.2.2", "10.2.2.2"),
        ("10.0.0.1:1", "10.3.3.3", "10.3.3.3"),
        ("192.0.2.1:1", "1.2.3.4", "192.0.2.1"),
    ];
    for (peer, said, client) in cases {
        let parts = parts(&[("x-forwarded-for", said)], peer);
        let peer = Peer::Ip(peer.parse().unwrap());
        assert_eq!(trusted.client(&peer, &parts.headers), Some(client.parse().unwrap()), "{said}");
    }
}

#[test]
fn an_answer_loses_the_headers_of_the_hop_and_gets_those_of_the_route() {
    let set = vec![(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"))];
    let response = HeaderRules { set, remove: vec![HeaderName::from_static("server")] };
    let policy = HeaderPolicy { response, ..HeaderPolicy::default() };
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("server", "s"),
        ("x_frame_options", "ALLOW"),
        ("x-frame-options", "ALLOW"),
        ("etag", "e"),
    ] {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    policy.to_client(&mut headers);
    assert_eq!(headers.len(), 2, "{headers:?}");
    assert!(headers["x-frame-options"] == "DENY" && headers["etag"] == "e");
}

#[test]
fn a_route_without_forwarding_adds_no_origin_and_removes_a_forged_one() {
    let mut parts = parts(&[("x-forwarded-for", "1.2.3.4"), ("via", "1.1 evil"), ("accept", "a")], "127.0.0.1:9");
    HeaderPolicy { forwarded: false, ..HeaderPolicy::default() }.to_upstream(&mut parts, false);
    assert_eq!(parts.headers.len(), 1, "{:?}", parts.headers);
}

#[test]
fn each_version_of_http_has_its_name_in_via() {
    for (version, via) in [(Version::HTTP_10, "1.0 sealway"), (Version::HTTP_11, "1.1 sealway")] {
        let mut parts = parts(&[], "127.0.0.1:9");
        parts.version = version;
        HeaderPolicy::default().to_upstream(&mut parts, false);
        assert_eq!(parts.headers["via"], via);
    }
}

#[test]
fn peers_of_a_unix_socket_are_trusted_only_if_the_configuration_says_so() {
    let headers = parts(&[("x-forwarded-for", "1.2.3.4")], "127.0.0.1:9").headers;
    for unix in [false, true] {
        let trusted = TrustedProxies { networks: vec!["10.0.0.0/8".parse().unwrap()], unix };
        assert_eq!(trusted.trusts(&Peer::Unix), unix);
        assert_eq!(trusted.client(&Peer::Unix, &headers), unix.then(|| "1.2.3.4".parse().unwrap()));
        assert!(trusted.trusts(&Peer::Ip("10.1.1.1:1".parse().unwrap())));
    }
}

#[test]
fn a_route_may_only_set_or_only_remove_headers() {
    let [x, y] = ["x-a", "x-b"].map(HeaderName::from_static);
    let rules = |set: &[&HeaderName], remove: &[&HeaderName]| {
        let set = set.iter().map(|name| ((*name).clone(), HeaderValue::from_static("new"))).collect();
        let rules = HeaderRules { set, remove: remove.iter().map(|name| (*name).clone()).collect() };
        let mut headers: HeaderMap = [(x.clone(), HeaderValue::from_static("old"))].into_iter().collect();
        rules.apply(&mut headers);
        [&x, &y].map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
    };
    assert_eq!(rules(&[&y], &[]), [Some("old".into()), Some("new".into())]);
    assert_eq!(rules(&[], &[&x]), [None, None]);
    assert_eq!(rules(&[&x], &[&x]), [Some("new".into()), None]);
    assert_eq!(rules(&[], &[]), [Some("old".into()), None]);
}

#[test]
fn a_field_of_a_certificate_is_one_header_value_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let made = sealway_testkit::certificates::Certificates::make(folder.path(), "DNS:localhost", "app-7").unwrap();
    let pem = std::fs::read_to_string(&made.client.0).unwrap();
    let text: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let mut shown = PeerCertificate::parse(vec![STANDARD.decode(&text).unwrap().into()]).unwrap();
    let value =
        |shown: &PeerCertificate, field| field_header(field, shown).map(|value| value.to_str().unwrap().to_owned());
    // RFC 9440: byte sequences of structured fields; the chain is without the certificate itself.
    assert_eq!(value(&shown, CertificateField::Certificate), Some(format!(":{text}:")));
    assert_eq!(value(&shown, CertificateField::Chain), None);
    for der in [[1, 2, 3], [4, 5, 6]] {
        shown.chain.push(der.to_vec().into());
    }
    assert_eq!(value(&shown, CertificateField::Certificate), Some(format!(":{text}:")));
    assert_eq!(value(&shown, CertificateField::Chain).as_deref(), Some(":AQID:, :BAUG:"));
    // A name with a comma would look like two names; a subject is one text.
    let names = || ["a.example", "b.example,admin.example", "c.example"].map(str::to_owned).to_vec();
    (shown.dns, shown.uris) = (names(), names()[1..2].to_vec());
    assert_eq!(value(&shown, CertificateField::Dns).as_deref(), Some("a.example,c.example"));
    assert_eq!(value(&shown, CertificateField::Uri), None);
    shown.subject = "CN=app-7,O=Shop".into();
    assert_eq!(value(&shown, CertificateField::Subject).as_deref(), Some("CN=app-7,O=Shop"));
    assert_eq!(value(&shown, CertificateField::CommonName).as_deref(), Some("app-7"));
    for unusable in [None, Some(String::new()), Some("a\r\nx-admin: 1".to_owned())] {
        shown.common_name = unusable;
        assert_eq!(value(&shown, CertificateField::CommonName), None);
    }
}
