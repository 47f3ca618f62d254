//! The Redis runner provides what its tests rely on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use sealway_testkit::redis::{Redis, RedisCluster};

const START_MS: u64 = 1_800_000_000_000;

fn time_ms(redis: &Redis) -> u64 {
    let text = redis.cli(&["TIME"]).unwrap();
    let (seconds, micros) = text.split_once('\n').unwrap();
    seconds.trim().parse::<u64>().unwrap() * 1000 + micros.trim().parse::<u64>().unwrap() / 1000
}

#[test]
fn a_set_clock_starts_there_and_runs_on() {
    let mut redis = Redis::options().clock(START_MS).start().unwrap();
    assert!((START_MS..START_MS + 5000).contains(&time_ms(&redis)), "{}", time_ms(&redis));
    redis.cli(&["SET", "k", "v", "PX", "60000"]).unwrap();
    redis.set_clock(START_MS + 50_000).unwrap();
    assert_eq!(redis.cli(&["GET", "k"]).unwrap(), "v");
    redis.set_clock(START_MS + 80_000).unwrap();
    assert_eq!(redis.cli(&["GET", "k"]).unwrap(), "");
    std::thread::sleep(Duration::from_millis(50));
    assert!(time_ms(&redis) >= START_MS + 80_040, "it stands still");
    redis.start_again().unwrap();
    assert!(time_ms(&redis) >= START_MS + 80_040, "a restart moved it");
    assert!(redis.cpu_time().unwrap() < Duration::from_secs(5));
}

#[test]
fn it_comes_back_with_what_it_saved_or_empty() {
    let mut redis = Redis::start().unwrap();
    redis.cli(&["SET", "k", "v"]).unwrap();
    assert!(!redis.save().unwrap().is_empty());
    redis.cli(&["SET", "later", "v"]).unwrap();
    redis.kill().unwrap();
    redis.start_again().unwrap();
    assert_eq!(redis.cli(&["GET", "k"]).unwrap(), "v");
    assert_eq!(redis.cli(&["GET", "later"]).unwrap(), "");
    redis.start_again_empty().unwrap();
    assert_eq!(redis.cli(&["DBSIZE"]).unwrap(), "0");
}

#[test]
fn the_server_listens_at_the_given_address() {
    let tls = Redis::options().tls(true).password("secret").start().unwrap();
    assert_eq!(tls.cli(&["PING"]).unwrap(), "PONG");
    assert!(tls.url_with_password().starts_with("rediss://:secret@localhost:"));
    let unix = Redis::options().unix_socket().start().unwrap();
    assert_eq!(unix.cli(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_cluster_survives_the_death_of_a_master() {
    let mut cluster = RedisCluster::start(3, 1).unwrap();
    let index = cluster.master_of("k").unwrap();
    cluster.nodes[index].cli(&["SET", "k", "v"]).unwrap();
    // A write does not wait for replication.
    cluster.nodes[index].cli(&["WAIT", "1", "1000"]).unwrap();
    cluster.fail_over(index).unwrap();
    let next = cluster.master_of("k").unwrap();
    assert_ne!(next, index);
    assert_eq!(cluster.nodes[next].cli(&["GET", "k"]).unwrap(), "v");
}
