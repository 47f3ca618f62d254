//! The remote store through real TLS terminators that require client certificates: haproxy and nginx, with certificates
//! made by openssl.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::far::{Far, SECRET, open, secret_file, within};
use sealway_sessions::store::remote::{Remote, RemoteConfig};
use sealway_sessions::store::{ReserveError, Store, StoreError};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::store_contract::claims::{START_MS, agree};

/// A folder of two unrelated certificate authorities and their certificates; names of the second start with `other-`.
struct Papers(tempfile::TempDir);

impl Papers {
    fn new() -> Self {
        let papers = Papers(tempfile::tempdir().unwrap());
        for prefix in ["", "other-"] {
            let folder = papers.path("new");
            std::fs::create_dir(&folder).unwrap();
            Certificates::make(&folder, "DNS:localhost", "client").unwrap();
            for name in ["ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key"] {
                std::fs::rename(folder.join(name), papers.path(&format!("{prefix}{name}"))).unwrap();
            }
            let both =
                ["pem", "key"].map(|part| std::fs::read(papers.path(&format!("{prefix}server.{part}"))).unwrap());
            std::fs::write(papers.path(&format!("{prefix}server.both")), both.concat()).unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
        }
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns settings that connect under this name, trust the first authority, and present this certificate.
    fn config(&self, host: &str, front: &Front, client: Option<&str>) -> RemoteConfig {
        RemoteConfig {
            ca_file: Some(self.path("ca.pem")),
            identity: client.map(|name| (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))),
            deadline: Duration::from_millis(1000),
            ..RemoteConfig::new(format!("https://{host}:{}/base", front.address.port()).parse().unwrap())
        }
    }
}

/// A TLS terminator; it ends when dropped.
struct Front {
    address: SocketAddr,
    child: Child,
}

