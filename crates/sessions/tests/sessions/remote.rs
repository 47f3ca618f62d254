//! The remote store against a real authority over real HTTP: the contract of stores, and its own behaviour.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::far::{Far, config, open, policy, secret_file, within};
use sealway_exchange::over;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::remote::RemoteConfig;
use sealway_sessions::store::{Embedded, Memory, MemoryLimits, Part, ReserveError, Store, StoreError};
use sealway_sessions::{Authority, Policy};
use sealway_testkit::store_contract;
use sealway_testkit::store_contract::claims::{START_MS, agree, init, provider};
use sealway_testkit::store_contract::{Fixture, of_chain, race};

/// Makes stores, each with its own authority.
struct RemoteFixture {
    far: Mutex<Option<Far>>,
    now_ms: AtomicU64,
    file: Option<tempfile::TempDir>,
}

impl RemoteFixture {
    fn new(file: Option<tempfile::TempDir>) -> Self {
        RemoteFixture { far: Mutex::new(None), now_ms: AtomicU64::new(START_MS), file }
    }
}

impl Fixture for RemoteFixture {
    async fn make(&self, limits: MemoryLimits) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match &self.file {
            None => Arc::new(Memory::new(limits)),
            Some(folder) => {
                let kek = folder.path().join("sessions.kek");
                KeyRing::generate(provider(), &kek).unwrap();
                let keys = KeyRing::load(provider(), &kek).unwrap();
                let file = folder.path().join("sessions.redb");
                Arc::new(Embedded::open(provider(), &file, Arc::new(keys), limits, START_MS - 200_000).unwrap())
            }
        };
        let far = Far::with(store, policy()).await;
        far.clock.set(self.now_ms.load(Ordering::SeqCst));
        let remote = far.remote().await;
        *self.far.lock().unwrap() = Some(far);
        remote
    }

    async fn set_clock(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
        let authority = self.far.lock().unwrap().as_ref().map(|far| {
            far.clock.set(now_ms);
            far.authority.clone()
        });
        if let Some(authority) = authority {
            authority.maintain().await;
        }
    }

    fn counts(&self) -> bool {
        false
    }
}

// Two rules count the sessions that a sweep removes, but the authority sweeps: equivalent tests are below.
store_contract!(remote, RemoteFixture::new(None);
    a_session_that_was_put_is_got_with_the_same_record_and_key
    a_session_keeps_its_wire_its_tenant_and_how_its_client_was_recognised
    an_unknown_session_is_none
    a_deleted_session_is_gone_at_once_and_deletion_says_whether_it_was_there
    of_64_equal_claims_of_a_call_exactly_one_wins
    of_64_equal_claims_of_an_init_exactly_one_wins
    equal_nonces_in_different_scopes_do_not_meet
    a_claim_lives_through_its_last_millisecond_and_is_forgotten_after
    a_claim_is_refused_even_if_the_clock_steps_back
    a_claim_is_refused_even_if_the_clock_steps_ahead_and_back
    a_replay_that_was_checked_in_time_and_reserves_late_is_refused
    a_full_store_refuses_and_evicts_nothing
    filling_the_init_side_leaves_the_sealed_side_open
    concurrent_puts_do_not_pass_the_bound
);
store_contract!(remote_of_embedded, RemoteFixture::new(Some(tempfile::tempdir().unwrap()));
    a_session_that_was_put_is_got_with_the_same_record_and_key
    a_session_keeps_its_wire_its_tenant_and_how_its_client_was_recognised
    of_64_equal_claims_of_a_call_exactly_one_wins
    a_claim_lives_through_its_last_millisecond_and_is_forgotten_after
);

