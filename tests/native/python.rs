//! Wire 3 from outside: `vectors/reference/native_client.py`, written from the spec in another language and with another crypto
//! library, against the real gateway. It uses every feature of the wire, and breaks requests on purpose.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use sealway_testkit::daemon::root;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Connection;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BINARY;

/// The longest wait of the service for the signal to continue.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service behind the gateway that `checks_client3.py` needs.
#[derive(Default)]
struct Mirror {
    echoes: AtomicUsize,
    asked_to_go: Mutex<bool>,
    go: Condvar,
}

impl Mirror {
    fn serve(&self, received: &RequestHead, connection: &mut Connection) -> anyhow::Result<Vec<u8>> {
        let body = connection.read_body(&received.headers, false)?;
        let (method, target) = received.method_and_target();
        match target.split('?').next().unwrap_or_default() {
            "/mirror/echo" => {
                self.echoes.fetch_add(1, Ordering::SeqCst);
                connection.write(&echo(received, method, target, &body))?;
            }
            "/mirror/stream" => self.stream(connection)?,
            "/mirror/go" => {
                *self.asked_to_go.lock().unwrap() = true;
                self.go.notify_all();
                connection.write(&answer("204 No Content", &[], b""))?;
            }
            "/mirror/nothing" => connection.write(&answer("204 No Content", &[], b""))?,
            "/mirror/count" => {
                let count = self.echoes.load(Ordering::SeqCst).to_string();
                connection.write(&answer("200 OK", &[], count.as_bytes()))?;
            }
            _ => connection.write(&answer("404 Not Found", &[], b"there is nothing"))?,
        }
        Ok(body)
    }

    /// Sends the rest of the answer only after a signal. A gateway that holds back the first event receives no other.
    fn stream(&self, connection: &mut Connection) -> anyhow::Result<()> {
        *self.asked_to_go.lock().unwrap() = false;
        connection.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        connection.write_chunk(b"data: 0\n\n")?;
        let asked = self.asked_to_go.lock().unwrap();
        let (asked, _) = self.go.wait_timeout_while(asked, PATIENCE, |asked| !*asked).unwrap();
        anyhow::ensure!(*asked, "nobody has the first event");
        connection.write_chunk(b"data: 1\n\n")?;
        connection.write_chunk(b"data: 2\n\n")?;
        connection.write_chunk(b"")
    }
}

fn echo(received: &RequestHead, method: &str, target: &str, body: &[u8]) -> Vec<u8> {
    let mut hex = String::with_capacity(2 * body.len());
    body.iter().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
    let said = json!({ "method": method, "target": target, "headers": received.headers, "body_hex": hex });
    let headers = [("Content-Type", "application/json"), ("X-Mirror", received.header("x-hidden").unwrap_or_default())];
    let mut bytes = answer("200 OK", &headers, said.to_string().as_bytes());
    if method == "HEAD" {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        bytes.truncate(end);
    }
    bytes
}

/// The private scalar of the token issuer in this test.
const ISSUER: &str = "00000000000000000000000000000000000000000000000000000000000051ea";

fn python(script: &str) -> Command {
    let python = root().join(".venv/bin/python");
    assert!(python.is_file(), "Python is missing from .venv/bin: run scripts/setup-tests.sh");
    let mut command = Command::new(python);
    command.arg(root().join("vectors/reference").join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs `sealway identity` and returns its output.
fn identity(arguments: &[&str]) -> String {
    let output = Command::new(BINARY).arg("identity").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the public key that `identity root` printed.
fn root_key(file: &Path) -> String {
    let said = identity(&["root", file.to_str().unwrap()]);
    let line = said.lines().find_map(|line| line.strip_prefix("root_public_key")).unwrap();
    line.trim().to_owned()
}

/// A gateway, with an identity key that a root signed.
struct Gateway {
    server: Server,
    key_id: String,
    root: String,
    folder: TempDir,
    _upstream: Upstream,
}

impl Gateway {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let jwks = python("tokens3.py").args(["jwks", ISSUER]).output().unwrap();
        assert!(jwks.status.success(), "{}", String::from_utf8_lossy(&jwks.stderr));
        std::fs::write(folder.path().join("jwks.json"), jwks.stdout).unwrap();
        let (keys, root_file) = (folder.path().join("a.identity"), folder.path().join("root.json"));
        let said = identity(&["generate", keys.to_str().unwrap()]);
        let key_id = said.split_whitespace().next().unwrap().to_owned();
        let root = root_key(&root_file);
        identity(&["sign", keys.to_str().unwrap(), "--root", root_file.to_str().unwrap(), "--expires-in", "90d"]);
        let mirror = Arc::new(Mirror::default());
        let upstream = Upstream::serve(move |received, connection| mirror.serve(received, connection)).unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/v3/, /.well-known/], path: [/v3/sessions] }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /mirror/ }}, sealed: required, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions:
  store: 'memory:'
  identity: {{ key_file: a.identity }}
  wire3: {{ inits_per_minute: 1000 }}
  tokens: {{ jwks_file: jwks.json }}
  authentication: {{ tenant_claim: tenant }}
",
            upstream.address
        );
        let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
        Gateway { server, key_id, root, folder, _upstream: upstream }
    }

    /// Runs a command of the client with the trust settings in `trust`. Returns its success and its lines of JSON.
    fn client(&self, trust: [&str; 2], arguments: &[&str]) -> (bool, Vec<Value>) {
        let mut client = python("client3.py");
        client.args(["--base", &format!("http://{}", self.server.address())]).args(trust).args(arguments);
        let Output { status, stdout, stderr } = client.output().unwrap();
        assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        let lines = String::from_utf8(stdout).unwrap();
        (status.success(), lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// Requires all checks to pass, and at least so many of them.
    fn self_check(&self, trust: [&str; 2], more: &[&str], least: u64) {
        let (succeeded, said) = self.client(trust, &[&["--self-check"], more].concat());
        let failed: Vec<String> = said.iter().filter(|line| line["ok"] == false).map(Value::to_string).collect();
        assert!(succeeded && failed.is_empty(), "{}", failed.join("\n"));
        let last = said.last().unwrap();
        assert_eq!(last["failed"], 0);
        assert!(last["passed"].as_u64().unwrap() >= least, "{last}");
    }
}

#[test]
fn a_client_written_from_the_spec_finds_all_of_wire_3_and_each_broken_request_refused() {
    let gateway = Gateway::start();
    gateway.self_check(["--pin", &gateway.key_id], &["--issuer-key", ISSUER], 30);
}

#[test]
fn a_client_that_trusts_the_root_finds_the_key_by_its_signature() {
    let gateway = Gateway::start();
    gateway.self_check(["--root", &gateway.root], &[], 26);
}

#[test]
fn a_client_that_trusts_another_key_or_root_takes_no_session() {
    let gateway = Gateway::start();
    let refused = |trust| {
        let (succeeded, said) = gateway.client(trust, &["GET", "/mirror/count"]);
        assert!(!succeeded, "{said:?}");
        said.last().unwrap()["refused"].clone()
    };
    let (stranger, other_root) = ("0".repeat(32), root_key(&gateway.folder.path().join("other.json")));
    assert_eq!(refused(["--pin", &stranger]), "key_retired");
    assert_eq!(refused(["--root", &other_root]), "key_untrusted");
}
