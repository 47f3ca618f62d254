//! Redis stops, hangs, slows down and comes back empty, under load from several gateways: rejections name the time of a retry, no
//! request is accepted twice, and service resumes afterwards.

use std::path::Path;
use std::time::Duration;

use sealway_testkit::fleet::{Fleet, alone, is_full};
use sealway_testkit::ground::Ground;
use sealway_testkit::load::{Load, Plan};
use sealway_testkit::toxiproxy::Toxic;

use crate::{BINARY, Fault, SOON};

/// The slowest rejection: the authority's deadline for each of two queries, and the delay of a busy machine.
const REFUSAL_MAX_MS: u64 = 6000;

fn fleet(ground: &Ground, count: usize, more: &str) -> Fleet {
    let fleet = Fleet::start(BINARY, count, |_: usize, keys: &Path| Ground::sections(&ground.store(), keys, more));
    let fleet = fleet.unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    fleet
}

/// Returns the number of rounds and the length of each.
fn rounds() -> (usize, Duration) {
    if is_full() { (5, Duration::from_secs(4)) } else { (1, Duration::from_millis(1500)) }
}

const SLOW: Toxic = Toxic::Latency(Duration::from_secs(2));

const FAULTS: [Fault; 4] = [
    Fault {
        name: "Redis is killed and comes back empty",
        begin: |ground| ground.redis().kill().unwrap(),
        end: |ground| ground.redis().start_again_empty().unwrap(),
    },
    Fault {
        name: "Redis refuses connections",
        begin: |ground| ground.to_redis.disable().unwrap(),
        end: |ground| ground.to_redis.enable().unwrap(),
    },
    Fault {
        name: "Redis is behind a hole",
        begin: |ground| ground.to_redis.add(Toxic::Hole).unwrap(),
        end: |ground| ground.to_redis.remove(Toxic::Hole).unwrap(),
    },
    Fault {
        name: "Redis is slowed by two seconds",
        begin: |ground| ground.to_redis.add(SLOW).unwrap(),
        end: |ground| ground.to_redis.remove(SLOW).unwrap(),
    },
];

#[test]
fn while_redis_is_away_calls_are_refused_with_503_and_nothing_is_readmitted_after() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let fleet = fleet(&ground, 3, "");
    let load = Load::start(Plan::new(fleet.addresses()));
    load.wait_for_purchases(100, SOON);
    load.so_far().assert_calm("before", 100);
    let (rounds, away) = rounds();
    for fault in FAULTS.iter().cycle().take(FAULTS.len() * rounds) {
        println!("-- {}", fault.name);
        (fault.begin)(&ground);
        // Requests in flight are finished.
        std::thread::sleep(Duration::from_millis(200));
        let during = load.run_for(away);
        let health: Vec<_> = (0..3).map(|index| fleet.ask(index, "/health").unwrap()).collect();
        (fault.end)(&ground);
        let back = load.wait_for_purchases(100, SOON);
        println!("{during}\nback after {back:?}");
        assert!(during.unavailable > 0, "{}: nobody was refused:\n{during}", fault.name);
        assert_eq!(during.purchases, 0, "{}: granted without Redis:\n{during}", fault.name);
        for (status, body) in health {
            assert_eq!((status, body["redis"].as_str()), (200, Some("disconnected")), "{}: {body}", fault.name);
        }
    }
    fleet.wait_for_ready(SOON).unwrap();
    load.run_for(Duration::from_secs(1));
    load.run_for(Duration::from_secs(1)).assert_calm("after", 100);
    let mut finished = load.stop();
    assert!(finished.call_every_session(&fleet.addresses()) > 30);
    finished.replay_until_refused(&fleet.addresses(), 1000, SOON);
    finished.summary.assert_right("Redis away, fail closed", 500);
    assert!(finished.summary.slowest_refusal_ms < REFUSAL_MAX_MS, "a refusal took too long:\n{}", finished.summary);
}

#[test]
fn a_redis_that_flaps_readmits_nothing() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let fleet = fleet(&ground, 3, "");
    // Replayers first: the replay at the moment of return matters.
    let load = Load::start(Plan { replayers: 6, pause: Duration::from_millis(1), ..Plan::new(fleet.addresses()) });
    load.wait_for_purchases(100, SOON);
    let flaps = if is_full() { 40 } else { 8 };
    for flap in 0..flaps {
        let pause = Duration::from_millis(50 + 97 * flap % 400);
        if flap % 4 == 3 {
            ground.redis().kill().unwrap();
            load.run_for(pause);
            ground.redis().start_again_empty().unwrap();
        } else {
            ground.to_redis.disable().unwrap();
            load.run_for(pause);
            ground.to_redis.enable().unwrap();
        }
        load.run_for(Duration::from_millis(300));
    }
    load.wait_for_purchases(100, SOON);
    let mut finished = load.stop();
    finished.replay_until_refused(&fleet.addresses(), 500, SOON);
    finished.summary.assert_right(&format!("{flaps} flaps of Redis"), 200);
    assert!(finished.summary.unavailable > 0, "no flap was felt:\n{}", finished.summary);
}

#[test]
fn a_gateway_that_alone_has_lost_redis_refuses_and_the_others_serve() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let sections = |index: usize, keys: &Path| {
        let to_redis = if index == 2 { &ground.also_to_redis } else { &ground.to_redis };
        Ground::sections(&ground.store_by(ground.to_postgres.address, to_redis.address), keys, "")
    };
    let fleet = Fleet::start(BINARY, 3, sections).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    let load = Load::start(Plan::new(fleet.addresses()));
    load.wait_for_purchases(100, SOON);
    ground.also_to_redis.disable().unwrap();
    let during = load.run_for(rounds().1);
    ground.also_to_redis.enable().unwrap();
    assert!(during.unavailable > 0 && during.purchases > 50, "{during}");
    load.wait_for_purchases(100, SOON);
    fleet.wait_for_ready(SOON).unwrap();
    load.run_for(Duration::from_secs(1));
    load.run_for(Duration::from_secs(1)).assert_calm("after", 100);
    let mut finished = load.stop();
    assert!(finished.call_every_session(&fleet.addresses()) > 10);
    finished.replay_everything(&fleet.addresses());
    finished.summary.assert_right("one gateway without Redis", 200);
}

#[test]
fn with_on_loss_local_a_gateway_that_owns_its_sessions_goes_on_and_a_flap_readmits_nothing() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let fleet = fleet(&ground, 1, ", redis: { on_loss: local }");
    let load = Load::start(Plan::new(fleet.addresses()));
    load.wait_for_purchases(100, SOON);
    let (rounds, away) = rounds();
    for fault in FAULTS[..3].iter().cycle().take(3 * rounds) {
        println!("-- {}", fault.name);
        (fault.begin)(&ground);
        // Noticing the failure may take a deadline.
        load.wait_for_purchases(20, SOON);
        let during = load.run_for(away);
        println!("{during}");
        (fault.end)(&ground);
        load.wait_for_purchases(50, SOON);
        assert!(during.purchases > 50, "{}: calls did not go on:\n{during}", fault.name);
    }
    let mut finished = load.stop();
    assert!(finished.call_every_session(&fleet.addresses()) > 10);
    finished.replay_until_refused(&fleet.addresses(), 300, SOON);
    finished.summary.assert_right("Redis away, local", 300);
}
