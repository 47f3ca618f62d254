//! Encryption, data keys, digests and random bytes of the transit API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::answer::{Answer, one, references, settled};
use super::names::{Form, NOT_DERIVED, parse_versioned, plain_hash, type_of, versioned};
use super::{Fields, Request};
use crate::hash::hex;
use crate::keys::{Algorithm, Key};
use crate::operation::{self, NONCE_LEN, Plain, SealedMessage, TAG_LEN};
use crate::profile::policy::Profile;
use crate::service::{Grant, Outcome};
use crate::wire::v1;
use crate::{Refusal, Result};

/// Random bytes by default, and the bits of a data key.
const RANDOM_LEN: u32 = 32;
const DATA_KEY_BITS: u32 = 256;

/// A plaintext of a request.
struct Plaintext {
    bytes: Zeroizing<Vec<u8>>,
    aad: Zeroizing<Vec<u8>>,
    /// Version of the key; 0 for the current one.
    key_version: u32,
}

/// A ciphertext of a request: nonce, ciphertext and tag together.
struct Ciphertext {
    key_version: u32,
    bytes: Vec<u8>,
    aad: Zeroizing<Vec<u8>>,
}

fn aad(fields: &mut Fields) -> Result<Zeroizing<Vec<u8>>> {
    fields.without(&["context", "nonce", "convergent_encryption", "derived"], NOT_DERIVED)?;
    Ok(fields.bytes("associated_data")?.unwrap_or_default())
}

fn plaintext(mut fields: Fields) -> Result<Plaintext> {
    let bytes = fields.required_bytes("plaintext")?;
    let (aad, key_version) = (aad(&mut fields)?, fields.number("key_version")?.unwrap_or_default());
    // The type of a key that a server makes for an unknown name; this one makes none.
    fields.text("type")?;
    fields.end()?;
    Ok(Plaintext { bytes, aad, key_version })
}

fn ciphertext(mut fields: Fields) -> Result<Ciphertext> {
    let text = fields.text("ciphertext")?.ok_or_else(|| Refusal::invalid("ciphertext: required"))?;
    let (key_version, bytes) = parse_versioned("ciphertext", &text, Form::Asn1)?;
    if bytes.len() < NONCE_LEN + TAG_LEN {
        return Err(Refusal::invalid("ciphertext: too short for a nonce and a tag"));
    }
    let aad = aad(&mut fields)?;
    // That of a rewrapped ciphertext is the current one.
    if fields.number("key_version")?.is_some_and(|version| version != 0) {
        return Err(Refusal::invalid("key_version: the ciphertext has its version"));
    }
    fields.end()?;
    Ok(Ciphertext { key_version, bytes, aad })
}

impl Ciphertext {
    fn parts(&self) -> operation::Cipher<'_> {
        let (nonce, rest) = self.bytes.split_at(NONCE_LEN.min(self.bytes.len()));
        let (ciphertext, tag) = rest.split_at(rest.len().saturating_sub(TAG_LEN));
        operation::Cipher { key_version: self.key_version, nonce, ciphertext, tag, aad: &self.aad }
    }
}

fn text_of(sealed: &SealedMessage) -> String {
    let bytes = [&sealed.nonce[..], &sealed.ciphertext, sealed.tag.as_ref()].concat();
    versioned(sealed.key_version, &bytes, Form::Asn1)
}

fn sealed(sealed: &SealedMessage) -> Map<String, Value> {
    let mut data = one("ciphertext", text_of(sealed));
    data.insert("key_version".to_owned(), sealed.key_version.into());
    data
}

/// Finds the key, and a profile for its cipher.
fn cipher_profile(request: &Request<'_>, operation: &str) -> Result<String> {
    let key = request.key(operation)?;
    let Algorithm::Encrypt(algorithm) = key.algorithm() else {
        return Err(Refusal::invalid(format!("a key of type {} encrypts nothing", type_of(key.algorithm()))));
    };
    let has = |profile: &Profile| {
        let policy = profile.encrypt.filter(|policy| !policy.is_nonce_callers && policy.tag_len == TAG_LEN);
        policy.is_some_and(|policy| policy.algorithm == algorithm)
    };
    let wanted = format!("{} with nonces of the broker and tags of 16 bytes", key.algorithm());
    request.profile(operation, &wanted, has)
}

