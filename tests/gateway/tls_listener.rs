//! TLS listeners of a real `sealway serve`: the results of curl and OpenSSL, rejected clients, and certificates that change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, date_time_ymd};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::tls::{Client, ClientFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::BINARY;
use crate::tls_ground::{Ground, copy, curl, s_client};

const BODY: &str = r#"{"status":"ok","mode":"standalone"}"#;

#[test]
fn curl_gets_http_2_or_http_1_as_it_asks() {
    let ground = Ground::new();
    let serving = ground.serve();
    let ca = ground.cert("ca.cert.pem");
    for (more, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let said = curl(serving.https, &ca, &[more]);
        assert_eq!(said, format!("{BODY} {version} 200"));
    }
    let (cert, key) = (ground.cert("client.cert.pem"), ground.cert("client.key.pem"));
    for (to, version) in [(serving.mutual, "2"), (serving.strict, "2")] {
        let said = curl(to, &ca, &["--http2", "--cert", &cert, "--key", &key]);
        assert_eq!(said, format!("{BODY} {version} 200"));
    }
}

#[test]
fn openssl_agrees_on_the_versions_that_are_served() {
    let ground = Ground::new();
    let serving = ground.serve();
    let ca = ground.cert("ca.cert.pem");
    let trust = ["-CAfile", &ca, "-verify_return_error", "-verify_hostname", "localhost"];
    for (version, shown) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let said = s_client(serving.https, &[&trust[..], &[version]].concat());
        assert!(said.contains(shown) && said.contains("HTTP/1.1 200") && said.contains(BODY), "{said}");
    }
    for (to, version) in [(serving.https, "-tls1_1"), (serving.strict, "-tls1_2")] {
        let said = s_client(to, &[version, "-cipher", "ALL:@SECLEVEL=0"]);
        assert!(said.contains("SSL alert number") && !said.contains(BODY), "{version}: {said}");
    }
}

#[test]
fn an_ocsp_answer_is_sent_along() {
    let ground = Ground::new();
    let (ca, key, out) = (ground.cert("ca.cert.pem"), ground.cert("ca.key.pem"), ground.text("ocsp.der"));
    let server = ground.cert("server.cert.pem");
    let run = |arguments: &[&str]| {
        let done = std::process::Command::new("openssl").args(arguments).output().expect("install the package openssl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let serial = run(&["x509", "-in", &server, "-noout", "-serial"]);
    let serial = serial.trim().trim_start_matches("serial=");
    std::fs::write(ground.path("index"), format!("V\t391231235959Z\t\t{serial}\tunknown\t/CN=localhost\n")).unwrap();
    let (index, responder) = (ground.text("index"), ["-rsigner", &ca, "-rkey", &key, "-CA", &ca, "-issuer", &ca]);
    let answer = ["-index", &index, "-cert", &server, "-respout", &out, "-ndays", "2", "-noverify"];
    run(&[&["ocsp"], &responder[..], &answer[..]].concat());
    let listener = format!("tls: {{ cert: '{server}', key: '{}', ocsp: '{out}' }}", ground.cert("server.key.pem"));
    let config = format!(
        "listeners: [{{ address: '127.0.0.1:0', {listener} }}]
routes: [{{ match: {{}}, standalone: ok }}]
sessions: {{ store: 'memory:' }}
"
    );
    let serving = sealway_testkit::process::Launch::new(BINARY, &config).start().unwrap();
    let said = s_client(serving.address(), &["-status", "-CAfile", &ca]);
    assert!(said.contains("OCSP Response Status: successful") && said.contains("Cert Status: good"), "{said}");
    assert!(said.contains(BODY), "{said}");
}

#[test]
fn openssl_gets_an_alert_with_the_reason() {
    let (ground, other) = (Ground::new(), Ground::new());
    let serving = ground.serve();
    let revoked = [ground.cert("client.cert.pem"), ground.cert("client.key.pem")];
    let shown = |[cert, key]: &[String; 2]| vec!["-cert".to_owned(), cert.clone(), "-key".to_owned(), key.clone()];
    let pair = |ground: &Ground, name: &str| {
        [ground.cert(&format!("{name}.cert.pem")), ground.cert(&format!("{name}.key.pem"))]
    };
    assert!(s_client(serving.mutual, &shown(&revoked).iter().map(String::as_str).collect::<Vec<_>>()).contains(BODY));
    ground.sealway(&["certs", "revoke", &ground.text("certs"), &revoked[0]]);
    wait(|| !s_client(serving.mutual, &["-cert", &revoked[0], "-key", &revoked[1]]).contains(BODY));
    for (arguments, alert) in [
        (vec![], "certificate required"),
        (shown(&pair(&other, "client")), "unknown ca"),
        (shown(&pair(&ground, "server")), "unsupported certificate"),
        (shown(&revoked), "certificate revoked"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for to in [serving.mutual, serving.strict] {
            let said = s_client(to, &arguments);
            assert!(said.contains(alert) && !said.contains(BODY), "{alert}: {said}");
        }
        let said = s_client(serving.mutual, &[&arguments[..], &["-tls1_2"]].concat());
        assert!(said.contains("alert") && !said.contains(BODY), "{alert}: {said}");
    }
}

fn wait(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until, "it did not come to that");
        std::thread::sleep(Duration::from_millis(100));
    }
}

type Connection = TlsStream<TcpStream>;

fn client(ca: &str, cert: &str, key: &str) -> Client {
    let files =
        ClientFiles { ca: Some(ca.into()), cert: Some(cert.into()), key: Some(key.into()), ..ClientFiles::default() };
    Client::load(files, Arc::new(SystemClock)).unwrap()
}

async fn connect(client: &Client, to: std::net::SocketAddr) -> Result<Connection, String> {
    let stream = TcpStream::connect(to).await.map_err(|err| format!("connect: {err}"))?;
    let connector = tokio_rustls::TlsConnector::from(client.config(false));
    let name = "localhost".try_into().unwrap();
    connector.connect(name, stream).await.map_err(|err| format!("handshake: {err}"))
}

/// Sends a request on a connection that stays open, and returns the answer.
async fn ask(connection: &mut Connection) -> Result<(), String> {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    connection.write_all(request).await.map_err(|err| format!("write: {err}"))?;
    let mut answer = Vec::new();
    while !answer.ends_with(BODY.as_bytes()) {
        let count = connection.read_buf(&mut answer).await.map_err(|err| format!("read: {err}"))?;
        if count == 0 || answer.len() > 4096 {
            return Err(format!("an answer of {:?}", String::from_utf8_lossy(&answer)));
        }
    }
    if answer.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err(String::from_utf8_lossy(&answer).into_owned()) }
}

