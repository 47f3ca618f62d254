//! Secrets that services compare: bearer tokens and shared secrets, and the broker's MACs and truncated tags.

use std::io;
use std::sync::Arc;

use anyhow::{Context, ensure};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sealway_broker::keys::{Algorithm, Backend, Kek, Key, Store};
use sealway_broker::operation::{Cipher, Plain, SignedInput, decrypt, encrypt, mac, verify_mac};
use sealway_broker::profile::policy::{EncryptAlgorithm, EncryptPolicy, MacAlgorithm};
use sealway_broker::profile::{Leniency, Profile};
use sealway_broker::wire::transit::Tokens as TransitTokens;
use sealway_relay::control::Tokens as ControlTokens;
use sealway_sessions::endpoint::bearer_is;

use super::{Library, Path};
use crate::memcheck::{declare, declare_bit, mark_shared, secret_of};

pub(super) const PATHS: &[Path] = &[
    Path::of_one("sessions-bearer", |_| bearer()).in_short("aws-lc"),
    Path::of_one("relay-control-token", |_| control_token()),
    Path::of_one("broker-transit-token", |_| transit_token()),
    Path::of_one("broker-mac", |_| broker_mac()).in_short("aws-lc"),
    Path::of_one("broker-truncated-tag", |_| truncated_tag()),
];

const ACCEPTED: &str = "accept or reject: a bearer token";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn authorization(token: &str) -> anyhow::Result<HeaderMap> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// The configured secret is marked. The token in the request is not: who sends it knows it.
fn bearer() -> anyhow::Result<()> {
    let headers = authorization(TOKEN)?;
    for (configured, is_right) in [(TOKEN, true), ("0123456789abcdef0123456789abcdeF", false)] {
        let configured = configured.to_owned();
        mark_shared(configured.as_bytes());
        ensure!(declare_bit(bearer_is(&headers, &configured), ACCEPTED) == is_right);
    }
    Ok(())
}

/// The token of the request is marked: the relay has hashes alone.
fn control_token() -> anyhow::Result<()> {
    let tokens = ControlTokens::parse(TOKEN).ok().context("the tokens do not parse")?;
    for (token, number) in [(TOKEN, Some(0)), ("0123456789abcdef0123456789abcdeF", None)] {
        let headers = authorization(token)?;
        let value = headers.get(AUTHORIZATION).context("no header")?;
        mark_shared(value.as_bytes().get(7..).context("no token")?);
        let found = tokens.lets_in(&headers);
        declare_bit(found.is_some(), ACCEPTED);
        ensure!(found == number);
    }
    Ok(())
}

fn transit_token() -> anyhow::Result<()> {
    let (token, entry) = sealway_broker::wire::transit::draw("billing").map_err(anyhow::Error::msg)?;
    let tokens = TransitTokens::parse(&entry, Leniency::Strict).ok().context("the tokens do not parse")?;
    for (token, name) in [(token.as_bytes(), Some("billing")), (TOKEN.as_bytes(), None)] {
        let found = tokens.name_of(&secret_of(token));
        declare_bit(found.is_some(), ACCEPTED);
        ensure!(found.as_deref() == name);
    }
    Ok(())
}

/// Storage that keeps nothing: a case reads its key from memory.
struct Nowhere;

impl Backend for Nowhere {
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(Vec::new())
    }

    fn replace(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A key of a store whose material is a secret.
fn key(algorithm: &str) -> anyhow::Result<Arc<Key>> {
    let kek = Kek::parse("case", &format!("first {}", "4b".repeat(32))).ok().context("the KEK does not parse")?;
    let store = Store::over(Nowhere, kek).ok().context("the store does not open")?;
    let algorithm = Algorithm::parse(algorithm).context("no such algorithm")?;
    store.import("key", algorithm, &secret_of(&[0x4c; 32]), 1).map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
}

/// A key of the broker for HMAC, and the profile that allows it.
pub(crate) fn mac_key() -> anyhow::Result<(Profile, Arc<Key>)> {
    let profile = Profile { name: "P".into(), mac: Some(MacAlgorithm::HmacSha256), ..Profile::default() };
    Ok((profile, key("hmac-sha-256")?))
}

fn broker_mac() -> anyhow::Result<()> {
    let failed = |refusal| anyhow::anyhow!("{refusal:?}");
    let (profile, key) = mac_key()?;
    let mut tag = mac(&profile, &key, &[b"message"]).map_err(failed)?.outputs.remove(0);
    declare(&tag, "a tag: it goes to the caller");
    for is_right in [true, false] {
        let signed = SignedInput { input: b"message", signature: &tag, key_version: 1 };
        let valid = verify_mac(&profile, &key, &[signed]).map_err(failed)?.remove(0);
        ensure!(declare_bit(valid, "accept or reject: a MAC") == is_right);
        tag[31] ^= 1;
    }
    Ok(())
}

fn truncated_tag() -> anyhow::Result<()> {
    let failed = |refusal| anyhow::anyhow!("{refusal:?}");
    let key = key("aes-256-gcm")?;
    let policy = EncryptPolicy { algorithm: EncryptAlgorithm::Aes256Gcm, is_nonce_callers: true, tag_len: 12 };
    let profile = Profile { name: "P".into(), encrypt: Some(policy), ..Profile::default() };
    let text = secret_of(b"4111111111111111");
    let plain = Plain { plaintext: &text, aad: b"aad", nonce: &[9; 12] };
    let sealed = encrypt(&profile, &key, &[plain]).map_err(failed)?.remove(0);
    declare(&sealed.ciphertext, "ciphertext and tag: they go over the wire");
    declare(sealed.tag.as_ref(), "ciphertext and tag: they go over the wire");
    let mut tag = sealed.tag.as_ref().to_vec();
    for is_right in [true, false] {
        let cipher = Cipher { key_version: 1, nonce: &[9; 12], ciphertext: &sealed.ciphertext, tag: &tag, aad: b"aad" };
        let opened = decrypt(&profile, &key, &[cipher]).map_err(failed)?.remove(0);
        match opened {
            Ok(opened) => {
                declare(&opened, "plaintext behind a verified tag: it is the caller's");
                ensure!(is_right && opened == b"4111111111111111", "another plaintext");
            }
            Err(_) => ensure!(!is_right, "a right tag is rejected"),
        }
        tag[11] ^= 1;
    }
    Ok(())
}
