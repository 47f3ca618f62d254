//! Inits compared with the bare operations that their suite and their identity key require, by the same library.

use std::hint::black_box;

use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::kem::{self, Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768, ML_KEM_1024};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ML_DSA_65, ML_DSA_65_SIGNING, ML_DSA_87, ML_DSA_87_SIGNING,
    ParsedPublicKey, PqdsaKeyPair,
};
use sealway_proto::crypto::agreement::Kem;
use sealway_proto::crypto::identity::{Scheme, SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{Group, Suite};

use super::{Service, client_init, client_init_of, compare, provider};
use crate::table::{us, verdict};

/// A message of the length that identity keys sign.
const MESSAGE: [u8; 51] = [3; 51];

/// A key of one scheme.
enum Signer {
    Ec(EcdsaKeyPair, &'static dyn signature::VerificationAlgorithm),
    MlDsa(PqdsaKeyPair, &'static dyn signature::VerificationAlgorithm),
}

impl Signer {
    fn new(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Es256 => {
                Signer::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(), &ECDSA_P256_SHA256_FIXED)
            }
            Scheme::Es384 => {
                Signer::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(), &ECDSA_P384_SHA384_FIXED)
            }
            Scheme::MlDsa65 => Signer::MlDsa(PqdsaKeyPair::generate(&ML_DSA_65_SIGNING).unwrap(), &ML_DSA_65),
            Scheme::MlDsa87 => Signer::MlDsa(PqdsaKeyPair::generate(&ML_DSA_87_SIGNING).unwrap(), &ML_DSA_87),
        }
    }

    fn sign(&self, random: &SystemRandom) -> Vec<u8> {
        match self {
            Signer::Ec(pair, _) => pair.sign(random, &MESSAGE).unwrap().as_ref().to_vec(),
            Signer::MlDsa(pair, _) => {
                let mut signature = vec![0; pair.algorithm().signature_len()];
                pair.sign(&MESSAGE, &mut signature).unwrap();
                signature
            }
        }
    }

    /// Reads the public key and verifies a signature.
    fn verify(&self, signature: &[u8]) {
        let (public, algorithm) = match self {
            Signer::Ec(pair, algorithm) => (pair.public_key().as_ref(), algorithm),
            Signer::MlDsa(pair, algorithm) => (pair.public_key().as_ref(), algorithm),
        };
        let key = ParsedPublicKey::new(*algorithm, public).unwrap();
        key.verify_sig(&MESSAGE, signature).unwrap();
    }
}

