//! From a request's path to the service that answers it.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;

use super::call::Call;
use super::dev::Dev;
use super::generated::health::health_server::HealthServer;
use super::generated::open::crypto_grpc_dev_server::CryptoGrpcDevServer;
use super::generated::open::crypto_grpc_server::CryptoGrpcServer;
use super::open::Open;
use super::{Health, Method, Peer};
use crate::service::Service;

/// The longest request, in bytes; beyond it, 11.
const REQUEST_MAX: usize = 2 * 1024 * 1024;
/// The longest answer, in bytes.
const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// What is served.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The wires W0 to W2 too.
    pub has_old_wires: bool,
    /// Benchmark and FakeEndpoint.
    pub is_dev: bool,
}

/// Every service.
#[derive(Debug)]
pub struct Wires {
    open: CryptoGrpcServer<Open>,
    dev: Option<CryptoGrpcDevServer<Dev>>,
    health: HealthServer<Health>,
    state: Health,
}

macro_rules! bounded {
    ($server:expr) => {
        $server.max_decoding_message_size(REQUEST_MAX).max_encoding_message_size(ANSWER_MAX)
    };
}

impl Wires {
    /// The wires to a service.
    pub fn new(service: Arc<Service>, options: Options) -> Wires {
        let dev = options.is_dev.then(|| Dev::new(service.clone()));
        let open = Open::new(service, dev.clone(), options.has_old_wires);
        let state = Health::new(vec!["CryptoBroker.CryptoGrpc"]);
        Wires {
            open: bounded!(CryptoGrpcServer::new(open)),
            dev: dev.map(|dev| bounded!(CryptoGrpcDevServer::new(dev))),
            health: bounded!(HealthServer::new(state.clone())),
            state,
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
    pub async fn answer(
        self: Arc<Wires>,
        mut request: http::Request<Incoming>,
        peer: Peer,
    ) -> Result<http::Response<Body>, Infallible> {
        let Some(method) = Method::find(request.uri().path()) else {
            return Ok(Status::unimplemented("unknown service or method").into_http());
        };
        request.extensions_mut().insert(Call::new(peer));
        // A panic is a bug of ours: it must cost one call and no more.
        let answer = AssertUnwindSafe(self.route(method, request)).catch_unwind().await;
        Ok(answer.unwrap_or_else(|_| Status::internal("internal error").into_http()))
    }

    async fn route(&self, method: &'static Method, request: http::Request<Incoming>) -> http::Response<Body> {
        let answer = match method.service {
            "CryptoBroker.CryptoGrpc" => self.open.clone().call(request).await,
            "grpc.health.v1.Health" => self.health.clone().call(request).await,
            "CryptoBroker.CryptoGrpcDev" => match &self.dev {
                Some(dev) => dev.clone().call(request).await,
                None => Ok(Status::unimplemented("unknown service CryptoBroker.CryptoGrpcDev").into_http()),
            },
            _ => Ok(Status::unimplemented("not on this broker yet").into_http()),
        };
        // The error is one that cannot be.
        answer.unwrap_or_else(|never| match never {})
    }
}
