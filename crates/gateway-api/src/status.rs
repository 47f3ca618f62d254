//! Conditions and statuses of objects, as the Gateway API defines them.

use serde_json::{Value, json};

use crate::objects::Object;

/// Largest message of a condition, in bytes, as the API server accepts it.
const MESSAGE_LEN_MAX: usize = 4096;

/// Reason and message of a condition that is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Refusal { reason, message: message.into() }
    }

    /// A field or a value that the gateway's configuration cannot express.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Refusal::new("UnsupportedValue", message)
    }
}

/// Time and generation that conditions of one object have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp<'a> {
    pub(crate) now: &'a str,
    pub(crate) generation: i64,
}

impl Stamp<'_> {
    /// Returns a condition: true with a reason, or false with that of a refusal.
    pub(crate) fn condition(self, kind: &str, reason: &str, refusal: Option<&Refusal>) -> Value {
        let (is_true, reason, message) = match refusal {
            None => ("True", reason, ""),
            Some(refusal) => ("False", refusal.reason, refusal.message.as_str()),
        };
        self.with_status(kind, is_true, reason, message)
    }

    /// Returns a condition with each of its fields.
    pub(crate) fn with_status(self, kind: &str, status: &str, reason: &str, message: &str) -> Value {
        let message = &message[..message.floor_char_boundary(MESSAGE_LEN_MAX)];
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": self.generation,
            "lastTransitionTime": self.now,
        })
    }
}

impl<S> Object<S> {
    pub(crate) fn stamp<'a>(&self, now: &'a str) -> Stamp<'a> {
        Stamp { now, generation: self.metadata.generation }
    }

    /// Returns a document with the object's name and its status.
    pub(crate) fn document(&self, status: Value) -> Value {
        let mut metadata = json!({"name": self.metadata.name});
        if self.kind != "GatewayClass" {
            metadata["namespace"] = json!(self.metadata.namespace);
        }
        json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "status": status})
    }
}
