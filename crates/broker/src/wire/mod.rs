//! The wires: paths, messages, bounds and texts. A handler takes a message, calls the [`Service`], and answers in the
//! form of its wire.

mod bounds;
mod certificate;
mod dev;
mod health;
mod message;
mod open;
pub mod transit;
mod v1;
mod w0;

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::Map;
use prost::Message;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Code, Request, Response, Status};

use self::bounds::{ANSWER_MAX, BoundedCodec, CALL_LEN, REQUEST_MAX, RequestBody};
use self::dev::Dev;
use self::message::answer_of;
use crate::Result;
use crate::benchmark::Inputs;
use crate::call::Call;
use crate::callers::{Peer, Shares};
use crate::service::{NO_ROOM, Query, Service};

pub use self::bounds::Answer;
pub use self::health::Health;
pub(crate) use self::v1::{hash_name, signature_name};

/// Keys generated concurrently; others wait for their turn.
const MAKING_MAX: usize = 2;

/// Options of the served wires.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if the wires W0 to W2 are served.
    pub has_earlier_wires: bool,
    /// Inputs of Benchmark; `None` if the development service is off.
    pub dev: Option<Inputs>,
    /// Memory of all running calls, in bytes; calls beyond it are rejected.
    pub calls_memory: usize,
}

impl Options {
    /// Default memory of calls: some thousand small ones, or sixty of the largest.
    pub const CALLS_MEMORY: usize = 128 * 1024 * 1024;
}

/// All services on all wires.
#[derive(Debug)]
pub struct Wires {
    service: Arc<Service>,
    health: Health,
    dev: Option<Dev>,
    has_earlier_wires: bool,
    /// Turns for generating keys. An RSA key takes a processor for up to a minute: many at once would leave none for
    /// other calls.
    making: Semaphore,
    memory: Arc<Shares>,
}

/// Body of a request, as a connection passes it on.
pub trait RequestBytes: hyper::body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + Unpin + 'static {}

impl<B> RequestBytes for B where
    B: hyper::body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + Unpin + 'static
{
}

/// A gRPC method of a service.
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// Path of a request: `/package.Service/Name`.
    pub path: &'static str,
    /// Full name of the service: `package.Service`.
    pub service: &'static str,
    /// Name of the method: `Name`.
    pub name: &'static str,
    /// True if the method answers with a stream.
    pub is_stream: bool,
}

impl Method {
    /// Stands for every unknown path, so that calls of it are counted and logged without a name of the caller's.
    pub const UNKNOWN: Method = Method { path: "/unknown", service: "unknown", name: "unknown", is_stream: false };

    /// True for a method of our own wire.
    pub fn is_ours(&self) -> bool {
        self.service.starts_with("sealway.")
    }

    /// True for a method whose work on a short request takes a few µs: it costs less than a task of its own.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.name, "HashData" | "Hash" | "Check" | "Mac" | "VerifyMac" | "Information")
    }

    /// Name in audit lines of the wire that offers operations with keys of the store: our own, or the transit API.
    pub(crate) fn own_wire(&self) -> &'static str {
        if self.service == transit::SERVICE { transit::SERVICE } else { "v1" }
    }

    /// Protocol of the method in the log.
    pub(crate) fn protocol(&self) -> &'static str {
        if self.service == transit::SERVICE { "http" } else { "grpc" }
    }

    /// Kind of the method, as Go's gRPC names it.
    pub fn kind(&self) -> &'static str {
        if self.is_stream { "server_stream" } else { "unary" }
    }

    /// Finds the method of a path.
    pub fn find(path: &str) -> Option<&'static Method> {
        METHODS.iter().find(|method| method.path == path)
    }
}

/// Defines the methods of each service with their handlers.
macro_rules! methods {
    ($($service:literal { $($name:literal => $kind:ident $handler:path,)* })*) => {
        /// All methods of all services.
        pub const METHODS: &[Method] = &[$($(Method {
            path: concat!("/", $service, "/", $name),
            service: $service,
            name: $name,
            is_stream: methods!(@ $kind),
        },)*)*];

        impl Wires {
            /// Calls the handler of the method.
            fn route<'a, B>(
                &'a self,
                call: &'a Call,
                request: http::Request<RequestBody<B>>,
            ) -> Pin<Box<dyn Future<Output = http::Response<Body>> + Send + 'a>>
            where
                B: RequestBytes,
            {
                match (call.method.service, call.method.name) {
                    ("CryptoBroker.CryptoGrpcDev", _) if self.dev.is_none() => Box::pin(unknown(call.method)),
                    ("protobuf.CryptoBroker", _) if !self.has_earlier_wires => Box::pin(unknown(call.method)),
                    $($(($service, $name) => {
                        Box::pin($kind(request, move |message| $handler(self, call, message)))
                    })*)*
                    _ => Box::pin(unknown(call.method)),
                }
            }
        }
    };
    (@ unary) => { false };
    (@ stream) => { true };
}

