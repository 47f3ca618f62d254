//! Gateways that stop and start while clients buy and captured requests are replayed: kills, rolling restarts behind a proxy,
//! clocks that step.

use std::path::Path;
use std::time::Duration;

use sealway_testkit::fleet::{Fleet, alone, is_full};
use sealway_testkit::ground::Ground;
use sealway_testkit::haproxy::HaProxy;
use sealway_testkit::load::{Load, Plan};

use crate::{BINARY, SOON};

fn embedded(_: usize, keys: &Path) -> String {
    format!("\nsessions: {{ store: 'file:sessions.redb', kek_file: '{}' }}\n", keys.display())
}

fn tiered(ground: &Ground) -> Fleet {
    let sections = |_: usize, keys: &Path| Ground::sections(&ground.direct_store(), keys, "");
    let fleet = Fleet::start(BINARY, 3, sections).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    fleet
}

#[test]
fn a_gateway_with_the_embedded_store_that_is_killed_under_load_loses_nothing_and_readmits_nothing() {
    let _alone = alone();
    let fleet = Fleet::start(BINARY, 1, embedded).unwrap();
    let load = Load::start(Plan::new(fleet.addresses()));
    for _ in 0..2 {
        load.wait_for_purchases(100, SOON);
        fleet.kill(0).unwrap();
        load.run_for(Duration::from_millis(200));
        fleet.start_again(0).unwrap();
    }
    load.wait_for_purchases(100, SOON);
    let mut finished = load.stop();
    let called = finished.call_every_session(&fleet.addresses());
    assert!(called > 10, "{called}");
    finished.replay_until_refused(&fleet.addresses(), 300, SOON);
    finished.summary.assert_right("embedded store, killed twice", 300);
    assert!(finished.summary.not_connected > 0, "it was never away:\n{}", finished.summary);
}

#[test]
fn the_load_finds_a_gateway_that_forgets_its_sessions() {
    let _alone = alone();
    let fleet = Fleet::start(BINARY, 1, |_, _| "\nsessions: { store: 'memory:' }\n".into()).unwrap();
    let load = Load::start(Plan::new(fleet.addresses()));
    load.wait_for_purchases(20, SOON);
    fleet.kill(0).unwrap();
    fleet.start_again(0).unwrap();
    load.run_for(Duration::from_millis(500));
    let wrong = load.stop().summary.wrong;
    assert!(wrong.iter().any(|sentence| sentence.contains("an acknowledged session is unknown")), "{wrong:?}");
}

#[test]
fn a_gateway_that_is_killed_under_load_takes_no_session_with_it() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let fleet = tiered(&ground);
    let targets = fleet.addresses();
    let load = Load::start(Plan { init_every: 2, ..Plan::new(targets.clone()) });
    let kills = if is_full() { 9 } else { 3 };
    for kill in 0..kills {
        load.wait_for_purchases(100, SOON);
        fleet.kill(kill % 3).unwrap();
        let during = load.run_for(Duration::from_millis(500));
        assert!(during.purchases > 10 && during.not_connected > 0, "the others do not serve:\n{during}");
        assert_eq!((during.unavailable, during.refused), (0, 0), "the others feel it:\n{during}");
        fleet.start_again(kill % 3).unwrap();
    }
    load.wait_for_purchases(100, SOON);
    let mut finished = load.stop();
    fleet.kill(0).unwrap();
    let called = finished.call_every_session(&targets[1..]);
    assert!(called > 50, "{called}");
    finished.replay_everything(&targets[1..]);
    finished.summary.assert_right(&format!("{kills} gateways killed"), 400);
}

#[test]
fn a_rolling_restart_behind_a_proxy_fails_no_request() {
    let _alone = alone();
    let requests_min = if is_full() { 50_000 } else { 3000 };
    let ground = Ground::start().unwrap();
    // Longer than the proxy's health checks need to notice.
    let stop = "\nlimits: { stop_delay_ms: 800 }\n";
    let sections = |_: usize, keys: &Path| Ground::sections(&ground.direct_store(), keys, "") + stop;
    let fleet = Fleet::start(BINARY, 3, sections).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    let proxy = HaProxy::start(&fleet.addresses()).unwrap();
    proxy.wait_for_up(3).unwrap();
    let load = Load::start(Plan { replayers: 0, buyers: 12, ..Plan::new(vec![proxy.address]) });
    let answered = || load.so_far().inits + load.so_far().purchases;
    let mut restarts = 0;
    while restarts < 3 || answered() < requests_min {
        fleet.stop(restarts % 3).unwrap();
        load.run_for(Duration::from_millis(200));
        fleet.start_again(restarts % 3).unwrap();
        proxy.wait_for_up(3).unwrap();
        restarts += 1;
    }
    let finished = load.stop();
    let (down, again) = (proxy.times_down().unwrap(), proxy.tries_again().unwrap());
    println!("{restarts} restarts, seen down {down} times, {again} connections tried again");
    finished.summary.assert_calm("rolling restart", requests_min / 2);
    assert!(down >= restarts as u64, "the proxy did not notice");
}
