//! Our own wire, `sealway.broker.v1`: batches, and keys of the store alone.

mod certificate;
mod keyed;
mod keys;
mod sealing;
mod secrets;

use std::sync::Arc;

use sealway_proto::broker::v1::{
    DecapsulateRequest, DecapsulateResponse, DecryptRequest, DecryptResponse, DeriveRequest, DeriveResponse,
    Descriptor, EncapsulateRequest, EncapsulateResponse, EncryptRequest, EncryptResponse, HashRequest, HashResponse,
    InformationRequest, InformationResponse, MacRequest, MacResponse, RandomRequest, RandomResponse, RewrapRequest,
    RewrapResponse, SignCertificateRequest, SignCertificateResponse, SignRequest, SignResponse, VerifyMacRequest,
    VerifyMacResponse, VerifyRequest, VerifyResponse,
};
use tonic::{Request, Response, Status};
use zeroize::Zeroize;

use self::keyed::{Arrived, Outcome, Wanted, deprecation, run, signature_name, slices, sum};
pub(super) use self::keys::OurKeys;
use super::bounds;
use super::generated::v1::broker_server::Broker;
use super::hashing::hash;
use super::status::status;
use super::wiped::Wiped;
use crate::Refusal;
use crate::module::module;
use crate::operation::{self, Signed};
use crate::service::{Asked, Done, Service};

/// What answers it.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    service: Arc<Service>,
}

impl Ours {
    pub(super) fn new(service: Arc<Service>) -> Ours {
        Ours { service }
    }
}

fn no_key() -> Refusal {
    Refusal::invalid("key_id: required")
}

fn signed(batch: &[sealway_proto::broker::v1::Signed]) -> Vec<Signed<'_>> {
    let one =
        batch.iter().map(|one| Signed { input: &one.input, signature: &one.signature, key_version: one.key_version });
    one.collect()
}

fn wipe_inputs(inputs: &mut [Vec<u8>]) {
    inputs.iter_mut().for_each(Zeroize::zeroize);
}

fn wipe_signed(batch: &mut [sealway_proto::broker::v1::Signed]) {
    batch.iter_mut().for_each(|one| one.input.zeroize());
}

