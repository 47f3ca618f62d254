//! `sealway load` against a real broker: every operation of both protocols, failures, and the report.

use std::path::Path;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};
use sealway_client::broker::{Client, Options};
use sealway_load::plan::{Broker as BrokerPlan, BrokerCertificate, BrokerOperation, BrokerWire, Plan, Protocol};
use sealway_load::record::Class;
use sealway_testkit::broker::Broker;

use crate::BINARY;
use crate::ground::{fault, plan, run, run_well, workers};

/// A broker with a key for every operation.
struct Ground {
    folder: tempfile::TempDir,
    broker: Broker,
}

impl Ground {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::start(BINARY, folder.path()).unwrap();
        let client = Client::new(Options::new(broker.socket()));
        for (key, algorithm) in [
            ("seal", "aes-256-gcm"),
            ("mac", "hmac-sha-256"),
            ("derive", "hkdf-sha-256"),
            ("kem", "ml-kem-768"),
            ("p256", "ecdsa-p256"),
            ("unwrap", "rsa-unwrap-2048"),
        ] {
            client.generate_key(key, algorithm).await.unwrap();
        }
        let files = authority(folder.path());
        client.import_key("ca", "ecdsa-p256", &files).await.unwrap();
        Ground { folder, broker }
    }

    fn certificate(&self, wire: BrokerWire) -> BrokerCertificate {
        let path = |name: &str| self.folder.path().join(name);
        let issuer_key = (wire == BrokerWire::Open).then(|| path("ca.key"));
        BrokerCertificate { csr: path("leaf.csr"), issuer: path("ca.pem"), issuer_key }
    }

    /// Makes so many calls with three workers.
    fn asked(&self, wire: BrokerWire, operation: BrokerOperation, batch: u32, requests: u64) -> Plan {
        use BrokerOperation as Is;
        let (profile, key) = match operation {
            Is::Hash => ("Sha256", ""),
            Is::Sign => ("P256", if wire == BrokerWire::V1 { "ca" } else { "" }),
            // In that protocol the load generator supplies the nonces.
            Is::Encrypt | Is::Decrypt if wire == BrokerWire::Open => ("Given", "seal"),
            Is::Encrypt | Is::Decrypt | Is::Rewrap => ("Seal", "seal"),
            Is::SignData | Is::Verify => ("P256", "p256"),
            Is::Mac | Is::VerifyMac => ("Mac", "mac"),
            Is::Derive => ("Derive", "derive"),
            Is::Random => ("Default", ""),
            Is::Encapsulate | Is::Decapsulate => ("Kem", "kem"),
            Is::Unwrap => ("Unwrap", "unwrap"),
            Is::Information | Is::Health => ("", ""),
        };
        let mut plan = plan("http://localhost/", None, requests);
        workers(&mut plan, 3);
        plan.target.protocol = Protocol::Broker;
        plan.target.broker = Some(BrokerPlan {
            socket: self.broker.socket(),
            wire,
            operation,
            profile: profile.into(),
            key: key.into(),
            input_len: 32,
            batch,
            certificate: (operation == Is::Sign).then(|| self.certificate(wire)),
        });
        plan
    }
}

/// Writes an authority's certificate and key and a certification request. Returns the key in PKCS#8.
fn authority(folder: &Path) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("ca.pem", ca.self_signed(&key).unwrap().pem());
    write("ca.key", key.serialize_pem());
    let leaf = KeyPair::generate().unwrap();
    let request = CertificateParams::new(vec!["leaf.example".into()]).unwrap().serialize_request(&leaf).unwrap();
    write("leaf.csr", request.pem().unwrap());
    key.serialize_der()
}

#[tokio::test]
async fn every_operation_of_both_wires_is_driven_and_counted() {
    let ground = Ground::new().await;
    tokio::task::spawn_blocking(move || {
        let requests = 30;
        for (wire, batches) in [(BrokerWire::V1, &[1, 5][..]), (BrokerWire::Open, &[1])] {
            for operation in BrokerOperation::ALL {
                let name = operation.name();
                if wire == BrokerWire::Open && !operation.is_open() {
                    continue;
                }
                for batch in batches.iter().filter(|batch| **batch == 1 || operation.has_batch()) {
                    println!("{name} on {} by {batch}", wire.name());
                    let sum = run_well(ground.asked(wire, operation, *batch, requests)).totals.sum;
                    assert_eq!((sum.counts.succeeded, sum.counts.connections_opened), (requests, 3), "{name}");
                    assert_eq!(sum.statuses(), [(200, requests)], "{name}");
                    assert!(sum.counts.bytes_sent > 0 && sum.counts.bytes_received > 0, "{name}");
                }
            }
        }
        // Several workers share one connection.
        let mut plan = ground.asked(BrokerWire::V1, BrokerOperation::Hash, 1, requests);
        plan.connections.streams = 3;
        assert_eq!(run_well(plan).totals.sum.counts.connections_opened, 1);
        failures(ground);
    })
    .await
    .unwrap();
}

