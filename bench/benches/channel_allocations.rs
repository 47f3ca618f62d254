//! Allocations and bytes for each operation of a channel: `cargo bench -p sealway-bench --bench channel_allocations`. It is a
//! separate program, because counting needs another allocator than the other benchmarks use.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that prints, and stops at what it cannot do")]

use std::alloc::System;
use std::hint::black_box;

use sealway_proto::channel::{
    ChannelSettings, Content, Handshake, HandshakeRandoms, Opener, Progress, Sealer, Suite, looks_like_record,
};
use sealway_proto::crypto::agreement::default_agreement_provider;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOW_S: u64 = 1_800_000_000;
const COUNT: usize = 1000;

fn handshake(id: u16) -> (Handshake, Handshake) {
    let provider = default_agreement_provider();
    let settings = ChannelSettings::new("bench", [7; 32], Suite::from_id(id).unwrap(), NOW_S + 60);
    let draw = || HandshakeRandoms::draw(provider).unwrap();
    let (client, mut message) = Handshake::client(settings.clone(), provider, draw(), NOW_S).unwrap();
    let mut ends = [Handshake::server(settings, provider, draw()).unwrap(), client];
    for reader in [0, 1].into_iter().cycle() {
        match ends[reader].read(&message, NOW_S).unwrap() {
            Progress::Send(next) | Progress::SendThenDone(next) => message = next,
            Progress::Wait | Progress::Done => break,
        }
    }
    let [server, client] = ends;
    (client, server)
}

fn records(id: u16) -> (Sealer, Opener) {
    let (client, server) = handshake(id);
    (client.into_records().unwrap().0, server.into_records().unwrap().1)
}

fn row(name: &str, mut operation: impl FnMut()) {
    // Setup that happens once is not part of an operation.
    operation();
    let region = Region::new(ALLOCATOR);
    for _ in 0..COUNT {
        operation();
    }
    let change = region.change();
    let each = |total: usize| total as f64 / COUNT as f64;
    let allocations = change.allocations + change.reallocations;
    println!("| {name} | {:.1} | {:.0} |", each(allocations), each(change.bytes_allocated));
}

fn main() {
    println!("| operation | allocations | bytes |\n| --- | ---: | ---: |");
    for id in [1, 2, 0x100, 0x102, 0x104] {
        row(&format!("handshake, both ends, {}", Suite::from_id(id).unwrap().name()), || {
            black_box(handshake(id));
        });
    }
    for (profile, id) in [("v1", 1), ("native", 0x100)] {
        let (mut sealer, mut opener) = records(id);
        let plaintext = vec![1; 65_536];
        let mut message = Vec::with_capacity(70_000);
        row(&format!("seal + open 64 KiB into a buffer that is kept, {profile}"), || {
            message.clear();
            sealer.seal(Content::Data, &plaintext, &mut message, 0).unwrap();
            black_box(opener.open(&mut message).unwrap());
        });
        row(&format!("seal 64 KiB into a new buffer, {profile}"), || {
            let mut message = Vec::new();
            sealer.seal(Content::Data, &plaintext, &mut message, 0).unwrap();
            black_box(message);
        });
        row(&format!("record sniff, {profile}"), || {
            black_box(looks_like_record(black_box(&message)));
        });
    }
}
