//! Redis and Valkey with Sentinels, and a Redis Cluster, fail over under load from two gateways: no replay is accepted, no
//! session is lost, and service resumes without help.
#![allow(clippy::print_stdout, reason = "the long form prints what it measured")]

use std::path::Path;
use std::time::Duration;

use sealway_testkit::fleet::{Fleet, alone, is_full};
use sealway_testkit::ground::Ground;
use sealway_testkit::load::{Load, Plan};
use sealway_testkit::postgres::Postgres;
use sealway_testkit::redis::{Redis, RedisCluster, RedisOptions, RedisSentinel};

use crate::BINARY;

/// The longest wait for a fail-over and what follows.
const SOON: Duration = Duration::from_secs(60);

/// Runs a load on PostgreSQL and the Redis of this URL, while `fail_over` replaces the master, several times in the long
/// form; the argument is the number of the round.
fn under_load(what: &str, redis: &str, more: &str, mut fail_over: impl FnMut(usize)) {
    let postgres = Postgres::start().unwrap();
    let store = format!("{} + {redis}", postgres.url());
    let sections = |_: usize, keys: &Path| Ground::sections(&store, keys, more);
    let fleet = Fleet::start(BINARY, 2, sections).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    // Many replayers: the replays at the moment of the fail-over matter.
    let load = Load::start(Plan { replayers: 6, pause: Duration::from_millis(2), ..Plan::new(fleet.addresses()) });
    load.wait_for_purchases(100, SOON);
    load.run_for(Duration::from_millis(500)).assert_calm(what, 20);
    for round in 0..if is_full() { 4 } else { 1 } {
        let before = load.so_far();
        let ((), [sessions, purchases]) = load.outage(SOON, || fail_over(round));
        let during = load.so_far().since(&before);
        println!("{what}, fail-over {round}: no new session for {sessions:?}, no purchase for {purchases:?}\n{during}");
        assert!(during.unavailable > 0, "no fail-over was felt:\n{during}");
    }
    fleet.wait_for_ready(SOON).unwrap();
    load.run_for(Duration::from_millis(500)).assert_calm("after", 20);
    let mut finished = load.stop();
    assert!(finished.call_every_session(&fleet.addresses()) > 20);
    finished.replay_until_refused(&fleet.addresses(), 500, SOON);
    finished.summary.assert_right(what, 200);
}

/// Replaces the master by turns: one that is paused and comes back as it was, and one that is killed.
fn by_sentinels(what: &str, options: &RedisOptions) {
    let mut servers = RedisSentinel::start(2, options).unwrap();
    under_load(what, &servers.url(), "", |round| {
        servers.wait_for_replicas(2).unwrap();
        let master = servers.master().unwrap();
        if round % 2 == 0 {
            servers.nodes[master].pause().unwrap();
            servers.wait_for_other_than(master).unwrap();
            servers.nodes[master].resume().unwrap();
        } else {
            servers.nodes[master].kill().unwrap();
            servers.wait_for_other_than(master).unwrap();
            servers.nodes[master].start_again_empty().unwrap();
        }
    });
}

#[test]
fn sentinels_that_promote_a_replica_readmit_nothing_and_lose_no_session() {
    let _alone = alone();
    by_sentinels("Redis with Sentinels", &Redis::options());
}

#[test]
#[ignore = "only in the long form: make e2e-faults"]
fn valkey_with_sentinels_that_promote_a_replica_readmits_nothing_and_loses_no_session() {
    let _alone = alone();
    by_sentinels("Valkey with Sentinels", &Redis::options().valkey());
}

/// Replaces masters of a cluster by turns: one that is killed, and one that is paused and comes back as it was.
fn in_a_cluster(what: &str, replicas: usize, more: &str, options: &RedisOptions) {
    let mut cluster = RedisCluster::start_with(3, replicas, options).unwrap();
    under_load(what, &cluster.url(), more, |round| {
        let master = cluster.master_of("{sealway:0}:epoch").unwrap();
        if round % 2 == 0 {
            cluster.fail_over(master).unwrap();
            cluster.nodes[master].start_again().unwrap();
        } else {
            cluster.nodes[master].pause().unwrap();
            cluster.wait_for_masters_beside(master).unwrap();
            cluster.nodes[master].resume().unwrap();
        }
        cluster.wait_until_ok(3 * replicas).unwrap();
    });
}

#[test]
fn a_cluster_that_promotes_a_replica_readmits_nothing_and_loses_no_session() {
    let _alone = alone();
    in_a_cluster("Redis Cluster", 1, "", &Redis::options());
}

#[test]
#[ignore = "only in the long form: make e2e-faults"]
fn a_cluster_whose_replicas_confirm_their_masters_readmits_nothing_and_loses_no_session() {
    let _alone = alone();
    in_a_cluster("Redis Cluster with confirmations", 2, ", redis: { min_replicas: 1 }", &Redis::options());
    in_a_cluster("Valkey Cluster with confirmations", 2, ", redis: { min_replicas: 1 }", &Redis::options().valkey());
}
