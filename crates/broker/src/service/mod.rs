//! Steps of every operation on every wire: the caller's rules, the profile, the key, the work, and the audit log.
//! Without an audit record no result is returned.
//!
//! The module does not know the messages of a wire.

mod used;

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::clock::Clock;
use tracing::Instrument;

use crate::audit::{Audit, Entry};
use crate::call::{Call, Trace, finish_span};
use crate::callers::{Callers, Peer};
use crate::keys::{Algorithm, Key, Store};
use crate::profile::policy::{Deprecation, Profile};
use crate::profile::{Live, LiveFile, Profiles};
use crate::{Code, Refusal, Result};

pub(crate) use used::{count_kek, count_subject};

/// Text of a rejection for lack of memory, which is not the call's fault.
pub(crate) const NO_ROOM: &str = "too much is under way in this broker; try again later";
/// Work beyond this time, in µs, leaves the thread on which other calls wait: the move costs some 50 µs.
const LONG_US: u64 = 2_000;

/// Dependencies shared by all operations.
pub struct Service {
    /// Profiles that are in force.
    pub profiles: Arc<Live>,
    /// Rules for callers from their own file; else a section of the profiles' file, else only the owner may act.
    pub callers: Option<Arc<LiveFile<Callers>>>,
    /// Audit log: every operation is recorded before its answer.
    pub audit: Option<Audit>,
    /// Key store; without one, operations with a key of the store fail with code 9.
    pub keys: Option<Store>,
    /// Clock for the time of day.
    pub clock: Arc<dyn Clock>,
    /// Default rules: the owner of the socket may do everything.
    pub owner: Callers,
    /// True for the validated module: operations that it does not approve are off.
    pub is_fips: bool,
    /// Turns of long signatures, with a share for each caller.
    pub turns: Turns,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("is_fips", &self.is_fips).finish_non_exhaustive()
    }
}

/// A request for an operation, without its inputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Name of the operation, one of [`crate::callers::OPERATIONS`].
    pub operation: &'static str,
    /// Name of the wire, such as `w3`.
    pub wire: &'static str,
    /// Name of the profile, if the operation takes one.
    pub profile: Option<&'a str>,
    /// Id of a key of the store, if the operation takes one.
    pub key: Option<&'a str>,
    /// Number of inputs of the batch.
    pub count: usize,
    /// Length of all inputs together, in bytes.
    pub bytes_in: usize,
    /// Parent span that the caller sent.
    pub trace: Trace<'a>,
}

impl<'a> Query<'a> {
    /// Creates a query under a profile from the lengths of its inputs; without a key or a span.
    pub(crate) fn new(
        wire: &'static str,
        operation: &'static str,
        profile: &'a str,
        lens: impl IntoIterator<Item = usize>,
    ) -> Query<'a> {
        let sum = |(count, bytes): (usize, usize), len| (count + 1, bytes.saturating_add(len));
        let (count, bytes_in) = lens.into_iter().fold((0, 0), sum);
        Query { operation, wire, profile: Some(profile), count, bytes_in, ..Query::default() }
    }

    /// True if the operation changes the key store: a change stays, even if its caller never learns of it.
    fn changes_keys(&self) -> bool {
        matches!(
            self.operation,
            "GenerateKey" | "ImportKey" | "RotateKey" | "DisableKey" | "EnableKey" | "ConfigureKey" | "DeleteKey"
        )
    }
}

/// Profile and key that an operation may use. A reload does not change them.
#[derive(Debug)]
pub struct Grant {
    profile: Option<Arc<Profile>>,
    key: Option<Arc<Key>>,
}

impl Grant {
    /// Returns the profile of the query.
    ///
    /// # Errors
    /// 13: the query named none, a defect of the broker.
    pub fn profile(&self) -> Result<&Profile> {
        self.profile.as_deref().ok_or_else(|| Refusal::new(Code::Internal, "an operation without its profile"))
    }

    /// Returns the key of the query.
    ///
    /// # Errors
    /// 13: the query named none, a defect of the broker.
    pub fn key(&self) -> Result<&Arc<Key>> {
        self.key.as_ref().ok_or_else(|| Refusal::new(Code::Internal, "an operation without its key"))
    }
}

/// The result of an operation. It has no `Debug`: its outputs may be secrets.
pub struct Outcome<T> {
    /// The outputs of the operation.
    pub value: T,
    /// Length of all outputs together, in bytes.
    pub bytes_out: usize,
    /// Name of the algorithm in the wire's descriptors.
    pub algorithm: String,
    /// Version of the key that took part; 0 for no key of the store, or for several versions.
    pub key_version: u32,
    /// Deprecation of the profile, if any.
    pub deprecation: Option<Deprecation>,
    /// Size of a key that came with the request, in bits; 0 for none, or for a key of the store.
    pub key_size: u32,
}