/// A rejected call has the broker's code as its status; a call to a stopped broker is a failed connection.
fn failures(mut ground: Ground) {
    // Work before the first call is rejected in the same way as the call.
    for (wire, operation, profile, says, code) in [
        (BrokerWire::V1, BrokerOperation::Hash, "nobody", "InvalidArgument", 3),
        (BrokerWire::V1, BrokerOperation::Encrypt, "Mac", "FailedPrecondition", 9),
        (BrokerWire::V1, BrokerOperation::Decrypt, "Mac", "FailedPrecondition", 9),
        (BrokerWire::V1, BrokerOperation::Verify, "nobody", "InvalidArgument", 3),
        (BrokerWire::Open, BrokerOperation::Hash, "nobody", "InvalidArgument", 3),
        (BrokerWire::Open, BrokerOperation::Sign, "nobody", "InvalidArgument", 3),
        (BrokerWire::Open, BrokerOperation::Encrypt, "nobody", "InvalidArgument", 3),
        (BrokerWire::Open, BrokerOperation::Decrypt, "nobody", "InvalidArgument", 3),
        (BrokerWire::Open, BrokerOperation::Encrypt, "Seal", "does not leave it to the caller", 3),
        (BrokerWire::Open, BrokerOperation::Decrypt, "Mac", "FailedPrecondition", 9),
    ] {
        let mut plan = ground.asked(wire, operation, 1, 6);
        plan.target.broker.as_mut().unwrap().profile = profile.into();
        let outcome = run(plan);
        let (class, words) = fault(&outcome);
        let told = words.contains(says) && (says != "InvalidArgument" || words.contains(profile));
        assert!(class == Class::Status && told, "{} {}: {words}", wire.name(), operation.name());
        assert_eq!(outcome.totals.sum.statuses(), [(code, 6)], "{} {}", wire.name(), operation.name());
    }
    let plan = ground.asked(BrokerWire::V1, BrokerOperation::Hash, 1, 2);
    ground.broker.kill().unwrap();
    let (class, words) = fault(&run(plan));
    assert!(matches!(class, Class::Refused | Class::Connect) && words.contains("broker.sock"), "{class:?}: {words}");
}

#[tokio::test]
async fn a_load_with_a_wrong_profile_fails_loudly_with_the_code() {
    let ground = Ground::new().await;
    let url = format!("broker://{}", ground.broker.socket().display());
    let load = |wire: &'static str, operation: &'static str, profile: &'static str| {
        let mut command = Command::new(BINARY);
        command.args(["load", &url, "--broker-operation", operation, "--profile", profile, "--broker-key", "seal"]);
        command.args(["--broker-wire", wire, "--concurrency", "2", "--requests", "20", "--no-tui"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    for (wire, operation, profile, says) in [
        ("v1", "encrypt", "Nobody", "InvalidArgument: could not retrieve profile, err: there is no profile: Nobody"),
        ("v1", "decrypt", "Mac", "FailedPrecondition: profile: Mac has no EncryptData"),
        ("open", "encrypt", "Nobody", "could not retrieve profile, err: there is no profile: Nobody"),
        ("open", "decrypt", "Nobody", "could not retrieve profile, err: there is no profile: Nobody"),
    ] {
        let (code, text) = load(wire, operation, profile);
        assert_eq!(code, Some(1), "{text}");
        // Lines of the summary wrap at 80 columns.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(says), "{wire} {operation}: {text}");
    }
    let (code, text) = load("open", "decrypt", "Given");
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn a_broker_run_reports_its_operation() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(BINARY, folder.path()).unwrap();
    let report = folder.path().join("report.json");
    let url = format!("broker://{}", broker.socket().display());
    let mut command = Command::new(BINARY);
    command.args([
        "load",
        &url,
        "--broker-operation",
        "hash",
        "--profile",
        "Sha256",
        "--input-bytes",
        "64",
        "--batch",
        "8",
    ]);
    command.args(["--streams", "4", "--concurrency", "4", "--requests", "200", "--no-tui", "--out"]).arg(&report);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("hash {url}, broker (v1, 64 bytes, 8 per call)")), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let asked = &report["asked"];
    assert_eq!((asked["protocol"].as_str(), asked["method"].as_str()), (Some("broker"), Some("hash")));
    let wanted = serde_json::json!({
        "socket": broker.socket(), "wire": "v1", "operation": "hash", "profile": "Sha256", "key": null,
        "input_bytes": 64, "batch": 8,
    });
    assert_eq!(asked["broker"], wanted);
    assert!(broker.id() > 0);
}
