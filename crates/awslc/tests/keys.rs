//! Keys in all their forms, made by the command `openssl`, and what must not be taken for one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use sealway_awslc::{Curve, DER_MAX, Failed, Hash, Kind, MESSAGE_MAX, PrivateKey, PublicKey, Scheme};

/// What `openssl` with these arguments writes for this input.
fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs: scripts/setup-tests.sh installs it");
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    output.stdout
}

fn pkcs8(algorithm: &str, option: &str) -> Vec<u8> {
    let pem = openssl(&["genpkey", "-algorithm", algorithm, "-pkeyopt", option], b"");
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &pem)
}

const CURVES: [(&str, Curve); 5] = [
    ("P-224", Curve::P224),
    ("P-256", Curve::P256),
    ("P-384", Curve::P384),
    ("P-521", Curve::P521),
    ("secp256k1", Curve::Secp256k1),
];

#[test]
fn every_curve_signs_with_every_digest_and_what_it_signs_verifies() {
    for (name, curve) in CURVES {
        let der = pkcs8("EC", &format!("ec_paramgen_curve:{name}"));
        let key = PrivateKey::from_pkcs8(&der).unwrap();
        assert_eq!(key.kind(), Kind::Ec(curve));
        let sec1 = openssl(&["ec", "-inform", "DER", "-outform", "DER"], &der);
        let public = openssl(&["pkey", "-inform", "DER", "-pubout", "-outform", "DER"], &der);
        assert_eq!(key.public_spki().unwrap(), public);
        assert_eq!(PrivateKey::from_sec1(&sec1).unwrap().public_spki().unwrap(), public);
        assert_eq!(PrivateKey::from_der(&sec1).unwrap().kind(), Kind::Ec(curve));
        let public = PublicKey::from_spki(&public).unwrap();
        assert_eq!(public.kind(), Kind::Ec(curve));
        for hash in [Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            let signature = key.sign(Scheme::Ecdsa(hash), b"message").unwrap();
            public.verify(Scheme::Ecdsa(hash), b"message", &signature).unwrap();
            assert_eq!(public.verify(Scheme::Ecdsa(hash), b"massage", &signature), Err(Failed));
            assert_eq!(public.verify(Scheme::RsaPkcs1(hash), b"message", &signature), Err(Failed));
        }
    }
}

#[test]
fn rsa_keys_of_both_forms_sign_with_both_paddings_and_openssl_agrees() {
    let der = pkcs8("RSA", "rsa_keygen_bits:2048");
    let pkcs1 = openssl(&["rsa", "-inform", "DER", "-traditional", "-outform", "DER"], &der);
    let (key, same) = (PrivateKey::from_pkcs8(&der).unwrap(), PrivateKey::from_pkcs1(&pkcs1).unwrap());
    assert_eq!((key.kind(), same.kind()), (Kind::Rsa(2048), Kind::Rsa(2048)));
    let spki = openssl(&["pkey", "-inform", "DER", "-pubout", "-outform", "DER"], &der);
    assert_eq!(key.public_spki().unwrap(), spki);
    let public = PublicKey::from_spki(&spki).unwrap();
    for hash in [Hash::Sha256, Hash::Sha384, Hash::Sha512] {
        for scheme in [Scheme::RsaPkcs1(hash), Scheme::RsaPss(hash)] {
            let signature = same.sign(scheme, b"message").unwrap();
            assert_eq!(signature.len(), 256);
            public.verify(scheme, b"message", &signature).unwrap();
            assert_eq!(public.verify(scheme, b"message", &signature[1..]), Err(Failed));
        }
    }
    // The padding without randomness is the same bytes everywhere.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.der");
    std::fs::write(&path, &der).unwrap();
    let theirs =
        openssl(&["dgst", "-sha384", "-sign", path.to_str().unwrap(), "-keyform", "DER", "-binary"], b"message");
    assert_eq!(key.sign(Scheme::RsaPkcs1(Hash::Sha384), b"message").unwrap(), theirs);
}

#[test]
fn sha_1_is_never_signed_with_and_messages_have_a_bound() {
    let key = PrivateKey::from_pkcs8(&pkcs8("EC", "ec_paramgen_curve:P-256")).unwrap();
    assert_eq!(key.sign(Scheme::Ecdsa(Hash::Sha1), b"message"), Err(Failed));
    assert!(key.sign(Scheme::Ecdsa(Hash::Sha256), &vec![0; MESSAGE_MAX]).is_ok());
    assert_eq!(key.sign(Scheme::Ecdsa(Hash::Sha256), &vec![0; MESSAGE_MAX + 1]), Err(Failed));
}

#[test]
fn ed25519_is_known_and_not_signed_with() {
    let der = openssl(&["genpkey", "-algorithm", "ED25519", "-outform", "DER"], b"");
    let key = PrivateKey::from_der(&der).unwrap();
    assert_eq!(key.kind(), Kind::Ed25519);
    assert_eq!(key.sign(Scheme::Ecdsa(Hash::Sha256), b"message"), Err(Failed));
    assert_eq!(PublicKey::from_spki(&key.public_spki().unwrap()).unwrap().kind(), Kind::Ed25519);
}

#[test]
fn every_cut_of_a_key_and_every_byte_after_it_is_refused() {
    let der = pkcs8("EC", "ec_paramgen_curve:P-256");
    let spki = PrivateKey::from_der(&der).unwrap().public_spki().unwrap();
    for end in 0..der.len() {
        assert!(PrivateKey::from_der(&der[..end]).is_err(), "{end}");
    }
    for end in 0..spki.len() {
        assert!(PublicKey::from_spki(&spki[..end]).is_err(), "{end}");
    }
    assert!(PrivateKey::from_der(&[der.as_slice(), &[0]].concat()).is_err());
    assert!(PublicKey::from_spki(&[spki.as_slice(), &[0]].concat()).is_err());
    assert!(PublicKey::from_spki(&vec![0x30; DER_MAX + 1]).is_err());
}

#[test]
fn a_point_off_its_curve_is_refused() {
    let der = pkcs8("EC", "ec_paramgen_curve:P-256");
    let mut spki = PrivateKey::from_der(&der).unwrap().public_spki().unwrap();
    *spki.last_mut().unwrap() ^= 1;
    assert!(PublicKey::from_spki(&spki).is_err());
}

#[test]
fn debug_output_names_the_kind_and_no_byte_of_the_key() {
    let key = PrivateKey::from_pkcs8(&pkcs8("EC", "ec_paramgen_curve:P-256")).unwrap();
    assert_eq!(format!("{key:?}"), "PrivateKey(Ec(P256))");
}

#[test]
fn one_key_serves_several_threads() {
    let key = PrivateKey::from_pkcs8(&pkcs8("RSA", "rsa_keygen_bits:2048")).unwrap();
    let public = PublicKey::from_spki(&key.public_spki().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (key, public) = (&key, &public);
            scope.spawn(move || {
                for turn in 0..20 {
                    let signature = key.sign(Scheme::RsaPkcs1(Hash::Sha256), &[thread, turn]).unwrap();
                    public.verify(Scheme::RsaPkcs1(Hash::Sha256), &[thread, turn], &signature).unwrap();
                }
            });
        }
    });
}
