//! The broker's protocols, checked by a client that shares no code with it: grpcio, with messages that Google's own compiler
//! generates from spec/*.proto. Real processes on sockets of their own.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sealway_broker::wire::METHODS;
use sealway_testkit::daemon::{Daemon, clear_environment, free_port, program, root};
use tempfile::TempDir;

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(30);

/// A broker and the folder with its files.
struct Broker {
    ground: TempDir,
    daemon: Daemon,
}

/// Returns the socket path of a broker in this folder.
fn socket(ground: &Path) -> PathBuf {
    ground.join("run/broker.sock")
}

fn command(ground: &Path) -> Command {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).args(["broker", "serve", "--socket"]).arg(socket(ground));
    command.arg("--profiles").arg(ground.join("Profiles.yaml"));
    command
}

/// Creates a folder with profiles and a key-encryption key.
fn ground() -> TempDir {
    let ground = tempfile::tempdir().unwrap();
    let profiles = ground.path().join("Profiles.yaml");
    std::fs::copy(root().join("tests/broker_wires/Profiles.yaml"), &profiles).unwrap();
    let kek = ground.path().join("kek");
    std::fs::write(&kek, format!("test {}\n", "5a".repeat(32))).unwrap();
    for file in [profiles, kek] {
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    }
    ground
}

/// Starts the broker, and waits until it listens.
fn launch(ground: &Path, mut command: Command) -> Daemon {
    let log = ground.join("log");
    command.env("CRYPTO_BROKER_LOG_OUTPUT", "stderr");
    let mut daemon = Daemon::start(std::mem::replace(&mut command, Command::new(BINARY)), &log).unwrap();
    let begin = Instant::now();
    while UnixStream::connect(socket(ground)).is_err() {
        assert!(daemon.ended().unwrap().is_none() && begin.elapsed() < WAIT, "it does not listen: {}", daemon.tail());
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon
}

impl Broker {
    /// Starts a broker with keys, an audit log, and all protocols.
    fn start(arguments: &[&str]) -> Broker {
        let ground = ground();
        let mut command = command(ground.path());
        command.arg("--keys").arg(ground.path().join("keys")).arg("--kek-file").arg(ground.path().join("kek"));
        command.arg("--audit").arg(ground.path().join("audit.jsonl")).args(arguments);
        let daemon = launch(ground.path(), command);
        Broker { ground, daemon }
    }

    fn socket(&self) -> PathBuf {
        socket(self.ground.path())
    }

    /// Runs the client against the broker.
    fn call(&self, parts: &[&str]) {
        // The Python environment with the packages, and not the system's Python.
        let python = root().join(".venv/bin/python");
        assert!(python.is_file(), "Python is missing from .venv/bin: run scripts/setup-tests.sh");
        let mut client = Command::new(python);
        client.arg(root().join("tests/broker_wires/main.py")).arg(self.socket()).args(parts);
        let Output { status, stdout, stderr } = client.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{said}");
        assert_eq!(said.matches("ok ").count(), parts.len(), "{said}");
    }

    /// Stops it, and returns its log.
    fn stop(mut self) -> String {
        self.daemon.signal(Signal::TERM).unwrap();
        let status = self.daemon.wait().unwrap();
        let log = std::fs::read_to_string(self.ground.path().join("log")).unwrap();
        assert!(status.success(), "{log}");
        assert!(!self.socket().exists());
        log
    }
}

fn run(arguments: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } = Command::new(BINARY).args(arguments).output().unwrap();
    (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn every_wire_is_answered_as_its_clients_expect() {
    let broker = Broker::start(&["--dev"]);
    broker.call(&["hashes", "certificates", "encryption", "w5", "health", "development"]);
    let log = broker.stop();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            line["time"].is_string() && line["msg"].is_string() && line["service"] == "crypto-broker-server",
            "{line}"
        );
    }
    let finished = |method: &str, code: &str| {
        let fits = |line: &str| line.contains("finished call") && line.contains(method) && line.contains(code);
        log.lines().filter(|line| fits(line)).count()
    };
    assert_eq!(finished("\"HashData\"", "\"OK\""), 6);
    assert_eq!(finished("\"FakeEndpoint\"", "\"Unavailable\""), 16);
    assert!(log.contains("\"correlationId\":\"order 7\""));
    for secret in ["PRIVATE KEY", "a secret of 20 bytes", "abc\""] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn a_client_that_connects_long_before_its_first_call_is_answered() {
    let broker = Broker::start(&[]);
    broker.call(&["idle"]);
    broker.stop();
}

#[test]
fn our_own_wire_works_on_keys_of_the_store_and_leaves_a_chain() {
    let broker = Broker::start(&[]);
    broker.call(&["keys", "sealing", "operations", "signatures", "information"]);
    let audit = broker.ground.path().join("audit.jsonl");
    let text = std::fs::read_to_string(&audit).unwrap();
    for operation in
        ["GenerateKey", "ImportKey", "EncryptData", "Rewrap", "SignCertificate", "Decapsulate", "Unwrap", "Information"]
    {
        assert!(text.contains(&format!("\"operation\":\"{operation}\"")), "{operation}");
    }
    let (holds, said) = run(&["broker", "audit", "verify", audit.to_str().unwrap()]);
    assert!(holds && said.contains("lines hold"), "{said}");
    broker.stop();
}

#[test]
fn every_call_with_every_bad_input_has_its_code_and_text_and_the_broker_serves_on() {
    let broker = Broker::start(&["--dev"]);
    broker.call(&["refused-hashes", "refused-certificates", "refused-encryption", "refused-anything"]);
    let log = broker.stop();
    assert!(!log.contains("panicked") && !log.contains("PRIVATE KEY"));
}

#[test]
fn every_method_of_our_own_wire_refuses_each_field_that_is_wrong_and_serves_on() {
    let broker = Broker::start(&[]);
    broker.call(&["rows"]);
    let log = broker.stop();
    assert!(!log.contains("panicked") && !log.contains("PRIVATE KEY"));
}

#[test]
fn every_method_denies_callers_without_a_rule_and_reports_a_missing_key_store() {
    let ground = ground();
    let callers = ground.path().join("callers.yaml");
    let stranger = rustix::process::getuid().as_raw() + 1;
    let rule = format!("- {{Uid: {stranger}, Profiles: ['*'], Operations: ['*'], Keys: ['*']}}\n");
    std::fs::write(&callers, rule).unwrap();
    std::fs::set_permissions(&callers, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = command(ground.path());
    command.args(["--dev", "--callers"]).arg(callers);
    let daemon = launch(ground.path(), command);
    let broker = Broker { ground, daemon };
    broker.call(&["strangers"]);
    broker.stop();
    let ground = self::ground();
    let daemon = launch(ground.path(), self::command(ground.path()));
    let broker = Broker { ground, daemon };
    broker.call(&["without-store"]);
    broker.stop();
}

#[test]
fn without_dev_and_earlier_wires_their_calls_are_unimplemented() {
    let broker = Broker::start(&["--no-compat"]);
    broker.call(&["production"]);
    broker.stop();
}

#[test]
fn the_socket_is_its_owners_alone_and_one_broker_has_it() {
    let broker = Broker::start(&[]);
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&broker.socket()), mode(broker.socket().parent().unwrap())), (0o600, 0o700));
    let second = command(broker.ground.path()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another broker serves there"), "{second:?}");
    UnixStream::connect(broker.socket()).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.daemon.id())).unwrap();
    let core: Vec<_> = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap().split(' ').collect();
    assert_eq!(core.iter().filter(|word| **word == "0").count(), 2, "keys would be in it: {core:?}");
    broker.stop();
}

