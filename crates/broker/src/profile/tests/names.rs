//! Names and sizes of algorithms, as files, descriptors and keys have them.

use super::*;

#[test]
fn names_of_algorithms_are_those_of_files_and_descriptors() {
    for (kind, name) in [(KeyKind::Rsa, "rsa"), (KeyKind::Ecdsa, "ecdsa"), (KeyKind::MlDsa, "ml-dsa")] {
        assert_eq!(kind.name(), name);
        assert!(KeyKind::NAMES.contains(&(name, kind)));
    }
    // FIPS 204 table 1.
    for (set, name, number) in [
        (MlDsaAlgorithm::MlDsa44, "ml-dsa-44", 44),
        (MlDsaAlgorithm::MlDsa65, "ml-dsa-65", 65),
        (MlDsaAlgorithm::MlDsa87, "ml-dsa-87", 87),
    ] {
        assert_eq!((set.name(), set.number()), (name, number));
        assert!(MlDsaAlgorithm::NAMES.contains(&(name, set)));
    }
    // FIPS 203 table 3.
    for (set, name, ciphertext_len) in [
        (KemAlgorithm::MlKem512, "ml-kem-512", 768),
        (KemAlgorithm::MlKem768, "ml-kem-768", 1088),
        (KemAlgorithm::MlKem1024, "ml-kem-1024", 1568),
    ] {
        assert_eq!((set.name(), set.ciphertext_len()), (name, ciphertext_len));
        assert!(KemAlgorithm::NAMES.contains(&(name, set)));
    }
    for (algorithm, name) in [(UnwrapAlgorithm::RsaOaep256, "rsa-oaep-256"), (UnwrapAlgorithm::RsaOaep, "rsa-oaep")] {
        assert_eq!(algorithm.name(), name);
    }
}

#[test]
fn a_certificate_is_signed_by_a_key_of_its_kind_and_with_ml_dsa_of_its_parameter_set() {
    let rsa = CertificateSignature::Rsa(SignatureHash::Sha256);
    let ecdsa = CertificateSignature::Ecdsa(SignatureHash::Sha384);
    let ml_dsa = CertificateSignature::MlDsa(MlDsaAlgorithm::MlDsa65);
    for (signature, kind, size, want) in [
        (rsa, KeyKind::Rsa, 2048, true),
        (rsa, KeyKind::Ecdsa, 256, false),
        (rsa, KeyKind::MlDsa, 65, false),
        (ecdsa, KeyKind::Ecdsa, 521, true),
        (ecdsa, KeyKind::Rsa, 2048, false),
        (ml_dsa, KeyKind::MlDsa, 65, true),
        (ml_dsa, KeyKind::MlDsa, 44, false),
        (ml_dsa, KeyKind::MlDsa, 87, false),
        (ml_dsa, KeyKind::Rsa, 65, false),
    ] {
        assert_eq!(signature.fits(kind, size), want, "{signature:?} {kind:?} {size}");
    }
}

#[test]
fn the_distance_of_an_offset_is_the_same_before_and_after_now() {
    use std::time::Duration;
    for (ns, want) in [
        (0, Duration::ZERO),
        (1_500_000_000, Duration::from_millis(1500)),
        (-1_500_000_000, Duration::from_millis(1500)),
        (i64::MIN, Duration::from_nanos(1 << 63)),
    ] {
        assert_eq!(Offset { ns }.distance(), want, "{ns}");
    }
}
