//! Migrations, and errors that stop a start of the PostgreSQL store.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::clock::ManualClock;
use sealway_sessions::kek::UnauthenticatedUntil;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::postgres::{Postgres, PostgresConfig, migrate};
use sealway_sessions::store::{SessionCache, Store};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::postgres::{Launch, Postgres as Server};
use sealway_testkit::store_contract::claims::{START_MS, agree, provider};

use crate::postgres_place::{config, open, open_with, ring};

/// Returns settings as `serve` uses them without migration.
fn plain(url: &str) -> PostgresConfig {
    PostgresConfig::new(url).unwrap()
}

async fn refusal(config: PostgresConfig) -> String {
    open(config).await.expect_err("it was opened").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn migrations_that_eight_run_at_once_are_applied_once() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    let runs: Vec<_> = (0..8)
        .map(|_| {
            let config = plain(&url);
            tokio::spawn(async move { migrate(provider(), &config).await.unwrap() })
        })
        .collect();
    let mut applied = Vec::new();
    for run in runs {
        applied.extend(run.await.unwrap().applied);
    }
    assert_eq!(
        applied,
        ["0001_sessions_and_nonces", "0002_tenant_and_auth", "0003_row_version_and_lineage", "0004_timeline"]
    );
    let rows = server.psql_in(&url, "SELECT number, name FROM sealway.migrations ORDER BY number").unwrap();
    assert_eq!(rows, "1|sessions_and_nonces\n2|tenant_and_auth\n3|row_version_and_lineage\n4|timeline");
    let again = migrate(provider(), &plain(&url)).await.unwrap();
    assert_eq!((again.applied.len(), again.applied_before), (0, 4));
    open(plain(&url)).await.unwrap();
}

#[tokio::test]
async fn a_sessions_table_of_another_server_is_seen_and_left_alone() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    server.psql_in(&url, "CREATE TABLE public.sessions (session_id text, key text)").unwrap();
    server.psql_in(&url, "INSERT INTO public.sessions VALUES ('S-1', 'old')").unwrap();
    let before = server.dump(&url).unwrap();
    assert!(migrate(provider(), &plain(&url)).await.unwrap().has_foreign_sessions);
    let store = open(plain(&url)).await.unwrap();
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    store.sweep(START_MS + 700_000).await.unwrap();
    assert_eq!(server.psql_in(&url, "SELECT * FROM public.sessions").unwrap(), "S-1|old");
    server.psql_in(&url, "DROP SCHEMA sealway CASCADE").unwrap();
    // Newer releases of `pg_dump` write their own random key into each dump.
    let steady = |dump: &str| dump.lines().filter(|line| !line.contains("restrict")).collect::<Vec<_>>().join("\n");
    assert_eq!(steady(&server.dump(&url).unwrap()), steady(&before), "something else was touched");
}

#[tokio::test]
async fn a_schema_that_is_not_ours_is_refused_and_left_alone() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    server.psql_in(&url, "CREATE SCHEMA sealway; CREATE TABLE sealway.sessions (mine int)").unwrap();
    for err in [refusal(config(&url)).await, migrate(provider(), &plain(&url)).await.unwrap_err().to_string()] {
        assert!(err.contains("is not Sealway's"), "{err}");
    }
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'sealway'";
    assert_eq!(server.psql_in(&url, columns).unwrap(), "mine");
}

#[tokio::test]
async fn a_schema_that_an_administrator_made_is_used_by_a_role_that_owns_nothing_else() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    let database = url.rsplit('/').next().unwrap();
    let setup = format!(
        "CREATE ROLE tenant LOGIN; REVOKE ALL ON DATABASE {database} FROM PUBLIC;
         GRANT CONNECT ON DATABASE {database} TO tenant; CREATE SCHEMA sealway AUTHORIZATION tenant"
    );
    server.psql_in(&url, &setup).unwrap();
    let url = url.replace("postgres://postgres@", "postgres://tenant@");
    let store = open(config(&url)).await.unwrap();
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
}

