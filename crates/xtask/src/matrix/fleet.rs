//! The servers of the matrix, on ports of their own, ended by their process ids.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::sdk::Sdk;
use crate::shell;

/// Longest time for a server to report its address.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway that is the authority, and the service of each SDK.
pub(super) struct Fleet {
    /// The address at which sessions are agreed.
    pub(super) authority: String,
    /// The identity key that clients pin.
    pub(super) pin: String,
    pub(super) servers: Vec<Server>,
    folder: PathBuf,
}

/// One process that serves purchases.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) url: String,
    child: Child,
}

impl Fleet {
    pub(super) fn start(sdks: &[Sdk], profile: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("sealway-matrix-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let secret = folder.join("authority.secret");
        write_secret(&secret)?;
        let config = folder.join("serve.yaml");
        std::fs::write(&config, CONFIG)?;
        let mut command = shell::command(shell::target_dir().join(profile).join("sealway"));
        command.arg("serve").arg("--config").arg(&config);
        let gateway = Server::start("gateway", command, Stream::Errors, gateway_address)?;
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

/// The stream on which a program reports its address.
#[derive(PartialEq)]
enum Stream {
    Output,
    Errors,
}

impl Server {
    fn start(
        name: &str,
        mut command: Command,
        stream: Stream,
        address: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::null());
        if stream == Stream::Output {
            command.stdout(Stdio::piped());
        } else {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().with_context(|| format!("the server of {name} does not start"))?;
        let said: Box<dyn Read + Send> = match stream {
            Stream::Output => Box::new(child.stdout.take().context("no output")?),
            Stream::Errors => Box::new(child.stderr.take().context("no output")?),
        };
        let (to, lines) = channel();
        // Reads on, so that the server never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        // Kills the child if it never reports its address.
        let mut server = Server { name: name.to_owned(), url: String::new(), child };
        let mut last = String::new();
        while server.url.is_empty() {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    server.url = address(&line).unwrap_or_default();
                    last = line;
                }
                Err(_) => bail!("the server of {name} does not say where it serves; its last line: {last:?}"),
            }
        }
        Ok(server)
    }

    /// Returns the processor time that it has used, in user and system mode.
    pub(super) fn cpu_ms(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .with_context(|| format!("the server of {} has ended", self.name))?;
        // The name of the program may contain blanks; numbers begin after its parenthesis.
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).context("/proc/…/stat");
        // Linux has reported these in hundredths of a second on every architecture for decades.
        Ok((ticks(11)? + ticks(12)?) * 10.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the address in the log line that reports it.
fn gateway_address(line: &str) -> Option<String> {
    let said: Value = serde_json::from_str(line).ok()?;
    let fields = if said["fields"].is_object() { &said["fields"] } else { &said };
    if fields["message"] != "serving" {
        return None;
    }
    let addresses = fields["addresses"].as_str()?;
    let first = addresses.trim_matches(['[', ']']).split(',').next()?;
    Some(format!("http://{}", first.trim()))
}

/// Returns the key id that the authority publishes.
fn identity(url: &str) -> anyhow::Result<String> {
    let mut connection = TcpStream::connect(url.trim_start_matches("http://"))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(b"GET /.well-known/sealway-keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let json = body.find('{').zip(body.rfind('}')).and_then(|(from, to)| body.get(from..=to)).unwrap_or_default();
    let keys: Value = serde_json::from_str(json).with_context(|| format!("no key set: {answer:?}"))?;
    keys["keys"][0]["key_id"].as_str().map(str::to_owned).context("the key set has no key")
}
