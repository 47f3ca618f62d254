//! The servers of the matrix, on ports of their own, ended by their process ids.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::sdk::Sdk;
use crate::server::{self, Server, Stream};

/// A gateway that is the authority, and the service of each SDK.
pub(super) struct Fleet {
    /// The address at which sessions are agreed.
    pub(super) authority: String,
    /// The identity key that clients pin.
    pub(super) pin: String,
    pub(super) servers: Vec<Server>,
    folder: PathBuf,
}

impl Fleet {
    pub(super) fn start(sdks: &[Sdk], profile: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("sealway-matrix-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let secret = folder.join("authority.secret");
        write_secret(&secret)?;
        let config = folder.join("serve.yaml");
        std::fs::write(&config, CONFIG)?;
        let gateway = Server::gateway(profile, &config)?;
        let authority = gateway.url.clone();
        let pin = identity(&authority)?;
        let mut fleet = Fleet { authority, pin, servers: vec![gateway], folder };
        for sdk in sdks {
            let mut command = sdk.program("server")?;
            command.env("PORT", "0").env("AUTHORITY_URL", &fleet.authority).env("AUTHORITY_SECRET_FILE", &secret);
            let listening = |line: &str| line.strip_prefix("listening ").map(|url| url.trim().to_owned());
            fleet.servers.push(Server::start(sdk.name, command, Stream::Output, listening)?);
        }
        Ok(fleet)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.servers.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const CONFIG: &str = r#"listeners:
  - address: "127.0.0.1:0"
routes:
  - match: { path_prefix: ["/session/", "/v1/", "/v3/"], path: ["/health", "/ready", "/.well-known/sealway-keys"] }
    sessions: {}
  - match: { path_prefix: "/transaction/" }
    sealed: required
    upstream: shop
upstreams:
  shop: { servers: ["demo:"] }
sessions:
  store: "memory:"
  identity: { allow_generated: true, key_file: identity.keys }
  authority_secret_file: authority.secret
telemetry: { log_format: json, log_level: info }
"#;

/// Writes a secret, drawn anew for each fleet.
fn write_secret(path: &Path) -> anyhow::Result<()> {
    use std::fmt::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut bytes = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    Ok(())
}

/// Returns the key id that the authority publishes.
fn identity(url: &str) -> anyhow::Result<String> {
    let answer = server::send(url, "GET", "/.well-known/sealway-keys", &[], b"")?;
    let keys: Value = serde_json::from_slice(&answer.body).context("no key set")?;
    keys["keys"][0]["key_id"].as_str().map(str::to_owned).context("the key set has no key")
}
