//! Redis loses its memory in every possible way, under stores of several processes: a nonce that was granted once is
//! never granted again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::redis_desk::{Desk, claim, claim_at, grant, nonce, now, reserve, until, until_down, until_up};
use sealway_runtime::clock::ManualClock;
use sealway_sessions::store::redis::{OnLoss, Redis};
use sealway_sessions::store::{MemoryLimits, Part, ReserveError, Store, StoreError};
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract::claims::{START_MS, agree};
use sealway_testkit::store_contract::race;

fn is_unavailable(done: &Result<(), ReserveError>) -> bool {
    matches!(done, Err(ReserveError::Unavailable(_)))
}

/// Reserves nonces with stamps before, at and ahead of the clock, at most `ahead_ms` ahead.
async fn grant_some(store: &Arc<Redis>, ahead_ms: u64) -> Vec<(String, u64)> {
    // Waits until the floor is older than the oldest stamp.
    tokio::time::sleep(Duration::from_millis(250)).await;
    let mut granted = Vec::new();
    for ahead_ms in [0, 200, 500, 900, ahead_ms + 200] {
        granted.push(grant(store, || now() - 200 + ahead_ms).await);
    }
    granted
}

/// Replays nonces to each store for a while, until it is up and afterwards.
async fn replay(stores: &[&Arc<Redis>], granted: &[(String, u64)]) {
    let mut settled = None;
    let give_up = Instant::now() + Duration::from_secs(20);
    while settled.is_none_or(|since: Instant| since.elapsed() < Duration::from_millis(500)) {
        assert!(Instant::now() < give_up, "not up");
        for store in stores {
            for (nonce, stamp_ms) in granted {
                let done = reserve(store, &claim(nonce, *stamp_ms)).await;
                assert!(done.is_err(), "a replay was granted, stamped {stamp_ms}, at {}", now());
            }
        }
        if settled.is_none() && stores.iter().all(|store| store.is_up()) {
            settled = Some(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for store in stores {
        grant(store, now).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_claims_in_several_processes_exactly_one_wins() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable().patient();
    let stores = [desk.open().await, desk.open().await, desk.open().await];
    let now_ms = now();
    for stamp_ms in [now_ms, now_ms + 400, now_ms + 20_000] {
        for _ in 0..20 {
            race(&stores.each_ref(), 12, claim(&nonce(), stamp_ms)).await;
        }
    }
}

/// Loses the memory, then replays everything to the process that granted it and to one that starts now. Either may
/// begin the new epoch.
async fn nothing_is_readmitted(make: fn(&str) -> Desk, lose: fn(&mut Server)) {
    let one = async |is_old_first: bool| {
        let mut server = Server::start().unwrap();
        let desk = make(&server.url());
        let old = desk.open().await;
        let ahead_ms = if desk.ledger.is_some() { 100_000 } else { desk.config.window_ms };
        let before = grant_some(&old, ahead_ms).await;
        server.save().unwrap();
        let after = grant_some(&old, ahead_ms).await;
        lose(&mut server);
        if is_old_first {
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        let new = desk.open().await;
        replay(&[&old, &new], &[before, after].concat()).await;
    };
    tokio::join!(one(false), one(true));
}

fn with_a_record(url: &str) -> Desk {
    Desk::new(url).durable()
}

fn alone(url: &str) -> Desk {
    Desk::new(url).window_ms(3000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_memory_readmits_nothing() {
    nothing_is_readmitted(with_a_record, |server| server.start_again_empty().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_memory_readmits_nothing_where_redis_is_alone() {
    nothing_is_readmitted(alone, |server| server.start_again_empty().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_an_old_snapshot_readmits_nothing() {
    nothing_is_readmitted(with_a_record, |server| server.start_again().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_an_old_snapshot_readmits_nothing_where_redis_is_alone() {
    nothing_is_readmitted(alone, |server| server.start_again().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushall_readmits_nothing() {
    nothing_is_readmitted(with_a_record, |server| drop(server.cli(&["FLUSHALL"]).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushall_readmits_nothing_where_redis_is_alone() {
    nothing_is_readmitted(alone, |server| drop(server.cli(&["FLUSHALL"]).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_flush_refuses_for_a_moment_and_readmits_nothing() {
    nothing_is_readmitted(with_a_record, |server| drop(server.cli(&["SCRIPT", "FLUSH"]).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonces_stamped_in_the_future_are_restored_after_redis_lost_them() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let (one, other) = (desk.open().await, desk.open().await);
    let (taken, stamp_ms) = grant(&one, || now() + 6000).await;
    server.cli(&["FLUSHALL"]).unwrap();
    until_down(&other).await;
    until_up(&other).await;
    assert!(now() < stamp_ms, "the floor covers it, so this test shows nothing");
    tokio::time::sleep(Duration::from_millis(stamp_ms.saturating_sub(now()) + 100)).await;
    assert_eq!(reserve(&other, &claim(&taken, stamp_ms)).await, Err(ReserveError::Replayed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_after_flushall_is_no_exception() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let (one, other) = (desk.open().await, desk.open().await);
    for _ in 0..6 {
        until_up(&one).await;
        until_up(&other).await;
        // This grant has no record: only the floor of the next epoch covers it.
        let (nonce, stamp_ms) = grant(&one, now).await;
        server.cli(&["FLUSHALL"]).unwrap();
        let again = reserve(&other, &claim(&nonce, stamp_ms)).await;
        assert!(again.is_err(), "a replay was granted before anybody looked");
        until_down(&one).await;
        until_down(&other).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_survives_the_loss_of_redis_data() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let store = desk.open().await;
    let session = agree(Some("web"), 600, now()).server;
    let end_ms = session.record().expires_ms;
    store.revoke(session.id(), end_ms).await.unwrap();
    desk.ledger.as_ref().unwrap().revoked.lock().unwrap().push((*session.id(), end_ms));
    server.cli(&["FLUSHALL"]).unwrap();
    until_down(&store).await;
    until_up(&store).await;
    store.save(&session).await.unwrap();
    assert!(matches!(store.find(session.id()).await, Ok(sealway_sessions::store::redis::Lookup::Revoked)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_side_that_is_away_keeps_a_new_beginning_from_being_granted_from() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let store = desk.open().await;
    let ledger = desk.ledger.clone().unwrap();
    let (ahead, stamp_ms) = grant(&store, || now() + 60_000).await;
    assert!(ledger.holds(&claim(&ahead, stamp_ms)), "granted without a record");
    ledger.is_away.store(true, Ordering::SeqCst);
    assert!(is_unavailable(&reserve(&store, &claim(&nonce(), now() + 60_000)).await), "granted without a record");
    server.cli(&["FLUSHALL"]).unwrap();
    until_down(&store).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!store.is_up());
    assert!(is_unavailable(&reserve(&store, &claim(&nonce(), now())).await));
    ledger.is_away.store(false, Ordering::SeqCst);
    replay(&[&store], &[(ahead, stamp_ms)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_comes_after_a_new_beginning_has_read_them_is_not_granted() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let (one, other) = (desk.open().await, desk.open().await);
    let ledger = desk.ledger.clone().unwrap();
    ledger.is_slow.store(true, Ordering::SeqCst);
    let (late, stamp_ms) = (nonce(), now() + 60_000);
    let slow = tokio::spawn({
        let (one, claim) = (one.clone(), claim(&late, stamp_ms));
        async move { reserve(&one, &claim).await }
    });
    until("it is written down", Duration::from_secs(15), async || ledger.slow.load(Ordering::SeqCst) == 1).await;
    server.cli(&["FLUSHALL"]).unwrap();
    until_down(&other).await;
    until_up(&other).await;
    until_up(&one).await;
    ledger.is_slow.store(false, Ordering::SeqCst);
    assert!(is_unavailable(&slow.await.unwrap()), "the new epoch knows nothing of it");
    assert!(reserve(&other, &claim(&late, stamp_ms)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_a_replica_meanwhile_is_not_taken_for_the_one_it_was() {
    let server = Server::options().config("enable-debug-command yes").start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let store = desk.open().await;
    let (taken, stamp_ms) = grant(&store, now).await;
    let before = server.cli(&["HGET", "{sealway:0}:epoch", "gen"]).unwrap();
    server.cli(&["DEBUG", "CHANGE-REPL-ID"]).unwrap();
    until_down(&store).await;
    until_up(&store).await;
    assert_ne!(server.cli(&["HGET", "{sealway:0}:epoch", "gen"]).unwrap(), before);
    assert!(reserve(&desk.open().await, &claim(&taken, stamp_ms)).await.is_err(), "a replay was granted");
}

/// Starts a server, and stores under the same clock, both set by the test.
async fn under_a_clock() -> (Server, Desk, Arc<ManualClock>) {
    let server = Server::options().clock(START_MS - 100_000).start().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let desk = Desk { clock: clock.clone(), ..Desk::new(&server.url()).durable() };
    let first = desk.open().await;
    assert!(first.is_up());
    server.set_clock(START_MS).unwrap();
    // An epoch that nobody checks for a while is replaced.
    let checked = || server.cli(&["HGET", "{sealway:0}:epoch", "hw"]).unwrap().parse::<u64>().unwrap();
    until("the check", Duration::from_secs(15), async || checked() >= START_MS).await;
    (server, desk, clock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_ahead_and_back_during_a_check_readmits_nothing() {
    let (server, desk, _) = under_a_clock().await;
    let (one, other) = (desk.open().await, desk.open().await);
    let taken = nonce();
    assert_eq!(reserve(&one, &claim_at(&taken, START_MS, START_MS)).await, Ok(()));
    server.set_clock(START_MS + 3_600_000).unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    server.cli(&["DBSIZE"]).unwrap();
    server.set_clock(START_MS + 2000).unwrap();
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let done = reserve(&other, &claim_at(&taken, START_MS, START_MS + 2000)).await;
        assert!(done.is_err(), "a replay was granted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Grants from the wrong hour are unknown: their stamps are rejected, and the store reports that it is down.
    assert!(!other.is_up());
    server.set_clock(START_MS + 3_620_000).unwrap();
    until_up(&other).await;
    let later_ms = START_MS + 3_620_000;
    assert_eq!(reserve(&other, &claim_at(&nonce(), later_ms, later_ms)).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_ahead_and_back_while_nobody_looks_readmits_nothing() {
    let (server, desk, _) = under_a_clock().await;
    let taken = nonce();
    {
        let one = desk.open().await;
        assert_eq!(reserve(&one, &claim_at(&taken, START_MS, START_MS)).await, Ok(()));
    }
    let before = server.cli(&["DBSIZE"]).unwrap();
    server.set_clock(START_MS + 3_600_000).unwrap();
    // Without this the test would show nothing.
    let has_forgotten = async || server.cli(&["DBSIZE"]).unwrap() != before;
    until("it forgets", Duration::from_secs(15), has_forgotten).await;
    server.set_clock(START_MS + 1000).unwrap();
    let other = desk.open().await;
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let done = reserve(&other, &claim_at(&taken, START_MS, START_MS + 2000)).await;
        assert!(done.is_err(), "a replay was granted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_a_slow_clock_readmits_nothing_after_redis_lost_its_data() {
    let (server, desk, _) = under_a_clock().await;
    let taken = nonce();
    assert_eq!(reserve(&desk.open().await, &claim_at(&taken, START_MS, START_MS)).await, Ok(()));
    server.set_clock(START_MS + 3_600_000).unwrap();
    let behind = desk.open().await;
    until_up(&behind).await;
    let again = reserve(&behind, &claim_at(&taken, START_MS, START_MS + 1000)).await;
    assert_eq!(again, Err(ReserveError::Replayed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flap_refuses_at_once_and_readmits_nothing() {
    let mut server = Server::options().appendonly().start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let store = desk.open().await;
    let granted = grant_some(&store, 60_000).await;
    server.kill().unwrap();
    until_down(&store).await;
    assert_eq!((store.part(), store.status().redis), (Part::Down, Part::Down));
    let start = Instant::now();
    let refused = claim(&nonce(), now());
    for _ in 0..100 {
        assert!(is_unavailable(&reserve(&store, &refused).await));
    }
    assert!(start.elapsed() < Duration::from_secs(2), "refusals took {:?}", start.elapsed());
    server.start_again().unwrap();
    replay(&[&store, &desk.open().await], &granted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_local_fallback_grants_nonces_and_writes_them_to_redis_later() {
    let mut server = Server::start().unwrap();
    let mut desk = Desk::new(&server.url()).durable().window_ms(500);
    let (earlier, earlier_ms) = grant(&desk.open().await, || now() + 60_000).await;
    desk.config.on_loss = OnLoss::Local;
    let store = desk.open().await;
    let before = grant(&store, now).await;
    server.kill().unwrap();
    until_down(&store).await;
    let old = claim(&nonce(), now() - 10_000);
    assert_eq!(reserve(&store, &old).await, Err(ReserveError::Replayed), "an earlier life may have granted it");
    assert_eq!(reserve(&store, &claim(&earlier, earlier_ms)).await, Err(ReserveError::Replayed), "it was recorded");
    tokio::time::sleep(Duration::from_millis(1600)).await;
    let mut granted = vec![before];
    for _ in 0..20 {
        granted.push((nonce(), now()));
        let (nonce, stamp_ms) = granted.last().unwrap();
        assert_eq!(reserve(&store, &claim(nonce, *stamp_ms)).await, Ok(()));
        assert_eq!(reserve(&store, &claim(nonce, *stamp_ms)).await, Err(ReserveError::Replayed));
    }
    granted.push((nonce(), now() + 50_000));
    assert_eq!(reserve(&store, &claim(&granted[21].0, granted[21].1)).await, Ok(()));
    server.start_again_empty().unwrap();
    until_up(&store).await;
    let keys = server.cli(&["EVAL", "return #redis.call('KEYS', '{sealway:0}:n:*')", "0"]).unwrap();
    assert!(keys.trim().parse::<u32>().unwrap() >= 21, "Redis was not told: {keys}");
    replay(&[&store, &desk.open().await], &granted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_own_memory_bounds_the_fallback_and_not_redis() {
    let mut server = Server::start().unwrap();
    let mut desk = Desk::new(&server.url()).durable().window_ms(500).patient();
    desk.config.on_loss = OnLoss::Local;
    desk.limits = MemoryLimits { nonces_max: 1000, nonces_cleanup_from: 800, ..MemoryLimits::default() };
    let store = desk.open().await;
    until_up(&store).await;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let mut last = (String::new(), 0);
    for _ in 0..2500 {
        last = grant(&store, now).await;
    }
    assert_eq!(store.nonces().1, 1000, "what is held here is bounded");
    server.kill().unwrap();
    until_down(&store).await;
    // The nonce is not held here, and Redis is away: it may have been granted.
    assert_eq!(reserve(&store, &claim(&last.0, last.1)).await, Err(ReserveError::Full));
    server.start_again_empty().unwrap();
    until_up(&store).await;
    grant(&store, now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_returns_has_nothing_refused_by_a_process_that_grants_alone() {
    let mut server = Server::start().unwrap();
    let mut desk = Desk::new(&server.url()).durable().window_ms(500);
    desk.config.on_loss = OnLoss::Local;
    let store = desk.open().await;
    until_up(&store).await;
    tokio::time::sleep(Duration::from_millis(1600)).await;
    server.kill().unwrap();
    until_down(&store).await;
    let alone = async || reserve(&store, &claim(&nonce(), now())).await == Ok(());
    until("it grants alone", Duration::from_secs(5), alone).await;
    server.start_again_empty().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let mut refused = Vec::new();
    while !store.is_up() {
        assert!(Instant::now() < end, "it is not back");
        let since = Instant::now();
        if let Err(err) = reserve(&store, &claim(&nonce(), now())).await {
            refused.push((since, err));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Between its last own grant and the first of Redis it writes its grants to Redis, which takes a round trip.
    let span = refused.last().map_or(Duration::ZERO, |(last, _)| last.duration_since(refused[0].0));
    assert!(span < Duration::from_millis(500), "claims were refused for {span:?}: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_and_evicts_nothing() {
    let server = Server::options().maxmemory("4mb", "noeviction").start().unwrap();
    let desk = Desk::new(&server.url());
    let (store, other) = (desk.open().await, desk.open().await);
    let granted = grant_some(&store, 1000).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "500000"]).unwrap();
    let is_full = async || reserve(&store, &claim(&nonce(), now())).await == Err(ReserveError::Full);
    until("it is full", Duration::from_secs(5), is_full).await;
    let session = agree(Some("web"), 600, now()).server;
    assert_eq!(Store::put(store.as_ref(), session).await, Err(StoreError::Full));
    for (nonce, stamp_ms) in &granted {
        assert!(reserve(&other, &claim(nonce, *stamp_ms)).await.is_err(), "a nonce was evicted");
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(store.is_up(), "full is not away");
    server.cli(&["CONFIG", "SET", "maxmemory", "4mb"]).unwrap();
    grant(&store, now).await;
    replay(&[&store, &other], &granted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_redis_is_abandoned_within_the_deadline() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let store = desk.open().await;
    let granted = grant_some(&store, 1000).await;
    server.pause().unwrap();
    let start = Instant::now();
    let claims: Vec<_> = (0..50).map(|_| claim(&nonce(), now())).collect();
    let calls = claims.iter().map(|claim| reserve(&store, claim));
    let done = futures_util::future::join_all(calls).await;
    assert!(done.iter().all(is_unavailable));
    assert!(start.elapsed() < Duration::from_millis(2500), "it took {:?}", start.elapsed());
    until_down(&store).await;
    let start = Instant::now();
    assert!(is_unavailable(&reserve(&store, &claim(&nonce(), now())).await));
    assert!(start.elapsed() < Duration::from_millis(1000), "it took {:?}", start.elapsed());
    server.resume().unwrap();
    until_up(&store).await;
    // Requests that the server had received and not answered count as taken.
    replay(&[&store, &desk.open().await], &granted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_at_the_start_is_found_when_it_comes() {
    let mut server = Server::start().unwrap();
    server.kill().unwrap();
    let store = Desk::new(&server.url()).open().await;
    assert!(!store.is_up());
    assert!(is_unavailable(&reserve(&store, &claim(&nonce(), now())).await));
    assert!(Store::get(store.as_ref(), agree(Some("web"), 60, now()).server.id()).await.is_err());
    server.start_again().unwrap();
    grant(&store, now).await;
    until("the pool", Duration::from_secs(1), async || store.status().pool.total == 1).await;
}
