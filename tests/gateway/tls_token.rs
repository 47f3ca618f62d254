//! TLS listeners whose keys are on a token of SoftHSM2: the results of curl and OpenSSL, a token that is away, slow, locked out or
//! killed, and keys that are missing or another certificate's.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SubjectPublicKeyInfo};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::tls::{Client, ClientFiles};
use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::softhsm::{PIN, SoftHsm, TOKEN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::BINARY;
use crate::reload::reload;
use crate::tls_ground::{Ground, curl, s_client};

const BODY: &str = r#"{"status":"ok","mode":"standalone"}"#;
const OK: &str = "{\"status\":\"ok\",\"mode\":\"standalone\"} 2 200";

/// A token, an authority whose certificates are for its keys, and clients' certificates.
struct Fixture {
    hsm: SoftHsm,
    clients: Ground,
    ca: CertifiedIssuer<'static, KeyPair>,
    /// Module, sessions and timeout of the token in the configuration.
    token: String,
}

impl Fixture {
    fn new() -> Fixture {
        let hsm = SoftHsm::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority of the token's keys");
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(hsm.folder().join("ca.pem"), ca.pem()).unwrap();
        let token = format!("uri: '{}', timeout_ms: 20000", hsm.uri(hsm.module()));
        Fixture { hsm, clients: Ground::new(), ca, token }
    }

    fn text(&self, name: &str) -> String {
        self.hsm.folder().join(name).to_str().unwrap().to_owned()
    }

    /// Puts a pair of OpenSSL on the token, with a number of its own, and makes a certificate for it.
    fn pair(&self, label: &str, kind: &str, id: &str) {
        let (key, public) = (self.text("key.pem"), self.text("public.der"));
        let algorithm = if kind.starts_with("rsa_") { "RSA" } else { "EC" };
        openssl(&["genpkey", "-quiet", "-algorithm", algorithm, "-pkeyopt", kind, "-out", &key]);
        openssl(&["pkey", "-in", &key, "-pubout", "-outform", "DER", "-out", &public]);
        self.hsm.util(&["--import", &key, "--token", TOKEN, "--label", label, "--id", id, "--pin", PIN]).unwrap();
        // From here on the token alone has it.
        std::fs::remove_file(key).unwrap();
        let public = SubjectPublicKeyInfo::from_der(&std::fs::read(public).unwrap()).unwrap();
        let leaf = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&public, &self.ca).unwrap();
        std::fs::write(self.text(&format!("{label}.pem")), leaf.pem()).unwrap();
    }

    /// A listener whose certificate and key have these names.
    fn listener(&self, name: &str, cert: &str, key: &str, more: &str) -> String {
        let cert = self.text(&format!("{cert}.pem"));
        let key = format!("pkcs11:token={TOKEN};object={key};type=private");
        format!("  - {{ name: {name}, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}'{more} }} }}\n")
    }

    /// A configuration whose first listener is plain, and the second has its key in a file.
    fn config(&self, listeners: &str) -> String {
        let (cert, key) = (self.clients.cert("server.cert.pem"), self.clients.cert("server.key.pem"));
        format!(
            "listeners:
  - {{ name: plain, address: '127.0.0.1:0' }}
  - {{ name: file, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}' }} }}
{listeners}pkcs11: [{{ {} }}]
routes:
  - {{ match: {{ path: /ready }}, sessions: {{}} }}
  - {{ match: {{}}, standalone: ok }}
sessions: {{ store: 'memory:' }}
limits: {{ handshake_timeout_ms: 6000 }}
",
            self.token
        )
    }

    fn start(&self, listeners: &str) -> Server {
        self.launch(listeners).start().unwrap()
    }

    fn launch(&self, listeners: &str) -> Launch<'static> {
        Launch::new(BINARY, &self.config(listeners)).env("SOFTHSM2_CONF", &self.text("softhsm2.conf"))
    }

    /// Asks a listener by curl.
    fn curl(&self, to: SocketAddr) -> String {
        curl(to, &self.text("ca.pem"), &[])
    }
}

