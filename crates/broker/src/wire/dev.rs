//! The development service: a benchmark, and an endpoint that fails four times of five to show retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::broker::open::{BenchmarkRequest, BenchmarkResponse, FakeEndpointRequest, FakeEndpointResponse};
use tonic::{Request, Response, Status};

use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDev;
use crate::service::Service;

/// Shared by the two paths that it has.
#[derive(Clone, Debug)]
pub struct Dev {
    calls: Arc<AtomicU64>,
    _service: Arc<Service>,
}

impl Dev {
    /// One whose counter begins anew.
    pub(super) fn new(service: Arc<Service>) -> Dev {
        Dev { calls: Arc::default(), _service: service }
    }
}

#[tonic::async_trait]
impl CryptoGrpcDev for Dev {
    async fn benchmark(&self, _: Request<BenchmarkRequest>) -> Result<Response<BenchmarkResponse>, Status> {
        Err(Status::unimplemented("not on this broker yet"))
    }

    async fn fake_endpoint(
        &self,
        request: Request<FakeEndpointRequest>,
    ) -> Result<Response<FakeEndpointResponse>, Status> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if !call.is_multiple_of(5) {
            return Err(Status::unavailable("fake endpoint is temporarily down"));
        }
        let message = "Fake endpoint called successfully".to_owned();
        Ok(Response::new(FakeEndpointResponse { message, metadata: request.into_inner().metadata }))
    }
}