/// The bare operations of an init: a key pair of the group and an agreement, ML-KEM's operation, HKDF with an extract and four keys,
/// and one signature for each part of the identity key.
struct Bare {
    group: Option<(&'static agreement::Algorithm, Vec<u8>)>,
    kem: Option<(&'static kem::Algorithm<kem::AlgorithmId>, Vec<u8>)>,
    identity: Vec<(Signer, Vec<u8>)>,
    random: SystemRandom,
}

impl Bare {
    fn new(suite: Suite, algorithm: SignatureAlgorithm) -> Self {
        let group = suite.group().map(|group| {
            let group = match group {
                Group::X25519 => &X25519,
                Group::P256 => &ECDH_P256,
                Group::P384 => &ECDH_P384,
            };
            let peer = PrivateKey::generate(group).unwrap().compute_public_key().unwrap().as_ref().to_vec();
            (group, peer)
        });
        let kem = suite.kem().map(|kem| {
            let kem = match kem {
                Kem::MlKem768 => &ML_KEM_768,
                Kem::MlKem1024 => &ML_KEM_1024,
            };
            let public = DecapsulationKey::generate(kem).unwrap().encapsulation_key().unwrap();
            (kem, public.key_bytes().unwrap().as_ref().to_vec())
        });
        let random = SystemRandom::new();
        let identity = algorithm.schemes().map(Signer::new).map(|key| {
            let signature = key.sign(&random);
            (key, signature)
        });
        Bare { group, kem, identity: identity.collect(), random }
    }

    fn agree(&self, secret: &mut Vec<u8>) {
        let Some((group, peer)) = &self.group else { return };
        let private = PrivateKey::generate(group).unwrap();
        black_box(private.compute_public_key().unwrap());
        agree(&private, UnparsedPublicKey::new(group, peer), (), |shared| {
            secret.extend_from_slice(shared);
            Ok(())
        })
        .unwrap();
    }

    fn derive(secret: &[u8]) {
        let prk = Salt::new(HKDF_SHA256, &[7; 32]).extract(secret);
        for label in ["sealway/3 c2s", "sealway/3 s2c", "sealway/3 exporter", "sealway/3 confirm"] {
            let mut key = [0; 32];
            prk.expand(&[label.as_bytes()], HKDF_SHA256).unwrap().fill(&mut key).unwrap();
            black_box(key);
        }
    }

    fn server(&self) -> Option<Vec<u8>> {
        let mut secret = Vec::with_capacity(80);
        self.agree(&mut secret);
        let ciphertext = self.kem.as_ref().map(|(kem, public)| {
            let (ciphertext, shared) = EncapsulationKey::new(kem, public).unwrap().encapsulate().unwrap();
            secret.extend_from_slice(shared.as_ref());
            ciphertext.as_ref().to_vec()
        });
        Bare::derive(&secret);
        self.identity.iter().for_each(|(key, _)| drop(black_box(key.sign(&self.random))));
        ciphertext
    }

    fn both(&self) {
        let private = self.kem.as_ref().map(|(kem, _)| {
            let private = DecapsulationKey::generate(kem).unwrap();
            black_box(private.encapsulation_key().unwrap().key_bytes().unwrap());
            private
        });
        let ciphertext = self.server();
        let mut secret = Vec::with_capacity(80);
        self.agree(&mut secret);
        if let (Some(private), Some(ciphertext)) = (private, ciphertext) {
            // Not the ciphertext of this key, which costs the same (FIPS 203 section 6.3).
            secret.extend_from_slice(private.decapsulate(Ciphertext::from(ciphertext.as_slice())).unwrap().as_ref());
        }
        Bare::derive(&secret);
        self.identity.iter().for_each(|(key, signature)| key.verify(signature));
    }
}

pub(super) fn run() {
    println!(
        "## Init at the server, from the request's body to the answer's (CPU, median of rounds that take turns)\n"
    );
    println!("| suite | floor µs | ours µs | ratio | least and most of a round | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for suite in Suite::ALL {
        let (service, bare, body) = (
            Service::new(SignatureAlgorithm::Es256),
            Bare::new(suite, SignatureAlgorithm::Es256),
            client_init(suite).body(),
        );
        let ours = &mut || {
            black_box(service.answer(body.as_bytes()));
        };
        let ([floor, ours], (least, most)) = compare(100, [&mut || drop(black_box(bare.server())), ours]);
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
    println!("## Init at client and server together, from the client's share to its session\n");
    println!("| suite | identity key | floor µs | ours µs | ratio | least and most of a round | goal | |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for (suite, algorithm) in [
        (Suite::X25519MlKem768, SignatureAlgorithm::Es256),
        (Suite::MlKem1024, SignatureAlgorithm::MlDsa87),
        (Suite::SecP384r1MlKem1024, SignatureAlgorithm::Es384MlDsa87),
    ] {
        let (service, bare) = (Service::new(algorithm), Bare::new(suite, algorithm));
        let ours = &mut || {
            let init = client_init_of(suite, Some(&service));
            let (answer, session) = service.answer(init.body().as_bytes());
            let key = default_identity_library().public(service.key.public()).unwrap();
            black_box((init.finish(provider(), Some(&key), answer.as_bytes()).unwrap(), session));
        };
        let ([floor, ours], (least, most)) = compare(100, [&mut || bare.both(), ours]);
        let ratio = ours / floor;
        println!(
            "| {} | {algorithm} | {} | {} | {ratio:.3} | {least:.2} to {most:.2} | 1.2 | {} |",
            suite.name(),
            us(floor),
            us(ours),
            verdict(ratio, 1.2)
        );
    }
    println!();
}
