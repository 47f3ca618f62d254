//! Tests of every row of the table of errors: code, text, and the order of the rules.

use sealway_broker::Code;
use sealway_broker::certificate::{Bound, Flavour, refuse};
use sealway_broker::profile::policy::{CertificateSignature, SignatureHash, SizeRange};

use crate::ground::{NOW, RequestParts, hours, policy, read};

const CSR: &str = "error parsing request data: could not ";

fn asked() -> RequestParts {
    RequestParts::new("p256", "p384")
}

#[test]
fn requests_that_are_no_pem_or_no_request_are_refused() {
    let mut asked = asked();
    let whole = asked.csr.clone();
    for text in [&b""[..], b"-----BEGIN CERTIFICATE REQUEST-----\n", b"MIIB", &whole[..whole.len() - 40]] {
        asked.csr = text.to_vec();
        assert_eq!(asked.refused(&policy("Default")), format!("{CSR}decode CSR as PEM file"));
    }
    asked.csr = asked.ca_certificate.clone();
    let text = asked.refused(&policy("Default"));
    assert!(
        text.starts_with(&format!("{CSR}parse certificate request, err: x509: malformed certificate request")),
        "{text}"
    );
}

#[test]
fn der_is_read_on_our_own_wire_alone() {
    let mut asked = asked();
    for part in [&mut asked.csr, &mut asked.ca_certificate] {
        let (_, pem) = x509_parser::pem::parse_x509_pem(part).unwrap();
        *part = pem.contents;
    }
    assert_eq!(asked.refused(&policy("Default")), format!("{CSR}decode CSR as PEM file"));
    asked.wire = Flavour::Ours;
    asked.issue(&policy("Default")).unwrap();
    let whole = asked.csr.clone();
    for end in 0..whole.len() {
        asked.csr = whole[..end].to_vec();
        asked.refused(&policy("Default"));
    }
    asked.csr = [whole.as_slice(), &[0]].concat();
    asked.refused(&policy("Default"));
}

#[test]
fn malformed_ca_keys_are_rejected() {
    let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let prefix = format!("{CSR}parse private key, err: ");
    let mut asked = asked();
    let key = asked.ca_key.clone();
    asked.ca_key = b"no key".to_vec();
    assert_eq!(asked.refused(&policy("Default")), format!("{prefix}key must be PEM encoded"));
    for text in [[parameters.as_bytes(), &key].concat(), read("ca/p384.pem")] {
        asked.ca_key = text;
        assert_eq!(asked.refused(&policy("Default")), format!("{prefix}key is neither PKCS#1 nor PKCS#8 nor SEC1"));
    }
    // The label and the text before it are ignored.
    let text = String::from_utf8(key).unwrap().replace("PRIVATE KEY", "ANYTHING");
    asked.ca_key = format!("Key Attributes: none\n{text}").into_bytes();
    asked.issue(&policy("Default")).unwrap();
}

#[test]
fn an_ed25519_ca_key_is_refused_by_its_type() {
    let mut asked = asked();
    asked.ca_key = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n"
        .to_vec();
    assert_eq!(
        asked.refused(&policy("Default")),
        "error while signing data: invalid private key, err: unsupported private key algorithm of type ed25519.PrivateKey"
    );
}

#[test]
fn malformed_ca_certificates_are_rejected() {
    let prefix = format!("{CSR}parse x.509 CA cert from request, err: ");
    let mut asked = asked();
    let certificate = asked.ca_certificate.clone();
    for text in [b"".to_vec(), asked.csr.clone(), [asked.csr.as_slice(), &certificate].concat()] {
        asked.ca_certificate = text;
        assert_eq!(
            asked.refused(&policy("Default")),
            format!("{prefix}failed to decode PEM block containing certificate")
        );
    }
    asked.ca_certificate = b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n".to_vec();
    assert_eq!(asked.refused(&policy("Default")), format!("{prefix}x509: malformed certificate"));
    asked.ca_certificate = [&b"subject=CN = anything\n"[..], &certificate].concat();
    asked.issue(&policy("Default")).unwrap();
}

#[test]
fn the_key_must_be_that_of_the_ca_certificate_and_of_the_profiles_kind() {
    let mut asked = asked();
    asked.ca_certificate = read("ca/p521.pem");
    assert_eq!(
        asked.refused(&policy("Default")),
        "error while signing data: x509: provided PrivateKey doesn't match parent's PublicKey"
    );
    let mut other = policy("Default");
    other.signature = CertificateSignature::Rsa(SignatureHash::Sha256);
    assert_eq!(
        asked.refused(&other),
        "error while signing data: x509: requested SignatureAlgorithm does not match private key type"
    );
}