#[tonic::async_trait]
impl Broker for Ours {
    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut HashRequest| wipe_inputs(&mut request.inputs));
        let fits = bounds::profile(&request.profile).and_then(|()| bounds::batch("inputs", &request.inputs));
        let asked = ("v1", request.profile.as_str());
        let made = hash(&arrived.call, &self.service, arrived.trace(), asked, &request.inputs, fits).await;
        let made = made.map_err(status)?;
        let descriptor = Descriptor {
            profile: request.profile.clone(),
            operation: "HashData".to_owned(),
            algorithm: made.algorithm.to_owned(),
            deprecation: made.deprecation.as_ref().map(deprecation),
            ..Descriptor::default()
        };
        Ok(Response::new(HashResponse { descriptor: Some(descriptor), digests: made.digests }))
    }

    async fn sign_certificate(
        &self,
        request: Request<SignCertificateRequest>,
    ) -> Result<Response<SignCertificateResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        certificate::sign(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        sealing::encrypt(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        sealing::decrypt(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn rewrap(&self, request: Request<RewrapRequest>) -> Result<Response<RewrapResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        sealing::rewrap(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn sign(&self, request: Request<SignRequest>) -> Result<Response<SignResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut SignRequest| wipe_inputs(&mut request.inputs));
        let wanted = of_inputs("SignData", &request.profile, &request.key_id, &request.inputs);
        let made = run(&self.service, &arrived, wanted, |profile, key| {
            let made = operation::sign(profile, key.ok_or_else(no_key)?, &slices(&request.inputs))?;
            let bytes_out = sum(&made.outputs, Vec::len);
            let algorithm = signature_name(profile.sign);
            Ok(Outcome { value: made.outputs, key_version: made.key_version, bytes_out, algorithm })
        });
        let (descriptor, signatures) = made.await?;
        Ok(Response::new(SignResponse { descriptor: Some(descriptor), signatures }))
    }

    async fn verify(&self, request: Request<VerifyRequest>) -> Result<Response<VerifyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut VerifyRequest| wipe_signed(&mut request.signed));
        let wanted = of_signed("VerifyData", &request.profile, &request.key_id, &request.signed);
        let made = run(&self.service, &arrived, wanted, |profile, key| {
            let valid = operation::verify(profile, key.ok_or_else(no_key)?, &signed(&request.signed))?;
            let algorithm = signature_name(profile.sign);
            Ok(Outcome { bytes_out: valid.len(), value: valid, key_version: 0, algorithm })
        });
        let (descriptor, valid) = made.await?;
        Ok(Response::new(VerifyResponse { descriptor: Some(descriptor), valid }))
    }

    async fn mac(&self, request: Request<MacRequest>) -> Result<Response<MacResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut MacRequest| wipe_inputs(&mut request.inputs));
        let wanted = of_inputs("Mac", &request.profile, &request.key_id, &request.inputs);
        let made = run(&self.service, &arrived, wanted, |profile, key| {
            let key = key.ok_or_else(no_key)?;
            let made = operation::mac(profile, key, &slices(&request.inputs))?;
            let (bytes_out, algorithm) = (sum(&made.outputs, Vec::len), key.algorithm().to_string());
            Ok(Outcome { value: made.outputs, key_version: made.key_version, bytes_out, algorithm })
        });
        let (descriptor, tags) = made.await?;
        Ok(Response::new(MacResponse { descriptor: Some(descriptor), tags }))
    }

    async fn verify_mac(&self, request: Request<VerifyMacRequest>) -> Result<Response<VerifyMacResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut VerifyMacRequest| wipe_signed(&mut request.signed));
        let wanted = of_signed("VerifyMac", &request.profile, &request.key_id, &request.signed);
        let made = run(&self.service, &arrived, wanted, |profile, key| {
            let key = key.ok_or_else(no_key)?;
            let valid = operation::verify_mac(profile, key, &signed(&request.signed))?;
            let algorithm = key.algorithm().to_string();
            Ok(Outcome { bytes_out: valid.len(), value: valid, key_version: 0, algorithm })
        });
        let (descriptor, valid) = made.await?;
        Ok(Response::new(VerifyMacResponse { descriptor: Some(descriptor), valid }))
    }

    async fn derive(&self, request: Request<DeriveRequest>) -> Result<Response<DeriveResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        secrets::derive(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn random(&self, request: Request<RandomRequest>) -> Result<Response<RandomResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        secrets::random(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn encapsulate(&self, request: Request<EncapsulateRequest>) -> Result<Response<EncapsulateResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        secrets::encapsulate(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn decapsulate(&self, request: Request<DecapsulateRequest>) -> Result<Response<DecapsulateResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        secrets::decapsulate(&self.service, &arrived, request).await.map(Response::new)
    }

    async fn information(&self, request: Request<InformationRequest>) -> Result<Response<InformationResponse>, Status> {
        let (arrived, _) = Arrived::of(request)?;
        let peer = arrived.call.peer();
        let asked = Asked { operation: "Information", wire: "v1", profile: None, key: None, count: 0, bytes_in: 0 };
        let told = arrived.call.run(&self.service, arrived.trace(), asked, Ok(()), |_| {
            let profiles = self.service.profiles.current();
            let may_use = self.service.with_callers(&profiles, |callers| {
                let names = profiles.names().filter(|name| callers.may_use(peer, name));
                names.map(str::to_owned).collect()
            });
            Ok(Done { value: may_use, key_version: None, bytes_out: 0 })
        });
        let profiles = told.await.map_err(status)?;
        let module = module();
        Ok(Response::new(InformationResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            module: module.name.to_owned(),
            module_version: module.version,
            certificate: module.certificate.unwrap_or("none").to_owned(),
            is_fips: module.is_fips,
            profiles,
        }))
    }
}

fn of_inputs<'a>(operation: &'static str, profile: &'a str, key: &'a str, inputs: &[Vec<u8>]) -> Wanted<'a> {
    let bytes_in = sum(inputs, Vec::len);
    Wanted { operation, profile, key: Some(key), count: inputs.len(), bytes_in, shape: Ok(()) }
}

fn of_signed<'a>(
    operation: &'static str,
    profile: &'a str,
    key: &'a str,
    batch: &[sealway_proto::broker::v1::Signed],
) -> Wanted<'a> {
    let bytes_in = sum(batch, |one| one.input.len());
    Wanted { operation, profile, key: Some(key), count: batch.len(), bytes_in, shape: Ok(()) }
}
