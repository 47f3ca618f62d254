//! The inventory of cryptography of a real broker and a real gateway: each use counted exactly, kept over restarts and a kill,
//! merged over processes, and shown as a CBOM that the official schema accepts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sealway_client::broker::{Client, Derivation, Options, Plain, Recipient};
use sealway_client::{Body, Trust, TrustStore};
use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::root;
use sealway_testkit::process::Launch;
use serde_json::Value;

use crate::BINARY;

/// Longest time until a running process has written its counts: several of its intervals.
const WRITTEN_MAX: Duration = Duration::from_secs(60);
/// Checks a CBOM on standard input against the schemas of the package cyclonedx-python-lib, which are the official ones.
const VALIDATE: &str = r#"
import importlib.util, json, pathlib, sys
from jsonschema import Draft7Validator
from referencing import Registry, Resource
spec = importlib.util.find_spec("cyclonedx")
if spec is None:
    sys.exit("the package cyclonedx-python-lib is missing: run scripts/setup-tests.sh")
folder = pathlib.Path(spec.submodule_search_locations[0], "schema", "_res")
schemas = [json.loads(path.read_text()) for path in folder.glob("*.SNAPSHOT.schema.json")]
registry = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)
bom = json.load(sys.stdin)
schema = next(schema for schema in schemas if schema["$id"].endswith("bom-1.6.schema.json"))
faults = [f"{list(fault.path)}: {fault.message}" for fault in Draft7Validator(schema, registry=registry).iter_errors(bom)]
sys.exit("\n".join(faults)) if faults else print("valid")
"#;

/// The scripted algorithms: the operation, its profile's `API`, the kind of a key, and the row's algorithm and size.
const SCRIPT: [(&str, &str, &str, &str, u32); 25] = [
    ("HashData", "HashData: {HashAlg: sha-256}", "", "sha-256", 0),
    ("HashData", "HashData: {HashAlg: sha-384}", "", "sha-384", 0),
    ("HashData", "HashData: {HashAlg: sha-512}", "", "sha-512", 0),
    ("HashData", "HashData: {HashAlg: sha3-256}", "", "sha3-256", 0),
    ("HashData", "HashData: {HashAlg: sha3-512}", "", "sha3-512", 0),
    ("HashData", "HashData: {HashAlg: shake-128}", "", "shake-128", 0),
    ("EncryptData", "EncryptData: {EncryptAlg: aes-gcm, KeySize: 128}", "aes-128-gcm", "aes-128-gcm", 128),
    ("EncryptData", "EncryptData: {EncryptAlg: aes-gcm, KeySize: 256}", "aes-256-gcm", "aes-256-gcm", 256),
    ("EncryptData", "EncryptData: {EncryptAlg: chacha20-poly1305}", "chacha20-poly1305", "chacha20-poly1305", 256),
    ("Mac", "Mac: {MacAlg: hmac-sha-256}", "hmac-sha-256", "hmac-sha-256", 0),
    ("Mac", "Mac: {MacAlg: hmac-sha-512}", "hmac-sha-512", "hmac-sha-512", 0),
    ("Derive", "Derive: {DeriveAlg: hkdf-sha-256}", "hkdf-sha-256", "hkdf-sha-256", 0),
    ("SignData", "SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256}", "ecdsa-p256", "ecdsa-p256-sha-256", 256),
    ("SignData", "SignData: {SignAlg: ecdsa, HashAlg: sha-384, Curve: P-384}", "ecdsa-p384", "ecdsa-p384-sha-384", 384),
    ("SignData", "SignData: {SignAlg: ecdsa, HashAlg: sha-512, Curve: P-521}", "ecdsa-p521", "ecdsa-p521-sha-512", 521),
    ("SignData", "SignData: {SignAlg: rsa, HashAlg: sha-256}", "rsa-2048", "rsa-pkcs1-sha-256", 2048),
    ("SignData", "SignData: {SignAlg: rsa-pss, HashAlg: sha-512}", "rsa-3072", "rsa-pss-sha-512", 3072),
    (
        "SignDigest",
        "SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256, Prehashed: true}",
        "ecdsa-p256",
        "ecdsa-p256-sha-256",
        256,
    ),
    ("SignData", "SignData: {SignAlg: ed25519}", "ed25519", "ed25519", 256),
    ("SignData", "SignData: {SignAlg: ml-dsa-44}", "ml-dsa-44", "ml-dsa-44", 44),
    ("SignData", "SignData: {SignAlg: ml-dsa-65}", "ml-dsa-65", "ml-dsa-65", 65),
    ("SignData", "SignData: {SignAlg: ml-dsa-87}", "ml-dsa-87", "ml-dsa-87", 87),
    ("Encapsulate", "Encapsulate: {KemAlg: ml-kem-768}", "ml-kem-768", "ml-kem-768", 768),
    ("Encapsulate", "Encapsulate: {KemAlg: ml-kem-1024}", "ml-kem-1024", "ml-kem-1024", 1024),
    ("Random", "Random: true", "", "random", 0),
];

