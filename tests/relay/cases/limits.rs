//! Bounds, in number and in bytes.

use sealway_proto::relay::Claims;
use sealway_testkit::raw_ws::Got;
use sealway_testkit::relay::Issuer;

use super::{Case, Ground, again, closed};

pub(crate) const CASES: &[Case] = &[
    ("a connection over the limit is rejected before it sends anything", connections),
    ("a place among connections is free again after an end", connections_again),
    ("connections of one address have a bound where one is set", by_address),
    ("one channel too many fails, and existing ones still pair", channels),
    ("a tenant's channels have a bound where one is set", by_tenant),
    ("a full memory of tokens refuses and forgets nothing", replays),
    ("what waits in all has a bound", waiting),
    ("keys are read again when their file changes, and a bad file changes nothing", keys),
];

fn connections(ground: &Ground) {
    let fleet = ground.fleet(&["--max-conns", "2"]);
    let _held = [fleet.near(), fleet.near()].map(|ws| ground.known(ws));
    assert_eq!(fleet.near().got(), closed(1013, "too many connections"));
}

fn connections_again(ground: &Ground) {
    let fleet = ground.fleet(&["--max-conns", "1", "--tick-ms", "50"]);
    let mut held = ground.known(fleet.near());
    assert_eq!(fleet.near().end(), closed(1013, "too many connections"));
    held.send(0x88, b"\x03\xe8").unwrap();
    assert_eq!(held.end(), closed(1000, ""));
    drop(held);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let mut ws = fleet.near();
        ws.answers = false;
        let _ = ws.send(0x89, b"");
        if ws.got() == Got::Frame(0x8a, Vec::new()) {
            return;
        }
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn by_address(ground: &Ground) {
    let fleet = ground.fleet(&["--max-conns-per-address", "2"]);
    let _held = [fleet.near(), fleet.near()].map(|ws| ground.known(ws));
    assert_eq!(fleet.near().got(), closed(1013, "too many connections"));
}

fn channels(ground: &Ground) {
    let fleet = ground.fleet(&["--max-channels", "1"]);
    let [client, server] = ground.pair();
    let mut first = ground.attached(fleet.near(), &client);
    assert_eq!(ground.attach(fleet.near(), &ground.pair()[0]).got(), closed(1011, "attach failed"));
    let mut second = ground.attach(fleet.near(), &server);
    first.binary(b"x");
    assert_eq!(second.message().unwrap(), b"x");
    let _taken = ground.attached(fleet.near(), &again(&client));
}

fn by_tenant(ground: &Ground) {
    let fleet = ground.fleet(&["--max-channels-per-tenant", "1", "--iss", "another"]);
    let _first = ground.attached(fleet.near(), &ground.pair()[0]);
    assert_eq!(ground.attach(fleet.near(), &ground.pair()[0]).got(), closed(1011, "attach failed"));
    let _other = ground.attached(fleet.near(), &Claims { iss: "another".into(), ..ground.pair()[0].clone() });
}

fn replays(ground: &Ground) {
    let fleet = ground.fleet(&["--max-remembered-tokens", "2"]);
    let claims = ground.pair();
    let _pair = ground.paired_as(&fleet, &claims);
    let refused = ground.pair()[0].clone();
    let shares_more = fleet.relays.len() > 1;
    if !shares_more {
        assert_eq!(ground.attach(fleet.near(), &refused).got(), closed(1013, "replay memory full"));
    }
    assert_eq!(ground.attach(fleet.near(), &claims[0]).got(), closed(1008, "token replay"));
}

fn waiting(ground: &Ground) {
    let fleet = ground.fleet(&["--max-waiting-mib", "1"]);
    let waits = |_| {
        let mut ws = ground.attached(fleet.near(), &ground.pair()[0]);
        (0..3).for_each(|_| ws.binary(&[0; 65_536]));
        // The relay has counted all of it before the last one arrives.
        ground.known(ws)
    };
    let _all: Vec<_> = (0..5).map(waits).collect();
    let mut last = ground.attached(fleet.near(), &ground.pair()[0]);
    (0..3).for_each(|_| last.binary(&[0; 65_536]));
    assert_eq!(last.end(), closed(1013, "relay full"));
}

fn keys(ground: &Ground) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.json");
    let (old, new) = (Issuer::named("old", 3).unwrap(), Issuer::named("new", 4).unwrap());
    std::fs::write(&file, old.keyset()).unwrap();
    let path = file.display().to_string();
    let fleet = ground.fleet(&["--issuer-keys-file", &path, "--tick-ms", "50"]);
    let is_taken = |issuer: &Issuer| {
        let claims = ground.pair()[0].clone();
        let mut message = ground.message(&claims);
        message.token = issuer.sign(&claims);
        let mut ws = fleet.near();
        ws.text(&message.encode());
        ws.answers = false;
        let _ = ws.send(0x89, b"");
        ws.got() == Got::Frame(0x8a, Vec::new())
    };
    assert!(is_taken(&old) && !is_taken(&new));
    std::fs::write(&file, "{").unwrap();
    for relay in &fleet.relays {
        relay.signal(rustix::process::Signal::HUP).unwrap();
    }
    until("a bad file is noticed", || fleet.relays[0].log().contains("the loaded ones stay in use"));
    assert!(is_taken(&old), "it changes nothing");
    std::fs::write(&file, new.keyset()).unwrap();
    until("new keys are in force without a signal", || is_taken(&new));
    assert!(!is_taken(&old));
}

fn until(what: &str, is: impl Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is() {
        assert!(std::time::Instant::now() < until, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
