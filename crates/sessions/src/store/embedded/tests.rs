//! Tests of the embedded store whose file cannot be written, of the state it reports, and of files that it rejects.

use redb::TableDefinition;
use sealway_proto::crypto::default_provider;

use super::*;
use crate::store::memory::tests::{session, session_id};
use crate::store::writer::tests::{Changes, broken, idle};
use crate::store::writer::{META, META_FORMAT};

fn keys(folder: &Path) -> Arc<KeyRing> {
    let file = folder.join("kek");
    KeyRing::generate(default_provider(), &file).unwrap();
    Arc::new(KeyRing::load(default_provider(), &file).unwrap())
}

fn with(folder: &Path, writer: Writer) -> Embedded {
    let keys = keys(folder);
    let others = Mutex::new((HashSet::new(), keys.active_id()));
    let memory = Memory::new(MemoryLimits::default());
    Embedded { memory, keys, floor_ms: 0, writer, undeleted: DashMap::new(), others }
}

fn without_disk(folder: &Path) -> (Embedded, Changes) {
    let (writer, changes) = idle();
    (with(folder, writer), changes)
}

#[tokio::test]
async fn a_deletion_that_fails_is_tried_again_until_the_session_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let (store, changes) = without_disk(folder.path());
    drop(changes);
    store.memory.restore_session(session(1, None, 1000));
    for now_ms in [0, 999] {
        let failed = store.delete(&session_id(1)).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        assert!(store.get(&session_id(1)).await.unwrap().is_none(), "it is gone from memory");
        assert!(store.sweep(now_ms).await.is_err());
    }
    assert!(store.delete(&session_id(1)).await.is_err(), "its row may be on the disk");
    assert!(store.sweep(1000).await.is_err());
    assert_eq!(store.delete(&session_id(1)).await, Ok(false));
}

#[tokio::test]
async fn the_state_shows_changes_that_wait_and_a_file_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _changes) = without_disk(folder.path());
    let state = |store: &Embedded| {
        let Status { kind, up, pool: Pool { total, idle, waiting }, .. } = store.status();
        (kind, up, [total, idle, waiting])
    };
    assert_eq!(state(&store), ("embedded", true, [1, 1, 0]));
    assert!(store.sweep(1).now_or_never().is_none());
    assert!(store.sweep(1).now_or_never().is_none());
    assert_eq!(state(&store), ("embedded", true, [1, 0, 2]));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = with(folder.path(), Writer::start(broken(&path), &path, 0).unwrap());
    assert!(store.sweep(1).await.is_err());
    assert_eq!(state(&store), ("embedded", false, [1, 1, 0]));
}

#[test]
fn a_file_of_another_format_is_rejected_and_the_error_names_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(folder.path());
    let fails = |name: &str, write: &dyn Fn(&redb::WriteTransaction)| {
        let path = folder.path().join(name);
        let database = writer::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        write(&transaction);
        transaction.commit().unwrap();
        drop(database);
        let opened = Embedded::open(default_provider(), &path, keys.clone(), MemoryLimits::default(), 1);
        opened.unwrap_err().to_string()
    };
    let later = fails("later", &|transaction| {
        transaction.open_table(META).unwrap().insert(META_FORMAT, 2).unwrap();
    });
    assert!(later.ends_with("later: its format is 2, this program knows 1"), "{later}");
    let foreign = fails("foreign", &|transaction| {
        transaction.open_table(TableDefinition::<&str, &str>::new("meta")).unwrap();
    });
    assert!(foreign.contains("foreign: ") && foreign.contains("meta is of type"), "{foreign}");
}
