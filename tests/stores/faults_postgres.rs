//! PostgreSQL is killed, cut off and paused under load from three gateways: cached sessions remain usable, inits fail in time, no
//! acknowledged session is lost, and health is correct.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use sealway_proto::wire::Wire;
use sealway_testkit::fleet::{Fleet, alone, is_full};
use sealway_testkit::ground::Ground;
use sealway_testkit::load::{Load, Plan};
use sealway_testkit::toxiproxy::Toxic;
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init};

use crate::{BINARY, Fault, SOON};

/// The authority's deadline is two seconds; the rest is for a busy machine.
const REFUSAL_MAX: Duration = Duration::from_secs(4);

fn fleet(ground: &Ground) -> Fleet {
    let fleet = Fleet::start(BINARY, 3, |_: usize, keys: &Path| Ground::sections(&ground.store(), keys, "")).unwrap();
    fleet.wait_for_calls(SOON).unwrap();
    fleet
}

#[test]
fn a_postmaster_killed_again_and_again_under_load_loses_no_acknowledged_session() {
    let _alone = alone();
    let (kills, between) = if is_full() { (5, Duration::from_secs(10)) } else { (2, Duration::from_secs(3)) };
    let ground = Ground::start().unwrap();
    let fleet = fleet(&ground);
    let load = Load::start(Plan { init_every: 2, ..Plan::new(fleet.addresses()) });
    load.wait_for_purchases(50, SOON);
    let mut refused = 0;
    for kill in 0..kills {
        load.run_for(between);
        ground.postgres().kill().unwrap();
        let during = load.run_for(Duration::from_millis(1500));
        println!("-- kill {kill}\n{during}");
        // Cached sessions remain usable once a client's own init has failed, which takes its deadline: 1.5 s.
        load.wait_for_purchases(20, Duration::from_secs(3));
        refused += during.unavailable;
        ground.postgres().start_again().unwrap();
        println!("all ready after {:?}", fleet.wait_for_ready(SOON).unwrap());
    }
    load.wait_for_purchases(50, SOON);
    load.run_for(Duration::from_secs(1)).assert_calm("after", 50);
    let mut finished = load.stop();
    assert!(refused > 0, "no init was refused while PostgreSQL was dead:\n{}", finished.summary);
    // Gateways without these sessions in their cache serve them too: the sessions are in PostgreSQL, and not only in memory.
    for index in 0..3 {
        fleet.stop(index).unwrap();
    }
    ground.redis().kill().unwrap();
    ground.redis().start_again_empty().unwrap();
    for index in 0..3 {
        fleet.start_again(index).unwrap();
    }
    fleet.wait_for_calls(SOON).unwrap();
    let called = finished.call_every_session(&fleet.addresses());
    assert!(called as u64 >= finished.summary.inits, "{called}");
    finished.replay_everything(&fleet.addresses());
    finished.summary.assert_right(&format!("postmaster killed {kills} times"), 200);
    assert!(finished.summary.inits > 50, "{}", finished.summary);
}

fn refused_in_time(target: SocketAddr, path: &str) {
    let started = Instant::now();
    let answer = init(Wire::V2, path, CLIENT_ID, None).1.send(target).unwrap();
    let took = started.elapsed();
    assert_eq!(answer.status, 503, "{path}: {}", answer.text());
    assert!(answer.header("retry-after").is_some() && took < REFUSAL_MAX, "{path}: {took:?}");
}

const FAULTS: [Fault; 2] = [
    Fault {
        name: "connections are refused",
        begin: |ground| ground.to_postgres.disable().unwrap(),
        end: |ground| ground.to_postgres.enable().unwrap(),
    },
    Fault {
        name: "nothing comes back",
        begin: |ground| ground.to_postgres.add(Toxic::Hole).unwrap(),
        end: |ground| ground.to_postgres.remove(Toxic::Hole).unwrap(),
    },
];

#[test]
fn with_postgresql_out_of_reach_sessions_at_hand_work_and_inits_are_refused_in_time() {
    let _alone = alone();
    let ground = Ground::start().unwrap();
    let fleet = fleet(&ground);
    let load = Load::start(Plan::new(fleet.addresses()));
    load.wait_for_purchases(100, SOON);
    let targets = fleet.addresses();
    let agreed: Vec<WireSession> =
        targets.iter().map(|target| WireSession::open(*target, Wire::V2, "/session/init").unwrap()).collect();
    for fault in &FAULTS {
        println!("-- {}", fault.name);
        for agreed in &agreed {
            assert_eq!(agreed.call(PURCHASE, ORDER).unwrap().0.status, 200, "at hand, if it was not");
        }
        (fault.begin)(&ground);
        std::thread::scope(|scope| {
            for target in &targets {
                for path in ["/session/init", "/v1/session/init"] {
                    scope.spawn(move || refused_in_time(*target, path));
                }
            }
        });
        for agreed in &agreed {
            assert_eq!(agreed.call(PURCHASE, ORDER).unwrap().0.status, 200, "a session at hand");
        }
        for index in 0..targets.len() {
            let (status, body) = fleet.ask(index, "/ready").unwrap();
            assert_eq!((status, body["status"].as_str()), (503, Some("unhealthy")), "{body}");
            assert_eq!(body["database"], "down");
            let (status, body) = fleet.ask(index, "/health").unwrap();
            assert_eq!((status, body["status"].as_str()), (200, Some("degraded")), "{body}");
            assert_eq!((body["postgres"].as_str(), body["redis"].as_str()), (Some("disconnected"), Some("ok")));
        }
        let during = load.run_for(Duration::from_secs(if is_full() { 20 } else { 1 }));
        assert!(during.purchases > 20, "sessions at hand do not work on:\n{during}");
        (fault.end)(&ground);
        println!("all ready after {:?}", fleet.wait_for_ready(SOON).unwrap());
        for index in 0..targets.len() {
            let (_, body) = fleet.ask(index, "/health").unwrap();
            assert_eq!((body["status"].as_str(), body["postgres"].as_str()), (Some("ok"), Some("ok")), "{body}");
        }
        for target in &targets {
            WireSession::open(*target, Wire::V2, "/session/init").unwrap();
        }
        load.run_for(Duration::from_secs(1));
        load.run_for(Duration::from_secs(1)).assert_calm("after", 50);
    }
    let mut finished = load.stop();
    assert!(finished.call_every_session(&targets) > 10);
    finished.replay_everything(&targets);
    finished.summary.assert_right("PostgreSQL out of reach", 200);
    assert!(finished.summary.unavailable > 0, "nobody was refused:\n{}", finished.summary);
}
