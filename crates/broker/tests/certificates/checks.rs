//! Checks of the issuer's certificate: each check rejects its defect, and its switch turns it off.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use sealway_broker::profile::policy::{CertificatePolicy, IssuerChecks};

use crate::ground::{NOW, RequestParts, policy, read};

/// A certificate of the P-384 CA's key, from 2023 to 2033 by default.
fn ca(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let key = KeyPair::from_pem(&String::from_utf8(read("ca/p384-key.pem")).unwrap()).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2023, 1, 1), date_time_ymd(2033, 1, 1));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    change(&mut params);
    params.self_signed(&key).unwrap().pem().into_bytes()
}

/// Expects this error with the check on, and a certificate with the check off and all others on.
fn hold(certificate: Vec<u8>, policy: &CertificatePolicy, text: &str, switch: impl FnOnce(&mut IssuerChecks)) {
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = certificate;
    assert_eq!(asked.refused(policy), format!("error while signing data: invalid CA certificate, err: {text}"));
    let mut lax = policy.clone();
    switch(&mut lax.checks);
    asked.issue(&lax).unwrap_or_else(|refusal| panic!("{text}: still refused without its check: {refusal}"));
}

#[test]
fn a_valid_ca_issues_certificates() {
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = ca(|_| {});
    asked.issue(&policy("Default")).unwrap();
    // A certificate without KeyUsage may sign.
    asked.ca_certificate = ca(|params| params.key_usages.clear());
    asked.issue(&policy("Default")).unwrap();
}

#[test]
fn it_is_a_ca() {
    let policy = policy("Default");
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        hold(ca(|params| params.is_ca = is_ca), &policy, "it is not that of a CA", |checks| checks.is_ca = false);
    }
}

#[test]
fn it_may_sign_certificates() {
    let certificate =
        ca(|params| params.key_usages = vec![KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature]);
    hold(certificate, &policy("Default"), "its key usage lacks keyCertSign", |checks| checks.may_sign = false);
}

#[test]
fn it_is_in_date() {
    let policy = policy("Default");
    let late = ca(|params| params.not_before = date_time_ymd(2026, 11, 22));
    hold(late, &policy, "it is not valid before 2026-11-22 00:00:00 +0000 UTC", |checks| checks.in_date = false);
    let over = ca(|params| params.not_after = date_time_ymd(2026, 11, 21));
    hold(over, &policy, "it has expired at 2026-11-21 00:00:00 +0000 UTC", |checks| {
        (checks.in_date, checks.not_beyond) = (false, false);
    });
}

#[test]
fn an_issued_certificate_does_not_outlive_its_issuer() {
    let certificate = ca(|params| params.not_after = date_time_ymd(2027, 1, 1));
    let text =
        "what it issues would end at 2027-11-21 16:53:27 +0000 UTC, after its own end at 2027-01-01 00:00:00 +0000 UTC";
    hold(certificate.clone(), &policy("Default"), text, |checks| checks.not_beyond = false);
    let mut short = policy("Default");
    // Up to the second of its end, and one second later.
    short.not_after.ns = (date_time_ymd(2027, 1, 1).unix_timestamp() - NOW) * 1_000_000_000;
    let mut longer = short.clone();
    longer.not_after.ns += 1_000_000_000;
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = certificate;
    asked.issue(&short).unwrap();
    asked.refused(&longer);
}

#[test]
fn the_issuers_path_length_allows_the_issued_certificate() {
    let mut policy = policy("Default");
    let none_left = || ca(|params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = none_left();
    asked.issue(&policy).expect("no CA is issued");
    policy.is_ca = true;
    let off = |checks: &mut IssuerChecks| checks.path_length = false;
    hold(none_left(), &policy, "its path length allows no CA below it", off);
    policy.path_length = Some(1);
    hold(ca(|_| {}), &policy, "its path length allows a path length of 0 below it, not 1", off);
    asked.ca_certificate = ca(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    asked.issue(&policy).unwrap();
}

#[test]
fn its_own_signature_holds() {
    let good = ca(|_| {});
    let (_, pem) = x509_parser::pem::parse_x509_pem(&good).unwrap();
    let mut der = pem.contents;
    *der.last_mut().unwrap() ^= 1;
    let bad = pem_of(&der);
    // The valid certificate is remembered by now; the invalid one must not match it.
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = good;
    asked.issue(&policy("Default")).unwrap();
    let text = "its own signature does not hold: x509: ECDSA verification failure";
    hold(bad, &policy("Default"), text, |checks| checks.own_signature = false);
}

#[test]
fn a_ca_that_another_one_has_signed_under_its_own_name_is_not_held_to_its_own_signature() {
    // A key change: issuer and subject are the same, and the key identifiers differ.
    let identifier = |bytes: [u8; 20]| KeyIdMethod::PreSpecified(bytes.to_vec());
    let certificate = ca(|params| {
        params.key_identifier_method = identifier([1; 20]);
        let other = [&[0x30, 22, 0x80, 20][..], &[2; 20]].concat();
        params.custom_extensions.push(CustomExtension::from_oid_content(&[2, 5, 29, 35], other));
    });
    let (_, pem) = x509_parser::pem::parse_x509_pem(&certificate).unwrap();
    let mut der = pem.contents;
    *der.last_mut().unwrap() ^= 1;
    let mut asked = RequestParts::new("p521", "p384");
    asked.ca_certificate = pem_of(&der);
    let issued = asked.issue(&policy("Default")).unwrap();
    let (_, identifier) = crate::ground::extension(&issued.der, "2.5.29.35").unwrap();
    assert_eq!(
        identifier,
        [&[0x30, 22, 0x80, 20][..], &[1; 20]].concat(),
        "the identifier of its key, not of its issuer's"
    );
}

fn pem_of(der: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
}
