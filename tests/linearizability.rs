//! What three instances of a store say to concurrent questions, while what they stand on is killed and comes back, has
//! an order that explains it: a nonce is fresh once, an acknowledged session is seen until it is deleted.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::Arc;
use std::time::Duration;

use sealway_sessions::store::{Memory, MemoryLimits, Store};
use sealway_testkit::history::{Recorder, go};

async fn record(recorder: &Arc<Recorder>, time: Duration) {
    let workers = recorder.run(4);
    tokio::time::sleep(time).await;
    recorder.stop();
    for worker in workers {
        worker.await.unwrap();
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(MemoryLimits::default()))
}

#[test]
fn the_checker_passes_what_an_order_explains_and_finds_what_none_does() {
    println!("{}", go(&["test", "-count=1", "./..."]).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_memory_asked_by_three_is_linearizable() {
    let (store, folder) = (memory(), tempfile::tempdir().unwrap());
    let recorder = Recorder::new(vec![store.clone(), store.clone(), store]);
    record(&recorder, Duration::from_secs(2)).await;
    let counts = recorder.counts();
    println!("{counts:?}\n{}", recorder.check(folder.path()).unwrap());
    assert!(counts.fresh > 10 && counts.replayed > 50 && counts.deleted > 2 && counts.found > 100, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_memories_that_share_nothing_are_found_not_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(vec![memory(), memory(), memory()]);
    record(&recorder, Duration::from_secs(1)).await;
    let found = recorder.check(folder.path()).unwrap_err().to_string();
    assert!(found.contains("not linearizable") && found.contains("nonce ") && found.contains("session S-"), "{found}");
}
