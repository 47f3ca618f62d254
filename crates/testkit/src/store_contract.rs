//! The contract of every store: one function a rule, run against each store by [`store_contract!`](crate::store_contract!).
//! `spec/session.md`, replay and storage.
//!
//! This module does not know a store: only [`Store`], and a [`Fixture`] that creates an empty one.

use std::future::Future;
use std::sync::Arc;

use sealway_proto::session::{Auth, Claim, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_sessions::store::{MemoryLimits, ReserveError, Store, StoreError};
use tokio::sync::Barrier;

pub mod claims;

use claims::{START_MS, SessionPair, agree, init};

/// Creates empty stores of one kind.
pub trait Fixture: Send + Sync {
    /// Creates an empty store with the bounds `limits`.
    fn make(&self, limits: MemoryLimits) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Sets the clock of the store's server, if that reads its own. Rules call it before they use a time.
    fn set_clock(&self, _now_ms: u64) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Returns whether `status` counts sessions and nonces at once and exactly.
    fn counts(&self) -> bool {
        true
    }

    /// Returns the longest time after its expiry for which a nonce is still remembered, in ms.
    fn forgets_within_ms(&self) -> u64 {
        1000
    }
}

/// Creates a test of every rule, in a module of the given name.
#[macro_export]
macro_rules! store_contract {
    ($module:ident, $fixture:expr) => {
        $crate::store_contract!($module, $fixture;
            a_session_that_was_put_is_got_with_the_same_record_and_key
            a_session_keeps_its_wire_its_tenant_and_how_its_client_was_recognised
            an_unknown_session_is_none
            a_deleted_session_is_gone_at_once_and_deletion_says_whether_it_was_there
            a_chain_of_renewals_that_was_ended_is_gone_with_what_is_put_into_it_later
            of_64_equal_claims_of_a_call_exactly_one_wins
            of_64_equal_claims_of_an_init_exactly_one_wins
            equal_nonces_in_different_scopes_do_not_meet
            a_claim_lives_through_its_last_millisecond_and_is_forgotten_after
            a_claim_is_refused_even_if_the_clock_steps_back
            a_claim_is_refused_even_if_the_clock_steps_ahead_and_back
            a_replay_that_was_checked_in_time_and_reserves_late_is_refused
            a_full_store_refuses_and_evicts_nothing
            filling_the_init_side_leaves_the_sealed_side_open
            a_sweep_purges_expired_sessions_and_only_those
            a_store_holds_sessions_max_sessions_and_deleting_makes_room
            concurrent_puts_do_not_pass_the_bound
        );
    };
    ($module:ident, $fixture:expr; $($rule:ident)+) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $rule() {
                    $crate::store_contract::$rule(&$fixture).await;
                }
            )+
        }
    };
}

const RACERS: usize = 64;

fn limits(sessions_max: usize, nonces_max: usize) -> MemoryLimits {
    MemoryLimits { sessions_max, nonces_max, nonces_cleanup_from: nonces_max / 5 * 4 }
}

async fn empty(fixture: &impl Fixture) -> Arc<dyn Store> {
    bounded(fixture, MemoryLimits::default()).await
}

async fn bounded(fixture: &impl Fixture, limits: MemoryLimits) -> Arc<dyn Store> {
    fixture.set_clock(START_MS).await;
    fixture.make(limits).await
}

/// Lets time pass, for the process and for the store's server.
async fn sweep(fixture: &impl Fixture, store: &Arc<dyn Store>, now_ms: u64) -> usize {
    fixture.set_clock(now_ms).await;
    store.sweep(now_ms).await.expect("sweep")
}

fn session(client_id: &str) -> SessionPair {
    agree(Some(client_id), 600, START_MS)
}

async fn reserve(store: &Arc<dyn Store>, claim: &Claim) -> Result<(), ReserveError> {
    store.reserve(claim).await.map(|_| ())
}

