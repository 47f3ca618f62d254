//! `broker-key`: public and private keys that callers send to the broker, in DER and in PEM.

use sealway_awslc::{Hash, Kind, PrivateKey, PublicKey, Scheme};
use sealway_broker::Code;
use sealway_broker::certificate::{Issuer, issue};

use crate::broker_csr::{CA, CSR, policy, request};

/// RSA keys up to this size sign; larger ones take the fuzzer's time.
const SIGNING_BITS_MAX: u32 = 2048;

/// The fuzz target for keys of callers.
pub fn broker_key(data: &[u8]) {
    if let Ok(key) = PublicKey::from_spki(data) {
        let spki = key.spki().expect("a key is written");
        assert_eq!(PublicKey::from_spki(&spki).expect("and read again").kind(), key.kind());
    }
    for parse in [PrivateKey::from_pkcs1, PrivateKey::from_pkcs8, PrivateKey::from_sec1] {
        if let Ok(key) = parse(data) {
            signs_for_its_public_half(&key);
        }
    }
    let policy = policy();
    let mut request = request(CSR, CA);
    request.issuer = Issuer::Pem(data);
    // The corpus does not contain the private key of this certificate, so every input is rejected.
    let refusal = issue(&policy, &request).expect_err("a stranger's key issued a certificate");
    assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
    assert!(refusal.text.len() < 300 && !refusal.text.contains('\n'), "{refusal}");
}

fn signs_for_its_public_half(key: &PrivateKey) {
    let public = PublicKey::from_spki(&key.public_spki().expect("a half is written")).expect("and read");
    assert_eq!(public.kind(), key.kind());
    let scheme = match key.kind() {
        Kind::Rsa(bits) if bits <= SIGNING_BITS_MAX => Scheme::RsaPkcs1(Hash::Sha256),
        Kind::Ec(_) => Scheme::Ecdsa(Hash::Sha384),
        // Not known of an expanded key of ML-DSA: that the library compares all of its parts.
        Kind::MlDsa(_) | Kind::Rsa(_) | Kind::Ed25519 | Kind::Other => return,
    };
    // A key that is too small for the padding, or whose parts do not match, signs nothing.
    let Ok(signature) = key.sign(scheme, b"message") else { return };
    assert!(public.verify(scheme, b"message", &signature).is_ok(), "its own signature");
    assert!(public.verify(scheme, b"massage", &signature).is_err(), "of another message");
}
