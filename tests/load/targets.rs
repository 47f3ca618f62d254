//! `sealway load` against servers of other projects, which count too: TLS and its resumption, HTTP/2, and each failure by name.

use std::collections::HashSet;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use sealway_load::plan::{Protocol, Resumption, Text, Tls, TlsVersion};
use sealway_load::record::{Class, Phase};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::process::Launch;

use crate::BINARY;
use crate::ground::{Nginx, certificates, fault, plan, run, run_well, s_server, tls, workers};

fn connections(seen: &[Vec<String>]) -> u64 {
    seen.iter().map(|words| &words[0]).collect::<HashSet<_>>().len() as u64
}

fn resumed(seen: &[Vec<String>]) -> u64 {
    seen.iter().filter(|words| words[1] == "r").count() as u64
}

#[test]
fn connections_and_handshakes_are_those_that_the_server_counted() {
    let (folder, certificates) = certificates();
    let nginx = Nginx::with_tls(folder.path(), &certificates, "", "");
    let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 300);
    workers(&mut plan, 5);
    let outcome = run_well(plan);
    let (sum, seen) = (&outcome.totals.sum, nginx.seen(300));
    assert_eq!((sum.counts.succeeded, seen.len()), (300, 300));
    assert_eq!((sum.counts.connections_opened, connections(&seen)), (5, 5));
    assert_eq!((sum.counts.handshakes_full, sum.counts.handshakes_resumed), (5, 0));
    assert_eq!((sum.times(Phase::Tls).len(), sum.times(Phase::Connect).len()), (5, 5));
}

/// TLS 1.3 tickets arrive after the handshake: a client that closes too early never gets one, and silently resumes nothing.
#[test]
fn sessions_are_resumed_when_they_are_to_be_and_both_sides_count_the_same() {
    let (folder, certificates) = certificates();
    for version in ["TLSv1.2", "TLSv1.3"] {
        for (resumption, least) in [(Resumption::Off, 0), (Resumption::On, 80), (Resumption::Both, 80)] {
            let nginx = Nginx::with_tls(folder.path(), &certificates, "", &format!("ssl_protocols {version};"));
            let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 100);
            plan.connections.reuse = false;
            tls(&mut plan).resumption = resumption;
            workers(&mut plan, 3);
            let outcome = run_well(plan);
            let (sum, seen) = (&outcome.totals.sum, nginx.seen(100));
            let (full, again) = (sum.counts.handshakes_full, sum.counts.handshakes_resumed);
            assert_eq!((full + again, connections(&seen)), (100, 100), "{version} {resumption:?}");
            assert_eq!(again, resumed(&seen), "{version} {resumption:?}");
            assert!(again >= least && (least > 0 || again == 0), "{version} {resumption:?}: {again}");
            let apart = u64::from(resumption == Resumption::Both);
            let times = (sum.times(Phase::TlsFull).len(), sum.times(Phase::TlsResumed).len());
            assert_eq!(times, (apart * full, apart * again), "{version} {resumption:?}");
            assert!(seen.iter().all(|words| words[3] == version), "{seen:?}");
        }
    }
}

#[test]
fn workers_share_connections_of_http2_by_their_streams() {
    let (folder, certificates) = certificates();
    let nginx = Nginx::with_tls(folder.path(), &certificates, "http2", "");
    let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 400);
    plan.target.protocol = Protocol::Http2;
    plan.connections.streams = 4;
    workers(&mut plan, 10);
    let outcome = run_well(plan);
    let (sum, seen) = (&outcome.totals.sum, nginx.seen(400));
    assert_eq!((seen.len(), sum.counts.connections_opened, connections(&seen)), (400, 3, 3));
    assert_eq!(sum.counts.handshakes_full, 3);
    assert!(seen.iter().all(|words| words[2] == "HTTP/2.0"), "{seen:?}");
    assert!(sum.counts.bytes_received > 400 && sum.counts.bytes_sent > 400, "{:?}", sum.counts);
}

#[test]
fn http2_over_plain_tcp_is_spoken_at_once_and_goodbyes_of_the_server_cost_no_request() {
    let (folder, _) = certificates();
    let nginx = Nginx::start(folder.path(), "http2", "keepalive_requests 20;");
    let mut plan = plan(&nginx.url("http"), None, 500);
    plan.target.protocol = Protocol::Http2;
    plan.connections.streams = 3;
    workers(&mut plan, 6);
    let outcome = run_well(plan);
    let (counts, seen) = (outcome.totals.sum.counts, nginx.seen(500));
    assert_eq!((counts.succeeded, seen.len()), (500, 500));
    assert!(connections(&seen) >= 24, "{}", connections(&seen));
    assert_eq!(counts.connections_opened, connections(&seen));
}

#[test]
fn a_server_without_the_protocol_is_reported() {
    let (folder, certificates) = certificates();
    let nginx = Nginx::with_tls(folder.path(), &certificates, "", "");
    let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 2);
    plan.target.protocol = Protocol::Http2;
    let (class, words) = fault(&run(plan));
    let is_told = words.contains("does not support h2") || words.contains("`no application protocol`");
    assert!(matches!(class, Class::Tls | Class::TlsAlert) && is_told, "{class:?}: {words}");
}

