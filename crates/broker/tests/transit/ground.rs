//! A broker with the transit API on a port of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_broker::audit::Audit;
use sealway_broker::callers::Callers;
use sealway_broker::keys::{Kek, Store};
use sealway_broker::profile::{Leniency, Live, LiveFile};
use sealway_broker::service::{Service, Turns};
use sealway_broker::wire::transit::{self, Tokens, Transit};
use sealway_broker::wire::{Options, Wires};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::shutdown::Shutdown;
use serde_json::Value;
use tempfile::TempDir;

const PROFILES: &str = "\
- {Name: Aes, Settings: {CryptoLibrary: native}, API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 256}}}
- {Name: Short, Settings: {CryptoLibrary: native}, API: {EncryptData: {EncryptAlg: aes-gcm, KeySize: 128, TagLength: 96}}}
- {Name: ChaCha, Settings: {CryptoLibrary: native}, API: {EncryptData: {EncryptAlg: chacha20-poly1305}}}
- {Name: Ed25519, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ed25519}}}
- {Name: MlDsa44, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ml-dsa-44}}}
- {Name: MlDsa87, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ml-dsa-87}}}
- {Name: P256, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, Curve: P-256, HashAlg: sha-256, SignatureFormat: der}}}
- {Name: P256Raw, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, Curve: P-256, HashAlg: sha-256, SignatureFormat: raw}}}
- {Name: P384, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, Curve: P-384, HashAlg: sha-384, SignatureFormat: der}}}
- {Name: P521, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ecdsa, Curve: P-521, HashAlg: sha-512, SignatureFormat: der}}}
- {Name: Pss, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: rsa-pss, HashAlg: sha-256}}}
- {Name: Pkcs1, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: rsa, HashAlg: sha-512}}}
- {Name: Mac, Settings: {CryptoLibrary: native}, API: {Mac: {MacAlg: hmac-sha-256}}}
- {Name: Mac512, Settings: {CryptoLibrary: native}, API: {Mac: {MacAlg: hmac-sha-512}}}
- {Name: Hash, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}
- {Name: Sha3, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha3-512}}}
- {Name: Random, Settings: {CryptoLibrary: native}, API: {Random: true}}
";

const CALLERS: &str = "\
- {Token: admin, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
- {Token: billing, Profiles: [Aes], Operations: [EncryptData], Keys: ['billing-*']}
- {Any: true, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
";

/// A broker that serves until it is dropped.
pub(crate) struct Ground {
    pub(crate) folder: TempDir,
    pub(crate) address: SocketAddr,
    /// Token whose rule allows everything.
    pub(crate) admin: String,
    /// Token that encrypts with some keys.
    pub(crate) billing: String,
    shutdown: Shutdown,
    runtime: tokio::runtime::Runtime,
}

fn file(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

impl Ground {
    pub(crate) fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (admin, admins) = transit::draw("admin").unwrap();
        let (billing, billings) = transit::draw("billing").unwrap();
        let tokens = file(folder.path(), "tokens.yaml", &format!("{admins}{billings}"));
        let callers = file(folder.path(), "callers.yaml", CALLERS);
        let profiles = file(folder.path(), "Profiles.yaml", PROFILES);
        let kek = Kek::parse("test", &format!("first {}", "4b".repeat(32))).unwrap();
        let service = Service {
            profiles: Arc::new(Live::load(profiles, Leniency::Strict).unwrap()),
            callers: Some(Arc::new(LiveFile::<Callers>::load(callers, Leniency::Strict).unwrap())),
            audit: Some(Audit::open(&folder.path().join("audit.jsonl")).unwrap()),
            keys: Some(Store::open(&folder.path().join("keys"), kek).unwrap()),
            clock: Arc::new(SystemClock),
            owner: Callers::only(1),
            is_fips: false,
            turns: Turns::default(),
        };
        let options = Options { has_earlier_wires: true, dev: None, calls_memory: Options::CALLS_MEMORY };
        let wires = Arc::new(Wires::new(Arc::new(service), options));
        let tokens = Arc::new(LiveFile::<Tokens>::load(tokens, Leniency::Strict).unwrap());
        let shutdown = Shutdown::new();
        let address = {
            let _in = runtime.enter();
            let api = Transit::new(wires, tokens, transit::MOUNT);
            transit::serve(api, "127.0.0.1:0".parse().unwrap(), &shutdown).unwrap()[0]
        };
        Ground { folder, address, admin, billing, shutdown, runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request with the token of the administrator below the mount, and returns its data.
    pub(crate) fn data(&self, path: &str, body: &str) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer["data"].clone()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.ask("POST", &format!("/v1/transit/{path}"), &[("X-Vault-Token", &self.admin)], body.as_bytes())
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let (status, body) = self.exchange(&[head.as_bytes(), body].concat());
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Writes bytes to a connection and reads the answer to its end.
    pub(crate) fn exchange(&self, request: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        (status, answer.get(end + 4..).unwrap_or_default().to_vec())
    }

    pub(crate) fn audit(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let shutdown = self.shutdown.clone();
        self.runtime.block_on(async move { shutdown.drain(std::time::Duration::from_secs(10)).await });
    }
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The first error of an answer.
pub(crate) fn error(answer: &Value) -> &str {
    answer["errors"][0].as_str().unwrap_or_default()
}
