//! The operations, whatever wire asks for them: the caller's policy, the profile, the work.
//!
//! It may not know: messages of a wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::profile::policy::{HashAlgorithm, Profile};
use crate::{Code, Refusal};

/// All that calls share.
#[derive(Debug)]
pub struct Service {
    profiles: BTreeMap<String, Arc<Profile>>,
}

/// A digest, and by what it was made.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The algorithm's name in lower case.
    pub algorithm: &'static str,
    /// Of each input, in order.
    pub digests: Vec<Vec<u8>>,
}

impl Service {
    /// One with these profiles.
    pub fn new(profiles: impl IntoIterator<Item = Profile>) -> Service {
        let profiles = profiles.into_iter().map(|profile| (profile.name.clone(), Arc::new(profile))).collect();
        Service { profiles }
    }

    fn profile(&self, name: &str) -> Result<&Arc<Profile>, Refusal> {
        self.profiles
            .get(name)
            .ok_or_else(|| Refusal::invalid(format!("could not retrieve profile, err: there is no profile: {name}")))
    }

    /// Digests each input under the profile.
    ///
    /// # Errors
    /// No such profile, or it has no hash.
    pub fn hash(&self, profile: &str, inputs: &[&[u8]]) -> Result<Digest, Refusal> {
        let algorithm = self.profile(profile)?.hash.ok_or_else(|| {
            Refusal::invalid("error while hashing data: unknown '' algorithm value, available values: [...]")
        })?;
        let (name, digest) = interim(algorithm)?;
        let digests = inputs.iter().map(|input| aws_lc_rs::digest::digest(digest, input).as_ref().to_vec());
        Ok(Digest { algorithm: name, digests: digests.collect() })
    }
}

/// Until the module of digests is there (issue 6).
fn interim(algorithm: HashAlgorithm) -> Result<(&'static str, &'static aws_lc_rs::digest::Algorithm), Refusal> {
    Ok(match algorithm {
        HashAlgorithm::Sha256 => ("sha-256", &aws_lc_rs::digest::SHA256),
        HashAlgorithm::Sha384 => ("sha-384", &aws_lc_rs::digest::SHA384),
        HashAlgorithm::Sha512 => ("sha-512", &aws_lc_rs::digest::SHA512),
        HashAlgorithm::Sha512_256 => ("sha-512/256", &aws_lc_rs::digest::SHA512_256),
        HashAlgorithm::Sha3_256 => ("sha3-256", &aws_lc_rs::digest::SHA3_256),
        HashAlgorithm::Sha3_384 => ("sha3-384", &aws_lc_rs::digest::SHA3_384),
        HashAlgorithm::Sha3_512 => ("sha3-512", &aws_lc_rs::digest::SHA3_512),
        HashAlgorithm::Shake128 | HashAlgorithm::Shake256 => {
            return Err(Refusal::new(Code::Unimplemented, "SHAKE is not on this broker yet"));
        }
    })
}
