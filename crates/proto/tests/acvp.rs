//! NIST's sample vectors of ACVP for ML-KEM and ML-DSA, through the seam with every provider, and through the functions of
//! RustCrypto where the seam has no place for a vector's randomness or interface.
//!
//! | vectors | cases | through the seam | through RustCrypto |
//! | --- | --- | --- | --- |
//! | ML-KEM keyGen | 75 | 25 seeds of ML-KEM-768; 50 decapsulation keys of ML-KEM-768 and -1024 | 75 |
//! | ML-KEM encapsulation | 75 | 0: it draws the randomness | 75 |
//! | ML-KEM decapsulation | 30 | 20 of ML-KEM-768 and -1024 | 30 |
//! | ML-DSA keyGen | 75 | 50 of ML-DSA-65 and -87 | 75 |
//! | ML-DSA sigGen | 60 | 0: they are of the internal interface (FIPS 204 section 6) | 60 |
//! | ML-DSA sigVer | 45 | 0: they are of the internal interface | 45 |
//!
//! The tests `acvp` of the broker and of `sealway-awslc` run cases with AWS-LC that the seam has no place for. The numbers of
//! cases are asserted: otherwise a filter that excludes everything would pass unnoticed.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]
#![allow(deprecated, reason = "the vectors have expanded keys")]

mod providers;

use ml_dsa::{B32, ExpandedSigningKey, KeyInit, MlDsa44, MlDsa65, MlDsa87, MlDsaParams, SigningKey, VerifyingKey};
use ml_kem::{Decapsulate, DecapsulationKey, EncapsulationKey, ExpandedKeyEncoding, KeyExport, TryKeyInit};
use ml_kem::{MlKem512, MlKem768, MlKem1024};
use providers::{library, provider, with_each};
use sealway_proto::crypto::agreement::Kem;
use sealway_proto::crypto::identity::Scheme;
use sealway_testkit::acvp::{Case, cases};

fn kem(case: &Case) -> Option<Kem> {
    match case.text("parameterSet") {
        "ML-KEM-768" => Some(Kem::MlKem768),
        "ML-KEM-1024" => Some(Kem::MlKem1024),
        _ => None,
    }
}

#[test]
fn ml_kem_keys_are_those_of_the_vectors() {
    let cases = cases("ML-KEM-keyGen-FIPS203").unwrap();
    with_each(|_| {
        let (mut of_seeds, mut read) = (0, 0);
        for case in &cases {
            let Some(kem) = kem(case) else { continue };
            let key = provider().kem_from_private(kem, &case.bytes("dk")).unwrap();
            assert_eq!(key.public(), case.bytes("ek"), "case {}", case.id);
            read += 1;
            if kem == Kem::MlKem768 {
                let seed: [u8; 64] = [case.bytes("d"), case.bytes("z")].concat().try_into().unwrap();
                let key = provider().kem_from_seed(&seed).unwrap();
                assert_eq!(key.public(), case.bytes("ek"), "case {}", case.id);
                of_seeds += 1;
            }
        }
        assert_eq!((of_seeds, read), (25, 50));
    });
}

#[test]
fn ml_kem_decapsulates_the_secrets_of_the_vectors() {
    let cases = cases("ML-KEM-encapDecap-FIPS203").unwrap();
    with_each(|_| {
        let mut count = 0;
        for case in cases.iter().filter(|case| case.text("function") == "decapsulation") {
            let Some(kem) = kem(case) else { continue };
            let key = provider().kem_from_private(kem, &case.bytes("dk")).unwrap();
            assert_eq!(key.decapsulate(&case.bytes("c")).unwrap().to_vec(), case.bytes("k"), "case {}", case.id);
            count += 1;
        }
        assert_eq!(count, 20);
    });
}

/// Defines a function that runs a case of ML-KEM by RustCrypto alone.
macro_rules! ml_kem_case {
    ($name:ident, $set:ty) => {
        fn $name(case: &Case, function: &str) {
            match function {
                "keyGen" => {
                    let seed: [u8; 64] = [case.bytes("d"), case.bytes("z")].concat().try_into().unwrap();
                    let key = DecapsulationKey::<$set>::from_seed(seed.into());
                    assert_eq!(key.encapsulation_key().to_bytes().to_vec(), case.bytes("ek"), "case {}", case.id);
                    assert_eq!(key.to_expanded_bytes().to_vec(), case.bytes("dk"), "case {}", case.id);
                }
                "encapsulation" => {
                    let key = EncapsulationKey::<$set>::new_from_slice(&case.bytes("ek")).unwrap();
                    let message: [u8; 32] = case.bytes("m").try_into().unwrap();
                    let (ciphertext, secret) = key.encapsulate_deterministic(&message.into());
                    let expected = (case.bytes("c"), case.bytes("k"));
                    assert_eq!((ciphertext.to_vec(), secret.to_vec()), expected, "case {}", case.id);
                }
                _ => {
                    let key = case.bytes("dk").as_slice().try_into().unwrap();
                    let key = DecapsulationKey::<$set>::from_expanded_bytes(&key).unwrap();
                    let secret = key.decapsulate_slice(&case.bytes("c")).unwrap();
                    assert_eq!(secret.to_vec(), case.bytes("k"), "case {}", case.id);
                }
            }
        }
    };
}

