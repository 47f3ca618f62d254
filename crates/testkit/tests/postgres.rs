//! Tests of the PostgreSQL runner itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sealway_testkit::postgres::{Launch, Postgres};

#[test]
fn a_server_keeps_what_was_committed_when_it_is_killed_and_started_again() {
    let mut server = Postgres::start().unwrap();
    let url = server.create_database().unwrap();
    server.psql_in(&url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    server.kill().unwrap();
    server.psql("SELECT 1").unwrap_err();
    server.start_again().unwrap();
    assert_eq!(server.psql_in(&url, "SELECT n FROM kept").unwrap(), "7");
    assert!(server.dump(&url).unwrap().contains("CREATE TABLE public.kept"));
    server.stop().unwrap();
    server.start_again().unwrap();
    // The kernel counts in ticks: the test works until one is counted.
    let begun = Instant::now();
    while server.cpu().unwrap().is_zero() {
        assert!(begun.elapsed() < Duration::from_secs(30), "no processor time in {:?}", begun.elapsed());
        server.psql("SELECT count(*) FROM generate_series(1, 300000)").unwrap();
    }
}

#[test]
fn a_server_speaks_tls_and_asks_for_its_password() {
    let server = Launch::default().password("swordfish").tls("DNS:localhost").start().unwrap();
    assert_eq!(server.psql("SHOW ssl").unwrap(), "on");
    assert!(server.url().contains("swordfish"));
}
