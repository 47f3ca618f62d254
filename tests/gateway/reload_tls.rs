//! Certificates and TLS settings that change in a running process: the gateway reloads them by itself or at SIGHUP, and never
//! uses invalid ones.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sealway_testkit::process::Launch;

use crate::BINARY;
use crate::reload::reload;
use crate::tls_ground::{Ground, copy, curl, s_client};

fn config(tls: &str) -> String {
    format!(
        "
listeners: [{{ name: https, address: '127.0.0.1:0', tls: {{ {tls} }} }}]
routes: [{{ match: {{}}, standalone: ok }}]
sessions: {{ store: 'memory:' }}
limits: {{ drain_ms: 5000 }}
"
    )
}

fn plain(ground: &Ground) -> String {
    format!("cert: '{}', key: '{}'", ground.cert("server.cert.pem"), ground.cert("server.key.pem"))
}

fn message<'a>(word: &'a str) -> impl Fn(&serde_json::Value) -> bool + 'a {
    move |line| line["message"].as_str().is_some_and(|text| text.starts_with(word))
}

const OK: &str = "{\"status\":\"ok\",\"mode\":\"standalone\"} 2 200";

#[test]
fn a_broken_file_is_reported_once_and_the_loaded_one_stays() {
    let ground = Ground::new();
    let mut server = Launch::new(BINARY, &config(&plain(&ground))).start().unwrap();
    let (ca, cert) = (ground.cert("ca.cert.pem"), ground.path("certs/server.cert.pem"));
    assert_eq!(curl(server.address(), &ca, &[]), OK);
    let good = std::fs::read(&cert).unwrap();
    let from = server.log().len();
    std::fs::write(ground.path("broken"), "-----BEGIN CERTIFICATE-----\nnot it\n-----END CERTIFICATE-----\n").unwrap();
    copy(&ground.text("broken"), &cert);
    let line = server.wait_for_log(from, message("certificates not reloaded")).unwrap();
    assert!(line["err"].as_str().unwrap().starts_with("cert: "), "{line}");
    // The gateway checks the file each second, and logs the problem once.
    let until = Instant::now() + Duration::from_millis(3500);
    while Instant::now() < until {
        assert_eq!(curl(server.address(), &ca, &[]), OK);
        std::thread::sleep(Duration::from_millis(200));
    }
    let said = server.log()[from..].iter().filter(|line| line.contains("certificates not reloaded")).count();
    assert_eq!(said, 1);
    // A reload of the configuration rejects it and names the setting.
    let line = reload(&mut server, &config(&plain(&ground)), "configuration not reloaded");
    assert!(line["err"].as_str().unwrap().contains("listeners[0].tls.cert"), "{line}");
    assert_eq!(curl(server.address(), &ca, &[]), OK);
    std::fs::write(ground.path("good"), good).unwrap();
    copy(&ground.text("good"), &cert);
    reload(&mut server, &config(&plain(&ground)), "configuration reloaded");
    assert_eq!(curl(server.address(), &ca, &[]), OK);
}

#[test]
fn a_renewed_certificate_is_served_without_a_signal() {
    let ground = Ground::new();
    let mut server = Launch::new(BINARY, &config(&plain(&ground))).start().unwrap();
    let from = server.log().len();
    let shown = || {
        let said = s_client(server.address(), &[]);
        said.lines().skip_while(|line| !line.contains("BEGIN CERTIFICATE")).nth(5).unwrap_or_default().to_owned()
    };
    let before = shown();
    ground.sealway(&["certs", "rotate", &ground.text("certs"), "--leaf", "server"]);
    let after = {
        server.wait_for_log(from, message("certificates reloaded")).unwrap();
        s_client(server.address(), &[])
    };
    assert!(!before.is_empty() && !after.contains(&before));
    assert_eq!(curl(server.address(), &ground.cert("ca.cert.pem"), &[]), OK);
}

/// A connection without a client certificate that has had an answer, and waits. The program ends when the connection is closed.
fn stays_open(to: SocketAddr) -> Child {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-connect", &to.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("cannot run openssl; install the package openssl");
    child.stdin.as_mut().unwrap().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    child
}

#[test]
fn clients_have_to_show_a_certificate_once_the_configuration_says_so_on_open_connections_too() {
    let ground = Ground::new();
    let mut server = Launch::new(BINARY, &config(&plain(&ground))).start().unwrap();
    let ca = ground.cert("ca.cert.pem");
    assert_eq!(curl(server.address(), &ca, &[]), OK);
    let mut open = stays_open(server.address());
    let mutual = format!("{}, client_ca: ['{ca}']", plain(&ground));
    let line = reload(&mut server, &config(&mutual), "configuration reloaded");
    assert_eq!(line["changed"], r#"["https"]"#, "{line}");
    assert!(!curl(server.address(), &ca, &[]).contains("200"));
    // A client that was admitted under the old rules does not stay connected.
    let until = Instant::now() + Duration::from_secs(30);
    while open.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the connection stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (cert, key) = (ground.cert("client.cert.pem"), ground.cert("client.key.pem"));
    assert_eq!(curl(server.address(), &ca, &["--cert", &cert, "--key", &key]), OK);
    // If a file cannot be loaded, no setting applies.
    let missing = format!("{}, client_ca: ['{}']", plain(&ground), ground.text("none.pem"));
    let line = reload(&mut server, &config(&missing), "configuration not reloaded");
    assert!(line["err"].as_str().unwrap().contains("listeners[0].tls.client_ca"), "{line}");
    assert_eq!(curl(server.address(), &ca, &["--cert", &cert, "--key", &key]), OK);
    reload(&mut server, &config(&plain(&ground)), "configuration reloaded");
    assert_eq!(curl(server.address(), &ca, &[]), OK);
}
