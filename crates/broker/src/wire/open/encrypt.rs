//! EncryptData and DecryptData of the wire W4: one message, the tag beside it, a key of the store or of the caller.

use sealway_proto::broker::open::{
    CipherMetadata, DecryptDataRequest, DecryptDataResponse, EncryptDataRequest, EncryptDataResponse, KeySource,
    key_source,
};
use tonic::Status;
use zeroize::Zeroizing;

use super::super::bounds;
use super::super::call::Call;
use super::request::{check_metadata, deprecate, trace};
use super::{descriptor, failed, shape};
use crate::operation::{self, Cipher, Plain, RawKey, Source};
use crate::profile::policy::{EncryptAlgorithm, Profile};
use crate::service::{Allowed, Asked, Done, Service};
use crate::{Code, Refusal};

const ENCRYPTING: &str = "something went wrong while encrypting data: ";
const DECRYPTING: &str = "something went wrong while decrypting data: ";

/// The caller's key, wiped when it is dropped; or the id of one of the store.
enum Key {
    Raw(Zeroizing<Vec<u8>>),
    Id(String),
}

impl Key {
    fn of(source: Option<KeySource>) -> Result<Key, Refusal> {
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

    fn source<'a>(&'a self, allowed: &'a Allowed) -> Result<Source<'a>, Refusal> {
        Ok(match self {
            Key::Raw(bytes) => Source::Raw(RawKey(bytes)),
            Key::Id(_) => Source::Key(allowed.key()?),
        })
    }
}

/// A key that is not there is the request's fault on these wires.
pub(super) fn told(doing: &str, refusal: Refusal) -> Status {
    let code = if refusal.code == Code::NotFound { Code::InvalidArgument } else { refusal.code };
    failed(doing, Refusal { code, ..refusal })
}

/// As descriptors of this wire call it, whatever the key's size.
fn algorithm(profile: &Profile) -> &'static str {
    match profile.encrypt.map(|policy| policy.algorithm) {
        Some(EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes192Gcm | EncryptAlgorithm::Aes256Gcm) => "aes-gcm",
        Some(EncryptAlgorithm::Aes256GcmSiv) => "aes-gcm-siv",
        Some(EncryptAlgorithm::ChaCha20Poly1305) => "chacha20-poly1305",
        None => "",
    }
}

pub(super) async fn encrypt(
    call: &Call,
    service: &Service,
    mut request: EncryptDataRequest,
) -> Result<EncryptDataResponse, Status> {
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
    let asked = Asked {
        operation: "EncryptData",
        wire: "w4",
        profile: Some(&request.profile),
        key: key.as_ref().ok().and_then(Key::id),
        count: 1,
        bytes_in: plaintext.len() + aad.len(),
    };
    let work = |allowed: &Allowed| {
        let source = key.as_ref().map_err(Refusal::clone)?.source(allowed)?;
        let profile = allowed.profile()?;
        let plain = Plain { plaintext: &plaintext, aad, nonce: &parameters.nonce };
        let sealed = operation::encrypt_one(profile, source, plain)?;
        let bytes_out = sealed.ciphertext.len() + sealed.tag.as_ref().len();
        let key_version = Some(sealed.key_version).filter(|version| *version > 0);
        Ok(Done { value: (sealed, algorithm(profile), profile.deprecation.clone()), key_version, bytes_out })
    };
    let made = call.run(service, trace, asked, fits.map_err(shape), work).await;
    let (sealed, algorithm, deprecation) = made.map_err(|refusal| told(ENCRYPTING, refusal))?;
    Ok(EncryptDataResponse {
        ciphertext: sealed.ciphertext,
        cipher_metadata: Some(CipherMetadata {
            key_id: key.ok().and_then(|key| key.id().map(str::to_owned)),
            nonce: sealed.nonce.to_vec(),
            tag: Some(sealed.tag.as_ref().to_vec()),
            aad: parameters.aad,
        }),
        metadata: deprecate(request.metadata, &request.profile, deprecation),
        descriptor: Some(descriptor(request.profile, "EncryptData", algorithm)),
    })
}

pub(super) async fn decrypt(
    call: &Call,
    service: &Service,
    mut request: DecryptDataRequest,
) -> Result<DecryptDataResponse, Status> {
    let key = Key::of(request.key_source.take());
    let parameters = request.decrypt_metadata.take().unwrap_or_default();
    let aad = parameters.aad.as_deref().unwrap_or_default();
    let fits = bounds::profile(&request.profile)
        .and_then(|()| key.as_ref().map(|_| ()).map_err(Refusal::clone))
        .and_then(|()| bounds::at_most("ciphertext", request.ciphertext.len(), bounds::INPUT_MAX))
        .and_then(|()| bounds::at_most("decryptMetadata.aad", aad.len(), bounds::AAD_MAX))
        .and_then(|()| check_metadata(request.metadata.as_ref()));
    let trace = trace(request.metadata.as_ref(), &fits);
    let asked = Asked {
        operation: "DecryptData",
        wire: "w4",
        profile: Some(&request.profile),
        key: key.as_ref().ok().and_then(Key::id),
        count: 1,
        bytes_in: request.ciphertext.len() + aad.len(),
    };
    let work = |allowed: &Allowed| {
        let source = key.as_ref().map_err(Refusal::clone)?.source(allowed)?;
        let profile = allowed.profile()?;
        let tag = parameters.tag.as_deref().unwrap_or_default();
        let cipher = Cipher { key_version: 0, nonce: &parameters.nonce, ciphertext: &request.ciphertext, tag, aad };
        let plaintext = operation::decrypt_one(profile, source, &cipher)?;
        let bytes_out = plaintext.len();
        Ok(Done { value: (plaintext, profile.deprecation.clone()), key_version: None, bytes_out })
    };
    let made = call.run(service, trace, asked, fits.map_err(shape), work).await;
    let (plaintext, deprecation) = made.map_err(|refusal| told(DECRYPTING, refusal))?;
    Ok(DecryptDataResponse { plaintext, metadata: deprecate(request.metadata, &request.profile, deprecation) })
}