#[tokio::test]
async fn an_old_schema_and_a_changed_migration_stop_the_start_and_a_newer_schema_does_not() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    let err = refusal(plain(&url)).await;
    assert!(err.contains("sealway migrate"), "{err}");
    migrate(provider(), &plain(&url)).await.unwrap();
    server.psql_in(&url, "INSERT INTO sealway.migrations VALUES (9999, 'later', '\\x00')").unwrap();
    open(plain(&url)).await.unwrap();
    assert_eq!(migrate(provider(), &plain(&url)).await.unwrap().newer, [9999]);
    server.psql_in(&url, "UPDATE sealway.migrations SET sha256 = '\\x00' WHERE number = 1").unwrap();
    for err in [refusal(config(&url)).await, refusal(plain(&url)).await] {
        assert!(err.contains("0001_sessions_and_nonces"), "{err}");
    }
}

/// Writes a row as the previous release did: the columns that it knew, and a key bound to the session's id alone.
#[tokio::test]
async fn rows_of_the_release_before_are_no_sessions_until_they_are_accepted_and_are_then_wrapped_anew_in_the_new_form()
{
    let server = Server::shared();
    let url = server.create_database().unwrap();
    let ours = ring(&[("k", 1)]);
    let store = open_with(config(&url), ours.clone(), Duration::ZERO).await.unwrap();
    let session = agree(Some("web"), 600, START_MS).server;
    let put = session.record();
    let wrapped = ours.wrap(put.id.as_str().as_bytes(), &put.key).unwrap();
    let wrapped: String = wrapped.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let insert = format!(
        "INSERT INTO sealway.sessions (id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped)
         VALUES ('{}', 2, 'web', 'alice', {}, {}, 'k', '\\x{wrapped}')",
        put.id, put.created_ms, put.expires_ms
    );
    server.psql_in(&url, &insert).unwrap();
    assert!(store.get(&put.id).await.unwrap().is_none(), "nothing authenticates who its client is");
    let accepting = |keys, until_ms| {
        let cache = Arc::new(SessionCache::new(CacheLimits { sessions_max: 10, fresh: Duration::ZERO }));
        let keys = Arc::new(UnauthenticatedUntil::new(keys, until_ms));
        Postgres::open(provider(), config(&url), keys, cache, Arc::new(ManualClock::new(START_MS)))
    };
    let too_short = accepting(ours.clone(), put.expires_ms - 1).await.unwrap();
    assert!(too_short.get(&put.id).await.unwrap().is_none());
    let store = accepting(ring(&[("new", 2), ("k", 1)]), put.expires_ms).await.unwrap();
    let got = store.get(&put.id).await.unwrap().unwrap();
    assert_eq!((got.record().subject.as_deref(), got.record().key.expose()), (Some("alice"), put.key.expose()));
    assert_eq!(store.rewrap(10).await, Ok(1));
    let strict = open_with(config(&url), ring(&[("new", 2)]), Duration::ZERO).await.unwrap();
    assert!(strict.get(&put.id).await.unwrap().is_some(), "it was written in the new form");
}

#[tokio::test]
async fn a_database_that_has_the_first_migration_alone_is_brought_up_to_date_with_its_sessions() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    migrate(provider(), &plain(&url)).await.unwrap();
    let back = "ALTER TABLE sealway.sessions DROP COLUMN tenant, DROP COLUMN auth,
                DROP COLUMN row_version, DROP COLUMN lineage;
                DELETE FROM sealway.meta WHERE name IN ('timeline', 'lost_ms');
                DELETE FROM sealway.migrations WHERE number >= 2";
    server.psql_in(&url, back).unwrap();
    let err = refusal(plain(&url)).await;
    assert!(err.contains("0002_tenant_and_auth") && err.contains("sealway migrate"), "{err}");
    let report = migrate(provider(), &plain(&url)).await.unwrap();
    assert_eq!(report.applied, ["0002_tenant_and_auth", "0003_row_version_and_lineage", "0004_timeline"]);
    assert_eq!(report.applied_before, 1);
    open(plain(&url)).await.unwrap();
}

