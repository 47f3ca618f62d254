//! `broker-csr`: certification requests, under a profile that lets through as much as a profile can.

use sealway_awslc::{Hash, PublicKey, Scheme};
use sealway_broker::Code;
use sealway_broker::certificate::{Bound, Flavour, Issuer, Request, issue};
use sealway_broker::profile::policy::{
    CertificatePolicy, IssuerChecks, KeyConstraints, KeyKind, KeyUsage, Offset, Purpose, SignatureHash, SizeRange,
    SkiHash,
};
use sealway_runtime::tls::PeerCertificate;

/// The broker's test CA, in PEM.
pub(crate) const CA: &[u8] = include_bytes!("../../crates/broker/tests/data/ca/p384.pem");
const CA_KEY: &[u8] = include_bytes!("../../crates/broker/tests/data/ca/p384-key.pem");
/// A request that is issued for.
pub(crate) const CSR: &[u8] = include_bytes!("../../crates/broker/tests/data/csr/p256.pem");
const HOUR_NS: i64 = 3_600_000_000_000;

/// Keys of all sizes, and everything of a request that may be copied.
pub(crate) fn policy() -> CertificatePolicy {
    let all = Some(SizeRange { min: 1, max: 16384 });
    CertificatePolicy {
        key_kind: KeyKind::Ecdsa,
        hash: SignatureHash::Sha256,
        ski: SkiHash::Sha256,
        not_before: Offset { ns: -HOUR_NS },
        not_after: Offset { ns: 24 * HOUR_NS },
        subject: KeyConstraints { rsa: all, ecdsa: all },
        issuer: KeyConstraints { rsa: None, ecdsa: all },
        key_usage: KeyUsage(1),
        purposes: vec![Purpose::ClientAuth],
        is_ca: false,
        path_length: None,
        copies_san: true,
        copies_extensions: vec!["1.3.6.1.5.5.7.1.24".to_owned(), "2.5.29.19".to_owned()],
        checks: IssuerChecks::default(),
    }
}

/// A request of the broker's own wire, in November 2026.
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

/// The target. The same bytes are tried as a request, and as the CA's certificate.
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

/// What every issued certificate holds: another parser reads it, and the CA's key has signed it.
fn holds(der: &[u8]) {
    let peer = PeerCertificate::parse(vec![der.to_vec().into()]).expect("another reader takes it");
    assert!(!peer.issuer.is_empty());
    let (tbs, signature) = parts(der);
    let ca = PublicKey::from_spki(&ca_spki()).expect("the CA's key");
    assert!(ca.verify(Scheme::Ecdsa(Hash::Sha256), tbs, signature).is_ok(), "the CA has signed it");
    // BasicConstraints are the profile's, though the request may ask for others: CA:FALSE, once.
    let basic = b"\x06\x03\x55\x1d\x13\x04\x02\x30\x00";
    assert_eq!(tbs.windows(5).filter(|window| *window == &basic[..5]).count(), 1, "one BasicConstraints");
    assert!(tbs.windows(basic.len()).any(|window| window == basic), "and it is no CA's");
}

/// What is signed, and the signature: the first of the certificate's elements and the last.
fn parts(der: &[u8]) -> (&[u8], &[u8]) {
    let (_, inside) = element(der);
    let (tbs_whole, _) = element(inside);
    let rest = &inside[tbs_whole.len()..];
    let (algorithm, _) = element(rest);
    let (_, bits) = element(&rest[algorithm.len()..]);
    (tbs_whole, &bits[1..])
}

/// The first element of these bytes, whole and its contents; they are known to be DER.
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

/// The public half of the CA's key.
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
