//! One call, whatever its wire: its span, the service's checks, the work, the audit log.

use std::sync::Arc;

use tonic::{Request, Status};
use tracing::Instrument;

use super::Method;
use crate::Refusal;
use crate::callers::Peer;
use crate::service::{Allowed, Asked, Done, Service};
use crate::telemetry::{Told, Trace, finish_span};

/// A call that is being answered. It travels with the request.
#[derive(Clone, Debug)]
pub(super) struct Call(Arc<Told>);

impl Call {
    /// A call that has just arrived.
    pub(super) fn new(method: &'static Method, peer: Peer, now_ms: u64) -> Call {
        Call(Arc::new(Told::arrived(method, peer, now_ms)))
    }

    /// The call that a request belongs to.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Call, Status> {
        request.extensions().get::<Call>().cloned().ok_or_else(|| Status::internal("a request without its call"))
    }

    /// Who asks.
    pub(super) fn peer(&self) -> &Peer {
        self.0.peer()
    }

    /// What is told of it.
    pub(super) fn told(&self) -> &Told {
        &self.0
    }

    /// Does what is asked for if that is allowed, and writes it down. `shape` is what is wrong with the request itself.
    pub(super) async fn run<T: Send>(
        &self,
        service: &Service,
        trace: Trace<'_>,
        asked: Asked<'_>,
        shape: Result<(), Refusal>,
        work: impl FnOnce(&Allowed) -> Result<Done<T>, Refusal> + Send,
    ) -> Result<T, Refusal> {
        let span = self.0.begin(trace);
        let done = span.in_scope(|| {
            let allowed = service.allow(self.peer(), &asked, shape)?;
            if let Some(profile) = asked.profile {
                self.0.of_profile(profile);
                span.record("crypto.profile", profile);
            }
            if let Some(key) = asked.key {
                span.record("crypto.key", key);
            }
            work(&allowed)
        });
        self.0.of_bytes(asked.bytes_in);
        span.record("crypto.input_size", asked.bytes_in);
        let written = service.audit(self.peer(), &asked, &done).instrument(span.clone()).await;
        let done = written.and(done);
        match &done {
            Ok(done) => {
                span.record("crypto.output_size", done.bytes_out);
                finish_span(&span, tonic::Code::Ok, "");
            }
            Err(refusal) => finish_span(&span, tonic::Code::from_i32(refusal.code.number().into()), &refusal.text),
        }
        done.map(|done| done.value)
    }
}

/// What takes longer than this, in µs, is not done where other calls wait behind it: making room for them costs some 50 µs.
const LONG_US: u64 = 2_000;

/// Does what takes about so many µs without holding up for long the calls that wait behind it on this thread.
pub(super) fn work_of<T>(about_us: u64, work: impl FnOnce() -> T) -> T {
    if about_us < LONG_US {
        return work();
    }
    let handle = tokio::runtime::Handle::try_current();
    if handle.is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
