//! The wires W1 to W5 of the Open Crypto Broker, which share their paths.

mod encrypt;
pub(super) mod request;
mod sign;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::broker::open::{
    BenchmarkRequest, BenchmarkResponse, CryptoDescriptor, DecryptDataRequest, DecryptDataResponse, EncryptDataRequest,
    EncryptDataResponse, FakeEndpointRequest, FakeEndpointResponse, HashDataRequest, HashDataResponse,
    HashOutputFormat, HashRequest, HashResponse, SignCertificateRequest, SignCertificateResponse, SignDataRequest,
    SignDataResponse, SignOutputFormat, SignRequest, SignResponse, VerifyDataRequest, VerifyDataResponse,
    hash_data_response, sign_certificate_response,
};
use tonic::{Request, Response, Status};
use zeroize::Zeroizing;

use self::request::{check_metadata, check_metadata_w1, deprecate, trace, trace_w1, unix};
use super::bounds;
use super::call::Call;
use super::certifying::{CaKey, Wanted, certify};
use super::dev::Dev;
use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDev;
use super::generated::open::crypto_grpc_server::CryptoGrpc;
use super::hashing::hash;
use super::status::{hex, status};
use crate::Refusal;
use crate::certificate::Flavour;
use crate::service::Service;

/// What answers on them.
#[derive(Debug)]
pub(super) struct Open {
    service: Arc<Service>,
    dev: Option<Dev>,
    has_old_wires: bool,
}

const HASHING: &str = "something went wrong while hashing data: ";
const SIGNING: &str = "something went wrong while signing certificate: ";

/// What is wrong with the request itself is told as the error of a call within.
fn shape(refusal: Refusal) -> Refusal {
    Refusal { code: refusal.code, text: format!("rpc error: code = InvalidArgument desc = {}", refusal.text) }
}

/// A refusal as these wires tell it.
fn failed(doing: &str, refusal: Refusal) -> Status {
    status(Refusal { code: refusal.code, text: format!("{doing}{}", refusal.text) })
}

impl Open {
    pub(super) fn new(service: Arc<Service>, dev: Option<Dev>, has_old_wires: bool) -> Open {
        Open { service, dev, has_old_wires }
    }

    fn old(&self, method: &str) -> Result<(), Status> {
        if self.has_old_wires { Ok(()) } else { Err(unknown(method)) }
    }
}

fn unknown(method: &str) -> Status {
    Status::unimplemented(format!("unknown method {method} for service CryptoBroker.CryptoGrpc"))
}

