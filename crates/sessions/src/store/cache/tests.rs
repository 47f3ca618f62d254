//! Tests of the session cache: a revoked session is never returned, and a cached one only for its time.

use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::store::memory::tests::{session, session_id};

const FRESH: Duration = Duration::from_secs(60);

fn cache() -> SessionCache {
    SessionCache::new(CacheLimits { sessions_max: 10, fresh: FRESH })
}

/// Caches a session and returns its id.
fn kept(cache: &SessionCache, id: u8, lineage: Option<u8>) -> SessionId {
    assert!(cache.keep(&session(id, lineage, 1000), cache.ticket()));
    session_id(id)
}

fn is_there(cache: &SessionCache, id: &SessionId) -> bool {
    cache.get(id).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_session_is_fresh_for_its_time_and_each_lookup_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let cache = metrics::with_local_recorder(&recorder, cache);
    let id = kept(&cache, 1, None);
    let found = cache.get(&id).unwrap();
    assert!(found.is_fresh && *found.session.id() == id);
    tokio::time::advance(FRESH - Duration::from_millis(1)).await;
    assert!(cache.get(&id).unwrap().is_fresh);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!cache.get(&id).unwrap().is_fresh);
    assert!(cache.get(&session_id(2)).is_none());
    let text = recorder.handle().render();
    for (found, count) in [("fresh", 2), ("stale", 1), ("none", 1)] {
        let line = format!("sealway_session_cache_looks_total{{found=\"{found}\"}} {count}");
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
}

#[test]
fn a_revoked_session_is_gone_and_is_not_cached_again() {
    let cache = cache();
    let (id, other) = (kept(&cache, 1, None), kept(&cache, 2, None));
    let ticket = cache.ticket();
    assert!(!cache.is_revoked(&id));
    cache.revoke(&id);
    assert!(cache.is_revoked(&id) && !cache.is_revoked(&other));
    assert!(!is_there(&cache, &id) && is_there(&cache, &other));
    // A fetch that began before the revocation.
    assert!(!cache.keep(&session(1, None, 1000), ticket), "the session must not be used");
    assert!(!is_there(&cache, &id));
}

#[test]
fn a_revocation_ends_the_renewals_of_its_session_and_no_other_chain() {
    let cache = cache();
    let (renewed, other) = (kept(&cache, 2, Some(1)), kept(&cache, 4, Some(3)));
    cache.revoke(&session_id(1));
    assert!(!is_there(&cache, &renewed) && is_there(&cache, &other));
    assert!(cache.is_ended(&session(2, Some(1), 1000)) && cache.is_ended(&session(1, None, 1000)));
    assert!(!cache.is_ended(&session(4, Some(3), 1000)) && !cache.is_ended(&session(5, None, 1000)));
    assert!(!cache.keep(&session(6, Some(1), 1000), cache.ticket()));
    // A renewed session that is revoked alone.
    cache.revoke(&other);
    assert!(cache.is_ended(&session(4, Some(3), 1000)));
}

#[test]
fn a_session_that_is_forgotten_may_be_fetched_again() {
    let cache = cache();
    let (id, other) = (kept(&cache, 1, None), kept(&cache, 2, None));
    cache.forget(&id);
    assert!(!is_there(&cache, &id) && is_there(&cache, &other));
    kept(&cache, 1, None);
    assert!(is_there(&cache, &id));
}

#[test]
fn a_cleared_cache_has_no_session_nor_one_whose_fetch_began_before() {
    let cache = cache();
    let (id, ticket) = (kept(&cache, 1, None), cache.ticket());
    cache.clear();
    assert!(!is_there(&cache, &id));
    assert!(cache.keep(&session(1, None, 1000), ticket), "nothing says that it is revoked");
    assert!(!is_there(&cache, &id), "it may have been revoked while it was fetched");
    kept(&cache, 1, None);
    assert!(is_there(&cache, &id));
}

#[test]
fn a_sweep_removes_sessions_that_are_over_and_the_length_follows() {
    let cache = cache();
    assert_eq!((cache.len(), cache.is_empty()), (0, true));
    for (id, expires_ms) in [(1, 1000), (2, 1001), (3, 1002)] {
        assert!(cache.keep(&session(id, None, expires_ms), cache.ticket()));
    }
    cache.sweep(1000);
    assert_eq!([1, 2, 3].map(|id| is_there(&cache, &session_id(id))), [false, true, true]);
    assert_eq!((cache.len(), cache.is_empty()), (2, false));
    let text = format!("{cache:?}");
    assert!(text.contains("len: 2") && text.contains("fresh: 60s"), "{text}");
}