#[test]
fn an_untrusted_certificate_is_reported_with_the_reason() {
    let (folder, certificates) = certificates();
    let (stranger, others) = self::certificates();
    let nginx = Nginx::with_tls(folder.path(), &certificates, "", "");
    let told = |url: &str, ca: &Path, change: &dyn Fn(&mut Tls)| {
        let mut plan = plan(url, Some(ca), 2);
        change(tls(&mut plan));
        run(plan)
    };
    let url = nginx.url("https");
    let (class, words) = fault(&told(&url, &others.ca, &|_| ()));
    assert!(class == Class::Certificate && words.ends_with("give its authority with --ca"), "{class:?}: {words}");
    let other_name = |tls: &mut Tls| tls.files.server_name = Some("other.example".into());
    let (class, words) = fault(&told(&url, &certificates.ca, &other_name));
    assert!(class == Class::Certificate && words.contains("not valid for the name other.example"), "{words}");
    for (change, ca) in [
        (
            &(|tls: &mut Tls| (tls.verify, tls.files.server_name) = (false, Some("x.example".into())))
                as &dyn Fn(&mut Tls),
            &others.ca,
        ),
        (
            &|tls: &mut Tls| (tls.verify_name, tls.files.server_name) = (false, Some("x.example".into())),
            &certificates.ca,
        ),
    ] {
        let outcome = told(&url, ca, change);
        assert_eq!((outcome.totals.sum.counts.succeeded, outcome.totals.sum.faults()), (2, Vec::new()));
    }
    let any_name = |tls: &mut Tls| tls.verify_name = false;
    assert_eq!(fault(&told(&url, &others.ca, &any_name)).0, Class::Certificate);
    // By its address: the handshake has no server name, and the certificate must contain the address.
    let by_address = format!("https://{}/", nginx.address);
    assert_eq!(told(&by_address, &certificates.ca, &|_| ()).totals.sum.counts.succeeded, 2);
    drop(stranger);
}

/// Returns a server certificate with these dates, of the authority in the same folder.
fn dated(folder: &Path, from: (i32, u8), until: (i32, u8)) -> (Certificates, std::path::PathBuf) {
    let name = |text: &str| {
        let mut name = rcgen::DistinguishedName::new();
        name.push(rcgen::DnType::CommonName, text);
        name
    };
    let mut authority = rcgen::CertificateParams::default();
    authority.distinguished_name = name("a dated authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::from_params(&authority, &authority_key);
    let mut leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    leaf.not_before = rcgen::date_time_ymd(from.0, from.1, 1);
    leaf.not_after = rcgen::date_time_ymd(until.0, until.1, 1);
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = leaf.signed_by(&key, &issuer).unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let server = (file("dated.pem", cert.pem()), file("dated.key", key.serialize_pem()));
    let ca = file("dated-ca.pem", ca.pem());
    (Certificates { ca: ca.clone(), server: server.clone(), client: server }, ca)
}

#[test]
fn a_certificate_outside_its_validity_is_reported_with_the_date() {
    let (folder, _) = certificates();
    for (from, until, expected) in
        [((2019, 1), (2020, 2), "expired on 2020-02-01"), ((2090, 3), (2091, 1), "is not valid before 2090-03-01")]
    {
        let (certificates, ca) = dated(folder.path(), from, until);
        let nginx = Nginx::with_tls(folder.path(), &certificates, "", "");
        let (class, words) = fault(&run(plan(&nginx.url("https"), Some(&ca), 2)));
        assert!(class == Class::Certificate && words.ends_with(expected), "{class:?}: {words}");
    }
}

/// In TLS 1.3 a server rejects a client certificate after the client has completed its handshake.
#[test]
fn an_alert_is_reported_by_name_also_after_the_handshake() {
    let (folder, certificates) = certificates();
    let ca = certificates.ca.display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let arguments = ["-Verify", "2", "-verify_return_error", "-CAfile", &ca, "-alpn", "h2,http/1.1", version];
        let (address, _server) = s_server(folder.path(), &certificates.server, &arguments);
        let url = format!("https://localhost:{}/", address.port());
        for (protocol, close_header) in [(Protocol::Http1, false), (Protocol::Http1, true), (Protocol::Http2, false)] {
            let mut plan = plan(&url, Some(&certificates.ca), 10);
            plan.target.protocol = protocol;
            plan.connections.reuse = false;
            plan.connections.close_header = close_header;
            plan.request.body = Some(Text::Fixed(vec![b'x'; 200_000]));
            let (class, words) = fault(&run(plan));
            let alert = if version == "-tls1_3" { "`certificate required`" } else { "`handshake failure`" };
            assert!(class == Class::TlsAlert && words.contains(alert), "{version}: {class:?}: {words}");
        }
        let mut plan = plan(&url, Some(&certificates.ca), 4);
        let (cert, key) = &certificates.client;
        let files = &mut tls(&mut plan).files;
        (files.cert, files.key) = (Some(cert.clone()), Some(key.clone()));
        plan.connections.reuse = false;
        assert_eq!(run_well(plan).totals.sum.counts.succeeded, 4);
    }
}