#[tokio::test]
async fn another_key_under_a_known_id_stops_the_start() {
    let url = Server::shared().create_database().unwrap();
    let fresh = Duration::from_secs(60);
    drop(open_with(config(&url), ring(&[("k", 1)]), fresh).await.unwrap());
    let err = open_with(config(&url), ring(&[("new", 3), ("k", 2)]), fresh).await.unwrap_err().to_string();
    assert!(err.contains("\"k\""), "{err}");
    // The failed start has left no mark of the key that came with it.
    open_with(config(&url), ring(&[("new", 4), ("k", 1)]), fresh).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_stop_the_start_without_showing_the_password() {
    let server = Launch::default().password("swordfish").start().unwrap();
    let url = server.create_database().unwrap();
    let store = open(config(&url)).await.unwrap();
    assert!(!format!("{store:?}").contains("swordfish"));
    let err = refusal(config(&url.replace("swordfish", "hunter2hunter2"))).await;
    assert!(err.contains("password") && !err.contains("hunter2"), "{err}");
    let err = refusal(config(&url.replace(":swordfish", ""))).await;
    assert!(err.contains("password missing"), "{err}");
    let err = refusal(config(&format!("{}_not", url))).await;
    assert!(err.contains("does not exist") && !err.contains("swordfish"), "{err}");
}

#[tokio::test]
async fn tls_is_verified_against_the_authority_and_the_name() {
    let server = Launch::default().password("swordfish").tls("DNS:localhost").start().unwrap();
    let url = server.create_database().unwrap();
    let store = open(config(&url)).await.unwrap();
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    let plain_ones = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                      WHERE application_name = 'sealway' AND NOT s.ssl";
    assert_eq!(server.psql(plain_ones).unwrap(), "0");
    let others = tempfile::tempdir().unwrap();
    let others = Certificates::make(others.path(), "DNS:localhost", "postgres").map(|made| (others, made)).unwrap();
    let ours = server.certificates.as_ref().unwrap().ca.display().to_string();
    let err = refusal(config(&url.replace(&ours, &others.1.ca.display().to_string()))).await;
    assert!(err.contains("certificate"), "{err}");
    let err = refusal(config(&url.replace("@localhost", "@127.0.0.1"))).await;
    assert!(err.contains("certificate"), "{err}");
    // The server accepts no plain connection over TCP.
    let err = refusal(config(url.split('?').next().unwrap())).await;
    assert!(err.contains("no encryption"), "{err}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_set() {
    let server = Launch::default().tls("DNS:localhost").client_certificates().start().unwrap();
    let url = server.create_database().unwrap();
    let (certificate, key) = server.certificates.as_ref().unwrap().client.clone();
    let with_it = format!("{url}&sslcert={}&sslkey={}", certificate.display(), key.display());
    open(config(&with_it)).await.unwrap();
    let err = refusal(config(&url)).await;
    assert!(err.contains("certificate"), "{err}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_wanted() {
    let server = Server::shared();
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost", "postgres").unwrap();
    let err = refusal(config(&format!("{}?sslrootcert={}", server.url(), made.ca.display()))).await;
    assert!(err.contains("does not support TLS"), "{err}");
}

#[tokio::test]
async fn a_server_is_reached_by_its_unix_socket() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    let database = url.rsplit('/').next().unwrap();
    let store = open(config(&server.socket_url(database))).await.unwrap();
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
    assert!(store.status().up);
}

#[tokio::test]
async fn of_several_hosts_the_one_that_answers_is_used() {
    let server = Server::shared();
    let url = server.create_database().unwrap();
    // Nothing listens on port 1.
    let url = url.replace("@127.0.0.1:", "@127.0.0.1:1,127.0.0.1:");
    let store = open(config(&url)).await.unwrap();
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_away() {
    let server = Launch::default().setting("default_transaction_read_only", "on").start().unwrap();
    let store = open(config(&server.url())).await.unwrap();
    assert!(!store.status().up);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let server = Server::shared();
    let url = server.create_database().unwrap().replace("test_", "latin_");
    let name = url.rsplit('/').next().unwrap();
    server.psql(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")).unwrap();
    let said = refusal(config(&url)).await;
    assert!(said.contains("LATIN1") && said.contains("UTF8"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_swallows_connections_does_not_hide_the_next_one() {
    let url = Server::shared().create_database().unwrap();
    // The queue of this listener is full, so the kernel drops new connections.
    let hole = tokio::net::TcpSocket::new_v4().unwrap();
    hole.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hole = hole.listen(1).unwrap();
    let address = hole.local_addr().unwrap();
    let mut queued = Vec::new();
    let connect = || tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address));
    while let Ok(stream) = connect().await {
        queued.push(stream.unwrap());
        assert!(queued.len() < 16, "the kernel takes any number");
    }
    let store = open(config(&url.replace("@127.0.0.1", &format!("@{address},127.0.0.1")))).await.unwrap();
    assert!(store.status().up, "the second host was not tried");
    store.put(agree(Some("web"), 600, START_MS).server).await.unwrap();
}
