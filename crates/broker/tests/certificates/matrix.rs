//! The matrix: every profile x every CA x every request is issued, or rejected with the expected text.

use crate::ground::{CAS, RequestParts, policy};
use sealway_broker::Code;
use sealway_broker::profile::policy::{CertificatePolicy, KeyKind};

pub(crate) const PROFILES: [&str; 6] = [
    "Default",
    "KSA-MODERATE-2020",
    "KSA-ADVANCED-2020",
    "FIPS-140-3-128bit",
    "FIPS-140-3-192bit",
    "FIPS-140-3-256bit",
];

/// A request: its name, its key or the error for its key, and the error for its signature.
type Facts = (&'static str, Result<(KeyKind, u32), &'static str>, Option<&'static str>);

const CURVE: &str =
    "error parsing request data: could not parse certificate request, err: x509: unsupported elliptic curve";
const POINT: &str = "error parsing request data: could not parse certificate request, err: x509: malformed public key";
const PARAMETERS: &str = "error parsing request data: could not parse certificate request, err: \
                          x509: failed to parse ECDSA parameters as named curve";
const ED25519: &str = "error while signing data: invalid public key, err: unsupported signature algorithm (public key) of type ed25519.PublicKey";
const RSA_WRONG: &str =
    "error while signing data: invalid certificate request signature, err: crypto/rsa: verification error";
const ECDSA_WRONG: &str =
    "error while signing data: invalid certificate request signature, err: x509: ECDSA verification failure";
const MD5: &str = "error while signing data: invalid certificate request signature, err: \
                   x509: cannot verify signature: insecure algorithm MD5-RSA";

use KeyKind::{Ecdsa, Rsa};

const REQUESTS: [Facts; 27] = [
    ("p224", Ok((Ecdsa, 224)), None),
    ("p256", Ok((Ecdsa, 256)), None),
    ("p384", Ok((Ecdsa, 384)), None),
    ("p521", Ok((Ecdsa, 521)), None),
    ("rsa1024", Ok((Rsa, 1024)), None),
    ("rsa2048", Ok((Rsa, 2048)), None),
    ("rsa3072", Ok((Rsa, 3072)), None),
    ("rsa4096", Ok((Rsa, 4096)), None),
    ("rsa8192", Ok((Rsa, 8192)), None),
    ("rsa15380", Ok((Rsa, 15380)), None),
    ("ed25519", Err(ED25519), None),
    ("secp256k1", Err(CURVE), None),
    ("brainpool", Err(CURVE), None),
    ("compressed", Err(POINT), None),
    ("explicit", Err(PARAMETERS), None),
    ("bad-p256", Ok((Ecdsa, 256)), Some(ECDSA_WRONG)),
    ("bad-p521", Ok((Ecdsa, 521)), Some(ECDSA_WRONG)),
    ("bad-rsa3072", Ok((Rsa, 3072)), Some(RSA_WRONG)),
    ("bad-rsa8192", Ok((Rsa, 8192)), Some(RSA_WRONG)),
    ("san", Ok((Ecdsa, 256)), None),
    ("san-p521", Ok((Ecdsa, 521)), None),
    ("san-rsa3072", Ok((Rsa, 3072)), None),
    ("sha1", Ok((Ecdsa, 256)), None),
    ("sha1-p521", Ok((Ecdsa, 521)), None),
    ("sha1-rsa3072", Ok((Rsa, 3072)), None),
    ("md5-rsa3072", Ok((Rsa, 3072)), Some(MD5)),
    ("pss-rsa3072", Ok((Rsa, 3072)), None),
];

fn name(kind: KeyKind) -> &'static str {
    kind.name()
}

/// Expected error of a cell by spec/broker.md; `None` if it is issued.
fn expected(policy: &CertificatePolicy, request: &Facts, ca: &str) -> Option<String> {
    let sides = [(&policy.subject, request.1, "public", "CSR's"), (&policy.issuer, Ok(ca_key(ca)), "private", "CA's")];
    for (allowed, key, half, whose) in sides {
        let (kind, size) = match key {
            Ok(key) => key,
            Err(text) => return Some(text.to_owned()),
        };
        let Some(range) = allowed.of(kind) else {
            return Some(format!(
                "error while signing data: profile does not contain key constraints for algorithm used in the {whose} {half} \
                 key, err: missing key constraints for '{}' algorithm",
                name(kind)
            ));
        };
        let bound = if size < range.min { Some(("least", range.min)) } else { None };
        if let Some((which, bound)) = bound.or_else(|| (size > range.max).then_some(("most", range.max))) {
            return Some(format!(
                "error while signing data: invalid {half} key, err: expected {half} key to be at {which} {bound} size, got: {size}"
            ));
        }
    }
    request.2.map(str::to_owned)
}

fn ca_key(ca: &str) -> (KeyKind, u32) {
    match ca {
        "rsa4096" => (Rsa, 4096),
        "p256" => (Ecdsa, 256),
        "p384" => (Ecdsa, 384),
        "p521" => (Ecdsa, 521),
        _ => panic!("{ca}"),
    }
}

/// A cell of the matrix with its certificate.
pub(crate) struct Cell {
    pub(crate) profile: &'static str,
    pub(crate) request: &'static str,
    pub(crate) ca: &'static str,
    pub(crate) der: Vec<u8>,
    pub(crate) pem: String,
}

/// Checks every cell of the matrix against the expectation. Returns the issued cells.
pub(crate) fn walk() -> Vec<Cell> {
    let mut cells = Vec::new();
    for profile in PROFILES {
        let policy = policy(profile);
        for ca in CAS {
            for facts in &REQUESTS {
                let place = format!("{profile}, {ca}, {}", facts.0);
                let outcome = RequestParts::new(facts.0, ca).issue(&policy);
                match (expected(&policy, facts, ca), outcome) {
                    (None, Ok(issued)) => {
                        let pem = issued.pem();
                        cells.push(Cell { profile, request: facts.0, ca, der: issued.der, pem });
                    }
                    (Some(text), Err(refusal)) => {
                        assert_eq!((refusal.code, refusal.text), (Code::InvalidArgument, text), "{place}");
                    }
                    (expected, outcome) => panic!("{place}: {expected:?}, but {outcome:?}"),
                }
            }
        }
    }
    cells
}

#[test]
fn every_cell_of_the_matrix_is_issued_or_refused_as_the_specification_says() {
    let cells = walk();
    let of = |profile: &str| cells.iter().filter(|cell| cell.profile == profile).count();
    // A profile that issues nothing would pass the matrix trivially.
    assert_eq!(PROFILES.map(of), [26, 10, 3, 10, 12, 4]);
    for cell in &cells {
        assert!(crate::ground::extension(&cell.der, "2.5.29.17").is_none(), "{}: a SAN was copied", cell.request);
    }
}
