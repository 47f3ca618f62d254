//! Channels in this process: the handshake of both ends compared with the bare operations on its curve, a record sealed and
//! opened compared with bare AES-256-GCM, and a relay's check of a frame. The figures are CPU time of one operation.

use std::hint::black_box;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey, X25519, agree};
use sealway_proto::channel::{
    ChannelSettings, Content, Handshake, HandshakeRandoms, Opener, Progress, Sealer, Suite, looks_like_record,
};
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};

use crate::crypto::compare;
use crate::table::{us, verdict};

const NOW_S: u64 = 1_800_000_000;
const SIZES: [(&str, usize); 5] =
    [("256 B", 256), ("1 KiB", 1024), ("8 KiB", 8192), ("64 KiB", 65_536), ("1 MiB", (1 << 20) - 34)];

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

/// Runs the handshake of both ends, from the start to confirmed keys.
fn handshake(settings: &ChannelSettings) -> (Handshake, Handshake) {
    let draw = || HandshakeRandoms::draw(provider()).unwrap();
    let (client, mut message) = Handshake::client(settings.clone(), provider(), draw(), NOW_S).unwrap();
    let mut ends = [Handshake::server(settings.clone(), provider(), draw()).unwrap(), client];
    for reader in [0, 1].into_iter().cycle() {
        match ends[reader].read(&message, NOW_S).unwrap() {
            Progress::Send(next) | Progress::SendThenDone(next) => message = next,
            Progress::Wait | Progress::Done => break,
        }
    }
    let [server, client] = ends;
    (client, server)
}

fn settings(id: u16) -> ChannelSettings {
    ChannelSettings::new("bench", [7; 32], Suite::from_id(id).unwrap(), NOW_S + 60)
}

fn records(id: u16) -> (Sealer, Opener) {
    let (client, server) = handshake(&settings(id));
    (client.into_records().unwrap().0, server.into_records().unwrap().1)
}

/// Runs the operations that every handshake with two ephemeral keys requires: two key pairs and two agreements.
fn bare(algorithm: &'static agreement::Algorithm) {
    let (one, other) = (PrivateKey::generate(algorithm).unwrap(), PrivateKey::generate(algorithm).unwrap());
    let publics = (one.compute_public_key().unwrap(), other.compute_public_key().unwrap());
    for (private, public) in [(&one, &publics.1), (&other, &publics.0)] {
        let peer = UnparsedPublicKey::new(algorithm, public.as_ref());
        agree(private, peer, (), |shared| {
            black_box(shared);
            Ok(())
        })
        .unwrap();
    }
}

pub(crate) fn run() -> anyhow::Result<()> {
    println!("## Channels, in process (CPU per operation, median of rounds that take turns)\n");
    println!("| operation | floor µs | ours µs | ratio | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let row = |name: &str, (floor, ours): (f64, f64), goal: Option<f64>| {
        let ratio = ours / floor;
        let (goal, met) = goal.map_or(("none".into(), ""), |goal| (goal.to_string(), verdict(ratio, goal)));
        println!("| {name} | {} | {} | {ratio:.3} | {goal} | {met} |", us(floor), us(ours));
    };
    for (id, algorithm) in [(1, &X25519), (2, &ECDH_P256), (0x100, &X25519), (0x102, &ECDH_P256)] {
        let settings = settings(id);
        let name = settings.suite.name();
        let ours = || {
            black_box(handshake(&settings));
        };
        row(&format!("handshake, both ends, {name}"), compare(100, || bare(algorithm), ours), Some(1.5));
    }
    for (profile, id) in [("v1", 1), ("native", 0x100)] {
        for (name, len) in SIZES {
            if len <= records(id).0.plaintext_max() {
                let goal = (len >= 1024).then_some(1.3);
                row(&format!("seal + open {name}, {profile}"), record(id, len)?, goal);
            }
        }
    }
    println!();
    let (mut sealer, _) = records(1);
    let mut frame = Vec::new();
    sealer.seal(Content::Data, &[1; 256], &mut frame, 0)?;
    let (_, sniff) = compare(
        10_000,
        || (),
        || {
            black_box(looks_like_record(black_box(&frame)));
        },
    );
    println!("Record sniff, 256 B: {sniff:.1} ns.\n");
    Ok(())
}

/// Seals and opens a record. Each side copies the plaintext once, into the buffer to be sealed; a message is read from the wire
/// into its buffer.
fn record(id: u16, len: usize) -> anyhow::Result<(f64, f64)> {
    let plaintext = vec![0x61_u8; len];
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[9; 32])?);
    let mut buffer = Vec::with_capacity(len + 64);
    let mut count = 0_u64;
    let floor = || {
        count += 1;
        let mut iv = [0; 12];
        iv[4..].copy_from_slice(&count.to_be_bytes());
        buffer.clear();
        buffer.extend_from_slice(&plaintext);
        let nonce = || Nonce::assume_unique_for_key(iv);
        key.seal_in_place_append_tag(nonce(), Aad::from(&[0; 18]), &mut buffer).unwrap();
        black_box(key.open_in_place(nonce(), Aad::from(&[0; 18]), &mut buffer).unwrap());
    };
    let (mut sealer, mut opener) = records(id);
    let mut message = Vec::with_capacity(len + 64);
    let ours = || {
        message.clear();
        sealer.seal(Content::Data, &plaintext, &mut message, 0).unwrap();
        black_box(opener.open(&mut message).unwrap());
    };
    Ok(compare((20_000_000 / (len + 2000)).max(20), floor, ours))
}
