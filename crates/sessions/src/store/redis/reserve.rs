//! Nonces: this process's own memory first, then Redis in one round trip, then, if the stamp is ahead, the durable side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::session::{Claim, ClaimKey, Fresh};
use sealway_runtime::redis::Trouble;

use super::epoch::{Answer, Epoch, State};
use super::{Inner, Live, Redis, measured};
use crate::random;
use crate::store::ReserveError;

/// Maximum distance ahead of the clock, in milliseconds, of stamps that need no record: floors cover them.
const AHEAD_MS: u64 = 500;
/// Time after this process's start, in milliseconds, up to which stamps are rejected without Redis: a process before a
/// restart may have granted them.
const START_MARGIN_MS: u64 = 1000;

fn unavailable(what: impl std::fmt::Display) -> ReserveError {
    ReserveError::Unavailable(format!("Redis: {what}"))
}

impl Redis {
    /// Reserves a nonce, as [`crate::store::Store::reserve`] specifies.
    ///
    /// # Errors
    /// [`ReserveError`].
    pub async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        measured("reserve", self.shared.reserve(claim), |err| *err != ReserveError::Replayed).await
    }
}

impl Inner {
    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let live = self.live.load_full();
        // Checked before the own memory reserves it: a request rejected because Redis is away may be retried later.
        if live.is_none() && !self.alone.lock().is_alone() {
            return Err(unavailable("it is away"));
        }
        let nonces = self.nonces(claim.is_sealed());
        match nonces.reserve(claim.key(), claim.stamp_ms(), claim.now_ms(), claim.expires_ms()) {
            // The own memory is for a time without Redis; while Redis is there, Redis bounds the nonces. Noted before
            // Redis takes it: a nonce that is not held here must not be granted here later.
            Err(ReserveError::Full) if live.is_some() => {
                self.unheld(claim).fetch_max(claim.stamp_ms(), Ordering::AcqRel);
            }
            done => done?,
        }
        let Some(live) = live else { return self.grant_alone(claim).await };
        match self.reserve_there(&live, claim).await {
            // It is unknown if Redis took it. This process took it, and with `OnLoss::Local` no other process may have
            // it: granting it once is right.
            Err(Refusal::Gone(what)) => match self.grant_alone(claim).await {
                Err(ReserveError::Unavailable(_)) => Err(unavailable(what)),
                done => done,
            },
            Err(Refusal::Final(err)) => Err(err),
            Ok(()) => Ok(Fresh::reserved(claim)),
        }
    }

    async fn reserve_there(&self, live: &Arc<Live>, claim: &Claim) -> Result<(), Refusal> {
        let bucket = self.bucket(&claim.key());
        let epoch = live.epochs.get(bucket).and_then(arc_swap::ArcSwapAny::load_full);
        let Some(epoch) = epoch else { return Err(Refusal::Final(unavailable("it is about to be ready"))) };
        let expect_confirmed = || match live.confirmations.holds(bucket) {
            true => Ok(()),
            false => Err(Refusal::Final(unavailable("its replicas do not confirm that it is their master"))),
        };
        // Before, so that no nonce is taken for nothing.
        expect_confirmed()?;
        let answer = self.call(live, self.ask(live, &epoch, claim)).await?;
        expect_confirmed()?;
        match answer.state {
            State::Fresh => Ok(()),
            State::Ahead => self.record_ahead(live, bucket, &epoch, claim).await,
            State::Replayed | State::Forgotten => Err(Refusal::Final(ReserveError::Replayed)),
            State::Floor if answer.floor_ms < answer.time_ms => Err(Refusal::Final(ReserveError::Replayed)),
            // The floor was raised, and this process does not know it yet.
            State::Floor | State::Ok => {
                self.trouble.notify_one();
                Err(Refusal::Final(unavailable("its floor lies ahead")))
            }
            State::Lost => {
                self.close(live, bucket, &epoch);
                Err(Refusal::Final(unavailable(Trouble::Lost)))
            }
        }
    }

    async fn ask(&self, live: &Live, epoch: &Epoch, claim: &Claim) -> Result<Answer, Trouble> {
        let token: Result<[u8; 8], _> = random::with_pool(|pool| pool.take(self.provider));
        let token = token.map_err(|err| Trouble::Refused(err.to_string()))?;
        let kept_ms = claim.expires_ms().saturating_sub(claim.now_ms());
        // Same rule as in the own memory: the nonce was taken no later than half its time after its stamp.
        let gone_ms = claim.stamp_ms().saturating_add(kept_ms.saturating_sub(1) / 2).saturating_add(1);
        let mut cmd = epoch.cmd(&self.nonce_key(&claim.key()));
        cmd.arg(&token).arg(kept_ms).arg(claim.stamp_ms()).arg(gone_ms);
        let answer = live.link.get::<Answer>(&cmd).await;
        match answer {
            Err(Trouble::Lost) => Ok(Answer::LOST),
            Ok(answer) => {
                self.saw(answer.time_ms);
                Ok(answer)
            }
            err => err,
        }
    }

    /// Records a stamp ahead of the clock, which no floor covers: the durable side must have it, and the epoch must
    /// still be in force afterwards. A process that begins a new epoch closes this one first and then reads the durable
    /// side: either it finds the record, or this process finds the epoch closed.
    async fn record_ahead(&self, live: &Arc<Live>, bucket: usize, epoch: &Epoch, claim: &Claim) -> Result<(), Refusal> {
        let Some(durable) = &self.durable else { return Ok(()) };
        durable.record(claim).await.map_err(Refusal::Final)?;
        let answer = self.call(live, self.verify(live, bucket, epoch)).await?;
        if answer.state == State::Ok {
            // A promoted master that is confirmed from now on finds the record; none was before.
            return Ok(self.call(live, self.confirm_again(live, bucket)).await?);
        }
        self.close(live, bucket, epoch);
        Err(Refusal::Final(unavailable(Trouble::Lost)))
    }

    /// Takes an epoch out of use here; the supervisor checks it.
    fn close(&self, live: &Live, bucket: usize, epoch: &Epoch) {
        if let Some(slot) = live.epochs.get(bucket) {
            let current = slot.load();
            if current.as_ref().is_some_and(|current| current.generation == epoch.generation) {
                slot.store(None);
            }
        }
        self.trouble.notify_one();
    }

    /// Grants by this process's own memory, which has just reserved the nonce.
    async fn grant_alone(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        if !self.alone.lock().is_alone() {
            return Err(unavailable("it is away"));
        }
        if claim.stamp_ms() <= self.start_ms.saturating_add(START_MARGIN_MS) {
            return Err(ReserveError::Replayed);
        }
        // Redis took nonces up to this stamp that had no room here: any of them may be replayed.
        if claim.stamp_ms() <= self.unheld(claim).load(Ordering::Acquire) {
            return Err(ReserveError::Full);
        }
        // A process before a restart may have granted recorded stamps up to a window ahead of its end.
        let earlier_ms = self.start_ms.saturating_add(self.config.window_ms).saturating_add(START_MARGIN_MS);
        let is_ahead = claim.stamp_ms() > self.clock.now_ms().saturating_add(AHEAD_MS);
        if is_ahead || claim.stamp_ms() <= earlier_ms {
            let Some(durable) = &self.durable else { return Err(unavailable("it is away, and no record is kept")) };
            durable.record(claim).await?;
        }
        // Checked again under the lock: a grant after the list was taken would never be written to Redis.
        match self.alone.lock().grant(claim.key(), claim.expires_ms()) {
            Some(()) => Ok(Fresh::reserved(claim)),
            None => Err(unavailable("it is away")),
        }
    }

    /// Returns the latest stamp for which the own memory had no room, separately for sealed calls and inits like the
    /// memories: a stranger, who can only send inits, must not affect sealed calls.
    fn unheld(&self, claim: &Claim) -> &AtomicU64 {
        if claim.is_sealed() { &self.unheld_calls_ms } else { &self.unheld_inits_ms }
    }

    /// Returns the key of a nonce. It ends in the claim's raw bytes: half as long as hex digits, and there may be
    /// millions.
    pub(super) fn nonce_key(&self, key: &ClaimKey) -> Vec<u8> {
        let mut name = format!("{{{}:{}}}:n:", self.config.prefix, self.bucket(key)).into_bytes();
        name.extend_from_slice(&key.0);
        name
    }
}

/// Reason that Redis did not grant a nonce.
enum Refusal {
    /// Redis decided; the fallback must not grant the nonce.
    Final(ReserveError),
    /// Redis is away; the local fallback may decide.
    Gone(String),
}

impl From<Trouble> for Refusal {
    fn from(err: Trouble) -> Self {
        match err {
            Trouble::Full => Refusal::Final(ReserveError::Full),
            Trouble::Away(_) | Trouble::Slow => Refusal::Gone(err.to_string()),
            err => Refusal::Final(unavailable(err)),
        }
    }
}
