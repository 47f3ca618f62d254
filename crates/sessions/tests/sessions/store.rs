//! The contract of stores for the memory store and the embedded one.

use std::sync::Arc;

use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::{Embedded, Memory, MemoryLimits, Store};
use sealway_testkit::store_contract;
use sealway_testkit::store_contract::Fixture;
use sealway_testkit::store_contract::claims::{START_MS, provider};

struct InMemory;

impl Fixture for InMemory {
    async fn make(&self, limits: MemoryLimits) -> Arc<dyn Store> {
        Arc::new(Memory::new(limits))
    }
}

struct InFile(tempfile::TempDir);

impl InFile {
    fn new() -> Self {
        InFile(tempfile::tempdir().unwrap())
    }
}

impl Fixture for InFile {
    async fn make(&self, limits: MemoryLimits) -> Arc<dyn Store> {
        let kek = self.0.path().join("sessions.kek");
        KeyRing::generate(provider(), &kek).unwrap();
        let keys = KeyRing::load(provider(), &kek).unwrap();
        let file = self.0.path().join("sessions.redb");
        Arc::new(Embedded::open(provider(), &file, Arc::new(keys), limits, START_MS - 200_000).unwrap())
    }
}

store_contract!(memory, InMemory);
store_contract!(embedded, InFile::new());
