//! Certificates of and for ML-DSA keys (RFC 9881). Keys, requests and CA certificates are made, and certificates
//! verified, by another implementation: the OpenSSL of the Python package `cryptography`.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use sealway_awslc::{Kind, MlDsa, PrivateKey};
use sealway_broker::certificate::{Issuer, issue};
use sealway_broker::keys::{Algorithm, Kek, Store, StoreIssuer};
use sealway_broker::profile::policy::{CertificatePolicy, CertificateSignature, MlDsaAlgorithm};
use sealway_broker::profile::{Leniency, Profiles};
use tempfile::TempDir;

use crate::ground::{RequestParts, policy, read};
use crate::linters::{output, tool};

pub(crate) const SETS: [(&str, MlDsaAlgorithm); 3] =
    [("44", MlDsaAlgorithm::MlDsa44), ("65", MlDsaAlgorithm::MlDsa65), ("87", MlDsaAlgorithm::MlDsa87)];

fn peer(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ml_dsa.py");
    output(Command::new(tool("python")).arg(script).args(arguments), "")
}

/// Keys, requests and CA certificates, made once a process.
static MADE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    peer(&["make", folder.path().to_str().unwrap()]);
    folder
});

fn made(name: &str) -> Vec<u8> {
    std::fs::read(MADE.path().join(name)).unwrap()
}

fn der(pem: &[u8]) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(pem).unwrap().1.contents
}

fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    sealway_broker::certificate::encode_pem(label, der).into_bytes()
}

const PROFILE: &str = "\
- Name: A
  Settings: {CryptoLibrary: native}
  API:
    SignCertificate:
      SignAlg: ml-dsa-87
      SKIHashAlg: sha-384
      Validity: {ValidNotBeforeOffset: -1h, ValidNotAfterOffset: 720h}
      KeyUsage: [digitalSignature]
      ExtendedKeyUsage: [clientAuth]
      KeyConstraints:
        Subject:
          rsa: {MinKeySize: 3072, MaxKeySize: 8192}
          ecdsa: {MinKeySize: 256, MaxKeySize: 521}
          ml-dsa: {MinKeySize: 44, MaxKeySize: 87}
        Issuer:
          ml-dsa: {MinKeySize: 44, MaxKeySize: 87}
";

fn parsed(signature: &str) -> Result<CertificatePolicy, String> {
    let text = PROFILE.replace("SignAlg: ml-dsa-87", signature);
    let profiles =
        Profiles::parse(&text, Leniency::Strict).map_err(|problems| sealway_broker::profile::lines(&problems))?;
    Ok(profiles.get("A").unwrap().certificate.clone().unwrap())
}

/// A request of an ML-DSA CA for a shipped CSR, or for one of an ML-DSA key.
fn parts(csr: &str, ca: &str) -> RequestParts {
    let csr = if SETS.iter().any(|(name, _)| *name == csr) {
        made(&format!("{csr}-csr.pem"))
    } else {
        read(&format!("csr/{csr}.pem"))
    };
    let mut parts = RequestParts::new("p256", "p384");
    parts.csr = csr;
    if SETS.iter().any(|(name, _)| *name == ca) {
        parts.ca_certificate = made(&format!("{ca}-ca.pem"));
        parts.ca_key = made(&format!("{ca}-key.pem"));
    } else {
        parts.ca_certificate = read(&format!("ca/{ca}.pem"));
        parts.ca_key = read(&format!("ca/{ca}-key.pem"));
    }
    parts
}

/// Certificates of every pair of a CA and a request in which one has an ML-DSA key: CA, request, PEM.
pub(crate) fn certificates() -> Vec<(&'static str, String, String)> {
    let mut issued = Vec::new();
    for (ca, _) in SETS {
        let policy = parsed(&format!("SignAlg: ml-dsa-{ca}")).unwrap();
        for csr in ["44", "65", "87", "p256", "p384", "p521", "rsa3072"] {
            issued.push((ca, csr.to_owned(), parts(csr, ca).issue(&policy).unwrap().pem()));
        }
    }
    for (ca, signature) in [("p384", "SignAlg: ecdsa, HashAlg: sha-384"), ("p521", "SignAlg: ecdsa, HashAlg: sha-512")]
    {
        let mut policy = parsed(&signature.replace(", ", "\n      ")).unwrap();
        policy.issuer = crate::ground::policy("Default").issuer;
        for (csr, _) in SETS {
            issued.push((ca, csr.to_owned(), parts(csr, ca).issue(&policy).unwrap().pem()));
        }
    }
    issued
}

