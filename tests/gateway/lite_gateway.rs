//! `serve --litegateway` in the place of Lite Gateway: its environment, ports, certificates, delay and standalone answer.
//! What it gets wrong is in lite_gateway_faults.rs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

/// The three listeners, on ports of their own, as [http, https, mtls]; certificates made by `sealway certs`.
struct Lite {
    server: Server,
    certificates: tempfile::TempDir,
}

fn start(variables: &[(&str, &str)], echo: bool) -> Lite {
    let certificates = tempfile::tempdir().unwrap();
    let made = Command::new(BINARY).arg("certs").arg(certificates.path()).arg("--force").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| certificates.path().join(name).display().to_string();
    let mut launch = Launch::litegateway(BINARY)
        .env("LITEGATEWAY_Proxy__ServerCertificatePath", &file("server.pfx"))
        .env("LITEGATEWAY_Proxy__TrustedCaPath", &file("ca.cert.pem"))
        .env("LITEGATEWAY_Proxy__OutboundClientCertificatePath", &file("client.pfx"));
    for name in ["HttpPort", "HttpsPort", "MtlsPort"] {
        launch = launch.env(&format!("LITEGATEWAY_Proxy__{name}"), &free_port().unwrap().to_string());
    }
    for (name, value) in variables {
        launch = launch.env(&format!("LITEGATEWAY_Proxy__{name}"), value);
    }
    if echo {
        launch = launch.argument("--standalone").argument("echo");
    }
    Lite { server: launch.start().unwrap(), certificates }
}

impl Lite {
    fn address(&self, index: usize) -> SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.server.addresses[index].port()).into()
    }

    /// What curl prints for a GET over TLS, and whether it succeeded.
    fn curl(&self, index: usize, arguments: &[&str]) -> (bool, String) {
        let folder: &Path = self.certificates.path();
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "--cacert"]).arg(folder.join("ca.cert.pem"));
        for argument in arguments {
            match argument.strip_prefix("file:") {
                Some(name) => curl.arg(folder.join(name)),
                None => curl.arg(argument),
            };
        }
        let done = curl.arg(format!("https://localhost:{}/any/path", self.address(index).port())).output();
        let done = done.expect("curl is missing: apt-get install curl");
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

const CLIENT: [&str; 4] = ["--cert", "file:client.cert.pem", "--key", "file:client.key.pem"];

