//! Start of epochs: joining those that other processes have begun, and beginning new ones.
//!
//! Steps of a new epoch: the old one is closed, so that nothing is granted meanwhile; the durable side's records are
//! written back; the script of a new generation is loaded; the new epoch is put in force, its floor above every stamp
//! that may have been granted without a record.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use sealway_proto::session::ClaimKey;
use sealway_proto::store::script::reserve;
use sealway_runtime::redis::{Link, Trouble};
use tokio::time::Instant;

use super::confirm::VALID_MS;
use super::epoch::{Answer, Epoch, Look, State, canary_key, epoch_key};
use super::{Inner, Live, hex, script};
use crate::store::NonceRecord;

/// Distance of the floor with a durable side, or at the very first start: stamps above half of it have a record, the
/// other half is for clocks that differ.
const FLOOR_MS: u64 = 1000;
/// Distance of the floor above a server time once seen: that time is noted once a second, and stamps may be half a
/// second ahead of it.
const SEEN_MARGIN_MS: u64 = 1500;
/// Time after which a process that closed an epoch and did not open the next one is considered gone.
const TAKE_OVER: Duration = Duration::from_secs(3);
/// Maximum time of the durable side; less than the time after which another process takes over.
const DURABLE_WAIT: Duration = Duration::from_secs(2);
/// Longer than the remaining lifetime of a nonce: see the script.
const KEEP_MORE_MS: u64 = 12_000;
const WRITE_BACK_AT_ONCE: usize = 256;
/// Time for which an epoch may go unchecked, in milliseconds; processes have it checked every second at least.
const IDLE_MAX_MS: u64 = 5000;
/// Maximum number of replaced generations that this process remembers.
const LEFT_MAX: usize = 4096;

/// Marks of other processes for which this process waits, each with the time at which it was first seen.
#[derive(Debug, Default)]
pub(super) struct Waits(HashMap<usize, (String, Instant)>);

impl Waits {
    /// True if the mark has stood longer than [`TAKE_OVER`].
    fn is_over(&mut self, bucket: usize, mark: &str) -> bool {
        let (known, since) = self.0.entry(bucket).or_insert_with(|| (mark.to_owned(), Instant::now()));
        if known != mark {
            (*known, *since) = (mark.to_owned(), Instant::now());
        }
        since.elapsed() > TAKE_OVER
    }
}

impl Inner {
    /// Brings buckets into force: joins the epochs that are, and begins new ones if none is. Leaves out buckets that
    /// another process is about to begin; the caller asks again.
    pub(super) async fn repair(
        &self,
        live: &Live,
        buckets: &[usize],
        waits: &mut Waits,
    ) -> Result<Vec<(usize, Epoch, Answer)>, Trouble> {
        let link = &live.link;
        let mut looks = join_all(buckets.iter().map(|bucket| self.look(link, *bucket))).await;
        self.confirm_all(live, buckets, &mut looks).await;
        let (mut done, mut closed, mut trouble) = (Vec::new(), Vec::new(), None);
        let is_new = self.is_new(&looks);
        let some_untouched = looks.iter().flatten().any(|look| look.generation.is_empty());
        let may_begin = !some_untouched || self.is_mine(link).await.unwrap_or(false);
        for (bucket, look) in buckets.iter().copied().zip(looks) {
            let step = match look {
                Ok(look) if look.generation.is_empty() && !may_begin => Ok(Step::Wait),
                Ok(look) => self.join_or_close(link, bucket, look, waits).await,
                Err(err) => Err(err),
            };
            match step {
                Ok(Step::Joined(epoch, answer)) => done.push((bucket, epoch, answer)),
                Ok(Step::Closed(look)) => closed.push((bucket, look)),
                Ok(Step::Wait) => {}
                Err(err) => trouble = Some(err),
            }
        }
        if !closed.is_empty() {
            done.extend(self.begin(live, &closed, is_new).await?);
        }
        // The other nodes of a cluster go on while one is away.
        match trouble {
            Some(err) if done.is_empty() => Err(err),
            _ => Ok(done),
        }
    }

    /// True at the very first start: no process, including this one, has ever kept anything there. A cluster is new
    /// only as a whole: a node that lost its memory is not.
    fn is_new(&self, looks: &[Result<Look, Trouble>]) -> bool {
        let is_untouched = |look: &Result<Look, Trouble>| match look {
            Ok(look) => look.generation.is_empty() || look.generation == self.mark && look.made_ms == 0,
            Err(_) => false,
        };
        looks.len() == self.buckets() && looks.iter().all(is_untouched) && self.had.lock().iter().all(Option::is_none)
    }

    /// True if this process begins the epochs of a new cluster, because no other process started to a moment ago. Only
    /// one may: half of another's work would look like a loss.
    async fn is_mine(&self, link: &Link) -> Result<bool, Trouble> {
        if !self.config.server.cluster {
            return Ok(true);
        }
        let key = format!("{{{}:0}}:first", self.config.prefix);
        let mut cmd = redis::cmd("SET");
        cmd.arg(&key).arg(&self.mark).arg("NX").arg("PX").arg(10_000);
        if self.within(link.get::<Option<String>>(&cmd)).await?.is_some() {
            return Ok(true);
        }
        let holder: Option<String> = self.within(link.get(redis::cmd("GET").arg(&key))).await?;
        Ok(holder.as_deref() == Some(&self.mark))
    }

