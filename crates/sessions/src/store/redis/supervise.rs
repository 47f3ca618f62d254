//! The supervisor task, which owns the connection: it connects, checks the server, brings the epochs into force,
//! watches them, and starts over after an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use sealway_runtime::redis::{Link, Sentinels, Trouble, check_server};
use tokio::time::Instant;

use super::begin::Waits;
use super::confirm::Confirmations;
use super::epoch::{Answer, Epoch, State};
use super::{Inner, Live};

/// Interval of checks of the epochs, on a server and on a cluster.
const TICK: Duration = Duration::from_millis(250);
const TICK_CLUSTER: Duration = Duration::from_secs(1);
/// Interval of checks while an epoch is not yet in force.
const TICK_SOON: Duration = Duration::from_millis(50);
/// Interval of questions to the Sentinels.
const FOLLOW: Duration = Duration::from_secs(1);
/// Minimum time between two checks, however many operations fail.
const TICK_MIN: Duration = Duration::from_millis(10);
/// Maximum time that a part of a cluster may be missing before its connection is remade.
const MISSING_MAX: Duration = Duration::from_secs(3);
/// Difference of clocks, in milliseconds, from which a warning is logged.
const CLOCKS_MAX_MS: u64 = 400;
/// Distance of a floor ahead of the clock, in milliseconds, from which a warning is logged.
const FLOOR_TOLD_MS: u64 = 2000;
/// Maximum time for which this process goes on granting alone when Redis answers again and its floor is ahead.
const ALONE_MAX: Duration = Duration::from_secs(3);
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// A connection on which nothing is granted yet.
pub(super) struct Candidate {
    live: Arc<Live>,
    /// Epochs in force whose floors may be ahead.
    pending: BTreeMap<usize, Epoch>,
    waits: Waits,
}

/// Connects, checks the server and this user's rights, and brings epochs into force.
pub(super) async fn start(shared: &Arc<Inner>) -> Result<Candidate, Trouble> {
    let wait = shared.config.server.connect_timeout * 2;
    let link = tokio::time::timeout(wait, Link::connect(&shared.config.server)).await.unwrap_or(Err(Trouble::Slow))?;
    let looks = (0..shared.buckets()).map(|bucket| look_at_server(shared, &link, bucket));
    join_all(looks).await.into_iter().collect::<Result<(), _>>()?;
    shared.try_rights(&link).await?;
    compare_clocks(shared, &link).await?;
    let epochs = (0..shared.buckets()).map(|_| ArcSwapOption::empty()).collect();
    let confirmations = Confirmations::new(shared, &link).await?;
    let live = Arc::new(Live { link, confirmations, epochs });
    let mut started = Candidate { live, pending: BTreeMap::new(), waits: Waits::default() };
    repair(shared, &mut started).await?;
    Ok(started)
}

async fn look_at_server(shared: &Inner, link: &Link, bucket: usize) -> Result<(), Trouble> {
    let mut info = redis::cmd("INFO");
    info.arg("server").arg("memory");
    let key = format!("{{{}:{bucket}}}:epoch", shared.config.prefix);
    let info: String = shared.within(link.get_at(&key, info)).await?;
    check_server(&info, &info, shared.config.server.cluster)
}

/// Compares the clocks. Stamps are checked by this process's clock, floors and expiries of nonces by the server's: if
/// they differ, stamps near the ends of the window are rejected, or recorded needlessly.
async fn compare_clocks(shared: &Inner, link: &Link) -> Result<(), Trouble> {
    let (seconds, micros) = shared.within(link.get::<(u64, u64)>(&redis::cmd("TIME"))).await?;
    let ahead_ms = (seconds * 1000 + micros / 1000).cast_signed() - shared.clock.now_ms().cast_signed();
    if ahead_ms.unsigned_abs() > CLOCKS_MAX_MS {
        tracing::warn!(store = %shared.config.server.name(), ahead_ms, "the clock of Redis differs from this machine's");
    }
    Ok(())
}

