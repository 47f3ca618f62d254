//! The bare operations of a one-shot request: the decapsulation of its KEM and AES-GCM, with keys that are loaded.

use std::hint::black_box;

use aws_lc_rs::aead::{self, AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::digest::{Context, SHA3_256};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::kem::{Ciphertext, DecapsulationKey, ML_KEM_768};
use sealway_proto::hpke::{Aead, Kem, Suite};

/// A private key, an encapsulated secret, and a sealed request under it.
pub(super) struct Bare {
    curve: &'static agreement::Algorithm,
    private: PrivateKey,
    /// Public key of the client, and of the service.
    publics: (Vec<u8>, Vec<u8>),
    post_quantum: Option<(DecapsulationKey, Vec<u8>)>,
    aead: &'static aead::Algorithm,
    plaintext: Vec<u8>,
    sealed: Vec<u8>,
    buffer: Vec<u8>,
}

impl Bare {
    pub(super) fn new(suite: Suite, plaintext: &[u8]) -> Self {
        let curve = if matches!(suite.kem, Kem::P256 | Kem::MlKem768P256) { &ECDH_P256 } else { &X25519 };
        let public = |key: &PrivateKey| key.compute_public_key().unwrap().as_ref().to_vec();
        let private = PrivateKey::generate(curve).unwrap();
        let publics = (public(&PrivateKey::generate(curve).unwrap()), public(&private));
        let post_quantum = matches!(suite.kem, Kem::XWing | Kem::MlKem768P256).then(|| {
            let key = DecapsulationKey::generate(&ML_KEM_768).unwrap();
            let (ciphertext, _) = key.encapsulation_key().unwrap().encapsulate().unwrap();
            (key, ciphertext.as_ref().to_vec())
        });
        let aead = if suite.aead == Aead::Aes128Gcm { &AES_128_GCM } else { &AES_256_GCM };
        let (plaintext, sealed, buffer) = (plaintext.to_vec(), Vec::new(), Vec::new());
        let mut bare = Bare { curve, private, publics, post_quantum, aead, plaintext, sealed, buffer };
        let key = bare.key(&bare.decapsulate());
        bare.sealed.clone_from(&bare.plaintext);
        key.seal_in_place_append_tag(nonce(1), Aad::empty(), &mut bare.sealed).unwrap();
        bare.buffer.clone_from(&bare.sealed);
        bare
    }

    /// Decapsulates the secret, sets up a key to open the request, and another one to seal an answer of the same length.
    pub(super) fn run(&mut self) {
        let secret = self.decapsulate();
        self.buffer.copy_from_slice(&self.sealed);
        let key = self.key(&secret);
        black_box(key.open_in_place(nonce(1), Aad::empty(), &mut self.buffer).unwrap());
        self.buffer[..self.plaintext.len()].copy_from_slice(&self.plaintext);
        let (key, answer) = (self.key(&secret), &mut self.buffer[..self.plaintext.len()]);
        let _ = black_box(key.seal_in_place_separate_tag(nonce(2), Aad::empty(), answer).unwrap());
    }

    /// Returns the secret of the KEM: a DHKEM derives it by HKDF (RFC 9180 section 4.1), a hybrid by SHA3-256 (draft-ietf-hpke-pq).
    fn decapsulate(&self) -> [u8; 32] {
        let (enc, own) = &self.publics;
        agree(&self.private, UnparsedPublicKey::new(self.curve, enc), (), |shared| {
            let mut secret = [0; 32];
            match &self.post_quantum {
                None => {
                    let prk =
                        Salt::new(HKDF_SHA256, &[]).extract(&[b"HPKE-v1KEM-ideae_prk".as_slice(), shared].concat());
                    let info: [&[u8]; 3] = [b"\0\x20HPKE-v1KEM-idshared_secret", enc, own];
                    prk.expand(&info, HKDF_SHA256).unwrap().fill(&mut secret).unwrap();
                }
                Some((key, ciphertext)) => {
                    let mut hash = Context::new(&SHA3_256);
                    hash.update(key.decapsulate(Ciphertext::from(ciphertext.as_slice())).unwrap().as_ref());
                    [shared, enc, own, b"label."].iter().for_each(|part| hash.update(part));
                    secret.copy_from_slice(hash.finish().as_ref());
                }
            }
            Ok(secret)
        })
        .unwrap()
    }

    fn key(&self, secret: &[u8]) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(self.aead, &secret[..self.aead.key_len()]).unwrap())
    }
}

fn nonce(byte: u8) -> Nonce {
    Nonce::assume_unique_for_key([byte; 12])
}
