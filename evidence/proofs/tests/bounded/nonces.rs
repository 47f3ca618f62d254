//! The set of used nonces in memory, and claims on it: `crates/sessions/src/store/nonces.rs`, `crates/proto/src/session/replay.rs`.

use futures_util::FutureExt;
use sealway_proto::session::{Claim, ClaimKey};
use sealway_proto::wire::ReplayPolicy;
use sealway_sessions::store::{Memory, MemoryLimits, ReserveError, Store};

use crate::cases::sequences;
use crate::{Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "nonce-windows";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "For every sequence of claims, late claims, sweeps and steps of the clock, ahead and back, each nonce is granted \
     once. A full store evicts nothing. A first claim is rejected only by a full store, or after a step back of the clock.";

/// An event in the life of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A message is checked and its nonce claimed, by its number in [`MESSAGES`].
    Claim(usize),
    /// A message is checked; its claim waits.
    Check(usize),
    /// The claim that waits is made, with the clock of its check.
    Late,
    /// A message of its own nonce, stamped now, is claimed.
    Another,
    Sweep,
    /// The clock moves by milliseconds, ahead or back.
    Clock(i64),
    /// The clock moves ahead by milliseconds, and expired nonces are removed.
    Later(i64),
}

/// The clock at the beginning, in milliseconds.
const START_MS: i64 = 10_000;
/// The window: stamps may differ by a second.
const WINDOW_MS: u64 = 1000;
/// Stamps of messages: on the clock, and at the edge of the window ahead.
const MESSAGES: [i64; 2] = [START_MS, START_MS + WINDOW_MS as i64];
/// Number of nonces that the store holds.
const PLACES: usize = 2;

pub(crate) const EVENTS: &[Event] = &[
    Event::Claim(0),
    Event::Claim(1),
    Event::Check(0),
    Event::Late,
    Event::Another,
    Event::Sweep,
    Event::Clock(1000),
    Event::Clock(1),
    Event::Later(3001),
    Event::Clock(-2001),
];

/// Reserves a claim in a store.
pub(crate) type Reserve<'a> = &'a dyn Fn(&Memory, &Claim) -> Result<(), ReserveError>;

/// Reserves a claim as the authority does.
pub(crate) fn reserve(store: &Memory, claim: &Claim) -> Result<(), ReserveError> {
    let reserved = store.reserve(claim).now_or_never();
    reserved.unwrap_or_else(|| Err(ReserveError::Unavailable("memory does not wait".into()))).map(|_| ())
}

/// Checks every sequence of up to `len_max` events.
pub(crate) fn check(reserve: Reserve<'_>, len_max: usize) -> Outcome {
    sequences(EVENTS, len_max, |events| {
        let mut run = Run::new();
        for (at, event) in events.iter().enumerate() {
            run.step(reserve, **event, &|| format!("{:?}", events.get(..=at).unwrap_or_default()))?;
        }
        Ok(1)
    })
}

struct Run {
    store: Memory,
    policy: ReplayPolicy,
    now_ms: i64,
    latest_ms: i64,
    granted: [bool; MESSAGES.len()],
    waits: Option<(usize, Claim)>,
    others: u8,
}

impl Run {
    fn new() -> Self {
        let limits = MemoryLimits { sessions_max: 1, nonces_max: PLACES, nonces_cleanup_from: PLACES - 1 };
        Run {
            store: Memory::new(limits),
            policy: ReplayPolicy::new(WINDOW_MS, 0),
            now_ms: START_MS,
            latest_ms: START_MS,
            granted: [false; MESSAGES.len()],
            waits: None,
            others: 0,
        }
    }

