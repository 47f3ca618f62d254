//! The contract of stores for Redis alone: a real server, under a clock that the rules set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealway_runtime::clock::ManualClock;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::redis::{Redis, RedisConfig};
use sealway_sessions::store::{MemoryLimits, SessionCache, Store};
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract;
use sealway_testkit::store_contract::Fixture;
use sealway_testkit::store_contract::claims::{START_MS, provider};

struct InRedis {
    server: Server,
    folder: tempfile::TempDir,
    clock_ms: AtomicU64,
}

impl InRedis {
    fn new() -> Self {
        let server = Server::options().clock(START_MS - 200_000).start().unwrap();
        InRedis { server, folder: tempfile::tempdir().unwrap(), clock_ms: AtomicU64::new(START_MS) }
    }
}

impl Fixture for InRedis {
    async fn make(&self, limits: MemoryLimits) -> Arc<dyn Store> {
        // The server started before the rules' time, since stamps from before its start are rejected.
        self.server.set_clock(START_MS - 200_000).unwrap();
        let kek = self.folder.path().join("sessions.kek");
        KeyRing::generate(provider(), &kek).unwrap();
        let keys = Arc::new(KeyRing::load(provider(), &kek).unwrap());
        let cache = Arc::new(SessionCache::new(CacheLimits::default()));
        // The rules do more work at once than a debug build does in a second.
        let deadline = Duration::from_secs(5);
        let mut config = RedisConfig::parse_url(&self.server.url()).unwrap();
        config.server.deadline = deadline;
        let clock = Arc::new(ManualClock::new(START_MS));
        let store = Redis::open(provider(), config, keys, cache, limits, clock, None).await.unwrap();
        assert!(store.is_up());
        self.server.set_clock(START_MS).unwrap();
        store
    }

    async fn set_clock(&self, now_ms: u64) {
        // Forward only: a server whose clock goes back rejects, which another test covers.
        if self.clock_ms.fetch_max(now_ms, Ordering::SeqCst) < now_ms {
            self.server.set_clock(now_ms).unwrap();
        }
    }

    fn counts(&self) -> bool {
        false
    }

    /// Returns the extra time for which Redis keeps a nonce, 12 seconds against steps of its clock, and a second more.
    fn forgets_within_ms(&self) -> u64 {
        13_000
    }
}

// Redis is bounded by its memory, not by a number of nonces: `redis_faults` fills it.
store_contract!(redis, InRedis::new();
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
);