    async fn join_or_close(&self, link: &Link, bucket: usize, look: Look, waits: &mut Waits) -> Result<Step, Trouble> {
        if look.generation.starts_with('-') && look.generation != self.mark {
            if !waits.is_over(bucket, &look.generation) {
                return Ok(Step::Wait);
            }
        } else if !look.generation.is_empty() && look.generation != self.mark && self.may_join(bucket, &look) {
            let epoch = Epoch::new(look.generation.clone(), &self.config.prefix, bucket);
            let answer = self.verify_on(link, bucket, &epoch).await?;
            if answer.state == State::Ok {
                return self.join(link, bucket, epoch, answer, &look).await;
            }
        }
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script::CLOSE).arg(1).arg(epoch_key(&self.config.prefix, bucket)).arg(&look.generation).arg(&self.mark);
        match self.within(link.get::<u8>(&cmd)).await? {
            1 => Ok(Step::Closed(look)),
            _ => Ok(Step::Wait),
        }
    }

    /// Has the servers of buckets confirmed; a bucket whose server is not gets the error in place of its state.
    async fn confirm_all(&self, live: &Live, buckets: &[usize], looks: &mut [Result<Look, Trouble>]) {
        let mut servers: HashMap<String, Vec<usize>> = HashMap::new();
        for (bucket, look) in buckets.iter().zip(looks.iter()) {
            if let Ok(look) = look {
                servers.entry(look.node_now.clone()).or_default().push(*bucket);
            }
        }
        let confirmed = servers.iter().map(|(node, buckets)| async move {
            let confirmed = self.confirm(live, node, buckets).await;
            (node, confirmed)
        });
        let confirmed: HashMap<_, _> = join_all(confirmed).await.into_iter().collect();
        for look in looks {
            if let Ok(found) = look
                && let Some(Err(err)) = confirmed.get(&found.node_now)
            {
                *look = Err(err.clone());
            }
        }
    }

    /// True if the epoch may be in force: its server is the same, and no other was in use meanwhile. One may have been if
    /// this process has replaced the epoch by another, or if nobody had it checked for a while; the latter costs a second,
    /// and so counts only with a durable side.
    fn may_join(&self, bucket: usize, look: &Look) -> bool {
        let is_left = self.left.lock().contains(&(bucket, look.generation.clone()));
        let is_idle = self.durable.is_some() && look.time_ms > look.checked_ms.saturating_add(IDLE_MAX_MS);
        look.is_same_server() && !is_left && !is_idle
    }

    /// Joins an epoch that another process, or this one, has begun.
    async fn join(
        &self,
        link: &Link,
        bucket: usize,
        epoch: Epoch,
        answer: Answer,
        look: &Look,
    ) -> Result<Step, Trouble> {
        let had = self.had.lock().get(bucket).cloned().flatten();
        let is_another = had.is_some_and(|had| had != epoch.generation);
        let mut answer = answer;
        if is_another && self.durable.is_none() {
            // The process that began it may not have known of the loss. All processes that know raise the floor to the
            // same height.
            let floor_ms = look.made_ms.saturating_add(self.config.window_ms).max(look.floor_ms);
            let mut cmd = redis::cmd("EVAL");
            cmd.arg(script::RAISE).arg(1).arg(epoch_key(&self.config.prefix, bucket)).arg(&epoch.generation);
            if self.within(link.get::<u8>(cmd.arg(floor_ms))).await? != 1 {
                return Ok(Step::Wait);
            }
            answer.floor_ms = answer.floor_ms.max(floor_ms);
        }
        self.take(bucket, &epoch, is_another);
        Ok(Step::Joined(epoch, answer))
    }

    /// Remembers an epoch as this process's own.
    fn take(&self, bucket: usize, epoch: &Epoch, is_another: bool) {
        if let Some(had) = self.had.lock().get_mut(bucket) {
            let earlier = had.replace(epoch.generation.clone());
            if let Some(earlier) = earlier.filter(|_| is_another) {
                let mut left = self.left.lock();
                if left.len() >= LEFT_MAX {
                    left.clear();
                }
                left.insert((bucket, earlier));
            }
        }
        // Redis alone holds the sessions and their tombstones too: data that it lost must not stay in this cache.
        if is_another && self.durable.is_none() {
            self.cache.clear();
        }
    }

    /// Begins epochs in buckets that this process has closed.
    async fn begin(
        &self,
        live: &Live,
        closed: &[(usize, Look)],
        is_new: bool,
    ) -> Result<Vec<(usize, Epoch, Answer)>, Trouble> {
        let least_time_ms = closed.iter().map(|(_, look)| look.time_ms).min().unwrap_or_default();
        let buckets: Vec<_> = closed.iter().map(|(bucket, _)| *bucket).collect();
        let lost_ms = self.write_back(&live.link, &buckets, least_time_ms).await?;
        // A master that this one replaces may have granted nonces as long as its last confirmation counted.
        let past_ms = if live.confirmations.needed > 0 { FLOOR_MS + VALID_MS } else { FLOOR_MS };
        let ahead_ms = if self.durable.is_some() || is_new { past_ms } else { self.config.window_ms + past_ms };
        let begun = closed.iter().map(|(bucket, look)| self.begin_one(&live.link, *bucket, look, ahead_ms, lost_ms));
        let begun = join_all(begun).await;
        let mut done = Vec::new();
        for (bucket, begun) in buckets.into_iter().zip(begun) {
            // A bucket that failed is still closed, and is tried again.
            if let Some((epoch, answer)) = begun? {
                let is_another = self.had.lock().get(bucket).is_some_and(Option::is_some);
                self.take(bucket, &epoch, is_another);
                done.push((bucket, epoch, answer));
            }
        }
        let count = done.len();
        tracing::info!(store = %self.config.server.name(), buckets = count, is_new, "Redis starts a new epoch of nonces");
        Ok(done)
    }

    async fn begin_one(
        &self,
        link: &Link,
        bucket: usize,
        look: &Look,
        ahead_ms: u64,
        lost_ms: u64,
    ) -> Result<Option<(Epoch, Answer)>, Trouble> {
        let mut random = [0; 16];
        self.provider.fill_random(&mut random).map_err(|err| Trouble::Refused(err.to_string()))?;
        let epoch = Epoch::new(hex(&random), &self.config.prefix, bucket);
        let key = epoch_key(&self.config.prefix, bucket);
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(reserve(&epoch.generation));
        self.within(link.get_at::<String>(&key, load)).await?;
        let seen_ms = self.seen_ms.load(Ordering::Acquire);
        let least_ms = if seen_ms > 0 { seen_ms + SEEN_MARGIN_MS.max(ahead_ms) } else { 0 };
        let mut open = redis::cmd("EVAL");
        open.arg(script::OPEN).arg(2).arg(&key).arg(canary_key(&self.config.prefix, bucket));
        open.arg(&self.mark).arg(&epoch.generation).arg(ahead_ms).arg(least_ms.max(lost_ms));
        open.arg(&look.node_now).arg(look.term_now);
        if self.within(link.get::<u8>(&open)).await? != 1 {
            return Ok(None);
        }
        // Checks that the script was loaded at the server that has the key: a cluster may have moved the key meanwhile.
        let answer = self.verify_on(link, bucket, &epoch).await?;
        Ok((answer.state == State::Ok).then_some((epoch, answer)))
    }

    /// Writes the durable side's records to Redis: nonces with stamps above the coming floor, and revocations. Returns
    /// the time up to which records may be missing.
    async fn write_back(&self, link: &Link, buckets: &[usize], stamp_ms: u64) -> Result<u64, Trouble> {
        let Some(durable) = &self.durable else { return Ok(0) };
        let now_ms = self.clock.now_ms();
        let read = futures_util::future::try_join3(
            durable.recorded_after(stamp_ms, now_ms),
            durable.revoked(now_ms),
            durable.lost_ms(),
        );
        let read = tokio::time::timeout(DURABLE_WAIT, read).await.map_err(|_| Trouble::Slow)?;
        let (recorded, revoked, lost_ms) = read.map_err(|err| Trouble::Refused(err.to_string()))?;
        let recorded: Vec<_> = recorded
            .into_iter()
            .filter(|recorded| buckets.contains(&self.bucket(&recorded.key)))
            .map(|NonceRecord { key, expires_ms, .. }| (key, expires_ms))
            .collect();
        self.write_nonces(link, &recorded).await?;
        for chunk in revoked.chunks(WRITE_BACK_AT_ONCE) {
            let writes = chunk.iter().map(|(id, expires_ms)| self.write_tombstone(link, id, *expires_ms));
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(lost_ms)
    }

    /// Writes nonces that were granted without Redis.
    pub(super) async fn write_nonces(&self, link: &Link, nonces: &[(ClaimKey, u64)]) -> Result<(), Trouble> {
        let now_ms = self.clock.now_ms();
        for chunk in nonces.chunks(WRITE_BACK_AT_ONCE) {
            let writes = chunk.iter().map(|(key, expires_ms)| async move {
                let keep_ms = expires_ms.saturating_sub(now_ms).saturating_add(KEEP_MORE_MS);
                let mut cmd = redis::cmd("SET");
                cmd.arg(self.nonce_key(key)).arg("1").arg("NX").arg("PX").arg(keep_ms);
                self.within(link.get::<Option<String>>(&cmd)).await.map(drop)
            });
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }
}

/// Result of an attempt on one bucket.
enum Step {
    /// The epoch is in force.
    Joined(Epoch, Answer),
    /// This process has closed the old epoch, and begins a new one.
    Closed(Look),
    /// Another process is about to begin one.
    Wait,
}
