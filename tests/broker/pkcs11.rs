//! A broker with keys on a token of SoftHSM2: its operations checked by OpenSSL, its key-encryption key and a CA's key on the
//! token, faults, and the guide.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SubjectPublicKeyInfo};
use sealway_client::broker::{CertificateRequest, Client, Code, DecryptInput, Options, Plain};
use sealway_testkit::broker::{Broker, PROFILES};
use sealway_testkit::daemon::free_port;
use sealway_testkit::process::Launch;
use sealway_testkit::softhsm::{PIN, SoftHsm, TOKEN};

use crate::BINARY;

const MORE: &str = "
- {Name: Ed25519, Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ed25519}}}
- {Name: Oaep, Settings: {CryptoLibrary: native}, API: {Unwrap: {UnwrapAlg: rsa-oaep}}}
- Name: Identity
  Settings: {CryptoLibrary: native}
  API: {SignData: {SignAlg: ecdsa, HashAlg: sha-256, Curve: P-256, SignatureFormat: RAW}}
";

/// A broker, its token, and what the broker needs to find it.
struct Fixture {
    hsm: SoftHsm,
    folder: tempfile::TempDir,
    broker: Broker,
    client: Client,
    metrics: u16,
}

/// The binary with the configuration of a module in its environment, as a unit of systemd has it.
pub(crate) fn binary(folder: &Path, (name, conf): (&str, PathBuf)) -> PathBuf {
    let script = folder.join("sealway");
    let text = format!("#!/bin/sh\nexport {name}='{}'\nexec '{BINARY}' \"$@\"\n", conf.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    script
}

fn start(hsm: SoftHsm, more: &[&str]) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Profiles.yaml"), format!("{PROFILES}{MORE}")).unwrap();
    let metrics = free_port().unwrap();
    let (uri, address) = (hsm.uri(hsm.module()), format!("127.0.0.1:{metrics}"));
    let arguments: Vec<&OsStr> =
        ["--pkcs11", &uri, "--metrics", &address].iter().chain(more).map(|argument| OsStr::new(*argument)).collect();
    let broker = Broker::start_with(binary(hsm.folder(), hsm.environment()), folder.path(), &arguments).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    let fixture = Fixture { hsm, folder, broker, client, metrics };
    // A login writes the token's file, in which SoftHSM2 in another process then finds no token.
    fixture.until("the login at the start", || fixture.get("/ready").0 == 200);
    fixture
}

