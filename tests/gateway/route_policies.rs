//! The policies of a route: the client's identity and address, rules for headers, hosts, delays; and sealed calls over TLS, whose
//! certificate may have to name the client id.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sealway_proto::wire::Wire;
use sealway_runtime::clock::SystemClock;
use sealway_runtime::tls::{Client, ClientFiles};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::BINARY;

struct Setup {
    server: Server,
    upstream: Upstream,
    certificates: tempfile::TempDir,
}

/// Returns the request that reached the service as JSON: headers under their names, in order.
fn mirror(received: &RequestHead, _: &[u8]) -> Vec<u8> {
    let headers: Vec<_> = received.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let text = serde_json::to_vec(&headers).unwrap_or_default();
    answer("200 OK", &[("X-Internal", "1"), ("X-Kept", "1")], &text)
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let certificates = tempfile::tempdir().unwrap();
        let made = Command::new(BINARY).arg("certs").arg(certificates.path()).arg("--force").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let upstream = Upstream::answering(mirror).unwrap();
        let folder = certificates.path().display();
        let config = format!(
            "
listeners:
  - {{ name: plain, address: '127.0.0.1:0', trusted_proxies: [127.0.0.9/32] }}
  - name: mtls
    address: '127.0.0.1:0'
    tls: {{ cert: '{folder}/server.pfx', password_file: pw, client_ca: ['{folder}/ca.cert.pem'], client_auth: optional }}
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop, client_id_from: common_name }}
  - match: {{ host: ['*.rules.example'] }}
    upstream: service
    preserve_host: true
    request_headers: {{ set: {{ X-Customer-Id: '${{CUSTOMER}}', X-Fixed: 'a b' }}, remove: [X-Secret] }}
    response_headers: {{ set: {{ X-Added: '1' }}, remove: [X-Internal] }}
  - {{ match: {{ path_prefix: /whose/ }}, sealed: optional, upstream: service }}
  - {{ match: {{ path: /late }}, standalone: ok, delay_ms: 300 }}
  - match: {{ path_prefix: /fields/ }}
    upstream: service
    client_identity: {{ X-Subject: subject, X-Name: common_name, X-Hash: sha256 }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, service: {{ servers: ['http://{}'] }} }}
",
            upstream.address
        );
        let own = tempfile::tempdir().unwrap().keep();
        std::fs::write(own.join("pw"), "changeit\n").unwrap();
        let server = Launch::new(BINARY, &config).folder(&own).env("CUSTOMER", "plant-7").start().unwrap();
        Setup { server, upstream, certificates }
    })
}

/// An address without TLS from which every connection continues over TLS, with a client certificate or without.
fn bridge(to: SocketAddr, folder: &Path, shows_certificate: bool) -> SocketAddr {
    let path = |name: &str| folder.join(name);
    let files = ClientFiles {
        ca: Some(path("ca.cert.pem")),
        cert: shows_certificate.then(|| path("client.cert.pem")),
        key: shows_certificate.then(|| path("client.key.pem")),
        ..ClientFiles::default()
    };
    let connector = TlsConnector::from(Client::load(files, Arc::new(SystemClock)).unwrap().config(false));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (mut plain, _) = listener.accept().await.unwrap();
                let connector = connector.clone();
                tokio::spawn(async move {
                    let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
                    let name = ServerName::try_from("localhost").unwrap();
                    let mut tls = connector.connect(name, tcp).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut plain, &mut tls).await;
                });
            }
        });
    });
    address
}

/// Returns the headers that the service received under a name.
fn seen(request: Request, to: SocketAddr, name: &str) -> Vec<String> {
    let headers = request.send(to).unwrap().json();
    let headers = headers.as_array().unwrap().iter();
    headers.filter(|pair| pair[0] == name).map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

fn pem_base64(path: PathBuf) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.starts_with('-')).collect()
}

