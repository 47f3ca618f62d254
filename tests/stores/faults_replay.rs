//! Thousands of replays, also at the edges of the window: captured requests are sent again over several gateways, without faults
//! and while one gateway's clock steps. None may be accepted.

use std::path::Path;
use std::time::Duration;

use sealway_proto::wire::Wire;
use sealway_testkit::fleet::{Fleet, alone, is_full};
use sealway_testkit::ground::Ground;
use sealway_testkit::load::{Load, LoadResult, Plan, flood};
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession};

use crate::BINARY;

const SOON: Duration = Duration::from_secs(30);
/// The window of the default configuration, in milliseconds.
const WINDOW_MS: i64 = 300_000;
const HOUR_MS: i64 = 3_600_000;

/// Buys and captures so many requests, and stops.
fn captured(fleet: &Fleet, purchases: u64) -> LoadResult {
    fleet.wait_for_calls(SOON).unwrap();
    let load = Load::start(Plan { replayers: 0, pause: Duration::ZERO, ..Plan::new(fleet.addresses()) });
    load.wait_for_purchases(purchases, SOON);
    let finished = load.stop();
    finished.summary.assert_calm("captured", purchases);
    finished
}

#[test]
fn of_a_flood_of_replays_over_three_gateways_none_is_accepted() {
    let _alone = alone();
    let count = if is_full() { 1_000_000 } else { 20_000 };
    let ground = Ground::start().unwrap();
    let sections = |_: usize, keys: &Path| Ground::sections(&ground.direct_store(), keys, "");
    let fleet = Fleet::start(BINARY, 3, sections).unwrap();
    let mut finished = captured(&fleet, if is_full() { 5000 } else { 500 });
    let flood = flood(&finished.ledger, &fleet.addresses(), count, SOON);
    println!("{count} replays over 3 gateways: {flood:?}, {:.0} a second", flood.rate());
    assert!(flood.answered >= count - count / 100, "{flood:?}");
    assert_eq!(flood.refused, flood.answered, "refused by a decision, not for want of a store");
    assert!(finished.call_every_session(&fleet.addresses()) > 10);
    finished.summary.assert_right("flood", 500);
}

#[test]
fn no_step_of_one_gateways_clock_readmits_anything() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let sections = |_: usize, keys: &Path| Ground::sections(&ground.direct_store(), keys, "");
    steps(&Fleet::start_with_clocks(BINARY, 3, sections).unwrap(), Some(&ground));
}

#[test]
fn no_step_of_the_clock_makes_the_embedded_store_readmit_anything() {
    let _alone = alone();
    let sections =
        |_: usize, keys: &Path| format!("\nsessions: {{ store: 'file:s.redb', kek_file: '{}' }}\n", keys.display());
    steps(&Fleet::start_with_clocks(BINARY, 1, sections).unwrap(), None);
}

/// Steps the last gateway's clock through the edges of the window and back, and by an hour. After each step, every request
/// captured so far, under earlier steps too, goes to every gateway again.
fn steps(fleet: &Fleet, ground: Option<&Ground>) {
    let targets = fleet.addresses();
    let stepped = targets.len() - 1;
    let mut finished = captured(fleet, 100);
    let agreed = WireSession::open_as(targets[0], Wire::V2, "/session/init", "stepper", Some(3600)).unwrap();
    for edge in [WINDOW_MS / 2, WINDOW_MS - 1000, WINDOW_MS + 1000, 2 * WINDOW_MS - 1000, 2 * WINDOW_MS + 1000, HOUR_MS]
    {
        for offset_ms in [edge, -edge, 0] {
            fleet.step_clock(stepped, offset_ms).unwrap();
            let request = agreed.seal(PURCHASE, ORDER).0.header("Connection", "keep-alive");
            let status = request.send(targets[stepped]).unwrap().status;
            finished.ledger.capture(request.bytes(), status == 200);
            // Within the window every request is served, until a clock that ran ahead has made a store forget.
            assert!(edge > WINDOW_MS / 2 || status == 200, "clock off by {offset_ms} ms: {status}");
            let is_refused = [400, 401].contains(&status);
            assert!(offset_ms.abs() < WINDOW_MS || is_refused, "the clock did not step by {offset_ms} ms: {status}");
            // A sweep every ten seconds forgets by the new clock. The short form waits for one, the long form for each.
            let sweeps = is_full() || offset_ms == HOUR_MS;
            std::thread::sleep(Duration::from_millis(if sweeps { 11_000 } else { 0 }));
            let flood = finished.replay_everything(&targets);
            assert!(flood.refused >= 100, "{offset_ms}: {flood:?}");
            assert!(finished.summary.wrong.is_empty(), "clock off by {offset_ms} ms: {:?}", finished.summary.wrong);
        }
    }
    if let Some(ground) = ground {
        // Requests that were expired for the gateway with the wrong clock were valid for the others. Gateways that restart with
        // an empty Redis know them from PostgreSQL alone. The gateway with the wrong clock knows that it forgot some, and rejects
        // requests until it restarts.
        for index in 0..targets.len() {
            fleet.stop(index).unwrap();
        }
        ground.redis().kill().unwrap();
        ground.redis().start_again_empty().unwrap();
        for index in 0..targets.len() {
            fleet.start_again(index).unwrap();
        }
        fleet.wait_for_calls(SOON).unwrap();
        assert!(finished.call_every_session(&targets) > 5);
        finished.replay_everything(&targets);
    }
    finished.summary.assert_right("clock steps", 100);
}
