//! NIST's sample vectors of ACVP for ML-DSA, whose signatures are of the internal interface (FIPS 204 section 6): 45 to verify, and
//! 60 valid ones of private keys. The library takes the message representative of that interface in the place of a digest; no
//! function of this crate passes one. It signs with randomness of its own, so that no signature is made as in the vectors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sealway_testkit::acvp::{Case, cases};

use super::{Kind, MlDsa, PrivateKey, PublicKey};
use crate::{shake256, signature};

/// Returns the parameter set with the last byte of its identifier, and the lengths of a public and a private key.
fn set(case: &Case) -> (MlDsa, u8, usize, usize) {
    match case.text("parameterSet") {
        "ML-DSA-44" => (MlDsa::MlDsa44, 0x11, 1312, 2560),
        "ML-DSA-65" => (MlDsa::MlDsa65, 0x12, 1952, 4032),
        "ML-DSA-87" => (MlDsa::MlDsa87, 0x13, 2592, 4896),
        other => panic!("{other}"),
    }
}

/// Tag and length of a DER element of 256 to 65,535 bytes.
fn head(tag: u8, len: usize) -> [u8; 4] {
    let [.., high, low] = len.to_be_bytes();
    [tag, 0x82, high, low]
}

/// AlgorithmIdentifier of a parameter set (RFC 9881 section 2).
fn identifier(last: u8) -> [u8; 13] {
    [0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, last]
}

fn verifies(key: &PublicKey, public: &[u8], case: &Case) -> bool {
    let (mut digest, mut representative) = ([0; 64], [0; 64]);
    shake256(public, &mut digest).unwrap();
    shake256(&[&digest, case.bytes("message").as_slice()].concat(), &mut representative).unwrap();
    assert_eq!(key.kind(), Kind::MlDsa(set(case).0));
    // SAFETY: the key is alive during the call, and of ML-DSA.
    unsafe { signature::verify_representative(key.0.0, &representative, &case.bytes("signature")) }.is_ok()
}

#[test]
fn ml_dsa_signatures_verify_as_the_vectors_say() {
    let (mut valid, mut invalid) = (0, 0);
    for case in cases("ML-DSA-sigVer-FIPS204").unwrap() {
        let (_, last, len, _) = set(&case);
        let public = case.bytes("pk");
        let (all, bits) = (head(0x30, 13 + 4 + 1 + len), head(0x03, 1 + len));
        let spki = [all.as_slice(), &identifier(last), &bits, &[0], &public].concat();
        let is_valid = verifies(&PublicKey::from_spki(&spki).unwrap(), &public, &case);
        assert_eq!(is_valid, case.flag("testPassed"), "case {}", case.id);
        *(if is_valid { &mut valid } else { &mut invalid }) += 1;
    }
    assert_eq!((valid, invalid), (9, 36));
}

#[test]
fn ml_dsa_signatures_of_private_keys_of_the_vectors_verify() {
    let mut count = 0;
    for case in cases("ML-DSA-sigGen-FIPS204").unwrap() {
        let (_, last, public_len, len) = set(&case);
        let (version, inner, outer) = ([2, 1, 0], head(0x04, len), head(0x04, 4 + len));
        let all = head(0x30, 3 + 13 + 4 + 4 + len);
        let pkcs8 = [all.as_slice(), &version, &identifier(last), &outer, &inner, &case.bytes("sk")].concat();
        let spki = PrivateKey::from_pkcs8(&pkcs8).unwrap().public_spki().unwrap();
        let public = &spki[spki.len() - public_len..];
        assert!(verifies(&PublicKey::from_spki(&spki).unwrap(), public, &case), "case {}", case.id);
        count += 1;
    }
    assert_eq!(count, 60);
}