impl Front {
    /// Starts haproxy with the certificate `server`; it forwards requests that have a certificate of the first
    /// authority to `behind`. `more` is added to its configuration.
    async fn start(papers: &Papers, server: &str, behind: SocketAddr, more: &str) -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (ca, both) = (papers.path("ca.pem"), papers.path(&format!("{server}.both")));
        let config = format!(
            "global\n  maxconn 200\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 30s\n  timeout server 30s\n\
             frontend front\n  bind {address} ssl crt {} ca-file {} verify required\n  http-request replace-path /base(/.*) \\1\n  {more}\n  \
             default_backend far\nbackend far\n  server far {behind}\n",
            both.display(),
            ca.display()
        );
        let file = papers.path(&format!("haproxy-{}.cfg", address.port()));
        std::fs::write(&file, config).unwrap();
        Front::run("haproxy", Command::new(found("haproxy")).args(["-db", "-f"]).arg(&file), address).await
    }

    /// Starts nginx likewise, with the configuration of the operators' page.
    async fn nginx(papers: &Papers, behind: SocketAddr) -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = papers.path("nginx");
        std::fs::create_dir(&folder).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {};\n", folder.join(of).display()))
            .concat();
        let [cert, key, ca] =
            ["server.pem", "server.key", "ca.pem"].map(|name| papers.path(name).display().to_string());
        let config = format!(
            "daemon off;\nmaster_process off;\npid {pid};\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
             server {{\nlisten {address} ssl;\nssl_certificate {cert};\nssl_certificate_key {key};\n\
             ssl_client_certificate {ca};\nssl_verify_client on;\nclient_max_body_size 64k;\n\
             location /base/v1/authority/ {{\nproxy_pass http://{behind}/v1/authority/;\nproxy_http_version 1.1;\n\
             proxy_set_header Connection \"\";\nproxy_next_upstream off;\n}}\n}}\n}}\n",
            pid = folder.join("pid").display(),
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        Front::run("nginx", Command::new(found("nginx")).arg("-c").arg(&file), address).await
    }

    async fn run(name: &str, command: &mut Command, address: SocketAddr) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|err| panic!("{name} is not here ({err}): install {name}"));
        let front = Front { address, child };
        let listens = async || tokio::net::TcpStream::connect(address).await.is_ok();
        within(Duration::from_secs(10), &format!("{name} does not listen"), listens).await;
        front
    }
}

/// Finds a program that is not on the path in the usual folders.
fn found(name: &str) -> PathBuf {
    let places = ["/usr/sbin", "/usr/local/sbin"].map(|folder| Path::new(folder).join(name));
    places.into_iter().find(|place| place.exists()).unwrap_or(name.into())
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn works(remote: &Arc<Remote>, name: &str) {
    let agreed = agree(Some("web"), 600, START_MS);
    remote.put(agreed.server.clone()).await.unwrap();
    let claim = *agreed.call(name, START_MS, START_MS).claim();
    remote.reserve(&claim).await.unwrap();
    assert_eq!(remote.reserve(&claim).await.map(drop), Err(ReserveError::Replayed));
    assert_eq!(remote.delete(agreed.server.id()).await, Ok(true));
    assert!(remote.status().up);
}

/// Asserts that the store starts down and grants nothing within the deadline; returns the error.
async fn is_refused(what: &str, config: RemoteConfig) -> String {
    let remote = open(config).await.unwrap_or_else(|err| panic!("{what}: {err}"));
    assert!(!remote.status().up, "{what}");
    let agreed = agree(Some("web"), 600, START_MS);
    let since = Instant::now();
    let put = remote.put(agreed.server.clone()).await;
    let Err(StoreError::Unavailable(reason)) = put else { panic!("{what}: {put:?}") };
    let claim = *agreed.call("one", START_MS, START_MS).claim();
    let reserved = remote.reserve(&claim).await;
    assert!(matches!(reserved, Err(ReserveError::Unavailable(_))), "{what}: {reserved:?}");
    assert!(since.elapsed() < Duration::from_secs(5), "{what}: {:?}", since.elapsed());
    reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_certificate_and_the_secret_open_the_authority_through_a_terminator() {
    let (papers, far) = (Papers::new(), Far::memory().await);
    let front = Front::start(&papers, "server", far.address, "").await;
    let how =
        RemoteConfig { secret_file: Some(secret_file(SECRET)), ..papers.config("localhost", &front, Some("client")) };
    works(&open(how).await.unwrap(), "both").await;
    let wrong = RemoteConfig {
        secret_file: Some(secret_file("another-secret-0123456789")),
        ..papers.config("localhost", &front, Some("client"))
    };
    assert!(open(wrong).await.unwrap_err().to_string().contains("answered 401"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_certificate_alone_opens_the_authority_where_the_terminator_knows_the_secret() {
    let (papers, far) = (Papers::new(), Far::memory().await);
    let adds = format!("http-request set-header Authorization \"Bearer {SECRET}\"");
    let front = Front::start(&papers, "server", far.address, &adds).await;
    works(&open(papers.config("localhost", &front, Some("client"))).await.unwrap(), "certificate").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nginx_admits_only_clients_with_a_certificate() {
    let (papers, far) = (Papers::new(), Far::memory().await);
    let front = Front::nginx(&papers, far.address).await;
    let with =
        |client| RemoteConfig { secret_file: Some(secret_file(SECRET)), ..papers.config("localhost", &front, client) };
    works(&open(with(Some("client"))).await.unwrap(), "nginx").await;
    for client in [None, Some("other-client")] {
        let reason = is_refused("nginx", with(client)).await;
        assert!(reason.contains("answered 400 without JSON"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_impostor_with_another_certificate_is_rejected() {
    let (papers, far) = (Papers::new(), Far::memory().await);
    let adds = format!("http-request set-header Authorization \"Bearer {SECRET}\"");
    let good = Front::start(&papers, "server", far.address, &adds).await;
    let false_one = Front::start(&papers, "other-server", far.address, &adds).await;
    let none = is_refused("no certificate", papers.config("localhost", &good, None)).await;
    let other = is_refused("another's certificate", papers.config("localhost", &good, Some("other-client"))).await;
    for reason in [none, other] {
        assert!(reason.starts_with("PUT /v1/authority/sessions/: "), "{reason}");
    }
    let reason = is_refused("an unknown CA", papers.config("localhost", &false_one, Some("client"))).await;
    assert!(reason.contains("invalid peer certificate: UnknownIssuer"), "{reason}");
    let reason = is_refused("another host", papers.config("127.0.0.1", &good, Some("client"))).await;
    assert!(reason.contains("not valid for"), "{reason}");
    let by_system = RemoteConfig { ca_file: None, ..papers.config("localhost", &good, Some("client")) };
    // A system that trusts no authority at all gives an error at the start.
    match open(by_system.clone()).await {
        Ok(_) => drop(is_refused("a CA that the system does not know", by_system).await),
        Err(err) => assert!(err.to_string().contains("set a CA file"), "{err}"),
    }
    let status = far.authority.store().status();
    assert_eq!((status.sessions, status.nonces), (0, (0, 0)), "something came through");
}

#[tokio::test]
async fn invalid_secret_files_stop_the_start_and_are_not_quoted() {
    let (papers, far) = (Papers::new(), Far::memory().await);
    let front = Front { address: far.address, child: Command::new("true").spawn().unwrap() };
    let good = papers.config("localhost", &front, Some("client"));
    let key = std::fs::read_to_string(papers.path("client.key")).unwrap();
    let broken = papers.path("broken.key");
    std::fs::write(&broken, key.replace("-----BEGIN", "----BEGIN")).unwrap();
    let identity = |chain: &str, key: &str| Some((papers.path(chain), papers.path(key)));
    for (what, config) in [
        ("client.pem", RemoteConfig { identity: identity("client.pem", "client.pem"), ..good.clone() }),
        ("broken.key", RemoteConfig { identity: identity("client.pem", "broken.key"), ..good.clone() }),
        ("client.key", RemoteConfig { identity: identity("client.key", "client.key"), ..good.clone() }),
        ("server.key", RemoteConfig { identity: identity("client.pem", "server.key"), ..good.clone() }),
        ("nowhere.pem", RemoteConfig { ca_file: Some(papers.path("nowhere.pem")), ..good.clone() }),
        ("ca.key", RemoteConfig { ca_file: Some(papers.path("ca.key")), ..good.clone() }),
    ] {
        let err = open(config).await.unwrap_err().to_string();
        assert!(err.contains(what), "{what}: {err}");
        for line in key.lines().filter(|line| line.len() > 20 && !line.starts_with('-')) {
            assert!(!err.contains(line), "{what}: {err}");
        }
    }
}