/// Connects and serves until the store is dropped.
pub(super) async fn run(shared: Arc<Inner>, mut first: Option<Candidate>) {
    let mut backoff = BACKOFF_MIN;
    let mut told = None;
    loop {
        let started = match first.take() {
            Some(started) => Ok(started),
            None => start(&shared).await,
        };
        let err = match started {
            Ok(started) => {
                if told.take().is_some() {
                    tracing::info!(store = %shared.config.server.name(), "Redis is available again");
                }
                backoff = BACKOFF_MIN;
                serve(&shared, started).await
            }
            Err(err) => err,
        };
        // Logged once for each kind of failure, not for each attempt.
        if told.as_ref() != Some(&err) {
            tracing::warn!(store = %shared.config.server.name(), %err, "Redis is unavailable");
            told = Some(err);
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Asks the Sentinels, until they name another master or another number of replicas that must confirm it.
async fn follow(shared: &Inner, live: &Live) -> Trouble {
    let (Some(name), Some(master)) = (&shared.config.server.sentinel, live.link.master()) else {
        return std::future::pending().await;
    };
    let mut sentinels = Sentinels::new(&shared.config.server);
    loop {
        tokio::time::sleep(FOLLOW).await;
        // Without them the master stays: it is confirmed by its replicas.
        if let Ok(now) = sentinels.find(name).await
            && now != *master
        {
            return Trouble::Away("its Sentinels say that the master or its replicas have changed".into());
        }
    }
}

/// Puts a connection in use until an error, or until the Sentinels name another master.
async fn serve(shared: &Arc<Inner>, mut started: Candidate) -> Trouble {
    let live = started.live.clone();
    let guard = async {
        tokio::select! {
            biased;
            err = follow(shared, &live) => err,
            () = shared.keep_confirmed(&live) => unconfirmed(),
        }
    };
    tokio::pin!(guard);
    tokio::select! {
        biased;
        err = &mut guard => return err,
        waited = wait_alone(shared, &mut started) => if let Err(err) = waited { return err },
    }
    let granted = shared.alone.lock().end();
    // Before anything is granted there: nonces that this process granted alone must be known to all.
    if let Err(err) = shared.write_nonces(&live.link, &granted).await {
        shared.alone.lock().keep(granted);
        return err;
    }
    shared.live.store(Some(live.clone()));
    let err = tokio::select! {
        biased;
        err = &mut guard => err,
        err = watch(shared, &mut started) => err,
    };
    shared.lose(&live);
    err
}

/// Goes on granting alone until the epochs are in force, not only until Redis answers: otherwise every claim would be
/// rejected while a floor is ahead, a second after each loss.
async fn wait_alone(shared: &Arc<Inner>, started: &mut Candidate) -> Result<(), Trouble> {
    let until = Instant::now() + ALONE_MAX;
    while !started.pending.is_empty() && shared.alone.lock().is_alone() && Instant::now() < until {
        tokio::time::sleep(TICK_SOON).await;
        tend_pending(shared, started).await?;
        repair(shared, started).await?;
    }
    Ok(())
}

async fn watch(shared: &Arc<Inner>, started: &mut Candidate) -> Trouble {
    let mut complete = Instant::now();
    loop {
        if let Err(err) = round(shared, started).await {
            return err;
        }
        let is_whole = started.live.epochs.iter().all(|epoch| epoch.load().is_some());
        if started.pending.len() + in_force(&started.live).len() == shared.buckets() {
            complete = Instant::now();
        } else if complete.elapsed() > MISSING_MAX {
            return Trouble::Refused("a part of it stays away".into());
        }
        // An operation took the connection out of use meanwhile.
        if !shared.live.load().as_ref().is_some_and(|live| Arc::ptr_eq(live, &started.live)) {
            return Trouble::Away("the connection broke".into());
        }
        let tick = match (is_whole, shared.config.server.cluster) {
            (false, _) => TICK_SOON,
            (true, false) => TICK,
            (true, true) => TICK_CLUSTER,
        };
        tokio::time::sleep(TICK_MIN).await;
        let _ = tokio::time::timeout(tick, shared.trouble.notified()).await;
    }
}

fn in_force(live: &Live) -> Vec<(usize, Arc<Epoch>)> {
    live.epochs.iter().enumerate().filter_map(|(bucket, slot)| Some((bucket, slot.load_full()?))).collect()
}

/// Checks every bucket once, and repairs what it can.
async fn round(shared: &Arc<Inner>, started: &mut Candidate) -> Result<(), Trouble> {
    tend_in_force(shared, started).await?;
    tend_pending(shared, started).await?;
    repair(shared, started).await.or_else(|err| if shared.config.server.cluster { Ok(()) } else { Err(err) })
}

async fn tend_in_force(shared: &Arc<Inner>, started: &mut Candidate) -> Result<(), Trouble> {
    let live = started.live.clone();
    let present = in_force(&live);
    let tended = join_all(present.iter().map(|(bucket, epoch)| shared.tend(&live.link, *bucket, epoch))).await;
    let mut lost = 0_usize;
    for ((bucket, epoch), answer) in present.into_iter().zip(tended) {
        let Some(slot) = live.epochs.get(bucket) else { continue };
        let answer = if live.confirmations.holds(bucket) { answer } else { Err(unconfirmed()) };
        match answer {
            Ok(Answer { state: State::Ok, time_ms, floor_ms }) if time_ms > floor_ms => {}
            // The floor was raised by a process that knows of a loss.
            Ok(Answer { state: State::Ok, .. }) => {
                slot.store(None);
                started.pending.insert(bucket, Epoch::new(epoch.generation.clone(), &shared.config.prefix, bucket));
            }
            Ok(_) => {
                lost += 1;
                slot.store(None);
            }
            Err(err) if !shared.config.server.cluster => return Err(err),
            Err(_) => slot.store(None),
        }
    }
    if lost > 0 {
        tracing::warn!(store = %shared.config.server.name(), buckets = lost, "Redis has lost its data, or its clock went back");
    }
    Ok(())
}

async fn tend_pending(shared: &Arc<Inner>, started: &mut Candidate) -> Result<(), Trouble> {
    let link = started.live.link.clone();
    let pending: Vec<_> = std::mem::take(&mut started.pending).into_iter().collect();
    let verified = join_all(pending.iter().map(|(bucket, epoch)| shared.tend(&link, *bucket, epoch))).await;
    for ((bucket, epoch), answer) in pending.into_iter().zip(verified) {
        match answer {
            Ok(answer) if answer.state == State::Ok => put_in_force(started, bucket, epoch, answer),
            Ok(_) => {}
            Err(err) if !shared.config.server.cluster => return Err(err),
            Err(_) => {}
        }
    }
    Ok(())
}

fn unconfirmed() -> Trouble {
    Trouble::Refused("its replicas do not confirm that it is their master".into())
}

/// Puts an epoch in force, or keeps it pending while its floor is ahead: until then every stamp would be rejected as a
/// replay.
fn put_in_force(started: &mut Candidate, bucket: usize, epoch: Epoch, answer: Answer) {
    if answer.time_ms > answer.floor_ms && started.live.confirmations.holds(bucket) {
        if let Some(slot) = started.live.epochs.get(bucket) {
            slot.store(Some(Arc::new(epoch)));
        }
    } else {
        started.pending.insert(bucket, epoch);
    }
}

/// Begins or joins epochs for the buckets that have none.
async fn repair(shared: &Arc<Inner>, started: &mut Candidate) -> Result<(), Trouble> {
    let live = started.live.clone();
    let is_missing = |bucket: &usize| {
        !started.pending.contains_key(bucket) && live.epochs.get(*bucket).is_some_and(|slot| slot.load().is_none())
    };
    let missing: Vec<usize> = (0..shared.buckets()).filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut longest_ms = 0;
    for (bucket, epoch, answer) in shared.repair(&live, &missing, &mut started.waits).await? {
        longest_ms = longest_ms.max(answer.floor_ms.saturating_sub(answer.time_ms));
        put_in_force(started, bucket, epoch, answer);
    }
    if longest_ms > FLOOR_TOLD_MS {
        let store = shared.config.server.name();
        tracing::warn!(
            store,
            wait_ms = longest_ms,
            "Redis takes no nonces until its clock has passed what it may have lost"
        );
    }
    Ok(())
}