#[test]
fn another_implementation_verifies_every_certificate_of_and_for_ml_dsa_keys() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates();
    for (ca, ca_file, oid) in [
        ("p384", crate::ground::data("ca/p384.pem"), "1.2.840.10045.4.3.3"),
        ("p521", crate::ground::data("ca/p521.pem"), "1.2.840.10045.4.3.4"),
        ("44", MADE.path().join("44-ca.pem"), "2.16.840.1.101.3.4.3.17"),
        ("65", MADE.path().join("65-ca.pem"), "2.16.840.1.101.3.4.3.18"),
        ("87", MADE.path().join("87-ca.pem"), "2.16.840.1.101.3.4.3.19"),
    ] {
        let (mut arguments, mut expected) = (vec!["verify".to_owned(), ca_file.display().to_string()], String::new());
        for (index, (_, csr, pem)) in certificates.iter().filter(|(by, ..)| *by == ca).enumerate() {
            let file = folder.path().join(format!("{ca}-{index}.pem"));
            std::fs::write(&file, pem).unwrap();
            arguments.push(file.display().to_string());
            let kind = match csr.as_str() {
                "44" => "MLDSA44PublicKey",
                "65" => "MLDSA65PublicKey",
                "87" => "MLDSA87PublicKey",
                "rsa3072" => "RSAPublicKey",
                _ => "ECPublicKey",
            };
            expected.push_str(&format!("{oid} {kind} v3\n"));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(peer(&arguments), expected, "CA {ca}");
    }
}

#[test]
fn a_key_is_read_with_its_seed_its_expanded_form_and_both_if_they_belong_together() {
    use aws_lc_rs::encoding::AsRawBytes;
    use aws_lc_rs::signature::{ML_DSA_44_SIGNING, ML_DSA_65_SIGNING, ML_DSA_87_SIGNING, PqdsaKeyPair};
    let libraries = [&ML_DSA_44_SIGNING, &ML_DSA_65_SIGNING, &ML_DSA_87_SIGNING];
    let kinds = [MlDsa::MlDsa44, MlDsa::MlDsa65, MlDsa::MlDsa87];
    for (((name, _), library), kind) in SETS.into_iter().zip(libraries).zip(kinds) {
        let alone = der(&made(&format!("{name}-key.pem")));
        // RFC 9881 section 6: version, AlgorithmIdentifier, and an OCTET STRING with the choice.
        let (head, choice) = (&alone[2..18], &alone[18..]);
        assert_eq!(choice[..4], [0x04, 0x22, 0x80, 0x20], "{name}: the seed alone");
        let seed = &choice[4..];
        let pair = PqdsaKeyPair::from_pkcs8(library, &alone).unwrap();
        let raw = pair.private_key().as_raw_bytes().unwrap();
        let element = |tag: u8, content: &[u8]| {
            let [.., high, low] = content.len().to_be_bytes();
            [&[tag, 0x82, high, low], content].concat()
        };
        let whole = |choice: &[u8]| element(0x30, &[head, &element(0x04, choice)].concat());
        let octets = |content: &[u8]| element(0x04, content);
        let short_seed = [&[0x04, 0x20], seed].concat();
        let expanded = whole(&octets(raw.as_ref()));
        let both = whole(&element(0x30, &[short_seed.as_slice(), &octets(raw.as_ref())].concat()));
        let mut other_seed = short_seed.clone();
        other_seed[5] ^= 1;
        let unlike = whole(&element(0x30, &[other_seed.as_slice(), &octets(raw.as_ref())].concat()));
        let spki = PrivateKey::from_pkcs8(&alone).unwrap().public_spki().unwrap();
        for form in [&alone, &expanded, &both] {
            let key = PrivateKey::from_pkcs8(form).unwrap_or_else(|err| panic!("{name}: {} bytes: {err}", form.len()));
            assert_eq!((key.kind(), key.public_spki().unwrap()), (Kind::MlDsa(kind), spki.clone()), "{name}");
            let mut asked = parts("p384", name);
            asked.ca_key = pem("PRIVATE KEY", form);
            asked.issue(&parsed(&format!("SignAlg: ml-dsa-{name}")).unwrap()).unwrap();
        }
        assert!(PrivateKey::from_pkcs8(&unlike).is_err(), "{name}: the seed is another key's");
        assert!(PrivateKey::from_pkcs8(&both[..both.len() - 1]).is_err(), "{name}");
    }
}

#[test]
fn a_key_of_the_store_issues_and_the_current_version_need_not_be_that_of_the_certificate() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&place.path().join("keys"), Kek::random().unwrap()).unwrap();
    for (name, _) in SETS {
        let id = format!("ml-dsa-{name}");
        let algorithm = Algorithm::parse(&id).unwrap();
        store.import(&id, algorithm, &made(&format!("{name}-key.pem")), 1).unwrap();
        store.rotate(&id, &[], 2).unwrap();
        let asked = parts("65", name);
        let issuing = StoreIssuer::new(store.get(&id).unwrap(), &asked.ca_certificate).unwrap();
        assert_eq!(issuing.version(), 1);
        let mut request = asked.request();
        request.issuer = Issuer::Key(&issuing);
        let issued = issue(&parsed(&format!("SignAlg: {id}")).unwrap(), &request).unwrap();
        assert_eq!(issued.algorithm, format!("id-{id}"));
        let file = place.path().join("issued.pem");
        std::fs::write(&file, issued.pem()).unwrap();
        let ca = MADE.path().join(format!("{name}-ca.pem"));
        peer(&["verify", ca.to_str().unwrap(), file.to_str().unwrap()]);
    }
}

