//! Tables, and the writes of transactions on them, which can be taken back.

use std::collections::BTreeMap;

use sealway_proto::crypto::Provider;

use crate::provider::SeedProvider;

/// Migrations that are applied: number, name and text, of the files that the product has.
const MIGRATIONS: [(i32, &str, &str); 4] = [
    (1, "sessions_and_nonces", include_str!("../../../../crates/sessions/migrations/0001_sessions_and_nonces.sql")),
    (2, "tenant_and_auth", include_str!("../../../../crates/sessions/migrations/0002_tenant_and_auth.sql")),
    (
        3,
        "row_version_and_lineage",
        include_str!("../../../../crates/sessions/migrations/0003_row_version_and_lineage.sql"),
    ),
    (4, "timeline", include_str!("../../../../crates/sessions/migrations/0004_timeline.sql")),
];
/// Rows of `sealway.meta`, as the migrations insert them.
const META: [&str; 8] =
    ["forgotten_ms", "counts", "counted_ms", "sessions", "nonces_sealed", "nonces_init", "timeline", "lost_ms"];

/// A row of `sealway.sessions`, without its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionRow {
    pub(super) wire: i16,
    pub(super) client_id: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) created_ms: i64,
    pub(super) expires_ms: i64,
    pub(super) kek_id: String,
    pub(super) wrapped: Vec<u8>,
    pub(super) revoked_ms: Option<i64>,
    pub(super) tenant: Option<String>,
    pub(super) auth: Option<String>,
    pub(super) row_version: Option<i16>,
    pub(super) lineage: Option<String>,
}

/// A row of `sealway.nonces`, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NonceRow {
    pub(super) sealed: bool,
    pub(super) stamp_ms: i64,
    pub(super) expires_ms: i64,
}

/// A row of `sealway.meta`, without its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MetaRow {
    pub(super) value: i64,
    /// The transaction that wrote the row.
    pub(super) xmin: u32,
}

/// A row that is so from now on, or is gone.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Session(String, Option<Box<SessionRow>>),
    Nonce(Vec<u8>, Option<NonceRow>),
    Meta(String, Option<MetaRow>),
    Kek(String, Option<Vec<u8>>),
}

/// All tables of the schema `sealway`.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) sessions: BTreeMap<String, SessionRow>,
    pub(super) nonces: BTreeMap<Vec<u8>, NonceRow>,
    pub(super) meta: BTreeMap<String, MetaRow>,
    pub(super) keks: BTreeMap<String, Vec<u8>>,
    /// Number, name and hash of each migration.
    pub(super) migrations: Vec<(i32, String, Vec<u8>)>,
}

impl Tables {
    pub(super) fn new() -> Self {
        let hash = |text: &str| SeedProvider.sha256(&[text.as_bytes()]).to_vec();
        let migrations = MIGRATIONS.map(|(number, name, text)| (number, name.to_owned(), hash(text)));
        Tables {
            sessions: BTreeMap::new(),
            nonces: BTreeMap::new(),
            meta: META.map(|name| (name.to_owned(), MetaRow { value: 0, xmin: 1 })).into(),
            keks: BTreeMap::new(),
            migrations: migrations.into(),
        }
    }

    /// Applies a write; returns the write that takes it back.
    pub(super) fn apply(&mut self, write: Write) -> Write {
        fn put<K: Ord + Clone, V>(table: &mut BTreeMap<K, V>, key: &K, row: Option<V>) -> Option<V> {
            match row {
                Some(row) => table.insert(key.clone(), row),
                None => table.remove(key),
            }
        }
        match write {
            Write::Session(id, row) => {
                let before = put(&mut self.sessions, &id, row.map(|row| *row));
                Write::Session(id, before.map(Box::new))
            }
            Write::Nonce(key, row) => {
                let before = put(&mut self.nonces, &key, row);
                Write::Nonce(key, before)
            }
            Write::Meta(name, row) => {
                let before = put(&mut self.meta, &name, row);
                Write::Meta(name, before)
            }
            Write::Kek(id, row) => {
                let before = put(&mut self.keks, &id, row);
                Write::Kek(id, before)
            }
        }
    }
}
