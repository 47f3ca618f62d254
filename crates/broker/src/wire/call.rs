//! One call, whatever its wire: its span, the service's checks, the work, the audit log.

use std::sync::Arc;
use std::time::Instant;

use tonic::{Request, Status};
use tracing::Instrument;

use super::Method;
use super::budget::Held;
use crate::callers::Peer;
use crate::service::{Allowed, Asked, Done, Service};
use crate::telemetry::{Told, Trace, finish_span};
use crate::{Code, Refusal};

/// A call that is being answered. It travels with the request, and with the answer.
#[derive(Clone, Debug)]
pub(super) struct Call(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    told: Told,
    /// Nothing where there was no room for it: it is refused.
    held: Option<Held>,
    /// When nobody waits for the answer any more.
    deadline: Option<Instant>,
}

impl Call {
    /// A call that has just arrived.
    pub(super) fn new(
        method: &'static Method,
        peer: Peer,
        now_ms: u64,
        held: Option<Held>,
        deadline: Option<Instant>,
    ) -> Call {
        Call(Arc::new(Inner { told: Told::arrived(method, peer, now_ms), held, deadline }))
    }

    /// The call that a request belongs to.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Call, Status> {
        request.extensions().get::<Call>().cloned().ok_or_else(|| Status::internal("a request without its call"))
    }

    /// Who asks.
    pub(super) fn peer(&self) -> &Peer {
        self.0.told.peer()
    }

    /// Whether so many bytes more are within what all calls may hold together; they are held until the call is gone.
    pub(super) fn holds(&self, len: usize) -> bool {
        self.0.held.as_ref().is_some_and(|held| held.more(len))
    }

    fn check_deadline(&self) -> Result<(), Refusal> {
        match self.0.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                Err(Refusal::new(Code::DeadlineExceeded, "the deadline has passed before anything was done"))
            }
            _ => Ok(()),
        }
    }

    /// What is told of it.
    pub(super) fn told(&self) -> &Told {
        &self.0.told
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
        let span = self.told().begin(trace);
        let mut allowed = span.in_scope(|| {
            let allowed = service.allow(self.peer(), &asked, shape)?;
            if let Some(profile) = asked.profile {
                self.told().of_profile(profile);
                span.record("crypto.profile", profile);
            }
            if let Some(key) = asked.key {
                span.record("crypto.key", key);
            }
            self.check_deadline().map(|()| allowed)
        });
        if allowed.is_ok() && asked.changes_keys() {
            // Else a process that ends in between leaves a changed key that no line tells of.
            let intended = service.intend(self.peer(), &asked).instrument(span.clone()).await;
            allowed = intended.and(allowed);
        }
        let done = allowed.and_then(|allowed| span.in_scope(|| work(&allowed))).and_then(|done| {
            let is_held = self.holds(done.bytes_out);
            if is_held { Ok(done) } else { Err(Refusal::new(Code::ResourceExhausted, NO_ROOM)) }
        });
        self.told().of_bytes(asked.bytes_in);
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

/// Why a call is not begun, or its answer not given, though nothing is wrong with it.
pub(super) const NO_ROOM: &str = "too much is under way in this broker; try again later";

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
