//! A key handle issues the same certificates as the key itself.

use sealway_awslc::{Hash, PrivateKey, Scheme};
use sealway_broker::certificate::{Issuer, IssuerKey, issue};
use sealway_broker::profile::policy::{CertificateSignature, KeyKind, SignatureHash};
use sealway_broker::{Code, Refusal};

use crate::ground::{RequestParts, policy, read};

struct Handle {
    key: PrivateKey,
    size: u32,
    is_enabled: bool,
}

impl Handle {
    fn new(ca: &str, size: u32) -> Handle {
        let text = read(&format!("ca/{ca}-key.pem"));
        let (_, pem) = x509_parser::pem::parse_x509_pem(&text).unwrap();
        Handle { key: PrivateKey::from_der(&pem.contents).unwrap(), size, is_enabled: true }
    }
}

impl IssuerKey for Handle {
    fn kind(&self) -> KeyKind {
        KeyKind::Ecdsa
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn spki(&self) -> Vec<u8> {
        self.key.public_spki().unwrap()
    }

    fn sign(&self, signature: CertificateSignature, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        assert_eq!(signature, CertificateSignature::Ecdsa(SignatureHash::Sha512), "the profile's digest");
        if !self.is_enabled {
            return Err(Refusal::new(Code::FailedPrecondition, "key is disabled"));
        }
        Ok(self.key.sign(Scheme::Ecdsa(Hash::Sha512), message).unwrap())
    }
}

#[test]
fn a_handle_issues_a_certificate_that_the_ca_verifies() {
    let (asked, handle) = (RequestParts::new("p256", "p521"), Handle::new("p521", 521));
    let mut request = asked.request();
    request.issuer = Issuer::Key(&handle);
    let issued = issue(&policy("Default"), &request).unwrap();
    assert_eq!(issued.algorithm, "ecdsa-with-SHA512");
    crate::linters::verify_with_openssl("p521", &[issued.pem()]);
}

#[test]
fn a_handle_is_held_to_the_same_rules_and_its_own_refusal_is_passed_on() {
    let asked = RequestParts::new("p256", "p521");
    let issued = |handle: &Handle| {
        let mut request = asked.request();
        request.issuer = Issuer::Key(handle);
        issue(&policy("Default"), &request).unwrap_err()
    };
    let other = issued(&Handle::new("p384", 384));
    assert!(other.text.ends_with("x509: provided PrivateKey doesn't match parent's PublicKey"), "{other}");
    let small = issued(&Handle::new("p521", 256));
    assert!(small.text.ends_with("expected private key to be at least 384 size, got: 256"), "{small}");
    let disabled = issued(&Handle { is_enabled: false, ..Handle::new("p521", 521) });
    assert_eq!(disabled, Refusal::new(Code::FailedPrecondition, "key is disabled"));
}