impl Fixture {
    /// Status and body of a path of the metrics' address.
    fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}{path}", self.metrics);
        let output = Command::new("curl").args(["-s", "-w", "\n%{http_code}", &url]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "never: {what}\n{}", self.broker.tail());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Generates a pair on the token, and imports its URI.
    async fn pair(&self, id: &str, kind: &str, algorithm: &str, usage: &str) {
        self.hsm.tool(&["--keypairgen", "--key-type", kind, "--label", id, usage]).unwrap();
        let uri = format!("pkcs11:token={TOKEN};object={id};type=private\n");
        let key = self.client.import_key(id, algorithm, uri.as_bytes()).await.unwrap();
        assert!(key.is_imported);
    }

    /// Verifies a signature of a key by OpenSSL.
    async fn verified(&self, id: &str, message: &[u8], signature: &[u8], options: &[&str]) -> bool {
        let public = self.client.public_key(id, 0).await.unwrap();
        let at = |name: &str| self.folder.path().join(name);
        std::fs::write(at("public.der"), public.der).unwrap();
        std::fs::write(at("message"), message).unwrap();
        std::fs::write(at("signature"), signature).unwrap();
        let mut command = Command::new("openssl");
        command.args(["pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin", "-inkey"]).arg(at("public.der"));
        command.arg("-in").arg(at("message")).arg("-sigfile").arg(at("signature")).args(options);
        command.output().unwrap().status.success()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_version_of_a_key_is_generated_on_the_token_of_the_settings() {
    let on = format!("pkcs11:token={TOKEN}");
    let fixture = start(SoftHsm::new().unwrap(), &["--pkcs11-generate", &on]);
    let client = &fixture.client;
    let key = client.generate_key("first", "ecdsa-p256").await.unwrap();
    assert!(!key.is_imported && key.versions.len() == 1);
    let message: &[u8] = b"a message";
    for label in ["first", "first-v2"] {
        let listed = fixture.hsm.tool(&["--list-objects", "--type", "privkey"]).unwrap();
        assert!(
            listed.lines().any(|line| line.trim_start().starts_with("label:") && line.ends_with(label)),
            "{listed}"
        );
        let signature = client.sign("P256", "first", &[message]).await.unwrap().outputs.remove(0);
        assert!(fixture.verified("first", message, &signature, &["-digest", "sha256"]).await, "{label}");
        client.rotate_key("first", &[]).await.unwrap();
    }
    // No key is generated elsewhere, and none replaces another of the token. SoftHSM2 has no ML-DSA.
    let err = client.generate_key("second", "ml-dsa-65").await.unwrap_err();
    assert!(err.code == Code::FailedPrecondition && err.text.contains("does not have the mechanism"), "{err}");
    let err = client.generate_key("third", "ml-kem-768").await.unwrap_err();
    assert!(err.code == Code::FailedPrecondition && err.text.contains("cannot be on a token"), "{err}");
    fixture.hsm.tool(&["--keypairgen", "--key-type", "EC:secp256r1", "--label", "taken", "--usage-sign"]).unwrap();
    let err = client.generate_key("taken", "ecdsa-p256").await.unwrap_err();
    assert!(err.code == Code::FailedPrecondition && err.text.contains("has a key of this label already"), "{err}");
}

fn files(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, bytes));
        } else if std::fs::read(&path).is_ok_and(|text| text.windows(bytes.len()).any(|window| window == bytes)) {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_on_a_token_do_what_keys_in_files_do_and_openssl_agrees() {
    let fixture = start(SoftHsm::new().unwrap(), &[]);
    let client = &fixture.client;
    let message: &[u8] = b"a message";
    for (id, kind, algorithm, profile, options) in [
        ("p256", "EC:secp256r1", "ecdsa-p256", "P256", &["-digest", "sha256"][..]),
        ("p384", "EC:secp384r1", "ecdsa-p384", "P384", &["-digest", "sha384"]),
        ("rsa", "rsa:2048", "rsa-2048", "RSA", &["-digest", "sha256"]),
        ("ed25519", "EC:edwards25519", "ed25519", "Ed25519", &[]),
    ] {
        fixture.pair(id, kind, algorithm, "--usage-sign").await;
        let signature = client.sign(profile, id, &[message]).await.unwrap().outputs.remove(0);
        assert!(fixture.verified(id, message, &signature, options).await, "{id}");
        assert!(!fixture.verified(id, b"another", &signature, options).await, "{id}");
        // The next version is generated on the token too.
        let rotated = client.rotate_key(id, &[]).await.unwrap();
        assert_eq!(rotated.versions.len(), 2, "{id}");
        let signature = client.sign(profile, id, &[message]).await.unwrap().outputs.remove(0);
        assert!(fixture.verified(id, message, &signature, options).await, "{id}, version 2");
    }
    let listed = fixture.hsm.tool(&["--list-objects", "--type", "privkey"]).unwrap();
    for id in ["p256", "p384", "rsa", "ed25519"] {
        assert!(listed.contains(&format!("{id}-v2")), "{listed}");
    }

    // An AES key of known bytes.
    let file = fixture.hsm.folder().join("aes");
    std::fs::write(&file, [7; 32]).unwrap();
    let file = file.display().to_string();
    fixture
        .hsm
        .tool(&[
            "--write-object",
            &file,
            "--type",
            "secrkey",
            "--key-type",
            "AES:32",
            "--label",
            "aes",
            "--usage-decrypt",
        ])
        .unwrap();
    let uri = format!("pkcs11:token={TOKEN};object=aes;type=secret-key");
    client.import_key("aes", "aes-256-gcm", uri.as_bytes()).await.unwrap();
    client.import_key("file", "aes-256-gcm", &[7; 32]).await.unwrap();
    let plain = Plain { plaintext: b"kept", aad: b"bound", ..Plain::default() };
    let sealed = client.encrypt("Seal", "aes", &[plain; 3]).await.unwrap().outputs;
    for id in ["aes", "file"] {
        let given: Vec<_> = sealed.iter().map(|cipher| DecryptInput { cipher, aad: b"bound" }).collect();
        for opened in client.decrypt("Seal", id, &given).await.unwrap().outputs {
            assert_eq!(opened.unwrap().as_ref(), b"kept", "{id}");
        }
        let given: Vec<_> = sealed.iter().map(|cipher| DecryptInput { cipher, aad: b"other" }).collect();
        assert!(client.decrypt("Seal", id, &given).await.unwrap().outputs.iter().all(Result::is_err), "{id}");
    }

    fixture.hsm.tool(&["--keypairgen", "--key-type", "EC:secp256r1", "--label", "wrong", "--usage-sign"]).unwrap();
    for (id, uri, algorithm, part) in [
        ("wrong", "pkcs11:object=wrong?module-path=/tmp/evil.so", "ecdsa-p256", "no module-path"),
        ("wrong", "pkcs11:object=wrong?pin-value=1234", "ecdsa-p256", "pin-value"),
        ("wrong", "pkcs11:token=other;object=wrong", "ecdsa-p256", "no token of this broker"),
        ("absent", "pkcs11:object=absent", "ecdsa-p256", "no key on the token"),
        ("wrong", "pkcs11:object=wrong", "ecdsa-p384", "another type or size"),
        ("wrong", "pkcs11:object=wrong;type=secret-key", "ecdsa-p256", "type in the URI"),
        ("wrong", "pkcs11:object=wrong", "ml-dsa-65", "another type or size"),
        ("wrong", "pkcs11:object=wrong", "ml-kem-768", "cannot be on a token"),
        ("wrong", "pkcs11:object=wrong", "hkdf-sha-256", "cannot be on a token"),
        ("wrong", "pkcs11:token=fixture", "ecdsa-p256", "the label is the id"),
        // The key of another id.
        ("wrong", "pkcs11:object=p256", "ecdsa-p256", "the label is the id"),
        ("wrong", "pkcs11:object=wrong-vx", "ecdsa-p256", "the label is the id"),
        // The second version of another key.
        ("p256-v2", "pkcs11:object=p256-v2", "ecdsa-p256", "the label is that of key p256"),
    ] {
        let err = client.import_key(id, algorithm, uri.as_bytes()).await.unwrap_err().to_string();
        assert!(err.contains(part), "{uri}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_key_on_a_token_issues_certificates() {
    let fixture = start(SoftHsm::new().unwrap(), &[]);
    fixture.pair("ca", "EC:secp384r1", "ecdsa-p384", "--usage-sign").await;
    let public = fixture.client.public_key("ca", 0).await.unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "root");
    let root = CertifiedIssuer::self_signed(params.clone(), KeyPair::generate().unwrap()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "on a token");
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let ca = params.signed_by(&SubjectPublicKeyInfo::from_der(&public.der).unwrap(), &root).unwrap();
    let leaf = KeyPair::generate().unwrap();
    let csr = CertificateParams::new(Vec::new()).unwrap().serialize_request(&leaf).unwrap().pem().unwrap();
    let ca_pem = ca.pem();
    let request = CertificateRequest {
        profile: "P384",
        csr: csr.as_bytes(),
        ca_key: "ca",
        ca_certificate: ca_pem.as_bytes(),
        subject: Some("CN=leaf"),
        ..CertificateRequest::default()
    };
    let issued = fixture.client.sign_certificate(&request).await.unwrap();
    let at = |name: &str| fixture.folder.path().join(name);
    std::fs::write(at("ca.pem"), ca.pem()).unwrap();
    std::fs::write(at("leaf.der"), issued.der).unwrap();
    let mut command = Command::new("openssl");
    command.args(["verify", "-partial_chain", "-trusted"]).arg(at("ca.pem")).arg(at("leaf.der"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The certificate is kept with the key, and need not come with a request.
    let both = format!("pkcs11:token={TOKEN};object=ca;type=private\n{ca_pem}");
    let wrong = both.replace(&ca_pem, &root.pem());
    let err = fixture.client.rotate_key("ca", wrong.as_bytes()).await.unwrap_err().to_string();
    assert!(err.contains("of another key"), "{err}");
    fixture.client.rotate_key("ca", both.as_bytes()).await.unwrap();
    fixture.client.sign_certificate(&CertificateRequest { ca_certificate: b"", ..request }).await.unwrap();
    let err = fixture.client.sign("P384", "ca", &[b"x"]).await.unwrap_err().to_string();
    assert!(err.contains("the key of a CA"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_encryption_key_on_a_token_takes_over_and_opens_the_folder_without_a_file() {
    let hsm = SoftHsm::new().unwrap();
    hsm.tool(&["--keygen", "--key-type", "AES:32", "--label", "kek", "--sensitive"]).unwrap();
    let kek = format!("pkcs11:token={TOKEN};object=kek");
    let mut fixture = start(hsm, &["--kek-pkcs11", &kek]);
    fixture.client.generate_key("seal", "aes-256-gcm").await.unwrap();
    let plain = Plain { plaintext: b"kept", ..Plain::default() };
    let sealed = fixture.client.encrypt("Seal", "seal", &[plain]).await.unwrap().outputs;
    let text = std::fs::read_to_string(fixture.folder.path().join("keys/seal.key")).unwrap();
    assert!(text.contains("\"kek\": \"pkcs11\""), "{text}");
    fixture.broker.stop().unwrap();
    fixture.broker.start_again().unwrap();
    let client = Client::new(Options::new(fixture.broker.socket()));
    let given = DecryptInput { cipher: &sealed[0], aad: b"" };
    let opened = client.decrypt("Seal", "seal", &[given]).await.unwrap().outputs.remove(0);
    assert_eq!(opened.unwrap().as_ref(), b"kept");
    // A key whose wrapping is on a token that is away is no key that the caller may not use.
    client.generate_key("signs", "ecdsa-p256").await.unwrap();
    fixture.broker.stop().unwrap();
    fixture.broker.start_again().unwrap();
    fixture.until("/ready", || fixture.get("/ready").0 == 200);
    fixture.hsm.remove().unwrap();
    fixture.until("/ready without the token", || fixture.get("/ready").0 == 503);
    let client = Client::new(Options { deadline: Duration::from_secs(3), ..Options::new(fixture.broker.socket()) });
    let err = client.usable_keys("P256", "").await.unwrap_err();
    assert!(err.code == Code::Unavailable && err.text.contains("the token is absent"), "{err}");
    fixture.hsm.put_back().unwrap();
    fixture.until("/ready with the token", || fixture.get("/ready").0 == 200);
    let usable = client.usable_keys("P256", "").await.unwrap().0;
    assert_eq!(usable.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["signs"]);
    // A restart by a supervisor would try a wrong PIN until it is locked: this exit code prevents it.
    fixture.broker.stop().unwrap();
    fixture.hsm.set_pin_file("wrong-pin").unwrap();
    let err = fixture.broker.start_again().unwrap_err().to_string();
    assert!(err.contains("exit status: 70") && err.contains("the token rejected the PIN"), "{err}");
    fixture.hsm.set_pin_file(PIN).unwrap();
    // Without the token no key opens, and the broker says why.
    fixture.hsm.remove().unwrap();
    let err = fixture.broker.start_again().unwrap_err().to_string();
    assert!(err.contains("--kek-pkcs11") && err.contains("the token is absent"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateways_identity_key_and_the_kek_of_its_sessions_are_on_the_token() {
    let fixture = start(SoftHsm::new().unwrap(), &[]);
    fixture.pair("identity", "EC:secp256r1", "ecdsa-p256", "--usage-sign").await;
    fixture.hsm.tool(&["--keygen", "--key-type", "AES:32", "--label", "sessions", "--sensitive"]).unwrap();
    let uri = format!("pkcs11:token={TOKEN};object=sessions;type=secret-key");
    fixture.client.import_key("sessions", "aes-256-gcm", uri.as_bytes()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = fixture.broker.socket().display().to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(BINARY).args(arguments).current_dir(folder.path()).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let made = run(&["identity", "generate", "identity.json", "--broker-key", "identity", "--socket", &socket]);
    assert!(made.0, "{}", made.1);
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /v3/, path: /.well-known/sealway-keys }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions:
  store: 'file:sessions.redb'
  kek_broker: {{ socket: '{socket}', profile: Seal, key: sessions, uid: {} }}
  identity: {{ key_file: identity.json, broker: {{ socket: '{socket}', profile: Identity }} }}
",
        rustix::process::getuid().as_raw(),
    );
    let gateway = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    let url = format!("http://{}/transaction/purchase", gateway.address());
    let call = ["call", "--trust-file", "trust", "-d", r#"{"schemeCode":"AEF","amount":5000}"#, &url];
    let (is_served, text) = run(&call);
    assert!(is_served && text.contains("SUCCESS"), "{text}");
    fixture.hsm.remove().unwrap();
    fixture.until("/ready", || fixture.get("/ready").0 == 503);
    let (is_served, text) = run(&call);
    assert!(!is_served, "a session was signed without the token: {text}");
    fixture.hsm.put_back().unwrap();
    fixture.until("/ready", || fixture.get("/ready").0 == 200);
    let (is_served, text) = run(&call);
    assert!(is_served && text.contains("SUCCESS"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_token_is_in_ready_and_metrics_and_works_again_without_a_restart() {
    let fixture = start(SoftHsm::new().unwrap(), &[]);
    fixture.pair("key", "EC:secp256r1", "ecdsa-p256", "--usage-sign").await;
    fixture.client.generate_key("file", "ecdsa-p256").await.unwrap();
    assert_eq!(fixture.get("/ready"), (200, "ready\n".into()));
    fixture.hsm.remove().unwrap();
    fixture.until("/ready says that the token is absent", || {
        let (status, body) = fixture.get("/ready");
        status == 503 && body.contains("pkcs11:token=fixture: the token is absent")
    });
    assert!(fixture.get("/metrics").1.contains("sealway_pkcs11_up{token=\"pkcs11:token=fixture\"} 0"));
    let err = fixture.client.sign("P256", "key", &[b"x"]).await.unwrap_err().to_string();
    assert!(err.contains("the token is absent"), "{err}");
    // Keys in files go on.
    fixture.client.sign("P256", "file", &[b"x"]).await.unwrap();
    fixture.hsm.put_back().unwrap();
    fixture.until("/ready", || fixture.get("/ready").0 == 200);
    let signature = fixture.client.sign("P256", "key", &[b"x"]).await.unwrap().outputs.remove(0);
    assert!(fixture.verified("key", b"x", &signature, &["-digest", "sha256"]).await);
    // The PIN is in the file that has it, and nowhere else.
    assert_eq!(files(fixture.folder.path(), PIN.as_bytes()), Vec::<PathBuf>::new());
    for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(process.path().join(file)).unwrap_or_default();
            let is_ours = text.windows(11).any(|window| window == b"pkcs11-host")
                || text.windows(8).any(|window| window == b"--pkcs11");
            assert!(!is_ours || !text.windows(PIN.len()).any(|window| window == PIN.as_bytes()), "{process:?} {file}");
        }
    }
}
