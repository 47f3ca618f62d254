//! Suites of wire 3, and the one that two lists give. `spec/session-3.md#suites`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::crypto::agreement::{Curve, KEM_CIPHERTEXT_LEN, KEM_PUBLIC_LEN};
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN};

/// The key agreement of a session; each uses HKDF-SHA256 and AES-256-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// ML-KEM-768 and X25519 (RFC 10024).
    X25519MlKem768,
    /// P-256 and ML-KEM-768 (RFC 10024), both approved by NIST.
    SecP256r1MlKem768,
    /// P-256 on its own, without ML-KEM.
    P256,
}

impl Suite {
    /// All suites, in order of preference.
    pub const ALL: [Suite; 3] = [Suite::X25519MlKem768, Suite::SecP256r1MlKem768, Suite::P256];

    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Suite::X25519MlKem768 => "X25519MLKEM768",
            Suite::SecP256r1MlKem768 => "SecP256r1MLKEM768",
            Suite::P256 => "P256",
        }
    }

    /// Returns the suite of this name.
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Returns the curve of the suite.
    pub fn curve(self) -> Curve {
        match self {
            Suite::X25519MlKem768 => Curve::X25519,
            Suite::SecP256r1MlKem768 | Suite::P256 => Curve::P256,
        }
    }

    /// Returns whether ML-KEM-768 is combined with the curve.
    pub fn is_hybrid(self) -> bool {
        self != Suite::P256
    }

    /// Length of a public key of the curve, in bytes.
    fn point_len(self) -> usize {
        if self.curve() == Curve::X25519 { KEY_LEN } else { P256_PUBLIC_LEN }
    }

    /// Returns whether ML-KEM's part precedes the curve's.
    fn kem_first(self) -> bool {
        self == Suite::X25519MlKem768
    }

    /// Puts the curve's part and ML-KEM's into the suite's order.
    pub(super) fn join(self, point: &[u8], kem: &[u8]) -> Vec<u8> {
        if self.kem_first() { [kem, point].concat() } else { [point, kem].concat() }
    }

    /// Splits a share into the curve's part and ML-KEM's, the latter `kem_len` bytes long; `None` for another length.
    fn split(self, share: &[u8], kem_len: usize) -> Option<(&[u8], &[u8])> {
        let kem_len = if self.is_hybrid() { kem_len } else { 0 };
        if share.len() != self.point_len() + kem_len {
            return None;
        }
        let (kem, point) = match self.kem_first() {
            true => share.split_at_checked(kem_len)?,
            false => share.split_at_checked(self.point_len()).map(|(point, kem)| (kem, point))?,
        };
        Some((point, kem))
    }

    /// Splits a client's share into its parts.
    pub(super) fn split_client(self, share: &[u8]) -> Option<(&[u8], &[u8])> {
        self.split(share, KEM_PUBLIC_LEN)
    }

    /// Splits a server's share into its parts.
    pub(super) fn split_server(self, share: &[u8]) -> Option<(&[u8], &[u8])> {
        self.split(share, KEM_CIPHERTEXT_LEN)
    }
}

/// Chooses the suite of a session: the first of the client's list that is in the server's. Unknown names are ignored.
pub fn choose(client: &[Box<str>], server: &[Suite]) -> Option<Suite> {
    client.iter().filter_map(|name| Suite::from_name(name)).find(|suite| server.contains(suite))
}
