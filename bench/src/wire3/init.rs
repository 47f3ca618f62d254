//! The server's side of an init, compared with the bare operations that its suite requires.

use std::hint::black_box;

use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::kem::{DecapsulationKey, EncapsulationKey, ML_KEM_768};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use sealway_proto::crypto::agreement::Curve;
use sealway_proto::session::native::Suite;

use super::{Service, client_init, compare};
use crate::table::{us, verdict};

/// The bare operations of an init: one ECDSA signature, a key pair of the curve, one agreement, ML-KEM encapsulation if the suite
/// has it, and HKDF with an extract and the four keys that a server derives.
struct Bare {
    curve: &'static agreement::Algorithm,
    peer: Vec<u8>,
    encapsulation_key: Option<Vec<u8>>,
    identity: EcdsaKeyPair,
    random: SystemRandom,
}

impl Bare {
    fn new(suite: Suite) -> Self {
        let curve = if suite.curve() == Curve::X25519 { &X25519 } else { &ECDH_P256 };
        let peer = PrivateKey::generate(curve).unwrap().compute_public_key().unwrap().as_ref().to_vec();
        let kem = || DecapsulationKey::generate(&ML_KEM_768).unwrap().encapsulation_key().unwrap();
        let encapsulation_key = suite.is_hybrid().then(|| kem().key_bytes().unwrap().as_ref().to_vec());
        let identity = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Bare { curve, peer, encapsulation_key, identity, random: SystemRandom::new() }
    }

    fn run(&self) {
        let private = PrivateKey::generate(self.curve).unwrap();
        black_box(private.compute_public_key().unwrap());
        let mut secret = Vec::with_capacity(64);
        agree(&private, UnparsedPublicKey::new(self.curve, &self.peer), (), |shared| {
            secret.extend_from_slice(shared);
            Ok(())
        })
        .unwrap();
        if let Some(bytes) = &self.encapsulation_key {
            let key = EncapsulationKey::new(&ML_KEM_768, bytes).unwrap();
            let (ciphertext, shared) = key.encapsulate().unwrap();
            black_box(ciphertext);
            secret.extend_from_slice(shared.as_ref());
        }
        let prk = Salt::new(HKDF_SHA256, &[7; 32]).extract(&secret);
        for label in ["sealway/3 c2s", "sealway/3 s2c", "sealway/3 exporter", "sealway/3 confirm"] {
            let mut key = [0; 32];
            prk.expand(&[label.as_bytes()], HKDF_SHA256).unwrap().fill(&mut key).unwrap();
            black_box(key);
        }
        black_box(self.identity.sign(&self.random, &[3; 51]).unwrap());
    }
}

pub(super) fn run() {
    println!(
        "## Init at the server, from the request's body to the answer's (CPU, median of rounds that take turns)\n"
    );
    println!("| suite | floor µs | ours µs | ratio | least and most of a round | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for suite in Suite::ALL {
        let (service, bare, body) = (Service::new(), Bare::new(suite), client_init(suite).body());
        let ours = &mut || {
            black_box(service.answer(body.as_bytes()));
        };
        let ([floor, ours], (least, most)) = compare(100, [&mut || bare.run(), ours]);
        let ratio = ours / floor;
        println!(
            "| {} | {} | {} | {ratio:.3} | {least:.2} to {most:.2} | 1.2 | {} |",
            suite.name(),
            us(floor),
            us(ours),
            verdict(ratio, 1.2)
        );
    }
    println!();
}
