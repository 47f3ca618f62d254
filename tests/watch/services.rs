//! The services that Prometheus scrapes, with all that they depend on: a gateway on PostgreSQL and Redis, a gateway with a store
//! in memory and narrow bounds, a broker with an audit log, and a relay.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getuid, prlimit};
use sealway_client::broker::{Client, Options};
use sealway_proto::crypto::default_provider;
use sealway_sessions::kek::KeyRing;
use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::{free_port, root};
use sealway_testkit::fleet::clock_library;
use sealway_testkit::ground::Ground;
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::prometheus::{Prometheus, rules, scaled};
use sealway_testkit::raw_http::Request;
use sealway_testkit::relay::{Issuer, Relay};
use sealway_testkit::toxiproxy::Proxy;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

/// Bounds that a fault must be able to reach.
pub(crate) const NONCES_MAX: usize = 1000;
pub(crate) const CONNECTIONS_MAX: usize = 100;
pub(crate) const CHANNELS_MAX: usize = 20;
pub(crate) const TOKENS_MAX: usize = 400;
const DESCRIPTORS_MAX: u32 = 105;
/// The faked start of the certificates whose time is over, in days before now.
const LONG_AGO_DAYS: u32 = 400;
const ROUTES: &str = "
  - { match: { path_prefix: [/session/, /v3/, /.well-known/], path: [/health, /ready] }, sessions: {} }
  - { name: plain, match: { path_prefix: /plain/ }, upstream: shop }
  - { name: sealed, match: {}, sealed: required, upstream: shop }
";

/// The behaviour of the service behind the gateways.
#[derive(Debug, Default)]
pub(crate) struct Behaviour {
    pub(crate) delay_ms: AtomicU64,
    /// Requests of which one fails; 0: none.
    pub(crate) fails_each: AtomicU64,
    served: AtomicU64,
}

impl Behaviour {
    fn answer(&self, path: &str) -> Vec<u8> {
        let each = self.fails_each.load(Ordering::Relaxed);
        // Checks of its health do not count.
        if path == "/health" {
            return answer("200 OK", &[], b"");
        }
        std::thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed)));
        match self.served.fetch_add(1, Ordering::Relaxed) + 1 {
            served if each > 0 && served.is_multiple_of(each) => answer("500 Internal Server Error", &[], b""),
            _ => answer("200 OK", &[("Content-Type", "application/json")], b"{}"),
        }
    }
}

pub(crate) struct Services {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ground: Ground,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) to_service: Proxy,
    /// The gateway on PostgreSQL and Redis.
    pub(crate) shared: Server,
    /// The gateway with a store in memory.
    pub(crate) single: Server,
    pub(crate) broker: Broker,
    pub(crate) client: Client,
    pub(crate) relay: Relay,
    pub(crate) issuer: Issuer,
    pub(crate) prometheus: Prometheus,
    ports: [u16; 5],
}