#[test]
fn a_request_that_its_key_did_not_sign_is_refused() {
    for (name, _) in SETS {
        let mut asked = parts(name, "87");
        let mut changed = der(&asked.csr);
        let last = changed.len() - 1;
        changed[last] ^= 1;
        asked.csr = pem("CERTIFICATE REQUEST", &changed);
        let said = asked.refused(&parsed("SignAlg: ml-dsa-87").unwrap());
        assert!(said.ends_with("invalid certificate request signature, err: ML-DSA verification failure"), "{said}");
    }
}

#[test]
fn parameters_of_an_identifier_are_absent_and_not_null() {
    let mut asked = parts("44", "87");
    let request = der(&asked.csr);
    // The identifier of the signature, with NULL behind it; the lengths around it grow by two.
    let identifier = b"\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x11";
    let at = request.windows(identifier.len()).rposition(|window| window == identifier).unwrap();
    let mut changed = request.clone();
    changed.splice(at + identifier.len()..at + identifier.len(), [0x05, 0x00]);
    changed[at + 1] += 2;
    let len = u16::from_be_bytes([changed[2], changed[3]]) + 2;
    changed[2..4].copy_from_slice(&len.to_be_bytes());
    asked.csr = pem("CERTIFICATE REQUEST", &changed);
    let said = asked.refused(&parsed("SignAlg: ml-dsa-87").unwrap());
    assert!(said.ends_with("malformed signature algorithm"), "{said}");
}

#[test]
fn a_key_of_a_kem_is_refused_by_name_as_it_signs_no_request() {
    let mut asked = parts("44", "87");
    let request = der(&asked.csr);
    // Another identifier of the key: 2.16.840.1.101.3.4.4.3, ML-KEM-1024. The key is not looked at.
    let identifier = b"\x60\x86\x48\x01\x65\x03\x04\x03\x11";
    let at = request.windows(identifier.len()).position(|window| window == identifier).unwrap();
    let mut changed = request;
    changed[at + 7..at + 9].copy_from_slice(&[4, 3]);
    asked.csr = pem("CERTIFICATE REQUEST", &changed);
    let said = asked.refused(&parsed("SignAlg: ml-dsa-87").unwrap());
    assert!(
        said.ends_with("unsupported signature algorithm (public key) of type ml-kem, which signs no request"),
        "{said}"
    );
}

#[test]
fn only_the_profiles_parameter_sets_are_certified_and_issue() {
    let with = |signature: &str, subject: &str| {
        let text = PROFILE.replace("SignAlg: ml-dsa-87", signature).replacen(
            "ml-dsa: {MinKeySize: 44, MaxKeySize: 87}",
            subject,
            1,
        );
        let profiles = Profiles::parse(&text, Leniency::Strict).unwrap();
        profiles.get("A").unwrap().certificate.clone().unwrap()
    };
    let large = with("SignAlg: ml-dsa-87", "ml-dsa: {MinKeySize: 87, MaxKeySize: 87}");
    parts("87", "87").issue(&large).unwrap();
    let said = parts("65", "87").refused(&large);
    assert!(said.ends_with("expected public key to be at least 87 size, got: 65"), "{said}");
    let said = parts("87", "65").refused(&large);
    assert!(said.ends_with("requested SignatureAlgorithm does not match private key type"), "{said}");
    // A profile without a word on ML-DSA certifies no such key, as before.
    let said = parts("87", "p384").refused(&policy("Default"));
    assert!(said.ends_with("missing key constraints for 'ml-dsa' algorithm"), "{said}");
}

#[test]
fn a_profile_for_ml_dsa_has_no_digest_and_no_usage_of_encryption() {
    let said = parsed("SignAlg: ml-dsa-65\n      HashAlg: sha-256").unwrap_err();
    assert_eq!(said, "line 6: profile \"A\": API.SignCertificate.HashAlg: this SignAlg has none");
    for usage in ["keyEncipherment", "dataEncipherment", "keyAgreement", "encipherOnly", "decipherOnly"] {
        let text = PROFILE.replace("[digitalSignature]", &format!("[digitalSignature, {usage}]"));
        let said = sealway_broker::profile::lines(&Profiles::parse(&text, Leniency::Strict).unwrap_err());
        let wanted = "line 8: profile \"A\": API.SignCertificate.KeyUsage: ";
        assert!(said.starts_with(wanted) && said.contains(&format!("{usage} is not for ML-DSA keys")), "{said}");
    }
    assert!(matches!(
        parsed("SignAlg: ml-dsa-44").unwrap().signature,
        CertificateSignature::MlDsa(MlDsaAlgorithm::MlDsa44)
    ));
}
