//! The edges of the window, and of a key's life: captured requests are sent again while clocks step through them.

use std::time::Duration;

use sealway_testkit::fleet::is_full;
use sealway_testkit::wire_client::now_ms;

use super::modes::{Mode, PublishedKeys};
use super::replays::{CapturedRequest, assert_served_at_most_once, capture};
use super::{Fleet, Store};

/// The window of the default configuration, in milliseconds.
const WINDOW_MS: i64 = 300_000;
const HOUR_MS: i64 = 3_600_000;
/// Distance from an edge: more than a slow machine needs for a request.
const NEAR_MS: i64 = 20_000;
const EDGES_MS: [i64; 6] =
    [WINDOW_MS / 2, WINDOW_MS - NEAR_MS, WINDOW_MS + 1000, 2 * WINDOW_MS - NEAR_MS, 2 * WINDOW_MS + 1000, HOUR_MS];

fn ahead(ms: i64) -> u64 {
    now_ms().saturating_add_signed(ms)
}

/// Captures a request of each mode with a stamp that is off by each of these, and whether it is served.
fn capture_each(fleet: &Fleet, index: usize, offsets_ms: &[i64]) -> Vec<(CapturedRequest, u16)> {
    let keys = PublishedKeys::fetch(fleet.address(0)).choose(now_ms(), 0);
    let to = fleet.address(index);
    let each = |ms: &i64| Mode::ALL.map(|mode| capture(to, &keys, mode, ahead(*ms)));
    offsets_ms.iter().flat_map(each).collect()
}

/// Waits for a sweep of every gateway, each of which forgets by its own clock. The short form does not: a store may forget at any time.
fn let_sweep() {
    if is_full() {
        std::thread::sleep(Duration::from_secs(11));
    }
}

#[test]
fn time_that_passes_readmits_nothing_at_the_edges_of_the_window() {
    let fleet = Fleet::start_with_clocks(1, Store::Embedded);
    let edge = WINDOW_MS - NEAR_MS;
    let mut captured = Vec::new();
    for (one, status) in capture_each(&fleet, 0, &[-edge, 0, edge]) {
        assert_eq!(status, 200, "within the window");
        captured.push(one);
    }
    for ahead_ms in EDGES_MS {
        fleet.step_clock(0, ahead_ms);
        let_sweep();
        assert_served_at_most_once(&fleet, &captured, &format!("{ahead_ms} ms later"));
        // What is stamped then is served, and once.
        for (one, status) in capture_each(&fleet, 0, &[ahead_ms]) {
            assert_eq!(status, 200, "{ahead_ms} ms later");
            captured.push(one);
        }
    }
    assert_served_at_most_once(&fleet, &captured, "at the end");
    // Beyond the edge, what has a stamp is refused, and what has none is served.
    for off_ms in [-WINDOW_MS - NEAR_MS, WINDOW_MS + NEAR_MS] {
        let keys = PublishedKeys::fetch(fleet.address(0)).choose(ahead(HOUR_MS), 0);
        for mode in Mode::ALL {
            let (_, status) = capture(fleet.address(0), &keys, mode, ahead(HOUR_MS + off_ms));
            assert_eq!(status, if mode.is_stamped() { 400 } else { 200 }, "{mode:?} off by {off_ms} ms");
        }
    }
}

#[test]
fn no_step_of_one_processes_clock_readmits_anything_at_the_others() {
    let fleet = Fleet::start_with_clocks(3, Store::tiered());
    let mut captured: Vec<CapturedRequest> = Vec::new();
    let edges = if is_full() { &EDGES_MS[..] } else { &[WINDOW_MS - NEAR_MS, HOUR_MS] };
    for &edge in edges {
        for ahead_ms in [edge, -edge, 0] {
            fleet.step_clock(2, ahead_ms);
            for index in [0, 2] {
                let stamps = capture_each(&fleet, index, &[0]);
                assert!(index == 2 || stamps.iter().all(|(_, status)| *status == 200), "another clock is wrong");
                captured.extend(stamps.into_iter().map(|(one, _)| one));
            }
            let_sweep();
            assert_served_at_most_once(&fleet, &captured, &format!("one clock is off by {ahead_ms} ms"));
        }
    }
}