#[test]
fn the_next_broker_replaces_the_socket_of_a_killed_one() {
    let mut broker = Broker::start(&[]);
    broker.daemon.signal(Signal::KILL).unwrap();
    broker.daemon.wait().unwrap();
    assert!(std::fs::symlink_metadata(broker.socket()).unwrap().file_type().is_socket());
    broker.daemon = launch(broker.ground.path(), command(broker.ground.path()));
    broker.call(&["health"]);
    broker.stop();
}

#[test]
fn a_strangers_socket_or_folder_is_left_alone() {
    let ground = ground();
    let folder = ground.path().join("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = |says: &str| {
        let output = command(ground.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(says), "{said}");
    };
    refused("others may write the folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let _theirs = UnixListener::bind(socket(ground.path())).unwrap();
    refused("another program listens there");
}

#[test]
fn settings_and_profiles_that_are_wrong_end_the_start_with_every_name() {
    let ground = ground();
    let mut wrong = command(ground.path());
    wrong.env("CRYPTO_BROKER_LOG_LEVEL", "loud").env("APP_ENV", "test");
    let output = wrong.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("CRYPTO_BROKER_LOG_LEVEL: "), "{said}");
    assert!(said.contains("APP_ENV: expected one of prod, dev"), "{said}");
    let profiles = ground.path().join("Profiles.yaml");
    std::fs::write(&profiles, "- {Name: A}\n- {Name: A, Typo: 1}\n").unwrap();
    let output = command(ground.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("Typo") && said.lines().count() > 2, "{said}");
    let mut fips = command(ground.path());
    std::fs::copy(root().join("tests/broker_wires/Profiles.yaml"), &profiles).unwrap();
    std::fs::set_permissions(&profiles, PermissionsExt::from_mode(0o600)).unwrap();
    let output = fips.env("CRYPTO_BROKER_REQUIRE_FIPS", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    assert!(!socket(ground.path()).exists());
}

#[test]
fn the_key_encryption_key_can_stand_in_the_environment_and_is_never_shown() {
    let ground = ground();
    let start = |key: Option<&str>| {
        let mut command = command(ground.path());
        command.arg("--keys").arg(ground.path().join("keys")).envs(key.map(|key| ("CRYPTO_BROKER_KEK", key)));
        command
    };
    for (key, says) in [
        (None, "the environment variable CRYPTO_BROKER_KEK is not set"),
        (Some("5a5a5a5a secret"), "the environment variable CRYPTO_BROKER_KEK:1: expected a key of 32 bytes"),
    ] {
        let output = start(key).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(says) && !said.contains("secret"), "{said}");
    }
    let key = "5a".repeat(32);
    let daemon = launch(ground.path(), start(Some(&key)));
    let broker = Broker { ground, daemon };
    let socket = broker.socket().display().to_string();
    let (made, said) = run(&["broker", "keys", "--socket", &socket, "generate", "k", "--algorithm", "aes-256-gcm"]);
    assert!(made && said.starts_with("k aes-256-gcm"), "{said}");
    let log = broker.stop();
    assert!(!log.contains(&key), "{log}");
}

