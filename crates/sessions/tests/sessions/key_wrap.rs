//! Session keys wrapped by another process than this one: it answers late, in batches, and may be unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::place::Place;
use async_trait::async_trait;
use sealway_proto::session::SessionKey;
use sealway_runtime::clock::ManualClock;
use sealway_runtime::config::Problems;
use sealway_sessions::config::{RawSessions, resolve};
use sealway_sessions::kek::{KeyRing, KeyWrap, UnwrapError, WRAP_MAX, WrapError, WrappedKey};
use sealway_sessions::store::{Embedded, MemoryLimits, Store, StoreError};
use sealway_testkit::store_contract::claims::{START_MS, agree, provider};

/// Stands for a key wrap in another process.
#[derive(Debug)]
struct Beside {
    ring: KeyRing,
    is_away: AtomicBool,
    calls: AtomicUsize,
    largest: AtomicUsize,
}

impl Beside {
    fn new(place: &Place) -> Arc<Beside> {
        Arc::new(Beside {
            ring: KeyRing::load(provider(), &place.kek()).unwrap(),
            is_away: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
        })
    }

    async fn answer(&self, count: usize) -> bool {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.largest.fetch_max(count, Ordering::SeqCst);
        !self.is_away.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl KeyWrap for Beside {
    async fn wrap_all(&self, keys: &[(Vec<u8>, &SessionKey)]) -> Result<Vec<WrappedKey>, WrapError> {
        match self.answer(keys.len()).await {
            true => self.ring.wrap_all(keys).await,
            false => Err(WrapError("the broker is away".into())),
        }
    }

    async fn unwrap_all(&self, wrapped: &[(Vec<u8>, WrappedKey)]) -> Vec<Result<SessionKey, UnwrapError>> {
        match self.answer(wrapped.len()).await {
            true => self.ring.unwrap_all(wrapped).await,
            false => wrapped.iter().map(|_| Err(UnwrapError::Unavailable("it is away".into()))).collect(),
        }
    }

    async fn refresh(&self) -> bool {
        self.ring.refresh().await
    }

    fn active_id(&self) -> String {
        self.ring.active_id()
    }

    fn place(&self) -> String {
        "the broker".into()
    }
}

async fn open(place: &Place, keys: &Arc<Beside>) -> Result<Embedded, String> {
    let opened = Embedded::open_with(provider(), &place.file(), keys.clone(), MemoryLimits::default(), START_MS).await;
    opened.map_err(|err| err.to_string())
}

#[tokio::test]
async fn a_start_unwraps_in_batches_and_one_without_the_broker_is_refused_and_ends_no_session() {
    const COUNT: usize = 2 * WRAP_MAX + 9;
    let place = Place::new();
    let keys = Beside::new(&place);
    let store = open(&place, &keys).await.unwrap();
    let sessions: Vec<_> = (0..COUNT).map(|_| agree(Some("web"), 600, START_MS).server).collect();
    let puts = sessions.iter().map(|session| store.put(session.clone()));
    futures_util::future::join_all(puts).await.into_iter().for_each(Result::unwrap);
    drop(store);

    keys.is_away.store(true, Ordering::SeqCst);
    let err = open(&place, &keys).await.err().unwrap();
    assert!(err.contains("cannot be unwrapped now"), "{err}");
    keys.is_away.store(false, Ordering::SeqCst);
    keys.calls.store(0, Ordering::SeqCst);
    let store = open(&place, &keys).await.unwrap();
    // The mark, and three pages.
    assert_eq!((keys.calls.load(Ordering::SeqCst), keys.largest.load(Ordering::SeqCst)), (4, WRAP_MAX));
    for session in &sessions {
        let found = store.get(session.id()).await.unwrap().expect("it was put");
        assert_eq!(found.record().key.expose(), session.record().key.expose());
    }
    assert_eq!(keys.calls.load(Ordering::SeqCst), 4, "a session at hand asks nobody");
}

#[tokio::test]
async fn without_the_broker_no_session_is_put_and_those_at_hand_go_on() {
    let place = Place::new();
    let keys = Beside::new(&place);
    let store = open(&place, &keys).await.unwrap();
    let (first, second) = (agree(Some("web"), 600, START_MS).server, agree(Some("web"), 600, START_MS).server);
    store.put(first.clone()).await.unwrap();
    keys.is_away.store(true, Ordering::SeqCst);
    let err = store.put(second.clone()).await.unwrap_err();
    assert!(matches!(&err, StoreError::Unavailable(text) if text.contains("the broker is away")), "{err}");
    assert!(store.get(first.id()).await.unwrap().is_some() && store.get(second.id()).await.unwrap().is_none());
    keys.is_away.store(false, Ordering::SeqCst);
    store.put(second).await.unwrap();
    assert_eq!(store.status().sessions, 2, "the refused one took no place");
}

#[tokio::test]
async fn everything_is_wrapped_anew_in_batches() {
    let place = Place::new();
    let keys = Beside::new(&place);
    let store = open(&place, &keys).await.unwrap();
    let sessions: Vec<_> = (0..WRAP_MAX + 3).map(|_| agree(None, 600, START_MS).server).collect();
    let puts = sessions.iter().map(|session| store.put(session.clone()));
    futures_util::future::join_all(puts).await.into_iter().for_each(Result::unwrap);
    let second = sealway_sessions::kek::add(provider(), &place.kek()).unwrap();
    sealway_sessions::kek::make_first(provider(), &place.kek(), &second).unwrap();
    keys.calls.store(0, Ordering::SeqCst);
    assert_eq!(store.rewrap(10_000).await.unwrap(), WRAP_MAX + 3);
    assert_eq!(keys.calls.load(Ordering::SeqCst), 2);
    drop(store);
    // The first key is no longer needed.
    let text = std::fs::read_to_string(place.kek()).unwrap();
    std::fs::write(place.kek(), text.lines().next().unwrap()).unwrap();
    assert_eq!(place.open(START_MS).status().sessions, WRAP_MAX + 3);
}

fn configured(raw: serde_json::Value) -> (sealway_sessions::config::SessionsConfig, String) {
    let raw: RawSessions = serde_json::from_value(raw).unwrap();
    let mut problems = Problems::default();
    let config = resolve(&raw, &Default::default(), &Default::default(), None, &mut problems);
    (config, problems.into_result().err().map(|err| err.to_string()).unwrap_or_default())
}

#[tokio::test]
async fn a_configured_broker_is_never_replaced_by_a_key_file() {
    let place = Place::new();
    let store = format!("file:{}", place.file().display());
    let broker = serde_json::json!({ "socket": "/run/broker.sock", "profile": "Sessions", "key": "sessions" });
    let (mut config, problems) = configured(serde_json::json!({ "store": store, "kek_broker": broker }));
    assert_eq!(problems, "");
    let clock: Arc<dyn sealway_runtime::clock::Clock> = Arc::new(ManualClock::new(START_MS));
    // The key file beside the store is not read.
    let err = config.open_embedded(provider(), &clock).await.err().unwrap().to_string();
    assert!(err.contains("sessions.kek_broker"), "{err}");
    let keys = Beside::new(&place);
    config.wrap_keys_with(keys.clone());
    let opened = config.open_embedded(provider(), &clock).await.unwrap();
    opened.put(agree(None, 600, START_MS).server).await.unwrap();
    assert!(keys.calls.load(Ordering::SeqCst) >= 2);

    let both = serde_json::json!({ "store": store, "kek_broker": broker, "kek_file": "k" });
    assert!(configured(both.clone()).1.contains("sessions.kek_broker"));
    for wraps in [true, false] {
        let mut moving = both.clone();
        moving["kek_broker"]["wraps"] = wraps.into();
        let (config, problems) = configured(moving);
        assert!(problems.is_empty() && config.kek_broker.unwrap().wraps == wraps, "{problems}");
    }
    let nothing_wraps = serde_json::json!({ "store": store, "kek_broker": { "socket": "s", "profile": "P", "key": "k", "wraps": false } });
    assert!(configured(nothing_wraps).1.contains("sessions.kek_broker.wraps"));
    let empty = serde_json::json!({ "store": store, "kek_broker": { "socket": "", "profile": "P", "key": "k" } });
    assert!(configured(empty).1.contains("sessions.kek_broker.socket"));
}
