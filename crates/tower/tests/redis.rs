//! The store over an authority's Redis: a real server, and the authority's own store beside it.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use sealway_proto::session::{Claim, Session};
use sealway_proto::wire::{SessionId, Wire, base64};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::redis::{Redis as Authoritys, RedisConfig};
use sealway_sessions::store::{MemoryLimits, ReserveError as AuthoritysError, SessionCache, Store as _};
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract::claims::{agree, init, provider, random};
use sealway_tower::{KeySource, Redis, RedisSettings, ReserveError, Store as _, StoreError};

/// A Redis with an epoch in force that a gateway began.
struct Ground {
    server: Server,
    folder: tempfile::TempDir,
    authority: Arc<Authoritys>,
}

const PATIENT: Duration = Duration::from_secs(5);

fn now() -> u64 {
    SystemClock.now_ms()
}

async fn gateway(server: &Server, folder: &std::path::Path) -> Arc<Authoritys> {
    let keys = Arc::new(KeyRing::load(provider(), &folder.join("sessions.kek")).unwrap());
    let cache = Arc::new(SessionCache::new(CacheLimits::default()));
    let mut config = RedisConfig::parse_url(&server.url()).unwrap();
    config.server.deadline = PATIENT;
    let clock = Arc::new(SystemClock);
    Authoritys::open(provider(), config, keys, cache, MemoryLimits::default(), clock, None).await.unwrap()
}

impl Ground {
    async fn new() -> Self {
        let (server, folder) = (Server::start().unwrap(), tempfile::tempdir().unwrap());
        KeyRing::generate(provider(), &folder.path().join("sessions.kek")).unwrap();
        let authority = gateway(&server, folder.path()).await;
        Ground { server, folder, authority }
    }

    fn settings(&self) -> RedisSettings {
        let keys = KeySource::File(self.folder.path().join("sessions.kek"));
        RedisSettings { deadline: PATIENT, ..RedisSettings::new(self.server.url(), keys) }
    }

    fn store(&self) -> Redis {
        Redis::new(self.settings()).unwrap()
    }
}

fn claim(stamp_ms: u64) -> Claim {
    let nonce: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
    *init(Some("web"), &nonce, stamp_ms, now()).claim()
}