#[test]
fn the_service_gets_the_verified_certificate_and_never_a_clients_header() {
    let Setup { server, certificates, .. } = setup();
    let mtls = bridge(server.addresses[1], certificates.path(), true);
    let anonymous = bridge(server.addresses[1], certificates.path(), false);
    let spoofed = |path: &str| {
        ["X-Client-Cert", "Client-Cert", "Client-Cert-Chain", "X-Subject", "X-Name"]
            .iter()
            .fold(Request::get(path), |request, name| request.header(name, ":c3Bvb2Y=:"))
    };
    // RFC 9440 section 2.1: a byte sequence.
    let own = format!(":{}:", pem_base64(certificates.path().join("client.cert.pem")));
    assert_eq!(seen(spoofed("/x"), mtls, "x-client-cert"), [own]);
    for (to, name) in [
        (mtls, "client-cert"),
        (mtls, "client-cert-chain"),
        (anonymous, "x-client-cert"),
        (server.addresses[0], "x-client-cert"),
        (server.addresses[0], "client-cert"),
    ] {
        assert!(seen(spoofed("/x"), to, name).is_empty(), "{name} by {to}");
    }
    assert_eq!(seen(spoofed("/fields/x"), mtls, "x-subject"), ["CN=sealway-client"]);
    assert_eq!(seen(spoofed("/fields/x"), mtls, "x-name"), ["sealway-client"]);
    assert_eq!(seen(spoofed("/fields/x"), mtls, "x-hash")[0].len(), 64);
    assert!(seen(spoofed("/fields/x"), server.addresses[0], "x-subject").is_empty());
}

