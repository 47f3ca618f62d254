//! Stores that fail, hang or are full: calls are rejected within a deadline, and never let through. The failing store
//! injects faults around the memory store; it does not replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::desk::{ANON, CRYPTO_ERROR, Call, Desk, SESSION, V1, open};
use async_trait::async_trait;
use sealway_proto::exchange::{Form, Rejection};
use sealway_proto::session::{Auth, Claim, Fresh, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire, base64};
use sealway_sessions::authority::KeyEndpoint;
use sealway_sessions::store::{Memory, MemoryLimits, ReserveError, Status, Store, StoreError};
use sealway_sessions::{Policy, Refusal};
use sealway_testkit::store_contract::claims::{PATH, START_MS, agree, provider};

const UNAVAILABLE: &str = r#"{"error":"SERVICE_UNAVAILABLE"}"#;
const V1_STORE: (u16, &str, &str) = (503, "Service Unavailable", "Session store temporarily unavailable");
const V1_NONCES: (u16, &str, &str) = (503, "Service Unavailable", "Replay protection service temporarily unavailable");

#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Sessions,
    Nonces,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Fails,
    Hangs,
    /// The next read of a session fails, and nothing after it.
    FailsOneRead,
}

#[derive(Debug)]
struct Faulty {
    inner: Memory,
    on: On,
    how: How,
    reads: AtomicUsize,
}

