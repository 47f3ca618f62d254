//! Fixtures for failures: networks with few ports, listeners with a full queue, expired certificates.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use sealway_testkit::generator::{Generator, Ran};
use sealway_testkit::scripted::ServerTls;
use socket2::{Domain, Socket, Type};

use crate::BINARY;

/// Returns the long flags in the output of `sealway load WORDS --help`.
pub(crate) fn help(words: &[&str]) -> Vec<String> {
    let said = Command::new(BINARY).arg("load").args(words).arg("--help").env_clear().output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    // `  -c, --concurrency <WORKERS>` and `      --rate <PER_SECOND>`; a description is further to the right.
    let flag = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        let line = if line.starts_with('-') && !line.starts_with("--") { line.split_once(", ")?.1 } else { line };
        let is_flag = indent <= 6 && line.starts_with("--");
        is_flag.then(|| line.split([' ', '[', '<', '=']).next().unwrap_or_default().to_owned())
    };
    let flags: Vec<String> = text.lines().filter_map(flag).collect();
    assert!(flags.len() > 2, "no flags were found in: {text}");
    flags
}

/// Returns an address on which no process listens.
pub(crate) fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A listener with a full queue, and the connections in it: another client gets no answer.
pub(crate) fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        held.push(stream);
        assert!(held.len() < 100, "the queue does not get full");
    }
    (listener, held)
}

/// A server certificate that was valid in 2020, and the file of its authority.
pub(crate) fn expired(folder: &Path) -> (ServerTls, String) {
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(authority, ca_key);
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2020, 2, 1);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = write("old-ca.pem", ca.pem());
    let certificate = (write("old.pem", certificate.pem()), write("old.key", key.serialize_pem()));
    (ServerTls { certificate, client_ca: None, resumes: true }, ca.display().to_string())
}

/// Returns shell commands that start a Sealway server on this port, and wait until it listens.
pub(crate) fn serve_in_background(port: u16) -> String {
    format!(
        "d=$(mktemp -d) && printf \"listeners: [{{ address: '127.0.0.1:{port}' }}]\\nroutes: [{{ match: {{}}, standalone: ok }}]\\nsessions: {{ store: 'memory:' }}\\n\" >$d/serve.yaml \
         && {{ {BINARY} serve --config $d/serve.yaml 2>$d/log & server=$!; trap 'kill $server; rm -rf $d' EXIT; \
         n=0; until grep -q serving $d/log; do n=$((n+1)); [ $n -lt 200 ] || {{ cat $d/log >&2; exit 9; }}; sleep 0.05; done; }}"
    )
}

/// Runs `sealway load` in a network namespace of its own, after these shell commands.
pub(crate) fn in_namespace(before: &str, arguments: &[&str]) -> Ran {
    // It also works without root on systems that permit user namespaces.
    let can = Command::new("unshare").args(["-r", "-n", "ip", "link", "set", "lo", "up"]).output();
    let can = can.expect("cannot run unshare; install the package util-linux");
    let why = String::from_utf8_lossy(&can.stderr);
    assert!(can.status.success(), "no network namespace (as root, or with the package iproute2 missing?): {why}");
    let script = format!("{before}; shift; \"$@\"");
    Generator::new(BINARY).by(&["unshare", "-r", "-n", "sh", "-c", &script, "sh", "-"]).run(arguments).unwrap()
}
