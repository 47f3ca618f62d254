//! The HTTP API of the transit engine of Vault and OpenBao, for their unchanged clients: the operations of our own wire,
//! with the same profiles, keys, rules, audit log and memory. A caller is known by a token, which rules name.
//!
//! The parameters of a request ask for an algorithm; of the profiles that the caller may use, the first one with exactly
//! this algorithm allows it. Served on loopback addresses alone: there is no TLS.
// SPEC broker.md#transit

mod answer;
mod data;
mod fields;
mod keys;
mod names;
mod route;
mod server;
mod sign;
mod status;
mod tokens;

use std::sync::Arc;

use crate::call::Call;
use crate::keys::Key;
use crate::profile::LiveFile;
use crate::profile::policy::Profile;
use crate::service::Query;
use crate::wire::Wires;
use crate::{Code, Refusal, Result};

pub use fields::{Batch, Fields};
pub use server::serve;
pub use tokens::{Tokens, draw};

/// Name of the service in telemetry, and of the wire in audit lines.
pub const SERVICE: &str = "transit";
/// Default name of the mount: the first part of a path after `/v1/`.
pub const MOUNT: &str = "transit";

/// The API with its tokens.
#[derive(Debug)]
pub struct Transit {
    wires: Arc<Wires>,
    tokens: Arc<LiveFile<Tokens>>,
    mount: String,
}

impl Transit {
    /// Creates the API over the operations of `wires`, under the name of a mount.
    pub fn new(wires: Arc<Wires>, tokens: Arc<LiveFile<Tokens>>, mount: impl Into<String>) -> Transit {
        Transit { wires, tokens, mount: mount.into() }
    }
}

/// A call with the path's parts.
struct Request<'a> {
    wires: &'a Wires,
    call: &'a Call,
    /// Id of the key in the path; empty for operations without a key.
    name: &'a str,
    /// Last part of the path, where it is an option.
    option: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn key_id(&self) -> Option<&'a str> {
        Some(self.name).filter(|name| !name.is_empty())
    }

    /// Returns the key of the path, for a caller that may use it in this operation.
    fn key(&self, operation: &str) -> Result<Arc<Key>> {
        let service = &self.wires.service;
        let profiles = service.profiles.current();
        service.with_callers(&profiles, |callers| callers.allows(&self.call.peer, operation, None, self.key_id()))?;
        service.store()?.get(self.name)
    }

    /// Finds the first profile that the caller may use for the operation, and that has the algorithm. `wanted` names the
    /// algorithm in the error.
    fn profile(&self, operation: &str, wanted: &str, has: impl Fn(&Profile) -> bool) -> Result<String> {
        let (service, peer) = (&self.wires.service, &self.call.peer);
        let profiles = service.profiles.current();
        service.with_callers(&profiles, |callers| {
            callers.allows(peer, operation, None, self.key_id())?;
            let may = |profile: &Profile| callers.allows(peer, operation, Some(&profile.name), self.key_id()).is_ok();
            let found = profiles.iter().find(|profile| has(profile) && may(profile));
            found.map(|profile| profile.name.clone()).ok_or_else(|| {
                let text = format!("no profile that this caller may use for {operation} has {wanted}");
                Refusal::new(Code::FailedPrecondition, text)
            })
        })
    }

    /// Records an operation that is rejected before it has a profile, and returns its error.
    async fn reject<T: Send>(&self, operation: &'static str, refusal: Refusal) -> Result<T> {
        let trace = self.call.trace();
        let query = Query { operation, wire: SERVICE, key: self.key_id(), count: 1, trace, ..Query::default() };
        let no_work = |_: &_| Err(Refusal::new(Code::Internal, "a rejected operation was run"));
        Ok(self.wires.service.run(self.call, query, Err(refusal), no_work).await?.value)
    }
}
