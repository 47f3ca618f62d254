//! Rules of `API.SignCertificate`: usages of ML-DSA keys, path lengths, OIDs, checks of the issuer.

use super::*;

#[test]
fn certificates_for_ml_dsa_keys_have_usages_of_signatures_alone() {
    const SIZES: &str = "MinKeySize: 44, MaxKeySize: 87";
    let file = |kind: &str, usages: &str| {
        let sizes =
            format!("Subject: {{{kind}: {{{SIZES}}}}}, Issuer: {{ecdsa: {{MinKeySize: 256, MaxKeySize: 521}}}}");
        certificate(&format!("KeyConstraints: {{{sizes}}}, KeyUsage: [{usages}]"))
    };
    // RFC 9881 section 5.
    let signing = "digitalSignature, contentCommitment, nonRepudiation, keyCertSign, cRLSign";
    assert_eq!(one(&file("ml-dsa", signing)).certificate.unwrap().key_usage, KeyUsage(0b110_0011));
    assert_eq!(one(&file("ml-dsa", "")).certificate.unwrap().key_usage, KeyUsage(0));
    for usage in ["keyEncipherment", "dataEncipherment", "keyAgreement", "encipherOnly", "decipherOnly"] {
        for usages in [usage.to_owned(), format!("digitalSignature, {usage}")] {
            let want = format!(
                "line 1: profile \"A\": API.SignCertificate.KeyUsage: {usage} is not for ML-DSA keys (RFC 9881 section 5), \
                 which KeyConstraints.Subject allows"
            );
            assert_eq!(told(&file("ml-dsa", &usages)), want);
        }
        assert!(strict(&file("ecdsa", usage)).is_ok(), "{usage} of another kind of key");
    }
}

#[test]
fn a_path_length_is_at_most_127() {
    let file = |length: &str| certificate(&format!("BasicConstraints: {{CA: true, PathLenConstraint: {length}}}"));
    for length in [0, 1, 127] {
        let policy = one(&file(&length.to_string())).certificate.unwrap();
        assert_eq!((policy.is_ca, policy.path_length), (true, Some(length)));
    }
    for length in ["128", "129", "-1", "4294967296"] {
        assert!(told(&file(length)).contains(&format!("PathLenConstraint: {length} is not from 0 to 127")));
    }
}

#[test]
fn an_oid_has_its_first_two_numbers_in_bounds() {
    let file = |oid: &str| certificate(&format!("CopyExtensions: ['{oid}']"));
    // X.660: below 0 and 1 there are 40 numbers each.
    for oid in ["0.0", "0.39", "1.39.1", "2.40", "2.65535.1", "1.3.4294967295"] {
        assert_eq!(one(&file(oid)).certificate.unwrap().copies_extensions, [oid]);
    }
    for oid in
        ["0.40", "1.40", "2.65536", "3.1", "1", "1.", ".1", "1.3.4294967296", "1.03", "1.+3", "1.-3", "1. 3", "x.1"]
    {
        assert!(told(&file(oid)).contains("expected an OID such as"), "{oid}");
    }
}

#[test]
fn a_validity_may_end_when_it_begins_and_not_before() {
    let file = |before: &str, after: &str| {
        certificate(&format!("Validity: {{ValidNotBeforeOffset: {before}, ValidNotAfterOffset: {after}}}"))
    };
    let policy = one(&file("1h", "60m")).certificate.unwrap();
    assert_eq!(policy.not_before, policy.not_after);
    assert!(told(&file("1h", "3599999999999ns")).contains("ValidNotAfterOffset: is before ValidNotBeforeOffset"));
}

#[test]
fn a_check_of_the_issuer_that_is_off_is_warned_of_and_one_that_is_on_is_not() {
    let checks = ["IsCA", "MaySign", "InDate", "PathLength", "NotBeyond", "OwnSignature"];
    for (at, check) in checks.into_iter().enumerate() {
        let file = |is_on: bool| strict(&certificate(&format!("IssuerChecks: {{{check}: {is_on}}}"))).unwrap();
        let on = file(true);
        assert_eq!(on.warnings(), []);
        assert_eq!(on.get("A").unwrap().certificate.as_ref().unwrap().checks, IssuerChecks::default());
        let off = file(false);
        let want = format!("line 1: profile \"A\": API.SignCertificate.IssuerChecks.{check}: switched off");
        assert_eq!(lines(off.warnings()), want);
        let found = off.get("A").unwrap().certificate.as_ref().unwrap().checks;
        let switches =
            [found.is_ca, found.may_sign, found.in_date, found.path_length, found.not_beyond, found.own_signature];
        let others = (0..6).map(|other| other != at).collect::<Vec<_>>();
        assert_eq!(switches[..], others, "{check}");
    }
}
