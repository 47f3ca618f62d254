//! Streams of full frames compared with bare AES-256-GCM over as many bytes. Both sides copy the plaintext once into the buffer
//! to be sealed, and the ciphertext once into the buffer to be opened.

use std::hint::black_box;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sealway_proto::session::native::{FrameOpener, Read, RequestLine, SealedRequest};
use sealway_proto::wire::ReplayPolicy;

use super::{NOW, agreed, compare, provider};
use crate::table::verdict;

const FRAME: usize = 65_536;
const FRAMES: usize = 64;
const TARGET: &str = "/upload";

pub(super) fn run() -> anyhow::Result<()> {
    println!("## Streams of {FRAMES} frames of 64 KiB on one core (CPU, median of rounds that take turns)\n");
    println!("| | bare AES-256-GCM GiB/s | ours GiB/s | share | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for (name, (floor, ours)) in [("seal", seal()?), ("open", open()?)] {
        let rate = |nanos: f64| (FRAME * FRAMES) as f64 / nanos * 1e9 / f64::from(1 << 30);
        let share = floor / ours;
        let met = verdict(-share, -0.8);
        println!("| {name} | {:.2} | {:.2} | {share:.3} | 0.8 | {met} |", rate(floor), rate(ours));
    }
    println!();
    Ok(())
}

fn nonce(number: usize) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&(number as u64).to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn seal() -> anyhow::Result<(f64, f64)> {
    let (client, _) = agreed();
    let plaintext = vec![0x61_u8; FRAME];
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[9; 32])?);
    let (mut one, mut other) = (Vec::with_capacity(FRAME + 64), Vec::with_capacity(FRAME + 64));
    let mut floor = || {
        for number in 0..FRAMES {
            one.clear();
            one.extend_from_slice(&plaintext);
            key.seal_in_place_append_tag(nonce(number), Aad::from(&[0; 32]), &mut one).unwrap();
            black_box(&one);
        }
    };
    let mut ours = || {
        let line = RequestLine { method: "PUT", target: TARGET };
        let mut sealer = client.seal(provider(), line, "", NOW, &[7; 16]).unwrap().sealer;
        for number in 1..=FRAMES {
            other.clear();
            let begun = sealer.begin(&mut other);
            other.extend_from_slice(&plaintext);
            sealer.seal(&mut other, begun, number == FRAMES).unwrap();
            black_box(&other);
        }
    };
    let ([floor, ours], _) = compare(4, [&mut floor, &mut ours]);
    Ok((floor, ours))
}

fn open() -> anyhow::Result<(f64, f64)> {
    let (client, session) = agreed();
    let plaintext = vec![0x61_u8; FRAME];
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[9; 32])?);
    let mut frames = Vec::new();
    for number in 0..FRAMES {
        let at = frames.len();
        frames.extend_from_slice(&plaintext);
        let tag = key.seal_in_place_separate_tag(nonce(number), Aad::from(&[0; 32]), &mut frames[at..])?;
        frames.extend_from_slice(tag.as_ref());
    }
    let line = RequestLine { method: "PUT", target: TARGET };
    let mut call = client.seal(provider(), line, "", NOW, &[7; 16])?;
    let mut sealed = Vec::new();
    for number in 1..=FRAMES {
        let begun = call.sealer.begin(&mut sealed);
        sealed.extend_from_slice(&plaintext);
        call.sealer.seal(&mut sealed, begun, number == FRAMES)?;
    }
    let outer: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let opener = || -> FrameOpener {
        let request = SealedRequest::parse(&outer, line).unwrap();
        request.open(provider(), session.clone(), NOW, &ReplayPolicy::default()).unwrap().0
    };
    let (mut one, mut other) = (Vec::with_capacity(FRAME + 64), Vec::with_capacity(FRAME + 64));
    let mut floor = || {
        for (number, frame) in frames.chunks_exact(FRAME + 16).enumerate() {
            one.clear();
            one.extend_from_slice(frame);
            black_box(key.open_in_place(nonce(number), Aad::from(&[0; 32]), &mut one).unwrap());
        }
    };
    let mut ours = || {
        let (mut opener, mut input) = (opener(), sealed.as_slice());
        loop {
            other.clear();
            let read = opener.read(&mut input, &mut other).unwrap();
            black_box(&other);
            if read == Read::Last {
                break;
            }
        }
    };
    let ([floor, ours], _) = compare(4, [&mut floor, &mut ours]);
    Ok((floor, ours))
}
