//! The command line as users see it: `demo`, `serve`, `call`, `config`, `completions`, and their error messages.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

const ORDER: &str = r#"{"schemeCode":"AEF","amount":5000}"#;

pub(crate) fn run(args: &[&str]) -> Output {
    command().args(args).stdin(Stdio::null()).output().unwrap()
}

/// Returns a command with its own file of known services.
fn command() -> Command {
    static STATE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let state = STATE.get_or_init(|| tempfile::tempdir().unwrap());
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).env("XDG_STATE_HOME", state.path());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn server() -> SocketAddr {
    static SETUP: OnceLock<(Server, Upstream)> = OnceLock::new();
    let (server, _) = SETUP.get_or_init(|| {
        let upstream = Upstream::answering(|_, body| answer("409 Conflict", &[], body)).unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/, /v3/], path: /.well-known/sealway-keys }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, service: {{ servers: ['http://{}'] }} }}
sessions: {{ anonymous_paths: [/transaction/purchase], identity: {{ allow_generated: true }} }}
",
            upstream.address
        );
        (Launch::new(BINARY, &config).start().unwrap(), upstream)
    });
    server.address()
}

fn url(path: &str) -> String {
    format!("http://{}{path}", server())
}

#[test]
fn the_demo_shows_success_and_the_summary_and_exits() {
    let output = run(&["demo", "--once", "--port", "0"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("Success: sealed, opened, served, sealed again"), "{said}");
    assert!(said.contains(r#""status":"SUCCESS""#) && said.contains("409 {\"code\":\"replayed\""), "{said}");
    assert!(said.contains("on wire 3") && said.contains("by X25519MLKEM768"), "{said}");
    assert!(said.contains("A client that pins another identity key refused"), "{said}");
    let summary = said.split("Performance Metrics Summary").nth(1).unwrap();
    let mut rest = summary;
    for name in [
        "POST /v3/sessions",
        "Total Round-Trip",
        "HTTP Request Time",
        "Client Crypto Operations",
        "- share",
        "- agree",
        "Server Timing",
        "- ecdh-compute",
        "- hkdf",
        "- sign",
        "- session-store",
        "- total",
        "POST /transaction/purchase",
        "Total Round-Trip",
        "HTTP Request Time",
        "Client Crypto Operations",
        "- aes-gcm-encrypt",
        "- aes-gcm-decrypt",
        "Server Timing",
        "- upstream",
        "- total",
    ] {
        let at = rest.find(name).unwrap_or_else(|| panic!("{name} is not in its place in:\n{summary}"));
        rest = &rest[at + name.len()..];
    }
    for line in summary.lines().filter(|line| line.ends_with(" ms")) {
        let number = line.trim_end_matches(" ms").rsplit(' ').next().unwrap();
        assert_eq!(number.split_once('.').map(|(_, decimals)| decimals.len()), Some(3), "{line}");
    }
}

#[test]
fn the_demo_serves_until_it_is_stopped() {
    let mut command = Command::new(BINARY);
    let mut demo = command.args(["demo", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let serving = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("Serving on ")).unwrap();
    let base = serving.split(' ').nth(2).unwrap().to_owned();
    let output = run(&["call", "POST", &format!("{base}/transaction/purchase"), "--data", ORDER]);
    let port = base.rsplit_once(':').unwrap().1.parse().unwrap();
    let page = |target: &str| {
        let mut connection = Connection::open(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        connection.write(&Request::get(target).bytes()).unwrap();
        connection.read_answer("GET").unwrap()
    };
    let (shop, script, missing) = (page("/"), page("/assets/index.js"), page("/assets/none.js"));
    let stopped = Command::new("kill").arg(demo.id().to_string()).status().unwrap();
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(demo.wait().unwrap().success() && stopped.success(), "{rest:?}");
    assert_eq!((shop.status, script.status, missing.status), (200, 200, 404));
    assert!(text(&shop.body).contains("./assets/index.js"), "the page is of this build: {}", text(&shop.body));
    assert!(shop.header("content-security-policy").unwrap().starts_with("default-src 'none'; script-src 'self'"));
    assert!(rest.iter().any(|line| line.contains(&format!("{base}/#pin="))), "a link that pins the key: {rest:?}");
    assert!(text(&output.stdout).contains("SUCCESS"), "{}", text(&output.stderr));
    assert!(rest.iter().any(|line| line.contains("sealway call POST")), "it says what to try: {rest:?}");
}

#[test]
fn a_port_in_use_is_named_with_the_flag_or_setting_that_chose_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["demo", "--once", "--port", &port]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("--port") && said.contains(&format!("port {port} is in use")), "{said}");

    let config =
        format!("listeners: [{{ address: '127.0.0.1:{port}' }}]\nroutes: [{{ match: {{}}, sessions: {{}} }}]\n");
    let said = Launch::new(BINARY, &config).start().unwrap_err().to_string();
    assert!(said.contains("listeners[0].address") && said.contains(&format!("port {port} is in use")), "{said}");
}

#[test]
fn a_purchase_is_called_on_every_wire_and_family() {
    for more in [
        &[][..],
        &["--wire", "3", "--suite", "P256"],
        &["--wire", "2"],
        &["--wire", "1"],
        &["--init", "v1"],
        &["--wire", "1", "--init", "anon"],
        &["--client-id", "me", "--ttl", "600"],
    ] {
        let purchase = url("/transaction/purchase");
        let args = [&["call", "POST", &purchase, "--data", ORDER][..], more].concat();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", text(&output.stderr));
        let receipt: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(receipt["status"], "SUCCESS", "{more:?}");
        let said = text(&output.stderr);
        assert!(said.is_empty() || said.contains("was met for the first time"), "quiet unless asked: {said}");
    }
}

#[test]
fn a_verbose_call_shows_headers_aad_and_timings() {
    for (wire, shown) in [("1", "x-aad"), ("2", "x-idempotency-key")] {
        let output = run(&["call", "POST", &url("/transaction/purchase"), "-d", ORDER, "-v", "--wire", wire]);
        let said = text(&output.stderr);
        for part in [shown, "AAD ", "x-kid: session:S-", "server-timing", "Performance Metrics Summary", "- hkdf"] {
            assert!(said.contains(part), "{part} is not in:\n{said}");
        }
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("standard output is the answer alone");
    }
}

/// Asserts that the trace shows the bytes of both directions, the context of the seal, and all times, none of them empty.
fn assert_lengths_and_times_are_told(said: &str, bound: &str) {
    assert!(said.contains(&format!("> AAD {bound}")), "{bound} is not in:\n{said}");
    for mark in ['>', '<'] {
        let line = said.lines().find(|line| line.starts_with(mark) && line.ends_with(" sealed bytes")).unwrap();
        assert!(line[2..].split(' ').next().unwrap().parse::<u64>().unwrap() > 16, "{line}");
    }
    for name in ["Total Round-Trip", "- aes-gcm-encrypt", "- aes-gcm-decrypt"] {
        let line = said.lines().rfind(|line| line.trim_start().starts_with(name)).unwrap();
        let ms: f64 = line.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
        assert!(ms > 0.0, "{line} in:\n{said}");
    }
}

#[test]
fn a_call_on_wire_3_names_the_services_key_and_pins_it() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known");
    let trust = format!("--trust-file={}", known.display());
    let purchase = url("/transaction/purchase");
    let args = ["call", &purchase, "--data", ORDER, &trust, "-v", "-H", "X-Own: 1"];
    let first = run(&args);
    let said = text(&first.stderr);
    let line = std::fs::read_to_string(&known).unwrap();
    let key_id = line.split([' ', ':']).find(|word| word.len() == 32).unwrap();
    for part in [
        "for the first time",
        key_id,
        "suite X25519MLKEM768",
        "recognised by none",
        "x-seal: 3",
        "> POST /transaction/purchase",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert!(!said.to_ascii_lowercase().contains("> x-own"), "{said}");
    assert_lengths_and_times_are_told(&said, "POST|/transaction/purchase|application/octet-stream|");
    let asked = run(&["call", "GET", &url("/health-of-the-shop"), &trust, "-v"]);
    assert_lengths_and_times_are_told(&text(&asked.stderr), "GET|/health-of-the-shop||");
    serde_json::from_slice::<serde_json::Value>(&first.stdout).expect("standard output is the answer alone");
    assert!(!text(&run(&args).stderr).contains("for the first time"));

    let out = folder.path().join("answer.json");
    let pin = ["call", "POST", &purchase, "-d", ORDER, "--pin", key_id, "-o", out.to_str().unwrap()];
    assert_eq!((run(&pin).status.code(), text(&run(&pin).stderr).as_str()), (Some(0), ""));
    assert!(std::fs::read_to_string(&out).unwrap().contains("SUCCESS"));

    // The file now has another key, so the known service counts as another one, and nothing is sent.
    let public = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1;
    let other = sealway_client::Pin::Key(public.public().into()).key_id();
    let origin = line.split(' ').next().unwrap();
    let forged = format!("{origin} {other}:{}\n", sealway_proto::wire::base64::encode(public.public()));
    std::fs::write(&known, forged).unwrap();
    let refused = run(&args);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && refused.stdout.is_empty(), "{said}");
    assert!(said.contains("this is another service, or an impostor"), "{said}");
    assert!(said.contains(&format!("sealway trust forget {origin}")), "{said}");

    // The remedy in the error message works.
    let listed = run(&["trust", "list", &trust]);
    assert_eq!((listed.status.code(), text(&listed.stdout)), (Some(0), format!("{origin} {other}\n")));
    let forgotten = run(&["trust", "forget", &purchase, &trust]);
    assert_eq!(forgotten.status.code(), Some(0), "{}", text(&forgotten.stderr));
    assert_eq!(text(&run(&["trust", "list", &trust]).stdout), "");
    assert!(text(&run(&args).stderr).contains("for the first time"));
    let gone = run(&["trust", "forget", "https://never.example", &trust]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("https://never.example:443 is not in"), "{}", text(&gone.stderr));
}

#[test]
fn a_key_log_is_written_by_flag_and_environment_together_and_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("keys");
    let output = command()
        .args(["call", &url("/transaction/purchase"), "-d", ORDER, "--key-log", log.to_str().unwrap()])
        .env("SEALWAY_KEY_LOG_ALLOWED", "1")
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("WARNING: the keys"), "{}", text(&output.stderr));
    let line = std::fs::read_to_string(&log).unwrap();
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    assert!(words.len() == 3 && words[0] == "SEALWAY3" && words[1].starts_with("S-") && words[2].len() == 64);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&log).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_call_takes_its_body_from_a_file_or_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.json");
    std::fs::write(&file, ORDER).unwrap();
    let from_file = format!("@{}", file.display());
    let output = run(&["call", "POST", &url("/transaction/purchase"), "--data", &from_file]);
    assert!(text(&output.stdout).contains("SUCCESS"), "{}", text(&output.stderr));
    let mut child = command()
        .args(["call", "post", &url("/transaction/purchase"), "--data", "@-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(ORDER.as_bytes()).unwrap();
    assert!(text(&child.wait_with_output().unwrap().stdout).contains("SUCCESS"));
}

#[test]
fn a_call_that_fails_says_why_and_exits_with_1() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = format!("http://{nobody}/x");
    for (args, said) in [
        (&["call", "GET", &url("/x"), "--wire", "2"][..], "POST alone"),
        (&["call", &url("/x"), "--wire", "2", "-H", "a: b"], "--header is of wire 3"),
        (&["call", &url("/x"), "--init", "v1", "--wire", "3"], "--init is of wires 1 and 2"),
        (&["call", &url("/x"), "--pin", "abc"], "neither a key id"),
        (&["call", &url("/x"), "--pin", "00112233445566778899aabbccddeeff"], "another service, or an impostor"),
        (&["call", &url("/x"), "--key-log", "/nowhere"], "SEALWAY_KEY_LOG_ALLOWED"),
        (&["call", "POST", "not a url"], "URL"),
        (&["call", "POST", &nobody], "no connection for"),
        (&["call", "POST", &url("/transaction/purchase"), "-d", "{}", "--wire", "2"], "CRYPTO_ERROR"),
        (&["call", "POST", &url("/service"), "-d", "x"], "409"),
        (&["call", "POST", &url("/x"), "--init", "anon"], "--init anon"),
        (&["call", "POST", &url("/x"), "--init", "v1", "--wire", "1"], "--init v1"),
        (&["call", "POST", &url("/x"), "--wire", "1", "--init", "anon"], "SESSION_FORBIDDEN"),
        (&["call", "POST", &url("/x"), "-d", "@/nowhere/at/all"], "--data"),
    ] {
        let output = run(args);
        let err = text(&output.stderr);
        assert!(output.status.code() == Some(1) && err.contains(said), "{args:?}: {err}");
    }
    // The command prints the service's own answer, whatever its status.
    assert_eq!(text(&run(&["call", "POST", &url("/service"), "-d", "what it said"]).stdout), "what it said");
    assert_eq!(run(&["call", "POST", &url("/x"), "--wire", "4"]).status.code(), Some(2));
}

