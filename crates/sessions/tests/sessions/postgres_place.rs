//! Shared helpers of the tests of the PostgreSQL store: a key ring in a folder, and stores on a database.

use std::sync::Arc;
use std::time::Duration;

use sealway_proto::wire::base64;
use sealway_runtime::clock::ManualClock;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::postgres::{Postgres, PostgresConfig};
use sealway_sessions::store::{OpenError, SessionCache};
use sealway_testkit::store_contract::claims::{START_MS, provider};

/// Creates a key ring with these ids; each key is 32 times its byte.
pub(crate) fn ring(keys: &[(&str, u8)]) -> Arc<KeyRing> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.kek");
    let lines = keys.iter().map(|(id, byte)| format!("{id} {}\n", base64::encode(&[*byte; 32])));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    Arc::new(KeyRing::load(provider(), &file).unwrap())
}

/// Returns the settings of every test, with migrations at the start. The server's clock is ignored because tests set
/// artificial times.
pub(crate) fn config(url: &str) -> PostgresConfig {
    let mut config = PostgresConfig::new(url).unwrap();
    config.migrate = true;
    config.heed_server_clock = false;
    config
}

pub(crate) async fn open(config: PostgresConfig) -> Result<Arc<Postgres>, OpenError> {
    open_with(config, ring(&[("k", 1)]), Duration::from_secs(60)).await
}

/// Opens a store that uses cached sessions for `fresh` without asking.
pub(crate) async fn open_with(
    config: PostgresConfig,
    keys: Arc<KeyRing>,
    fresh: Duration,
) -> Result<Arc<Postgres>, OpenError> {
    let cache = Arc::new(SessionCache::new(CacheLimits { sessions_max: 10_000, fresh }));
    Postgres::open(provider(), config, keys, cache, Arc::new(ManualClock::new(START_MS))).await
}
