//! Tests of the writer: which ceilings it writes ahead, its batches, and its recovery from a failure.

use super::*;

/// The changes that a [`Writer`] without a thread was given.
pub(in crate::store) type Changes = mpsc::Receiver<(Change, Reply)>;

/// Creates a writer whose changes nobody commits.
pub(in crate::store) fn idle() -> (Writer, Changes) {
    let (queue, changes) = mpsc::channel(2000);
    let state = State {
        up: AtomicBool::new(true),
        waiting: AtomicUsize::new(0),
        granted_ms: AtomicU64::new(0),
        ceiling_ms: AtomicU64::new(0),
        raising: AtomicBool::new(false),
    };
    (Writer { queue: Some(queue), thread: None, state: Arc::new(state) }, changes)
}

/// A table that is not the writer's, under the name of one of its tables.
const WRONG: TableDefinition<&str, &str> = TableDefinition::new("nonces");

/// Creates a file to which no change can be committed until [`repair`].
pub(in crate::store) fn broken(path: &Path) -> Database {
    let database = open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(WRONG).unwrap();
    transaction.commit().unwrap();
    database
}

fn repair(path: &Path) {
    let database = open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.delete_table(WRONG).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn the_ceiling_is_raised_once_at_a_time_and_before_stamps_reach_it() {
    let (writer, mut changes) = idle();
    let mut raised = || match changes.try_recv() {
        Ok((Change::Ceiling { ms }, _)) => Some(ms),
        Ok((other, _)) => panic!("{other:?}"),
        Err(_) => None,
    };
    writer.cover(10_000);
    writer.cover(11_000);
    assert_eq!((raised(), raised()), (Some(10_000 + LEAD_MS), None), "one change is queued already");
    writer.state.ceiling_ms.store(10_500, Ordering::Relaxed);
    writer.state.raising.store(false, Ordering::Relaxed);
    writer.cover(9_000);
    writer.cover(10_250);
    assert_eq!(raised(), None, "the ceiling is half of the lead ahead");
    writer.cover(10_251);
    assert_eq!(raised(), Some(10_251 + LEAD_MS));
    assert_eq!(writer.state.granted_ms.load(Ordering::Relaxed), 11_000);
}

#[test]
fn a_ceiling_that_could_not_be_queued_is_tried_again_with_the_next_stamp() {
    let (writer, changes) = idle();
    drop(changes);
    writer.cover(10_000);
    assert!(!writer.state.raising.load(Ordering::Relaxed));
    assert_eq!(writer.waiting(), 0);
}

#[test]
fn a_batch_takes_what_is_queued_up_to_its_bound() {
    let (writer, mut changes) = idle();
    for ms in 0..1001 {
        writer.send(Change::Sweep { now_ms: ms }).unwrap();
    }
    assert_eq!(writer.waiting(), 1001);
    let mut batch = Vec::new();
    gather(&mut changes, &mut batch);
    assert_eq!(batch.len(), 1000);
    batch.clear();
    gather(&mut changes, &mut batch);
    assert_eq!(batch.len(), 1);
}

#[tokio::test]
async fn a_failed_commit_is_reported_and_the_next_one_opens_the_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Writer::start(broken(&path), &path, 0).unwrap();
    assert!(writer.is_up());
    for _ in 0..2 {
        let failed = writer.commit(Change::Sweep { now_ms: 1 }).await.unwrap_err();
        assert!(matches!(&failed, StoreError::Unavailable(reason) if reason.contains("nonces")), "{failed}");
        assert!(!writer.is_up());
    }
    repair(&path);
    writer.commit(Change::Sweep { now_ms: 1 }).await.unwrap();
    assert!(writer.is_up());
    assert_eq!(writer.waiting(), 0);
}
