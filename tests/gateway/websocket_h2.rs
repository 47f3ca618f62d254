//! WebSocket over HTTP/2 (RFC 8441), from clients and to services: `tests/websocket_peer`, of Go's HTTP/1.1 and HTTP/2, is both.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{program, root};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(60);

/// Builds the peer from its source. Tests are parallel processes, and a second build of the same source is cheap.
fn binary() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = std::fs::File::create(folder.join("websocket_peer.lock")).unwrap();
    lock.lock().unwrap();
    let binary = folder.join("websocket_peer");
    let mut go = Command::new(program("go").unwrap());
    go.args(["build", "-buildvcs=false", "-o"]).arg(&binary).arg(".");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/websocket_peer");
    let built = go.current_dir(source).output().unwrap();
    assert!(built.status.success(), "go build: {}", String::from_utf8_lossy(&built.stderr));
    binary
}

/// A process of the peer. It is killed when dropped.
struct Peer {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Peer {
    fn start(arguments: &[&str], accepts_connect: bool) -> Peer {
        let mut command = Command::new(binary());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        // Go's server announces extended CONNECT with it alone.
        command.env("GODEBUG", if accepts_connect { "http2xconnect=1" } else { "http2xconnect=0" });
        let mut child = command.spawn().unwrap();
        let (to, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap().take(1 << 20));
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| to.send(line).is_ok()));
        Peer { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(WAIT).expect("the peer said nothing more")
    }

