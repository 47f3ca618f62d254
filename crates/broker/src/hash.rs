//! Digests: the nine of `API.HashData.HashAlg` (FIPS 180-4, FIPS 202). SHAKE has as many bytes of output as its wire says.

use aws_lc_rs::digest;

use crate::profile::policy::HashAlgorithm;

/// Every algorithm, in the order that texts list them.
pub const ALL: [HashAlgorithm; 9] = [
    HashAlgorithm::Sha256,
    HashAlgorithm::Sha384,
    HashAlgorithm::Sha512,
    HashAlgorithm::Sha512_256,
    HashAlgorithm::Sha3_256,
    HashAlgorithm::Sha3_384,
    HashAlgorithm::Sha3_512,
    HashAlgorithm::Shake128,
    HashAlgorithm::Shake256,
];

/// The digest of `input`, which may be empty: 16 to 64 bytes.
///
/// # Panics
/// The library has no memory for a digest's state.
pub fn digest(algorithm: HashAlgorithm, input: &[u8]) -> Vec<u8> {
    let fixed = match algorithm {
        HashAlgorithm::Sha256 => &digest::SHA256,
        HashAlgorithm::Sha384 => &digest::SHA384,
        HashAlgorithm::Sha512 => &digest::SHA512,
        HashAlgorithm::Sha512_256 => &digest::SHA512_256,
        HashAlgorithm::Sha3_256 => &digest::SHA3_256,
        HashAlgorithm::Sha3_384 => &digest::SHA3_384,
        HashAlgorithm::Sha3_512 => &digest::SHA3_512,
        HashAlgorithm::Shake128 => {
            let mut out = vec![0; 16];
            sealway_awslc::shake128(input, &mut out).expect("memory for the state of a digest");
            return out;
        }
        HashAlgorithm::Shake256 => {
            let mut out = vec![0; 32];
            sealway_awslc::shake256(input, &mut out).expect("memory for the state of a digest");
            return out;
        }
    };
    digest::digest(fixed, input).as_ref().to_vec()
}

/// Its name on every wire and in profiles, in lower case.
pub fn name(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Sha256 => "sha-256",
        HashAlgorithm::Sha384 => "sha-384",
        HashAlgorithm::Sha512 => "sha-512",
        HashAlgorithm::Sha512_256 => "sha-512/256",
        HashAlgorithm::Sha3_256 => "sha3-256",
        HashAlgorithm::Sha3_384 => "sha3-384",
        HashAlgorithm::Sha3_512 => "sha3-512",
        HashAlgorithm::Shake128 => "shake-128",
        HashAlgorithm::Shake256 => "shake-256",
    }
}
