//! Compares the services that the module counts as approved with those that this program treats as approved
//! (docs/reference/broker.md). An update of the module that changes them fails here.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, AES_256_GCM_SIV, Aad, Algorithm, CHACHA20_POLY1305};
use aws_lc_rs::aead::{LessSafeKey, Nonce, RandomizedNonceKey, UnboundKey};
use aws_lc_rs::kem::{DecapsulationKey, ML_KEM_768};
use aws_lc_rs::signature::Ed25519KeyPair;
use aws_lc_rs::{hkdf, hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_awslc::{Hash, PrivateKey, PublicKey, Scheme, approved_services};
use sealway_broker::hash;

/// Runs `work`. Returns its result, and whether the module counts all of it as approved.
fn counted<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let before = approved_services();
    let made = work();
    (made, approved_services() > before)
}

fn key(pem: &str) -> PrivateKey {
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    PrivateKey::from_der(&STANDARD.decode(body).unwrap()).unwrap()
}

#[test]
fn every_hash_is_counted() {
    for (_, algorithm) in hash::NAMES {
        assert!(counted(|| hash::digest(algorithm, b"a text")).1, "{}", hash::name(algorithm));
    }
}

#[test]
fn macs_and_derivations_with_a_salt_and_an_info_are_counted() {
    for algorithm in [hmac::HMAC_SHA256, hmac::HMAC_SHA384, hmac::HMAC_SHA512] {
        let key = hmac::Key::new(algorithm, &[7; 32]);
        assert!(counted(|| hmac::sign(&key, b"a text")).1, "{algorithm:?}");
    }
    let derive = |salt: &[u8], info: &[u8]| {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&[7; 32]);
        let (info, mut out) = ([info], [0; 32]);
        counted(|| prk.expand(&info, hkdf::HKDF_SHA256).unwrap().fill(&mut out).unwrap()).1
    };
    assert!(derive(b"salt", b"info"));
    assert!(!derive(b"salt", b"") && !derive(b"", b"info"));
}

#[test]
fn ciphers_are_counted_where_the_module_draws_the_nonce_and_at_opening() {
    let nonce = || Nonce::assume_unique_for_key([3; 12]);
    let ciphers: [(&Algorithm, bool); 5] = [
        (&AES_128_GCM, true),
        (&AES_256_GCM, true),
        (&AES_192_GCM, false),
        (&AES_256_GCM_SIV, false),
        (&CHACHA20_POLY1305, false),
    ];
    for (cipher, is_approved) in ciphers {
        let secret = vec![7; cipher.key_len()];
        let key = LessSafeKey::new(UnboundKey::new(cipher, &secret).unwrap());
        let mut text = b"a text".to_vec();
        let (sealed, is_sealing) = counted(|| key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut text));
        sealed.unwrap();
        let (opened, is_opening) = counted(|| key.open_in_place(nonce(), Aad::empty(), &mut text).is_ok());
        assert!(opened);
        assert_eq!((is_sealing, is_opening), (false, is_approved), "{cipher:?}");
        if is_approved {
            let key = RandomizedNonceKey::new(cipher, &secret).unwrap();
            let mut text = b"a text".to_vec();
            let (sealed, is_sealing) = counted(|| key.seal_in_place_append_tag(Aad::empty(), &mut text));
            sealed.unwrap();
            assert!(is_sealing, "{cipher:?}");
        }
    }
}

#[test]
fn signatures_are_counted_ed25519_too_which_the_library_rules_out() {
    let rsa = key(include_str!("../../crates/broker/src/benchmark/rsa4096.key"));
    let p384 = key(include_str!("../../crates/broker/src/benchmark/p384.key"));
    let p521 = key(include_str!("../../crates/broker/src/benchmark/p521.key"));
    for (key, scheme) in [
        (&rsa, Scheme::RsaPkcs1(Hash::Sha256)),
        (&rsa, Scheme::RsaPss(Hash::Sha512)),
        (&p384, Scheme::Ecdsa(Hash::Sha512)),
        (&p521, Scheme::Ecdsa(Hash::Sha256)),
    ] {
        let (signature, is_signing) = counted(|| key.sign(scheme, b"a text").unwrap());
        let public = PublicKey::from_spki(&key.public_spki().unwrap()).unwrap();
        let (verified, is_verifying) = counted(|| public.verify(scheme, b"a text", &signature));
        verified.unwrap();
        assert!(is_signing && is_verifying, "{scheme:?}");
    }
    let pair = Ed25519KeyPair::generate().unwrap();
    assert!(counted(|| pair.try_sign(b"a text").unwrap()).1);
}

#[test]
fn encapsulation_and_randomness_are_counted() {
    let secret = DecapsulationKey::generate(&ML_KEM_768).unwrap();
    let public = secret.encapsulation_key().unwrap();
    let ((ciphertext, _), is_encapsulating) = counted(|| public.encapsulate().unwrap());
    let (shared, is_decapsulating) = counted(|| secret.decapsulate(ciphertext).is_ok());
    assert!(shared && is_encapsulating && is_decapsulating);
    assert!(counted(|| rand::fill(&mut [0; 16]).unwrap()).1);
}