#[test]
fn every_listener_answers_the_35_bytes_after_the_delay_and_mtls_only_to_a_certificate() {
    let lite = start(&[("SleepDurationMs", "300")], false);
    for request in [Request::get("/"), Request::post("/x/y?z", "body"), Request::new("DELETE", "/a")] {
        let begun = Instant::now();
        let answer = request.send(lite.address(0)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
        assert_eq!((answer.status, answer.header("content-length")), (200, Some("35")));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.text(), r#"{"status":"ok","mode":"standalone"}"#);
    }
    let standalone = (true, r#"{"status":"ok","mode":"standalone"}"#.to_owned());
    assert_eq!(lite.curl(1, &[]), standalone);
    assert_eq!(lite.curl(1, &["--http2"]), standalone);
    assert_eq!(lite.curl(2, &CLIENT), standalone);
    assert!(!lite.curl(2, &[]).0, "a client without a certificate got through");
    // A server's certificate is none of a client.
    assert!(!lite.curl(2, &["--cert", "file:server.cert.pem", "--key", "file:server.key.pem"]).0);
}

#[test]
fn an_echo_gives_the_body_back_under_its_type() {
    let lite = start(&[("SleepDurationMs", "0"), ("EnableHttps", "false"), ("EnableMtls", "false")], true);
    assert_eq!(lite.server.addresses.len(), 1);
    let answer = Request::post("/x", "a,b").header("Content-Type", "text/csv").send(lite.address(0)).unwrap();
    assert_eq!((answer.status, answer.text().as_str(), answer.header("content-type")), (200, "a,b", Some("text/csv")));
    let answer = Request::post("/x", "{}").send(lite.address(0)).unwrap();
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn the_upstreams_path_stands_before_the_requests_and_nothing_else_is_added() {
    let upstream =
        Upstream::answering(|_, body| answer("201 Created", &[("X-Two", "1"), ("X-Two", "2")], body)).unwrap();
    let url = format!("http://{}/base/", upstream.address);
    let variables =
        [("SleepDurationMs", "0"), ("EnableHttps", "false"), ("EnableMtls", "false"), ("UpstreamUrl", url.as_str())];
    let lite = start(&variables, false);
    let answer = Request::post("/a/b?c=d", "x").header("Host", "gateway.example").send(lite.address(0)).unwrap();
    assert_eq!((answer.status, answer.text().as_str(), answer.all("x-two")), (201, "x", vec!["1", "2"]));
    let (received, body) = upstream.next().unwrap();
    assert_eq!((received.line.as_str(), body.as_slice()), ("POST /base/a/b?c=d HTTP/1.1", b"x".as_slice()));
    let mut names: Vec<_> = received.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    assert_eq!(names, ["content-length", "host"]);
    assert_eq!(received.header("host"), Some(upstream.address.to_string().as_str()));
}

#[test]
fn connection_close_is_passed_on_when_asked_for() {
    let upstream = Upstream::answering(|_, _| answer("200 OK", &[], b"")).unwrap();
    let url = format!("http://{}", upstream.address);
    for (passes, sent) in [("true", Some("close")), ("false", None)] {
        let lite = start(
            &[
                ("SleepDurationMs", "0"),
                ("EnableHttps", "false"),
                ("EnableMtls", "false"),
                ("UpstreamUrl", &url),
                ("PassConnectionClose", passes),
            ],
            false,
        );
        Request::get("/").header("Connection", "close").send(lite.address(0)).unwrap();
        assert_eq!(upstream.next().unwrap().0.header("connection"), sent, "{passes}");
    }
}

#[test]
fn an_upstream_that_is_not_there_is_502() {
    let url = format!("http://127.0.0.1:{}", free_port().unwrap());
    let variables =
        [("SleepDurationMs", "0"), ("EnableHttps", "false"), ("EnableMtls", "false"), ("UpstreamUrl", url.as_str())];
    let lite = start(&variables, false);
    assert_eq!(Request::get("/").send(lite.address(0)).unwrap().status, 502);
}

#[test]
fn a_setting_that_is_wrong_is_named_and_nothing_starts() {
    let certificates = tempfile::tempdir().unwrap();
    let made = Command::new(BINARY).arg("certs").arg(certificates.path()).arg("--force").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for (name, value) in [
        ("HttpPort", "0"),
        ("EnableHttp", "yes"),
        ("UpstreamUrl", "not-absolute"),
        ("SleepDurationMs", "-5"),
        ("ServerCertificatePath", "/nowhere/server.pfx"),
        ("TrustedCaPath", "/nowhere/ca.pem"),
    ] {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--litegateway"]).env_clear();
        if value.starts_with("/nowhere") {
            // What is looked at before the file is right.
            command.env("LITEGATEWAY_Proxy__ServerCertificatePath", certificates.path().join("server.pfx"));
            for port in ["HttpPort", "HttpsPort", "MtlsPort"] {
                command.env(format!("LITEGATEWAY_Proxy__{port}"), free_port().unwrap().to_string());
            }
        }
        let done = command.env(format!("LITEGATEWAY_Proxy__{name}"), value).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(&format!("LITEGATEWAY_Proxy__{name}")), "{name} in {said}");
    }
}

#[test]
fn the_settings_file_of_certs_starts_it_by_its_pkcs12_file_and_an_empty_password_opens_one_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certs");
    let made = Command::new(BINARY).arg("certs").arg(&path).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let ports = [free_port().unwrap(), free_port().unwrap(), free_port().unwrap()];
    let start = |more: &str| {
        let script = format!(
            ". '{}'; export LITEGATEWAY_Proxy__HttpPort={} LITEGATEWAY_Proxy__HttpsPort={} LITEGATEWAY_Proxy__MtlsPort={}; \
             {more} exec '{BINARY}' serve --litegateway",
            path.join("mtls.env").display(),
            ports[0],
            ports[1],
            ports[2],
        );
        let mut command = Command::new("timeout");
        command
            .args(["-s", "INT", "5", "sh", "-c", &script])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        let done = command.env("RUST_LOG", "info").output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    // The PKCS#12 file counts: with a wrong password it does not start, and says which variable is at fault.
    let said = start("export LITEGATEWAY_Proxy__ServerCertificatePassword=wrong;");
    assert!(said.contains("LITEGATEWAY_Proxy__ServerCertificatePassword") && !said.contains("serving"), "{said}");
    let said = start("export LITEGATEWAY_Proxy__ServerCertificatePassword=;");
    assert!(said.contains("LITEGATEWAY_Proxy__ServerCertificatePassword") && !said.contains("serving"), "{said}");
    let open = path.join("server.pfx");
    let made = Command::new("openssl")
        .args(["pkcs12", "-export", "-passout", "pass:", "-inkey"])
        .arg(path.join("server.key.pem"))
        .arg("-in")
        .arg(path.join("server.cert.pem"))
        .arg("-out")
        .arg(&open)
        .output()
        .expect("install the package openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let said = start("export LITEGATEWAY_Proxy__ServerCertificatePassword=;");
    assert!(said.contains("serving"), "{said}");
}
