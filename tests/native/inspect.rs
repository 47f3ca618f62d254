//! `sealway inspect` between a client and a gateway: it decrypts sealed messages only with the key log, and changes no byte.
//! `spec/session-3.md#sealed-requests`.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

const ALLOWED: &str = "SEALWAY_KEY_LOG_ALLOWED";
const ORDER: &str = r#"{"schemeCode":"AEF","amount":5000}"#;

fn command(folder: &Path, allowed: &str) -> Command {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).env("XDG_STATE_HOME", folder).env(ALLOWED, allowed);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a program that is expected to exit by itself.
fn ended(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A program that serves instead of failing must not block the test forever.
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

/// A gateway in front of a service that echoes the body.
fn gateway() -> (Server, Upstream) {
    let upstream = Upstream::answering(|_, body| answer("201 Created", &[("x-own", "of-the-service")], body)).unwrap();
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/v3/, /.well-known/] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ identity: {{ allow_generated: true }} }}
",
        upstream.address
    );
    (Launch::new(BINARY, &config).start().unwrap(), upstream)
}

/// A running inspector with its output and URL.
struct Inspector {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Inspector {
    fn start(folder: &Path, log: &Path, gateway: &Server) -> Self {
        let to = format!("http://{}", gateway.address());
        let mut command = command(folder, "1");
        command.args(["inspect", "--to", &to, "--key-log"]).arg(log).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let url = first.split(' ').find(|word| word.starts_with("http://")).expect("where it listens").to_owned();
        Inspector { child, out, url }
    }

    /// Ends the inspector, and returns all of its output.
    fn stop(mut self) -> String {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn call(folder: &Path, url: &str, more: &[&str]) -> Output {
    command(folder, "1").args(["call", url]).args(more).output().unwrap()
}

fn in_order(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} is not there, or not in its place:\n{said}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn the_inspector_with_the_key_log_shows_requests_and_answers_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _service) = gateway();
    let log = folder.path().join("keys");
    let inspector = Inspector::start(folder.path(), &log, &gateway);
    let key_log = ["--key-log", log.to_str().unwrap()];
    let orders = format!("{}/orders?of=%2Fme", inspector.url);
    let done = call(folder.path(), &orders, &[&key_log[..], &["-d", ORDER, "-H", "X-Mine: of-the-client"]].concat());
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), ORDER), "{}", text(&done.stderr));

    // More frames than the inspector shows of one body, and not text.
    let (blob, back) = (folder.path().join("blob"), folder.path().join("back"));
    fs::write(&blob, vec![0xfe; 300_000]).unwrap();
    let data = format!("@{}", blob.display());
    let out = ["-d", &data, "-o", back.to_str().unwrap()];
    let done = call(folder.path(), &format!("{}/blob", inspector.url), &[&key_log[..], &out].concat());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(fs::read(&blob).unwrap(), fs::read(&back).unwrap());
    // Only in the headers.
    let done = call(folder.path(), &format!("{}/empty", inspector.url), &[&key_log[..], &["-H", "X-Two: 2"]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));

    let said = inspector.stop();
    in_order(
        &said,
        &[
            "POST /v3/sessions, not sealed",
            "201, not sealed",
            "> POST /orders?of=%2Fme, session S-",
            "> x-mine: of-the-client",
            &format!("> | {ORDER}\n"),
            "> end: a body of 34 bytes, frames: ",
            "< 201, session S-",
            "< x-own: of-the-service",
            &format!("< | {ORDER}\n"),
            "< end: a body of 34 bytes, frames: ",
            "DELETE /v3/sessions/S-",
            "< 204, session S-",
            "> POST /blob, session S-",
            " bytes: fefefefe",
            "> … cut here",
            "> end: a body of 300000 bytes, frames: ",
            "< end: a body of 300000 bytes, frames: ",
            "> GET /empty, session S-",
            "> x-two: 2",
            "> end: a body of 0 bytes",
        ],
    );
    assert!(!said.contains("broke off") && !said.contains("cannot be opened"), "{said}");
    let secrets = fs::read_to_string(&log).unwrap();
    for secret in secrets.lines().map(|line| line.split(' ').nth(2).unwrap()) {
        assert!(!said.contains(secret), "a secret was shown");
    }
}