/// Checks that a version that a request asks for is the one that encrypts and signs.
pub(super) fn check_version(asked: u32, current: u32) -> Result<()> {
    if asked == 0 || asked == current {
        return Ok(());
    }
    Err(Refusal::invalid(format!("key_version: only the current version, {current}, encrypts and signs")))
}

/// Puts the results of valid entries in their places between the errors of the others.
pub(super) fn merged<I, T>(entries: &[Result<I>], results: Vec<Result<T>>) -> Vec<Result<T>> {
    let mut results = results.into_iter();
    let missing = || Err(Refusal::new(crate::Code::Internal, "an operation without a result"));
    let place = |entry: &Result<I>| match entry {
        Ok(_) => results.next().unwrap_or_else(missing),
        Err(refusal) => Err(refusal.clone()),
    };
    entries.iter().map(place).collect()
}

/// Runs an operation on the valid entries of a batch.
async fn each<I: Sync + Send, T: Send>(
    request: &Request<'_>,
    operation: &'static str,
    fields: Fields,
    parse: fn(Fields) -> Result<I>,
    len: fn(&I) -> usize,
    work: impl FnOnce(&Profile, &Key, &[&I]) -> Result<Vec<Result<T>>> + Send,
    show: impl Fn(&T) -> Map<String, Value> + Send + Sync,
) -> Result<Answer> {
    let plan = fields.batch().and_then(|mut batch| {
        let references = references(&mut batch)?;
        let entries: Vec<_> = batch.entries.into_iter().map(parse).collect();
        if let (false, Some(Err(refusal))) = (batch.is_list, entries.first()) {
            return Err(refusal.clone());
        }
        Ok((cipher_profile(request, operation)?, batch.is_list, batch.partial, references, entries))
    });
    let (profile, is_list, partial, references, entries) = match plan {
        Ok(plan) => plan,
        Err(refusal) => return request.reject(operation, refusal).await,
    };
    let valid: Vec<&I> = entries.iter().flatten().collect();
    let lens = valid.iter().map(|entry| len(entry));
    let query = v1::query(request.call, operation, &profile, request.key_id(), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let results = if valid.is_empty() { Vec::new() } else { work(profile, key, &valid)? };
        let results = settled(is_list, merged(&entries, results))?;
        let shown: Vec<_> = results.iter().map(|result| result.as_ref().map(&show).map_err(Refusal::clone)).collect();
        let bytes_out = shown.iter().flatten().flat_map(Map::values).filter_map(Value::as_str).map(str::len).sum();
        Ok(Outcome { algorithm: key.algorithm().to_string(), ..Outcome::new(shown, bytes_out) })
    };
    let (_, results) = v1::run(request.wires, request.call, query, Ok(()), work).await?;
    Answer::batch(is_list, partial, references, results)
}

pub(super) async fn encrypt(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let work = |profile: &Profile, key: &Key, entries: &[&Plaintext]| {
        let current = key.current()?.number();
        let checked: Vec<_> = entries.iter().map(|entry| check_version(entry.key_version, current)).collect();
        let fitting = entries.iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
        let plains: Vec<_> =
            fitting.map(|(entry, _)| Plain { plaintext: &entry.bytes, aad: &entry.aad, nonce: &[] }).collect();
        let sealed = if plains.is_empty() { Vec::new() } else { operation::encrypt(profile, key, &plains)? };
        Ok(merged(&checked, sealed.into_iter().map(Ok).collect()))
    };
    let len = |entry: &Plaintext| entry.bytes.len() + entry.aad.len();
    each(request, "EncryptData", fields, plaintext, len, work, sealed).await
}

fn ciphertext_len(entry: &Ciphertext) -> usize {
    entry.bytes.len() + entry.aad.len()
}

pub(super) async fn decrypt(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let work = |profile: &Profile, key: &Key, entries: &[&Ciphertext]| {
        let ciphers: Vec<_> = entries.iter().map(|entry| entry.parts()).collect();
        let opened = operation::decrypt(profile, key, &ciphers)?;
        Ok(opened.into_iter().map(|opened| opened.map(Zeroizing::new)).collect())
    };
    let show = |plaintext: &Zeroizing<Vec<u8>>| one("plaintext", STANDARD.encode(&**plaintext));
    each(request, "DecryptData", fields, ciphertext, ciphertext_len, work, show).await
}