#[test]
fn validity_stays_within_the_profiles() {
    let prefix = "error while signing data: certificate validity (valid not ";
    let at = |seconds: i64| Bound::At(seconds as u64);
    let (begin, end) = (NOW - 3600, NOW + 8760 * 3600);
    let mut asked = asked();
    for (not_before, not_after) in [(begin, end), (end, end), (begin, begin), (NOW, NOW + 1)] {
        (asked.not_before, asked.not_after) = (at(not_before), at(not_after));
        let der = asked.issue(&policy("Default")).unwrap().der;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        let validity = certificate.validity();
        assert_eq!((validity.not_before.timestamp(), validity.not_after.timestamp()), (not_before, not_after));
    }
    for (not_before, not_after, text) in [
        (
            at(begin - 1),
            at(end),
            "before) 2026-11-21 15:53:26 +0000 UTC is earlier than the allowed by the profile 2026-11-21 15:53:27 +0000 UTC",
        ),
        (Bound::At(0), at(end), "before) 1970-01-01 00:00:00 +0000 UTC is earlier than the allowed by the profile"),
        (
            at(begin),
            at(end + 1),
            "after) 2027-11-21 16:53:28 +0000 UTC is later than the allowed by the profile 2027-11-21 16:53:27 +0000 UTC",
        ),
        (at(begin), Bound::At(u64::MAX), "after) 9223372036854775807 seconds after 1970 is later than the allowed"),
        (at(NOW + 1), at(NOW), "before) 2026-11-21 16:53:28 +0000 UTC is later than (valid not after)"),
        (
            Bound::At(u64::MAX),
            Bound::Profile,
            "before) 9223372036854775807 seconds after 1970 is later than (valid not",
        ),
        (Bound::From(hours(-2)), Bound::Profile, "before) 2026-11-21 14:53:27 +0000 UTC is earlier than"),
    ] {
        (asked.not_before, asked.not_after) = (not_before, not_after);
        let said = asked.refused(&policy("Default"));
        assert!(said.starts_with(&format!("{prefix}{text}")), "{said}");
    }
}

#[test]
fn subjects_that_cannot_be_built_are_refused() {
    let mut asked = asked();
    asked.subject = Some("CN=a,EMAIL=b");
    assert_eq!(
        asked.refused(&policy("Default")),
        "error while signing data: error while building subject from string: unsupported subject attribute: \"EMAIL\""
    );
}

#[test]
fn a_profile_without_the_section_lacks_constraints_for_what_the_request_has() {
    let mut asked = asked();
    let refusal = refuse(&asked.request());
    assert_eq!(refusal.code, Code::InvalidArgument);
    assert_eq!(
        refusal.text,
        "error while signing data: profile does not contain key constraints for algorithm used in the CSR's public key, err: \
         missing key constraints for 'ecdsa' algorithm"
    );
    asked.csr = Vec::new();
    assert_eq!(refuse(&asked.request()).text, format!("{CSR}decode CSR as PEM file"));
}

#[test]
fn the_rules_are_checked_in_their_order() {
    // Everything is wrong; each step corrects the reported fault.
    let mut asked = asked();
    let good = asked.clone();
    let mut policy = policy("Default");
    let range = Some(SizeRange { min: 384, max: 521 });
    (policy.subject.ecdsa, policy.issuer.ecdsa) = (range, Some(SizeRange { min: 521, max: 521 }));
    (asked.csr, asked.ca_key, asked.ca_certificate) = (Vec::new(), Vec::new(), Vec::new());
    asked.not_after = Bound::At(u64::MAX);
    asked.subject = Some("x");
    let told = |asked: &RequestParts, policy: &_, part: &str| {
        let text = asked.refused(policy);
        assert!(text.contains(part), "{text}, not {part}");
    };
    told(&asked, &policy, "could not decode CSR");
    asked.csr = read("csr/bad-p256.pem");
    told(&asked, &policy, "could not parse private key");
    asked.ca_key = good.ca_key;
    told(&asked, &policy, "could not parse x.509 CA cert");
    asked.ca_certificate = good.ca_certificate;
    told(&asked, &policy, "invalid public key");
    policy.subject.ecdsa = Some(SizeRange { min: 256, max: 521 });
    told(&asked, &policy, "invalid private key");
    policy.issuer.ecdsa = range;
    told(&asked, &policy, "certificate validity");
    asked.not_after = Bound::Profile;
    told(&asked, &policy, "invalid certificate request signature");
    asked.csr = good.csr;
    told(&asked, &policy, "error while building subject");
    asked.subject = None;
    asked.issue(&policy).unwrap();
}

#[test]
fn no_turned_bit_of_a_request_or_of_a_ca_certificate_goes_unnoticed() {
    let der = |text: &[u8]| x509_parser::pem::parse_x509_pem(text).unwrap().1.contents;
    let mut asked = asked();
    asked.wire = Flavour::Ours;
    (asked.csr, asked.ca_certificate) = (der(&asked.csr), der(&asked.ca_certificate));
    asked.issue(&policy("Default")).unwrap();
    let (_, ca) = x509_parser::parse_x509_certificate(&asked.ca_certificate).unwrap();
    let name = ca.subject().as_raw().to_vec();
    for is_csr in [true, false] {
        let whole = if is_csr { asked.csr.clone() } else { asked.ca_certificate.clone() };
        // A CA with two different names was signed by another key, which is not available.
        let places = whole.windows(name.len()).enumerate().filter(|(_, window)| !is_csr && *window == name);
        let names: Vec<_> = places.map(|(place, _)| place..place + name.len()).collect();
        assert_eq!(names.len(), if is_csr { 0 } else { 2 });
        for bit in (0..whole.len() * 8).filter(|bit| !names.iter().any(|range| range.contains(&(bit / 8)))) {
            let mut turned = whole.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            let mut asked = asked.clone();
            *(if is_csr { &mut asked.csr } else { &mut asked.ca_certificate }) = turned;
            let text = asked.refused(&policy("Default"));
            assert!(text.len() < 300 && !text.contains('\n'), "{text}");
        }
    }
}
