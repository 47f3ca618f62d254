//! Names and lengths of the algorithms of identity keys. `spec/session-3.md#algorithms`.

use alloc::vec::Vec;
use core::fmt;

use crate::limits::{P256_PUBLIC_LEN, P384_PUBLIC_LEN};

/// A signature scheme of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// ECDSA on P-256 with SHA-256, `r || s` (RFC 7518 section 3.4).
    Es256,
    /// ECDSA on P-384 with SHA-384, `r || s` (RFC 7518 section 3.4).
    Es384,
    /// ML-DSA-65 (FIPS 204 sections 5.2 and 5.3) with an empty context.
    MlDsa65,
    /// ML-DSA-87 (FIPS 204 sections 5.2 and 5.3) with an empty context.
    MlDsa87,
}

impl Scheme {
    /// All schemes, in no order of preference.
    pub const ALL: [Scheme; 4] = [Scheme::Es256, Scheme::Es384, Scheme::MlDsa65, Scheme::MlDsa87];

    /// Length of a public key, in bytes.
    pub const fn public_len(self) -> usize {
        match self {
            Scheme::Es256 => P256_PUBLIC_LEN,
            Scheme::Es384 => P384_PUBLIC_LEN,
            Scheme::MlDsa65 => 1952,
            Scheme::MlDsa87 => 2592,
        }
    }

    /// Length of a signature, in bytes.
    pub const fn signature_len(self) -> usize {
        match self {
            Scheme::Es256 => 64,
            Scheme::Es384 => 96,
            Scheme::MlDsa65 => 3309,
            Scheme::MlDsa87 => 4627,
        }
    }

    /// Returns whether bytes have the form of a public key. A point may still be off its curve.
    pub(crate) fn is_public_form(self, key: &[u8]) -> bool {
        let is_point = matches!(self, Scheme::Es256 | Scheme::Es384);
        key.len() == self.public_len() && (!is_point || key.first() == Some(&4))
    }
}

/// The algorithm of an identity key or a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignatureAlgorithm {
    /// [`Scheme::Es256`], the one that every client accepts.
    Es256,
    /// [`Scheme::Es384`], alone on its key.
    Es384,
    /// [`Scheme::MlDsa65`], alone on its key.
    MlDsa65,
    /// [`Scheme::MlDsa87`], alone on its key.
    MlDsa87,
    /// [`Scheme::Es256`] and [`Scheme::MlDsa65`], both of which must verify.
    Es256MlDsa65,
    /// [`Scheme::Es384`] and [`Scheme::MlDsa87`], both of which must verify.
    Es384MlDsa87,
}

impl SignatureAlgorithm {
    /// All algorithms, in no order of preference.
    pub const ALL: [SignatureAlgorithm; 6] = [
        SignatureAlgorithm::Es256,
        SignatureAlgorithm::Es384,
        SignatureAlgorithm::MlDsa65,
        SignatureAlgorithm::MlDsa87,
        SignatureAlgorithm::Es256MlDsa65,
        SignatureAlgorithm::Es384MlDsa87,
    ];

    /// Returns its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            SignatureAlgorithm::Es256 => "ES256",
            SignatureAlgorithm::Es384 => "ES384",
            SignatureAlgorithm::MlDsa65 => "ML-DSA-65",
            SignatureAlgorithm::MlDsa87 => "ML-DSA-87",
            SignatureAlgorithm::Es256MlDsa65 => "ES256+ML-DSA-65",
            SignatureAlgorithm::Es384MlDsa87 => "ES384+ML-DSA-87",
        }
    }

    /// Returns the algorithm of this name.
    pub fn from_name(name: &str) -> Option<SignatureAlgorithm> {
        SignatureAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns the algorithm of a public key, by its length. No two have public keys of one length.
    pub fn of_public(key: &[u8]) -> Option<SignatureAlgorithm> {
        SignatureAlgorithm::ALL.into_iter().find(|algorithm| algorithm.public_len() == key.len())
    }

    /// Returns the schemes of its parts: one, or ECDSA's before ML-DSA's.
    pub fn schemes(self) -> impl Iterator<Item = Scheme> {
        let (first, second) = match self {
            SignatureAlgorithm::Es256 => (Scheme::Es256, None),
            SignatureAlgorithm::Es384 => (Scheme::Es384, None),
            SignatureAlgorithm::MlDsa65 => (Scheme::MlDsa65, None),
            SignatureAlgorithm::MlDsa87 => (Scheme::MlDsa87, None),
            SignatureAlgorithm::Es256MlDsa65 => (Scheme::Es256, Some(Scheme::MlDsa65)),
            SignatureAlgorithm::Es384MlDsa87 => (Scheme::Es384, Some(Scheme::MlDsa87)),
        };
        core::iter::once(first).chain(second)
    }

    /// Splits a public key into its parts; a part is empty if the key is too short.
    pub fn parts(self, key: &[u8]) -> Vec<&[u8]> {
        let mut rest = key;
        let take = |scheme: Scheme| {
            let (part, behind) = rest.split_at_checked(scheme.public_len()).unwrap_or_default();
            rest = behind;
            part
        };
        self.schemes().map(take).collect()
    }

    /// Returns whether its keys have two parts.
    pub fn is_composite(self) -> bool {
        self.schemes().count() > 1
    }

    /// Length of a public key, in bytes.
    pub fn public_len(self) -> usize {
        self.schemes().map(Scheme::public_len).sum()
    }

    /// Length of a signature, in bytes.
    pub fn signature_len(self) -> usize {
        self.schemes().map(Scheme::signature_len).sum()
    }

    /// Returns whether bytes have the form of a public key. A point may still be off its curve.
    pub fn is_public_form(self, key: &[u8]) -> bool {
        let mut rest = key;
        let mut fits = |scheme: Scheme| {
            let Some((part, behind)) = rest.split_at_checked(scheme.public_len()) else { return false };
            rest = behind;
            scheme.is_public_form(part)
        };
        self.schemes().all(&mut fits) && rest.is_empty()
    }
}

impl fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