#[tokio::test]
async fn sessions_swept_by_the_authority_leave_the_cache() {
    let limits = MemoryLimits { sessions_max: 2, ..MemoryLimits::default() };
    let far = Far::with(Arc::new(Memory::new(limits)), policy()).await;
    let remote = far.remote().await;
    let [over, alive, more] = [60, 600, 600].map(|ttl| agree(Some("web"), ttl, START_MS).server);
    remote.put(over.clone()).await.unwrap();
    remote.put(alive.clone()).await.unwrap();
    assert_eq!(remote.put(more.clone()).await, Err(StoreError::Full));
    far.pass(START_MS + 60_000).await;
    assert_eq!(remote.sweep(START_MS + 60_000).await, Ok(0), "sweeping is the authority's");
    assert!(remote.get(over.id()).await.unwrap().is_none());
    assert!(remote.get(alive.id()).await.unwrap().is_some());
    remote.put(more).await.expect("room");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_revocation_at_the_authority_takes_effect_within_a_second() {
    let far = Far::memory().await;
    let (remote, other) = (far.remote().await, far.remote().await);
    let session = agree(Some("web"), 600, START_MS).server;
    remote.put(session.clone()).await.unwrap();
    assert!(remote.get(session.id()).await.unwrap().is_some());
    assert!(other.get(session.id()).await.unwrap().is_some());
    assert!(far.authority.revoke(session.id()).await.unwrap());
    let gone =
        async || remote.get(session.id()).await.unwrap().is_none() && other.get(session.id()).await.unwrap().is_none();
    within(Duration::from_secs(1), "the revoked session is still used", gone).await;
    for _ in 0..100 {
        assert!(remote.get(session.id()).await.unwrap().is_none(), "it came back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watched_session_ends_on_a_revocation_elsewhere() {
    let far = Far::memory().await;
    let near = Authority::new(provider(), far.remote().await, far.clock.clone(), Policy::default());
    let (session, other) = (agree(Some("web"), 600, START_MS).server, agree(Some("web"), 600, START_MS).server);
    for session in [&session, &other] {
        near.store().put(session.clone()).await.unwrap();
        assert!(
            tokio::time::timeout(Duration::from_millis(600), over(&near, session)).await.is_err(),
            "it is not over"
        );
    }
    assert!(far.authority.revoke(session.id()).await.unwrap());
    // Takes less than a second on an idle machine.
    tokio::time::timeout(Duration::from_secs(20), over(&near, &session)).await.expect("it was revoked");
    far.clock.set(START_MS + 600_000);
    tokio::time::timeout(Duration::from_secs(20), over(&near, &other)).await.expect("it expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_setting_makes_a_session_outlive_its_revocation_for_long() {
    let far = Far::memory().await;
    let how = RemoteConfig { fresh: Duration::from_secs(3600), ..config(far.address) };
    let remote = open(how).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    remote.put(session.clone()).await.unwrap();
    assert!(far.authority.revoke(session.id()).await.unwrap());
    let gone = async || remote.get(session.id()).await.unwrap().is_none();
    within(Duration::from_secs(2), "the revoked session is still used", gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_at_hand_is_not_asked_for_again_at_once() {
    let far = Far::memory().await;
    let remote = far.remote().await;
    let session = agree(Some("web"), 600, START_MS).server;
    remote.put(session.clone()).await.unwrap();
    far.authority.store().delete(session.id()).await.unwrap();
    let got = remote.get(session.id()).await.unwrap().expect("at hand");
    assert!(Arc::ptr_eq(&got, &session));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_claims_at_two_api_sides_and_the_authority_itself_exactly_one_wins() {
    let far = Far::memory().await;
    let (one, two) = (far.remote().await, far.remote().await);
    let stores: [Arc<dyn Store>; 3] = [one, two, far.authority.store().clone()];
    let agreed = agree(Some("web"), 600, START_MS);
    for round in 0..50_u64 {
        let (nonce, stamp_ms) = (format!("race-{round}"), START_MS - 1000 + 40 * round);
        race(&stores.each_ref(), 12, *agreed.call(&nonce, stamp_ms, START_MS).claim()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_every_claim_is_granted_once_and_none_is_lost() {
    use futures_util::StreamExt;
    let far = Far::memory().await;
    let sides = [far.remote().await, far.remote().await];
    let agreed = agree(Some("web"), 600, START_MS);
    let claims: Vec<_> = (0..1500).map(|n| *agreed.call(&format!("n{n}"), START_MS, START_MS).claim()).collect();
    let asks = claims.iter().flat_map(|claim| sides.iter().map(move |side| side.reserve(claim)));
    let outcomes: Vec<_> = futures_util::stream::iter(asks).buffer_unordered(200).collect().await;
    let granted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let replayed = outcomes.iter().filter(|outcome| matches!(outcome, Err(ReserveError::Replayed))).count();
    assert_eq!((granted, replayed), (1500, 1500));
    assert_eq!(far.authority.store().status().nonces, (1500, 0));
}

#[tokio::test]
async fn an_api_side_whose_clock_is_slow_does_not_shorten_a_record() {
    let far = Far::memory().await;
    let remote = far.remote().await;
    let agreed = agree(Some("web"), 3600, START_MS - 250_000);
    // By the API side's clock it may be forgotten at 350 s, by the authority's at 600 s.
    let slow_ms = START_MS - 250_000;
    remote.reserve(agreed.call("slow", START_MS, slow_ms).claim()).await.unwrap();
    far.pass(START_MS + 599_000).await;
    assert_eq!(far.authority.store().status().nonces, (1, 0));
    far.pass(START_MS + 602_000).await;
    assert_eq!(far.authority.store().status().nonces, (0, 0));
}

#[tokio::test]
async fn a_stamp_outside_the_authoritys_window_is_refused_whatever_the_api_sides_clock_says() {
    let far = Far::memory().await;
    let remote = far.remote().await;
    let agreed = agree(Some("web"), 3600, START_MS);
    for (stamp_ms, good) in [
        (START_MS - 300_001, false),
        (START_MS - 300_000, true),
        (START_MS + 300_000, true),
        (START_MS + 300_001, false),
    ] {
        let call = *agreed.call(&format!("n{stamp_ms}"), stamp_ms, stamp_ms).claim();
        assert_eq!(remote.reserve(&call).await.is_ok(), good, "{stamp_ms}");
        let init = *init(Some("web"), &format!("n{stamp_ms}"), stamp_ms, stamp_ms).claim();
        assert_eq!(remote.reserve(&init).await.map(drop), if good { Ok(()) } else { Err(ReserveError::Replayed) });
    }
}

#[tokio::test]
async fn an_authority_that_rejects_this_process_stops_the_start() {
    let far = Far::memory().await;
    let wrong = RemoteConfig { secret_file: Some(secret_file("another-secret-0123456789")), ..config(far.address) };
    let err = open(wrong).await.unwrap_err().to_string();
    assert!(err.contains("/v1/authority/state: answered 401"), "{err}");
    let closed = Far::with(Arc::new(Memory::new(MemoryLimits::default())), Policy::default()).await;
    let err = open(config(closed.address)).await.unwrap_err().to_string();
    assert!(err.contains("answered 404: is sessions.authority_secret_file set there"), "{err}");
    let weak = RemoteConfig { secret_file: Some(secret_file("short")), ..config(far.address) };
    let err = open(weak).await.unwrap_err().to_string();
    assert!(err.contains("sessions.remote.secret_file: ") && !err.contains("short\n"), "{err}");
}

#[tokio::test]
async fn status_is_the_authoritys_and_clocks_too_far_apart_are_not_up() {
    let far = Far::memory().await;
    let remote = far.remote().await;
    remote.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    remote.reserve(init(Some("web"), "one", START_MS, START_MS).claim()).await.unwrap();
    let is_told = async || remote.status().sessions == 1;
    within(Duration::from_secs(2), "the state is not read again", is_told).await;
    let status = remote.status();
    assert_eq!((status.kind, status.up, status.nonces), ("remote", true, (0, 1)));
    assert_eq!((status.postgres, status.redis), (Part::Unused, Part::Unused));
    assert_eq!((status.pool.total, status.pool.idle, status.pool.waiting), (64, 64, 0));
    far.clock.set(START_MS + 300_001);
    within(Duration::from_secs(2), "up under clocks that cannot agree", async || !remote.status().up).await;
    far.clock.set(START_MS + 300_000);
    within(Duration::from_secs(2), "not up again", async || remote.status().up).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_session_outlives_the_first_one_that_the_authority_no_longer_has() {
    let far = Far::memory().await;
    let remote = open(RemoteConfig { fresh: Duration::ZERO, ..config(far.address) }).await.unwrap();
    let first = of_chain(None, 1000);
    let renewed = of_chain(Some(*first.id()), 600_000);
    for session in [&first, &renewed] {
        remote.put(session.clone()).await.unwrap();
        assert!(remote.get(session.id()).await.unwrap().is_some());
    }
    far.pass(START_MS + 1000).await;
    assert!(remote.get(first.id()).await.unwrap().is_none());
    assert!(remote.get(renewed.id()).await.unwrap().is_some(), "the end of the first session ended its chain");
}
