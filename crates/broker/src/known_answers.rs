//! Known answers: NIST's published digests of two messages for every algorithm. The FIPS build checks them before it
//! serves, and the tests of every build check them.
//!
//! The module does not know profiles. The crypto module has tests of its own; these check our code's path to it.

use crate::hash;
use crate::profile::policy::HashAlgorithm;

/// One-block and two-block messages of the examples for FIPS 180-4 and FIPS 202.
const SHORT: &[u8] = b"abc";
const LONG: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

const ANSWERS: &[(HashAlgorithm, &[u8], &str)] = &[
    (HashAlgorithm::Sha256, SHORT, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (HashAlgorithm::Sha256, LONG, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
    (
        HashAlgorithm::Sha384,
        SHORT,
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded163\
         1a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
    ),
    (
        HashAlgorithm::Sha384,
        LONG,
        "3391fdddfc8dc7393707a65b1b4709397cf8b1d162af05ab\
         fe8f450de5f36bc6b0455a8520bc4e6f5fe95b1fe3c8452b",
    ),
    (
        HashAlgorithm::Sha512,
        SHORT,
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (
        HashAlgorithm::Sha512,
        LONG,
        "204a8fc6dda82f0a0ced7beb8e08a41657c16ef468b228a8279be331a703c335\
         96fd15c13b1b07f9aa1d3bea57789ca031ad85c7a71dd70354ec631238ca3445",
    ),
    (HashAlgorithm::Sha512_256, SHORT, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
    (HashAlgorithm::Sha512_256, LONG, "bde8e1f9f19bb9fd3406c90ec6bc47bd36d8ada9f11880dbc8a22a7078b6a461"),
    (HashAlgorithm::Sha3_256, SHORT, "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"),
    (HashAlgorithm::Sha3_256, LONG, "41c0dba2a9d6240849100376a8235e2c82e1b9998a999e21db32dd97496d3376"),
    (
        HashAlgorithm::Sha3_384,
        SHORT,
        "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c25\
         96da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
    ),
    (
        HashAlgorithm::Sha3_384,
        LONG,
        "991c665755eb3a4b6bbdfb75c78a492e8c56a22c5c4d7e42\
         9bfdbc32b9d4ad5aa04a1f076e62fea19eef51acd0657c22",
    ),
    (
        HashAlgorithm::Sha3_512,
        SHORT,
        "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
         10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
    ),
    (
        HashAlgorithm::Sha3_512,
        LONG,
        "04a371e84ecfb5b8b77cb48610fca8182dd457ce6f326a0fd3d7ec2f1e91636d\
         ee691fbe0c985302ba1b0d8dc78c086346b533b49c030d99a27daf1139d6e75e",
    ),
    (HashAlgorithm::Shake128, SHORT, "5881092dd818bf5cf8a3ddb793fbcba7"),
    (HashAlgorithm::Shake128, LONG, "1a96182b50fb8c7e74e0a707788f55e9"),
    (HashAlgorithm::Shake256, SHORT, "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739"),
    (HashAlgorithm::Shake256, LONG, "4d8c2dd2435a0128eefbb8c36f6f87133a7911e18d979ee1ae6be5d4fd2e3329"),
];

/// Compares the digests of both messages with the published ones, for every algorithm.
///
/// # Errors
/// A sentence that names the algorithm.
pub fn check() -> Result<(), String> {
    check_all(ANSWERS)
}

fn check_all(answers: &[(HashAlgorithm, &[u8], &str)]) -> Result<(), String> {
    for (algorithm, input, want) in answers {
        if hash::hex(&hash::digest(*algorithm, input)) != *want {
            return Err(format!("known-answer test: {} gives another digest than published", hash::name(*algorithm)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_gives_the_published_answers() {
        assert_eq!(check(), Ok(()));
        let mut algorithms: Vec<_> = ANSWERS.iter().map(|(algorithm, ..)| *algorithm).collect();
        algorithms.dedup();
        assert_eq!(algorithms.len(), 9);
    }

    #[test]
    fn a_digest_that_differs_from_the_published_one_is_reported() {
        let (algorithm, input, want) = ANSWERS[0];
        let other = want.replacen('b', "c", 1);
        let err = check_all(&[(algorithm, input, &other)]).unwrap_err();
        assert!(err.contains("sha-256"), "{err}");
    }
}
