//! Gateways that come and go while clients buy and captured requests are sent again: kills, rolling restarts behind a
//! proxy, clocks that step.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;
use std::time::Duration;

use sealway_testkit::fleet::{Fleet, alone};
use sealway_testkit::load::{Load, Plan};

const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
const SOON: Duration = Duration::from_secs(20);

fn embedded(_: usize, keys: &Path) -> String {
    format!("\nsessions: {{ store: 'file:sessions.redb', kek_file: '{}' }}\n", keys.display())
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
    let flood = finished.replay_everything(&fleet.addresses());
    assert!(called > 10 && flood.refused > 300, "{called} {flood:?}");
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
