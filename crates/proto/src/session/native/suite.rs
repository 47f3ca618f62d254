//! Suites of wire 3, and the one that two lists give. `spec/session-3.md#suites`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::crypto::agreement::Kem;
use crate::limits::{KEY_LEN, P256_PUBLIC_LEN, P384_PUBLIC_LEN};

/// The key agreement of a session; each uses HKDF-SHA256 and AES-256-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// ML-KEM-768 and X25519 (RFC 10024).
    X25519MlKem768,
    /// P-256 and ML-KEM-768 (RFC 10024), both approved by NIST.
    SecP256r1MlKem768,
    /// P-256 on its own, without ML-KEM.
    P256,
    /// P-384 and ML-KEM-1024 (RFC 10024). Off unless it is configured.
    SecP384r1MlKem1024,
    /// ML-KEM-1024 on its own, as CNSA 2.0 asks for it. Off unless it is configured.
    MlKem1024,
}

/// The group of a suite's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// X25519 (RFC 7748), 32 bytes.
    X25519,
    /// P-256 (SP 800-186), an uncompressed point.
    P256,
    /// P-384 (SP 800-186), an uncompressed point.
    P384,
}

impl Group {
    /// Length of a public key, in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Group::X25519 => KEY_LEN,
            Group::P256 => P256_PUBLIC_LEN,
            Group::P384 => P384_PUBLIC_LEN,
        }
    }
}

impl Suite {
    /// All suites, in order of preference but for those that are off by default, which are last.
    pub const ALL: [Suite; 5] =
        [Suite::X25519MlKem768, Suite::SecP256r1MlKem768, Suite::P256, Suite::SecP384r1MlKem1024, Suite::MlKem1024];
    /// The suites of a server without a list of its own, in order of preference.
    pub const DEFAULT: [Suite; 3] = [Suite::X25519MlKem768, Suite::SecP256r1MlKem768, Suite::P256];

    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Suite::X25519MlKem768 => "X25519MLKEM768",
            Suite::SecP256r1MlKem768 => "SecP256r1MLKEM768",
            Suite::P256 => "P256",
            Suite::SecP384r1MlKem1024 => "SecP384r1MLKEM1024",
            Suite::MlKem1024 => "MLKEM1024",
        }
    }

    /// Returns the suite of this name.
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Returns the group of the suite, if it has one.
    pub fn group(self) -> Option<Group> {
        match self {
            Suite::X25519MlKem768 => Some(Group::X25519),
            Suite::SecP256r1MlKem768 | Suite::P256 => Some(Group::P256),
            Suite::SecP384r1MlKem1024 => Some(Group::P384),
            Suite::MlKem1024 => None,
        }
    }

    /// Returns the KEM of the suite, if it has one.
    pub fn kem(self) -> Option<Kem> {
        match self {
            Suite::X25519MlKem768 | Suite::SecP256r1MlKem768 => Some(Kem::MlKem768),
            Suite::P256 => None,
            Suite::SecP384r1MlKem1024 | Suite::MlKem1024 => Some(Kem::MlKem1024),
        }
    }

    /// Returns whether ML-KEM's part precedes the group's.
    fn kem_first(self) -> bool {
        self == Suite::X25519MlKem768
    }

    /// Puts the group's part and ML-KEM's into the suite's order.
    pub(super) fn join(self, point: &[u8], kem: &[u8]) -> Vec<u8> {
        if self.kem_first() { [kem, point].concat() } else { [point, kem].concat() }
    }

    /// Splits a share into the group's part and ML-KEM's, the latter `kem_len` bytes long; `None` for another length.
    fn split(self, share: &[u8], kem_len: usize) -> Option<(&[u8], &[u8])> {
        let point_len = self.group().map_or(0, Group::public_len);
        if share.len() != point_len + kem_len {
            return None;
        }
        match self.kem_first() {
            true => share.split_at_checked(kem_len).map(|(kem, point)| (point, kem)),
            false => share.split_at_checked(point_len),
        }
    }

    /// Splits a client's share into its parts.
    pub(super) fn split_client(self, share: &[u8]) -> Option<(&[u8], &[u8])> {
        self.split(share, self.kem().map_or(0, Kem::public_len))
    }

    /// Splits a server's share into its parts.
    pub(super) fn split_server(self, share: &[u8]) -> Option<(&[u8], &[u8])> {
        self.split(share, self.kem().map_or(0, Kem::ciphertext_len))
    }
}

/// Chooses the suite of a session: the first of the client's list that is in the server's. Unknown names are ignored.
pub fn choose(client: &[Box<str>], server: &[Suite]) -> Option<Suite> {
    client.iter().filter_map(|name| Suite::from_name(name)).find(|suite| server.contains(suite))
}