impl<T> Outcome<T> {
    /// Creates a result without an algorithm or a key.
    pub fn new(value: T, bytes_out: usize) -> Outcome<T> {
        Outcome { value, bytes_out, algorithm: String::new(), key_version: 0, deprecation: None, key_size: 0 }
    }
}

impl Service {
    /// Runs a call's work if it is allowed, and records it. `shape` is the request's own fault.
    ///
    /// # Errors
    /// Those of [`Service::grant`] and of the work; 8 if there is no room for the outputs, or too many long operations
    /// wait; 13 or 14 of the audit log.
    pub(crate) async fn run<T: Send>(
        &self,
        call: &Call,
        query: Query<'_>,
        shape: Result<()>,
        work: impl FnOnce(&Grant) -> Result<Outcome<T>> + Send,
    ) -> Result<Outcome<T>> {
        let span = call.begin(query.trace);
        let mut granted = span.in_scope(|| {
            let grant = self.grant(&call.peer, &query, shape)?;
            if let Some(profile) = query.profile {
                call.count_profile(profile);
                span.record("crypto.profile", profile);
            }
            if let Some(key) = query.key {
                span.record("crypto.key", key);
            }
            call.check_deadline().map(|()| grant)
        });
        if granted.is_ok() && query.changes_keys() {
            // Recorded in advance: a process that ends in between would leave a changed key without any record.
            let intended = self.intend(&call.peer, &query).instrument(span.clone()).await;
            granted = intended.and(granted);
        }
        let mut turn = None;
        if let Ok(grant) = &granted
            && long_us(&query, grant) >= LONG_US
        {
            match self.turn(call).instrument(span.clone()).await {
                // The key may be disabled, and the caller's right withdrawn, while it waited.
                Ok(taken) => {
                    turn = Some(taken);
                    granted = self.grant(&call.peer, &query, Ok(()));
                }
                Err(refusal) => granted = Err(refusal),
            }
        }
        let outcome = granted.and_then(|grant| {
            let outcome = span.in_scope(|| call.peer.of_tokens().run(|| work(&grant)))?;
            if !call.holds(outcome.bytes_out) {
                return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
            }
            self.count_use(&call.peer, &query, &grant, &outcome, call.arrived_ms());
            Ok(Outcome { deprecation: grant.profile.and_then(|profile| profile.deprecation.clone()), ..outcome })
        });
        drop(turn);
        call.count_bytes_in(query.bytes_in);
        span.record("crypto.input_size", query.bytes_in);
        let written = self.audit(&call.peer, &query, &outcome).instrument(span.clone()).await;
        let outcome = written.and(outcome);
        match &outcome {
            Ok(outcome) => {
                span.record("crypto.output_size", outcome.bytes_out);
                finish_span(&span, tonic::Code::Ok, "");
            }
            Err(refusal) => finish_span(&span, refusal.code.into(), &refusal.text),
        }
        outcome
    }

    /// Checks the request, its caller, its profile, its key and the audit log, in this order. `shape` is the request's
    /// own fault, which reveals nothing of what exists.
    ///
    /// # Errors
    /// 3: the request or the profile; 5: the key; 7: the caller; 9: the module has not approved the operation; 14: the
    /// audit log.
    pub fn grant(&self, peer: &Peer, query: &Query<'_>, shape: Result<()>) -> Result<Grant> {
        shape?;
        let profiles = self.profiles.current();
        self.with_callers(&profiles, |callers| callers.allows(peer, query.operation, query.profile, query.key))?;
        let profile = query.profile.map(|name| find(&profiles, name)).transpose()?;
        if let Some(profile) = profile.as_deref().filter(|_| self.is_fips) {
            check_approved(profile, query)?;
        }
        // Without a profile, the operation concerns the key itself, which may not exist yet.
        let used = query.key.filter(|_| profile.is_some());
        let key = used.map(|id| self.store()?.get(id)).transpose()?;
        if let Some(standard) = profile.as_deref().and_then(|profile| profile.standard.as_ref()) {
            standard.check(query.operation, key.as_ref().map(|key| key.algorithm()))?;
        }
        if let Some(audit) = &self.audit {
            audit.ready()?;
        }
        Ok(Grant { profile, key })
    }

    /// Calls `look` with the rules in force.
    pub fn with_callers<T>(&self, profiles: &Profiles, look: impl FnOnce(&Callers) -> T) -> T {
        match &self.callers {
            Some(callers) => look(&callers.current()),
            None => look(profiles.callers().unwrap_or(&self.owner)),
        }
    }

