//! Remote calls on a stream: concurrent, each with a deadline and cancellable, and notifications; from either side.
//! SPEC rpc.md

mod link;
mod serve;

use std::sync::Arc;
use std::time::Duration;

pub use sealway_proto::rpc::{FRAME_LEN_MAX, RpcError};
use serde_json::Value;

use super::error::{Error, Stage};
use super::{Channel, Hello, Stream};
use link::Link;
pub use serve::{Handlers, Invocation};

/// Default wait of a call for its answer.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Failure of a call that has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error.
    #[error("{0}")]
    Refused(#[from] RpcError),
    /// No answer came in time; the peer was sent a cancellation.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The request or its answer exceeds the longest frame, in bytes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// The stream or its channel is over. The peer may have handled the request.
    #[error("{0}")]
    Broken(Error),
}

impl CallError {
    /// All codes that [`CallError::code`] returns, for the test that compares them with `spec/registry.toml`.
    pub const CODES: &'static [&'static str] =
        &["handler_not_found", "rpc_error", "rpc_timeout", "rpc_too_large", "transport_error"];

    /// Stable code of `spec/registry.toml`; [`CallError::Refused`] has the number that the peer answered.
    pub fn code(&self) -> &'static str {
        match self {
            CallError::Refused(error) if error.code == RpcError::HANDLER_NOT_FOUND => "handler_not_found",
            CallError::Refused(_) => "rpc_error",
            CallError::TimedOut(_) => "rpc_timeout",
            CallError::TooLong(_) => "rpc_too_large",
            CallError::Broken(_) => "transport_error",
        }
    }
}

/// Remote calls over one stream. Clones share the stream, which ends with the last clone.
#[derive(Clone)]
pub struct Rpc(Arc<Link>);

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rpc")
    }
}

impl Rpc {
    /// Opens a stream for calls on a channel. `handlers` answer the peer's calls on it.
    ///
    /// # Errors
    /// The reason why the channel is over.
    pub async fn open(channel: &Channel, handlers: Handlers) -> Result<Rpc, Error> {
        let hello =
            Hello::new(Hello::RPC).map_err(|err| Error::new(Stage::Stream, "hello_invalid", err.to_string()))?;
        Ok(Rpc::over(channel.open(&hello).await?, handlers))
    }

    /// Runs calls over a stream whose prologue was exchanged, from either side.
    pub fn over(stream: Stream, handlers: Handlers) -> Rpc {
        Rpc(Link::start(stream, handlers))
    }

    /// Calls the peer's handler of `type_id` and waits for its answer, up to [`TIMEOUT`].
    ///
    /// # Errors
    /// Failure without a result: [`CallError`].
    pub async fn call(&self, type_id: u32, payload: Value) -> Result<Value, CallError> {
        self.call_within(type_id, payload, TIMEOUT).await
    }

    /// Calls like [`Rpc::call`], with another timeout (the peer is sent at most 49 days). Dropping the future cancels
    /// the request.
    ///
    /// # Errors
    /// Failure without a result: [`CallError`].
    pub async fn call_within(&self, type_id: u32, payload: Value, timeout: Duration) -> Result<Value, CallError> {
        self.0.call(type_id, payload, timeout).await
    }

    /// Sends a notification. It returns once the frame is queued; there is no acknowledgement.
    ///
    /// # Errors
    /// [`CallError::TooLong`], [`CallError::Broken`].
    pub async fn notify(&self, type_id: u32, payload: Value) -> Result<(), CallError> {
        self.0.notify(type_id, payload).await
    }

    /// Waits until the stream is over in both directions.
    pub async fn over_now(&self) {
        self.0.over().await;
    }
}