    /// Waits for the end, which must be a success, and returns the lines.
    fn done(mut self) -> Vec<String> {
        let lines = std::iter::from_fn(|| self.lines.recv_timeout(2 * WAIT).ok()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}, {lines:?}: its reason is on standard error");
        lines
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the service, and returns its address.
fn service(accepts_connect: bool) -> (Peer, SocketAddr) {
    let peer = Peer::start(&["serve"], accepts_connect);
    let address = peer.line().parse().unwrap();
    (peer, address)
}

fn gateway(service: SocketAddr, settings: &str) -> Server {
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes:
  - {{ match: {{ path_prefix: /sealed/ }}, sealed: required, upstream: service }}
  - {{ match: {{ path_prefix: /optional/ }}, sealed: optional, upstream: service }}
  - {{ match: {{ path_prefix: /none/ }}, upgrade_protocols: [], upstream: service }}
  - {{ match: {{ path_prefix: /standalone/ }}, standalone: ok }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{service}'] {settings} }} }}
sessions: {{ store: 'memory:' }}
limits: {{ drain_ms: 500 }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

fn probe(server: &Server, version: &str, protocol: &str, paths: &[&str]) -> Vec<String> {
    let address = server.address().to_string();
    Peer::start(&[&["probe", version, &address, protocol], paths].concat(), false).done()
}

fn tunnels(server: &Server) -> Option<f64> {
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = request.send(server.admin()).unwrap().text();
    let line = text.lines().find(|line| line.starts_with("sealway_tunnels{"))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

fn wait_for_no_tunnel(server: &Server) {
    let until = Instant::now() + WAIT;
    while tunnels(server) != Some(0.0) {
        assert!(Instant::now() < until, "{:?} tunnels stay", tunnels(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The versions of a client, the settings of the upstream, whether the service accepts extended CONNECT, and how the request
/// arrives there.
const MATRIX: [(&str, &str, bool, &str); 6] = [
    ("h1", ", protocol: http1", true, "HTTP/1.1 GET websocket key=1 version=13 accept=0 upgrade=1"),
    ("h2", ", protocol: http1", true, "HTTP/1.1 GET websocket key=1 version=13 accept=0 upgrade=1"),
    ("h1", ", protocol: http2", true, "HTTP/2.0 CONNECT websocket key=0 version=13 accept=0 upgrade=0"),
    ("h2", ", protocol: http2", true, "HTTP/2.0 CONNECT websocket key=0 version=13 accept=0 upgrade=0"),
    // A service of HTTP/2 without extended CONNECT is asked over HTTP/1.1.
    ("h1", ", protocol: http2", false, "HTTP/1.1 GET websocket key=1 version=13 accept=0 upgrade=1"),
    ("h2", ", protocol: http2", false, "HTTP/1.1 GET websocket key=1 version=13 accept=0 upgrade=1"),
];

#[test]
fn messages_close_codes_half_closes_and_aborts_cross_between_all_versions_of_client_and_service() {
    for (version, settings, accepts_connect, view) in MATRIX {
        let (_service, address) = service(accepts_connect);
        let server = gateway(address, settings);
        let client = Peer::start(&["converse", version, &server.address().to_string()], false);
        assert_eq!(client.done(), [view], "{version}{settings}");
        wait_for_no_tunnel(&server);
    }
}

#[test]
fn tunnels_that_nobody_reads_stall_no_other_tunnel_of_their_connection() {
    // Go's server has one window for all tunnels of a connection, and stalls itself if it leaves them unread.
    for (version, settings, silent) in
        [("h2", ", protocol: http1", "2"), ("h1", ", protocol: http2", "0"), ("h2", ", protocol: http2", "0")]
    {
        let (_service, address) = service(true);
        let server = gateway(address, settings);
        let client = Peer::start(&["stall", version, &server.address().to_string(), silent], false);
        assert!(client.done().is_empty(), "{version}{settings}");
    }
}

#[test]
fn an_answer_that_is_no_tunnel_reaches_the_client_and_no_success_does() {
    for (settings, accepts_connect) in [(", protocol: http1", true), (", protocol: http2", true)] {
        let (_service, address) = service(accepts_connect);
        let server = gateway(address, settings);
        assert_eq!(probe(&server, "h2", "websocket", &["/denied", "/echo", "/standalone/"]), ["403", "open", "501"]);
        assert_eq!(probe(&server, "h1", "websocket", &["/denied", "/echo", "/standalone/"]), ["403", "open", "200"]);
        // The route does not allow it. HTTP/1.1 goes on without the `Upgrade`; a stream of HTTP/2 cannot.
        for protocol in ["chat", "tls", "h2c", "connect-udp"] {
            assert_eq!(probe(&server, "h2", protocol, &["/echo"]), ["501"], "{protocol}");
        }
        let list = probe(&server, "h2", "websocket, chat", &["/echo"]);
        assert!(list[0].contains("PROTOCOL_ERROR"), "{list:?}: it is no token");
        assert_eq!(probe(&server, "h2", "websocket", &["/none/echo"]), ["501"]);
        assert_eq!(probe(&server, "h1", "websocket", &["/none/echo"]), ["200"]);
        wait_for_no_tunnel(&server);
    }
}

#[test]
fn a_service_that_ignores_the_upgrade_opens_no_tunnel() {
    let (_service, address) = service(true);
    let server = gateway(address, ", protocol: http1");
    assert_eq!(probe(&server, "h2", "websocket", &["/plain"]), ["501"]);
    assert_eq!(probe(&server, "h1", "websocket", &["/plain"]), ["200"]);
    assert_eq!(tunnels(&server), None);
}

#[test]
fn a_sealed_route_answers_an_extended_connect_as_it_answers_an_upgrade() {
    let upstream = Upstream::answering(|_, _| answer("200 OK", &[], b"reached")).unwrap();
    let server = gateway(upstream.address, "");
    let paths = ["/sealed/pay", "/sealed/%70ay", "/sealed//pay", "//sealed/pay", "/%73ealed/pay", "/x/../sealed/pay"];
    let over_h1 = probe(&server, "h1", "websocket", &paths);
    assert_eq!(probe(&server, "h2", "websocket", &paths), over_h1);
    assert_eq!(over_h1, ["405", "405", "405", "400", "400", "400"], "a GET carries no seal; a disguise is no route");
    assert!(upstream.is_untouched());
}

#[test]
fn a_service_that_answers_another_key_is_a_bad_gateway() {
    let (_service, address) = service(true);
    let server = gateway(address, ", protocol: http1");
    assert_eq!(probe(&server, "h2", "websocket", &["/otherkey"]), ["502"]);
}

#[test]
fn a_tunnel_on_a_stream_ends_when_idle_and_when_the_operator_closes_its_connection() {
    for settings in [", protocol: http1", ", protocol: http2"] {
        let (_service, address) = service(true);
        let server = gateway(address, &format!("{settings}, timeouts: {{ idle_ms: 400 }}"));
        let client = Peer::start(&["hold", "h2", &server.address().to_string()], false);
        assert_eq!((client.line(), client.line()), ("open".into(), "reset CANCEL".into()));
        wait_for_no_tunnel(&server);

        let server = gateway(address, settings);
        let client = Peer::start(&["hold", "h2", &server.address().to_string()], false);
        assert_eq!(client.line(), "open");
        let ask = |method: &str, path: &str| {
            let request = Request::new(method, path).header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
            request.send(server.admin()).unwrap()
        };
        let list = ask("GET", "/admin/connections?listener=main").json();
        assert_eq!(list[0]["protocol"], "h2", "{list:#}");
        assert!(ask("DELETE", &format!("/admin/connections/{}?listener=main", list[0]["id"])).status < 300);
        let end = client.line();
        assert!(end.starts_with("reset CANCEL") || end.starts_with("ended"), "{end}");
        wait_for_no_tunnel(&server);
    }
}

#[test]
fn a_reload_keeps_a_tunnel_and_a_drain_ends_it() {
    let (_service, address) = service(true);
    let mut server = gateway(address, ", protocol: http2");
    let client = Peer::start(&["hold", "h2", &server.address().to_string()], false);
    assert_eq!(client.line(), "open");
    server.hang_up().unwrap();
    server.wait_for_log(0, |line| line["message"].as_str().is_some_and(|text| text.contains("reload"))).unwrap();
    assert_eq!(tunnels(&server), Some(1.0));
    server.terminate().unwrap();
    let end = client.line();
    assert!(end.starts_with("reset") || end.starts_with("ended"), "{end}");
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_browser_opens_a_websocket_over_the_connection_of_http2_that_has_loaded_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "nobody").unwrap();
    let (cert, key) = (made.server.0.display(), made.server.1.display());
    for (protocol, view) in [("http1", "HTTP/1.1 GET"), ("http2", "HTTP/2.0 CONNECT")] {
        let (_service, address) = service(true);
        let config = format!(
            "
listeners: [{{ name: main, address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}' }} }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes:
  - {{ match: {{ path: / }}, standalone: ok }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{address}'], protocol: {protocol} }} }}
"
        );
        let server = Launch::new(BINARY, &config).start().unwrap();
        let drive = root().join("tests/dashboard");
        assert!(
            drive.join("node_modules/playwright-core").is_dir(),
            "playwright-core is missing and this test needs it: run scripts/setup-tests.sh"
        );
        let asked = serde_json::json!({
            "url": format!("https://localhost:{}/", server.address().port()),
            "admin": format!("http://{}/admin/connections?listener=main", server.admin()),
            "token": ADMIN_TOKEN,
            "browser": program("chromium").unwrap(),
        });
        let mut node = Command::new(program("node").unwrap());
        node.arg("websocket.mjs").arg(asked.to_string()).current_dir(drive).stdin(Stdio::null());
        let done = node.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        assert!(said.starts_with(view), "{said}");
    }
}