/// A stored session is returned unchanged.
pub async fn a_session_that_was_put_is_got_with_the_same_record_and_key(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    for agreed in [session("web"), agree(None, 600, START_MS)] {
        let put = agreed.server.record();
        store.put(agreed.server.clone()).await.expect("put");
        let got = store.get(&put.id).await.expect("get").expect("a session");
        let got_record = got.record();
        assert_eq!(got_record.id, put.id);
        assert_eq!(got_record.wire, put.wire);
        assert_eq!(got_record.client_id, put.client_id);
        assert_eq!(got_record.subject, put.subject);
        assert_eq!(got_record.created_ms, put.created_ms);
        assert_eq!(got_record.expires_ms, put.expires_ms);
        assert_eq!(got_record.key.expose(), put.key.expose());
        // And the session is ready for use.
        claims::open(&agreed.seal("after-get", START_MS), got, START_MS);
    }
    assert!(!fixture.counts() || store.status().sessions == 2);
}

/// Every wire, with and without the fields that older ones do not have.
pub async fn a_session_keeps_its_wire_its_tenant_and_how_its_client_was_recognised(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    for (wire, auth, subject, tenant) in [
        (Wire::V1, Auth::None, None, None),
        (Wire::V2, Auth::Bearer, None, Some("acme")),
        (Wire::Native, Auth::None, None, None),
        (Wire::Native, Auth::Bearer, Some("alice"), Some("\u{e9}'\"\\")),
        (Wire::Native, Auth::Dpop, Some("alice"), None),
        (Wire::Native, Auth::Certificate, None, Some("acme")),
    ] {
        let record = SessionRecord {
            id: SessionId::from_random(&claims::random(), false),
            wire,
            client_id: (wire != Wire::V1).then(|| "web".into()),
            subject: subject.map(Into::into),
            tenant: tenant.map(Into::into),
            auth,
            lineage: None,
            created_ms: START_MS - 7_000_000,
            expires_ms: START_MS + 600_000,
            key: SessionKey::from_bytes([7; 32]),
        };
        let put = Session::new(claims::provider(), record.clone()).expect("a session");
        store.put(Arc::new(put)).await.expect("put");
        let got = store.get(&record.id).await.expect("get").expect("a session");
        let got = got.record();
        assert_eq!((got.wire, got.auth), (record.wire, record.auth));
        assert_eq!((&got.client_id, &got.subject, &got.tenant), (&record.client_id, &record.subject, &record.tenant));
        assert_eq!((got.created_ms, got.expires_ms), (record.created_ms, record.expires_ms));
        assert_eq!(got.key.expose(), record.key.expose());
    }
}

/// An empty store returns no session.
pub async fn an_unknown_session_is_none(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    store.put(session("web").server).await.expect("put");
    assert!(store.get(&SessionId::from_random(&claims::random(), false)).await.expect("get").is_none());
}