/// A server that closes without reading all input resets the connection, so the write of a request fails first. The client must
/// still read the alert.
#[test]
fn an_alert_is_reported_although_the_request_was_not_fully_sent() {
    let (_folder, certificates) = certificates();
    let (cert, key) = &certificates.server;
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0', tls: {{ cert: {}, key: {}, client_ca: {}, client_auth: required }} }}]
routes: [{{ match: {{}}, upstream: shop }}]
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
",
        cert.display(),
        key.display(),
        certificates.ca.display()
    );
    let server = Launch::new(BINARY, &config).start().unwrap();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let url = format!("https://localhost:{}/", server.address().port());
        let mut plan = plan(&url, Some(&certificates.ca), 10);
        plan.target.addresses = vec![server.address()];
        plan.target.protocol = protocol;
        plan.request.method = http::Method::POST;
        plan.request.body = Some(Text::Fixed(vec![b'x'; 16_000_000]));
        let (class, words) = fault(&run(plan));
        assert!(
            class == Class::TlsAlert && words.contains("`certificate required`"),
            "{protocol:?}: {class:?}: {words}"
        );
    }
}

#[test]
fn a_client_certificate_may_be_a_pkcs12_file() {
    let (folder, certificates) = certificates();
    let ca = certificates.ca.display();
    let settings = format!("ssl_client_certificate {ca}; ssl_verify_client on;");
    let nginx = Nginx::with_tls(folder.path(), &certificates, "", &settings);
    let file = folder.path().join("client.p12");
    let (cert, key) = &certificates.client;
    let made = Command::new("openssl")
        .args(["pkcs12", "-export", "-passout", "pass:open sesame", "-out"])
        .arg(&file)
        .arg("-in")
        .arg(cert)
        .arg("-inkey")
        .arg(key)
        .status();
    assert!(made.unwrap().success());
    let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 4);
    let files = &mut tls(&mut plan).files;
    (files.cert, files.password) = (Some(file), Some("open sesame".to_owned().into()));
    assert_eq!(run_well(plan.clone()).totals.sum.counts.succeeded, 4);
    tls(&mut plan).files.password = Some("wrong".to_owned().into());
    let refusal = sealway_load::engine::Run::start(plan).unwrap_err().to_string();
    assert!(refusal.contains("client.p12") && !refusal.contains("wrong"), "{refusal}");
}

#[test]
fn a_peer_without_tls_or_without_an_answer_is_reported() {
    let (folder, certificates) = certificates();
    let plain = Nginx::start(folder.path(), "", "");
    let (class, words) = fault(&run(plan(&plain.url("https"), Some(&certificates.ca), 2)));
    assert!(class == Class::Tls && words.contains("does not speak TLS"), "{class:?}: {words}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(&format!("https://{}/", silent.local_addr().unwrap()), Some(&certificates.ca), 2);
    plan.timeouts.connect = Duration::from_millis(300);
    let (class, words) = fault(&run(plan));
    assert!(class == Class::ConnectTimeout && words.contains("300ms"), "{class:?}: {words}");
}

#[test]
fn a_refusal_names_the_address_and_a_reset_is_one_in_every_protocol() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (class, words) = fault(&run(plan(&format!("http://{closed}/"), None, 2)));
    assert_eq!((class, words), (Class::Refused, format!("connection refused by {closed}")));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            // A linger of zero resets the connection when it is closed.
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    });
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::WebSocket] {
        let mut plan = plan(&format!("http://{address}/"), None, 2);
        plan.target.protocol = protocol;
        let (class, words) = fault(&run(plan));
        assert_eq!(class, Class::Reset, "{protocol:?}: {words}");
        assert!(words.contains(&address.to_string()), "{protocol:?}: {words}");
    }
}

#[test]
fn a_lowest_version_that_the_server_does_not_have_is_an_alert() {
    let (folder, certificates) = certificates();
    let nginx = Nginx::with_tls(folder.path(), &certificates, "", "ssl_protocols TLSv1.2;");
    let mut plan = plan(&nginx.url("https"), Some(&certificates.ca), 2);
    tls(&mut plan).min_version = TlsVersion::V13;
    let (class, words) = fault(&run(plan));
    assert!(class == Class::TlsAlert && words.contains("`protocol version`"), "{class:?}: {words}");
}

#[test]
fn a_process_without_descriptors_says_so_with_its_limit() {
    let (folder, _) = certificates();
    let nginx = Nginx::start(folder.path(), "", "");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(BINARY);
    command.args(["load", &nginx.url("http"), "--concurrency", "150", "--requests", "2000", "--no-tui"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no file descriptors left (limit 64): raise it with ulimit -n"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}
