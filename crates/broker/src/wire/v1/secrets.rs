//! Derive, Random, Encapsulate, Decapsulate and Unwrap of our own wire: operations whose outputs are secrets.

use sealway_proto::broker::v1::{
    DecapsulateRequest, DecapsulateResponse, DeriveRequest, DeriveResponse, EncapsulateRequest, EncapsulateResponse,
    Encapsulated, RandomRequest, RandomResponse, UnwrapRequest, UnwrapResponse, encapsulate_request::To,
};

use super::{outcome, query, run};
use crate::call::Call;
use crate::operation::{self, Derivation, EncryptedKey, Outputs, Recipient};
use crate::profile::policy::{KemAlgorithm, Profile, UnwrapAlgorithm};
use crate::service::{Grant, Query};
use crate::wire::Wires;
use crate::{Refusal, Result};

/// Converts a number of a message; one beyond `usize` is beyond every bound.
fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(crate) async fn derive(wires: &Wires, call: &Call, request: DeriveRequest) -> Result<DeriveResponse> {
    let lens = request.derivations.iter().map(|one| one.salt.len() + one.info.len());
    let query = query(call, "Derive", &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let derivations = request.derivations.iter();
        let derivations: Vec<_> =
            derivations.map(|one| Derivation { salt: &one.salt, info: &one.info, length: size(one.length) }).collect();
        let outputs = operation::derive(profile, key, request.key_version, &derivations)?;
        Ok(outcome(outputs, Vec::len, key.algorithm().to_string()))
    };
    let (descriptor, outputs) = run(wires, call, query, Ok(()), work).await?;
    Ok(DeriveResponse { descriptor, outputs })
}

pub(crate) async fn random(wires: &Wires, call: &Call, request: RandomRequest) -> Result<RandomResponse> {
    let count = size(request.count.max(1));
    let query = Query { count, ..query(call, "Random", &request.profile, None, []) };
    let work = |profile: &Profile, _: &Grant| {
        let outputs = operation::random(profile, size(request.length), count)?;
        Ok(outcome(Outputs { key_version: 0, outputs }, Vec::len, "random".to_owned()))
    };
    let (descriptor, outputs) = run(wires, call, query, Ok(()), work).await?;
    Ok(RandomResponse { descriptor, outputs })
}

pub(crate) async fn encapsulate(
    wires: &Wires,
    call: &Call,
    request: EncapsulateRequest,
) -> Result<EncapsulateResponse> {
    let count = size(request.count.max(1));
    let key = match &request.to {
        Some(To::KeyId(id)) => Some(id.as_str()),
        _ => None,
    };
    let query = Query { count, ..query(call, "Encapsulate", &request.profile, key, []) };
    let shape = request.to.as_ref().map(|_| ()).ok_or_else(|| Refusal::invalid("to: required"));
    let work = |profile: &Profile, grant: &Grant| {
        let to = match &request.to {
            Some(To::PublicKey(public)) => Recipient::Public(public),
            _ => Recipient::Key(grant.key()?),
        };
        let Outputs { key_version, outputs } = operation::encapsulate(profile, to, count)?;
        let outputs = outputs
            .into_iter()
            .map(|one| Encapsulated { ciphertext: one.ciphertext, shared_secret: one.shared_secret.to_vec() });
        let algorithm = profile.kem.map(KemAlgorithm::name).unwrap_or_default();
        let len = |one: &Encapsulated| one.ciphertext.len() + one.shared_secret.len();
        Ok(outcome(Outputs { key_version, outputs: outputs.collect() }, len, algorithm.to_owned()))
    };
    let (descriptor, encapsulated) = run(wires, call, query, shape, work).await?;
    Ok(EncapsulateResponse { descriptor, encapsulated })
}

pub(crate) async fn decapsulate(
    wires: &Wires,
    call: &Call,
    request: DecapsulateRequest,
) -> Result<DecapsulateResponse> {
    let lens = request.ciphertexts.iter().map(Vec::len);
    let query = query(call, "Decapsulate", &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let key = grant.key()?;
        let ciphertexts: Vec<_> = request.ciphertexts.iter().map(Vec::as_slice).collect();
        let Outputs { key_version, outputs } = operation::decapsulate(profile, key, request.key_version, &ciphertexts)?;
        let outputs = outputs.iter().map(|secret| secret.to_vec()).collect();
        Ok(outcome(Outputs { key_version, outputs }, Vec::len, key.algorithm().to_string()))
    };
    let (descriptor, shared_secrets) = run(wires, call, query, Ok(()), work).await?;
    Ok(DecapsulateResponse { descriptor, shared_secrets })
}

pub(crate) async fn unwrap(wires: &Wires, call: &Call, request: UnwrapRequest) -> Result<UnwrapResponse> {
    let lens = request.wrapped.iter().map(|one| one.encrypted_key.len());
    let query = query(call, "Unwrap", &request.profile, Some(&request.key_id), lens);
    let work = |profile: &Profile, grant: &Grant| {
        let wrapped = request.wrapped.iter();
        let wrapped: Vec<_> =
            wrapped.map(|one| EncryptedKey { bytes: &one.encrypted_key, content_key_len: size(one.length) }).collect();
        let Outputs { key_version, outputs } = operation::unwrap(profile, grant.key()?, request.key_version, &wrapped)?;
        let outputs = outputs.iter().map(|key| key.to_vec()).collect();
        let algorithm = profile.unwrap.map(UnwrapAlgorithm::name).unwrap_or_default();
        Ok(outcome(Outputs { key_version, outputs }, Vec::len, algorithm.to_owned()))
    };
    let (descriptor, content_keys) = run(wires, call, query, Ok(()), work).await?;
    Ok(UnwrapResponse { descriptor, content_keys })
}
