//! NIST's sample vectors of ACVP for ML-KEM and ML-DSA through the store, which are those of AWS-LC: 75 decapsulation keys and 30
//! decapsulations of ML-KEM, and 75 seeds of ML-DSA. The store has no place for the others: it draws the randomness of an
//! encapsulation (75 cases), reads no seed of ML-KEM, and signs and verifies by the external interface alone (105 cases).

use sealway_broker::operation::decapsulate;
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::KemAlgorithm;
use sealway_testkit::acvp::{Case, cases};

use crate::ground::{algorithm, empty, store};
use crate::post_quantum::seed_pkcs8;

/// Name of the case's parameter set in profiles and keys.
fn set(case: &Case) -> String {
    case.text("parameterSet").to_ascii_lowercase()
}

#[test]
fn ml_kem_keys_and_secrets_are_those_of_the_vectors() {
    let (mut keys, mut secrets) = (0, 0);
    for case in cases("ML-KEM-keyGen-FIPS203").unwrap() {
        let store = store();
        let key = store.import("key", algorithm(&set(&case)), &case.bytes("dk"), 1).unwrap();
        assert!(key.public_key(0).unwrap().1.ends_with(&case.bytes("ek")), "case {}", case.id);
        keys += 1;
    }
    for case in cases("ML-KEM-encapDecap-FIPS203").unwrap() {
        if case.text("function") != "decapsulation" {
            continue;
        }
        let store = store();
        let kem = KemAlgorithm::NAMES.into_iter().find(|(name, _)| *name == set(&case)).map(|(_, kem)| kem);
        let key = store.import("key", algorithm(&set(&case)), &case.bytes("dk"), 1).unwrap();
        let made = decapsulate(&Profile { kem, ..empty() }, &key, 0, &[&case.bytes("c")]).unwrap();
        assert_eq!(made.outputs[0].as_slice(), case.bytes("k"), "case {}", case.id);
        secrets += 1;
    }
    assert_eq!((keys, secrets), (75, 30));
}

#[cfg(not(feature = "fips"))]
#[test]
fn ml_dsa_keys_of_seeds_are_those_of_the_vectors() {
    let mut count = 0;
    for case in cases("ML-DSA-keyGen-FIPS204").unwrap() {
        let name = set(&case);
        let last = match name.as_str() {
            "ml-dsa-44" => 0x11,
            "ml-dsa-65" => 0x12,
            _ => 0x13,
        };
        let (store, material) = (store(), seed_pkcs8(last, &case.bytes("seed")));
        let key = store.import("key", algorithm(&name), &material, 1).unwrap();
        assert!(key.public_key(0).unwrap().1.ends_with(&case.bytes("pk")), "case {}", case.id);
        count += 1;
    }
    assert_eq!(count, 75);
}
