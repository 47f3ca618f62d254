//! Tests of the store in memory that the contract of all stores does not have: bounds, and the state it reports.

use sealway_proto::crypto::default_provider;
use sealway_proto::session::{Auth, SessionKey, SessionRecord};

use super::*;

/// Creates a session of the native protocol that ends at `expires_ms`; `lineage` is the first session of its chain.
pub(in crate::store) fn session(id: u8, lineage: Option<u8>, expires_ms: u64) -> Arc<Session> {
    let record = SessionRecord {
        id: session_id(id),
        wire: Wire::Native,
        client_id: Some("web".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage: lineage.map(session_id),
        created_ms: 0,
        expires_ms,
        key: SessionKey::from_bytes([7; 32]),
    };
    Arc::new(Session::new(default_provider(), record).unwrap())
}

pub(in crate::store) fn session_id(id: u8) -> SessionId {
    SessionId::from_random(&[id; 16], false)
}

fn memory(sessions_max: usize) -> Memory {
    Memory::new(MemoryLimits { sessions_max, nonces_max: 7, nonces_cleanup_from: 5 })
}

#[test]
fn ended_chains_are_bounded_and_one_beyond_the_bound_loses_its_sessions_at_once() {
    let memory = memory(2);
    let ids = |memory: &Memory| [1, 2, 3].map(|id| memory.find(&session_id(id)).is_some());
    memory.restore_session(session(1, Some(9), 100));
    memory.restore_session(session(2, Some(8), 100));
    memory.restore_session(session(3, None, 100));
    memory.end(session_id(10), 100);
    memory.end(session_id(11), 100);
    assert_eq!(ids(&memory), [true; 3], "other chains have ended");
    memory.end(session_id(9), 100);
    assert_eq!(ids(&memory), [false, true, true]);
    assert_eq!((memory.ended.len(), memory.status().sessions), (2, 2));
    // A chain that is remembered is ended for longer, whatever the bound.
    memory.end(session_id(10), 200);
    memory.end(session_id(10), 150);
    assert_eq!(*memory.ended.get(&session_id(10)).unwrap(), 200);
    assert_eq!(ids(&memory), [false, true, true]);
}

#[test]
fn an_ended_chain_is_remembered_until_its_time_and_no_longer() {
    let memory = memory(9);
    memory.restore_session(session(1, Some(9), 1000));
    memory.end(session_id(9), 500);
    memory.sweep_all(499);
    assert!(memory.find(&session_id(1)).is_none());
    memory.sweep_all(500);
    assert!(memory.ended.is_empty() && memory.find(&session_id(1)).is_some());
}

#[tokio::test]
async fn the_state_has_the_counts_and_the_bound_and_nothing_is_ever_wrapped() {
    let memory = memory(2);
    memory.put(session(1, None, 100)).await.unwrap();
    let pool = Pool { total: 1, idle: 1, waiting: 0 };
    let status = Status { kind: "memory", up: true, sessions: 1, nonces_max: 7, pool, ..Status::default() };
    assert_eq!(memory.status(), status);
    assert_eq!(memory.rewrap(10).await, Ok(0));
}