/// Returns a session of the native protocol that ends after `ttl_ms`: the first of its chain, or renewed in that of `lineage`.
///
/// # Panics
/// The provider fails.
pub fn of_chain(lineage: Option<SessionId>, ttl_ms: u64) -> Arc<Session> {
    let record = SessionRecord {
        id: SessionId::from_random(&claims::random(), false),
        wire: Wire::Native,
        client_id: Some("web".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage,
        created_ms: START_MS,
        expires_ms: START_MS + ttl_ms,
        key: SessionKey::from_bytes([7; 32]),
    };
    Arc::new(Session::new(claims::provider(), record).expect("a session"))
}

/// One entry ends all sessions of the chain, and those whose renewal was in progress.
pub async fn a_chain_of_renewals_that_was_ended_is_gone_with_what_is_put_into_it_later(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let first = of_chain(None, 600_000);
    let root = *first.id();
    let [second, late, other] = [Some(root), Some(root), None].map(|lineage| of_chain(lineage, 600_000));
    for session in [&first, &second, &other] {
        store.put(session.clone()).await.expect("put");
    }
    store.get(second.id()).await.expect("get").expect("a session");
    store.end_chain(&root, START_MS + 600_000).await.expect("an end");
    // A second end has no further effect.
    store.end_chain(&root, START_MS + 500_000).await.expect("an end");
    store.put(late.clone()).await.expect("put");
    for (name, session) in [("the first", &first), ("a renewed one", &second), ("one that was put later", &late)] {
        assert!(store.get(session.id()).await.expect("get").is_none(), "{name} is still found");
    }
    store.get(other.id()).await.expect("get").expect("a session of another chain");
    sweep(fixture, &store, START_MS + 1000).await;
    assert!(store.get(second.id()).await.expect("get").is_none(), "a sweep forgot the end of its chain");
}

/// Revocation is immediate, and idempotent.
pub async fn a_deleted_session_is_gone_at_once_and_deletion_says_whether_it_was_there(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let (one, other) = (session("web").server, session("web").server);
    store.put(one.clone()).await.expect("put");
    store.put(other.clone()).await.expect("put");
    assert_eq!(store.delete(one.id()).await, Ok(true));
    assert!(store.get(one.id()).await.expect("get").is_none());
    assert_eq!(store.delete(one.id()).await, Ok(false));
    assert!(store.get(other.id()).await.expect("get").is_some(), "another session went with it");
    assert!(!fixture.counts() || store.status().sessions == 1);
}

/// Sealed calls: before, at and ahead of the clock.
pub async fn of_64_equal_claims_of_a_call_exactly_one_wins(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let agreed = session("web");
    for stamp_ms in [START_MS - 1000, START_MS, START_MS + 1000] {
        let nonce = format!("race-{stamp_ms}");
        race(&[&store], RACERS, *agreed.call(&nonce, stamp_ms, START_MS).claim()).await;
    }
}

/// Inits, which have no tag.
pub async fn of_64_equal_claims_of_an_init_exactly_one_wins(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    for stamp_ms in [START_MS - 1000, START_MS, START_MS + 1000] {
        let nonce = format!("race-{stamp_ms}");
        race(&[&store], RACERS, *init(Some("web"), &nonce, stamp_ms, START_MS).claim()).await;
    }
}

/// Reserves the same claim from many tasks at once, spread over the stores: exactly one must win, and all the others must get
/// the result that it was seen before.
pub async fn race<S: Store + ?Sized + 'static>(stores: &[&Arc<S>], racers: usize, claim: Claim) {
    let start = Arc::new(Barrier::new(racers));
    let racing: Vec<_> = (0..racers)
        .map(|racer| {
            let (store, start) = (stores[racer % stores.len()].clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                store.reserve(&claim).await.map(drop)
            })
        })
        .collect();
    let mut won = 0;
    for racer in racing {
        match racer.await.expect("a racer") {
            Ok(()) => won += 1,
            Err(err) => assert_eq!(err, ReserveError::Replayed),
        }
    }
    assert_eq!(won, 1, "of {racers} equal claims");
}

/// A nonce is unique within its session, its client id or wire 1's inits, and only there.
pub async fn equal_nonces_in_different_scopes_do_not_meet(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let (one, other) = (session("web"), session("web"));
    let nonce = "the-same-nonce";
    let claims = [
        ("a session", *one.call(nonce, START_MS, START_MS).claim()),
        ("another session of that client", *other.call(nonce, START_MS, START_MS).claim()),
        ("its inits", *init(Some("web"), nonce, START_MS, START_MS).claim()),
        ("another client's inits", *init(Some("app"), nonce, START_MS, START_MS).claim()),
        ("wire 1's inits", *init(None, nonce, START_MS, START_MS).claim()),
        // A length separates scope and nonce, not a boundary in the text.
        ("a client whose id begins alike", *init(Some("webthe"), "-same-nonce", START_MS, START_MS).claim()),
    ];
    for (scope, claim) in &claims {
        assert_eq!(reserve(&store, claim).await, Ok(()), "{scope}");
    }
    for (scope, claim) in &claims {
        assert_eq!(reserve(&store, claim).await, Err(ReserveError::Replayed), "{scope}");
    }
}

