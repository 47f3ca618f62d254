//! The example programs of the Rust SDK, started as users start them: they keep their contract (docs/reference/sdks.md), and
//! print no key.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::wire::base64;
use sealway_sessions::identity::KeyFile;
use sealway_testkit::native_client::key_set;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::wire_client::now_ms;
use serde_json::Value;

use crate::BINARY;

const SECRET: &str = "a-secret-of-api-sides-0123456789";
const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: [/v3/sessions, /.well-known/, /session/, /v1/] }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
sessions: { store: 'memory:', identity: { key_file: identity.keys }, authority_secret_file: authority.secret }
compat: { open_key_endpoint: true }
";

/// The demo service, and an authority for separate API servers.
struct Ground {
    server: Server,
    url: String,
    pin: String,
    folder: tempfile::TempDir,
}

impl Ground {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (now, mut keys) = (now_ms(), KeyFile::default());
        keys.generate(
            default_provider(),
            default_identity_library(),
            SignatureAlgorithm::Es256,
            now - 1000,
            now + 86_400_000,
            now,
        )
        .unwrap();
        keys.create(&folder.path().join("identity.keys")).unwrap();
        write_private(&folder.path().join("authority.secret"), SECRET);
        let server = Launch::new(BINARY, CONFIG).folder(folder.path()).start().unwrap();
        let pin = key_set(server.address()).unwrap().keys[0].key_id.as_str().to_owned();
        Ground { url: format!("http://{}", server.address()), pin, server, folder }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(example(name));
        command.env_clear().env("SESSION_URL", &self.url).env("SEALWAY_PINS", &self.pin);
        command
    }

    /// Runs a program to its end. Its output contains no key.
    fn run(&self, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
        let output = self.program(name).args(arguments).envs(variables.iter().copied()).output().unwrap();
        let (told, noted) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_no_key(&told);
        assert_no_key(&noted);
        (output.status.code(), told)
    }
}

#[cfg(unix)]
fn write_private(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn example(name: &str) -> PathBuf {
    let program = Path::new(BINARY).parent().unwrap().join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing and this test needs it: cargo build --workspace --examples",
        program.display()
    );
    program
}

/// Asserts that no word is as long as 32 bytes in hexadecimal or in base64, of either alphabet.
fn assert_no_key(text: &str) {
    let longest = |is_of: fn(char) -> bool| text.split(|of: char| !is_of(of)).map(str::len).max().unwrap_or_default();
    assert!(longest(|of| of.is_ascii_hexdigit()) < 64, "a key in hexadecimal? {text}");
    assert!(longest(|of| of.is_ascii_alphanumeric() || "+/=".contains(of)) < 43, "a key in base64? {text}");
    assert!(longest(|of| of.is_ascii_alphanumeric() || "-_=".contains(of)) < 43, "a key in base64url? {text}");
}

#[test]
fn the_clients_keep_their_contract_on_every_wire_and_print_no_key() {
    let ground = Ground::start();
    for wire in ["1", "2", "3"] {
        let wire_is = [("SEALWAY_WIRE", wire)];
        let (code, told) = ground.run("single", &["--json"], &wire_is);
        assert_eq!(code, Some(0), "{told}");
        let line: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((line["program"].as_str(), line["language"].as_str()), (Some("single"), Some("rust")));
        assert_eq!((line["wire"].to_string().as_str(), line["status"].as_u64()), (wire, Some(200)));
        assert_eq!((line["body"]["status"].as_str(), line["suite"].is_null()), (Some("SUCCESS"), wire != "3"));
        if wire == "2" {
            // The key itself, in every printed form of bytes.
            let id = line["session_id"].as_str().unwrap();
            let asked = Request::get(&format!("/v1/session/{id}")).header("X-ClientId", "sealway-rust");
            let told_key = asked.send(ground.server.address()).unwrap().json();
            let text = told_key["sessionKey"].as_str().unwrap();
            let key = base64::decode(text).unwrap();
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let list = format!("{}, {}, {}, {}", key[0], key[1], key[2], key[3]);
            for form in [&text[..16], &hex[..16], &list] {
                assert!(!told.contains(form), "{told}");
            }
        }
        let (code, told) = ground.run("single", &[], &wire_is);
        assert!(code == Some(0) && told.contains("SUCCESS"), "{told}");
        let (code, told) = ground.run("benchmark", &["20", "--json"], &[wire_is[0], ("BENCHMARK_CONCURRENCY", "4")]);
        assert_eq!(code, Some(0), "{told}");
        let line: Value = serde_json::from_str(&told).unwrap();
        let numbers = ["n", "concurrency", "failed"].map(|name| line[name].as_u64());
        assert_eq!(numbers, [Some(20), Some(4), Some(0)]);
        assert!(["min", "p50", "p99", "max"].iter().all(|name| line["latency_ms"][name].as_f64().is_some()), "{line}");
    }
}

#[test]
fn what_is_wrong_is_named_with_the_exit_code_of_its_kind() {
    let ground = Ground::start();
    for (name, arguments, variables, code) in [
        ("single", &["--jason"][..], &[][..], 2),
        ("single", &[], &[("SEALWAY_WIRE", "4")], 2),
        ("single", &[], &[("SEALWAY_PINS", "abc")], 2),
        ("single", &[], &[("SESSION_URL", "nowhere")], 2),
        ("single", &[], &[("SESSION_URL", "http://127.0.0.1:1")], 1),
        // Another service than the pinned one.
        ("single", &[], &[("SEALWAY_PINS", "00112233445566778899aabbccddeeff")], 1),
        ("benchmark", &[], &[], 2),
        ("benchmark", &["0"], &[], 2),
        ("benchmark", &["5"], &[("BENCHMARK_CONCURRENCY", "1001")], 2),
        ("server", &[], &[], 2),
        ("server", &[], &[("AUTHORITY_SECRET_FILE", "/nowhere")], 2),
        ("server", &[], &[("PORT", "65536")], 2),
    ] {
        let (told, _) = ground.run(name, arguments, variables);
        assert_eq!(told, Some(code), "{name} {arguments:?} {variables:?}");
    }
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_serves_sealed_and_plain_requests_stops_and_prints_no_secret() {
    let ground = Ground::start();
    let secret = ground.folder.path().join("authority.secret");
    let mut command = ground.program("server");
    command
        .env("PORT", "0")
        .env("AUTHORITY_URL", &ground.url)
        .env("AUTHORITY_SECRET_FILE", &secret)
        .env("RUST_LOG", "trace");
    let mut serving = Serving(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut told = BufReader::new(serving.0.stdout.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening ").unwrap().to_owned();
    for wire in ["1", "2", "3"] {
        let (code, bought) = ground.run("single", &["--json"], &[("SERVER_URL", &url), ("SEALWAY_WIRE", wire)]);
        assert_eq!(code, Some(0), "{bought}");
    }
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let health = Request::get("/health").send(address).unwrap();
    assert_eq!((health.status, health.text().as_str()), (200, r#"{"status":"ok"}"#));
    assert_eq!(Request::post("/transaction/purchase", "{}").send(address).unwrap().status, 400);
    let pid = rustix::process::Pid::from_child(&serving.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(serving.0.wait().unwrap().code(), Some(0));
    told.read_to_string(&mut line).unwrap();
    serving.0.stderr.take().unwrap().read_to_string(&mut line).unwrap();
    assert_no_key(&line);
    assert!(!line.contains(SECRET), "{line}");
}
