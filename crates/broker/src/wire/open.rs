//! The wires W1 to W4 of the Open Crypto Broker, which share their paths.

use std::sync::Arc;

use sealway_proto::broker::open::{
    BenchmarkRequest, BenchmarkResponse, CryptoDescriptor, DecryptDataRequest, DecryptDataResponse, EncryptDataRequest,
    EncryptDataResponse, FakeEndpointRequest, FakeEndpointResponse, HashDataRequest, HashDataResponse,
    HashOutputFormat, HashRequest, HashResponse, Metadata, SignCertificateRequest, SignCertificateResponse,
    SignRequest, SignResponse, hash_data_response,
};
use tonic::{Request, Response, Status};

use super::bounds;
use super::call::Call;
use super::dev::Dev;
use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDev;
use super::generated::open::crypto_grpc_server::CryptoGrpc;
use super::status::status;
use crate::Refusal;
use crate::service::Service;

/// What answers on them.
#[derive(Debug)]
pub struct Open {
    service: Arc<Service>,
    dev: Option<Dev>,
    has_old_wires: bool,
}

impl Open {
    pub(super) fn new(service: Arc<Service>, dev: Option<Dev>, has_old_wires: bool) -> Open {
        Open { service, dev, has_old_wires }
    }
}

const HASHING: &str = "something went wrong while hashing data: ";

/// What is wrong with the request itself is told as the error of a call within.
fn shape(refusal: Refusal) -> Refusal {
    Refusal { code: refusal.code, text: format!("rpc error: code = InvalidArgument desc = {}", refusal.text) }
}

fn failed(doing: &str, refusal: Refusal) -> Status {
    status(Refusal { code: refusal.code, text: format!("{doing}{}", refusal.text) })
}

fn check_metadata(metadata: Option<&Metadata>) -> Result<(), Refusal> {
    metadata.map_or(Ok(()), |metadata| bounds::metadata(&metadata.id, metadata.trace_context.as_ref()))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[tonic::async_trait]
impl CryptoGrpc for Open {
    async fn hash_data(&self, request: Request<HashDataRequest>) -> Result<Response<HashDataResponse>, Status> {
        let _call = Call::of(&request)?;
        let request = request.into_inner();
        let check = bounds::profile(&request.profile)
            .and_then(|()| bounds::at_most("input", request.input.len(), bounds::INPUT_MAX))
            .and_then(|()| check_metadata(request.metadata.as_ref()));
        let made = check.map_err(shape).and_then(|()| self.service.hash(&request.profile, &[&request.input]));
        let made = made.map_err(|refusal| failed(HASHING, refusal))?;
        let digest = made.digests.into_iter().next().unwrap_or_default();
        let hash_value = if request.output_format == i32::from(HashOutputFormat::Raw) {
            hash_data_response::HashValue::HashValueRaw(digest)
        } else {
            hash_data_response::HashValue::HashValueHex(hex(&digest))
        };
        Ok(Response::new(HashDataResponse {
            hash_algorithm: made.algorithm.to_owned(),
            metadata: request.metadata,
            descriptor: Some(CryptoDescriptor {
                profile: request.profile,
                operation: "HashData".to_owned(),
                algorithm: made.algorithm.to_owned(),
            }),
            hash_value: Some(hash_value),
        }))
    }

    async fn sign_certificate(
        &self,
        _: Request<SignCertificateRequest>,
    ) -> Result<Response<SignCertificateResponse>, Status> {
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn encrypt_data(&self, _: Request<EncryptDataRequest>) -> Result<Response<EncryptDataResponse>, Status> {
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn decrypt_data(&self, _: Request<DecryptDataRequest>) -> Result<Response<DecryptDataResponse>, Status> {
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let _ = self.has_old_wires;
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn sign(&self, _: Request<SignRequest>) -> Result<Response<SignResponse>, Status> {
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn benchmark(&self, request: Request<BenchmarkRequest>) -> Result<Response<BenchmarkResponse>, Status> {
        match &self.dev {
            Some(dev) => dev.benchmark(request).await,
            None => Err(Status::unimplemented("unknown method Benchmark for service CryptoBroker.CryptoGrpc")),
        }
    }

    async fn fake_endpoint(
        &self,
        request: Request<FakeEndpointRequest>,
    ) -> Result<Response<FakeEndpointResponse>, Status> {
        match &self.dev {
            Some(dev) => dev.fake_endpoint(request).await,
            None => Err(Status::unimplemented("unknown method FakeEndpoint for service CryptoBroker.CryptoGrpc")),
        }
    }
}