/// Waits until the server ends an idle connection. Returns that time.
async fn end(mut connection: Connection) -> Instant {
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest).await;
    Instant::now()
}

/// Creates a client certificate of the folder's authority that is valid for so many seconds from now.
fn short_lived(ground: &Ground, seconds: u64) -> (String, String) {
    let read = |name: &str| std::fs::read_to_string(ground.cert(name)).unwrap();
    let authority = KeyPair::from_pem(&read("ca.key.pem")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.cert.pem"), authority).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "a client of a moment");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let now = Duration::from_millis(SystemClock.now_ms());
    params.not_before = date_time_ymd(1970, 1, 1) + (now - Duration::from_secs(60));
    params.not_after = date_time_ymd(1970, 1, 1) + (now + Duration::from_secs(seconds));
    let key = KeyPair::generate().unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap();
    std::fs::write(ground.path("short.pem"), cert.pem()).unwrap();
    std::fs::write(ground.path("short.key"), key.serialize_pem()).unwrap();
    (ground.text("short.pem"), ground.text("short.key"))
}

#[test]
fn a_client_of_an_expired_authority_gains_nothing_by_showing_a_valid_authoritys_certificate() {
    let ground = Ground::new();
    let ca = std::fs::read_to_string(ground.cert("ca.cert.pem")).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "an authority of last year");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2024, 1, 1));
    let old = rcgen::CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let leaf = params.signed_by(&key, &old).unwrap();
    // The listener trusts both authorities, in a file as an operator writes it who adds a new one.
    std::fs::write(ground.path("certs").join("ca.cert.pem"), [ca.as_str(), &old.pem()].concat()).unwrap();
    std::fs::write(ground.path("old.key"), key.serialize_pem()).unwrap();
    let serving = ground.serve();
    let (trusted, key) = (ground.cert("ca.cert.pem"), ground.text("old.key"));
    for beside in ["", ca.as_str()] {
        std::fs::write(ground.path("old.pem"), [&leaf.pem(), beside].concat()).unwrap();
        for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
            let shown = ["--cert", &ground.text("old.pem"), "--key", &key];
            let said = curl(serving.mutual, &trusted, &[&shown[..], version].concat());
            assert!(!said.contains(BODY) && said.contains("000"), "{said}");
        }
    }
    let own = ["--cert", &ground.cert("client.cert.pem"), "--key", &ground.cert("client.key.pem")];
    assert!(curl(serving.mutual, &trusted, &own).starts_with(BODY));
}

#[tokio::test]
async fn a_connection_does_not_outlive_its_clients_certificate_by_a_minute() {
    const VALID: u64 = 10;
    let ground = Ground::new();
    let serving = ground.serve();
    let started = Instant::now();
    let (cert, key) = short_lived(&ground, VALID);
    let short = client(&ground.cert("ca.cert.pem"), &cert, &key);
    let long = client(&ground.cert("ca.cert.pem"), &ground.cert("client.cert.pem"), &ground.cert("client.key.pem"));
    let mut connection = connect(&short, serving.mutual).await.unwrap();
    let mut other = connect(&long, serving.mutual).await.unwrap();
    ask(&mut connection).await.unwrap();
    ask(&mut other).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(VALID + 60), end(connection)).await;
    let ended = ended.expect("it lives on") - started;
    assert!(ended >= Duration::from_secs(VALID - 1), "it was cut after {ended:?}");
    ask(&mut other).await.unwrap();
    let refused = match connect(&short, serving.mutual).await {
        Err(err) => err,
        Ok(mut connection) => ask(&mut connection).await.unwrap_err(),
    };
    assert!(refused.contains("CertificateExpired") || refused.contains("answer of"), "{refused}");
}

