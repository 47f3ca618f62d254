//! Digests: the nine of `API.HashData.HashAlg` (FIPS 180-4, FIPS 202). SHAKE has as many bytes of output as its wire says.
// SPEC broker.md#hashes

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

/// Digests of `abc`, as FIPS 180-4 and FIPS 202 publish them in their examples.
const OF_ABC: [(HashAlgorithm, &str); 9] = [
    (HashAlgorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        HashAlgorithm::Sha384,
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
    ),
    (
        HashAlgorithm::Sha512,
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd\
         454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (HashAlgorithm::Sha512_256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
    (HashAlgorithm::Sha3_256, "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
    (
        HashAlgorithm::Sha3_384,
        "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
    ),
    (
        HashAlgorithm::Sha3_512,
        "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e39340\
         57340b4cf408d5a56592f8274eec53f0",
    ),
    (HashAlgorithm::Shake128, "5881092dd818bf5cf8a3ddb793fbcba7"),
    (HashAlgorithm::Shake256, "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739"),
];

/// Computes a published digest of each algorithm: what a start that must fail closed asks for.
///
/// # Errors
/// The first algorithm whose answer is wrong.
pub fn known_answers() -> Result<(), HashAlgorithm> {
    for (algorithm, known) in OF_ABC {
        let answer: String = digest(algorithm, b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
        if answer != known {
            return Err(algorithm);
        }
    }
    Ok(())
}
