//! Digests: the nine of `API.HashData.HashAlg` (FIPS 180-4, FIPS 202). Each wire specifies SHAKE's output length.
// SPEC broker.md#hashes

use aws_lc_rs::digest;
use tracing::Span;

use crate::call::Call;
use crate::profile::policy::HashAlgorithm;
use crate::service::{Grant, Outcome, Query, Service, work_of};
use crate::{Refusal, Result};

/// Throughput of the slowest digest on long inputs, in bytes per µs.
const BYTES_A_US: u64 = 300;

/// Names of all algorithms on every wire and in profiles, in lower case and in the order of error texts.
pub const NAMES: [(&str, HashAlgorithm); 9] = [
    ("sha-256", HashAlgorithm::Sha256),
    ("sha-384", HashAlgorithm::Sha384),
    ("sha-512", HashAlgorithm::Sha512),
    ("sha-512/256", HashAlgorithm::Sha512_256),
    ("sha3-256", HashAlgorithm::Sha3_256),
    ("sha3-384", HashAlgorithm::Sha3_384),
    ("sha3-512", HashAlgorithm::Sha3_512),
    ("shake-128", HashAlgorithm::Shake128),
    ("shake-256", HashAlgorithm::Shake256),
];

/// Computes the digest of `input`, which may be empty: 16 to 64 bytes.
///
/// # Panics
/// The library cannot allocate a digest's state.
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

/// Returns the name of a digest.
pub fn name(algorithm: HashAlgorithm) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == algorithm).map_or("", |(name, _)| name)
}

/// Formats bytes as hexadecimal digits in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Parses a digest of 64 lower-case hexadecimal digits.
pub(crate) fn unhex(digits: &[u8]) -> Option<[u8; 32]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Runs HashData for every wire: digests of a batch under the query's profile.
///
/// # Errors
/// Those of [`Service::run`]; 3: the profile has no HashData.
pub(crate) async fn run(
    service: &Service,
    call: &Call,
    query: Query<'_>,
    shape: Result<()>,
    inputs: &[impl AsRef<[u8]> + Sync],
) -> Result<Outcome<Vec<Vec<u8>>>> {
    let work = |grant: &Grant| {
        let algorithm = grant.profile()?.hash.ok_or_else(none)?;
        let digest = || inputs.iter().map(|input| digest(algorithm, input.as_ref())).collect();
        let digests: Vec<_> = work_of(query.bytes_in as u64 / BYTES_A_US, digest);
        let (name, bytes_out) = (name(algorithm), digests.iter().map(Vec::len).sum());
        metrics::counter!("crypto_hash_data_operations_total", "algorithm" => name).increment(digests.len() as u64);
        let span = Span::current();
        span.record("crypto.hash_algorithm", name);
        span.record("crypto.hash_output_size", bytes_out);
        Ok(Outcome { algorithm: name.to_owned(), ..Outcome::new(digests, bytes_out) })
    };
    service.run(call, query, shape, work).await
}

fn none() -> Refusal {
    let names = NAMES.map(|(name, _)| name).join(" ");
    Refusal::invalid(format!("error while hashing data: unknown '' algorithm value, available values: [{names}]"))
}
