//! Compares our certificates with those of Go's crypto/x509 for the same request: byte for byte with the same serial
//! number, and the signature if it is deterministic.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealway_broker::certificate::Flavour;
use sealway_broker::profile::policy::{
    CertificatePolicy, CertificateSignature, KeyKind, KeyUsage, Purpose, SignatureHash, SkiHash,
};
use serde_json::{Value, json};

use crate::ground::{NOW, RequestParts, hours, policy};

struct Case {
    name: &'static str,
    asked: RequestParts,
    policy: CertificatePolicy,
}

fn cases() -> Vec<Case> {
    let urls = |list: &[&str]| list.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
    let case = |name, csr, ca, profile| Case { name, asked: RequestParts::new(csr, ca), policy: policy(profile) };
    let mut cases = vec![
        case("P-256 by P-384 with SHA-512", "p256", "p384", "Default"),
        case("RSA by RSA, the signature too", "rsa3072", "rsa4096", "KSA-MODERATE-2020"),
        case("RSA with 15380 bits by P-521", "rsa15380", "p521", "FIPS-140-3-256bit"),
        case("RSA with 8192 bits by P-384 with SHA-384", "rsa8192", "p384", "FIPS-140-3-192bit"),
        case("P-256 by RSA with SHA-256", "p256", "rsa4096", "FIPS-140-3-128bit"),
    ];
    let mut crl = case("two CRL points and another subject", "p384", "p384", "Default");
    crl.asked.crl_points = urls(&["http://example.com/crls/list1.crl", "https://example.com/crls/list2.crl"]);
    crl.asked.subject = Some("C=DE, ST=Berlin,L=Berlin,O=Zürich & Söhne,OU=a*b,CN=a=b, CN=it's (fine)?");
    cases.push(crl);
    for (name, length) in [("a CA without path length", None), ("a CA with path length 0", Some(0))] {
        let mut ca = case(name, "p521", "rsa4096", "KSA-MODERATE-2020");
        ca.policy.subject.ecdsa = policy("Default").subject.ecdsa;
        (ca.policy.is_ca, ca.policy.path_length, ca.policy.key_usage) = (true, length, KeyUsage(0b110_0000));
        ca.asked.crl_points = urls(&["http://example.com/list.crl"]);
        cases.push(ca);
    }
    let mut oldest = case("the oldest wire", "p256", "p521", "Default");
    oldest.asked.wire = Flavour::W0;
    cases.push(oldest);
    let mut bare = case("no key usage, no purpose", "p256", "p384", "Default");
    bare.policy.key_usage = KeyUsage(0);
    bare.policy.purposes.clear();
    cases.push(bare);
    let mut names = case("names that are copied", "san", "p384", "Default");
    names.policy.copies_san = true;
    names.asked.crl_points = urls(&["http://example.com/list.crl"]);
    cases.push(names);
    let mut full = case("every bit and purpose, past 2050", "p256", "p384", "Default");
    full.policy.key_usage = KeyUsage(0b1_1111_1111);
    full.policy.purposes = vec![Purpose::OcspSigning, Purpose::TimeStamping, Purpose::ServerAuth, Purpose::CodeSigning];
    full.policy.purposes.push(Purpose::EmailProtection);
    full.policy.not_after = hours(30 * 8760);
    full.policy.checks.not_beyond = false;
    cases.push(full);
    cases
}

/// Number of a purpose in Go's x509.ExtKeyUsage.
fn number(purpose: &Purpose) -> u32 {
    match purpose {
        Purpose::ServerAuth => 1,
        Purpose::ClientAuth => 2,
        Purpose::CodeSigning => 3,
        Purpose::EmailProtection => 4,
        Purpose::TimeStamping => 8,
        Purpose::OcspSigning => 9,
    }
}

fn told(case: &Case, algorithm: &str, serial: &str) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (asked, policy) = (&case.asked, &case.policy);
    json!({
        "CSR": text(&asked.csr), "CACert": text(&asked.ca_certificate), "CAKey": text(&asked.ca_key),
        "Serial": serial, "NotBefore": NOW - 3600, "NotAfter": NOW + policy.not_after.ns / 1_000_000_000,
        "KeyUsage": policy.key_usage.0, "Purposes": policy.purposes.iter().map(number).collect::<Vec<_>>(),
        "CRLPoints": asked.crl_points, "Algorithm": algorithm, "Subject": asked.subject.unwrap_or_default(),
        "IsCA": policy.is_ca, "PathLength": policy.path_length.map_or(-1, i64::from),
        "Oldest": asked.wire == Flavour::W0,
        "SKI": match policy.ski {
            SkiHash::Sha1 => "sha-1",
            SkiHash::Sha256 => "sha-256",
            SkiHash::Sha384 => "sha-384",
            SkiHash::Sha512 => "sha-512",
            _ => panic!("the program in Go knows no more"),
        },
        "CopiesNames": policy.copies_san,
    })
}

#[test]
fn certificates_are_those_of_go_byte_for_byte() {
    let cases = cases();
    let (mut ours, mut list) = (Vec::new(), Vec::new());
    for case in &cases {
        let issued = case.asked.issue(&case.policy).unwrap_or_else(|refusal| panic!("{}: {refusal}", case.name));
        let (_, certificate) = x509_parser::parse_x509_certificate(&issued.der).unwrap();
        let serial: String = certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect();
        list.push(told(case, &issued.algorithm, &serial));
        ours.push((case.policy.signature.kind(), issued.der));
    }
    let theirs = go(&Value::Array(list));
    assert_eq!(theirs.len(), ours.len());
    for ((case, (kind, ours)), theirs) in cases.iter().zip(&ours).zip(&theirs) {
        let whole = *kind == KeyKind::Rsa;
        let (ours, theirs) = (compared(ours, whole), compared(theirs, whole));
        assert_eq!(STANDARD.encode(ours), STANDARD.encode(theirs), "{}", case.name);
    }
    // The cases cover every signature digest, and both kinds of keys.
    let seen = |hash| {
        let both = [CertificateSignature::Rsa(hash), CertificateSignature::Ecdsa(hash)];
        cases.iter().any(|case| both.contains(&case.policy.signature))
    };
    assert!([SignatureHash::Sha256, SignatureHash::Sha384, SignatureHash::Sha512].into_iter().all(seen));
}

/// Returns the part to compare: the whole, or the signed part with its algorithm.
fn compared(der: &[u8], whole: bool) -> Vec<u8> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).unwrap();
    if whole { der.to_vec() } else { certificate.tbs_certificate.as_ref().to_vec() }
}

fn go(list: &Value) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/issue_by_go");
    let mut child = Command::new("go")
        .args(["run", "-buildvcs=false", "."])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("go runs: CONTRIBUTING.md says which");
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the program in Go failed");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| STANDARD.decode(line).unwrap()).collect()
}
