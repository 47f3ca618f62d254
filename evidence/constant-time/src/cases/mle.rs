//! Messages encrypted as card schemes do: JWE with shared keys, `ECDH-ES` and RSA, and the field-level form.

use std::sync::Arc;

use anyhow::{Context, ensure};
use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::seal::seal;
use sealway_proto::mle::{
    Alg, Class, Enc, Encoding, FieldSealer, Fle, FleNames, JoseProvider, KidSource, Message, OpenRandoms, Opening,
    OpeningKey, OpeningKeys, Place, Profile, SealRandoms, SealingKey, Side, Wrapper,
};
use sealway_proto::session::Fresh;

use super::{NOW_MS, Path};
use crate::memcheck::{declare, secret, secret_of};
use crate::seam::Jose;

pub(super) const PATHS: &[Path] = &[
    Path::of_one("mle-direct-gcm", |_| shared(Alg::Dir, Enc::A256Gcm)),
    Path::of_one("mle-direct-cbc-hmac", |_| shared(Alg::Dir, Enc::A128CbcHs256)).in_short("aws-lc"),
    Path::of_one("mle-aes-key-wrap", |_| shared(Alg::A256Kw, Enc::A256CbcHs512)),
    Path::of_one("mle-ecdh-es", |_| ecdh_es()),
    Path::of_one("mle-rsa", |_| rsa()),
    Path::of_one("mle-field-level", |_| field_level()),
];

const TEXT: &[u8] = br#"{"card":"4111111111111111"}"#;
const KID: &str = "key-1";
const OPENED: &str = "plaintext behind a verified tag: it is the caller's";
const FIELD: &str = "plaintext of the field-level form, which has no tag: it is the caller's";
/// The start of a SubjectPublicKeyInfo on P-256, up to the point.
const SPKI_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

fn provider() -> Jose {
    Jose(AwsLcJose::new(|key, nonce, aad, data, tag| sealway_awslc::aes_gcm_open(key, nonce, aad, data, tag).is_ok()))
}

fn profile() -> Profile {
    let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
    Profile::generic(side.clone(), side, None)
}

fn randoms() -> SealRandoms {
    SealRandoms::from_bytes(secret([0x45; 64]), [9; 16])
}

/// Seals a token, opens it, and opens it again with another tag.
fn round_trip(sealing: &SealingKey, opening: OpeningKey, provider: &dyn JoseProvider) -> anyhow::Result<()> {
    let profile = profile();
    let token = seal(&secret_of(TEXT), &profile, Message::Request, sealing, NOW_MS, randoms(), provider)?;
    let keys = OpeningKeys::new([Arc::new(opening)])?;
    let mut changed = token.clone().into_bytes();
    let last = changed.len() - 4;
    if let Some(byte) = changed.get_mut(last) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    for (token, is_right) in [(token.as_bytes(), true), (&changed, false)] {
        let opening = Opening::begin(token, &profile, Message::Request, &keys, NOW_MS)?;
        let cek = opening.wants().unwrap_here();
        let cek = cek.as_ref().map(|cek| cek.as_slice());
        let opened = opening.unwrapped(cek, &OpenRandoms::from_bytes(secret([0x46; 64])), provider);
        if !is_right {
            ensure!(opened.is_err_and(|refusal| refusal.class() == Class::Tag.as_str()), "a changed tag verifies");
            continue;
        }
        let opened = opened?;
        let fresh = Fresh::reserved(opened.claim());
        let text = opened.release(fresh)?.into_bytes()?;
        ensure!(declare(&text, OPENED) == TEXT, "another plaintext");
    }
    Ok(())
}

fn shared(alg: Alg, enc: Enc) -> anyhow::Result<()> {
    let provider = provider();
    let key = secret_of(&[0x44; 32]);
    let sealing = SealingKey::secret(alg, enc, &key, KID, &provider)?;
    round_trip(&sealing, OpeningKey::secret(alg, enc, &key, KID, &provider)?, &provider)
}