/// Returns a stamp that the floor of a young epoch does not cover.
async fn fresh_stamp(ground: &Ground) -> u64 {
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        let stamp_ms = now();
        match ground.authority.reserve(&claim(stamp_ms)).await {
            Ok(_) => return stamp_ms,
            Err(err) => assert!(Instant::now() < end, "{err}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_of_the_authority_is_found_until_it_or_its_chain_is_revoked() {
    let ground = Ground::new().await;
    let store = ground.store();
    let session = agree(Some("web"), 600, now()).server;
    assert_eq!(store.get(session.id()).await.unwrap().map(|found| *found.id()), None);
    ground.authority.put(session.clone()).await.unwrap();
    let found = store.get(session.id()).await.unwrap().unwrap();
    assert_eq!(found.record().key.expose(), session.record().key.expose());
    assert_eq!(found.record().client_id.as_deref(), Some("web"));
    ground.authority.delete(session.id()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(store.get(session.id()).await.unwrap().is_none(), "half a second is how long it is used without asking");

    // A session that was renewed from another one ends with it.
    let root = SessionId::from_random(&random(), false);
    let mut record = agree(Some("web"), 600, now()).server.record().clone();
    (record.wire, record.lineage) = (Wire::Native, Some(root));
    let renewed = Arc::new(Session::new(provider(), record).unwrap());
    ground.authority.put(renewed.clone()).await.unwrap();
    assert!(ground.store().get(renewed.id()).await.unwrap().is_some());
    ground.authority.end_chain(&root, now() + 600_000).await.unwrap();
    assert!(ground.store().get(renewed.id()).await.unwrap().is_none());
}

#[tokio::test]
async fn of_equal_claims_one_is_granted_by_any_process() {
    let ground = Ground::new().await;
    let store = ground.store();
    let stamp_ms = fresh_stamp(&ground).await;
    let (ours, theirs) = (claim(stamp_ms), claim(stamp_ms));
    store.reserve(&ours).await.unwrap();
    assert_eq!(store.reserve(&ours).await.map(drop), Err(ReserveError::Replayed));
    assert_eq!(ground.authority.reserve(&ours).await.map(drop), Err(AuthoritysError::Replayed));
    ground.authority.reserve(&theirs).await.unwrap();
    assert_eq!(store.reserve(&theirs).await.map(drop), Err(ReserveError::Replayed));
    // A claim stamped ahead waits until a loss of memory could no longer forget it.
    let begun = Instant::now();
    store.reserve(&claim(now() + 1200)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    let too_far = store.reserve(&claim(now() + 10_000)).await;
    assert!(matches!(too_far, Err(ReserveError::Unavailable(_))), "{too_far:?}");
}

#[tokio::test]
async fn a_redis_without_its_memory_grants_nothing_and_readmits_nothing() {
    let mut ground = Ground::new().await;
    let store = ground.store();
    let stamp_ms = fresh_stamp(&ground).await;
    let granted = claim(stamp_ms);
    store.reserve(&granted).await.unwrap();
    ground.server.kill().unwrap();
    let begun = Instant::now();
    assert!(matches!(store.reserve(&claim(now())).await, Err(ReserveError::Unavailable(_))));
    let id = SessionId::from_random(&[1; 16], false);
    assert!(matches!(store.get(&id).await, Err(StoreError::Unavailable(_))));
    assert!(begun.elapsed() < PATIENT * 3);
    ground.server.start_again_empty().unwrap();
    assert!(matches!(store.reserve(&granted).await, Err(ReserveError::Unavailable(_))), "no epoch is in force");
    let another = gateway(&ground.server, ground.folder.path()).await;
    assert!(store.reserve(&granted).await.is_err(), "it was granted before the loss");
    drop(another);
}

/// The process that began an epoch may not have known of the loss before it: a process that knows of an earlier one
/// rejects requests that may be older.
#[tokio::test]
async fn after_a_loss_of_memory_only_stamps_that_are_surely_younger_are_granted() {
    let ground = Ground::new().await;
    let (old, behind) = (ground.store(), RedisSettings { postgres_behind: true, ..ground.settings() });
    let behind = Redis::new(behind).unwrap();
    let stamp_ms = fresh_stamp(&ground).await;
    for store in [&old, &behind] {
        store.reserve(&claim(stamp_ms)).await.unwrap();
    }
    // The gateway that knows of the loss is gone too.
    let Ground { mut server, folder, authority } = ground;
    drop(authority);
    server.kill().unwrap();
    server.start_again_empty().unwrap();
    let authority = gateway(&server, folder.path()).await;
    let ground = Ground { server, folder, authority };
    let stamp_ms = fresh_stamp(&ground).await;
    let refused = granted_within(&old, stamp_ms).await.unwrap_err();
    assert!(refused.to_string().contains("older than its memory"), "{refused}");
    granted_within(&behind, stamp_ms).await.unwrap();
    granted_within(&ground.store(), stamp_ms).await.unwrap();
}

/// Reserves another nonce once the server can be reached again.
async fn granted_within(store: &Redis, stamp_ms: u64) -> Result<(), ReserveError> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match store.reserve(&claim(stamp_ms)).await {
            Err(ReserveError::Unavailable(why)) if !why.contains("memory") && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            done => return done.map(drop),
        }
    }
}

/// Redis accepts connections and does not answer: no request waits longer than its deadline, however many there are,
/// and all continue as soon as it answers.
#[tokio::test]
async fn a_redis_that_hangs_is_waited_for_no_longer_than_the_deadline_and_left_behind_at_once() {
    let ground = Ground::new().await;
    let deadline = Duration::from_millis(700);
    let store = Arc::new(Redis::new(RedisSettings { deadline, ..ground.settings() }).unwrap());
    let id = SessionId::from_random(&[1; 16], false);
    assert!(store.get(&id).await.unwrap().is_none());
    ground.server.pause().unwrap();
    let asked: Vec<_> = (0..200)
        .map(|at| {
            let store = store.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(at * 10)).await;
                let begun = Instant::now();
                (store.get(&id).await.is_err(), begun.elapsed())
            })
        })
        .collect();
    for asked in asked {
        let (is_refused, took) = asked.await.unwrap();
        assert!(is_refused && took < deadline * 3, "{is_refused} {took:?}");
    }
    ground.server.resume().unwrap();
    let begun = Instant::now();
    while store.get(&id).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "it is well again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads every value of `vectors/store/` from Redis.