#[test]
fn the_command_line_asks_a_broker_that_serves() {
    let broker = Broker::start(&["--dev"]);
    let path = broker.socket();
    let ask = |arguments: &[&str]| {
        let mut all = vec!["broker", arguments[0]];
        all.extend(["--socket", path.to_str().unwrap()]);
        all.extend(&arguments[1..]);
        run(&all)
    };
    assert_eq!(ask(&["health"]), (true, "SERVING\n".into()));
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
    assert_eq!(ask(&["hash", "--profile", "HashOnly", "abc"]), (true, digest.into()));
    assert!(!ask(&["hash", "--profile", "none", "abc"]).0);
    let file = |name: &str| root().join("crates/broker/tests/data").join(name).display().to_string();
    let (csr, certificate, key) = (file("csr/p256.pem"), file("ca/p384.pem"), file("ca/p384-key.pem"));
    let own_key = broker.ground.path().join("ca.key");
    std::fs::copy(key, &own_key).unwrap();
    std::fs::set_permissions(&own_key, PermissionsExt::from_mode(0o600)).unwrap();
    let own_key = own_key.display().to_string();
    let (imported, said) = ask(&["keys", "import", "ca", "--algorithm", "ecdsa-p384", "--file", &own_key]);
    assert!(imported && said.starts_with("ca ecdsa-p384 imported: 1 ("), "{said}");
    for key in [["--ca-key-ref", "ca"], ["--ca-key", &own_key]] {
        let (signed, said) = ask(&[&["sign", "--csr", &csr, "--ca-cert", &certificate][..], &key].concat());
        assert!(signed && said.starts_with("-----BEGIN CERTIFICATE-----\n"), "{said}");
    }
    let (_, listed) = ask(&["keys", "list"]);
    assert_eq!(listed, said);
    assert!(ask(&["keys", "public", "ca"]).1.starts_with("-----BEGIN PUBLIC KEY-----\n"));
    assert!(ask(&["keys", "disable", "ca"]).1.contains(" disabled)"));
    assert!(ask(&["bench"]).1.contains("BenchmarkLibraryNative_HashSHA3_256"));
    let profiles = broker.ground.path().join("Profiles.yaml").display().to_string();
    let (fine, said) = run(&["broker", "profiles", "check", &profiles]);
    assert!(fine && said.contains("HashOnly: HashData"), "{said}");
    broker.stop();
    let nobody = path.display().to_string();
    let (serves, said) = run(&["broker", "health", "--socket", &nobody, "--timeout-ms", "500"]);
    assert!(!serves && said.contains("UNKNOWN"), "{said}");
}

