//! Key material in each of its forms, and what is wrong with it.

use std::sync::Arc;

use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::{Alg, Enc, KeyError, KidSource, OpeningKey, OpeningKeys, Public, SealingKey};

use crate::setup::{OTHER, OWN, certificate, openssl, provider, rsa_pem};

const KID: KidSource = KidSource::SpkiSha256Hex;

fn opening(private: &[u8]) -> Result<OpeningKey, KeyError> {
    OpeningKey::rsa(Alg::RsaOaep256, private, None, &KID, provider())
}

fn sealing(public: &[u8]) -> Result<SealingKey, KeyError> {
    SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, public, &KID, provider())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    openssl(&["dgst", "-sha256", "-binary"], bytes)
}

fn spki() -> Vec<u8> {
    OWN.spki.clone()
}

#[test]
fn a_private_key_loads_in_each_form() {
    let own = &OWN.private;
    let pkcs1 = openssl(&["rsa", "-traditional"], own);
    assert!(String::from_utf8_lossy(&pkcs1).contains("BEGIN RSA PRIVATE KEY"));
    let forms = [
        own.clone(),
        openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], own),
        pkcs1.clone(),
        openssl(&["rsa", "-traditional", "-outform", "DER"], own),
        [b"Bag Attributes\r\n", own.as_slice(), &OWN.certificate].concat(),
        String::from_utf8(own.clone()).unwrap().replace('\n', "\r\n").into_bytes(),
    ];
    let expected = hex(&sha256(&spki()));
    for (number, form) in forms.iter().enumerate() {
        assert_eq!(opening(form).map(|key| key.kid().to_owned()).as_deref(), Ok(expected.as_str()), "form {number}");
    }
}

#[test]
fn a_public_key_loads_in_each_form() {
    let expected = hex(&sha256(&spki()));
    let forms = [
        OWN.certificate.clone(),
        openssl(&["x509", "-outform", "DER"], &OWN.certificate),
        openssl(&["pkey", "-pubout"], &OWN.private),
        spki(),
    ];
    for (number, form) in forms.iter().enumerate() {
        assert_eq!(sealing(form).map(|key| key.kid().to_owned()).as_deref(), Ok(expected.as_str()), "form {number}");
    }
    let key = sealing(&OWN.certificate).unwrap();
    let facts = key.public().and_then(Public::x509).unwrap();
    assert_eq!(facts.not_after_s() - facts.not_before_s(), 30 * 86_400);
    assert!(sealing(&spki()).unwrap().public().unwrap().x509().is_none());
}

#[test]
fn each_defect_of_a_private_key_is_named() {
    let own = &OWN.private;
    let ec = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], b"");
    let pss = openssl(&["genpkey", "-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"], b"");
    let encrypted = openssl(&["pkcs8", "-topk8", "-passout", "pass:secret", "-v2", "aes-256-cbc"], own);
    let old = openssl(&["rsa", "-traditional", "-aes128", "-passout", "pass:secret"], own);
    for (name, bytes, expected) in [
        ("nothing", vec![], KeyError::Length),
        ("too long", vec![b'x'; 70_000], KeyError::Length),
        ("text", b"no key here".to_vec(), KeyError::Absent),
        ("1024 bits", rsa_pem(1024), KeyError::Bits(1024)),
        ("1024 bits, PKCS#1", openssl(&["rsa", "-traditional"], &rsa_pem(1024)), KeyError::Bits(1024)),
        ("an EC key", ec.clone(), KeyError::Kind),
        ("an EC key, SEC1", openssl(&["ec"], &ec), KeyError::Kind),
        ("a key for PSS", pss, KeyError::Kind),
        ("an encrypted key", encrypted, KeyError::Encrypted),
        ("an encrypted key, old", old, KeyError::Encrypted),
        ("a certificate", OWN.certificate.clone(), KeyError::PublicInPlaceOfPrivate),
        (
            "a certificate in DER",
            openssl(&["x509", "-outform", "DER"], &OWN.certificate),
            KeyError::PublicInPlaceOfPrivate,
        ),
        ("a public key", spki(), KeyError::PublicInPlaceOfPrivate),
        ("two keys", [own.as_slice(), &OTHER.private].concat(), KeyError::Ambiguous("PRIVATE KEY")),
        ("a block without end", own[..own.len() - 30].to_vec(), KeyError::Pem),
        (
            "broken base64",
            String::from_utf8(own.clone()).unwrap().replacen("MII", "M*I", 1).into_bytes(),
            KeyError::Pem,
        ),
        ("DER of something else", b"0\x03\x02\x01\x07".to_vec(), KeyError::Der),
    ] {
        assert_eq!(opening(&bytes).err(), Some(expected), "{name}");
    }
    let other = OpeningKey::rsa(Alg::RsaOaep256, own, Some(&OTHER.certificate), &KID, provider());
    assert_eq!(other.err(), Some(KeyError::Mismatch));
    let other = OpeningKey::rsa(Alg::A256Kw, own, None, &KID, provider());
    assert_eq!(other.err(), Some(KeyError::Algorithm(Alg::A256Kw)));
}