#[tokio::test]
async fn rows_are_read_as_the_vectors_say() {
    let ground = Ground::new().await;
    let unhex = |value: &serde_json::Value| -> Vec<u8> {
        let text = value.as_str().unwrap().as_bytes();
        text.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    };
    let mut count = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/store")).unwrap() {
        let path = entry.unwrap().path();
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (name, session) = (vector["name"].as_str().unwrap(), &vector["session"]);
        let id = if session.is_null() { &vector["session_id"] } else { &session["id"] };
        let id = SessionId::parse(id.as_str().unwrap()).unwrap();
        let link = redis::Client::open(ground.server.url()).unwrap();
        let mut link = link.get_multiplexed_async_connection().await.unwrap();
        let value = unhex(&vector["value_hex"]);
        redis::cmd("SET").arg(format!("sealway:s:{id}")).arg(value).exec_async(&mut link).await.unwrap();
        let line = |kek: &serde_json::Value| {
            format!("{} {}\n", kek["id"].as_str().unwrap(), base64::encode(&unhex(&kek["key_hex"])))
        };
        let lines: String = vector["keks"].as_array().unwrap().iter().map(line).collect();
        let accept_ms = vector["accept_until_ms"].as_u64().unwrap_or(0);
        let settings = RedisSettings {
            keys: KeySource::Lines(lines.into()),
            accept_unauthenticated_rows_until_ms: accept_ms,
            ..ground.settings()
        };
        let found = Redis::new(settings).unwrap().get(&id).await;
        match (vector["type"].as_str().unwrap(), vector["reason"].as_str()) {
            ("row-refused", Some("unauthenticated")) => {
                assert_eq!(found.map(|found| found.is_some()), Ok(false), "{name}")
            }
            ("row-refused", _) => assert!(found.is_err(), "{name}"),
            _ => {
                let found = found.unwrap().unwrap();
                assert_eq!(found.record().key.expose().as_slice(), unhex(&session["key_hex"]), "{name}");
                assert_eq!(found.record().subject.as_deref(), session["subject"].as_str(), "{name}");
            }
        }
        count += 1;
    }
    assert!(count >= 30, "{count} values");
}

#[tokio::test]
async fn a_key_file_is_read_again_when_a_key_is_unknown() {
    let ground = Ground::new().await;
    let file = ground.folder.path().join("sessions.kek");
    let store = ground.store();
    let old = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("later {}\n{old}", base64::encode(&[7; 32]))).unwrap();
    let later = gateway(&ground.server, ground.folder.path()).await;
    let session = agree(Some("web"), 600, now()).server;
    later.put(session.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert!(store.get(session.id()).await.unwrap().is_some());
}

#[test]
fn invalid_settings_are_reported_without_secrets() {
    let key = format!("k {}\n", base64::encode(&[1; 32]));
    let lines = || KeySource::Lines(key.clone().into());
    let good = || RedisSettings::new("redis://:hunter2@127.0.0.1:6379", lines());
    assert!(Redis::new(good()).is_ok());
    for (settings, what) in [
        (RedisSettings { url: "http://:hunter2@h".into(), ..good() }, "the URL of Redis"),
        (RedisSettings { url: "rediss://:hunter2@h/#insecure".into(), ..good() }, "without ? and #"),
        (RedisSettings { url: "redis://h?protocol=resp3".into(), ..good() }, "without ? and #"),
        (RedisSettings { url: "redis://:hunter2@".into(), ..good() }, "the URL of Redis"),
        (RedisSettings { prefix: "a b".into(), ..good() }, "a prefix has"),
        (RedisSettings { deadline: Duration::ZERO, ..good() }, "the deadline"),
        (RedisSettings { keys: KeySource::Lines("k short\n".to_owned().into()), ..good() }, "the lines of keys: 1:"),
        (RedisSettings { keys: KeySource::File("/nowhere/sessions.kek".into()), ..good() }, "/nowhere/sessions.kek"),
    ] {
        let shown = format!("{settings:?}");
        let err = Redis::new(settings).unwrap_err().to_string();
        assert!(err.contains(what), "{err}");
        assert!(!err.contains("hunter2") && !shown.contains("hunter2"), "{err} {shown}");
    }
}