#[test]
fn every_call_is_logged_spanned_and_counted_without_its_inputs() {
    let port = free_port().unwrap();
    let ground = ground();
    let mut command = command(ground.path());
    command.args(["--dev", "--metrics", &format!("127.0.0.1:{port}")]);
    command.env("OTEL_TRACES_EXPORTER", "console");
    let daemon = launch(ground.path(), command);
    let broker = Broker { ground, daemon };
    broker.call(&["everything"]);
    let mut metrics = String::new();
    let mut scrape = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut scrape, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    std::io::Read::read_to_string(&mut scrape, &mut metrics).unwrap();
    let log = broker.stop();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for method in METHODS {
        let logged = |message: &str| {
            let of = |line: &&serde_json::Value| line["msg"] == message && line["grpc.method"] == method.name;
            lines.iter().filter(of).any(|line| line["grpc.service"] == method.service)
        };
        assert!(logged("started call") && logged("finished call"), "{} is not logged", method.path);
        let span = lines.iter().find(|line| line["span"] == method.path);
        let span = span.unwrap_or_else(|| panic!("{} has no span", method.path));
        assert_eq!(span["attributes"]["rpc.method"], method.name);
        let counted = format!("crypto_requests_total{{rpc_method=\"{}\"", method.name);
        assert!(metrics.contains(&counted), "{} is not counted: {metrics}", method.path);
    }
    let remote = lines.iter().find(|line| line["trace_id"] == "0af7651916cd43dd8448eb211c80319c").unwrap();
    assert_eq!(remote["parent_span_id"], "b7ad6b7169203331");
    for name in [
        "request_duration_seconds_bucket",
        "operations_errors_total",
        "memory_usage_bytes",
        "hash_data_operations_total",
    ] {
        assert!(metrics.contains(&format!("crypto_{name}")), "{name}: {metrics}");
    }
    for told in [&log, &metrics] {
        assert!(!told.contains("SECRET-INPUT") && !told.contains("U0VDUkVULUlOUFVU"), "{told}");
    }
}

#[test]
fn what_is_in_flight_at_a_stop_is_answered() {
    let broker = Broker::start(&["--dev"]);
    let mut bench = Command::new(BINARY);
    bench.args(["broker", "bench", "--timeout-ms", "60000", "--socket"]).arg(broker.socket());
    let bench = bench.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let log = broker.ground.path().join("log");
    let begin = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("\"Benchmark\"") {
        assert!(begin.elapsed() < WAIT, "the call does not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = broker.stop();
    assert!(log.contains("answering the requests in flight") && !log.contains("dropped"), "{log}");
    let Output { status, stdout, .. } = bench.wait_with_output().unwrap();
    assert!(status.success() && String::from_utf8_lossy(&stdout).contains("avgTime"));
}

#[test]
fn a_caller_without_a_rule_is_denied_until_a_reload_adds_one() {
    let ground = ground();
    let callers = ground.path().join("callers.yaml");
    let write = |uid: u32| {
        let new = callers.with_extension("new");
        std::fs::write(&new, format!("- {{Uid: {uid}, Profiles: [HashOnly], Operations: [HashData], Keys: []}}\n"))
            .unwrap();
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &callers).unwrap();
    };
    let uid = rustix::process::getuid().as_raw();
    write(uid + 1);
    let mut command = command(ground.path());
    command.arg("--callers").arg(&callers);
    // A collector that is down costs only a log line.
    command.env("OTEL_TRACES_EXPORTER", "otlphttp");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("127.0.0.1:{}", free_port().unwrap()));
    let daemon = launch(ground.path(), command);
    let broker = Broker { ground, daemon };
    let path = broker.socket().display().to_string();
    let hash = |profile: &str| run(&["broker", "hash", "--socket", &path, "--profile", profile, "abc"]);
    let (is_served, said) = hash("HashOnly");
    assert!(!is_served && said.contains("not allowed to this caller"), "{said}");
    write(uid);
    broker.daemon.signal(Signal::HUP).unwrap();
    let begin = Instant::now();
    while !hash("HashOnly").0 {
        assert!(begin.elapsed() < WAIT, "the rules are not read anew");
    }
    let (is_served, said) = hash("Default");
    assert!(!is_served && said.contains("not allowed to this caller"), "{said}");
    let log = broker.stop();
    assert!(log.contains("exporting spans failed"), "{log}");
}

#[test]
fn a_stop_notifies_health_watchers_and_finishes() {
    let broker = Broker::start(&[]);
    let python = program("python").unwrap();
    let mut watcher = Command::new(python);
    watcher.arg(root().join("tests/broker_wires/watch.py")).arg(broker.socket()).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut watcher = watcher.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(watcher.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut said, &mut first).unwrap();
    assert_eq!(first, "1\n", "serving");
    let log = broker.stop();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert_eq!(rest, "2\nend\n", "not serving, and the stream's end: {log}");
    assert!(watcher.wait().unwrap().success());
}
