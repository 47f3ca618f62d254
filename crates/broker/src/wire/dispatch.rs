//! From a request's path to the service that answers it, and what is told of that.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use tonic::body::Body;
use tonic::codegen::{Service as _, StdError};
use tonic::{Code, Status};

use super::budget::Budget;
use super::call::Call;
use super::dev::Dev;
use super::generated::health::health_server::HealthServer;
use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDevServer;
use super::generated::open::crypto_grpc_server::CryptoGrpcServer;
use super::generated::v1::broker_server::BrokerServer;
use super::generated::v1::keys_server::KeysServer;
use super::generated::w0::crypto_broker_server::CryptoBrokerServer;
use super::open::Open;
use super::ours::{OurKeys, Ours};
use super::passage::{Answer, Arriving, no_room};
use super::w0::W0;
use super::{Health, Method, deadline};
use crate::benchmark::Inputs;
use crate::callers::Peer;
use crate::service::Service;

/// The longest request, in bytes; beyond it, 11.
pub(super) const REQUEST_MAX: usize = 2 * 1024 * 1024;
/// The longest answer, in bytes: a batch's outputs and what describes each.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// What is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The wires W0 to W2 too.
    pub has_old_wires: bool,
    /// Benchmark and FakeEndpoint, and what the first signs.
    pub dev: Option<Inputs>,
    /// What all calls that are under way may hold together, in bytes; beyond it they are refused.
    pub calls_memory: usize,
}

impl Options {
    /// What they may hold unless said otherwise: some thousand small calls, or sixty of the largest.
    pub const CALLS_MEMORY: usize = 128 * 1024 * 1024;
}

/// Every service.
#[derive(Debug)]
pub struct Wires {
    w0: Option<CryptoBrokerServer<W0>>,
    open: CryptoGrpcServer<Open>,
    dev: Option<CryptoGrpcDevServer<Dev>>,
    ours: BrokerServer<Ours>,
    keys: KeysServer<OurKeys>,
    health: HealthServer<Health>,
    state: Health,
    service: Arc<Service>,
    budget: Arc<Budget>,
}

macro_rules! bounded {
    ($server:expr) => {
        $server.max_decoding_message_size(REQUEST_MAX).max_encoding_message_size(ANSWER_MAX)
    };
}

impl Wires {
    /// The wires to a service.
    pub fn new(service: Arc<Service>, options: Options) -> Wires {
        let dev = options.dev.map(|inputs| Dev::new(service.clone(), inputs));
        let open = Open::new(service.clone(), dev.clone(), options.has_old_wires);
        let w0 = options.has_old_wires.then(|| bounded!(CryptoBrokerServer::new(W0::new(service.clone()))));
        let mut services = vec!["CryptoBroker.CryptoGrpc", "sealway.broker.v1.Broker", "sealway.broker.v1.Keys"];
        services.extend(w0.as_ref().map(|_| "protobuf.CryptoBroker"));
        services.extend(dev.as_ref().map(|_| "CryptoBroker.CryptoGrpcDev"));
        let state = Health::new(services);
        Wires {
            w0,
            open: bounded!(CryptoGrpcServer::new(open)),
            dev: dev.map(|dev| bounded!(CryptoGrpcDevServer::new(dev))),
            ours: bounded!(BrokerServer::new(Ours::new(service.clone()))),
            keys: bounded!(KeysServer::new(OurKeys::new(service.clone()))),
            health: bounded!(HealthServer::new(state.clone())),
            state,
            service,
            budget: Budget::new(options.calls_memory),
        }
    }

    /// Tells callers whether the broker serves.
    pub fn health(&self) -> &Health {
        &self.state
    }

    /// Answers a request.
    ///
    /// # Errors
    /// None.
    pub async fn answer<B>(
        self: Arc<Wires>,
        request: http::Request<B>,
        peer: Peer,
    ) -> Result<http::Response<Answer>, Infallible>
    where
        B: hyper::body::Body + Send + Unpin + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let method = Method::find(request.uri().path()).unwrap_or(&Method::UNKNOWN);
        let deadline = deadline::of(request.headers(), Instant::now());
        let held = self.budget.call(peer.uid);
        let has_room = held.is_some();
        let call = Call::new(method, peer, self.service.now_ms(), held, deadline);
        let mut request = request.map(|body| Arriving::new(body, call.clone()));
        request.extensions_mut().insert(call.clone());
        let told = call.clone();
        let answering = survive(async move { readable(self.route(method, request).await, &told) });
        let answer = match deadline {
            _ if !has_room => no_room().into_http(),
            None => answering.await,
            Some(deadline) => {
                let answer = tokio::time::timeout_at(deadline.into(), answering).await;
                answer.unwrap_or_else(|_| Status::deadline_exceeded("the deadline has passed").into_http())
            }
        };
        match Status::from_header_map(answer.headers()) {
            Some(status) => call.told().end(status.code(), status.message()),
            // The headers of an answer that is there have no status; a stream's end is not waited for.
            None => call.told().end(Code::Ok, ""),
        }
        Ok(answer.map(|body| Answer::new(body, call)))
    }

    async fn route<B>(&self, method: &'static Method, request: http::Request<B>) -> http::Response<Body>
    where
        B: hyper::body::Body + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let answer = match method.service {
            "CryptoBroker.CryptoGrpc" => self.open.clone().call(request).await,
            "sealway.broker.v1.Broker" => self.ours.clone().call(request).await,
            "sealway.broker.v1.Keys" => self.keys.clone().call(request).await,
            "grpc.health.v1.Health" => self.health.clone().call(request).await,
            "CryptoBroker.CryptoGrpcDev" => match &self.dev {
                Some(dev) => dev.clone().call(request).await,
                None => Ok(unknown(method)),
            },
            "protobuf.CryptoBroker" => match &self.w0 {
                Some(w0) => w0.clone().call(request).await,
                None => Ok(unknown(method)),
            },
            _ => Ok(unknown(method)),
        };
        // The error is one that cannot be.
        answer.unwrap_or_else(|never| match never {})
    }
}

/// A panic is a bug of ours: it must cost one call and no more.
async fn survive(answer: impl Future<Output = http::Response<Body>>) -> http::Response<Body> {
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|_| Status::internal("internal error").into_http())
}

/// What ends before its call began had a message that cannot be read: tonic answers that with the code for faults of ours.
fn readable(answer: http::Response<Body>, call: &Call) -> http::Response<Body> {
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() == Code::Internal && !call.told().has_begun() => {
            Status::invalid_argument(format!("the message cannot be read: {}", status.message())).into_http()
        }
        _ => answer,
    }
}

/// As Go's gRPC tells it.
fn unknown(method: &Method) -> http::Response<Body> {
    Status::unimplemented(format!("unknown service {}", method.service)).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_costs_one_call_and_tells_nothing_of_itself() {
        let answer = survive(async { panic!("with a secret") }).await;
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!((status.code(), status.message()), (tonic::Code::Internal, "internal error"));
    }
}