/// Algorithm of most keys here.
const P256: &str = "ec_paramgen_curve:P-256";

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Status and body of `/ready`.
fn ready(server: &Server) -> (u16, serde_json::Value) {
    let url = format!("http://{}/ready", server.addresses[0]);
    let output = Command::new("curl").args(["-s", "--max-time", "5", "-w", "\n%{http_code}", &url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// Waits until `/ready` gives the reason for the listener `token`; `None` for 200.
fn until_ready(server: &Server, reason: Option<&str>) {
    until(&format!("/ready: {reason:?}"), || {
        let (status, body) = ready(server);
        match reason {
            None => status == 200,
            Some(reason) => {
                let faults = serde_json::json!([{"listener": "token", "reason": reason}]);
                status == 503 && body["status"] == "listener_key" && body["listenerKeys"] == faults
            }
        }
    });
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes of this server that host a module.
fn hosts(server: &Server) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let is_child = status.lines().any(|line| line == format!("PPid:\t{}", server.id()));
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if is_child && line.ends_with(b"pkcs11-host\0") {
            found.push(pid);
        }
    }
    found
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A client of our own, for many connections.
struct Caller {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Caller {
    fn new(ca: &Path) -> Arc<Caller> {
        let files = ClientFiles { ca: Some(ca.to_owned()), ..ClientFiles::default() };
        let client = Client::load(files, Arc::new(SystemClock)).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Arc::new(Caller { client, runtime })
    }

    /// Makes a connection with a full handshake, and a request on it.
    async fn ask(&self, to: SocketAddr) -> std::io::Result<String> {
        let mut config = (*self.client.config(false)).clone();
        config.resumption = rustls::client::Resumption::disabled();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect("localhost".try_into().unwrap(), TcpStream::connect(to).await?).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

#[test]
fn curl_and_openssl_agree_with_keys_on_a_token_of_each_kind() {
    let fixture = Fixture::new();
    let kinds =
        [("p256", P256, "01"), ("p384", "ec_paramgen_curve:P-384", "02"), ("rsa", "rsa_keygen_bits:2048", "03")];
    let mut listeners = String::new();
    for (label, kind, id) in kinds {
        fixture.pair(label, kind, id);
        let mutual = format!(", client_ca: '{}'", fixture.clients.cert("ca.cert.pem"));
        listeners += &fixture.listener(label, label, label, "");
        listeners += &fixture.listener(&format!("{label}-mutual"), label, label, &mutual);
    }
    let server = fixture.start(&listeners);
    assert_eq!(ready(&server).0, 200);
    let ca = fixture.text("ca.pem");
    let trust = ["-CAfile", &ca, "-verify_return_error", "-verify_hostname", "localhost"];
    let client = [fixture.clients.cert("client.cert.pem"), fixture.clients.cert("client.key.pem")];
    for (pair, (label, _, _)) in server.addresses[2..].chunks(2).zip(kinds) {
        assert_eq!(fixture.curl(pair[0]), OK, "{label}");
        let signatures: &[&str] = match label {
            "p256" => &["ecdsa_secp256r1_sha256"],
            "p384" => &["ecdsa_secp384r1_sha384"],
            _ => &["rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha512"],
        };
        let old = ["rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512"].iter().filter(|_| label == "rsa");
        let versions = signatures.iter().flat_map(|name| [("-tls1_2", *name), ("-tls1_3", *name)]);
        for (version, signature) in versions.chain(old.map(|name| ("-tls1_2", *name))) {
            let said = s_client(pair[0], &[&trust[..], &[version, "-sigalgs", signature]].concat());
            assert!(said.contains("Verify return code: 0") && said.contains(BODY), "{label} {signature}: {said}");
        }
        // The server asks for another share first (HelloRetryRequest), and signs in its second flight.
        let said = s_client(pair[0], &[&trust[..], &["-tls1_3", "-groups", "P-521:P-256"]].concat());
        assert!(said.contains(BODY), "{label}: {said}");
        let with = ["--cert", &client[0], "--key", &client[1]];
        assert_eq!(curl(pair[1], &ca, &with), OK, "{label}");
        assert!(!curl(pair[1], &ca, &[]).contains("200"), "{label}");
        let said = s_client(pair[1], &[&trust[..], &["-tls1_2", "-cert", &client[0], "-key", &client[1]]].concat());
        assert!(said.contains(BODY), "{label}: {said}");
    }
    // One process hosts the module for all listeners, and neither it nor the gateway shows the PIN.
    let [host] = hosts(&server)[..] else { panic!("{:?}", hosts(&server)) };
    for pid in [i32::try_from(server.id()).unwrap(), host] {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!text.windows(PIN.len()).any(|window| window == PIN.as_bytes()), "{file}");
        }
    }
    assert!(!server.log().iter().any(|line| line.contains(PIN)));
}

#[test]
fn twenty_killed_hosts_under_load_cause_no_wrong_handshake_and_work_resumes() {
    let fixture = Fixture::new();
    fixture.pair("web", P256, "01");
    // Restarts of one host come later and later.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| kill_five(&fixture));
        }
    });
}

/// Kills the host of a server five times under load.
fn kill_five(fixture: &Fixture) {
    let server = fixture.start(&fixture.listener("token", "web", "web", ""));
    let caller = Caller::new(&fixture.hsm.folder().join("ca.pem"));
    let (stop, good, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let to = server.addresses[2];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    match caller.runtime.block_on(caller.ask(to)) {
                        // The client has verified the signature; a shortened or foreign answer is wrong.
                        Ok(answer) => {
                            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(BODY), "{answer}");
                            good.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(err) => {
                            let alert = rustls::Error::AlertReceived(rustls::AlertDescription::InternalError);
                            let inner = err.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                            assert_eq!(inner, Some(&alert), "{err}");
                            failed.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
        for _ in 0..5 {
            let before = good.load(Ordering::Relaxed);
            until("handshakes under load", || good.load(Ordering::Relaxed) > before + 10);
            let [host] = hosts(&server)[..] else { panic!("{:?}", hosts(&server)) };
            kill(host);
            until("another host", || hosts(&server).iter().any(|other| *other != host));
        }
        let before = good.load(Ordering::Relaxed);
        until("handshakes after the last", || good.load(Ordering::Relaxed) > before + 10);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(good.load(Ordering::Relaxed) > 50);
    until_ready(&server, None);
    assert_eq!(fixture.curl(to), OK);
}

#[test]
fn a_hanging_token_delays_its_own_handshakes_alone() {
    let mut fixture = Fixture::new();
    fixture.pair("web", P256, "01");
    let shim = fixture.hsm.shim().unwrap();
    fixture.token = format!("uri: '{}', timeout_ms: 4000, sessions: 2", fixture.hsm.uri(&shim));
    let server = fixture.start(&fixture.listener("token", "web", "web", ""));
    let to = server.addresses[2];
    let (ca, ticket) = (fixture.text("ca.pem"), fixture.text("ticket"));
    let said = s_client(to, &["-CAfile", &ca, "-sess_out", &ticket]);
    assert!(said.contains(BODY), "{said}");
    let old_ticket = fixture.text("ticket-1.2");
    let said = s_client(to, &["-CAfile", &ca, "-tls1_2", "-sess_out", &old_ticket]);
    assert!(said.contains(BODY), "{said}");
    fixture.hsm.fail("slow").unwrap();
    let caller = Caller::new(&fixture.hsm.folder().join("ca.pem"));
    // More than the runtime has threads.
    let waiting: Vec<_> = (0..40)
        .map(|_| {
            let caller = caller.clone();
            let begin = Instant::now();
            caller.clone().runtime.spawn(async move { (caller.ask(to).await, begin.elapsed()) })
        })
        .collect();
    // Resumed sessions need no signature, also behind a HelloRetryRequest.
    let resumed: [&[&str]; 3] = [
        &["-sess_in", &ticket],
        &["-sess_in", &ticket, "-groups", "P-521:P-256"],
        &["-tls1_2", "-sess_in", &old_ticket],
    ];
    for more in resumed {
        let said = s_client(to, &[&["-CAfile", &ca], more].concat());
        assert!(said.contains("Reused") && said.contains(BODY), "{more:?}: {said}");
    }
    let begin = Instant::now();
    let mut asked = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        let one = Instant::now();
        assert_eq!(curl(server.addresses[1], &fixture.clients.cert("ca.cert.pem"), &[]), OK);
        assert!(one.elapsed() < Duration::from_secs(1), "{:?}", one.elapsed());
        asked += 1;
    }
    assert!(asked > 3 && waiting.iter().all(|task| !task.is_finished()), "{asked}");
    for task in waiting {
        let (done, took) = caller.runtime.block_on(task).unwrap();
        assert!(done.is_err() && took < Duration::from_secs(15), "{took:?}");
    }
    fixture.hsm.fail("").unwrap();
    until("it signs again", || fixture.curl(to) == OK);
    // Tickets outlive the host.
    let said = s_client(to, &["-CAfile", &ca, "-sess_in", &ticket]);
    assert!(said.contains("Reused") && said.contains(BODY), "{said}");
    until_ready(&server, None);
    let reasons = server.log().iter().filter(|line| line.contains("no handshake without the listener's key")).count();
    assert!((1..40).contains(&reasons), "{reasons}");
}

#[test]
fn the_metrics_listener_has_its_key_on_a_token_too() {
    let mut fixture = Fixture::new();
    fixture.pair("web", P256, "01");
    let shim = fixture.hsm.shim().unwrap();
    fixture.token = format!("uri: '{}'", fixture.hsm.uri(&shim));
    std::fs::write(fixture.text("metrics.token"), "a-token-for-the-scraper").unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let section = |key: &str| {
        format!(
            "metrics: {{ address: '{to}', token_file: '{}', tls: {{ cert: '{}', key: 'pkcs11:object={key}' }} }}\n",
            fixture.text("metrics.token"),
            fixture.text("web.pem"),
        )
    };
    let launch = |key: &str| {
        let config = fixture.config("") + &section(key);
        Launch::new(BINARY, &config).env("SOFTHSM2_CONF", &fixture.text("softhsm2.conf")).start()
    };
    let err = launch("none").unwrap_err().to_string();
    assert!(err.contains("metrics.tls.key: ") && err.contains("no key on the token fits"), "{err}");
    let server = launch("web").unwrap();
    let scrape = || {
        let url = format!("https://localhost:{}/metrics", to.port());
        let resolve = format!("localhost:{}:127.0.0.1", to.port());
        let header = "Authorization: Bearer a-token-for-the-scraper";
        let arguments =
            ["-s", "--max-time", "5", "--cacert", &fixture.text("ca.pem"), "--resolve", &resolve, "-H", header, &url];
        let done = Command::new("curl").args(arguments).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(scrape().contains("sealway_listener_key_up{listener=\"metrics\"} 1"));
    fixture.hsm.remove().unwrap();
    until("/ready names it", || {
        let (status, body) = ready(&server);
        status == 503 && body["listenerKeys"] == serde_json::json!([{"listener": "metrics", "reason": "token_absent"}])
    });
    assert_eq!(scrape(), "");
    fixture.hsm.put_back().unwrap();
    until_ready(&server, None);
    assert!(scrape().contains("sealway_listener_key_up{listener=\"metrics\"} 1"));
}

#[test]
fn a_token_that_is_away_or_rejects_the_pin_is_waited_for() {
    let mut fixture = Fixture::new();
    fixture.pair("web", P256, "01");
    let shim = fixture.hsm.shim().unwrap();
    fixture.token = format!("uri: '{}'", fixture.hsm.uri(&shim));
    fixture.hsm.set_pin_file("wrong-pin").unwrap();
    let server = fixture.start(&fixture.listener("token", "web", "web", ""));
    let to = server.addresses[2];
    until_ready(&server, Some("pin_wrong"));
    let said = s_client(to, &[]);
    assert!(said.contains("alert internal error") && !said.contains(BODY), "{said}");
    // Others go on.
    assert_eq!(curl(server.addresses[1], &fixture.clients.cert("ca.cert.pem"), &[]), OK);
    assert_eq!(fixture.hsm.logins(), 1);
    fixture.hsm.set_pin_file(PIN).unwrap();
    until_ready(&server, None);
    assert_eq!(fixture.curl(to), OK);
    fixture.hsm.remove().unwrap();
    until_ready(&server, Some("token_absent"));
    assert!(!fixture.curl(to).contains("200"));
    fixture.hsm.put_back().unwrap();
    until_ready(&server, None);
    assert_eq!(fixture.curl(to), OK);
    let log = server.log().join("\n");
    assert!(!log.contains("wrong-pin") && !log.contains(PIN));
}

#[test]
fn a_key_that_is_missing_or_of_another_certificate_is_named_at_the_start_the_check_and_a_reload() {
    let fixture = Fixture::new();
    fixture.pair("web", P256, "01");
    fixture.pair("other", P256, "02");
    let file = fixture.text("check.yaml");
    let check = |config: &str| {
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["config", "check", "--files", &file]).env("SOFTHSM2_CONF", fixture.text("softhsm2.conf"));
        let done = command.output().unwrap();
        (done.status.success(), String::from_utf8(done.stderr).unwrap())
    };
    let good = fixture.config(&fixture.listener("token", "web", "web", ""));
    let (is_good, said) = check(&good);
    assert!(is_good, "{said}");
    let missing = fixture.listener("token", "web", "none", "");
    let another = fixture.listener("token", "web", "other", "");
    for (listener, why) in
        [(&missing, "no key on the token fits"), (&another, "the key on the token is not that of the certificate")]
    {
        let (is_good, said) = check(&fixture.config(listener));
        assert!(!is_good && said.contains("listeners[2].tls.key: ") && said.contains(why), "{said}");
        let err = fixture.launch(listener).start().unwrap_err().to_string();
        assert!(err.contains("listeners[2].tls.key: ") && err.contains(why), "{err}");
    }
    let mut server = Launch::new(BINARY, &good).env("SOFTHSM2_CONF", &fixture.text("softhsm2.conf")).start().unwrap();
    let host = hosts(&server);
    for (listener, why) in [(&missing, "no key"), (&another, "not that of the certificate")] {
        let line = reload(&mut server, &fixture.config(listener), "configuration not reloaded");
        assert!(line["err"].as_str().unwrap().contains(why), "{line}");
        assert_eq!(fixture.curl(server.addresses[2]), OK);
    }
    // The other key with its certificate, through the same host process.
    let line = reload(
        &mut server,
        &fixture.config(&fixture.listener("token", "other", "other", "")),
        "configuration reloaded",
    );
    assert_eq!(line["changed"], r#"["token"]"#, "{line}");
    assert_eq!(fixture.curl(server.addresses[2]), OK);
    assert_eq!(hosts(&server), host);
    // Without a listener that uses it, the token has no host.
    reload(&mut server, &fixture.config(""), "configuration reloaded");
    until("the host ends", || hosts(&server).is_empty());
}