// The most frequent methods come first.
methods! {
    "CryptoBroker.CryptoGrpc" {
        "HashData" => unary open::hash_data,
        "SignCertificate" => unary open::sign_certificate,
        "EncryptData" => unary open::encrypt::encrypt_data,
        "DecryptData" => unary open::encrypt::decrypt_data,
        "SignData" => unary open::sign::sign_data,
        "VerifyData" => unary open::sign::verify_data,
        "Hash" => unary open::hash,
        "Sign" => unary open::sign,
        "Benchmark" => unary open::benchmark,
        "FakeEndpoint" => unary open::fake_endpoint,
    }
    "sealway.broker.v1.Broker" {
        "Hash" => unary v1::hash,
        "SignCertificate" => unary v1::sign_certificate,
        "Encrypt" => unary v1::sealing::encrypt,
        "Decrypt" => unary v1::sealing::decrypt,
        "Rewrap" => unary v1::sealing::rewrap,
        "Sign" => unary v1::sign,
        "Verify" => unary v1::verify,
        "Mac" => unary v1::mac,
        "VerifyMac" => unary v1::verify_mac,
        "Derive" => unary v1::secrets::derive,
        "Random" => unary v1::secrets::random,
        "Encapsulate" => unary v1::secrets::encapsulate,
        "Decapsulate" => unary v1::secrets::decapsulate,
        "Unwrap" => unary v1::secrets::unwrap,
        "Information" => unary v1::information,
    }
    "grpc.health.v1.Health" {
        "Check" => unary health::check,
        "List" => unary health::list,
        "Watch" => stream health::watch,
    }
    "sealway.broker.v1.Keys" {
        "Generate" => unary v1::keys::generate,
        "Import" => unary v1::keys::import,
        "List" => unary v1::keys::list,
        "Rotate" => unary v1::keys::rotate,
        "Disable" => unary v1::keys::disable,
        "Enable" => unary v1::keys::enable,
        "PublicKey" => unary v1::keys::public_key,
    }
    "protobuf.CryptoBroker" {
        "Hash" => unary w0::hash,
        "Sign" => unary w0::sign,
    }
    "CryptoBroker.CryptoGrpcDev" {
        "Benchmark" => unary dev::benchmark,
        "FakeEndpoint" => unary dev::fake_endpoint,
    }
}

impl Wires {
    /// Creates the wires of a service.
    pub fn new(service: Arc<Service>, options: Options) -> Wires {
        let dev = options.dev.map(Dev::new);
        let mut services = vec!["CryptoBroker.CryptoGrpc", "sealway.broker.v1.Broker", "sealway.broker.v1.Keys"];
        services.extend(options.has_earlier_wires.then_some("protobuf.CryptoBroker"));
        services.extend(dev.as_ref().map(|_| "CryptoBroker.CryptoGrpcDev"));
        Wires {
            service,
            health: Health::new(services),
            dev,
            has_earlier_wires: options.has_earlier_wires,
            making: Semaphore::new(MAKING_MAX),
            memory: Shares::bytes(options.calls_memory),
        }
    }

    /// Returns the health service's state.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Writes the audit line of a call that was rejected before its message was read: of its caller, its method and the
    /// code, for nothing else is known. The health service has no lines.
    async fn record_unread(&self, call: &Call, status: &Status) {
        let method = call.method;
        if call.has_begun() || method.service == "grpc.health.v1.Health" {
            return;
        }
        let query = Query { operation: method.name, wire: method.service, ..Query::default() };
        let code = u8::try_from(i32::from(status.code())).unwrap_or(u8::MAX);
        self.service.record_rejection(&call.peer, &query, code).await;
    }

    /// Answers a request, and ends its call.
    ///
    /// # Errors
    /// None: failures are gRPC statuses in the answer.
    pub async fn answer<B>(
        self: Arc<Wires>,
        request: http::Request<B>,
        peer: Peer,
    ) -> Result<http::Response<Answer>, Infallible>
    where
        B: RequestBytes,
    {
        let method = Method::find(request.uri().path()).unwrap_or(&Method::UNKNOWN);
        let share = self.memory.take(&peer, CALL_LEN).ok();
        let call = Arc::new(Call::new(method, peer, request.headers(), share, self.service.now_ms()));
        let request = request.map(|body| RequestBody::new(body, call.clone()));
        let (wires, answered) = (self.clone(), call.clone());
        let answering = survive(async move { readable(wires.route(&answered, request).await, &answered) });
        let answer = match call.deadline {
            _ if !call.has_room() => Status::resource_exhausted(NO_ROOM).into_http(),
            None => answering.await,
            Some(deadline) => {
                let answer = tokio::time::timeout_at(deadline.into(), answering).await;
                answer.unwrap_or_else(|_| Status::deadline_exceeded("the deadline has passed").into_http())
            }
        };
        let status = Status::from_header_map(answer.headers());
        if let Some(status) = &status {
            self.record_unread(&call, status).await;
        }
        match status {
            Some(status) => call.end(status.code(), status.message()),
            // The headers of a successful answer have no status; the end of a stream is not awaited.
            None => call.end(Code::Ok, ""),
        }
        Ok(answer.map(|body| Answer::new(body, call)))
    }
}

