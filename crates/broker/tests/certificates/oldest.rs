//! Tests of the rules that only W0 has.

use sealway_broker::Code;
use sealway_broker::certificate::{Bound, Flavour};

use crate::ground::{NOW, RequestParts, extension, hours, order, policy};

fn asked(csr: &str) -> RequestParts {
    RequestParts { wire: Flavour::W0, ..RequestParts::new(csr, "p384") }
}

#[test]
fn its_certificates_have_critical_basic_constraints_and_no_key_identifier() {
    let der = asked("p256").issue(&policy("Default")).unwrap().der;
    assert_eq!(order(&der), ["2.5.29.15", "2.5.29.37", "2.5.29.19", "2.5.29.35"]);
    assert_eq!(extension(&der, "2.5.29.19"), Some((true, vec![0x30, 0])));
}

#[test]
fn every_error_has_code_2_and_the_common_text() {
    for csr in ["p224", "ed25519", "secp256k1", "bad-p256"] {
        let elsewhere = RequestParts::new(csr, "p384").issue(&policy("Default")).unwrap_err();
        let here = asked(csr).issue(&policy("Default")).unwrap_err();
        assert_eq!((elsewhere.code, here.code), (Code::InvalidArgument, Code::Unknown));
        assert_eq!(here.text, elsewhere.text, "{csr}");
    }
}

#[test]
fn the_signature_of_a_request_is_verified_first() {
    let mut asked = asked("bad-p256");
    (asked.ca_key, asked.ca_certificate) = (Vec::new(), Vec::new());
    let text = asked.issue(&policy("KSA-ADVANCED-2020")).unwrap_err().text;
    assert!(text.contains("invalid certificate request signature"), "{text}");
}

#[test]
fn validity_is_relative_to_now_and_within_the_profile() {
    let mut asked = asked("p256");
    (asked.not_before, asked.not_after) = (Bound::From(hours(0)), Bound::From(hours(24)));
    let der = asked.issue(&policy("Default")).unwrap().der;
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert_eq!(certificate.validity().not_before.timestamp(), NOW);
    assert_eq!(certificate.validity().not_after.timestamp(), NOW + 86_400);
    asked.not_before = Bound::From(hours(-2));
    let refusal = asked.issue(&policy("Default")).unwrap_err();
    assert_eq!(refusal.code, Code::Unknown);
    assert!(refusal.text.contains("is earlier than the allowed by the profile"), "{refusal}");
}
