//! Keys of the store as issuers of certificates, checked by OpenSSL.

use std::path::Path;
use std::process::Command;

use sealway_broker::certificate::{Bound, Flavour, Issuer, Request, issue};
use sealway_broker::keys::{Store, StoreIssuer};
use sealway_broker::operation::sign;
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{
    CertificatePolicy, CertificateSignature, Curve, IssuerChecks, KeyConstraints, KeyUsage, Offset, SignAlgorithm,
    SignatureHash, SizeRange, SkiHash,
};
use sealway_runtime::clock::{Clock, SystemClock};

use crate::ground::{Memory, algorithm, empty, kek, made};
use sealway_broker::Code;

fn openssl(folder: &Path, line: &str) -> String {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(line.split(' '));
    let output = command.output().expect("openssl runs: scripts/setup-tests.sh installs it");
    assert!(output.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn policy(signature: CertificateSignature) -> CertificatePolicy {
    let any = KeyConstraints {
        rsa: Some(SizeRange { min: 2048, max: 8192 }),
        ecdsa: Some(SizeRange { min: 256, max: 521 }),
        ml_dsa: None,
    };
    let hour = 3_600_000_000_000;
    CertificatePolicy {
        signature,
        ski: SkiHash::Sha256,
        not_before: Offset { ns: -hour },
        not_after: Offset { ns: 24 * hour },
        subject: any,
        issuer: any,
        key_usage: KeyUsage(1),
        purposes: Vec::new(),
        is_ca: false,
        path_length: None,
        copies_san: false,
        copies_extensions: Vec::new(),
        checks: IssuerChecks::default(),
    }
}

#[test]
fn a_ca_key_of_the_store_issues_and_after_a_rotation_with_the_version_of_its_certificate() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    openssl(folder, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out subject.key");
    openssl(folder, "req -new -key subject.key -subj /CN=subject -out subject.csr");
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    for (name, options, signature) in [
        ("rsa-2048", "RSA -pkeyopt rsa_keygen_bits:2048", CertificateSignature::Rsa(SignatureHash::Sha384)),
        ("ecdsa-p384", "EC -pkeyopt ec_paramgen_curve:P-384", CertificateSignature::Ecdsa(SignatureHash::Sha512)),
        ("ecdsa-p256", "EC -pkeyopt ec_paramgen_curve:P-256", CertificateSignature::Ecdsa(SignatureHash::Sha384)),
        ("of-p521", "EC -pkeyopt ec_paramgen_curve:P-521", CertificateSignature::Ecdsa(SignatureHash::Sha256)),
    ] {
        openssl(folder, &format!("genpkey -algorithm {options} -out ca.key"));
        openssl(folder, "req -x509 -new -key ca.key -subj /CN=ca -days 30 -out ca.pem");
        let material = std::fs::read(folder.join("ca.key")).unwrap();
        store.import(name, algorithm(&name.replace("of-", "ecdsa-")), &material, 1).unwrap();
        let ca = std::fs::read(folder.join("ca.pem")).unwrap();
        for rotations in 0..2 {
            let issuing = StoreIssuer::new(store.get(name).unwrap(), &ca).unwrap();
            assert_eq!(issuing.version(), 1, "{name} after {rotations} rotations");
            let request = Request {
                csr: &std::fs::read(folder.join("subject.csr")).unwrap(),
                ca_certificate: &ca,
                issuer: Issuer::Key(&issuing),
                not_before: Bound::Profile,
                not_after: Bound::Profile,
                subject: None,
                crl_points: &[],
                now_ms: SystemClock.now_ms(),
                wire: Flavour::Ours,
            };
            // A request that fails takes no key from its signing of data.
            let other = Request { not_after: Bound::At(1), ..request };
            assert!(issue(&policy(signature), &other).is_err());
            assert_eq!(store.get(name).unwrap().rules().is_issuer, rotations > 0, "{name}");
            let issued = issue(&policy(signature), &request).unwrap();
            std::fs::write(folder.join("leaf.pem"), issued.pem()).unwrap();
            assert!(openssl(folder, "verify -CAfile ca.pem leaf.pem").contains("OK"));
            store.rotate(name, &[], 2).unwrap();
        }
        store.disable(name, 1).unwrap();
        let issuing = StoreIssuer::new(store.get(name).unwrap(), &ca).unwrap();
        assert_ne!(issuing.version(), 1, "a disabled version issues nothing");
    }
    // The key of a CA signs certificates alone, also after a restart, unless a profile says otherwise.
    drop(store);
    let store = Store::over(memory, kek()).unwrap();
    let (ca, other) = (store.get("ecdsa-p384").unwrap(), made(&store, "ecdsa-p521"));
    let on = |curve| Profile { sign: Some(SignAlgorithm::EcdsaDer(curve, SignatureHash::Sha512)), ..empty() };
    let refusal = sign(&on(Curve::P384), &ca, &[b"data"]).unwrap_err();
    assert_eq!(refusal.code, Code::FailedPrecondition);
    assert!(refusal.text.starts_with("key_id: the key of a CA, which signs certificates alone"), "{refusal}");
    sign(&Profile { signs_with_ca_keys: true, ..on(Curve::P384) }, &ca, &[b"data"]).unwrap();
    sign(&on(Curve::P521), &other, &[b"data"]).unwrap();
    assert!(!other.rules().is_issuer);
    let key = store.generate("ed25519", algorithm("ed25519"), 1).unwrap();
    assert!(StoreIssuer::new(key, b"").err().unwrap().text.contains("ed25519"));
}

#[test]
fn the_certificate_of_a_ca_is_kept_with_its_key_and_no_other_one_is_accepted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for name in ["ca", "other"] {
        openssl(folder, &format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out {name}.key"));
        openssl(folder, &format!("req -x509 -new -key {name}.key -subj /CN={name} -days 30 -out {name}.pem"));
    }
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let (memory, algorithm) = (Memory::default(), algorithm("ecdsa-p384"));
    let store = Store::over(memory.clone(), kek()).unwrap();
    let both = |key: &str, certificate: &str| [read(key), read(certificate)].concat();
    let refusal = store.import("ca", algorithm, &both("ca.key", "other.pem"), 1).unwrap_err();
    assert_eq!(refusal.text, "material: the certificate behind the key is of another key");
    let refusal = store.import("ca", algorithm, &[read("ca.key"), b"-----BEGIN CERTIFICATE-----".to_vec()].concat(), 1);
    assert!(refusal.unwrap_err().text.ends_with("is not that of a CA"));
    let key = store.import("ca", algorithm, &both("ca.key", "ca.pem"), 1).unwrap();
    assert!(key.rules().is_issuer, "it is the key of a CA from the start");
    // A later version has no certificate of its own: the one before goes on issuing.
    store.rotate("ca", b"", 2).unwrap();
    drop(store);
    let store = Store::over(memory.clone(), kek()).unwrap();
    let key = || store.get("ca").unwrap();
    let issuing = StoreIssuer::new(key(), b"").unwrap();
    assert_eq!((issuing.version(), issuing.certificate().is_some()), (1, true));
    StoreIssuer::new(key(), &read("ca.pem")).unwrap();
    // Another certificate of the same key is not the one that was kept.
    openssl(folder, "req -x509 -new -key ca.key -subj /CN=renamed -days 30 -out renamed.pem");
    let refusal = StoreIssuer::new(key(), &read("renamed.pem")).err().unwrap();
    assert!(refusal.text.starts_with("ca_certificate: not the one that is kept with the key"), "{refusal}");
    // A new version with its certificate takes its place.
    store.rotate("ca", &both("other.key", "other.pem"), 3).unwrap();
    assert_eq!(StoreIssuer::new(key(), b"").unwrap().version(), 3);
    let none = made(&store, "ecdsa-p256");
    let refusal = StoreIssuer::new(none, b"").err().unwrap();
    assert_eq!(refusal.text, "ca_certificate: required, as none is kept with the key");
    // Another certificate in the file, even one of the same key, is an error at the start.
    drop(store);
    let mut files = memory.0.lock().unwrap();
    let text = String::from_utf8(files.files["ca"].clone()).unwrap();
    let der = |name: &str| x509_parser::pem::parse_x509_pem(&read(name)).unwrap().1.contents;
    let encode = |der: Vec<u8>| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
    let changed = text.replace(&encode(der("ca.pem")), &encode(der("renamed.pem")));
    assert_ne!(changed, text);
    files.files.insert("ca".into(), changed.into_bytes());
    drop(files);
    let err = Store::over(memory, kek()).err().unwrap().to_string();
    assert!(err.starts_with("the file of key ca: version 1: "), "{err}");
}
