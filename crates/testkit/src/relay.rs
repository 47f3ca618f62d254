//! A real `sealway relay serve` in a process of its own, an issuer whose tokens may contain any claims, and endpoints that
//! attach.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Attach, Claims, IssuerKey, Profile, Role, TokenForm, b64u_encode};
use serde_json::Value;

use crate::certificates::Certificates;
use crate::daemon::clear_environment;
use crate::process::watch;
use crate::raw_ws::RawWs;

const WAIT: Duration = Duration::from_secs(30);

/// The audience of every relay of the tests.
pub const AUD: &str = "relay-test";
/// The issuer of every token of the tests.
pub const ISS: &str = "issuer-test";

/// The DNS name that every node's certificate has.
pub const NODE_NAME: &str = "relay-node.test";

/// Nodes that share a Redis: their authority, and what is the same for all of them.
#[derive(Clone, Debug)]
pub struct NodeFleet {
    /// The authority of the nodes' certificates.
    pub certificates: Certificates,
    /// The URL of the shared Redis.
    pub redis_url: String,
    /// The prefix of its keys.
    pub prefix: String,
}

impl NodeFleet {
    /// Creates an authority in a new folder below `folder`.
    ///
    /// # Errors
    /// If `openssl` fails.
    pub fn new(folder: &Path, redis_url: &str) -> anyhow::Result<NodeFleet> {
        let prefix = unique("fleet");
        let folder = folder.join(&prefix);
        std::fs::create_dir(&folder)?;
        let certificates = Certificates::make(&folder, "DNS:localhost", "client")?;
        Ok(NodeFleet { certificates, redis_url: redis_url.to_owned(), prefix })
    }

    /// Issues the certificate of a node, valid for `days`, with this DNS name and these usages, as OpenSSL writes them.
    ///
    /// # Errors
    /// If `openssl` fails.
    pub fn issue(&self, dns: &str, usages: &str, days: u32) -> anyhow::Result<(PathBuf, PathBuf)> {
        let extensions = [format!("subjectAltName=DNS:{dns}"), format!("extendedKeyUsage={usages}")];
        self.certificates.issue(&unique("node"), "/CN=a relay node", &extensions.each_ref().map(String::as_str), days)
    }

    /// Issues a certificate as every node should have one.
    ///
    /// # Errors
    /// If `openssl` fails.
    pub fn issue_node(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        self.issue(NODE_NAME, "serverAuth,clientAuth", 2)
    }

    /// Starts a node with this certificate and key.
    ///
    /// # Errors
    /// As [`Relay::start`].
    pub fn start_with(
        &self,
        binary: &str,
        folder: &Path,
        (cert, key): &(PathBuf, PathBuf),
        more: &[&str],
    ) -> anyhow::Result<Relay> {
        let [cert, key, ca] = [cert, key, &self.certificates.ca].map(|file| file.display().to_string());
        let arguments = ["--redis-url", &self.redis_url, "--redis-prefix", &self.prefix, "--node-cert", &cert];
        let identity = ["--node-key", &key, "--node-ca", &ca, "--node-name", NODE_NAME];
        Relay::start(binary, folder, &[&arguments[..], &identity, more].concat())
    }

    /// Starts a node with a certificate of its own.
    ///
    /// # Errors
    /// As [`Relay::start`].
    pub fn start(&self, binary: &str, folder: &Path, more: &[&str]) -> anyhow::Result<Relay> {
        self.start_with(binary, folder, &self.issue_node()?, more)
    }
}

/// A relay in its process.
#[derive(Debug)]
pub struct Relay {
    child: Child,
    watcher: Option<Child>,
    /// The address that it listens on.
    pub address: SocketAddr,
    log: PathBuf,
}