#[tokio::test]
async fn a_revocation_ends_the_connections_of_the_revoked_and_no_others() {
    let ground = Ground::new();
    let serving = ground.serve();
    let (ca, cert, key) = (ground.cert("ca.cert.pem"), ground.text("old.pem"), ground.text("old.key"));
    copy(&ground.cert("client.cert.pem"), ground.path("old.pem").as_path());
    copy(&ground.cert("client.key.pem"), ground.path("old.key").as_path());
    let old = client(&ca, &cert, &key);
    let mut revoked = connect(&old, serving.mutual).await.unwrap();
    ask(&mut revoked).await.unwrap();
    ground.sealway(&["certs", "rotate", &ground.text("certs"), "--leaf", "client"]);
    let new = client(&ca, &ground.cert("client.cert.pem"), &ground.cert("client.key.pem"));
    let mut stays = connect(&new, serving.mutual).await.unwrap();
    ask(&mut stays).await.unwrap();
    ask(&mut revoked).await.unwrap();
    ground.sealway(&["certs", "revoke", &ground.text("certs"), &cert]);
    tokio::time::timeout(Duration::from_secs(30), end(revoked)).await.expect("it lives on");
    ask(&mut stays).await.unwrap();
}

/// Clients that send without a pause, and open a new connection for every few requests.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    failures: Arc<Mutex<Vec<String>>>,
    workers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(client: &Arc<Client>, to: std::net::SocketAddr, workers: usize) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let failures = Arc::new(Mutex::new(Vec::new()));
        let work = |_| {
            let (client, stop, done, failures) = (client.clone(), stop.clone(), done.clone(), failures.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if let Err(failure) = ask_ten(&client, to, &done).await {
                        failures.lock().unwrap().push(failure);
                    }
                }
            })
        };
        let workers = (0..workers).map(work).collect();
        Load { stop, done, failures, workers }
    }

    /// Waits for so many more answers, and at least until the listeners have checked their files.
    async fn more(&self, count: u64) {
        let (want, since) = (self.done.load(Ordering::Relaxed) + count, Instant::now());
        while self.done.load(Ordering::Relaxed) < want || since.elapsed() < Duration::from_millis(2500) {
            assert!(since.elapsed() < Duration::from_secs(600), "no more is answered");
            let failures = self.failures.lock().unwrap().clone();
            assert!(failures.is_empty(), "{failures:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.await.unwrap();
        }
        assert_eq!(*self.failures.lock().unwrap(), Vec::<String>::new());
        self.done.load(Ordering::Relaxed)
    }
}

/// Sends ten requests on a new connection.
async fn ask_ten(client: &Client, to: std::net::SocketAddr, done: &AtomicU64) -> Result<(), String> {
    let mut connection = connect(client, to).await?;
    for _ in 0..10 {
        ask(&mut connection).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    let _ = connection.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_leaves_lists_and_the_authority_are_replaced() {
    let step = if sealway_testkit::fleet::is_full() { 20_000 } else { 200 };
    let ground = Ground::new();
    let mut serving = ground.serve();
    let certs = ground.text("certs");
    // The client's own files, which change only when the test copies them.
    let hand_over = || {
        for name in ["ca.cert.pem", "client.key.pem", "client.cert.pem"] {
            copy(&ground.cert(name), ground.path(name).as_path());
        }
    };
    hand_over();
    let who =
        Arc::new(client(&ground.text("ca.cert.pem"), &ground.text("client.cert.pem"), &ground.text("client.key.pem")));
    let loads = [serving.mutual, serving.strict].map(|to| Load::start(&who, to, 2));
    let more = async || {
        for load in &loads {
            load.more(step / 2).await;
        }
    };
    more().await;
    ground.sealway(&["certs", "rotate", &certs, "--leaf", "server"]);
    more().await;
    ground.sealway(&["certs", "revoke", &certs, "abcdef"]);
    more().await;
    ground.sealway(&["certs", "rotate", &certs, "--ca"]);
    more().await;
    hand_over();
    assert!(who.reload().unwrap());
    // Ensures that no connection with the old certificate is left.
    more().await;
    ground.sealway(&["certs", "rotate", &certs, "--finish"]);
    more().await;
    let mut done = 0;
    for load in loads {
        done += load.finish().await;
    }
    println!("{done} requests, none failed");
    assert!(done >= 5 * step, "{done}");
    let log = serving.server.log().join("\n");
    assert!(!log.contains("\"ERROR\""), "{log}");
    serving.server.stop().unwrap();
}
