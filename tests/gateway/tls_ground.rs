//! A folder of certificates, and a `sealway serve` whose listeners use it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sealway_testkit::process::{Launch, Server};

use crate::BINARY;

pub(crate) struct Ground {
    root: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let ground = Ground { root: tempfile::tempdir().unwrap() };
        ground.sealway(&["certs", &ground.text("certs")]);
        std::fs::write(ground.path("password"), "changeit\n").unwrap();
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns a file in the folder of certificates, or in another folder below the root.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn cert(&self, name: &str) -> String {
        self.text(&format!("certs/{name}"))
    }

    pub(crate) fn sealway(&self, arguments: &[&str]) {
        let done = Command::new(BINARY).args(arguments).env_clear().stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Starts three listeners: one requests no client certificate, one requires it, one requires it and TLS 1.3.
    pub(crate) fn serve(&self) -> Serving {
        let (cert, key) = (self.cert("server.cert.pem"), self.cert("server.key.pem"));
        let clients = format!("client_ca: ['{}'], crl: ['{}']", self.cert("ca.cert.pem"), self.cert("ca.crl.pem"));
        let config = format!(
            "listeners:
  - {{ name: https, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}' }} }}
  - {{ name: mutual, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}', {clients} }} }}
  - {{ name: strict, address: '127.0.0.1:0', tls: {{ cert: '{}', password_file: '{}', min_version: '1.3', {clients} }} }}
routes: [{{ match: {{}}, standalone: ok }}]
sessions: {{ store: 'memory:' }}
",
            self.cert("server.pfx"),
            self.text("password")
        );
        let server = Launch::new(BINARY, &config).start().unwrap();
        let [https, mutual, strict] = server.addresses[..] else { panic!("{:?}", server.addresses) };
        Serving { server, https, mutual, strict }
    }
}

pub(crate) struct Serving {
    pub(crate) server: Server,
    pub(crate) https: SocketAddr,
    pub(crate) mutual: SocketAddr,
    pub(crate) strict: SocketAddr,
}

/// Runs OpenSSL's client with a request. Returns its output, including the server's answers.
pub(crate) fn s_client(to: SocketAddr, more: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &to.to_string(), "-servername", "localhost", "-ign_eof"]).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cannot run openssl; install the package openssl");
    // The connection may be closed already, because the server rejected it.
    let _ = child.stdin.take().unwrap().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let done = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

/// Runs curl. Returns the body followed by `version status`, or curl's error.
pub(crate) fn curl(to: SocketAddr, ca: &str, more: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--cacert",
        ca,
        "-w",
        " %{http_version} %{http_code}",
    ]);
    command.args(more).arg(format!("https://localhost:{}/", to.port()));
    command.args(["--resolve", &format!("localhost:{}:127.0.0.1", to.port())]);
    let done = command.stdin(Stdio::null()).output().expect("cannot run curl; install the package curl");
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

pub(crate) fn copy(from: &str, to: &Path) {
    // Replaced as operators do: written beside it, then renamed.
    let new = to.with_extension("new");
    std::fs::copy(from, &new).unwrap();
    std::fs::rename(new, to).unwrap();
}
