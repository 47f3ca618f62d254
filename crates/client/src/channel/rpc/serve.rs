//! Handlers of requests and notifications, with their bounds.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sealway_proto::rpc::RpcError;
use serde_json::Value;

/// A request that a handler answers.
pub struct Invocation {
    /// Type of the request, which selected the handler.
    pub type_id: u32,
    /// Payload of the request, as JSON.
    pub payload: Value,
    /// Time for which the caller waits, if the caller sent it. The handler is stopped then.
    pub timeout: Option<Duration>,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Called(type {}, payload redacted, timeout {:?})", self.type_id, self.timeout)
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;
type Handler = Arc<dyn Fn(Invocation) -> Answer + Send + Sync>;
type Listener = Arc<dyn Fn(Value) + Send + Sync>;

/// Handlers of one side. Requests of a stream run concurrently, up to a bound.
#[derive(Clone)]
pub struct Handlers {
    requests: HashMap<u32, Handler>,
    notifications: HashMap<u32, Listener>,
    pub(super) at_once_max: usize,
    pub(super) frame_len_max: usize,
}

impl Default for Handlers {
    fn default() -> Self {
        Handlers {
            requests: HashMap::new(),
            notifications: HashMap::new(),
            at_once_max: 256,
            frame_len_max: sealway_proto::rpc::FRAME_LEN_MAX,
        }
    }
}

impl Handlers {
    /// Creates handlers that answer nothing, for a side that only calls.
    pub fn none() -> Self {
        Handlers::default()
    }

    /// Registers a handler for requests of a type. If the caller cancels or its time is over, the handler is dropped at
    /// its next await.
    #[must_use]
    pub fn on<F, A>(mut self, type_id: u32, handler: F) -> Self
    where
        F: Fn(Invocation) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.requests.insert(type_id, Arc::new(move |called| Box::pin(handler(called))));
        self
    }

    /// Registers a listener for notifications of a type. Notifications run in order, and block the reading of later
    /// frames: a listener must not wait.
    #[must_use]
    pub fn on_notification(mut self, type_id: u32, listener: impl Fn(Value) + Send + Sync + 'static) -> Self {
        self.notifications.insert(type_id, Arc::new(listener));
        self
    }

    /// Sets the concurrent requests of a stream, at least 1; the next one is not read before one of them is done.
    /// Default 256.
    #[must_use]
    pub fn at_once(mut self, max: usize) -> Self {
        self.at_once_max = max.max(1);
        self
    }

    /// Sets the longest frame that is read and written, in bytes. Default 1 MiB.
    #[must_use]
    pub fn frames_up_to(mut self, bytes: usize) -> Self {
        self.frame_len_max = bytes;
        self
    }

    pub(super) fn hear(&self, type_id: u32, payload: Value) {
        if let Some(listener) = self.notifications.get(&type_id) {
            listener(payload);
        }
    }

    /// Runs the handler of a request until it ends, panics or reaches its deadline.
    pub(super) async fn answer(&self, called: Invocation) -> Result<Value, RpcError> {
        let Some(handler) = self.requests.get(&called.type_id).cloned() else {
            return Err(RpcError::handler_not_found());
        };
        let limit = called.timeout;
        // The closure is called inside, so that its own panic is caught too.
        let answer = AssertUnwindSafe(async move { handler(called).await }).catch_unwind();
        let answered = match limit {
            None => Ok(answer.await),
            Some(limit) => tokio::time::timeout(limit, answer).await,
        };
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RpcError::new(RpcError::INTERNAL, "the handler failed")),
            Err(_) => Err(RpcError::new(RpcError::DEADLINE_EXCEEDED, "not done in the time that was given")),
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handlers({} of requests, {} of notifications)", self.requests.len(), self.notifications.len())
    }
}
