//! A broker with ML-DSA keys on a token of kryoptic: signatures and certificates, which another library verifies.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use sealway_client::broker::{CertificateRequest, Client, Code, Options, Verification};
use sealway_testkit::broker::{Broker, PROFILES};
use sealway_testkit::daemon::root;
use sealway_testkit::kryoptic::Kryoptic;
use sealway_testkit::softhsm::TOKEN;

use crate::pkcs11::binary;

const MORE: &str = "
- {Name: '44', Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ml-dsa-44}}}
- {Name: '65', Settings: {CryptoLibrary: native}, API: {SignData: {SignAlg: ml-dsa-65}}}
- Name: '87'
  Settings: {CryptoLibrary: native}
  API:
    SignData: {SignAlg: ml-dsa-87}
    SignCertificate:
      SignAlg: ml-dsa-87
      SKIHashAlg: sha-384
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 720h}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
      KeyConstraints:
        Subject: {ecdsa: {MinKeySize: 256, MaxKeySize: 521}}
        Issuer: {ml-dsa: {MinKeySize: 87, MaxKeySize: 87}}
";

struct Fixture {
    hsm: Kryoptic,
    folder: tempfile::TempDir,
    _broker: Broker,
    client: Client,
}

/// Starts a broker that generates keys on a token.
async fn start() -> Fixture {
    let (hsm, folder) = (Kryoptic::new().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("Profiles.yaml"), format!("{PROFILES}{MORE}")).unwrap();
    let (uri, on) = (hsm.uri(), format!("pkcs11:token={TOKEN}"));
    let arguments = ["--pkcs11", &uri, "--pkcs11-generate", &on].map(OsStr::new);
    let broker = Broker::start_with(binary(hsm.folder(), hsm.environment()), folder.path(), &arguments).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    let end = Instant::now() + Duration::from_secs(60);
    // The token logs in beside the start.
    while let Err(err) = client.generate_key("first", "ecdsa-p256").await {
        assert!(Instant::now() < end, "{err}\n{}", broker.tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Fixture { hsm, folder, _broker: broker, client }
}

/// Runs the peer of tests of ML-DSA, which is another library.
fn peer(arguments: &[&OsStr]) -> String {
    let mut command = Command::new(root().join(".venv/bin/python"));
    let output = command.arg(root().join("crates/broker/tests/ml_dsa.py")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Verifies a signature under the public half of a version; returns the type of the key.
async fn verified(fixture: &Fixture, id: &str, version: u32, message: &[u8], signature: &[u8]) -> String {
    let public = fixture.client.public_key(id, version).await.unwrap();
    let at = |name: &str| fixture.folder.path().join(name);
    let files = [("public.der", public.der.as_ref()), ("message", message), ("signature", signature)];
    for (name, bytes) in files {
        std::fs::write(at(name), bytes).unwrap();
    }
    let files = files.map(|(name, _)| at(name));
    let arguments: Vec<&OsStr> =
        std::iter::once(OsStr::new("check")).chain(files.iter().map(|file| file.as_os_str())).collect();
    peer(&arguments).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ml_dsa_keys_on_a_token_sign_rotate_and_verify_and_another_library_agrees() {
    let fixture = start().await;
    let client = &fixture.client;
    let message: &[u8] = b"a message";
    for (profile, kind) in [("44", "MLDSA44PublicKey"), ("65", "MLDSA65PublicKey"), ("87", "MLDSA87PublicKey")] {
        let (id, algorithm) = (format!("key-{profile}"), format!("ml-dsa-{profile}"));
        assert!(!client.generate_key(&id, &algorithm).await.unwrap().is_imported);
        let first = client.sign(profile, &id, &[message]).await.unwrap().outputs.remove(0);
        assert!(verified(&fixture, &id, 1, message, &first).await.ends_with(kind), "{id}");
        client.rotate_key(&id, &[]).await.unwrap();
        let second = client.sign(profile, &id, &[message]).await.unwrap().outputs.remove(0);
        assert!(verified(&fixture, &id, 2, message, &second).await.ends_with(kind), "{id}");
        let of = |input, signature, key_version| Verification { input, signature, key_version };
        let signed = [of(message, &first, 1), of(message, &second, 2), of(message, &second, 1), of(b"x", &second, 2)];
        assert_eq!(client.verify(profile, &id, &signed).await.unwrap().outputs, [true, true, false, false], "{id}");
    }
    let tool = ["--keypairgen", "--key-type", "EC:secp256r1", "--label", "classical", "--usage-sign"];
    fixture.hsm.tool(&tool).unwrap();
    let uri = format!("pkcs11:token={TOKEN};object=classical;type=private");
    let err = client.import_key("classical", "ml-dsa-65", uri.as_bytes()).await.unwrap_err().to_string();
    assert!(err.contains("another type or size"), "{err}");
    client.import_key("classical", "ecdsa-p256", uri.as_bytes()).await.unwrap();
    let err = client.sign("65", "key-87", &[message]).await.unwrap_err();
    assert!(err.code == Code::InvalidArgument && err.text.contains("a key of ml-dsa-87"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_key_of_ml_dsa_on_a_token_issues_certificates() {
    let fixture = start().await;
    fixture.client.generate_key("ca", "ml-dsa-87").await.unwrap();
    let public = fixture.client.public_key("ca", 0).await.unwrap();
    let (spki, ca, issued) = (
        fixture.folder.path().join("ca.der"),
        fixture.folder.path().join("ca.pem"),
        fixture.folder.path().join("leaf"),
    );
    std::fs::write(&spki, &public.der).unwrap();
    peer(&[OsStr::new("ca"), spki.as_os_str(), ca.as_os_str()]);
    let leaf = rcgen::KeyPair::generate().unwrap();
    let csr = rcgen::CertificateParams::new(Vec::new()).unwrap().serialize_request(&leaf).unwrap().pem().unwrap();
    let certificate = std::fs::read(&ca).unwrap();
    let request = CertificateRequest {
        profile: "87",
        csr: csr.as_bytes(),
        ca_key: "ca",
        ca_certificate: &certificate,
        subject: Some("CN=leaf"),
        ..CertificateRequest::default()
    };
    let made = fixture.client.sign_certificate(&request).await.unwrap();
    std::fs::write(&issued, made.der).unwrap();
    let mut command = Command::new("openssl");
    command.args(["x509", "-inform", "DER", "-in"]).arg(&issued).arg("-out").arg(&issued);
    assert!(command.status().unwrap().success());
    let told = peer(&[OsStr::new("verify"), ca.as_os_str(), issued.as_os_str()]);
    assert_eq!(told, "2.16.840.1.101.3.4.3.19 ECPublicKey v3\n");
}