ml_kem_case!(ml_kem_512, MlKem512);
ml_kem_case!(ml_kem_768, MlKem768);
ml_kem_case!(ml_kem_1024, MlKem1024);

#[test]
fn rust_crypto_does_all_of_ml_kem_as_the_vectors_say() {
    let run = |case: &Case, function: &str| match case.text("parameterSet") {
        "ML-KEM-512" => ml_kem_512(case, function),
        "ML-KEM-768" => ml_kem_768(case, function),
        "ML-KEM-1024" => ml_kem_1024(case, function),
        other => panic!("{other}"),
    };
    let keys = cases("ML-KEM-keyGen-FIPS203").unwrap();
    keys.iter().for_each(|case| run(case, "keyGen"));
    let secrets = cases("ML-KEM-encapDecap-FIPS203").unwrap();
    secrets.iter().for_each(|case| run(case, case.text("function")));
    let encapsulations = secrets.iter().filter(|case| case.text("function") == "encapsulation").count();
    assert_eq!((keys.len(), encapsulations, secrets.len() - encapsulations), (75, 75, 30));
}

/// Encodes a seed as PKCS#8 (RFC 9881 section 6); `last` is the last byte of the parameter set's identifier.
fn seed_pkcs8(last: u8, seed: &[u8]) -> Vec<u8> {
    let before: [u8; 22] = [
        0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, last,
        0x04, 0x22, 0x80, 0x20,
    ];
    [before.as_slice(), seed].concat()
}

#[test]
fn ml_dsa_keys_of_seeds_are_those_of_the_vectors() {
    let cases = cases("ML-DSA-keyGen-FIPS204").unwrap();
    with_each(|name| {
        let mut count = 0;
        for case in &cases {
            let (scheme, last) = match case.text("parameterSet") {
                "ML-DSA-65" => (Scheme::MlDsa65, 0x12),
                "ML-DSA-87" => (Scheme::MlDsa87, 0x13),
                _ => continue,
            };
            if !library().has(scheme) {
                continue;
            }
            let key = library().scheme_from_pkcs8(scheme, &seed_pkcs8(last, &case.bytes("seed"))).unwrap();
            assert_eq!(key.public(), case.bytes("pk"), "case {}", case.id);
            count += 1;
        }
        // ring has no ML-DSA of its own.
        assert!(count == 50 || (name, count) == ("ring", 0), "{name}: {count}");
    });
}

fn b32(bytes: &[u8]) -> B32 {
    bytes.try_into().unwrap()
}

fn ml_dsa_key<P: MlDsaParams>(case: &Case) {
    let key = SigningKey::<P>::from_seed(&b32(&case.bytes("seed")));
    assert_eq!(key.expanded_key().verifying_key().encode().to_vec(), case.bytes("pk"), "case {}", case.id);
    assert_eq!(key.expanded_key().to_expanded().to_vec(), case.bytes("sk"), "case {}", case.id);
}

fn ml_dsa_signature<P: MlDsaParams>(case: &Case) {
    let key = ExpandedSigningKey::<P>::from_expanded(&case.bytes("sk").as_slice().try_into().unwrap());
    let random = if case.flag("deterministic") { B32::default() } else { b32(&case.bytes("rnd")) };
    let signature = key.sign_internal(&[&case.bytes("message")], &random);
    assert_eq!(signature.encode().to_vec(), case.bytes("signature"), "case {}", case.id);
}

fn ml_dsa_verification<P: MlDsaParams>(case: &Case) -> bool {
    let key = VerifyingKey::<P>::new_from_slice(&case.bytes("pk")).unwrap();
    let signature = ml_dsa::Signature::<P>::try_from(case.bytes("signature").as_slice());
    let is_valid = signature.is_ok_and(|signature| key.verify_internal(&case.bytes("message"), &signature));
    assert_eq!(is_valid, case.flag("testPassed"), "case {}", case.id);
    is_valid
}

/// Runs the function of a case's parameter set.
macro_rules! by_set {
    ($run:ident, $case:expr) => {
        match $case.text("parameterSet") {
            "ML-DSA-44" => $run::<MlDsa44>($case),
            "ML-DSA-65" => $run::<MlDsa65>($case),
            "ML-DSA-87" => $run::<MlDsa87>($case),
            other => panic!("{other}"),
        }
    };
}

#[test]
fn rust_crypto_does_all_of_ml_dsa_as_the_vectors_say() {
    let keys = cases("ML-DSA-keyGen-FIPS204").unwrap();
    keys.iter().for_each(|case| by_set!(ml_dsa_key, case));
    let signatures = cases("ML-DSA-sigGen-FIPS204").unwrap();
    signatures.iter().for_each(|case| by_set!(ml_dsa_signature, case));
    let verifications = cases("ML-DSA-sigVer-FIPS204").unwrap();
    let valid = verifications.iter().filter(|case| by_set!(ml_dsa_verification, case)).count();
    assert_eq!((keys.len(), signatures.len(), verifications.len(), valid), (75, 60, 45, 9));
}
