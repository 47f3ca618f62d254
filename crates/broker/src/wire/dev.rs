//! The development service: a benchmark, and an endpoint that fails four times out of five to demonstrate retries.

use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::broker::open::{
    BenchmarkRequest, BenchmarkResponse, FakeEndpointRequest, FakeEndpointResponse, MetadataW1,
};
use tokio::sync::Mutex;

use super::Wires;
use super::open::{check_metadata_w1, trace_w1};
use crate::benchmark::{self, Inputs};
use crate::call::Call;
use crate::service::{Outcome, Query, work_of};
use crate::{Code, Refusal, Result};

/// State of the service, shared by its two paths.
#[derive(Debug)]
pub(super) struct Dev {
    inputs: Inputs,
    calls: AtomicU64,
    /// Held by a running benchmark: two at a time would distort each other.
    running: Mutex<()>,
}

impl Dev {
    /// Creates a state with a counter from 0.
    pub(super) fn new(inputs: Inputs) -> Dev {
        Dev { inputs, calls: AtomicU64::new(0), running: Mutex::new(()) }
    }

    fn of(wires: &Wires) -> Result<&Dev> {
        wires.dev.as_ref().ok_or_else(|| Refusal::new(Code::Internal, "a service without its state"))
    }
}

/// Runs one of the service's operations, which take no profile.
async fn run(
    wires: &Wires,
    call: &Call,
    operation: &'static str,
    metadata: Option<&MetadataW1>,
    work: impl FnOnce() -> Result<String> + Send,
) -> Result<String> {
    let fits = check_metadata_w1(metadata);
    let query = Query { operation, wire: "w3", trace: trace_w1(metadata, &fits), ..Query::default() };
    let outcome = wires.service.run(call, query, fits, |_| Ok(Outcome::new(work()?, 0))).await?;
    Ok(outcome.value)
}

pub(super) async fn benchmark(wires: &Wires, call: &Call, request: BenchmarkRequest) -> Result<BenchmarkResponse> {
    let dev = Dev::of(wires)?;
    let metadata = request.metadata;
    let _turn = dev.running.lock().await;
    let work = || {
        let results = work_of(u64::MAX, || benchmark::run(&dev.inputs));
        tracing::Span::current().record("crypto.benchmark_results_size", results.len());
        Ok(results)
    };
    let benchmark_results = run(wires, call, "Benchmark", metadata.as_ref(), work).await?;
    Ok(BenchmarkResponse { benchmark_results, metadata })
}

pub(super) async fn fake_endpoint(
    wires: &Wires,
    call: &Call,
    request: FakeEndpointRequest,
) -> Result<FakeEndpointResponse> {
    let dev = Dev::of(wires)?;
    let metadata = request.metadata;
    let work = || {
        let number = dev.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if number.is_multiple_of(5) {
            return Ok("Fake endpoint called successfully".to_owned());
        }
        Err(Refusal::new(Code::Unavailable, "fake endpoint is temporarily down"))
    };
    let message = run(wires, call, "FakeEndpoint", metadata.as_ref(), work).await?;
    Ok(FakeEndpointResponse { message, metadata })
}