/// A request stamped at the future edge of the window is acceptable for twice the window; its nonce lives as long.
pub async fn a_claim_lives_through_its_last_millisecond_and_is_forgotten_after(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let window_ms = ReplayPolicy::default().window_ms();
    let agreed = agree(Some("web"), 3600, START_MS);
    let stamp_ms = START_MS + window_ms;
    let last_ms = START_MS + 2 * window_ms;
    reserve(&store, agreed.call("edge", stamp_ms, START_MS).claim()).await.expect("fresh");
    reserve(&store, init(Some("web"), "edge", stamp_ms, START_MS).claim()).await.expect("fresh");
    for now_ms in [START_MS + 1, stamp_ms, last_ms - 1, last_ms] {
        sweep(fixture, &store, now_ms).await;
        let call = *agreed.call("edge", stamp_ms, now_ms).claim();
        assert_eq!(reserve(&store, &call).await, Err(ReserveError::Replayed), "a call, {} ms on", now_ms - START_MS);
        let init = *init(Some("web"), "edge", stamp_ms, now_ms).claim();
        assert_eq!(reserve(&store, &init).await, Err(ReserveError::Replayed), "an init, {} ms on", now_ms - START_MS);
    }
    let after_ms = last_ms + 1 + fixture.forgets_within_ms();
    sweep(fixture, &store, after_ms).await;
    assert!(!fixture.counts() || store.status().nonces == (0, 0), "kept longer than need be");
    reserve(&store, agreed.call("edge", after_ms, after_ms).claim()).await.expect("forgotten");
    reserve(&store, init(Some("web"), "edge", after_ms, after_ms).claim()).await.expect("forgotten");
}

/// A step back, as time synchronisation makes it.
pub async fn a_claim_is_refused_even_if_the_clock_steps_back(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let agreed = session("web");
    reserve(&store, agreed.call("one", START_MS, START_MS).claim()).await.expect("fresh");
    let back_ms = START_MS - 120_000;
    reserve(&store, agreed.call("two", back_ms, back_ms).claim()).await.expect("fresh");
    sweep(fixture, &store, back_ms).await;
    for (nonce, stamp_ms) in [("one", START_MS), ("two", back_ms)] {
        for now_ms in [back_ms, START_MS, START_MS + 100_000] {
            let again = *agreed.call(nonce, stamp_ms, now_ms).claim();
            assert_eq!(reserve(&store, &again).await, Err(ReserveError::Replayed), "{nonce} at {now_ms}");
        }
    }
}

/// A clock that is wrong for a moment: the sweep removes nonces that are still valid once the clock is right again.
pub async fn a_claim_is_refused_even_if_the_clock_steps_ahead_and_back(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let agreed = agree(Some("web"), 3600, START_MS);
    for stamp_ms in [START_MS, START_MS + 1000] {
        reserve(&store, agreed.call(&format!("n{stamp_ms}"), stamp_ms, START_MS).claim()).await.expect("fresh");
    }
    sweep(fixture, &store, START_MS + 1_800_000).await;
    for stamp_ms in [START_MS, START_MS + 1000] {
        let again = *agreed.call(&format!("n{stamp_ms}"), stamp_ms, START_MS + 2000).claim();
        assert_eq!(reserve(&store, &again).await, Err(ReserveError::Replayed), "{stamp_ms}");
    }
}

/// A stamp is checked before the body is read, a nonce reserved after: a slow body must not outlast the first use.
pub async fn a_replay_that_was_checked_in_time_and_reserves_late_is_refused(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let window_ms = ReplayPolicy::default().window_ms();
    let agreed = agree(Some("web"), 3600, START_MS);
    let stamp_ms = START_MS + window_ms;
    reserve(&store, agreed.call("slow", stamp_ms, START_MS).claim()).await.expect("fresh");
    let replay = *agreed.call("slow", stamp_ms, START_MS + 2 * window_ms).claim();
    sweep(fixture, &store, START_MS + 2 * window_ms + 30_000).await;
    assert_eq!(reserve(&store, &replay).await, Err(ReserveError::Replayed));
}

/// Evicting a nonce would readmit it.
pub async fn a_full_store_refuses_and_evicts_nothing(fixture: &impl Fixture) {
    let store = bounded(fixture, limits(10, 100)).await;
    let agreed = session("web");
    let call = |n: usize, now_ms| *agreed.call(&format!("n{n}"), START_MS, now_ms).claim();
    for n in 0..100 {
        reserve(&store, &call(n, START_MS)).await.unwrap_or_else(|err| panic!("{n} of 100: {err}"));
    }
    for n in 100..110 {
        assert_eq!(reserve(&store, &call(n, START_MS + 5000)).await, Err(ReserveError::Full));
    }
    for n in 0..100 {
        assert_eq!(reserve(&store, &call(n, START_MS + 5000)).await, Err(ReserveError::Replayed), "{n} was evicted");
    }
    // When their time has passed there is room again.
    let later_ms = START_MS + 2 * ReplayPolicy::default().window_ms() + 1 + fixture.forgets_within_ms();
    sweep(fixture, &store, later_ms).await;
    let agreed = agree(Some("web"), 600, later_ms);
    reserve(&store, agreed.call("later", later_ms, later_ms).claim()).await.expect("room");
}