    /// Returns the key store that the operations on stored keys use.
    ///
    /// # Errors
    /// 9: no store is configured.
    pub fn store(&self) -> Result<&Store> {
        self.keys
            .as_ref()
            .ok_or_else(|| Refusal::new(Code::FailedPrecondition, "this broker has no key store (--keys)"))
    }

    /// Writes the outcome into the audit log.
    ///
    /// # Errors
    /// If the record cannot be written, the result is not returned.
    pub async fn audit<T>(&self, peer: &Peer, query: &Query<'_>, outcome: &Result<Outcome<T>>) -> Result<()> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let entry = match outcome {
            Ok(outcome) => Entry {
                key_version: Some(outcome.key_version).filter(|version| *version > 0),
                bytes_out: outcome.bytes_out as u64,
                ..entry(peer, query)
            },
            Err(refusal) => Entry { code: refusal.code.number(), ..entry(peer, query) },
        };
        audit.record(&entry).await
    }

    /// Records a call that was rejected without an operation. It stays rejected if the record cannot be written.
    pub(crate) async fn record_rejection(&self, peer: &Peer, query: &Query<'_>, code: u8) {
        if let Some(audit) = &self.audit
            && let Err(refusal) = audit.record(&Entry { code, ..entry(peer, query) }).await
        {
            tracing::debug!(%refusal, "a rejected call has no record");
        }
    }

    /// Records a change before it is made: the change stays even if this process ends before it can record the outcome.
    ///
    /// # Errors
    /// If the record cannot be written, the change is not made.
    pub async fn intend(&self, peer: &Peer, query: &Query<'_>) -> Result<()> {
        let Some(audit) = &self.audit else { return Ok(()) };
        audit.record(&Entry { is_intent: true, ..entry(peer, query) }).await
    }

    /// Waits for the call's turn, until shortly before its deadline.
    async fn turn(&self, call: &Call) -> Result<Turn<'_>> {
        let taking = self.turns.take(&call.peer);
        let Some(deadline) = call.deadline else { return taking.await };
        let end = deadline.checked_sub(RECORDING).unwrap_or(deadline);
        let late = |_| Refusal::new(Code::DeadlineExceeded, "the deadline has passed before anything was done");
        tokio::time::timeout_at(end.into(), taking).await.map_err(late)?
    }

    /// Current time in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

/// Time before a call's deadline at which it stops to wait for its turn, and is recorded.
const RECORDING: Duration = Duration::from_millis(10);

/// Approximate duration of an operation's private-key work, in µs.
fn long_us(query: &Query<'_>, grant: &Grant) -> u64 {
    let each_us = if query.operation.starts_with("Verify") { Algorithm::verify_us } else { Algorithm::about_us };
    match &grant.key {
        Some(key) => each_us(key.algorithm()) * query.count as u64,
        // The CA's key is in the request: an RSA key is long, and so is its certificate.
        None if query.operation == "SignCertificate" => query.bytes_in as u64 / 2,
        None => 0,
    }
}

/// Runs work of about this many µs; long work does not delay the calls that wait on this thread.
pub(crate) fn work_of<T>(about_us: u64, work: impl FnOnce() -> T) -> T {
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

fn entry<'a>(peer: &'a Peer, query: &Query<'a>) -> Entry<'a> {
    Entry {
        uid: peer.uid,
        gid: peer.gid,
        pid: peer.pid,
        token: peer.token.as_deref(),
        operation: query.operation,
        wire: query.wire,
        profile: query.profile,
        key: query.key,
        count: u32::try_from(query.count).unwrap_or(u32::MAX),
        bytes_in: query.bytes_in as u64,
        ..Entry::default()
    }
}

fn find(profiles: &Profiles, name: &str) -> Result<Arc<Profile>> {
    let found = profiles.get(name).cloned();
    found.ok_or_else(|| Refusal::invalid(format!("could not retrieve profile, err: there is no profile: {name}")))
}

fn check_approved(profile: &Profile, query: &Query<'_>) -> Result<()> {
    match profile.unapproved.iter().find(|fault| fault.stops(query.operation, query.wire)) {
        None => Ok(()),
        Some(fault) => Err(Refusal::new(
            Code::FailedPrecondition,
            format!("profile: {}: disabled in the FIPS build: {}: {}", profile.name, fault.key, fault.why),
        )),
    }
}

mod turns;
use turns::Turn;
pub use turns::Turns;

#[cfg(test)]
mod tests;