fn ecdh_es() -> anyhow::Result<()> {
    let (provider, kid) = (provider(), KidSource::Fixed(KID.to_owned()));
    let scalar = [0x47; 32];
    let point = provider.p256_private(&scalar)?.public_point();
    let sealing = SealingKey::p256(Enc::A256Gcm, &[&SPKI_HEAD[..], &point].concat(), &kid, &provider)?;
    // SEC 1 (RFC 5915) of a named curve. The seam marks the scalar when it is loaded.
    let head = [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    let curve = [0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let private = [&head[..], &scalar, &curve].concat();
    round_trip(&sealing, OpeningKey::p256(&private, None, &kid, &provider)?, &provider)
}

/// The keys of a vector: RSA private key and certificate, PEM.
fn rsa_keys() -> anyhow::Result<[String; 2]> {
    let path = "vectors/mle/mle-refused-generic-jwe-param-x5t-s256-of-another.json";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let vector: serde_json::Value = serde_json::from_str(&text)?;
    let pem = |name: &str| vector["key"][name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
    Ok([pem("private_key_pem")?, pem("certificate_pem")?])
}

/// The private operation is the library's, with a key that is not marked: it blinds. What it unwraps is marked.
fn rsa() -> anyhow::Result<()> {
    let (provider, kid) = (provider(), KidSource::Fixed(KID.to_owned()));
    let [private, certificate] = rsa_keys()?;
    let sealing = SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, certificate.as_bytes(), &kid, &provider)?;
    let opening = OpeningKey::rsa(Alg::RsaOaep256, private.as_bytes(), None, &kid, &provider)?;
    round_trip(&sealing, opening, &provider)
}

/// A value that opens, and one whose padding is wrong.
fn field_level() -> anyhow::Result<()> {
    let (provider, kid) = (provider(), KidSource::Fixed(KID.to_owned()));
    let names = FleNames {
        value: "value".into(),
        iv: "iv".into(),
        encrypted_key: "key".into(),
        digest: None,
        key_fingerprint: None,
        certificate_fingerprint: None,
    };
    let profile = Profile::mastercard_field_level(Fle::new(Place::Headers, Encoding::Hex, names)?);
    let [private, certificate] = rsa_keys()?;
    let sealing = SealingKey::rsa(Alg::RsaOaep256, Enc::A128CbcHs256, certificate.as_bytes(), &kid, &provider);
    let sealing = match sealing {
        Ok(key) if profile.allows(Message::Request, key.algorithms().0, key.algorithms().1) => key,
        _ => SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, certificate.as_bytes(), &kid, &provider)?,
    };
    let opening = OpeningKey::rsa(Alg::RsaOaep256, private.as_bytes(), None, &kid, &provider)?;
    let keys = OpeningKeys::new([Arc::new(opening)])?;
    let sealer = FieldSealer::new(&profile, Message::Request, &sealing, randoms(), &provider)?;
    let value = sealer.seal(&secret_of(TEXT))?.value;
    let headers = sealer.into_headers();
    let fle = profile.fle().context("the profile has no field-level form")?;
    let metadata =
        fle.read(|name| Ok(headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str().into())))?;
    let mut changed = value.clone().into_bytes();
    if let Some(byte) = changed.last_mut() {
        *byte = if *byte == b'0' { b'1' } else { b'0' };
    }
    for (value, is_right) in [(value.as_bytes(), true), (&changed, false)] {
        let opening = Opening::begin_field(value, &metadata, &profile, Message::Request, &keys, NOW_MS)?;
        let cek = opening.wants().unwrap_here();
        let cek = cek.as_ref().map(|cek| cek.as_slice());
        let opened = opening.unwrapped(cek, &OpenRandoms::from_bytes(secret([0x46; 64])), &provider)?;
        let fresh = Fresh::reserved(opened.claim());
        let text = opened.release(fresh)?.into_bytes();
        if is_right {
            let text = text?;
            ensure!(declare(&text, FIELD) == TEXT, "another plaintext");
        } else {
            // A block of noise ends in a right padding once in 256 times, and this one does not.
            ensure!(text.is_err(), "a changed value has a right padding");
        }
    }
    Ok(())
}