/// Inits need no key: unauthenticated clients must not crowd out those that have one.
pub async fn filling_the_init_side_leaves_the_sealed_side_open(fixture: &impl Fixture) {
    let store = bounded(fixture, limits(10, 100)).await;
    for n in 0..100 {
        reserve(&store, init(Some("flood"), &format!("n{n}"), START_MS, START_MS).claim()).await.expect("room");
    }
    let one_more = *init(Some("web"), "one-more", START_MS, START_MS).claim();
    assert_eq!(reserve(&store, &one_more).await, Err(ReserveError::Full));
    reserve(&store, session("web").call("one", START_MS, START_MS).claim()).await.expect("the sealed side is open");
    assert!(!fixture.counts() || store.status().nonces == (1, 100));
}

/// To the millisecond: a session expires at `expires_ms`.
pub async fn a_sweep_purges_expired_sessions_and_only_those(fixture: &impl Fixture) {
    let store = empty(fixture).await;
    let [over, just_over, alive] =
        [(60, START_MS), (61, START_MS), (61, START_MS + 1)].map(|(ttl, at)| agree(Some("web"), ttl, at).server);
    for session in [&over, &just_over, &alive] {
        store.put(session.clone()).await.expect("put");
    }
    assert_eq!(sweep(fixture, &store, START_MS + 59_999).await, 0);
    assert_eq!(sweep(fixture, &store, START_MS + 61_000).await, 2);
    assert!(!fixture.counts() || store.status().sessions == 1);
    assert!(store.get(over.id()).await.expect("get").is_none());
    assert!(store.get(just_over.id()).await.expect("get").is_none());
    assert!(store.get(alive.id()).await.expect("get").is_some());
    assert_eq!(sweep(fixture, &store, START_MS + 61_000).await, 0);
}

/// The bound counts the stored sessions, and nothing twice.
pub async fn a_store_holds_sessions_max_sessions_and_deleting_makes_room(fixture: &impl Fixture) {
    let store = bounded(fixture, limits(3, 1000)).await;
    let held = [session("a").server, session("b").server, session("c").server];
    for session in &held {
        store.put(session.clone()).await.expect("put");
    }
    let newcomer = session("d").server;
    assert_eq!(store.put(newcomer.clone()).await, Err(StoreError::Full));
    assert!(store.get(newcomer.id()).await.expect("get").is_none());
    for session in &held {
        assert!(store.get(session.id()).await.expect("get").is_some(), "one was evicted");
    }
    assert_eq!(store.delete(held[0].id()).await, Ok(true));
    store.put(newcomer).await.expect("room");
    assert_eq!(store.put(held[0].clone()).await, Err(StoreError::Full));
    assert_eq!(sweep(fixture, &store, START_MS + 600_000).await, 3);
    store.put(agree(Some("e"), 600, START_MS + 600_000).server).await.expect("room");
}

/// The bound holds for concurrent tasks.
pub async fn concurrent_puts_do_not_pass_the_bound(fixture: &impl Fixture) {
    let store = bounded(fixture, limits(5, 1000)).await;
    let start = Arc::new(Barrier::new(32));
    let puts: Vec<_> = (0..32)
        .map(|_| {
            let (store, start, session) = (store.clone(), start.clone(), session("web").server);
            tokio::spawn(async move {
                start.wait().await;
                store.put(session).await
            })
        })
        .collect();
    let mut kept = 0;
    for put in puts {
        match put.await.expect("a put") {
            Ok(()) => kept += 1,
            Err(err) => assert_eq!(err, StoreError::Full),
        }
    }
    assert_eq!(kept, 5);
    assert!(!fixture.counts() || store.status().sessions == 5);
}
