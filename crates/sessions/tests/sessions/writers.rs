//! Powers of someone who can write a store, and their limits: each line of "Writers of a store" in SECURITY.md.

use std::sync::Arc;

use crate::place::Place;
use crate::redis_desk::{Desk, grant, reserve, until_up};
use redis::AsyncCommands;
use sealway_proto::session::{Auth, Session, SessionKey, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_sessions::kek::UnauthenticatedUntil;
use sealway_sessions::store::{Embedded, MemoryLimits, ReserveError, Store};
use sealway_testkit::postgres::Postgres as Database;
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract::claims::{START_MS, agree, provider, random};

/// Creates a session of an unauthenticated client, with a lifetime of an hour.
fn anonymous(wire: Wire, created_ms: u64) -> Arc<Session> {
    let record = SessionRecord {
        id: SessionId::from_random(&random(), false),
        wire,
        client_id: Some("web".into()),
        subject: None,
        tenant: None,
        auth: Auth::None,
        lineage: None,
        created_ms,
        expires_ms: created_ms + 3_600_000,
        key: SessionKey::from_bytes([7; 32]),
    };
    Arc::new(Session::new(provider(), record).unwrap())
}

fn text(text: Option<&str>) -> Vec<u8> {
    let Some(text) = text else { return vec![0xff, 0xff] };
    [&u16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

/// Encodes a row up to its wrapped key, as spec/redis-store.md defines it.
fn head(record: &SessionRecord) -> Vec<u8> {
    let auth = Auth::ALL.iter().position(|auth| *auth == record.auth).unwrap();
    [
        [3, record.wire.number()].to_vec(),
        record.created_ms.to_be_bytes().to_vec(),
        text(record.client_id.as_deref()),
        text(record.subject.as_deref()),
        text(record.tenant.as_deref()),
        vec![u8::try_from(auth).unwrap()],
        text(record.lineage.as_ref().map(SessionId::as_str)),
    ]
    .concat()
}

/// Returns rows with one field changed each and the wrapped key unchanged: name of the field, end of the session, row.
fn forgeries(session: &Session, row: &[u8]) -> Vec<(&'static str, u64, Vec<u8>)> {
    let record = session.record();
    let tail = &row[head(record).len()..];
    let other = SessionId::from_random(&random(), false);
    type Change<'a> = (&'static str, &'a dyn Fn(&mut SessionRecord));
    let changes: [Change<'_>; 9] = [
        ("subject", &|record| record.subject = Some("alice".into())),
        ("tenant", &|record| record.tenant = Some("bank-a".into())),
        ("auth", &|record| record.auth = Auth::Dpop),
        ("all of who it is", &|record| {
            (record.subject, record.tenant, record.auth) = (Some("alice".into()), Some("bank-a".into()), Auth::Dpop);
        }),
        ("client id", &|record| record.client_id = Some("admin".into())),
        ("wire", &|record| record.wire = Wire::V2),
        ("lineage", &|record| record.lineage = Some(other)),
        ("time of its init", &|record| record.created_ms += 1),
        ("end", &|record| record.expires_ms += 3_600_000),
    ];
    let mut forged: Vec<_> = changes
        .map(|(name, change)| {
            let mut record = record.clone();
            change(&mut record);
            (name, record.expires_ms, [head(&record).as_slice(), tail].concat())
        })
        .into();
    // In the format of the previous release.
    let mut old = [2, 2].to_vec();
    old.extend(record.created_ms.to_be_bytes());
    for value in [Some("web"), Some("alice"), Some("bank-a")] {
        old.extend(text(value));
    }
    old.push(2);
    old.extend_from_slice(tail);
    forged.push(("version", record.expires_ms, old));
    forged
}

async fn connection(server: &Server) -> redis::aio::MultiplexedConnection {
    redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_redis_cannot_change_a_field_of_a_session() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).patient();
    let (writer, reader) = (desk.open().await, desk.open().await);
    let session = anonymous(Wire::Native, desk.clock.now_ms());
    writer.put(session.clone()).await.unwrap();
    let mut redis = connection(&server).await;
    let key = format!("sealway:s:{}", session.id());
    let value: Vec<u8> = redis.get(&key).await.unwrap();
    for (name, expires_ms, row) in forgeries(&session, &value[8..]) {
        let forged = [expires_ms.to_be_bytes().as_slice(), &row].concat();
        let () = redis.set(&key, forged).await.unwrap();
        let read = reader.get(session.id()).await;
        assert!(!matches!(read, Ok(Some(_))), "another {name} was taken for true: {read:?}");
    }
    // A writer cannot move a row to another session.
    let other = anonymous(Wire::Native, desk.clock.now_ms());
    let () = redis.set(format!("sealway:s:{}", other.id()), &value).await.unwrap();
    assert!(reader.get(other.id()).await.is_err());
    let () = redis.set(&key, value).await.unwrap();
    assert!(reader.get(session.id()).await.unwrap().is_some(), "the genuine row is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_redis_can_end_a_session_and_bring_back_one_that_a_process_did_not_see_revoked() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).patient();
    let store = desk.open().await;
    let session = anonymous(Wire::Native, desk.clock.now_ms());
    store.put(session.clone()).await.unwrap();
    let mut redis = connection(&server).await;
    let key = format!("sealway:s:{}", session.id());
    let value: Vec<u8> = redis.get(&key).await.unwrap();
    assert!(store.delete(session.id()).await.unwrap());
    let () = redis.set(&key, &value).await.unwrap();
    assert!(store.get(session.id()).await.unwrap().is_none(), "a process that heard of it does not forget");
    let later = desk.open().await;
    assert!(later.get(session.id()).await.unwrap().is_some(), "what the document says of a later process");
    let () = redis.del(&key).await.unwrap();
    assert!(desk.open().await.get(session.id()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_redis_can_readmit_a_nonce_at_another_process_and_not_where_it_was_taken() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).patient();
    let (one, other) = (desk.open().await, desk.open().await);
    let (nonce, stamp_ms) = grant(&one, || SystemClock.now_ms()).await;
    let mut redis = connection(&server).await;
    let names: Vec<Vec<u8>> = redis.keys("{sealway:0}:n:*").await.unwrap();
    let () = redis.del(names).await.unwrap();
    let claim = crate::redis_desk::claim(&nonce, stamp_ms);
    assert_eq!(reserve(&one, &claim).await, Err(ReserveError::Replayed));
    assert_eq!(reserve(&other, &claim).await, Ok(()), "what the document says of another process");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_redis_who_changes_an_epoch_has_claims_refused_and_readmits_nothing() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).patient().durable();
    let (one, other) = (desk.open().await, desk.open().await);
    let (nonce, stamp_ms) = grant(&one, || SystemClock.now_ms()).await;
    let claim = crate::redis_desk::claim(&nonce, stamp_ms);
    let mut redis = connection(&server).await;
    let epoch = "{sealway:0}:epoch";
    let changes = [("gen", "0".repeat(32)), ("floor", "0".into()), ("hw", "0".into()), ("made", "0".into())];
    for (field, value) in changes {
        let () = redis.hset(epoch, field, value).await.unwrap();
        for store in [&one, &other] {
            let refused = reserve(store, &claim).await;
            assert!(refused.is_err(), "with another {field} it was granted a second time");
        }
    }
    let names: Vec<Vec<u8>> = redis.keys("{sealway:0}:n:*").await.unwrap();
    let () = redis.del(names).await.unwrap();
    let () = redis.del(epoch).await.unwrap();
    assert!(reserve(&other, &claim).await.is_err());
    until_up(&other).await;
    assert!(reserve(&other, &claim).await.is_err(), "a new epoch readmits what is stamped before it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_postgres_cannot_change_a_field_of_a_session() {
    let server = Database::shared();
    let url = server.create_database().unwrap();
    let config = || crate::postgres_place::config(&url);
    let (writer, reader) =
        (crate::postgres_place::open(config()).await.unwrap(), crate::postgres_place::open(config()).await.unwrap());
    let session = anonymous(Wire::Native, START_MS);
    writer.put(session.clone()).await.unwrap();
    let other = SessionId::from_random(&random(), false);
    server.psql_in(&url, "CREATE TABLE kept AS SELECT * FROM sealway.sessions").unwrap();
    for change in [
        "subject = 'alice'",
        "tenant = 'bank-a'",
        "auth = 'dpop'",
        "subject = 'alice', tenant = 'bank-a', auth = 'dpop'",
        "client_id = 'admin'",
        "wire = 2",
        "created_ms = created_ms + 1",
        "expires_ms = expires_ms + 3600000",
        &format!("lineage = '{other}'"),
        "row_version = NULL, wire = 2, subject = 'alice'",
        "row_version = 2, wire = 2, subject = 'alice'",
    ] {
        server.psql_in(&url, &format!("UPDATE sealway.sessions SET {change}")).unwrap();
        assert!(reader.get(session.id()).await.unwrap().is_none(), "{change} was taken for true");
        server.psql_in(&url, "DELETE FROM sealway.sessions; INSERT INTO sealway.sessions SELECT * FROM kept").unwrap();
    }
    // A key rotation does not authenticate a changed row: a key that does not unwrap is not rewrapped.
    server.psql_in(&url, "UPDATE sealway.sessions SET subject = 'alice'").unwrap();
    let keys = crate::postgres_place::ring(&[("new", 2), ("k", 1)]);
    let again = crate::postgres_place::open_with(config(), keys, std::time::Duration::ZERO).await.unwrap();
    assert_eq!(again.rewrap(10).await, Ok(0));
    server.psql_in(&url, "UPDATE sealway.sessions SET subject = NULL").unwrap();
    assert!(again.get(session.id()).await.unwrap().is_some(), "the genuine row is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_postgres_can_end_a_session_put_a_revoked_one_back_and_readmit_a_nonce() {
    let server = Database::shared();
    let url = server.create_database().unwrap();
    let open = || crate::postgres_place::open(crate::postgres_place::config(&url));
    let store = open().await.unwrap();
    let agreed = agree(Some("web"), 600, START_MS);
    store.put(agreed.server.clone()).await.unwrap();
    let claim = *agreed.call("one", START_MS, START_MS).claim();
    store.reserve(&claim).await.unwrap();
    server.psql_in(&url, "CREATE TABLE kept AS SELECT * FROM sealway.sessions").unwrap();
    assert!(store.delete(agreed.server.id()).await.unwrap());
    server.psql_in(&url, "DELETE FROM sealway.sessions; INSERT INTO sealway.sessions SELECT * FROM kept").unwrap();
    assert!(store.get(agreed.server.id()).await.unwrap().is_none(), "a process that revoked it does not forget");
    let later = open().await.unwrap();
    assert!(later.get(agreed.server.id()).await.unwrap().is_some(), "what the document says of another process");
    server.psql_in(&url, "DELETE FROM sealway.nonces").unwrap();
    assert!(later.reserve(&claim).await.is_ok(), "what the document says of nonces");
    server.psql_in(&url, "DELETE FROM sealway.sessions").unwrap();
    assert!(open().await.unwrap().get(agreed.server.id()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_writer_of_the_embedded_stores_file_cannot_change_a_field_of_a_session() {
    let place = Place::new();
    let session = anonymous(Wire::Native, START_MS);
    let store = place.open(START_MS);
    store.put(session.clone()).await.unwrap();
    drop(store);
    let genuine = place.sessions();
    for (name, expires_ms, row) in forgeries(&session, &genuine[0].1) {
        let key = [expires_ms.to_be_bytes().as_slice(), session.id().as_str().as_bytes()].concat();
        place.edit(|rows| *rows = vec![(key, row)]);
        let store = place.open(START_MS + 1);
        assert!(store.get(session.id()).await.unwrap().is_none(), "another {name} was taken for true");
    }
    place.edit(|rows| *rows = genuine);
    assert!(place.open(START_MS + 1).get(session.id()).await.unwrap().is_some(), "the genuine row is read");
}

/// Encodes a row of version 2, as the previous release did, of a session on this wire.
fn row_before(place: &Place, wire: Wire, subject: &str) -> (SessionId, (Vec<u8>, Vec<u8>)) {
    let keys = sealway_sessions::kek::KeyRing::load(provider(), &place.kek()).unwrap();
    let id = SessionId::from_random(&random(), false);
    let wrapped = keys.wrap(id.as_str().as_bytes(), &SessionKey::from_bytes([7; 32])).unwrap();
    let mut row = vec![2, wire.number()];
    row.extend(START_MS.to_be_bytes());
    for value in [Some("web"), Some(subject), None] {
        row.extend(text(value));
    }
    row.push(1);
    row.extend(text(Some(&wrapped.kek_id)));
    row.extend(wrapped.bytes);
    (id, ([(START_MS + 60_000).to_be_bytes().as_slice(), id.as_str().as_bytes()].concat(), row))
}

#[tokio::test]
async fn rows_of_an_earlier_release_are_no_sessions_unless_accepted_and_never_those_that_could_be_renewed() {
    let place = Place::new();
    drop(place.open(START_MS));
    let (old, compat_row) = row_before(&place, Wire::V2, "alice");
    let (native, native_row) = row_before(&place, Wire::Native, "alice");
    place.edit(|rows| *rows = vec![compat_row, native_row]);
    let open = async |until_ms: u64| {
        let keys = sealway_sessions::kek::KeyRing::load(provider(), &place.kek()).unwrap();
        let keys = Arc::new(UnauthenticatedUntil::new(Arc::new(keys), until_ms));
        Embedded::open_with(provider(), &place.file(), keys, MemoryLimits::default(), START_MS + 1).await.unwrap()
    };
    for (until_ms, is_read) in [(0, false), (START_MS + 59_999, false), (START_MS + 60_000, true)] {
        let store = open(until_ms).await;
        let found = store.get(&old).await.unwrap();
        assert_eq!(found.is_some(), is_read, "until {until_ms}");
        assert!(store.get(&native).await.unwrap().is_none(), "a session of the native protocol is renewable");
        assert!(found.is_none_or(|session| session.record().subject.as_deref() == Some("alice")));
    }
}
