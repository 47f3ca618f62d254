//! The cryptography of sealed requests and messages, for the live inventory.

use parking_lot::Mutex;
use sealway_proto::hpke::{Aead, Kem, Suite};
use sealway_proto::mle::{Alg, Enc, JwsAlg};
use sealway_proto::session::Session;
use sealway_proto::wire::Wire;
use sealway_runtime::inventory::{Party, Use, count_now};
use sealway_runtime::tls::{self, KeyKind};
use tokio_rustls::rustls::CommonState;

/// Counts a request of a session or of wire 4 that was opened on a route.
pub(crate) fn count_sealed(route: &str, session: &Session) {
    let (key, protocol) = (session.key_name().unwrap_or_default(), wire(session.record().wire));
    let (algorithm, size, party) = ("aes-256-gcm", 256, Party::Named("route", route));
    count_now(&Use { operation: "sealed-call", algorithm, size, key, party, protocol }, 1);
}

fn wire(wire: Wire) -> &'static str {
    match wire {
        Wire::V1 => "wire-1",
        Wire::V2 => "wire-2",
        Wire::Native => "wire-3",
        Wire::OneShot => "wire-4",
    }
}

/// Counts a request without a session that was opened with a key on a route: its KEM, its KDF and its cipher.
pub(crate) fn count_hpke(route: &str, protocol: &str, key: &str, suite: Suite) {
    let party = Party::Named("route", route);
    let (kem, kdf) = match suite.kem {
        Kem::P256 => ("P256", "hkdf-sha-256"),
        Kem::X25519 => ("X25519", "hkdf-sha-256"),
        Kem::MlKem768 => ("ml-kem-768", "hkdf-sha-256"),
        Kem::MlKem768P256 => ("MLKEM768P256", "hkdf-sha-256"),
        Kem::XWing => ("X-Wing", "hkdf-sha-256"),
    };
    let used = Use { operation: "hpke-kem", algorithm: kem, size: 0, key, party, protocol };
    count_now(&used, 1);
    count_now(&Use { operation: "hpke-kdf", algorithm: kdf, ..used }, 1);
    let (cipher, size) = match suite.aead {
        Aead::Aes128Gcm => ("aes-128-gcm", 128),
        Aead::Aes256Gcm => ("aes-256-gcm", 256),
        Aead::ChaCha20Poly1305 => ("chacha20-poly1305", 256),
        Aead::ExportOnly => return,
    };
    count_now(&Use { operation: "hpke-aead", algorithm: cipher, size, ..used }, 1);
}

/// Counts an encryption or a decryption of a message: the algorithm of its key and, if it is known, of its content.
pub(crate) fn count_jwe(operation: &str, route: &str, profile: &str, kid: &str, (alg, enc): (Alg, Option<Enc>)) {
    let party = Party::Named("route", route);
    let used = Use { operation, algorithm: alg.as_str(), size: 0, key: kid, party, protocol: profile };
    count_now(&used, 1);
    if let Some(enc) = enc {
        count_now(&Use { operation: "jwe-content", algorithm: enc.as_str(), ..used }, 1);
    }
}

/// Counts a signature of a message.
pub(crate) fn count_jws(route: &str, profile: &str, kid: &str, alg: JwsAlg) {
    let (algorithm, party) = (alg.as_str(), Party::Named("route", route));
    count_now(&Use { operation: "jws-sign", algorithm, size: 0, key: kid, party, protocol: profile }, 1);
}

/// The key of an upstream's server, parsed again only when the server presents another certificate.
#[derive(Debug, Default)]
pub(crate) struct ServerKey(Mutex<Option<(Vec<u8>, KeyKind)>>);

impl ServerKey {
    /// Counts a handshake with a server of an upstream, and the key that the server presented.
    pub(crate) fn count_handshake(&self, upstream: &str, server: &str, state: &CommonState) {
        let party = Party::Named("upstream", upstream);
        tls::count_handshake(party, state);
        let Some(leaf) = state.peer_certificates().and_then(<[_]>::first) else { return };
        let mut known = self.0.lock();
        let kind = match &*known {
            Some((der, kind)) if der == leaf.as_ref() => *kind,
            _ => {
                let kind = KeyKind::of_der(leaf);
                *known = Some((leaf.to_vec(), kind));
                kind
            }
        };
        tls::count_peer(party, state, "tls-server-certificate", server, kind);
    }
}
