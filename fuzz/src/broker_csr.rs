//! `broker-csr`: certification requests under a profile that permits as much as a profile can.

use sealway_awslc::{Hash, PublicKey, Scheme};
use sealway_broker::Code;
use sealway_broker::certificate::{Bound, Flavour, Issuer, Request, issue};
use sealway_broker::profile::policy::{
    CertificatePolicy, CertificateSignature, IssuerChecks, KeyConstraints, KeyUsage, Offset, Purpose, SignatureHash,
    SizeRange, SkiHash,
};
use sealway_runtime::tls::PeerCertificate;

/// The broker's test CA, in PEM.
pub(crate) const CA: &[u8] = include_bytes!("../../crates/broker/tests/data/ca/p384.pem");
const CA_KEY: &[u8] = include_bytes!("../../crates/broker/tests/data/ca/p384-key.pem");
/// A certification request for which the broker issues a certificate.
pub(crate) const CSR: &[u8] = include_bytes!("../../crates/broker/tests/data/csr/p256.pem");
const HOUR_NS: i64 = 3_600_000_000_000;

/// A profile with keys of all sizes and every extension of a request that may be copied.
pub(crate) fn policy() -> CertificatePolicy {
    let all = Some(SizeRange { min: 1, max: 16384 });
    CertificatePolicy {
        signature: CertificateSignature::Ecdsa(SignatureHash::Sha256),
        ski: SkiHash::Sha256,
        not_before: Offset { ns: -HOUR_NS },
        not_after: Offset { ns: 24 * HOUR_NS },
        subject: KeyConstraints { rsa: all, ecdsa: all, ml_dsa: all },
        issuer: KeyConstraints { ecdsa: all, ..KeyConstraints::default() },
        key_usage: KeyUsage(1),
        purposes: vec![Purpose::ClientAuth],
        is_ca: false,
        path_length: None,
        copies_san: true,
        copies_extensions: vec!["1.3.6.1.5.5.7.1.24".to_owned(), "2.5.29.19".to_owned()],
        checks: IssuerChecks::default(),
    }
}

/// A request of the broker's own protocol, dated November 2026.
pub(crate) fn request<'a>(csr: &'a [u8], ca_certificate: &'a [u8]) -> Request<'a> {
    Request {
        csr,
        ca_certificate,
        issuer: Issuer::Pem(CA_KEY),
        not_before: Bound::Profile,
        not_after: Bound::Profile,
        subject: None,
        crl_points: &[],
        now_ms: 1_795_280_007_500,
        wire: Flavour::Ours,
    }
}

/// The fuzz target. It uses the same bytes as a certification request and as the CA's certificate.
pub fn broker_csr(data: &[u8]) {
    let policy = policy();
    match issue(&policy, &request(data, CA)) {
        Ok(issued) => holds(&issued.der),
        Err(refusal) => is_told(&refusal),
    }
    match issue(&policy, &request(CSR, data)) {
        Ok(issued) => holds(&issued.der),
        Err(refusal) => is_told(&refusal),
    }
}

fn is_told(refusal: &sealway_broker::Refusal) {
    assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
    assert!(refusal.text.len() < 300 && !refusal.text.contains('\n'), "{refusal}");
}

/// Checks an issued certificate: a second parser accepts it, and the signature of the CA's key verifies.
fn holds(der: &[u8]) {
    let peer = PeerCertificate::parse(vec![der.to_vec().into()]).expect("another reader takes it");
    assert!(!peer.issuer.is_empty());
    let (tbs, signature) = parts(der);
    let ca = PublicKey::from_spki(&ca_spki()).expect("the CA's key");
    assert!(ca.verify(Scheme::Ecdsa(Hash::Sha256), tbs, signature).is_ok(), "the CA has signed it");
    // BasicConstraints come from the profile, even if the request asks for others: CA:FALSE, exactly once.
    let basic = b"\x06\x03\x55\x1d\x13\x04\x02\x30\x00";
    assert_eq!(tbs.windows(5).filter(|window| *window == &basic[..5]).count(), 1, "one BasicConstraints");
    assert!(tbs.windows(basic.len()).any(|window| window == basic), "and it is no CA's");
}

/// Splits a certificate into its first element, which is signed, and its last element, the signature.
fn parts(der: &[u8]) -> (&[u8], &[u8]) {
    let (_, inside) = element(der);
    let (tbs_whole, _) = element(inside);
    let rest = &inside[tbs_whole.len()..];
    let (algorithm, _) = element(rest);
    let (_, bits) = element(&rest[algorithm.len()..]);
    (tbs_whole, &bits[1..])
}

/// Returns the first element of bytes known to be DER, as a whole and its contents.
fn element(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (header, len) = match usize::from(bytes[1]) {
        len @ 0..0x80 => (2, len),
        more => {
            let count = more & 0x7f;
            (2 + count, bytes[2..2 + count].iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
        }
    };
    (&bytes[..header + len], &bytes[header..header + len])
}

/// The public key of the CA, as SPKI.
fn ca_spki() -> Vec<u8> {
    use std::sync::LazyLock;
    static SPKI: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let text: String = String::from_utf8_lossy(CA_KEY).lines().filter(|line| !line.starts_with("--")).collect();
        let der = base64_of(&text);
        let key = sealway_awslc::PrivateKey::from_der(&der).expect("the committed key");
        key.public_spki().expect("its public half")
    });
    SPKI.clone()
}

fn base64_of(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