    fn claim(&self, message: usize) -> Option<Claim> {
        // All keys are of one shard, whose sweep the others see.
        self.claim_of(ClaimKey([0, message as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), *MESSAGES.get(message)?)
    }

    fn claim_of(&self, key: ClaimKey, stamp_ms: i64) -> Option<Claim> {
        let (stamp_ms, now_ms) = (u64::try_from(stamp_ms).ok()?, u64::try_from(self.now_ms).ok()?);
        Claim::passed_on(key, true, stamp_ms, now_ms, &self.policy).ok()
    }

    fn step(
        &mut self,
        reserve: Reserve<'_>,
        event: Event,
        shown: &dyn Fn() -> String,
    ) -> Result<(), crate::Counterexample> {
        match event {
            Event::Clock(by) => {
                self.now_ms += by;
                self.latest_ms = self.latest_ms.max(self.now_ms);
            }
            Event::Later(by) => {
                self.step(reserve, Event::Clock(by), shown)?;
                self.step(reserve, Event::Sweep, shown)?;
            }
            Event::Sweep => {
                let _ = self.store.sweep(self.now_ms.unsigned_abs()).now_or_never();
            }
            Event::Check(message) => self.waits = self.claim(message).map(|claim| (message, claim)),
            Event::Another => {
                self.others += 1;
                let key = ClaimKey([0, 0xff, self.others, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                if let Some(claim) = self.claim_of(key, self.now_ms) {
                    let reserved = reserve(&self.store, &claim);
                    let is_even = self.latest_ms <= self.now_ms;
                    ensure!(
                        reserved != Err(ReserveError::Replayed) || !is_even,
                        "{}: a new nonce is taken for a used one",
                        shown()
                    );
                }
            }
            Event::Claim(message) => {
                if let Some(claim) = self.claim(message) {
                    self.take(reserve, message, &claim, false, shown)?;
                }
            }
            Event::Late => {
                if let Some((message, claim)) = self.waits.take() {
                    self.take(reserve, message, &claim, true, shown)?;
                }
            }
        }
        let len = self.store.status().nonces.0;
        ensure!(len <= PLACES, "{}: {len} nonces in {PLACES} places", shown());
        Ok(())
    }

    fn take(
        &mut self,
        reserve: Reserve<'_>,
        message: usize,
        claim: &Claim,
        is_late: bool,
        shown: &dyn Fn() -> String,
    ) -> Result<(), crate::Counterexample> {
        let Some(granted) = self.granted.get_mut(message) else { return Ok(()) };
        let reserved = reserve(&self.store, claim);
        ensure!(reserved.is_err() || !*granted, "{}: message {message} is accepted twice", shown());
        let may_be_replayed = *granted || is_late || self.latest_ms > self.now_ms;
        ensure!(
            reserved != Err(ReserveError::Replayed) || may_be_replayed,
            "{}: message {message} is rejected at its first use",
            shown()
        );
        let is_full = self.store.status().nonces.0 == PLACES;
        ensure!(reserved != Err(ReserveError::Full) || is_full, "{}: full with free places", shown());
        *granted |= reserved.is_ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::report::{finds, holds};

    #[test]
    fn nonces_hold_their_property() {
        let bounds = format!(
            "sequences of up to {} of {} events, 2 messages at both edges of the window, {PLACES} places",
            bound(4, 5),
            EVENTS.len()
        );
        holds(NAME, PROPERTY, &bounds, || check(&reserve, bound(4, 5)));
    }

    #[test]
    fn a_store_that_forgets_after_one_window_is_found() {
        let short = |store: &Memory, claim: &Claim| {
            let policy = ReplayPolicy::new(WINDOW_MS / 2, 0);
            let now_ms = claim.now_ms();
            let short = Claim::passed_on(claim.key(), true, now_ms, now_ms, &policy);
            short.map_or(Err(ReserveError::Full), |short| reserve(store, &short))
        };
        finds(NAME, "a nonce is remembered for one window", || check(&short, 4));
    }

    #[test]
    fn a_full_store_that_evicts_is_found() {
        let evicting = |store: &Memory, claim: &Claim| match reserve(store, claim) {
            Err(ReserveError::Full) => {
                let _ = store.sweep(claim.now_ms() + 3 * WINDOW_MS).now_or_never();
                Ok(())
            }
            reserved => reserved,
        };
        finds(NAME, "a full store grants without a place", || check(&evicting, 4));
    }
}