#[test]
fn each_defect_of_a_public_key_is_named() {
    let ec = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], b"");
    for (name, bytes, expected) in [
        ("a private key", OWN.private.clone(), KeyError::PrivateInPlaceOfPublic),
        (
            "a private key beside the certificate",
            [OWN.certificate.as_slice(), &OWN.private].concat(),
            KeyError::PrivateInPlaceOfPublic,
        ),
        (
            "a private key in DER",
            openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &OWN.private),
            KeyError::PrivateInPlaceOfPublic,
        ),
        (
            "a PKCS#1 private key in DER",
            openssl(&["rsa", "-traditional", "-outform", "DER"], &OWN.private),
            KeyError::PrivateInPlaceOfPublic,
        ),
        (
            "an encrypted private key",
            openssl(&["pkcs8", "-topk8", "-passout", "pass:secret"], &OWN.private),
            KeyError::PrivateInPlaceOfPublic,
        ),
        (
            "two certificates",
            [OWN.certificate.as_slice(), &OTHER.certificate].concat(),
            KeyError::Ambiguous("CERTIFICATE"),
        ),
        ("1024 bits", certificate(&rsa_pem(1024), "/CN=small"), KeyError::Bits(1024)),
        ("an EC certificate", certificate(&ec, "/CN=ec"), KeyError::Kind),
        ("bytes behind it", [spki().as_slice(), &[0]].concat(), KeyError::Der),
        ("text", b"no key here".to_vec(), KeyError::Absent),
        ("no key in PEM", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n".to_vec(), KeyError::Absent),
    ] {
        assert_eq!(sealing(&bytes).err(), Some(expected), "{name}");
    }
}

#[test]
fn every_cut_of_a_key_is_rejected() {
    let pkcs8 = openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &OWN.private);
    let certificate = openssl(&["x509", "-outform", "DER"], &OWN.certificate);
    for len in 0..pkcs8.len() {
        assert!(opening(&pkcs8[..len]).is_err(), "{len}");
    }
    for len in 0..certificate.len() {
        assert!(sealing(&certificate[..len]).is_err(), "{len}");
    }
}

#[test]
fn kids_are_derived_as_each_scheme_does() {
    let public = Public::load(&OWN.certificate).unwrap();
    let der = openssl(&["x509", "-outform", "DER"], &OWN.certificate);
    let text = |args: &[&str], input: &[u8]| String::from_utf8(openssl(args, input)).unwrap().trim().to_owned();
    let base64 = text(&["base64", "-A"], &sha256(&der));
    let base64url = base64.replace('+', "-").replace('/', "_").replace('=', "");
    for (source, expected) in [
        (KidSource::Fixed("2c2ac2da".into()), "2c2ac2da".to_owned()),
        (KidSource::SpkiSha256Hex, hex(&sha256(&spki()))),
        (KidSource::CertificateSha256Hex, hex(&sha256(&der))),
        (KidSource::CertificateSha256Base64, base64),
        (KidSource::X5tS256, base64url),
        (KidSource::SubjectSerialNumber, "16549".to_owned()),
    ] {
        assert_eq!(source.derive(&public, &AwsLc), Ok(expected), "{source:?}");
    }
    let bare = Public::load(&spki()).unwrap();
    for source in [KidSource::CertificateSha256Hex, KidSource::X5tS256, KidSource::SubjectSerialNumber] {
        assert_eq!(source.derive(&bare, &AwsLc), Err(KeyError::CertificateAbsent), "{source:?}");
    }
    let without = Public::load(&OTHER.certificate).unwrap();
    assert_eq!(KidSource::SubjectSerialNumber.derive(&without, &AwsLc), Err(KeyError::SerialNumber));
    for kid in [String::new(), "k".repeat(257)] {
        assert_eq!(KidSource::Fixed(kid).derive(&bare, &AwsLc), Err(KeyError::Kid));
    }
}

#[test]
fn a_set_has_no_two_keys_of_one_name_and_shared_keys_have_their_lengths() {
    let key = || Arc::new(opening(&OWN.private).unwrap());
    assert!(matches!(OpeningKeys::new([key(), key()]), Err(KeyError::KidTwice(_))));
    assert_eq!(OpeningKey::direct(Enc::A256Gcm, &[0; 16], "k").err(), Some(KeyError::SharedLength(16, 32)));
    assert_eq!(OpeningKey::direct(Enc::A256Gcm, &[], "k").err(), Some(KeyError::SharedLength(0, 32)));
    let wrap = OpeningKey::aes_wrap(Alg::A128Kw, &[0; 32], "k", provider());
    assert_eq!(wrap.err(), Some(KeyError::SharedLength(32, 16)));
    let wrap = OpeningKey::aes_wrap(Alg::RsaOaep256, &[0; 32], "k", provider());
    assert_eq!(wrap.err(), Some(KeyError::Algorithm(Alg::RsaOaep256)));
    assert_eq!(SealingKey::direct(Enc::A128Gcm, &[0; 16], "").err(), Some(KeyError::Kid));
}

#[test]
fn an_external_key_wants_its_operation_from_the_caller() {
    let key = OpeningKey::external(Alg::RsaOaep256, &OWN.certificate, &KID, provider()).unwrap();
    assert!(key.is_external());
    assert!(key.unwrap_key(&[0; 256]).is_none());
    assert_eq!(key.kid(), opening(&OWN.private).unwrap().kid());
}
