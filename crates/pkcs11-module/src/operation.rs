//! Operations with the broker: the forms of PKCS#11 on one side, those of the broker's wire on the other.

use cryptoki_sys::{
    CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_FUNCTION_FAILED, CKR_KEY_HANDLE_INVALID,
    CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE,
};
use sealway_client::broker::{Verification, WrappedKey};
use zeroize::Zeroizing;

use crate::broker::{Broker, only};
use crate::der;
use crate::failure::{Failure, Result};
use crate::mechanism::{Algorithm, Use};
use crate::session::Operation;

/// Returns the length of an operation's result, in bytes.
pub(crate) fn output_len(operation: &Operation) -> Result<usize> {
    match operation.purpose {
        Use::Sign { .. } => operation.key().map(|key| key.signature_len),
        Use::Decrypt { content_key_len, .. } => Ok(content_key_len),
        Use::Digest { len } => Ok(len),
    }
}

/// Returns the input that the broker signs: the message, or the digest.
fn signed_input(algorithm: Algorithm, is_digest: bool, input: &[u8]) -> Result<&[u8]> {
    let Some(hash) = algorithm.hash().filter(|_| is_digest) else { return Ok(input) };
    let digest = match algorithm {
        // The broker makes the DigestInfo itself: another one, or none, is not what the profile signs.
        Algorithm::RsaPkcs1(_) => input.strip_prefix(&*hash.digest_info()).ok_or(Failure(CKR_DATA_INVALID))?,
        _ => input,
    };
    if digest.len() == hash.len() { Ok(digest) } else { Err(Failure(CKR_DATA_LEN_RANGE)) }
}

/// Signs the input of an operation.
pub(crate) fn sign(broker: &Broker, operation: &Operation) -> Result<Vec<u8>> {
    let Use::Sign { algorithm, is_digest } = operation.purpose else { return Err(Failure(CKR_FUNCTION_FAILED)) };
    let key = operation.key()?;
    let inputs = [signed_input(algorithm, is_digest, &operation.input)?];
    let batch = broker.run(true, async |client| match is_digest {
        false => client.sign(&operation.profile, &key.id, &inputs).await,
        true => client.sign_digests(&operation.profile, &key.id, &inputs).await,
    })?;
    if batch.descriptor.key_version != key.version {
        // The key was rotated: this signature would not verify with the object's public half.
        return Err(Failure(CKR_KEY_HANDLE_INVALID));
    }
    let signature = only(batch.outputs)?;
    let signature = match algorithm {
        Algorithm::Ecdsa { is_raw: false, .. } => {
            der::fixed_signature(&signature, key.signature_len / 2).ok_or(Failure(CKR_FUNCTION_FAILED))?
        }
        _ => signature,
    };
    if signature.len() == key.signature_len { Ok(signature) } else { Err(Failure(CKR_FUNCTION_FAILED)) }
}

/// Verifies a signature of the input of an operation.
pub(crate) fn verify(broker: &Broker, operation: &Operation, signature: &[u8]) -> Result<()> {
    let Use::Sign { algorithm, is_digest } = operation.purpose else { return Err(Failure(CKR_FUNCTION_FAILED)) };
    let key = operation.key()?;
    if signature.len() != key.signature_len {
        return Err(Failure(CKR_SIGNATURE_LEN_RANGE));
    }
    let converted = match algorithm {
        Algorithm::Ecdsa { is_raw: false, .. } => der::der_signature(signature, key.signature_len / 2),
        _ => None,
    };
    let input = signed_input(algorithm, is_digest, &operation.input)?;
    let signature = converted.as_deref().unwrap_or(signature);
    let signed = [Verification { input, signature, key_version: key.version }];
    let batch = broker.run(true, async |client| match is_digest {
        false => client.verify(&operation.profile, &key.id, &signed).await,
        true => client.verify_digests(&operation.profile, &key.id, &signed).await,
    })?;
    if only(batch.outputs)? { Ok(()) } else { Err(Failure(CKR_SIGNATURE_INVALID)) }
}

/// Decrypts a content key. One that does not decrypt gives another key, as the broker defines.
pub(crate) fn decrypt(broker: &Broker, operation: &Operation) -> Result<Zeroizing<Vec<u8>>> {
    let Use::Decrypt { content_key_len, .. } = operation.purpose else { return Err(Failure(CKR_FUNCTION_FAILED)) };
    let key = operation.key()?;
    if operation.input.len() != key.signature_len {
        return Err(Failure(CKR_ENCRYPTED_DATA_LEN_RANGE));
    }
    let length = u32::try_from(content_key_len).map_err(|_| Failure(CKR_FUNCTION_FAILED))?;
    let wrapped = [WrappedKey { encrypted_key: &operation.input, length }];
    let batch =
        broker.run(true, async |client| client.unwrap(&operation.profile, &key.id, key.version, &wrapped).await)?;
    Ok(Zeroizing::new(only(batch.outputs)?.to_vec()))
}

/// Digests the input of an operation.
pub(crate) fn digest(broker: &Broker, operation: &Operation) -> Result<Vec<u8>> {
    let inputs = [operation.input.as_slice()];
    only(broker.run(false, async |client| client.hash(&operation.profile, &inputs).await)?.outputs)
}