#[tonic::async_trait]
impl CryptoGrpc for Open {
    async fn hash_data(&self, request: Request<HashDataRequest>) -> Result<Response<HashDataResponse>, Status> {
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let input = Zeroizing::new(std::mem::take(&mut request.input));
        let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata(request.metadata.as_ref()));
        let trace = trace(request.metadata.as_ref(), &fits);
        let asked = ("w3", request.profile.as_str());
        let made = hash(&call, &self.service, trace, asked, &[&*input], fits.map_err(shape)).await;
        let made = made.map_err(|refusal| failed(HASHING, refusal))?;
        let digest = made.digests.into_iter().next().unwrap_or_default();
        let hash_value = if request.output_format == i32::from(HashOutputFormat::Raw) {
            hash_data_response::HashValue::HashValueRaw(digest)
        } else {
            hash_data_response::HashValue::HashValueHex(hex(&digest))
        };
        Ok(Response::new(HashDataResponse {
            hash_algorithm: made.algorithm.to_owned(),
            metadata: deprecate(request.metadata, &request.profile, made.deprecation),
            descriptor: Some(descriptor(request.profile, "HashData", made.algorithm)),
            hash_value: Some(hash_value),
        }))
    }

    async fn sign_certificate(
        &self,
        request: Request<SignCertificateRequest>,
    ) -> Result<Response<SignCertificateResponse>, Status> {
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
        let fits = bounds::certificate(
            &request.profile,
            [&request.csr, &key, &request.ca_cert],
            request.subject.as_deref(),
            &request.crl_distribution_points,
        )
        .and_then(|()| check_metadata(request.metadata.as_ref()));
        let trace = trace(request.metadata.as_ref(), &fits);
        let wanted = Wanted {
            profile: &request.profile,
            csr: request.csr.as_bytes(),
            ca_certificate: request.ca_cert.as_bytes(),
            ca_key: CaKey::Pem(key.as_bytes()),
            not_before: unix(request.valid_not_before),
            not_after: unix(request.valid_not_after),
            subject: request.subject.as_deref(),
            crl_points: &request.crl_distribution_points,
            flavour: Flavour::Open,
            wire: "w3",
        };
        let made = certify(&call, &self.service, trace, &wanted, fits.map_err(shape)).await;
        let made = made.map_err(|refusal| failed(SIGNING, refusal))?;
        let signed = if request.output_format == i32::from(SignOutputFormat::Pem) {
            sign_certificate_response::SignedCertificate::Pem(made.issued.pem())
        } else {
            sign_certificate_response::SignedCertificate::Der(made.issued.der)
        };
        Ok(Response::new(SignCertificateResponse {
            metadata: deprecate(request.metadata, &request.profile, made.deprecation),
            descriptor: Some(descriptor(request.profile, "SignCertificate", &made.issued.algorithm)),
            signed_certificate: Some(signed),
        }))
    }

    async fn encrypt_data(
        &self,
        request: Request<EncryptDataRequest>,
    ) -> Result<Response<EncryptDataResponse>, Status> {
        let call = Call::of(&request)?;
        encrypt::encrypt(&call, &self.service, request.into_inner()).await.map(Response::new)
    }

    async fn decrypt_data(
        &self,
        request: Request<DecryptDataRequest>,
    ) -> Result<Response<DecryptDataResponse>, Status> {
        let call = Call::of(&request)?;
        encrypt::decrypt(&call, &self.service, request.into_inner()).await.map(Response::new)
    }

    async fn sign_data(&self, request: Request<SignDataRequest>) -> Result<Response<SignDataResponse>, Status> {
        let call = Call::of(&request)?;
        sign::sign(&call, &self.service, request.into_inner()).await.map(Response::new)
    }

    async fn verify_data(&self, request: Request<VerifyDataRequest>) -> Result<Response<VerifyDataResponse>, Status> {
        let call = Call::of(&request)?;
        sign::verify(&call, &self.service, request.into_inner()).await.map(Response::new)
    }

    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        self.old("Hash")?;
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let input = Zeroizing::new(std::mem::take(&mut request.input));
        let fits = bounds::hash(&request.profile, &input).and_then(|()| check_metadata_w1(request.metadata.as_ref()));
        let trace = trace_w1(request.metadata.as_ref(), &fits);
        let asked = ("w1", request.profile.as_str());
        let made = hash(&call, &self.service, trace, asked, &[&*input], fits.map_err(shape)).await;
        let made = made.map_err(|refusal| failed(HASHING, refusal))?;
        Ok(Response::new(HashResponse {
            hash_value: made.digests.first().map(|digest| hex(digest)).unwrap_or_default(),
            hash_algorithm: made.algorithm.to_owned(),
            metadata: request.metadata,
        }))
    }

    async fn sign(&self, request: Request<SignRequest>) -> Result<Response<SignResponse>, Status> {
        self.old("Sign")?;
        let call = Call::of(&request)?;
        let mut request = request.into_inner();
        let key = Zeroizing::new(std::mem::take(&mut request.ca_private_key));
        let fits = bounds::certificate(
            &request.profile,
            [&request.csr, &key, &request.ca_cert],
            request.subject.as_deref(),
            &request.crl_distribution_points,
        )
        .and_then(|()| check_metadata_w1(request.metadata.as_ref()));
        let trace = trace_w1(request.metadata.as_ref(), &fits);
        let wanted = Wanted {
            profile: &request.profile,
            csr: request.csr.as_bytes(),
            ca_certificate: request.ca_cert.as_bytes(),
            ca_key: CaKey::Pem(key.as_bytes()),
            not_before: unix(request.valid_not_before),
            not_after: unix(request.valid_not_after),
            subject: request.subject.as_deref(),
            crl_points: &request.crl_distribution_points,
            flavour: Flavour::Open,
            wire: "w1",
        };
        let made = certify(&call, &self.service, trace, &wanted, fits.map_err(shape)).await;
        let made = made.map_err(|refusal| failed(SIGNING, refusal))?;
        let signed_certificate = STANDARD.encode(&made.issued.der);
        Ok(Response::new(SignResponse { signed_certificate, metadata: request.metadata }))
    }

    async fn benchmark(&self, request: Request<BenchmarkRequest>) -> Result<Response<BenchmarkResponse>, Status> {
        match self.dev.as_ref().filter(|_| self.has_old_wires) {
            Some(dev) => dev.benchmark(request).await,
            None => Err(unknown("Benchmark")),
        }
    }

    async fn fake_endpoint(
        &self,
        request: Request<FakeEndpointRequest>,
    ) -> Result<Response<FakeEndpointResponse>, Status> {
        match self.dev.as_ref().filter(|_| self.has_old_wires) {
            Some(dev) => dev.fake_endpoint(request).await,
            None => Err(unknown("FakeEndpoint")),
        }
    }
}

fn descriptor(profile: String, operation: &str, algorithm: &str) -> CryptoDescriptor {
    CryptoDescriptor { profile, operation: operation.to_owned(), algorithm: algorithm.to_owned() }
}