/// Runs `sealway` to its end.
pub(crate) fn sealway(arguments: &[&str]) {
    run(Command::new(BINARY).args(arguments));
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Puts a file in the place of another one, as operators do: under another name first.
pub(crate) fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Makes two folders of certificates of one authority: `old`, whose time is over, and `certs`.
fn certificates(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(BINARY);
    command.args(["certs", &path("old")]).env("LD_PRELOAD", clock_library().unwrap());
    run(command.env("FAKETIME", format!("-{LONG_AGO_DAYS}d")));
    run(Command::new("cp").args(["-a", &path("old"), &path("certs")]));
    sealway(&["certs", "rotate", &path("certs")]);
}

impl Services {
    pub(crate) fn start() -> Services {
        let folder = tempfile::Builder::new().prefix("sealway-watch-").tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |name: &str| path(name).display().to_string();
        certificates(folder.path());
        for name in ["shared", "single", "broker"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        sealway(&["identity", "generate", &text("shared/keys.identity")]);
        sealway(&["identity", "generate", &text("single/keys.identity")]);
        sealway(&["identity", "root", &text("root.json")]);
        sign_key_set(folder.path(), "90d");
        std::fs::write(path("metrics.token"), ADMIN_TOKEN).unwrap();
        let ports = [(); 5].map(|()| free_port().unwrap());
        // First: it scrapes nothing in the first five seconds.
        let prometheus = prometheus(folder.path(), ports);
        let ground = Ground::start().unwrap();
        let behaviour = Arc::new(Behaviour::default());
        let serving = behaviour.clone();
        let upstream = Upstream::answering(move |request, _| serving.answer(request.method_and_target().1)).unwrap();
        let to_service = ground.toxiproxy().proxy("service", upstream.address).unwrap();
        let [shared_metrics, single_metrics, broker_metrics, relay_port, _] = ports;
        let common = |metrics: u16| {
            format!(
                "
upstreams:
  shop:
    servers: ['http://{}']
    health: {{ path: /health, interval_ms: 250, unhealthy: 2 }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
metrics: {{ address: '127.0.0.1:{metrics}', token_file: '{}' }}
routes: {ROUTES}",
                to_service.address,
                text("metrics.token")
            )
        };
        // Its claims need a store that keeps them.
        let once = "routes: \n  - { match: { path_prefix: /once/ }, sealed: hpke, upstream: shop }\n";
        sealway(&["one-shot-keys", "add", &text("shared/keys.json"), "--use", "hpke", "--kem", "x-wing"]);
        let (cert, key, crl) = (text("certs/server.cert.pem"), text("certs/server.key.pem"), text("certs/ca.crl.pem"));
        let config = format!(
            "listeners:
  - {{ name: plain, address: '127.0.0.1:0' }}
  - {{ name: tls, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}', client_ca: ['{}'], crl: ['{crl}'] }} }}
access_log: {{ file: access.log }}
one_shot: {{ keys: keys.json }}
{}
sessions:
  store: '{}'
  kek_file: '{}'
  postgres: {{ migrate: true, pool_max: 6 }}
  identity: {{ key_file: keys.identity }}
",
            text("certs/ca.cert.pem"),
            common(shared_metrics).replacen("routes: \n", once, 1),
            ground.store(),
            text("shared/keys.kek"),
        );
        KeyRing::generate(default_provider(), &path("shared/keys.kek")).unwrap();
        let shared = Launch::new(BINARY, &config).folder(&path("shared")).surviving_file_limit().start().unwrap();
        let config = format!(
            "listeners: [{{ name: narrow, address: '127.0.0.1:0' }}]
{}
limits: {{ connections_max: {CONNECTIONS_MAX} }}
replay: {{ nonces_max: {NONCES_MAX} }}
sessions: {{ store: 'memory:', identity: {{ key_file: keys.identity }} }}
",
            common(single_metrics)
        );
        let single = Launch::new(BINARY, &config).folder(&path("single")).descriptors_max(DESCRIPTORS_MAX);
        let single = single.start().unwrap();
        let (broker, client) = broker(&path("broker"), broker_metrics);
        let issuer = Issuer::new(folder.path()).unwrap();
        let bounds =
            [("--max-channels", CHANNELS_MAX), ("--max-remembered-tokens", TOKENS_MAX), ("--max-waiting-mib", 1)];
        let bounds = bounds.map(|(flag, bound)| format!("{flag}={bound}"));
        let listen = format!("127.0.0.1:{relay_port}");
        let mut arguments = vec!["--listen", &listen, "--tls-cert", &cert, "--tls-key", &key];
        arguments.extend(bounds.iter().map(String::as_str));
        let relay = Relay::start(BINARY, folder.path(), &arguments).unwrap();
        Services {
            ground,
            behaviour,
            to_service,
            shared,
            single,
            broker,
            client,
            relay,
            issuer,
            prometheus,
            ports,
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the address at which `sealway load` serves its metrics.
    pub(crate) fn load_metrics(&self) -> String {
        format!("127.0.0.1:{}", self.ports[4])
    }

    /// Posts to the admin listener of the gateway on PostgreSQL and Redis.
    pub(crate) fn act(&self, target: &str) {
        let request = Request::post(target, "").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let answer = request.send(self.shared.admin()).unwrap();
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    }

    /// Bounds the length of the files that the broker may write, as a full disk would.
    pub(crate) fn limit_broker_files(&self, len: u64) {
        let pid = Pid::from_raw(i32::try_from(self.broker.id()).unwrap());
        prlimit(pid, Resource::Fsize, Rlimit { current: Some(len), maximum: None }).unwrap();
    }
}

/// Starts a Prometheus with the repository's rules, made short.
fn prometheus(folder: &Path, [shared, single, broker, relay, load]: [u16; 5]) -> Prometheus {
    let token = folder.join("metrics.token");
    let jobs = format!(
        "  - job_name: sealway
    authorization: {{ credentials_file: '{}' }}
    static_configs: [{{ targets: ['127.0.0.1:{shared}', '127.0.0.1:{single}'] }}]
  - {{ job_name: sealway-broker, static_configs: [{{ targets: ['127.0.0.1:{broker}'] }}] }}
  # The relay's certificate is one of those whose time a fault ends.
  - job_name: sealway-relay
    scheme: https
    tls_config: {{ insecure_skip_verify: true }}
    static_configs: [{{ targets: ['127.0.0.1:{relay}'] }}]
  - {{ job_name: load, static_configs: [{{ targets: ['127.0.0.1:{load}'] }}] }}
",
        token.display(),
    );
    Prometheus::start(&scaled(&rules(&root()).unwrap()), &jobs).unwrap()
}

/// Has the root sign the key set of the gateway with a store in memory anew.
pub(crate) fn sign_key_set(folder: &Path, expires_in: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    sealway(&[
        "identity",
        "sign",
        &path("single/keys.identity"),
        "--root",
        &path("root.json"),
        "--expires-in",
        expires_in,
    ]);
}

/// Starts a broker that allows this user the profiles Sha256, P256 and RSA, with a disabled key `disabled` and a key `rsa`.
fn broker(folder: &Path, metrics: u16) -> (Broker, Client) {
    // The limit on file sizes simulates a full disk. Its signal would end the process.
    let patient = folder.join("patient");
    std::fs::write(&patient, format!("#!/bin/bash\ntrap '' XFSZ\nexec '{BINARY}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&patient, std::fs::Permissions::from_mode(0o755)).unwrap();
    let callers = folder.join("callers.yaml");
    let rule =
        format!("- {{Uid: {}, Profiles: [Sha256, P256, RSA], Operations: ['*'], Keys: ['*']}}\n", getuid().as_raw());
    replace(&callers, rule);
    let (audit, metrics) = (folder.join("audit.jsonl"), format!("127.0.0.1:{metrics}"));
    let arguments =
        ["--callers".as_ref(), callers.as_os_str(), "--audit".as_ref(), audit.as_os_str(), "--metrics".as_ref()];
    let broker = Broker::start_with(&patient, folder, &[&arguments[..], &[metrics.as_ref()]].concat()).unwrap();
    let client = Client::new(Options::new(broker.socket())).within(Duration::from_secs(10));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        client.generate_key("disabled", "ecdsa-p256").await.unwrap();
        client.disable_key("disabled", 0).await.unwrap();
        client.generate_key("rsa", "rsa-2048").await.unwrap();
    });
    // A connection of its own: that of the first client ends with its runtime.
    let client = Client::new(Options::new(broker.socket())).within(Duration::from_secs(10));
    (broker, client)
}
