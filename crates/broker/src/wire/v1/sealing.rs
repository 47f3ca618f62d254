//! Encrypt, Decrypt and Rewrap of our own wire.

use sealway_proto::broker::v1::{
    Cipher, DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, Opened, RewrapRequest, RewrapResponse,
    Rewrapped, opened, rewrapped,
};

use super::{query, refused, run, secrets};
use crate::Result;
use crate::call::Call;
use crate::operation::{self, Plain, SealedMessage};
use crate::profile::policy::Profile;
use crate::service::{Grant, Outcome};
use crate::wire::Wires;

fn cipher(sealed: SealedMessage) -> Cipher {
    Cipher {
        key_version: sealed.key_version,
        nonce: sealed.nonce.to_vec(),
        ciphertext: sealed.ciphertext,
        tag: sealed.tag.as_ref().to_vec(),
        aad: Vec::new(),
    }
}

fn ciphers(ciphers: &[Cipher]) -> Vec<operation::Cipher<'_>> {
    let ciphers = ciphers.iter();
    let one = ciphers.map(|cipher| operation::Cipher {
        key_version: cipher.key_version,
        nonce: &cipher.nonce,
        ciphertext: &cipher.ciphertext,
        tag: &cipher.tag,
        aad: &cipher.aad,
    });
    one.collect()
}

fn lens(ciphers: &[Cipher]) -> impl Iterator<Item = usize> {
    ciphers.iter().map(|cipher| cipher.ciphertext.len() + cipher.aad.len())
}

pub(crate) async fn encrypt(wires: &Wires, call: &Call, mut request: EncryptRequest) -> Result<EncryptResponse> {
    let plaintexts = secrets(request.plains.iter_mut().map(|plain| &mut plain.plaintext));
    let plains = plaintexts.iter().zip(&request.plains);
    let plains: Vec<_> =
        plains.map(|(plaintext, plain)| Plain { plaintext, aad: &plain.aad, nonce: &plain.nonce }).collect();
    let lens = plains.iter().map(|plain| plain.plaintext.len() + plain.aad.len());
    let query = query(call, "EncryptData", &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let sealed = operation::encrypt(profile, key, &plains)?;
        let key_version = sealed.first().map_or(0, |sealed| sealed.key_version);
        let ciphers: Vec<_> = sealed.into_iter().map(cipher).collect();
        let bytes_out = ciphers.iter().map(|cipher| cipher.ciphertext.len() + cipher.tag.len()).sum();
        Ok(Outcome { algorithm: key.algorithm().to_string(), key_version, ..Outcome::new(ciphers, bytes_out) })
    };
    let (descriptor, ciphers) = run(wires, call, query, Ok(()), work).await?;
    Ok(EncryptResponse { descriptor, ciphers })
}

pub(crate) async fn decrypt(wires: &Wires, call: &Call, request: DecryptRequest) -> Result<DecryptResponse> {
    let query = query(call, "DecryptData", &request.profile, Some(&request.key_id), lens(&request.ciphers));
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let results = operation::decrypt(profile, key, &ciphers(&request.ciphers))?;
        let bytes_out = results.iter().flatten().map(Vec::len).sum();
        Ok(Outcome { algorithm: key.algorithm().to_string(), ..Outcome::new(results, bytes_out) })
    };
    let (descriptor, results) = run(wires, call, query, Ok(()), work).await?;
    let one = |result: Result<Vec<u8>>| {
        let refusal = |refusal| opened::Result::Refusal(refused(refusal));
        Opened { result: Some(result.map_or_else(refusal, opened::Result::Plaintext)) }
    };
    Ok(DecryptResponse { descriptor, opened: results.into_iter().map(one).collect() })
}

pub(crate) async fn rewrap(wires: &Wires, call: &Call, request: RewrapRequest) -> Result<RewrapResponse> {
    let query = query(call, "Rewrap", &request.profile, Some(&request.key_id), lens(&request.ciphers));
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let results = operation::rewrap(profile, key, &ciphers(&request.ciphers))?;
        let key_version = results.iter().flatten().next().map_or(0, |sealed| sealed.key_version);
        let bytes_out = results.iter().flatten().map(|sealed| sealed.ciphertext.len()).sum();
        Ok(Outcome { algorithm: key.algorithm().to_string(), key_version, ..Outcome::new(results, bytes_out) })
    };
    let (descriptor, results) = run(wires, call, query, Ok(()), work).await?;
    let one = |result: Result<SealedMessage>| {
        let refusal = |refusal| rewrapped::Result::Refusal(refused(refusal));
        Rewrapped { result: Some(result.map_or_else(refusal, |sealed| rewrapped::Result::Cipher(cipher(sealed)))) }
    };
    Ok(RewrapResponse { descriptor, rewrapped: results.into_iter().map(one).collect() })
}
