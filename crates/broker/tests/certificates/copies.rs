//! Extensions: those that a profile makes, and those that it copies from a request.

use sealway_broker::profile::policy::{KeyUsage, Purpose, SkiHash};

use crate::ground::{RequestParts, extension, order, policy};

const KU: &str = "2.5.29.15";
const EKU: &str = "2.5.29.37";
const BC: &str = "2.5.29.19";
const SKI: &str = "2.5.29.14";
const AKI: &str = "2.5.29.35";
const SAN: &str = "2.5.29.17";
const CRL: &str = "2.5.29.31";
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";

#[test]
fn nothing_of_the_request_but_subject_and_key_is_copied_unless_the_profile_says_so() {
    let der = RequestParts::new("san", "p384").issue(&policy("Default")).unwrap().der;
    assert_eq!(order(&der), [KU, EKU, AKI, BC, SKI]);
}

#[test]
fn alternative_names_and_listed_extensions_are_copied_where_the_profile_says_so() {
    let mut policy = policy("Default");
    policy.copies_san = true;
    policy.copies_extensions = vec![TLS_FEATURE.to_owned(), "1.2.3.4".to_owned()];
    let mut asked = RequestParts::new("san", "p384");
    asked.crl_points = vec!["http://example.com/list.crl".to_owned()];
    let der = asked.issue(&policy).unwrap().der;
    assert_eq!(order(&der), [KU, EKU, AKI, SAN, CRL, BC, SKI, TLS_FEATURE]);
    let names = b"\x30\x17\x82\x0fwww.example.com\x87\x04\xc0\x00\x02\x01";
    assert_eq!(extension(&der, SAN), Some((false, names.to_vec())));
    assert_eq!(extension(&der, TLS_FEATURE), Some((false, b"\x30\x03\x02\x01\x05".to_vec())));
    // A request without them gets a certificate without them.
    let der = RequestParts::new("p256", "p384").issue(&policy).unwrap().der;
    assert_eq!(order(&der), [KU, EKU, AKI, BC, SKI]);
}

#[test]
fn extensions_that_the_profile_sets_are_not_copied_from_a_request() {
    // The request asks for a CA's BasicConstraints and keyCertSign.
    let mut policy = policy("Default");
    policy.copies_extensions = [BC, KU, EKU, SKI, AKI, SAN, CRL].map(str::to_owned).to_vec();
    let der = RequestParts::new("san", "p384").issue(&policy).unwrap().der;
    assert_eq!(order(&der), [KU, EKU, AKI, BC, SKI]);
    assert_eq!(extension(&der, BC), Some((false, vec![0x30, 0])));
    assert_eq!(extension(&der, KU), Some((true, vec![3, 2, 5, 0xa0])));
}

#[test]
fn key_usage_has_its_bits_in_their_places_and_none_is_no_extension() {
    let mut policy = policy("Default");
    let mut usage = |bits: u16| {
        policy.key_usage = KeyUsage(bits);
        extension(&RequestParts::new("p256", "p384").issue(&policy).unwrap().der, KU)
    };
    assert_eq!(usage(0), None);
    assert_eq!(usage(0b1), Some((true, vec![3, 2, 7, 0x80])));
    assert_eq!(usage(0b110_0000), Some((true, vec![3, 2, 1, 0x06])));
    assert_eq!(usage(0b1_0000_0000), Some((true, vec![3, 3, 7, 0, 0x80])));
    assert_eq!(usage(0b1_1111_1111), Some((true, vec![3, 3, 7, 0xff, 0x80])));
}

#[test]
fn purposes_keep_their_order_and_none_is_no_extension() {
    let mut policy = policy("Default");
    policy.purposes = vec![
        Purpose::OcspSigning,
        Purpose::ServerAuth,
        Purpose::CodeSigning,
        Purpose::EmailProtection,
        Purpose::TimeStamping,
    ];
    let der = RequestParts::new("p256", "p384").issue(&policy).unwrap().der;
    let value = extension(&der, EKU).unwrap().1;
    let last: Vec<u8> = value[2..].chunks(10).map(|oid| oid[9]).collect();
    assert_eq!(last, [9, 1, 3, 4, 8]);
    policy.purposes.clear();
    assert!(extension(&RequestParts::new("p256", "p384").issue(&policy).unwrap().der, EKU).is_none());
}

#[test]
fn the_key_identifier_is_the_left_of_the_digest_that_the_profile_names() {
    use aws_lc_rs::digest;
    let request = RequestParts::new("p256", "p384");
    for (ski, algorithm) in [
        (SkiHash::Sha1, &digest::SHA1_FOR_LEGACY_USE_ONLY),
        (SkiHash::Sha256, &digest::SHA256),
        (SkiHash::Sha384, &digest::SHA384),
        (SkiHash::Sha512, &digest::SHA512),
        (SkiHash::Sha3_256, &digest::SHA3_256),
        (SkiHash::Sha3_384, &digest::SHA3_384),
        (SkiHash::Sha3_512, &digest::SHA3_512),
    ] {
        let mut policy = policy("Default");
        policy.ski = ski;
        let der = request.issue(&policy).unwrap().der;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        let digest = digest::digest(algorithm, &certificate.public_key().subject_public_key.data);
        assert_eq!(extension(&der, SKI), Some((false, [&[4, 20][..], &digest.as_ref()[..20]].concat())), "{ski:?}");
    }
}

#[test]
fn serial_numbers_are_positive_short_and_never_the_same() {
    let (mut seen, mut highest) = (std::collections::HashSet::new(), 0);
    for _ in 0..200 {
        let der = RequestParts::new("p256", "p384").issue(&policy("Default")).unwrap().der;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        let serial = certificate.raw_serial().to_vec();
        assert!(serial.len() <= 20 && serial[0] < 0x80, "{serial:?}");
        assert!(serial[0] != 0 || serial[1] >= 0x80, "{serial:?}");
        highest = highest.max(if serial.len() == 20 { serial[0] } else { 0 });
        assert!(seen.insert(serial));
    }
    // All 159 bits are random: 200 draws without the highest are as unlikely as guessing a key.
    assert!(highest >= 0x40, "{highest:#x}");
}