#[test]
fn the_service_gets_the_address_of_the_client() {
    let Setup { server, certificates, .. } = setup();
    let plain = server.addresses[0];
    let tls = bridge(server.addresses[1], certificates.path(), false);
    let request = || Request::get("/x").header("X-Forwarded-For", "6.6.6.6").set("Host", "shop.example");
    assert_eq!(seen(request(), plain, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen(request(), plain, "x-forwarded-proto"), ["http"]);
    assert_eq!(seen(request(), tls, "x-forwarded-proto"), ["https"]);
    assert_eq!(seen(request(), tls, "forwarded"), ["for=127.0.0.1;host=\"shop.example\";proto=https"]);
    assert_eq!(seen(request(), plain, "via"), ["1.1 sealway"]);
    let traces: Vec<_> = (0..2).flat_map(|_| seen(request(), plain, "traceparent")).collect();
    assert_eq!((traces.len(), traces[0].len()), (2, 55));
    assert_ne!(traces[0], traces[1]);
}

#[test]
fn a_trusted_proxys_forwarding_list_is_extended() {
    let plain = setup().server.addresses[0];
    // All of 127/8 is this machine, so the proxy's own address is one of it.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
    socket.connect(&plain.into()).unwrap();
    let mut connection = sealway_testkit::raw_http::Connection::over(socket.into()).unwrap();
    let request = Request::get("/x").header("X-Forwarded-For", "192.0.2.1").header("X-Forwarded-Proto", "https");
    connection.write(&request.bytes()).unwrap();
    let headers = connection.read_answer("GET").unwrap().json().to_string();
    assert!(headers.contains(r#"["x-forwarded-for","192.0.2.1, 127.0.0.9"]"#), "{headers}");
    assert!(headers.contains(r#"["x-forwarded-proto","https"]"#), "{headers}");
}

#[test]
fn rules_are_applied_by_host_both_ways() {
    let plain = setup().server.addresses[0];
    let request = || {
        let request = Request::get("/x").set("Host", "A.rules.example:8080");
        request.header("X-Secret", "1").header("X-Customer-Id", "spoofed").header("X-Other", "1")
    };
    assert_eq!(seen(request(), plain, "x-customer-id"), ["plant-7"]);
    assert_eq!(seen(request(), plain, "x-fixed"), ["a b"]);
    assert_eq!(seen(request(), plain, "host"), ["A.rules.example:8080"]);
    assert_eq!(seen(request(), plain, "x-other"), ["1"]);
    assert!(seen(request(), plain, "x-secret").is_empty());
    let answer = request().send(plain).unwrap();
    assert_eq!((answer.header("x-internal"), answer.header("x-added")), (None, Some("1")));
    let other = Request::get("/x").set("Host", "rules.example").header("X-Secret", "1");
    assert_eq!(seen(other.clone(), plain, "x-secret"), ["1"]);
    assert_eq!(seen(other, plain, "host"), [setup().upstream.address.to_string()]);
}

#[test]
fn headers_arrive_in_the_order_they_were_sent_in() {
    let request = Request::get("/x")
        .header("X-B", "1")
        .header("Connection", "close, X-Hop")
        .header("X-A", "1")
        .header("X-Hop", "1")
        .header("X-C", "1")
        .header("X-A", "2");
    let headers = request.send(setup().server.addresses[0]).unwrap().json();
    let names: Vec<_> = headers.as_array().unwrap().iter().map(|pair| pair[0].as_str().unwrap()).collect();
    let own: Vec<_> = names.into_iter().filter(|name| ["x-a", "x-b", "x-c", "x-hop"].contains(name)).collect();
    // Two headers of one name are joined at the place of the first: RFC 9110 section 5.3.
    assert_eq!(own, ["x-b", "x-a", "x-a", "x-c"]);
}

#[test]
fn a_delay_goes_by_before_anything_else() {
    let begun = Instant::now();
    let answer = Request::get("/late").send(setup().server.addresses[0]).unwrap();
    assert_eq!((answer.status, begun.elapsed() >= Duration::from_millis(300)), (200, true));
}

#[test]
fn a_sealed_call_over_tls_has_the_client_id_of_its_certificate_or_no_certificate() {
    let Setup { server, certificates, .. } = setup();
    let anonymous = bridge(server.addresses[1], certificates.path(), false);
    let mtls = bridge(server.addresses[1], certificates.path(), true);
    for wire in [Wire::V1, Wire::V2] {
        for to in [server.addresses[0], anonymous] {
            let (answer, _) = WireSession::open(to, wire, "/session/init").unwrap().call(PURCHASE, ORDER).unwrap();
            assert_eq!(answer.status, 200, "{wire:?} by {to}");
        }
        let agreed = WireSession::open(mtls, wire, "/session/init").unwrap();
        let refused = agreed.seal(PURCHASE, ORDER).0.send(mtls).unwrap();
        refused.assert_error(CLIENT_ID, 403, "SESSION_FORBIDDEN");
        let own = WireSession::open_as(mtls, wire, "/session/init", "sealway-client", None).unwrap();
        let answer = own.seal(PURCHASE, ORDER).0.set("X-ClientId", "sealway-client").send(mtls).unwrap();
        // A session of wire 1 has no client id, whatever a header says.
        assert_eq!(answer.status, if wire == Wire::V2 { 200 } else { 403 }, "{wire:?}: {}", answer.text());
    }
}

#[test]
fn the_service_gets_the_verified_identity_and_no_clients_header() {
    let Setup { server, .. } = setup();
    let to = server.addresses[0];
    let spoofed = ["X-Sealway-Subject", "X_Sealway_Tenant", "X-Sealway-Client-Id", "x-sealway_auth", "X-Sealway-Other"];
    let spoof = |request: Request| spoofed.iter().fold(request, |request, name| request.set(name, "evil"));
    let ours = |headers: &serde_json::Value| -> Vec<(String, String)> {
        let pairs = headers.as_array().unwrap().iter();
        let pairs = pairs.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()));
        pairs.filter(|(name, value)| name.replace('_', "-").starts_with("x-sealway") || value == "evil").collect()
    };
    for (wire, client_id) in [(Wire::V2, Some(CLIENT_ID)), (Wire::V1, None)] {
        let agreed = WireSession::open(to, wire, "/session/init").unwrap();
        let (request, pending) = agreed.seal("/whose/call", ORDER);
        let answer = spoof(request).send(to).unwrap();
        let plaintext = sealway_testkit::wire_client::open(&pending, &answer).unwrap();
        let mut want: Vec<_> =
            client_id.map(|id| ("x-sealway-client-id".to_owned(), id.to_owned())).into_iter().collect();
        want.push(("x-sealway-auth".to_owned(), "none".to_owned()));
        assert_eq!(ours(&serde_json::from_slice(&plaintext).unwrap()), want);
    }
    for path in ["/whose/plain", "/elsewhere"] {
        let answer = spoof(Request::new("GET", path)).send(to).unwrap();
        assert_eq!(ours(&answer.json()), [], "{path}");
    }
}
