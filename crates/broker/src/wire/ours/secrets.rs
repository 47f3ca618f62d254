//! Derive, Random, Encapsulate and Decapsulate of our own wire: operations whose outputs are secrets.

use sealway_proto::broker::v1::{
    DecapsulateRequest, DecapsulateResponse, DeriveRequest, DeriveResponse, EncapsulateRequest, EncapsulateResponse,
    Encapsulated, RandomRequest, RandomResponse, encapsulate_request,
};
use tonic::Status;

use super::keyed::{Arrived, Outcome, Wanted, run, slices, sum};
use super::no_key;
use crate::Refusal;
use crate::operation::{self, Derivation, Recipient};
use crate::service::Service;

/// A number of a message; beyond what this machine counts to is beyond every bound.
fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(super) async fn derive(
    service: &Service,
    arrived: &Arrived,
    request: DeriveRequest,
) -> Result<DeriveResponse, Status> {
    let wanted = Wanted {
        operation: "Derive",
        profile: &request.profile,
        key: Some(&request.key_id),
        count: request.derivations.len(),
        bytes_in: sum(&request.derivations, |one| one.salt.len() + one.info.len()),
        shape: Ok(()),
    };
    let made = run(service, arrived, wanted, |profile, key| {
        let key = key.ok_or_else(no_key)?;
        let derivations = request.derivations.iter();
        let derivations: Vec<_> =
            derivations.map(|one| Derivation { salt: &one.salt, info: &one.info, length: size(one.length) }).collect();
        let made = operation::derive(profile, key, request.key_version, &derivations)?;
        let (bytes_out, algorithm) = (sum(&made.outputs, Vec::len), key.algorithm().to_string());
        Ok(Outcome { value: made.outputs, key_version: made.key_version, bytes_out, algorithm })
    });
    let (descriptor, outputs) = made.await?;
    Ok(DeriveResponse { descriptor: Some(descriptor), outputs })
}

pub(super) async fn random(
    service: &Service,
    arrived: &Arrived,
    request: RandomRequest,
) -> Result<RandomResponse, Status> {
    let count = size(request.count.max(1));
    let wanted =
        Wanted { operation: "Random", profile: &request.profile, key: None, count, bytes_in: 0, shape: Ok(()) };
    let made = run(service, arrived, wanted, |profile, _| {
        let outputs = operation::random(profile, size(request.length), count)?;
        let bytes_out = sum(&outputs, Vec::len);
        Ok(Outcome { value: outputs, key_version: 0, bytes_out, algorithm: "random".to_owned() })
    });
    let (descriptor, outputs) = made.await?;
    Ok(RandomResponse { descriptor: Some(descriptor), outputs })
}

pub(super) async fn encapsulate(
    service: &Service,
    arrived: &Arrived,
    request: EncapsulateRequest,
) -> Result<EncapsulateResponse, Status> {
    use encapsulate_request::To;
    let count = size(request.count.max(1));
    let key = match &request.to {
        Some(To::KeyId(id)) => Some(id.as_str()),
        _ => None,
    };
    let wanted = Wanted {
        operation: "Encapsulate",
        profile: &request.profile,
        key,
        count,
        bytes_in: 0,
        shape: request.to.as_ref().map(|_| ()).ok_or_else(|| Refusal::invalid("to: required")),
    };
    let made = run(service, arrived, wanted, |profile, key| {
        let to = match &request.to {
            Some(To::PublicKey(public)) => Recipient::Public(public),
            _ => Recipient::Key(key.ok_or_else(no_key)?),
        };
        let made = operation::encapsulate(profile, to, count)?;
        let one = |made: operation::Encapsulated| Encapsulated {
            ciphertext: made.ciphertext,
            shared_secret: made.shared_secret.to_vec(),
        };
        let outputs: Vec<_> = made.outputs.into_iter().map(one).collect();
        let bytes_out = sum(&outputs, |one| one.ciphertext.len() + one.shared_secret.len());
        let algorithm = "ml-kem-768".to_owned();
        Ok(Outcome { value: outputs, key_version: made.key_version, bytes_out, algorithm })
    });
    let (descriptor, encapsulated) = made.await?;
    Ok(EncapsulateResponse { descriptor: Some(descriptor), encapsulated })
}

pub(super) async fn decapsulate(
    service: &Service,
    arrived: &Arrived,
    request: DecapsulateRequest,
) -> Result<DecapsulateResponse, Status> {
    let wanted = Wanted {
        operation: "Decapsulate",
        profile: &request.profile,
        key: Some(&request.key_id),
        count: request.ciphertexts.len(),
        bytes_in: sum(&request.ciphertexts, Vec::len),
        shape: Ok(()),
    };
    let made = run(service, arrived, wanted, |profile, key| {
        let key = key.ok_or_else(no_key)?;
        let made = operation::decapsulate(profile, key, request.key_version, &slices(&request.ciphertexts))?;
        let outputs: Vec<_> = made.outputs.iter().map(|secret| secret.to_vec()).collect();
        let (bytes_out, algorithm) = (sum(&outputs, Vec::len), key.algorithm().to_string());
        Ok(Outcome { value: outputs, key_version: made.key_version, bytes_out, algorithm })
    });
    let (descriptor, shared_secrets) = made.await?;
    Ok(DecapsulateResponse { descriptor: Some(descriptor), shared_secrets })
}
