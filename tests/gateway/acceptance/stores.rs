//! Stores that several processes share, and those that a one-shot mode does not start over.

use sealway_testkit::process::Launch;
use sealway_testkit::redis::Redis;
use sealway_testkit::wire_client::now_ms;

use super::modes::{Mode, PublishedKeys};
use super::replays::capture;
use super::{Fleet, Store, exchange};
use crate::BINARY;
use crate::ehbp::one_shot_keys;
use crate::upstreams::until;

#[test]
fn a_key_that_is_retired_now_opens_nothing_in_any_process_and_its_successor_does() {
    let fleet = Fleet::start(2, Store::postgres());
    let (keys, file) = (PublishedKeys::fetch(fleet.address(0)).choose(now_ms(), 0), fleet.keys());
    for mode in Mode::ALL {
        let (captured, status) = capture(fleet.address(0), &keys, mode, now_ms());
        assert_eq!(status, 200, "{mode:?}");
        exchange(fleet.address(1), &[&captured.bytes], |_, answer| {
            assert_eq!(captured.status(&answer), 409, "{mode:?} at the other process");
        });
    }
    let listed = one_shot_keys(&["list", &file]);
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        one_shot_keys(&["add", &file, "--use", words[1], "--kem", "x25519", "--days", "2"]);
        one_shot_keys(&["retire", &file, words[0], "--now"]);
    }
    for to in fleet.addresses() {
        for mode in Mode::ALL {
            let key_problem = match mode {
                Mode::Base | Mode::Psk => 409,
                Mode::Ehbp => 422,
                _ => 400,
            };
            until("the key is retired", || capture(to, &keys, mode, now_ms()).1 == key_problem);
        }
        let successors = PublishedKeys::fetch(to).choose(now_ms(), 0);
        for mode in Mode::ALL {
            assert_eq!(capture(to, &successors, mode, now_ms()).1, 200, "{mode:?}");
        }
    }
    assert_eq!(fleet.service.most(), 1);
}

#[test]
fn a_one_shot_mode_does_not_start_over_a_store_that_forgets_claims() {
    let fleet = Fleet::start(1, Store::Embedded);
    let redis = Redis::start().unwrap();
    let config = fleet.config().replacen("file:s.redb", &redis.url(), 1);
    // Each route alone: the first one at fault would hide the others.
    let line =
        |word: &str| config.lines().filter(move |line| line.contains(word)).map(str::to_owned).collect::<Vec<_>>();
    for (route, expected) in [
        ("sealed: hpke", "routes[0].sealed: hpke needs a store that keeps claims over a restart"),
        ("path_prefix: /v1", "routes[0].ehbp.replay: claim needs a store that keeps claims for days"),
        ("role: gateway", "routes[0].ohttp: role: gateway needs a store that keeps claims over a restart"),
    ] {
        let others = config.lines().filter(|line| !line.contains("- { match"));
        let mut lines: Vec<String> = others.map(str::to_owned).collect();
        let at = lines.iter().position(|line| line == "routes:").unwrap() + 1;
        lines.splice(at..at, line(route));
        let folder = tempfile::tempdir().unwrap();
        let started = Launch::new(BINARY, &lines.join("\n")).folder(folder.path()).start();
        let error = format!("{:#}", started.err().unwrap_or_else(|| panic!("it started with {route}")));
        assert!(error.contains(expected), "{error}");
    }
}