pub(super) async fn rewrap(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    let work = |profile: &Profile, key: &Key, entries: &[&Ciphertext]| {
        let ciphers: Vec<_> = entries.iter().map(|entry| entry.parts()).collect();
        operation::rewrap(profile, key, &ciphers)
    };
    each(request, "Rewrap", fields, ciphertext, ciphertext_len, work, sealed).await
}

pub(super) async fn data_key(request: &Request<'_>, mut fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "EncryptData";
    let plan = (|| {
        let bits = fields.number("bits")?.unwrap_or(DATA_KEY_BITS);
        if ![128, 256, 512].contains(&bits) {
            return Err(Refusal::invalid("bits: expected 128, 256 or 512"));
        }
        let aad = aad(&mut fields)?;
        std::mem::take(&mut fields).end()?;
        Ok((cipher_profile(request, OPERATION)?, bits as usize / 8, aad))
    })();
    let (profile, len, aad) = match plan {
        Ok(plan) => plan,
        Err(refusal) => return request.reject(OPERATION, refusal).await,
    };
    let query = v1::query(request.call, OPERATION, &profile, request.key_id(), [len + aad.len()]);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let drawn = operation::data_key(profile, key, len, &aad)?;
        let (key_version, bytes_out) = (drawn.1.key_version, len + drawn.1.ciphertext.len());
        Ok(Outcome { algorithm: key.algorithm().to_string(), key_version, ..Outcome::new(drawn, bytes_out) })
    };
    let (_, (plaintext, wrapped)) = v1::run(request.wires, request.call, query, Ok(()), work).await?;
    let mut data = sealed(&wrapped);
    if request.option == Some("plaintext") {
        data.insert("plaintext".to_owned(), STANDARD.encode(&*plaintext).into());
    }
    Ok(Answer::data(Value::Object(data)))
}

pub(super) async fn hash(request: &Request<'_>, mut fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "HashData";
    let plan = (|| {
        let (name, algorithm) = plain_hash(request.option, &mut fields)?;
        let is_hex = fields.choice("format", &[("hex", true), ("base64", false)])?;
        let input = fields.required_bytes("input")?;
        std::mem::take(&mut fields).end()?;
        let profile = request.profile(OPERATION, name, |profile| profile.hash == Some(algorithm))?;
        Ok((profile, is_hex, input))
    })();
    let (profile, is_hex, input) = match plan {
        Ok(plan) => plan,
        Err(refusal) => return request.reject(OPERATION, refusal).await,
    };
    let query = v1::query(request.call, OPERATION, &profile, None, [input.len()]);
    let shape = operation::check_batch("input", [input.len()].into_iter());
    let outcome = crate::hash::run(&request.wires.service, request.call, query, shape, &[&input[..]]).await?;
    let digest = outcome.value.first().map(|digest| if is_hex { hex(digest) } else { STANDARD.encode(digest) });
    Ok(Answer::data(json!({ "sum": digest })))
}

pub(super) async fn random(request: &Request<'_>, mut fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "Random";
    let plan = (|| {
        let of_path = |digits: &str| digits.parse().map_err(|_| Refusal::invalid("bytes: expected a whole number"));
        let of_body = fields.number("bytes")?;
        let len = request.option.map(of_path).transpose()?.or(of_body).unwrap_or(RANDOM_LEN);
        let is_hex = fields.choice("format", &[("base64", false), ("hex", true)])?;
        fields.choice("source", &[("platform", ())])?;
        std::mem::take(&mut fields).end()?;
        let profile = request.profile(OPERATION, "Random", |profile| profile.random)?;
        Ok((profile, is_hex, usize::try_from(len).unwrap_or(usize::MAX)))
    })();
    let (profile, is_hex, len) = match plan {
        Ok(plan) => plan,
        Err(refusal) => return request.reject(OPERATION, refusal).await,
    };
    let query = v1::query(request.call, OPERATION, &profile, None, [0]);
    let work = |profile: &Profile, _: &Grant| {
        let outputs = operation::random(profile, len, 1)?;
        Ok(v1::outcome(operation::Outputs { key_version: 0, outputs }, Vec::len, "random".to_owned()))
    };
    let (_, outputs) = v1::run(request.wires, request.call, query, Ok(()), work).await?;
    let bytes = Zeroizing::new(outputs.into_iter().next().unwrap_or_default());
    let text = if is_hex { hex(&bytes) } else { STANDARD.encode(&*bytes) };
    Ok(Answer::data(json!({ "random_bytes": text })))
}
