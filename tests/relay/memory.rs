//! The memory that channels cost a relay, and its release: waves of paired channels that idle and close.
//!
//! `SEALWAY_RELAY_CHANNELS` and `SEALWAY_RELAY_IDLE_S` lengthen it: the published figures are for 5000 and 45.

use std::time::{Duration, Instant};

use sealway_proto::relay::{Profile, Role};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_testkit::raw_ws::RawWs;
use sealway_testkit::relay::{Issuer, Relay, attach, claims, connect, unique};
use sealway_testkit::usage;

use crate::BINARY;

const WAVES: usize = 3;
/// Memory that an allocator may retain or add, beside the 5 %.
const SLACK_KIB: u64 = 768;

fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn rss_kib(relay: &Relay) -> u64 {
    usage::status(relay.pid(), "VmRSS:").unwrap()
}

fn descriptors(relay: &Relay) -> u64 {
    usage::descriptors(relay.pid()).unwrap()
}

fn wave(relay: &Relay, issuer: &Issuer, channels: usize) -> Vec<(RawWs, RawWs)> {
    let pair = || {
        let (channel, now_s) = (unique("channel"), i64::try_from(SystemClock.now_ms() / 1000).unwrap());
        let [mut client, mut server] = [Role::Client, Role::Server].map(|role| {
            let mut ws = connect(relay.address, None);
            let claims = claims(&channel, role, now_s, now_s + 600);
            ws.text(&attach(issuer, &claims, Profile::V1, 1).encode());
            ws
        });
        client.binary(&[1; 4096]);
        assert_eq!(server.message().unwrap().len(), 4096);
        server.binary(&[2; 4096]);
        assert_eq!(client.message().unwrap().len(), 4096);
        (client, server)
    };
    (0..channels).map(|_| pair()).collect()
}

#[test]
fn waves_of_channels_leave_nothing_behind() {
    let (channels, idle_s) = (setting("SEALWAY_RELAY_CHANNELS", 400), setting("SEALWAY_RELAY_IDLE_S", 1));
    let folder = tempfile::tempdir().unwrap();
    let issuer = Issuer::new(folder.path()).unwrap();
    let limits = ["--max-channels", "6000", "--max-conns", "12000", "--idle-timeout-s", "600"];
    let relay = Relay::start(BINARY, folder.path(), &[&limits[..], &["--keepalive-s", "3600"]].concat()).unwrap();
    // Memory allocated with the first connection, and kept, belongs to no channel.
    drop(wave(&relay, &issuer, 1));
    std::thread::sleep(Duration::from_secs(1));
    let (empty, before) = (rss_kib(&relay), descriptors(&relay));
    let mut after = Vec::new();
    for number in 1..=WAVES {
        let held = wave(&relay, &issuer, channels);
        std::thread::sleep(Duration::from_secs(idle_s as u64));
        let full = rss_kib(&relay);
        let each = full.saturating_sub(empty) as f64 / channels as f64;
        println!("wave {number}: {channels} channels idle {idle_s} s, {full} KiB resident, {each:.1} KiB a channel");
        drop(held);
        let until = Instant::now() + Duration::from_secs(60);
        while descriptors(&relay) > before {
            assert!(Instant::now() < until, "{} descriptors are left of {before}", descriptors(&relay));
            std::thread::sleep(Duration::from_millis(50));
        }
        // Freed memory is returned to the system a moment later.
        std::thread::sleep(Duration::from_secs(1));
        after.push(full);
    }
    let first = after[0];
    for rss in &after[1..] {
        assert!(*rss <= first + first / 20 + SLACK_KIB, "{after:?} KiB in waves of {channels} channels");
    }
}