impl Relay {
    /// Starts one in `folder`, which contains the keyset of [`Issuer::new`] unless the arguments name another. It
    /// listens on a port of 127.0.0.1 that the system assigns, unless they name an address.
    ///
    /// # Errors
    /// If it does not come up, with its log.
    pub fn start(binary: &str, folder: &Path, arguments: &[&str]) -> anyhow::Result<Relay> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let log = folder.join(format!("relay-{}.log", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new(binary);
        clear_environment(&mut command);
        command.args(["relay", "serve", "--aud", AUD, "--iss", ISS, "--log-level", "debug"]);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !arguments.contains(&"--issuer-keys-file") {
            command.arg("--issuer-keys-file").arg(folder.join("keys.json"));
        }
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = command.spawn().context("cannot start the relay")?;
        let watcher = Some(watch(&child)?);
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let said: Result<Value, _> = serde_json::from_str(&line);
        let address = said.ok().and_then(|said| said["listen"].as_str()?.parse().ok());
        let address = address.with_context(|| {
            format!("the relay said {line:?}\n{}", std::fs::read_to_string(&log).unwrap_or_default())
        })?;
        Ok(Relay { child, watcher, address, log })
    }

    /// Sends a signal to the relay.
    ///
    /// # Errors
    /// If there is no such process any more.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log of the relay.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end, and returns whether it was clean.
    ///
    /// # Errors
    /// If it does not end in time.
    pub fn wait(&mut self) -> anyhow::Result<bool> {
        let until = Instant::now() + WAIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("the relay does not end:\n{}", self.log())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mut watcher) = self.watcher.take() {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
    }
}

/// An issuer, which signs tokens.
#[derive(Debug)]
pub struct Issuer(IssuerKey);

impl Issuer {
    /// Creates an issuer, and writes its keyset `keys.json` into `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(folder: &Path) -> anyhow::Result<Issuer> {
        let issuer = Issuer::named("k1", 1)?;
        std::fs::write(folder.join("keys.json"), issuer.keyset())?;
        Ok(issuer)
    }

    /// Creates an issuer with a key of its own.
    ///
    /// # Errors
    /// Never, with a good name.
    pub fn named(kid: &str, seed: u8) -> anyhow::Result<Issuer> {
        Ok(Issuer(IssuerKey::from_seed(kid, &[seed; 32], default_signatures())?))
    }

    /// Returns the keyset of this key alone.
    pub fn keyset(&self) -> String {
        self.0.keyset_text()
    }

    /// Signs any claims; `kid` is set.
    pub fn sign(&self, claims: &Claims) -> String {
        let mut claims = claims.clone();
        self.0.kid().clone_into(&mut claims.kid);
        claims.sign(&self.0)
    }
}

/// Returns a name that no other test has.
pub fn unique(what: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns valid claims of an end of a channel, which must begin at `init_exp_s`.
pub fn claims(channel_id: &str, role: Role, now_s: i64, init_exp_s: i64) -> Claims {
    Claims {
        form: TokenForm::Fst1,
        kid: String::new(),
        aud: AUD.into(),
        iss: ISS.into(),
        channel_id: channel_id.into(),
        role: i64::from(role.number()),
        token_id: unique("token"),
        init_exp: init_exp_s,
        iat: now_s,
        exp: init_exp_s.min(now_s + 60),
        idle_timeout_s: None,
    }
}

/// Returns an instance id: the same for the same number.
pub fn instance(number: u8) -> String {
    b64u_encode(&[number; 24])
}

/// Returns the attach message of these claims.
pub fn attach(issuer: &Issuer, claims: &Claims, profile: Profile, instance_number: u8) -> Attach {
    Attach {
        channel_id: claims.channel_id.clone(),
        role: if claims.role == 2 { Role::Server } else { Role::Client },
        token: issuer.sign(claims),
        endpoint_instance_id: instance(instance_number),
        profile,
    }
}

/// Opens a connection to a relay.
///
/// # Panics
/// The relay rejects the upgrade: the test fails.
pub fn connect(address: SocketAddr, ca: Option<&Path>) -> RawWs {
    match RawWs::connect(address, ca, "/ws", &[]) {
        Ok(Ok(ws)) => ws,
        Ok(Err(status)) => panic!("the upgrade is refused with {status}"),
        Err(err) => panic!("no upgrade: {err:#}"),
    }
}
