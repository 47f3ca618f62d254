//! The cryptography of an operation, for the live inventory.

use sealway_runtime::inventory::{self, Party, Use};

use super::{Grant, Outcome, Query, Service};
use crate::callers::Peer;
use crate::keys::Algorithm;
use crate::profile::policy::{Curve, SignAlgorithm, SignatureHash, UnwrapAlgorithm};

/// The key-encryption keys of the store, as a party.
const STORE: Party<'static> = Party::Named("store", "keys");

impl Service {
    /// Counts a successful operation: each input of a batch is one. Operations without cryptography are not counted.
    pub(super) fn count_use<T>(&self, peer: &Peer, query: &Query<'_>, grant: &Grant, done: &Outcome<T>, now_ms: u64) {
        let Some((algorithm, size)) = self.algorithm(query, grant, done) else { return };
        let used = Use {
            operation: query.operation,
            algorithm,
            size: if done.key_size > 0 { done.key_size } else { size },
            key: query.key.unwrap_or_default(),
            party: party(peer),
            protocol: query.wire,
        };
        inventory::count(&used, query.count.max(1) as u64, now_ms);
    }

    /// Returns the algorithm, and the size of the key.
    fn algorithm<'a, T>(&self, query: &Query<'_>, grant: &Grant, done: &'a Outcome<T>) -> Option<(&'a str, u32)> {
        let profile = grant.profile.as_deref();
        let size = grant.key.as_ref().map_or(0, |key| key.algorithm().name_and_size().1);
        match query.operation {
            "GenerateKey" | "ImportKey" | "RotateKey" => {
                let key = self.keys.as_ref()?.get(query.key?).ok()?;
                Some(key.algorithm().name_and_size())
            }
            "HashData" => Some((crate::hash::name(profile?.hash?), 0)),
            "EncryptData" | "DecryptData" | "Rewrap" => {
                Some(Algorithm::Encrypt(profile?.encrypt?.algorithm).name_and_size())
            }
            "Mac" | "VerifyMac" => Some(Algorithm::Mac(profile?.mac?).name_and_size()),
            "Derive" => Some(Algorithm::Derive(profile?.derive?).name_and_size()),
            "Encapsulate" | "Decapsulate" => Some(Algorithm::Kem(profile?.kem?).name_and_size()),
            "Unwrap" => profile?.unwrap.map(|algorithm| (UnwrapAlgorithm::name(algorithm), size)),
            "SignData" | "VerifyData" | "SignDigest" | "VerifyDigest" => Some((signature(profile?.sign?), size)),
            "SignCertificate" => Some((&done.algorithm, size)),
            "Random" => Some(("random", 0)),
            _ => None,
        }
    }
}

/// Counts the key of a certificate that was issued to a caller.
pub(crate) fn count_subject(peer: &Peer, query: &Query<'_>, algorithm: &str, size: u32, now_ms: u64) {
    let (party, protocol) = (party(peer), query.wire);
    let used = Use { operation: "certificate-subject", algorithm, size, key: "", party, protocol };
    inventory::count(&used, 1, now_ms);
}

/// Counts a wrapping, or its reverse, by a key-encryption key.
pub(crate) fn count_kek(operation: &'static str, id: &str) {
    let used = Use { operation, algorithm: "aes-256-gcm", size: 256, key: id, party: STORE, protocol: "kek" };
    inventory::count_now(&used, 1);
}

fn party(peer: &Peer) -> Party<'_> {
    peer.token.as_deref().map_or(Party::Uid(peer.uid), |token| Party::Named("token", token))
}

/// Returns the name of a signature algorithm, whatever form its signatures have.
fn signature(algorithm: SignAlgorithm) -> &'static str {
    use SignatureHash::{Sha256, Sha384, Sha512};
    match algorithm {
        SignAlgorithm::RsaPkcs1(Sha256) => "rsa-pkcs1-sha-256",
        SignAlgorithm::RsaPkcs1(Sha384) => "rsa-pkcs1-sha-384",
        SignAlgorithm::RsaPkcs1(Sha512) => "rsa-pkcs1-sha-512",
        SignAlgorithm::RsaPss(Sha256) => "rsa-pss-sha-256",
        SignAlgorithm::RsaPss(Sha384) => "rsa-pss-sha-384",
        SignAlgorithm::RsaPss(Sha512) => "rsa-pss-sha-512",
        SignAlgorithm::EcdsaDer(curve, hash) | SignAlgorithm::EcdsaRaw(curve, hash) => match (curve, hash) {
            (Curve::P256, Sha256) => "ecdsa-p256-sha-256",
            (Curve::P256, Sha384) => "ecdsa-p256-sha-384",
            (Curve::P256, Sha512) => "ecdsa-p256-sha-512",
            (Curve::P384, Sha256) => "ecdsa-p384-sha-256",
            (Curve::P384, Sha384) => "ecdsa-p384-sha-384",
            (Curve::P384, Sha512) => "ecdsa-p384-sha-512",
            (Curve::P521, Sha256) => "ecdsa-p521-sha-256",
            (Curve::P521, Sha384) => "ecdsa-p521-sha-384",
            (Curve::P521, Sha512) => "ecdsa-p521-sha-512",
        },
        SignAlgorithm::Ed25519 => "ed25519",
        SignAlgorithm::MlDsa(set) => set.name(),
    }
}
