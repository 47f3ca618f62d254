//! Connection to Redis: password, rights, TLS, a unix socket; errors that stop a start; notifications; stored data.

use std::time::Duration;

use crate::redis_desk::{Desk, claim, grant, nonce, now, reserve, until, until_down, until_up};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use sealway_runtime::redis::TlsFiles;
use sealway_sessions::store::redis::Lookup;
use sealway_sessions::store::{ReserveError, Store};
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract::claims::{agree, provider};

const PASSWORD: &str = "hunter2-hunter2";

/// Uses every operation of a store once.
async fn works(desk: &Desk) {
    let (store, cache) = desk.try_open().await.unwrap();
    until_up(&store).await;
    let (taken, stamp_ms) = grant(&store, now).await;
    let other = desk.open().await;
    assert_eq!(reserve(&other, &claim(&taken, stamp_ms)).await, Err(ReserveError::Replayed));
    let session = agree(Some("web"), 600, now()).server;
    let id = *session.id();
    Store::put(store.as_ref(), session.clone()).await.unwrap();
    assert!(Store::get(other.as_ref(), &id).await.unwrap().is_some());
    assert!(cache.get(&id).is_some());
    assert_eq!(Store::delete(other.as_ref(), &id).await, Ok(true));
    until("the revocation", Duration::from_secs(1), async || cache.get(&id).is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_file_that_changes_is_read_where_redis_is_alone() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url());
    let store = desk.open().await;
    let added = sealway_sessions::kek::add(provider(), &desk.folder.path().join("sessions.kek")).unwrap();
    // The call that maintenance makes.
    assert_eq!(Store::rewrap(store.as_ref(), 500).await, Ok(0));
    assert_eq!(desk.keys.ids().last(), Some(&added));
}