#[test]
fn completions_are_printed_for_every_shell_and_the_version_names_the_crypto_module() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("sealway"), "{shell}");
    }
    let version = text(&run(&["--version"]).stdout);
    assert!(version.starts_with("sealway 0.") && version.to_lowercase().contains("aws-lc"), "{version}");
    for args in [&["--help"][..], &["serve", "--help"], &["call", "--help"]] {
        assert!(run(args).status.success());
    }
    assert_eq!(run(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn a_store_of_the_compat_environment_is_ignored_with_a_warning_where_the_configuration_names_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = "listeners: [{ address: '127.0.0.1:0' }]\nroutes: [{ match: {}, sessions: {} }]\nsessions: { store: 'memory:' }\n";
    for name in ["DATABASE_URL", "POSTGRES_HOST", "DATABASE_HOST", "REDIS_URL", "REDIS_HOST"] {
        let server = Launch::new(BINARY, config).folder(folder.path()).env(name, "nowhere").start().unwrap();
        let log = server.log().join("\n");
        assert!(log.contains(&format!("{name} is ignored: sessions.store")), "{log}");
    }
}

/// Runs a command with a standard output (and optionally a standard error) whose reader has closed before the start.
fn unread(args: &[&str], is_error_unread: bool, folder: &Path) -> Output {
    let (_, gone) = std::io::pipe().unwrap();
    let mut command = command();
    command.args(args).current_dir(folder).env("TMPDIR", folder).stdin(Stdio::null()).stderr(Stdio::piped());
    if is_error_unread {
        command.stderr(gone.try_clone().unwrap());
    }
    let child = command.stdout(gone).spawn().unwrap();
    // The command's copy of the pipe would keep it open.
    drop(command);
    child.wait_with_output().unwrap()
}

#[test]
fn a_command_ends_quietly_when_its_output_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let url = url("/transaction/purchase");
    for args in [
        &["demo", "--port", "0"][..],
        &["demo", "--once", "--port", "0"],
        &["completions", "bash"],
        &["certs", "certs"],
        &["identity", "generate", "identity.json"],
        &["relay", "keys"],
        &["channel", "key", "key"],
        &["channel", "listen", "--demo", "--forward", "tcp://127.0.0.1:1"],
        &["call", "-v", "POST", &url, "--data", ORDER],
    ] {
        let quiet = unread(args, false, folder.path());
        let said = text(&quiet.stderr);
        assert_eq!(quiet.status.code(), Some(141), "{args:?}: {said}");
        let is_told = ["panic", "nobody reads", "roken pipe"].iter().any(|told| said.contains(told));
        assert!(!is_told, "{args:?}: {said}");
    }
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("sealway-demo-")).collect();
    assert!(left.is_empty(), "the demo leaves {left:?}");
    let told = unread(&["call", "-v", "POST", &url, "--data", ORDER, "--output", "answer"], true, folder.path());
    assert!(told.status.success(), "a message on standard error counts as no result: {:?}", told.status);
}

#[test]
fn a_relay_serves_on_when_its_output_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(command().args(["relay", "keys"]).current_dir(folder.path()).output().unwrap().status.success());
    let (_, gone) = std::io::pipe().unwrap();
    let address = format!("127.0.0.1:{}", sealway_testkit::daemon::free_port().unwrap());
    let mut command = command();
    command.args(["relay", "serve", "--listen", &address, "--issuer-keys-file", "issuer-keys.json", "--aud", "tests"]);
    let mut relay = command.current_dir(folder.path()).stdout(gone.try_clone().unwrap()).stderr(gone).spawn().unwrap();
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed().as_secs() < 60 && relay.try_wait().unwrap().is_none(), "it does not serve");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // After its first line, which no process read.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(relay.try_wait().unwrap().is_none(), "it has ended");
    relay.kill().unwrap();
    relay.wait().unwrap();
}
