//! Remote calls on a stream: many at once, each with a deadline and able to be taken back, and notifications; from either
//! side. SPEC rpc.md

mod link;
mod serve;

use std::sync::Arc;
use std::time::Duration;

pub use sealway_proto::rpc::{FRAME_LEN_MAX, RpcError};
use serde_json::Value;

use super::error::{Error, Stage};
use super::{Channel, Hello, Stream};
use link::Link;
pub use serve::{Called, Handlers};

/// How long a call waits for its answer, unless said.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error.
    #[error("{0}")]
    Refused(#[from] RpcError),
    /// No answer came in time; the peer was told that nobody waits any more.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The request, or its answer, is longer than a frame may be, in bytes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// The stream or its channel is over. Whether the request was handled is not known.
    #[error("{0}")]
    Broken(Error),
}

impl CallError {
    /// Every code that [`CallError::code`] can return, for the test that compares them with `spec/registry.toml`.
    pub const CODES: &'static [&'static str] =
        &["handler_not_found", "rpc_error", "rpc_timeout", "rpc_too_large", "transport_error"];

    /// The stable code of `spec/registry.toml`; an answer's number is in [`CallError::Refused`].
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

/// Remote calls over one stream. Clones are handles of the same; the stream ends with the last one.
#[derive(Clone)]
pub struct Rpc(Arc<Link>);

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rpc")
    }
}

impl Rpc {
    /// Opens a stream for calls on a channel. `handlers` answer what the peer asks on it.
    ///
    /// # Errors
    /// Why the channel is over.
    pub async fn open(channel: &Channel, handlers: Handlers) -> Result<Rpc, Error> {
        let hello =
            Hello::new(Hello::RPC).map_err(|err| Error::new(Stage::Stream, "hello_invalid", err.to_string()))?;
        Ok(Rpc::over(channel.open(&hello).await?, handlers))
    }

    /// Calls over a stream whose prologue has passed, from either side.
    pub fn over(stream: Stream, handlers: Handlers) -> Rpc {
        Rpc(Link::start(stream, handlers))
    }

    /// Asks the handler of `type_id` and waits for its answer, up to [`TIMEOUT`].
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, type_id: u32, payload: Value) -> Result<Value, CallError> {
        self.call_within(type_id, payload, TIMEOUT).await
    }

    /// As [`Rpc::call`], for `timeout` at most (49 days at most are told to the peer). Whoever drops the future takes the
    /// request back.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_within(&self, type_id: u32, payload: Value, timeout: Duration) -> Result<Value, CallError> {
        self.0.call(type_id, payload, timeout).await
    }

    /// Tells the peer something. It returns when it is on its way; nobody says whether it arrived.
    ///
    /// # Errors
    /// [`CallError::TooLong`], [`CallError::Broken`].
    pub async fn notify(&self, type_id: u32, payload: Value) -> Result<(), CallError> {
        self.0.notify(type_id, payload).await
    }

    /// Waits until nothing more can come or go.
    pub async fn over_now(&self) {
        self.0.over().await;
    }
}