/// Adapts a handler to tonic's service traits.
struct Handler<H>(H);

type GrpcFuture<F, T> = Map<F, fn(Result<T>) -> Result<Response<T>, Status>>;

fn respond<T>(answer: Result<T>) -> Result<Response<T>, Status> {
    answer.map(Response::new).map_err(Status::from)
}

impl<H, F, M, T> UnaryService<M> for Handler<H>
where
    H: FnMut(M) -> F,
    F: Future<Output = Result<T>>,
{
    type Response = T;
    type Future = GrpcFuture<F, T>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        self.0(request.into_inner()).map(respond)
    }
}

impl<H, F, M, S, T> ServerStreamingService<M> for Handler<H>
where
    H: FnMut(M) -> F,
    F: Future<Output = Result<S>>,
    S: futures_util::Stream<Item = Result<T, Status>>,
{
    type Response = T;
    type ResponseStream = S;
    type Future = GrpcFuture<F, S>;

    fn call(&mut self, request: Request<M>) -> Self::Future {
        self.0(request.into_inner()).map(respond)
    }
}

fn grpc<T, M>() -> Grpc<BoundedCodec<T, M>>
where
    T: Message + Send + 'static,
    M: Message + Default + Send + 'static,
{
    Grpc::new(BoundedCodec::default()).apply_max_message_size_config(Some(REQUEST_MAX), Some(ANSWER_MAX))
}

async fn unary<B, M, T, F>(
    mut request: http::Request<RequestBody<B>>,
    mut handler: impl FnMut(M) -> F,
) -> http::Response<Body>
where
    B: RequestBytes,
    M: Message + Default + Send + 'static,
    T: Message + Send + 'static,
    F: Future<Output = Result<T>>,
{
    // What tonic does for any request takes more than most operations.
    let whole = match request.headers().get("grpc-encoding") {
        None => poll_fn(|cx| Poll::Ready(request.body_mut().whole(cx))).await,
        Some(_) => None,
    };
    let Some(message) = whole else { return grpc::<T, M>().unary(Handler(handler), request).await };
    drop(request);
    match handler(message).await {
        Ok(answer) => answer_of(&answer),
        Err(refusal) => Status::from(refusal).into_http(),
    }
}

async fn stream<B, M, T, S, F>(
    request: http::Request<RequestBody<B>>,
    handler: impl FnMut(M) -> F,
) -> http::Response<Body>
where
    B: RequestBytes,
    M: Message + Default + Send + 'static,
    T: Message + Send + 'static,
    S: futures_util::Stream<Item = Result<T, Status>> + Send + 'static,
    F: Future<Output = Result<S>>,
{
    grpc::<T, M>().server_streaming(Handler(handler), request).await
}

/// Catches a panic, a defect of the broker: it must fail one call only.
async fn survive(answer: impl Future<Output = http::Response<Body>>) -> http::Response<Body> {
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|_| Status::internal("internal error").into_http())
}

/// Corrects the code of a call that ended before it began: its message could not be read, which tonic reports as an
/// internal error.
fn readable(answer: http::Response<Body>, call: &Call) -> http::Response<Body> {
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() == Code::Internal && !call.has_begun() => {
            Status::invalid_argument(format!("the message cannot be read: {}", status.message())).into_http()
        }
        _ => answer,
    }
}

/// Answers an unknown method as Go's gRPC does.
async fn unknown(method: &Method) -> http::Response<Body> {
    Status::unimplemented(format!("unknown service {}", method.service)).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_fails_only_its_call_and_reveals_nothing() {
        let answer = survive(async { panic!("with a secret") }).await;
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!((status.code(), status.message()), (tonic::Code::Internal, "internal error"));
    }

    #[test]
    fn every_call_of_the_specification_is_listed() {
        let specification = [
            include_str!("../../../../spec/broker-w0.proto"),
            include_str!("../../../../spec/broker-open.proto"),
            include_str!("../../../../spec/broker.proto"),
            include_str!("../../../../spec/broker-health.proto"),
        ];
        let mut listed = 0;
        for file in specification {
            let (mut package, mut service) = ("", "");
            for line in file.lines() {
                let mut words = line.split([' ', '(', ';']).filter(|word| !word.is_empty());
                match (words.next(), words.next()) {
                    (Some("package"), Some(name)) => package = name,
                    (Some("service"), Some(name)) => service = name,
                    (Some("rpc"), Some(name)) => {
                        let path = format!("/{package}.{service}/{name}");
                        let method = Method::find(&path).unwrap_or_else(|| panic!("{path}"));
                        assert_eq!((method.name, method.is_stream), (name, line.contains("returns (stream")), "{path}");
                        assert_eq!(method.service, format!("{package}.{service}"));
                        listed += 1;
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(listed, METHODS.len());
    }
}
