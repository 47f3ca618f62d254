//! The development service: a benchmark, and an endpoint that fails four times of five to show retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::broker::open::{
    BenchmarkRequest, BenchmarkResponse, FakeEndpointRequest, FakeEndpointResponse, MetadataW1,
};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};

use super::call::{Call, work_of};
use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDev;
use super::open::request::{check_metadata_w1, trace_w1};
use super::status::status;
use crate::benchmark::{self, Inputs};
use crate::service::{Asked, Done, Service};
use crate::{Code, Refusal};

/// Shared by the two paths that it has.
#[derive(Clone, Debug)]
pub(super) struct Dev(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    inputs: Inputs,
    calls: AtomicU64,
    /// Two at a time would measure each other.
    running: Mutex<()>,
}

impl Dev {
    /// One whose counter begins anew.
    pub(super) fn new(service: Arc<Service>, inputs: Inputs) -> Dev {
        Dev(Arc::new(Shared { service, inputs, calls: AtomicU64::new(0), running: Mutex::new(()) }))
    }

    /// Does one of its operations, which take no profile.
    async fn run<T: Send>(
        &self,
        call: &Call,
        operation: &'static str,
        metadata: Option<&MetadataW1>,
        work: impl FnOnce() -> Result<T, Refusal> + Send,
    ) -> Result<T, Status> {
        let fits = check_metadata_w1(metadata);
        let trace = trace_w1(metadata, &fits);
        let asked = Asked { operation, wire: "w3", profile: None, key: None, count: 0, bytes_in: 0 };
        let work = |_: &_| Ok(Done { value: work()?, key_version: None, bytes_out: 0 });
        call.run(&self.0.service, trace, asked, fits, work).await.map_err(status)
    }
}

#[tonic::async_trait]
impl CryptoGrpcDev for Dev {
    async fn benchmark(&self, request: Request<BenchmarkRequest>) -> Result<Response<BenchmarkResponse>, Status> {
        let call = Call::of(&request)?;
        let metadata = request.into_inner().metadata;
        let _turn = self.0.running.lock().await;
        let inputs = &self.0.inputs;
        let run = || {
            let results = work_of(u64::MAX, || benchmark::run(inputs));
            tracing::Span::current().record("crypto.benchmark_results_size", results.len());
            Ok(results)
        };
        let benchmark_results = self.run(&call, "Benchmark", metadata.as_ref(), run).await?;
        Ok(Response::new(BenchmarkResponse { benchmark_results, metadata }))
    }

    async fn fake_endpoint(
        &self,
        request: Request<FakeEndpointRequest>,
    ) -> Result<Response<FakeEndpointResponse>, Status> {
        let call = Call::of(&request)?;
        let metadata = request.into_inner().metadata;
        let count = || {
            let number = self.0.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if number.is_multiple_of(5) {
                return Ok("Fake endpoint called successfully".to_owned());
            }
            Err(Refusal::new(Code::Unavailable, "fake endpoint is temporarily down"))
        };
        let message = self.run(&call, "FakeEndpoint", metadata.as_ref(), count).await?;
        Ok(Response::new(FakeEndpointResponse { message, metadata }))
    }
}
