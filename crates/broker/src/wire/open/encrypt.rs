//! EncryptData and DecryptData of the wire W4: one message, a separate tag, a key of the store or of the caller.

use sealway_proto::broker::open::{
    CipherMetadata, DecryptDataRequest, DecryptDataResponse, EncryptDataRequest, EncryptDataResponse, KeySource,
    key_source,
};
use zeroize::Zeroizing;

use super::{check_metadata, deprecate, descriptor, failed, shape, trace};
use crate::call::Call;
use crate::operation::{self, Cipher, Plain, RawKey, Source};
use crate::profile::policy::{EncryptAlgorithm, Profile};
use crate::service::{Grant, Outcome, Query};
use crate::wire::{Wires, bounds};
use crate::{Code, Refusal, Result};

const ENCRYPTING: &str = "something went wrong while encrypting data: ";
const DECRYPTING: &str = "something went wrong while decrypting data: ";

/// Key of the caller, wiped on drop; or the id of a key of the store.
enum Key {
    Raw(Zeroizing<Vec<u8>>),
    Id(String),
}

impl Key {
    fn of(source: Option<KeySource>) -> Result<Key> {
        match source.and_then(|source| source.source) {
            None => Err(Refusal::invalid("keySource: required")),
            Some(key_source::Source::RawKey(bytes)) => {
                let key = Zeroizing::new(bytes);
                bounds::required("keySource.rawKey", key.len(), bounds::RAW_KEY_MAX).map(|()| Key::Raw(key))
            }
            Some(key_source::Source::KeyId(id)) => {
                bounds::required("keySource.keyId", id.len(), bounds::KEY_ID_MAX).map(|()| Key::Id(id))
            }
        }
    }

    fn id(&self) -> Option<&str> {
        match self {
            Key::Raw(_) => None,
            Key::Id(id) => Some(id),
        }
    }

    fn source<'a>(&'a self, grant: &'a Grant) -> Result<Source<'a>> {
        Ok(match self {
            Key::Raw(bytes) => Source::Raw(RawKey(bytes)),
            Key::Id(_) => Source::Key(grant.key()?),
        })
    }
}

/// Error of an operation. On these wires a missing key is the request's fault.
pub(super) fn failure(doing: &str, refusal: Refusal) -> Refusal {
    let code = if refusal.code == Code::NotFound { Code::InvalidArgument } else { refusal.code };
    failed(doing, Refusal { code, ..refusal })
}

/// Algorithm's name in descriptors of this wire, for every key size.
fn algorithm(profile: &Profile) -> &'static str {
    match profile.encrypt.map(|policy| policy.algorithm) {
        Some(EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes192Gcm | EncryptAlgorithm::Aes256Gcm) => "aes-gcm",
        Some(EncryptAlgorithm::Aes256GcmSiv) => "aes-gcm-siv",
        Some(EncryptAlgorithm::ChaCha20Poly1305) => "chacha20-poly1305",
        None => "",
    }
}

pub(crate) async fn encrypt_data(
    wires: &Wires,
    call: &Call,
    mut request: EncryptDataRequest,
) -> Result<EncryptDataResponse> {
    let plaintext = Zeroizing::new(std::mem::take(&mut request.plaintext));
    let key = Key::of(request.key_source.take());
    let parameters = request.encrypt_metadata.take().unwrap_or_default();
    let aad = parameters.aad.as_deref().unwrap_or_default();
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("plaintext", plaintext.len(), bounds::INPUT_MAX))
        .and_then(|()| bounds::at_most("encryptMetadata.aad", aad.len(), bounds::AAD_MAX))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let key_id = key.as_ref().ok().and_then(Key::id);
    let len = plaintext.len() + aad.len();
    let query = Query { key: key_id, trace, ..Query::new("w4", "EncryptData", &request.profile, [len]) };
    let work = |grant: &Grant| {
        let source = key.as_ref().map_err(Refusal::clone)?.source(grant)?;
        let profile = grant.profile()?;
        let plain = Plain { plaintext: &plaintext, aad, nonce: &parameters.nonce };
        let sealed = operation::encrypt_one(profile, source, plain)?;
        let (key_version, bytes_out) = (sealed.key_version, sealed.ciphertext.len() + sealed.tag.as_ref().len());
        let algorithm = algorithm(profile).to_owned();
        Ok(Outcome { algorithm, key_version, ..Outcome::new(sealed, bytes_out) })
    };
    let outcome = wires.service.run(call, query, fits.map_err(shape), work).await;
    let outcome = outcome.map_err(|refusal| failure(ENCRYPTING, refusal))?;
    let sealed = outcome.value;
    Ok(EncryptDataResponse {
        ciphertext: sealed.ciphertext,
        cipher_metadata: Some(CipherMetadata {
            key_id: key_id.map(str::to_owned),
            nonce: sealed.nonce.to_vec(),
            tag: Some(sealed.tag.as_ref().to_vec()),
            aad: parameters.aad,
        }),
        metadata: deprecate(request.metadata, &request.profile, outcome.deprecation),
        descriptor: descriptor(request.profile, "EncryptData", outcome.algorithm),
    })
}

pub(crate) async fn decrypt_data(
    wires: &Wires,
    call: &Call,
    mut request: DecryptDataRequest,
) -> Result<DecryptDataResponse> {
    let key = Key::of(request.key_source.take());
    let parameters = request.decrypt_metadata.take().unwrap_or_default();
    let aad = parameters.aad.as_deref().unwrap_or_default();
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("ciphertext", request.ciphertext.len(), bounds::INPUT_MAX))
        .and_then(|()| bounds::at_most("decryptMetadata.aad", aad.len(), bounds::AAD_MAX))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let key_id = key.as_ref().ok().and_then(Key::id);
    let len = request.ciphertext.len() + aad.len();
    let query = Query { key: key_id, trace, ..Query::new("w4", "DecryptData", &request.profile, [len]) };
    let work = |grant: &Grant| {
        let source = key.as_ref().map_err(Refusal::clone)?.source(grant)?;
        let tag = parameters.tag.as_deref().unwrap_or_default();
        let cipher = Cipher { key_version: 0, nonce: &parameters.nonce, ciphertext: &request.ciphertext, tag, aad };
        let plaintext = operation::decrypt_one(grant.profile()?, source, &cipher)?;
        let bytes_out = plaintext.len();
        Ok(Outcome::new(plaintext, bytes_out))
    };
    let outcome = wires.service.run(call, query, fits.map_err(shape), work).await;
    let outcome = outcome.map_err(|refusal| failure(DECRYPTING, refusal))?;
    let metadata = deprecate(request.metadata, &request.profile, outcome.deprecation);
    Ok(DecryptDataResponse { plaintext: outcome.value, metadata })
}