async fn is_refused(desk: &Desk, what: &str) {
    let err = desk.try_open().await.map(drop).unwrap_err().to_string();
    assert!(err.contains(what), "{err}");
    assert!(!err.contains(PASSWORD), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_opens_and_a_wrong_one_stops_the_start() {
    let server = Server::options().password(PASSWORD).start().unwrap();
    works(&Desk::new(&server.url_with_password())).await;
    is_refused(&Desk::new(&server.url().replace("://", "://:wrong@")), "authentication").await;
    is_refused(&Desk::new(&server.url()), "NOAUTH").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_documented_rights_and_no_others_is_enough() {
    let rights = "+ping +info +select +eval +evalsha +script|load +time +get +set +exists \
                  +strlen +pttl +hget +hset +hmget +publish +subscribe";
    let scope = "~sealway:* ~{sealway:* resetchannels &sealway:revoked -@all";
    let server = Server::options()
        .acl(&format!(
            "user sealway on >{PASSWORD} {scope} {rights}\n\
             user poor on >{PASSWORD} {scope} {}\n\
             user deaf on >{PASSWORD} ~sealway:* ~{{sealway:* resetchannels -@all {rights}",
            rights.replace("+hmget ", "")
        ))
        .start()
        .unwrap();
    let url = |user: &str| server.url().replace("://", &format!("://{user}:{PASSWORD}@"));
    works(&Desk::new(&url("sealway"))).await;
    is_refused(&Desk::new(&url("poor")), "can't run this command").await;
    is_refused(&Desk::new(&url("deaf")), "permissions").await;
    is_refused(&Desk::new(&url("nobody")), "authentication").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_reached_by_a_unix_socket() {
    let server = Server::options().unix_socket().start().unwrap();
    works(&Desk::new(&server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_verifies_the_server_and_shows_the_client() {
    let server = Server::options().tls(true).start().unwrap();
    let (made, strangers) = (server.certificates().unwrap(), tempfile::tempdir().unwrap());
    let stranger =
        sealway_testkit::certificates::Certificates::make(strangers.path(), "DNS:localhost", "stranger").unwrap();
    let client = Some(made.client.clone());
    let with = |ca: &std::path::Path, client| {
        let mut desk = Desk::new(&server.url());
        desk.config.server.tls = Some(TlsFiles { ca: Some(ca.to_owned()), client });
        desk
    };
    works(&with(&made.ca, client.clone())).await;
    // An untrusted server counts as unavailable: it may be repaired while the store runs.
    for (desk, why) in [
        (with(&stranger.ca, client.clone()), "a root that did not sign it"),
        (with(&made.ca, None), "no client certificate"),
        (with(&made.ca, Some(stranger.client.clone())), "a stranger's certificate"),
        (Desk::new(&server.url()), "the system's roots"),
    ] {
        let store = desk.open().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!store.is_up(), "{why}");
        assert!(reserve(&store, &claim(&nonce(), now())).await.is_err(), "{why}");
    }
    let mut missing = with(&made.ca, None);
    missing.config.server.tls = Some(TlsFiles { ca: Some("/nowhere/ca.pem".into()), client: None });
    is_refused(&missing, "/nowhere/ca.pem").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_would_evict_stops_the_start() {
    let server = Server::options().maxmemory("8mb", "allkeys-lru").start().unwrap();
    is_refused(&Desk::new(&server.url()), "noeviction").await;
    let unbounded = Server::options().config("maxmemory-policy allkeys-lru").start().unwrap();
    works(&Desk::new(&unbounded.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_when_it_is_back_is_not_used() {
    let mut server = Server::start().unwrap();
    let store = Desk::new(&server.url()).durable().open().await;
    server.cli(&["CONFIG", "SET", "maxmemory", "8mb"]).unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    until_down(&store).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!store.is_up());
    server.start_again().unwrap();
    until_up(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_reaches_every_process_within_a_second_and_outlives_late_writers() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url());
    let ((one, _), (other, cache)) = (desk.try_open().await.unwrap(), desk.try_open().await.unwrap());
    let session = agree(Some("web"), 600, now()).server;
    let id = *session.id();
    one.save_later(session.clone());
    until("written behind", Duration::from_secs(1), async || matches!(one.find(&id).await, Ok(Lookup::Session(_))))
        .await;
    assert!(Store::get(other.as_ref(), &id).await.unwrap().is_some());
    assert!(cache.get(&id).is_some());
    one.revoke(&id, session.record().expires_ms).await.unwrap();
    until("the revocation", Duration::from_secs(1), async || cache.get(&id).is_none()).await;
    other.save(&session).await.unwrap();
    assert!(matches!(other.find(&id).await, Ok(Lookup::Revoked)));
    assert!(Store::get(other.as_ref(), &id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_missed_revocations_clears_its_cache() {
    let server = Server::start().unwrap();
    let desk = Desk::new(&server.url());
    let (one, cache) = desk.try_open().await.unwrap();
    let session = agree(Some("web"), 600, now()).server;
    let id = *session.id();
    Store::put(one.as_ref(), session.clone()).await.unwrap();
    assert!(cache.get(&id).is_some());
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    // A revocation without a message.
    server.cli(&["SET", &format!("sealway:s:{}", id.as_str()), "x"]).unwrap();
    until("forgotten", Duration::from_secs(1), async || cache.get(&id).is_none()).await;
    assert!(Store::get(one.as_ref(), &id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_under_an_unknown_key_is_absent_unless_redis_is_the_only_store() {
    let server = Server::start().unwrap();
    let (one, other) = (Desk::new(&server.url()), Desk::new(&server.url()));
    let session = agree(Some("web"), 600, now()).server;
    one.open().await.save(&session).await.unwrap();
    let stranger = other.open().await;
    assert!(matches!(stranger.find(session.id()).await, Ok(Lookup::Absent)));
    assert!(Store::get(stranger.as_ref(), session.id()).await.is_err(), "Redis alone has nobody else to ask");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_holds_no_session_key() {
    let server = Server::options().config("rdbcompression no").start().unwrap();
    let store = Desk::new(&server.url()).open().await;
    let sessions: Vec<_> = (0..20).map(|_| agree(Some("web"), 600, now()).server).collect();
    for session in &sessions {
        Store::put(store.as_ref(), session.clone()).await.unwrap();
    }
    let rdb = server.save().unwrap();
    let holds = |needle: &[u8]| rdb.windows(needle.len()).any(|window| window == needle);
    for session in &sessions {
        let record = session.record();
        assert!(holds(record.id.as_str().as_bytes()), "the snapshot has not what is looked for");
        let key = record.key.expose();
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let texts = [hex.to_uppercase(), hex, STANDARD.encode(key), STANDARD_NO_PAD.encode(key), URL_SAFE.encode(key)];
        assert!(!holds(key), "raw");
        for text in texts {
            assert!(!holds(text.as_bytes()), "{text}");
        }
    }
}