/// A row by operation, algorithm, size and key.
type Name = (String, String, u64, String);

/// Starts a broker that has a profile `P<n>` for each algorithm of the script, and keeps its inventory in `inventory`.
fn start(folder: &Path, inventory: &Path) -> Broker {
    let profile = |(number, (_, api, ..)): (usize, &(&str, &str, &str, &str, u32))| {
        format!("- {{Name: P{number}, Settings: {{CryptoLibrary: native}}, API: {{{api}}}}}\n")
    };
    let profiles: String = SCRIPT.iter().enumerate().map(profile).collect();
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true).mode(0o600);
    file.open(folder.join("Profiles.yaml")).unwrap().write_all(profiles.as_bytes()).unwrap();
    Broker::start_with(BINARY, folder, &[OsStr::new("--inventory"), inventory.as_os_str()]).unwrap()
}

async fn make_keys(client: &Client) {
    for (number, (_, _, algorithm, ..)) in SCRIPT.iter().enumerate().filter(|(_, row)| !row.2.is_empty()) {
        client.generate_key(&format!("k{number}"), algorithm).await.unwrap();
    }
}

/// Uses the algorithm of a row `times` times, in one batch.
async fn use_algorithm(client: &Client, number: usize, times: usize) {
    let (profile, key) = (format!("P{number}"), format!("k{number}"));
    let inputs = vec!["input"; times];
    match SCRIPT[number].0 {
        "HashData" => drop(client.hash(&profile, &inputs).await.unwrap()),
        "EncryptData" => {
            let plains: Vec<_> =
                inputs.iter().map(|text| Plain { plaintext: text.as_bytes(), aad: b"", nonce: b"" }).collect();
            drop(client.encrypt(&profile, &key, &plains).await.unwrap());
        }
        "Mac" => drop(client.mac(&profile, &key, &inputs).await.unwrap()),
        "Derive" => {
            let derivations: Vec<_> =
                inputs.iter().map(|text| Derivation { salt: b"", info: text.as_bytes(), length: 32 }).collect();
            drop(client.derive(&profile, &key, 0, &derivations).await.unwrap());
        }
        "SignData" => drop(client.sign(&profile, &key, &inputs).await.unwrap()),
        "SignDigest" => drop(client.sign_digests(&profile, &key, &vec![[7; 32]; times]).await.unwrap()),
        "Encapsulate" => drop(client.encapsulate(&profile, Recipient::Key(&key), times as u32).await.unwrap()),
        "Random" => drop(client.random(&profile, 16, times as u32).await.unwrap()),
        other => panic!("{other}"),
    }
}

fn sealway(arguments: &[&OsStr]) -> (Option<i32>, String) {
    let done = Command::new(BINARY).arg("inventory").args(arguments).stdin(Stdio::null()).output().unwrap();
    (done.status.code(), String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr))
}