#[test]
fn without_its_key_a_session_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _service) = gateway();
    let (log, other) = (folder.path().join("keys"), folder.path().join("other"));
    let inspector = Inspector::start(folder.path(), &log, &gateway);
    let orders = format!("{}/orders", inspector.url);
    let sealed = ["-d", ORDER, "-H", "X-Mine: of-the-client"];
    let calls: [&[&str]; 2] = [&[], &["--key-log", other.to_str().unwrap()]];
    for key_log in calls {
        let done = call(folder.path(), &orders, &[&sealed[..], key_log].concat());
        assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), ORDER), "{}", text(&done.stderr));
    }
    assert_eq!(fs::read_to_string(&other).unwrap().lines().count(), 1, "it was written, to another file");
    let said = inspector.stop();
    assert!(said.contains("> POST /orders, session S-") && said.contains("sealed, key not known"), "{said}");
    for secret in ["schemeCode", "of-the-client", "of-the-service", "x-mine", "x-own"] {
        assert!(!said.contains(secret), "{secret} is shown:\n{said}");
    }
}

#[test]
fn unsafe_settings_of_the_inspector_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
    let log = path.to_str().unwrap();
    let run = |allowed: &str, args: &[&str]| {
        let done = ended(command(folder.path(), allowed).args(["inspect", "--key-log", log]).args(args));
        assert!(done.status.code() == Some(1) && done.stdout.is_empty(), "{args:?}: {}", text(&done.stdout));
        text(&done.stderr)
    };
    let here = ["--to", "http://127.0.0.1:9"];
    for allowed in ["", "0", "yes"] {
        assert!(run(allowed, &here).contains(ALLOWED));
    }
    let done = ended(clear_environment(&mut Command::new(BINARY)).args(["inspect", "--key-log", log]).args(here));
    assert!(text(&done.stderr).contains(ALLOWED));
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        assert!(run("1", &["--to", "http://127.0.0.1:9", "--listen", listen]).contains("loopback"), "{listen}");
    }
    for to in ["http://192.0.2.1:80", "http://shop.example", "https://127.0.0.1:9", "http://0.0.0.0:9"] {
        assert!(run("1", &["--to", to]).contains("on this machine"), "{to}");
    }
    for mode in [0o640, 0o604] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(run("1", &here).contains("chmod 600"), "{mode:o}");
    }
}

#[test]
fn serve_has_no_key_log() {
    let folder = tempfile::tempdir().unwrap();
    let whole = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: {}, sessions: {} }, { match: { path: /x }, upstream: shop }]
upstreams: { shop: { servers: ['demo:'] } }
sessions: { identity: { allow_generated: true }, wire3: { renew_max_sec: 60 } }
limits: { stop_delay_ms: 0 }
";
    let file = folder.path().join("sealway.yaml");
    let check = |config: &str| {
        fs::write(&file, config).unwrap();
        command(folder.path(), "1").args(["config", "check"]).arg(&file).output().unwrap()
    };
    let done = check(whole);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let by_environment = command(folder.path(), "1")
        .args(["config", "check"])
        .arg(&file)
        .env("SEALWAY_SESSIONS__KEY_LOG", "keys")
        .output()
        .unwrap();
    assert!(by_environment.status.code() == Some(1) && text(&by_environment.stderr).contains("key_log"));
    let places = [
        ("\nlisteners:", "\nkey_log: keys\nlisteners:"),
        ("{ address:", "{ key_log: keys, address:"),
        ("{ match: {},", "{ key_log: keys, match: {},"),
        ("match: { path", "match: { key_log: keys, path"),
        ("sessions: {} }", "sessions: { key_log: keys } }"),
        ("shop: {", "shop: { key_log: keys,"),
        ("sessions: { identity", "sessions: { key_log: keys, identity"),
        ("identity: {", "identity: { key_log: keys,"),
        ("wire3: {", "wire3: { key_log: keys,"),
        ("limits: {", "limits: { key_log: keys,"),
    ];
    for (before, after) in places {
        assert!(whole.contains(before), "{before}");
        let config = whole.replacen(before, after, 1);
        let done = check(&config);
        let said = text(&done.stderr) + &text(&done.stdout);
        assert!(
            done.status.code() == Some(1) && said.contains("unknown key `key_log`") && said.contains("key_log"),
            "{after}: {said}"
        );
        let done = ended(command(folder.path(), "1").args(["serve", "--config"]).arg(&file));
        assert!(done.status.code() == Some(1) && text(&done.stderr).contains("key_log"), "{after}");
    }
}
