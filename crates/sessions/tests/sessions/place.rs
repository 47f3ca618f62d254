//! A folder with an embedded store and its key file, which a test opens, copies, reads and damages.

use std::path::PathBuf;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::{Embedded, MemoryLimits};
use sealway_testkit::store_contract::claims::provider;

const SESSIONS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("sessions");
const NONCES: TableDefinition<&[u8], u8> = TableDefinition::new("nonces");

/// A key of a table, and its row.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

pub(crate) struct Place(tempfile::TempDir);

impl Place {
    /// Creates an empty folder with a new key file.
    pub(crate) fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        KeyRing::generate(provider(), &place.kek()).unwrap();
        place
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("sessions.redb")
    }

    pub(crate) fn kek(&self) -> PathBuf {
        self.0.path().join("sessions.kek")
    }

    pub(crate) fn try_open(&self, now_ms: u64) -> Result<Embedded, String> {
        let keys = KeyRing::load(provider(), &self.kek()).map_err(|err| err.to_string())?;
        Embedded::open(provider(), &self.file(), Arc::new(keys), MemoryLimits::default(), now_ms)
            .map_err(|err| err.to_string())
    }

    pub(crate) fn open(&self, now_ms: u64) -> Embedded {
        self.try_open(now_ms).unwrap()
    }

    /// Copies the files in their present state, as a process finds them that starts after a crash now.
    pub(crate) fn crashed(&self) -> Place {
        let copy = Place(tempfile::tempdir().unwrap());
        std::fs::copy(self.file(), copy.file()).unwrap();
        std::fs::copy(self.kek(), copy.kek()).unwrap();
        copy
    }

    /// Reads the sessions' rows. No store may be open.
    pub(crate) fn sessions(&self) -> Vec<Row> {
        let transaction = Database::open(self.file()).unwrap().begin_read().unwrap();
        let table = transaction.open_table(SESSIONS).unwrap();
        table.iter().unwrap().map(Result::unwrap).map(|(key, row)| (key.value().into(), row.value().into())).collect()
    }

    /// Counts the rows of nonces. No store may be open.
    pub(crate) fn nonces(&self) -> u64 {
        let transaction = Database::open(self.file()).unwrap().begin_read().unwrap();
        transaction.open_table(NONCES).unwrap().len().unwrap()
    }

    /// Changes the sessions' rows. No store may be open.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Vec<Row>)) {
        let mut rows = self.sessions();
        edit(&mut rows);
        let database = Database::open(self.file()).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(SESSIONS).unwrap();
            table.retain(|_, _| false).unwrap();
            for (key, row) in rows {
                table.insert(key.as_slice(), row.as_slice()).unwrap();
            }
        }
        transaction.commit().unwrap();
    }
}