fn json(source: &Path) -> Value {
    let (code, text) = sealway(&[source.as_os_str(), OsStr::new("--format"), OsStr::new("json")]);
    assert_eq!(code, Some(0), "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Returns the counts of a document, without those of the key-encryption key; those of several parties and protocols together.
fn counts(document: &Value) -> BTreeMap<Name, u64> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut counts = BTreeMap::new();
    for row in document["rows"].as_array().unwrap().iter().filter(|row| row["protocol"] != "kek") {
        let name = (text(&row["operation"]), text(&row["algorithm"]), row["size"].as_u64().unwrap(), text(&row["key"]));
        *counts.entry(name).or_default() += row["count"].as_u64().unwrap();
    }
    counts
}

/// Returns the counts of keys that were made and of `times(row)` uses of each algorithm.
fn expected(makings: u64, times: impl Fn(usize) -> u64) -> BTreeMap<Name, u64> {
    let mut counts = BTreeMap::new();
    for (number, (operation, _, kind, algorithm, size)) in SCRIPT.iter().enumerate() {
        let key = if kind.is_empty() { String::new() } else { format!("k{number}") };
        let name = ((*operation).to_owned(), (*algorithm).to_owned(), u64::from(*size), key.clone());
        counts.insert(name, times(number));
        if !kind.is_empty() {
            let base = if kind.starts_with("rsa-") { "rsa" } else { kind };
            counts.insert(("GenerateKey".to_owned(), base.to_owned(), u64::from(*size), key), makings);
        }
    }
    counts
}

fn validate(bom: &str) {
    let python = root().join(".venv/bin/python");
    assert!(python.is_file(), "Python is missing from .venv/bin: run scripts/setup-tests.sh");
    let mut child =
        Command::new(python).args(["-c", VALIDATE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bom.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && done.stdout == b"valid\n", "{}", String::from_utf8_lossy(&done.stdout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_algorithm_is_counted_exactly_and_kept_over_a_restart_and_a_kill() {
    let (folder, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut broker = start(folder.path(), kept.path());
    let client = Client::new(Options::new(broker.socket()));
    make_keys(&client).await;
    for number in 0..SCRIPT.len() {
        use_algorithm(&client, number, number + 1).await;
        use_algorithm(&client, number, 2).await;
    }
    // What fails is no use.
    client.hash("P99", &["x"]).await.unwrap_err();
    client.sign("P12", "k13", &["x"]).await.unwrap_err();
    broker.stop().unwrap();
    assert_eq!(counts(&json(kept.path())), expected(1, |number| number as u64 + 3));

    broker.start_again().unwrap();
    for number in 0..SCRIPT.len() {
        use_algorithm(&client, number, 1).await;
    }
    let wanted = expected(1, |number| number as u64 + 4);
    let begin = Instant::now();
    while counts(&json(kept.path())) != wanted {
        assert!(begin.elapsed() < WRITTEN_MAX, "{:?}", counts(&json(kept.path())));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(json(kept.path())["gaps"]["count"], 0);
    broker.kill().unwrap();
    broker.start_again().unwrap();
    use_algorithm(&client, 0, 5).await;
    broker.stop().unwrap();
    let document = json(kept.path());
    assert_eq!(counts(&document), expected(1, |number| number as u64 + if number == 0 { 9 } else { 4 }));
    assert_eq!(document["gaps"]["count"], 1);
    let uid = rustix::process::getuid().as_raw();
    let is_ours = |row: &Value| row["protocol"] == "kek" || row["party"] == format!("uid:{uid}");
    assert!(document["rows"].as_array().unwrap().iter().all(is_ours), "{document}");

    let source = kept.path().as_os_str();
    let (code, table) = sealway(&[source]);
    assert!(code == Some(0) && table.contains("1 processes ended without a last write"), "{table}");
    let (code, broken) = sealway(&[source, OsStr::new("--what-breaks"), OsStr::new("cnsa-2.0")]);
    assert_eq!(code, Some(1), "{broken}");
    assert!(broken.contains("breaks: SignData ml-dsa-65 (65) over v1, key k20:"), "{broken}");
    for kept in ["ml-dsa-87", "ml-kem-1024", "sha-384 ", "SignData aes-256-gcm"] {
        assert!(!broken.contains(&format!(" {kept}")), "{kept}: {broken}");
    }
    let (code, bom) = sealway(&[source, OsStr::new("--format"), OsStr::new("cyclonedx")]);
    assert_eq!(code, Some(0), "{bom}");
    validate(&bom);
    for (.., algorithm, size) in SCRIPT {
        assert!(bom.contains(&format!("\"bom-ref\": \"crypto/algorithm/{algorithm}@{size}\"")), "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_in_one_folder_are_merged_and_a_bad_file_is_named() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let kept = tempfile::tempdir().unwrap();
    let mut brokers: Vec<_> = folders.iter().map(|folder| start(folder.path(), kept.path())).collect();
    for (times, broker) in brokers.iter().enumerate() {
        use_algorithm(&Client::new(Options::new(broker.socket())), 0, times + 1).await;
    }
    brokers.iter_mut().for_each(|broker| broker.stop().unwrap());
    let document = json(kept.path());
    assert_eq!(document["sources"], serde_json::json!(["broker-1", "broker-2"]));
    let sha = ("HashData".to_owned(), "sha-256".to_owned(), 0, String::new());
    assert_eq!(counts(&document), BTreeMap::from([(sha, 3)]));

    let bad = kept.path().join("broker-3.json");
    std::fs::write(&bad, "{\"format\": 1}").unwrap();
    let (code, text) = sealway(&[kept.path().as_os_str()]);
    assert!(code == Some(1) && text.contains("broker-3.json") && text.contains("line 1"), "{text}");
}

/// Makes a TLS connection with one group and one suite, and waits for its end.
fn s_client(to: SocketAddr, ca: &str, more: &[&str]) {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &to.to_string(), "-servername", "localhost", "-CAfile", ca]);
    command.args(["-verify_return_error", "-ign_eof"]).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("cannot run openssl; install the package openssl");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("HTTP/1.1 200"), "{more:?}: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_counts_handshakes_sessions_and_sealed_calls() {
    let ground = tempfile::tempdir().unwrap();
    let text = |name: &str| ground.path().join(name).to_str().unwrap().to_owned();
    let made = Command::new(BINARY).args(["certs", &text("certs")]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let [ca, cert, key] =
        ["ca.cert.pem", "server.cert.pem", "server.key.pem"].map(|name| text(&format!("certs/{name}")));
    std::fs::write(ground.path().join("token"), "0123456789abcdef0123\n").unwrap();
    let tls = format!("tls: {{ cert: '{cert}', key: '{key}' }}");
    let behind = format!(
        "listeners: [{{ address: '127.0.0.1:0', {tls} }}]\nroutes: [{{ match: {{}}, standalone: ok }}]\nsessions: {{ store: 'memory:' }}\n"
    );
    let behind = Launch::new(BINARY, &behind).start().unwrap();
    let config = format!(
        "listeners:
  - {{ name: web, address: '127.0.0.1:0', {tls} }}
  - {{ name: plain, address: '127.0.0.1:0' }}
admin: {{ address: '127.0.0.1:0', token_file: '{}' }}
sessions: {{ store: 'memory:', identity: {{ allow_generated: true }} }}
routes:
  - {{ match: {{ path_prefix: /v3/, path: [/.well-known/sealway-keys, /health] }}, sessions: {{}} }}
  - {{ name: paid, match: {{ path_prefix: /paid }}, sealed: required, upstream: behind }}
upstreams: {{ behind: {{ servers: ['https://localhost:{}'], tls: {{ ca: '{ca}' }} }} }}
",
        text("token"),
        behind.address().port()
    );
    let kept = ground.path().join("kept");
    let launch = Launch::new(BINARY, &config).env("SEALWAY_TELEMETRY__INVENTORY_FOLDER", kept.to_str().unwrap());
    let mut server = launch.start().unwrap();
    let [web, plain] = server.addresses[..] else { panic!("{:?}", server.addresses) };
    let handshakes = [
        ("TLS_AES_128_GCM_SHA256", "X25519", 1),
        ("TLS_CHACHA20_POLY1305_SHA256", "P-256", 2),
        ("TLS_AES_256_GCM_SHA384", "P-384", 3),
    ];
    for (suite, group, times) in handshakes {
        for _ in 0..times {
            s_client(web, &ca, &["-tls1_3", "-ciphersuites", suite, "-groups", group]);
        }
    }
    for _ in 0..2 {
        s_client(web, &ca, &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384", "-groups", "P-256"]);
    }
    let client = sealway_client::Client::builder(format!("http://{plain}"));
    let client = client.trust(Trust::FirstUse(TrustStore::Memory)).build().unwrap();
    for _ in 0..3 {
        let request = http::Request::post("/paid/one").body(Body::from("{}")).unwrap();
        client.send(request).await.unwrap().into_body().bytes().await.unwrap();
    }
    let (admin, token) = (format!("http://{}", server.admin()), text("token"));
    let (code, live) = sealway(&["--format", "json", "--token-file", &token, &admin].map(OsStr::new));
    assert_eq!(code, Some(0), "{live}");
    let live: Value = serde_json::from_str(&live).unwrap();
    server.stop().unwrap();
    let document = json(&kept);
    assert_eq!(counts(&document), counts(&live));

    let counts = counts(&document);
    let count = |operation: &str, algorithm: &str| -> u64 {
        let rows = counts.iter().filter(|((by, of, ..), _)| by == operation && of == algorithm);
        rows.map(|(_, count)| *count).sum()
    };
    let wanted = [
        ("tls-handshake", "TLS13_AES_128_GCM_SHA256", 1),
        ("tls-handshake", "TLS13_CHACHA20_POLY1305_SHA256", 2),
        // Three, and the gateway's own connection to its upstream.
        ("tls-handshake", "TLS13_AES_256_GCM_SHA384", 4),
        ("tls-handshake", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", 2),
        ("tls-key-agreement", "X25519", 1),
        ("tls-key-agreement", "secp256r1", 4),
        ("tls-key-agreement", "secp384r1", 3),
        ("tls-key-agreement", "X25519MLKEM768", 1),
        ("tls-signature", "ECDSA_NISTP256_SHA256", 8),
        ("session-init", "X25519MLKEM768", 1),
        ("session-signature", "ES256", 1),
        ("sealed-call", "aes-256-gcm", 3),
    ];
    for (operation, algorithm, times) in wanted {
        assert_eq!(count(operation, algorithm), times, "{operation} {algorithm}: {counts:#?}");
    }
    let rows = document["rows"].as_array().unwrap();
    let of = |party: &str, operation: &str| {
        rows.iter().filter(|row| row["party"] == party && row["operation"] == operation).count()
    };
    assert_eq!(
        (of("upstream:behind", "tls-server-certificate"), of("route:paid", "sealed-call")),
        (1, 1),
        "{document}"
    );
    let (code, broken) = sealway(&[kept.as_os_str(), OsStr::new("--what-breaks"), OsStr::new("no-classical")]);
    assert_eq!(code, Some(1), "{broken}");
    for named in ["listener:web\n", &format!("certificate:{cert}\n"), "upstream:behind\n", "sessions:init\n"] {
        assert!(broken.contains(named), "{named}: {broken}");
    }
    assert!(!broken.contains("route:paid"), "{broken}");
    let (code, bom) = sealway(&[kept.as_os_str(), OsStr::new("--format"), OsStr::new("cyclonedx")]);
    assert_eq!(code, Some(0), "{bom}");
    validate(&bom);
    assert!(bom.contains("\"type\": \"tls\"") && bom.contains("\"version\": \"1.3\""), "{bom}");
}