impl Faulty {
    async fn fault(&self, on: On) -> Result<(), String> {
        match self.how {
            _ if on != self.on => Ok(()),
            How::Fails => Err("injected".into()),
            How::Hangs => std::future::pending().await,
            How::FailsOneRead => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Faulty {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        self.fault(On::Sessions).await.map_err(StoreError::Unavailable)?;
        self.inner.put(session).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        self.fault(On::Sessions).await.map_err(StoreError::Unavailable)?;
        if self.reads.fetch_add(1, Ordering::Relaxed) == 0 && self.how == How::FailsOneRead {
            return Err(StoreError::Unavailable("injected".into()));
        }
        self.inner.get(id).await
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.fault(On::Sessions).await.map_err(StoreError::Unavailable)?;
        self.inner.delete(id).await
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        self.fault(On::Sessions).await.map_err(StoreError::Unavailable)?;
        self.inner.end_chain(root, until_ms).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        self.fault(On::Nonces).await.map_err(ReserveError::Unavailable)?;
        self.inner.reserve(claim).await
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.inner.sweep(now_ms).await
    }

    fn status(&self) -> Status {
        Status { up: false, ..self.inner.status() }
    }
}

fn faulty(on: On, how: How) -> Desk {
    let inner = Memory::new(MemoryLimits::default());
    let policy =
        Policy { key_endpoint: KeyEndpoint::Open, store_deadline: Duration::from_millis(50), ..Policy::default() };
    Desk::with(Arc::new(Faulty { inner, on, how, reads: AtomicUsize::new(0) }), policy)
}

#[tokio::test]
async fn a_store_that_fails_or_hangs_is_503_within_its_deadline() {
    for on in [On::Sessions, On::Nonces] {
        for how in [How::Fails, How::Hangs] {
            let desk = faulty(on, how);
            let start = Instant::now();
            let what = format!("{on:?} {how:?}");
            for call in [Call::init(SESSION), Call::wire1(SESSION), Call::wire1(ANON)] {
                let answer = desk.send(call).await;
                answer.is(&what, 503, UNAVAILABLE);
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
            desk.send(Call::init(V1)).await.is_v1(&what, V1_STORE);
            if on == On::Sessions {
                let id = SessionId::from_random(&[1; 16], false);
                let key = Call::get(&format!("/v1/session/{id}")).with("x-clientid", "web");
                desk.send(key).await.is_v1(&what, V1_STORE);
                let delete = Call::new("DELETE", &format!("/admin/sessions/{id}")).with("authorization", "Bearer t");
                desk.admin(delete, "t", "").await.is(&what, 503, UNAVAILABLE);
            }
            assert!(start.elapsed() < Duration::from_secs(2), "{what}: {:?}", start.elapsed());
            // Errors in the request come first: they need no store.
            desk.send(Call::init(SESSION).body("{")).await.is(&what, 400, CRYPTO_ERROR);
        }
    }
}

#[tokio::test]
async fn a_sealed_call_is_not_opened_when_its_nonce_cannot_be_reserved() {
    for how in [How::Fails, How::Hangs] {
        let desk = faulty(On::Nonces, how);
        let agreed = agree(Some("web"), 600, START_MS);
        desk.authority.store().put(agreed.server.clone()).await.unwrap();
        let message = agreed.seal("one", START_MS);
        let refusal = open(&desk.authority, PATH, &message.headers, message.body).await.unwrap_err();
        assert!(matches!(refusal, Refusal::StoreUnavailable(_)), "{refusal}");
        assert_eq!(Rejection::from(refusal).answer(Form::Plain).status, 503);
    }
    let desk = faulty(On::Sessions, How::Hangs);
    let message = agree(Some("web"), 600, START_MS).seal("one", START_MS);
    let refusal = open(&desk.authority, PATH, &message.headers, message.body).await.unwrap_err();
    assert_eq!(Rejection::from(refusal).answer(Form::Plain).status, 503);
}

#[tokio::test]
async fn a_revocation_that_cannot_read_its_session_is_an_error_and_its_retry_ends_the_whole_chain() {
    let desk = faulty(On::Sessions, How::FailsOneRead);
    let store = desk.authority.store();
    let session = |number: u8, lineage: Option<SessionId>| {
        let record = SessionRecord {
            id: SessionId::from_random(&[number; 16], false),
            wire: Wire::Native,
            client_id: Some("web".into()),
            subject: None,
            tenant: None,
            auth: Auth::None,
            lineage,
            created_ms: START_MS,
            expires_ms: START_MS + 600_000,
            key: SessionKey::from_bytes([number; 32]),
        };
        Arc::new(Session::new(provider(), record).unwrap())
    };
    let first = session(1, None);
    let (second, third) = (session(2, Some(*first.id())), session(3, Some(*first.id())));
    for session in [&first, &second, &third] {
        store.put(session.clone()).await.unwrap();
    }
    let delete = async || {
        let call = Call::new("DELETE", &format!("/admin/sessions/{}", second.id())).with("authorization", "Bearer t");
        desk.admin(call, "t", "").await
    };
    delete().await.is("unread", 503, UNAVAILABLE);
    delete().await.is("read", 200, &format!(r#"{{"revoked":"{}"}}"#, second.id()));
    for session in [&first, &second, &third] {
        assert!(store.get(session.id()).await.unwrap().is_none(), "{} goes on", session.id());
    }
}

#[tokio::test]
async fn health_is_degraded_and_readiness_503_when_the_store_is_down() {
    let desk = faulty(On::Sessions, How::Fails);
    let health = desk.send(Call::get("/health")).await;
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("degraded")));
    let ready = desk.send(Call::get("/ready")).await;
    assert_eq!(ready.status, 503);
    let want = r#"{"cache":"up","database":"down","status":"unhealthy","timestamp":"2027-01-15T08:00:00.000Z"}"#;
    assert_eq!(ready.body, want);
}

fn bounded(sessions_max: usize, nonces_max: usize) -> Desk {
    let limits = MemoryLimits { sessions_max, nonces_max, nonces_cleanup_from: nonces_max };
    Desk::with(Arc::new(Memory::new(limits)), Policy::default())
}

#[tokio::test]
async fn a_full_nonce_store_is_400_on_session_init_and_503_on_v1() {
    let desk = bounded(100, 2);
    desk.send(Call::init(SESSION)).await.agreed();
    desk.send(Call::init(V1)).await.agreed();
    desk.send(Call::init(SESSION)).await.is("wire 2", 400, CRYPTO_ERROR);
    desk.send(Call::wire1(SESSION)).await.is("wire 1", 400, CRYPTO_ERROR);
    let answer = desk.send(Call::init(V1)).await;
    answer.is_v1("/v1", V1_NONCES);
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_malformed_init_takes_no_place_among_nonces() {
    let desk = bounded(100, 2);
    for key in ["", "AAAA", "not base64", &base64::encode(&[4; 65])] {
        for path in [SESSION, V1] {
            let call = Call::init(path).json(serde_json::json!({ "clientPublicKey": key }));
            assert_eq!(desk.send(call).await.status, 400, "{key}");
        }
    }
    assert_eq!(desk.authority.store().status().nonces, (0, 0));
    desk.send(Call::init(SESSION)).await.agreed();
}

#[tokio::test]
async fn ready_and_health_report_a_full_nonce_store_until_there_is_room() {
    let desk = bounded(100, 1);
    assert_eq!(desk.send(Call::get("/ready")).await.status, 200);
    desk.send(Call::init(SESSION)).await.agreed();
    desk.send(Call::init(SESSION)).await.is("full", 400, CRYPTO_ERROR);
    let ready = desk.send(Call::get("/ready")).await;
    assert_eq!((ready.status, ready.json()["status"].as_str()), (503, Some("nonces_full")));
    assert_eq!(desk.send(Call::get("/health")).await.json()["status"], "degraded");
    desk.clock.set(START_MS + 700_000);
    desk.authority.maintain().await;
    let key = format!("{}.{}", START_MS + 700_000, crate::desk::nonce());
    desk.send(Call::init(SESSION).with("x-idempotency-key", &key)).await.agreed();
    assert_eq!(desk.send(Call::get("/ready")).await.status, 200);
}

#[tokio::test]
async fn a_full_session_store_is_503() {
    let desk = bounded(1, 100);
    desk.send(Call::init(SESSION)).await.agreed();
    desk.send(Call::init(SESSION)).await.is("full", 503, UNAVAILABLE);
    desk.send(Call::init(V1)).await.is_v1("full", V1_STORE);
    // After its time is over there is room again.
    desk.clock.set(START_MS + 1_800_000);
    desk.authority.maintain().await;
    let key = format!("{}.{}", START_MS + 1_800_000, crate::desk::nonce());
    desk.send(Call::init(SESSION).with("x-idempotency-key", &key)).await.agreed();
}
