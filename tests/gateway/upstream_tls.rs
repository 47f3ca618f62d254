//! TLS to upstreams, with a real nginx behind the gateway: a private authority, a client certificate of the gateway, HTTP/2 by
//! ALPN, and certificates that change while requests are in flight.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, free_port, program};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::Request;

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(30);

/// An nginx process with its address.
struct Nginx {
    address: SocketAddr,
    _daemon: Daemon,
}

/// Starts an nginx that reports its peer and the protocol, also over HTTP/2 if `protocols` says so. `authorities` verify clients.
fn nginx(folder: &Path, certificates: &Certificates, authorities: &Path, protocols: &str) -> Nginx {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let folder = tempfile::Builder::new().prefix("nginx-").tempdir_in(folder).unwrap().keep();
    let (cert, key) = &certificates.server;
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi;
  uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;
  server {{
    listen {address} ssl {protocols}; ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {1}; ssl_certificate_key {2}; ssl_client_certificate {3}; ssl_verify_client on;
    location / {{ return 200 \"$ssl_client_s_dn $server_protocol $ssl_protocol $host\"; }}
  }}
}}",
        folder.display(),
        cert.display(),
        key.display(),
        authorities.display()
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(program("nginx").unwrap());
    command.arg("-p").arg(&folder).arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file);
    let mut daemon = Daemon::start(command, &folder.join("output")).unwrap();
    daemon.wait_for(address).unwrap();
    Nginx { address, _daemon: daemon }
}

/// A gateway in front of `nginx`. `settings` come after its servers.
fn gateway(nginx: &Nginx, host: &str, settings: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['https://{host}:{}'], {settings} }} }}
",
        nginx.address.port()
    );
    Launch::new(BINARY, &config).start().unwrap()
}

fn ask(server: &Server) -> (u16, String) {
    let answer = Request::get("/").send(server.address()).unwrap();
    (answer.status, answer.text())
}

fn tls(ca: &Path, (cert, key): &(std::path::PathBuf, std::path::PathBuf)) -> String {
    format!("ca: {}, cert: {}, key: {}", ca.display(), cert.display(), key.display())
}

#[test]
fn a_server_of_a_private_authority_is_shown_our_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:shop.example,IP:127.0.0.1", "the gateway").unwrap();
    let nginx = nginx(folder.path(), &made, &made.ca, "");
    let shown = tls(&made.ca, &made.client);
    let server = gateway(&nginx, "127.0.0.1", &format!("tls: {{ {shown} }}"));
    for _ in 0..5 {
        assert_eq!(ask(&server), (200, "CN=the gateway HTTP/1.1 TLSv1.3 127.0.0.1".into()));
    }
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let metrics = request.send(server.admin()).unwrap().text();
    let handshakes = metrics.lines().find(|line| line.starts_with("sealway_upstream_handshakes_total")).unwrap();
    assert!(handshakes.ends_with(" 1"), "{handshakes}");
    // Without a certificate of the gateway nginx answers 400. With another server name or an unknown authority the gateway sends
    // nothing.
    let unknown = gateway(&nginx, "127.0.0.1", &format!("tls: {{ ca: {} }}", made.ca.display()));
    assert_eq!(ask(&unknown).0, 400);
    for settings in [
        format!("tls: {{ {shown}, server_name: other.example }}"),
        format!("tls: {{ cert: {}, key: {} }}", made.client.0.display(), made.client.1.display()),
    ] {
        assert_eq!(ask(&gateway(&nginx, "127.0.0.1", &settings)).0, 502, "{settings}");
    }
    let named = gateway(&nginx, "localhost", &format!("tls: {{ {shown}, server_name: shop.example }}"));
    assert_eq!(ask(&named).0, 200);
}

#[test]
fn http_2_is_spoken_where_it_is_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "IP:127.0.0.1", "the gateway").unwrap();
    let (both, old) = (nginx(folder.path(), &made, &made.ca, "http2"), nginx(folder.path(), &made, &made.ca, ""));
    let shown = tls(&made.ca, &made.client);
    for (nginx, protocol, spoken) in [
        (&both, "auto", "HTTP/2.0"),
        (&both, "http1", "HTTP/1.1"),
        (&both, "http2", "HTTP/2.0"),
        (&old, "auto", "HTTP/1.1"),
    ] {
        let server = gateway(nginx, "127.0.0.1", &format!("protocol: {protocol}, tls: {{ {shown} }}"));
        for _ in 0..3 {
            assert_eq!(ask(&server), (200, format!("CN=the gateway {spoken} TLSv1.3 127.0.0.1")), "{protocol}");
        }
    }
    assert_eq!(ask(&gateway(&old, "127.0.0.1", &format!("protocol: http2, tls: {{ {shown} }}"))).0, 502);
}

#[test]
fn another_certificate_is_shown_once_its_files_have_changed_and_no_request_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["first", "second"] {
        fs::create_dir(path(name)).unwrap();
    }
    let first = Certificates::make(&path("first"), "IP:127.0.0.1", "first").unwrap();
    let second = Certificates::make(&path("second"), "IP:127.0.0.1", "second").unwrap();
    let both = fs::read_to_string(&first.ca).unwrap() + &fs::read_to_string(&second.ca).unwrap();
    fs::write(path("both.pem"), both).unwrap();
    let in_force = (path("out.pem"), path("out.key"));
    fs::copy(&first.client.0, &in_force.0).unwrap();
    fs::copy(&first.client.1, &in_force.1).unwrap();
    for protocols in ["", "http2"] {
        let nginx = nginx(folder.path(), &first, &path("both.pem"), protocols);
        let server = gateway(&nginx, "127.0.0.1", &format!("tls: {{ {} }}", tls(&first.ca, &in_force)));
        let (from, to) = if protocols.is_empty() { ("first", &second) } else { ("second", &first) };
        assert!(ask(&server).1.starts_with(&format!("CN={from} ")));
        // The key does not match for a moment, and the loaded one stays in use.
        fs::copy(&to.client.0, &in_force.0).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        fs::copy(&to.client.1, &in_force.1).unwrap();
        let end = Instant::now() + WAIT;
        loop {
            let (status, text) = ask(&server);
            assert_eq!(status, 200, "{text}");
            if !text.starts_with(&format!("CN={from} ")) {
                break;
            }
            assert!(Instant::now() < end, "the old certificate is still shown");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
