//! Shares of a key agreement, both sides, and the secret that they give. `spec/session-3.md#suites`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::Suite;
use super::suite::Group;
use crate::crypto::agreement::{AgreementKey, AgreementProvider, Curve, KemKey, P384Key};
use crate::error::Error;

/// The shared secret of both shares, 32 to 80 bytes.
pub(super) type Secret = Zeroizing<Vec<u8>>;

/// The private halves of a client's share, for one init.
pub struct ShareKey {
    suite: Suite,
    point: Option<PointKey>,
    kem: Option<Box<dyn KemKey>>,
}

/// A private key of a suite's group.
enum PointKey {
    Short(Box<dyn AgreementKey>),
    P384(Box<dyn P384Key>),
}

/// The random inputs of a server's share.
#[derive(Default)]
pub enum ServerRandoms {
    /// Drawn from the provider when needed.
    #[default]
    Draw,
    /// Given, for test vectors: the group's private key, empty without a group, and, if the suite has ML-KEM, its ciphertext and its
    /// secret.
    Given(Zeroizing<Vec<u8>>, Option<(Vec<u8>, Zeroizing<[u8; 32]>)>),
}

impl PointKey {
    fn generate(provider: &dyn AgreementProvider, group: Group) -> Result<Self, Error> {
        match group {
            Group::X25519 => provider.agreement_generate(Curve::X25519).map(PointKey::Short),
            Group::P256 => provider.agreement_generate(Curve::P256).map(PointKey::Short),
            Group::P384 => provider.p384_generate().map(PointKey::P384),
        }
    }

    fn from_private(provider: &dyn AgreementProvider, group: Group, private: &[u8]) -> Result<Self, Error> {
        let short = |curve| {
            let private = private.try_into().map_err(|_| Error::Provider)?;
            provider.agreement_from_private(curve, private).map(PointKey::Short)
        };
        match group {
            Group::X25519 => short(Curve::X25519),
            Group::P256 => short(Curve::P256),
            Group::P384 => {
                let private = private.try_into().map_err(|_| Error::Provider)?;
                provider.p384_from_private(private).map(PointKey::P384)
            }
        }
    }

    fn public(&self) -> &[u8] {
        match self {
            PointKey::Short(key) => key.public(),
            PointKey::P384(key) => key.public(),
        }
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret, Error> {
        Ok(Zeroizing::new(match self {
            PointKey::Short(key) => key.agree(peer)?.to_vec(),
            PointKey::P384(key) => key.agree(peer)?.to_vec(),
        }))
    }
}

impl ShareKey {
    /// Generates the private halves of a share.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn generate(provider: &dyn AgreementProvider, suite: Suite) -> Result<Self, Error> {
        let point = suite.group().map(|group| PointKey::generate(provider, group)).transpose()?;
        let kem = suite.kem().map(|kem| provider.kem_generate(kem)).transpose()?;
        Ok(ShareKey { suite, point, kem })
    }

    /// Creates a share from given keys, for test vectors: the group's private key, empty without a group, and ML-KEM's expanded one,
    /// empty without ML-KEM.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn from_private(
        provider: &dyn AgreementProvider,
        suite: Suite,
        point: &[u8],
        kem: &[u8],
    ) -> Result<Self, Error> {
        let point = suite.group().map(|group| PointKey::from_private(provider, group, point)).transpose()?;
        let kem = suite.kem().map(|set| provider.kem_from_private(set, kem)).transpose()?;
        Ok(ShareKey { suite, point, kem })
    }

    /// Returns the suite of the share.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Returns the public share, as bytes of the wire.
    pub fn public(&self) -> Vec<u8> {
        let point = self.point.as_ref().map_or(&[][..], PointKey::public);
        let kem = self.kem.as_ref().map_or(&[][..], |kem| kem.public());
        self.suite.join(point, kem)
    }

    /// Computes the secret from the server's share.
    pub(super) fn agree(&self, server: &[u8]) -> Result<Secret, Error> {
        let (point, ciphertext) = self.suite.split_server(server).ok_or(Error::PublicKeyInvalid)?;
        let agreed = self.point.as_ref().map(|key| key.agree(point)).transpose()?;
        let shared = self.kem.as_ref().map(|kem| kem.decapsulate(ciphertext)).transpose()?;
        Ok(join(self.suite, agreed, shared))
    }
}

/// Puts the secrets of both parts into the suite's order.
fn join(suite: Suite, agreed: Option<Secret>, shared: Option<Zeroizing<[u8; 32]>>) -> Secret {
    let agreed = agreed.as_ref().map_or(&[][..], |secret| secret);
    let shared = shared.as_ref().map_or(&[][..], |secret| secret.as_slice());
    Zeroizing::new(suite.join(agreed, shared))
}

/// Computes the server's share for a client's, and the secret.
pub(super) fn respond(
    provider: &dyn AgreementProvider,
    suite: Suite,
    client: &[u8],
    randoms: ServerRandoms,
) -> Result<(Vec<u8>, Secret), Error> {
    let (point, encapsulation_key) = suite.split_client(client).ok_or(Error::PublicKeyInvalid)?;
    let (private, encapsulated) = match randoms {
        ServerRandoms::Draw => (None, None),
        ServerRandoms::Given(private, encapsulated) => (Some(private), encapsulated),
    };
    let own = suite.group().map(|group| match &private {
        Some(private) => PointKey::from_private(provider, group, private),
        None => PointKey::generate(provider, group),
    });
    let own = own.transpose()?;
    let agreed = own.as_ref().map(|own| own.agree(point)).transpose()?;
    let encapsulated = match (suite.kem(), encapsulated) {
        (None, _) => None,
        (Some(_), Some(given)) => Some(given),
        (Some(kem), None) => Some(provider.kem_encapsulate(kem, encapsulation_key)?),
    };
    let (ciphertext, shared) = encapsulated.unzip();
    let share = suite.join(own.as_ref().map_or(&[][..], PointKey::public), &ciphertext.unwrap_or_default());
    Ok((share, join(suite, agreed, shared)))
}

impl fmt::Debug for ShareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareKey").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerRandoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerRandoms(redacted)")
    }
}
