//! Keys of ML-DSA on a token of kryoptic through the store, verified by the library: generated, rotated, and as keys of CAs.

use std::time::{Duration, Instant};

use sealway_awslc::{MlDsa, PublicKey, Scheme};
use sealway_broker::certificate::IssuerKey;
use sealway_broker::keys::{Store, StoreIssuer, Tokens};
use sealway_broker::operation::{SignedInput, sign, sign_digests, verify};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{CertificateSignature, MlDsaAlgorithm, SignAlgorithm};
use sealway_pkcs11::{Options, Token, Uri};
use sealway_testkit::kryoptic::Kryoptic;
use sealway_testkit::softhsm::TOKEN;

use crate::ground::{algorithm, empty, kek};

/// The host process: this binary again. Only [`start`] runs it, by name.
#[test]
#[ignore = "the host process of other tests"]
fn host_process() {
    sealway_pkcs11::run_host().unwrap();
}

fn start(hsm: &Kryoptic) -> Token {
    let (name, conf) = hsm.environment();
    let options = Options {
        uri: Uri::parse(&hsm.uri()).unwrap(),
        program: "/usr/bin/env".into(),
        arguments: [
            format!("{name}={}", conf.display()),
            std::env::current_exe().unwrap().display().to_string(),
            "--exact".into(),
            "--ignored".into(),
            "token::host_process".into(),
        ]
        .into(),
        hidden: Vec::new(),
        deadline: Duration::from_secs(60),
        sessions: 2,
    };
    let token = Token::start(options).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(err) = token.wait_ready(Duration::from_secs(1)) {
        assert!(Instant::now() < end, "{err}");
    }
    token
}

#[test]
fn ml_dsa_keys_are_generated_rotated_and_issue_on_a_token() {
    let (hsm, folder) = (Kryoptic::new().unwrap(), tempfile::tempdir().unwrap());
    let tokens = Tokens::new(vec![start(&hsm)]).generating_on(&format!("pkcs11:token={TOKEN}")).unwrap();
    let store = Store::open_with(&folder.path().join("keys"), false, Box::new(kek()), tokens).unwrap();
    let message: &[u8] = b"a message";
    let sets = [MlDsa::MlDsa44, MlDsa::MlDsa65, MlDsa::MlDsa87];
    for ((name, set), library) in MlDsaAlgorithm::NAMES.into_iter().zip(sets) {
        let profile = Profile { sign: Some(SignAlgorithm::MlDsa(set)), ..empty() };
        let first = store.generate(name, algorithm(name), 1).unwrap();
        let one = sign(&profile, &first, &[message]).unwrap().outputs.remove(0);
        let second = store.rotate(name, &[], 2).unwrap();
        let two = sign(&profile, &second, &[message]).unwrap().outputs.remove(0);
        let of = |input, signature, key_version| SignedInput { input, signature, key_version };
        let signed = [of(message, &one, 1), of(message, &two, 2), of(message, &two, 1), of(b"x", &two, 2)];
        assert_eq!(verify(&profile, &second, &signed).unwrap(), [true, true, false, false], "{name}");
        assert!(sign_digests(&profile, &second, &[&[0; 64]]).is_err(), "{name}");
        for (version, signature) in [(1, &one), (2, &two)] {
            let public = PublicKey::from_spki(&second.public_key(version).unwrap().1).unwrap();
            public.verify(Scheme::MlDsa(library), message, signature).unwrap();
        }
        // The profile of another parameter set.
        let other = if set == MlDsaAlgorithm::MlDsa44 { MlDsaAlgorithm::MlDsa65 } else { MlDsaAlgorithm::MlDsa44 };
        let profile = Profile { sign: Some(SignAlgorithm::MlDsa(other)), ..empty() };
        assert!(sign(&profile, &second, &[message]).is_err(), "{name}");
        let ca = ca_certificate(&folder, &second.public_key(2).unwrap().1);
        let issuer = StoreIssuer::new(store.get(name).unwrap(), &ca).unwrap();
        assert_eq!((issuer.version(), issuer.size()), (2, set.number()));
        let signature = issuer.sign(CertificateSignature::MlDsa(set), message).unwrap();
        let public = PublicKey::from_spki(&issuer.spki()).unwrap();
        public.verify(Scheme::MlDsa(library), message, &signature).unwrap();
        assert!(issuer.sign(CertificateSignature::MlDsa(other), message).is_err(), "{name}");
    }
    let err = store.generate("kem", algorithm("ml-kem-768"), 1).unwrap_err();
    assert!(err.text.contains("cannot be on a token"), "{}", err.text);
}

/// Makes a CA's certificate of a public key, by another library.
fn ca_certificate(folder: &tempfile::TempDir, spki: &[u8]) -> Vec<u8> {
    let (from, to) = (folder.path().join("spki"), folder.path().join("ca.pem"));
    std::fs::write(&from, spki).unwrap();
    let mut python = std::process::Command::new(sealway_testkit::daemon::root().join(".venv/bin/python"));
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ml_dsa.py");
    assert!(python.arg(script).arg("ca").args([&from, &to]).status().unwrap().success());
    std::fs::read(to).unwrap()
}
