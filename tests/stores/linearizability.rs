//! Concurrent operations on three instances of a store, while the servers behind it are killed and restarted, are linearizable: a
//! nonce is fresh once, and an acknowledged session is visible until it is deleted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::Problems;
use sealway_sessions::config::{RawCompat, RawReplay, RawSessions, resolve};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::{Memory, MemoryLimits, Store};
use sealway_testkit::fleet::is_full;
use sealway_testkit::ground::Ground;
use sealway_testkit::history::{Recorder, go};
use sealway_testkit::store_contract::claims::agree;
use sealway_testkit::wire_client::{nonce, now_ms};
use serde_json::json;

/// The number of concurrent workers on each instance.
const WORKERS: usize = 4;

async fn record(recorder: &Arc<Recorder>, during: impl Future<Output = ()>) {
    let workers = recorder.run(WORKERS);
    during.await;
    recorder.stop();
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A store of one process, opened as `serve` opens it.
async fn open(ground: &Ground, keys: &Path) -> Arc<dyn Store> {
    let sessions = json!({ "store": ground.direct_store(), "kek_file": keys, "postgres": { "migrate": true } });
    let sessions: RawSessions = serde_json::from_value(sessions).unwrap();
    let mut problems = Problems::default();
    let config = resolve(&sessions, &RawReplay::default(), &RawCompat::default(), None, &mut problems);
    problems.into_result().unwrap();
    let authority = config.start(default_provider(), Arc::new(SystemClock)).await.unwrap();
    authority.store().clone()
}

/// Waits until an unused nonce is granted.
async fn settle(store: &Arc<dyn Store>) {
    let agreed = agree(Some("settle"), 600, now_ms());
    for _ in 0..200 {
        let now = now_ms();
        if store.reserve(agreed.call(&nonce(), now, now).claim()).await.is_ok() {
            return;
        }
        pass(50).await;
    }
    panic!("the store grants nothing: {:?}", store.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_processes_on_postgresql_and_redis_stay_linearizable_while_both_are_killed() {
    let (folder, ground) = (tempfile::tempdir().unwrap(), Ground::start().unwrap());
    let keys = folder.path().join("sessions.kek");
    KeyRing::generate(default_provider(), &keys).unwrap();
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(open(&ground, &keys).await);
    }
    for store in &stores {
        settle(store).await;
    }
    let recorder = Recorder::new(stores);
    let rounds = if is_full() { 6 } else { 1 };
    let faults = async {
        pass(2000).await;
        recorder.a_fault_begins();
        for _ in 0..rounds {
            for away_ms in [300, 1500] {
                tokio::task::block_in_place(|| ground.redis().kill().unwrap());
                pass(away_ms).await;
                tokio::task::block_in_place(|| ground.redis().start_again_empty().unwrap());
                pass(3000).await;
            }
            tokio::task::block_in_place(|| ground.postgres().kill().unwrap());
            pass(1500).await;
            tokio::task::block_in_place(|| ground.postgres().start_again().unwrap());
            pass(3000).await;
        }
    };
    record(&recorder, faults).await;
    let counts = recorder.counts();
    println!("{counts:?}\n{}", recorder.check(folder.path()).unwrap_or_else(|err| panic!("{counts:?}\n{err}")));
    assert!(counts.unknown > 20, "no fault was felt: {counts:?}");
    assert!(counts.fresh > 50 && counts.replayed > 200 && counts.deleted > 5 && counts.found > 500, "{counts:?}");
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(MemoryLimits::default()))
}

#[test]
fn the_checker_accepts_linearizable_histories_and_rejects_others() {
    println!("{}", go(&["test", "-count=1", "./..."]).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_memory_store_used_by_three_is_linearizable() {
    let (store, folder) = (memory(), tempfile::tempdir().unwrap());
    let recorder = Recorder::new(vec![store.clone(), store.clone(), store]);
    record(&recorder, pass(2000)).await;
    let counts = recorder.counts();
    println!("{counts:?}\n{}", recorder.check(folder.path()).unwrap());
    assert!(counts.fresh > 10 && counts.replayed > 50 && counts.deleted > 2 && counts.found > 100, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_separate_memory_stores_are_not_linearizable() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(vec![memory(), memory(), memory()]);
    record(&recorder, pass(1000)).await;
    let found = recorder.check(folder.path()).unwrap_err().to_string();
    assert!(found.contains("not linearizable") && found.contains("nonce ") && found.contains("session S-"), "{found}");
}
