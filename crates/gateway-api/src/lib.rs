//! Translation of resources of the Kubernetes Gateway API, and of our `SealPolicy`, into the configuration of the gateway.
//!
//! It has no I/O beyond reading manifests, and does not know the configuration's types: the caller passes a check of a
//! configuration as a function. A field that cannot be expressed is never ignored: its resource gets the condition `Accepted: False`.
//! The terms are those of the Gateway API, version 1.5.

mod attach;
mod backends;
mod listeners;
mod manifests;
mod objects;
mod policies;
mod references;
mod rules;
mod status;
mod translate;

pub use manifests::read;
pub use objects::{Defect, Resources};
pub use translate::{Check, Settings, Translation, translate};

/// Name of this controller in `spec.controllerName` of a GatewayClass, and in statuses.
pub const CONTROLLER: &str = "sealway.dev/gateway";
