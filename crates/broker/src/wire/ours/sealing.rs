//! Encrypt, Decrypt and Rewrap of our own wire.

use sealway_proto::broker::v1::{
    Cipher, DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, Opened, RewrapRequest, RewrapResponse,
    Rewrapped, opened, rewrapped,
};
use tonic::Status;
use zeroize::Zeroize;

use super::super::wiped::Wiped;
use super::keyed::{Arrived, Outcome, Wanted, refused, run, sum};
use crate::Refusal;
use crate::keys::Key;
use crate::operation::{self, Plain, Sealed};
use crate::service::Service;

fn no_key() -> Refusal {
    Refusal::invalid("key_id: required")
}

fn name(key: &Key) -> String {
    key.algorithm().to_string()
}

fn cipher(sealed: Sealed) -> Cipher {
    Cipher {
        key_version: sealed.key_version,
        nonce: sealed.nonce.to_vec(),
        ciphertext: sealed.ciphertext,
        tag: sealed.tag.as_ref().to_vec(),
        aad: Vec::new(),
    }
}

fn given(ciphers: &[Cipher]) -> Vec<operation::Cipher<'_>> {
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

pub(super) async fn encrypt(
    service: &Service,
    arrived: &Arrived,
    request: EncryptRequest,
) -> Result<EncryptResponse, Status> {
    let wipe = |request: &mut EncryptRequest| request.plains.iter_mut().for_each(|plain| plain.plaintext.zeroize());
    let request = Wiped::new(request, wipe);
    let wanted = Wanted {
        operation: "EncryptData",
        profile: &request.profile,
        key: Some(&request.key_id),
        count: request.plains.len(),
        bytes_in: sum(&request.plains, |plain| plain.plaintext.len() + plain.aad.len()),
        shape: Ok(()),
    };
    let made = run(service, arrived, wanted, |profile, key| {
        let key = key.ok_or_else(no_key)?;
        let plains = request.plains.iter();
        let plains: Vec<_> =
            plains.map(|plain| Plain { plaintext: &plain.plaintext, aad: &plain.aad, nonce: &plain.nonce }).collect();
        let sealed = operation::encrypt(profile, key, &plains)?;
        let key_version = sealed.first().map_or(0, |sealed| sealed.key_version);
        let ciphers: Vec<_> = sealed.into_iter().map(cipher).collect();
        let bytes_out = sum(&ciphers, |cipher| cipher.ciphertext.len() + cipher.tag.len());
        Ok(Outcome { value: ciphers, key_version, bytes_out, algorithm: name(key) })
    });
    let (descriptor, ciphers) = made.await?;
    Ok(EncryptResponse { descriptor: Some(descriptor), ciphers })
}

pub(super) async fn decrypt(
    service: &Service,
    arrived: &Arrived,
    request: DecryptRequest,
) -> Result<DecryptResponse, Status> {
    let wanted = of_ciphers("DecryptData", &request.profile, &request.key_id, &request.ciphers);
    let made = run(service, arrived, wanted, |profile, key| {
        let key = key.ok_or_else(no_key)?;
        let opened = operation::decrypt(profile, key, &given(&request.ciphers))?;
        let bytes_out = sum(&opened, |opened| opened.as_ref().map_or(0, Vec::len));
        Ok(Outcome { value: opened, key_version: 0, bytes_out, algorithm: name(key) })
    });
    let (descriptor, results) = made.await?;
    let one = |result: Result<Vec<u8>, Refusal>| Opened {
        result: Some(match result {
            Ok(plaintext) => opened::Result::Plaintext(plaintext),
            Err(refusal) => opened::Result::Refusal(refused(refusal)),
        }),
    };
    Ok(DecryptResponse { descriptor: Some(descriptor), opened: results.into_iter().map(one).collect() })
}

pub(super) async fn rewrap(
    service: &Service,
    arrived: &Arrived,
    request: RewrapRequest,
) -> Result<RewrapResponse, Status> {
    let wanted = of_ciphers("Rewrap", &request.profile, &request.key_id, &request.ciphers);
    let made = run(service, arrived, wanted, |profile, key| {
        let key = key.ok_or_else(no_key)?;
        let results = operation::rewrap(profile, key, &given(&request.ciphers))?;
        let key_version = results.iter().flatten().next().map_or(0, |sealed| sealed.key_version);
        let bytes_out = sum(&results, |result| result.as_ref().map_or(0, |sealed| sealed.ciphertext.len()));
        Ok(Outcome { value: results, key_version, bytes_out, algorithm: name(key) })
    });
    let (descriptor, results) = made.await?;
    let one = |result: Result<Sealed, Refusal>| Rewrapped {
        result: Some(match result {
            Ok(sealed) => rewrapped::Result::Cipher(cipher(sealed)),
            Err(refusal) => rewrapped::Result::Refusal(refused(refusal)),
        }),
    };
    Ok(RewrapResponse { descriptor: Some(descriptor), rewrapped: results.into_iter().map(one).collect() })
}

fn of_ciphers<'a>(operation: &'static str, profile: &'a str, key: &'a str, ciphers: &[Cipher]) -> Wanted<'a> {
    Wanted {
        operation,
        profile,
        key: Some(key),
        count: ciphers.len(),
        bytes_in: sum(ciphers, |cipher| cipher.ciphertext.len() + cipher.aad.len()),
        shape: Ok(()),
    }
}
