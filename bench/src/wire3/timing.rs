//! Tests whether the time of a rejection depends on the fault of a stream: Welch's t between kinds of faults, in this process.

use std::sync::Arc;
use std::time::Instant;

use sealway_proto::Error;
use sealway_proto::session::Session;
use sealway_proto::session::native::{Read, RequestLine, SealedRequest};
use sealway_proto::wire::ReplayPolicy;

use super::calls::request;
use super::{NOW, agreed, provider};
use crate::table::median;

const TARGET: &str = "/transaction/purchase";
const BODY: usize = 1024;
const GOAL: f64 = 4.5;
/// The share of samples in the second figure. It leaves out the slowest ones, which other work of the machine delayed.
const KEPT: f64 = 0.95;

/// A kind of fault, and a stream that has it.
struct Kind {
    name: &'static str,
    stream: Vec<u8>,
    nanos: Vec<f64>,
}

fn kinds(good: &[u8], of_another_target: Vec<u8>) -> Vec<Kind> {
    let flipped = |at: usize| {
        let mut stream = good.to_vec();
        stream[at] ^= 1;
        stream
    };
    let tag = good.len() - 16;
    let kind = |name, stream| Kind { name, stream, nanos: Vec::new() };
    vec![
        kind("commit, first byte", flipped(0)),
        kind("commit, last byte", flipped(15)),
        kind("tag, first byte", flipped(tag)),
        kind("tag, last byte", flipped(good.len() - 1)),
        kind("first byte of ciphertext", flipped(20)),
        kind("of another target", of_another_target),
        kind("commit and tag", {
            let mut stream = flipped(3);
            stream[tag] ^= 1;
            stream
        }),
    ]
}

fn refuse(session: &Arc<Session>, outer: &Vec<(String, String)>, mut input: &[u8], frame: &mut Vec<u8>) -> f64 {
    let start = Instant::now();
    let line = RequestLine { method: "POST", target: TARGET };
    let parsed = SealedRequest::parse(outer, line).unwrap();
    let (mut opener, _opening) = parsed.open(provider(), session.clone(), NOW, &ReplayPolicy::default()).unwrap();
    let read: Result<Read, Error> = opener.read(&mut input, frame);
    let nanos = start.elapsed().as_nanos() as f64;
    assert_eq!(read, Err(Error::Unsealable));
    nanos
}

pub(super) fn run(samples: usize) {
    let (client, session) = agreed();
    let (outer, good) = request(&client, TARGET, &[0x61; BODY]);
    let (_, elsewhere) = request(&client, "/transaction/purchasf", &[0x61; BODY]);
    println!("## Refusals of 1 KiB, {samples} of each kind (time, Welch's t; goal below {GOAL})\n");
    println!(
        "Each kind takes turns at random with the first alone, so that no branch of the processor is predicted better for one.\n"
    );
    println!("| wrong | median ns | of the first | t, all | t, without the slowest 5 % | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let mut kinds = kinds(&good, elsewhere);
    let mut first = kinds.remove(0);
    for kind in &mut kinds {
        take_turns(&session, &outer, samples, [&mut first, kind]);
        print(&mut first, kind);
    }
    println!();
}

fn take_turns(session: &Arc<Session>, outer: &Vec<(String, String)>, samples: usize, mut kinds: [&mut Kind; 2]) {
    // Both kinds use one buffer, so that neither is closer in the caches.
    let (mut input, mut frame) = (kinds[0].stream.clone(), Vec::with_capacity(2 * BODY));
    kinds.iter_mut().for_each(|kind| kind.nanos.clear());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // The first rejections warm up.
    let warm_up = samples / 10;
    for number in 0..2 * (samples + warm_up) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let kind = &mut *kinds[(state >> 32) as usize & 1];
        input.copy_from_slice(&kind.stream);
        frame.clear();
        let nanos = refuse(session, outer, &input, &mut frame);
        if number >= 2 * warm_up {
            kind.nanos.push(nanos);
        }
    }
}

fn print(first: &mut Kind, kind: &mut Kind) {
    let mut all: Vec<f64> = first.nanos.iter().chain(&kind.nanos).copied().collect();
    all.sort_by(f64::total_cmp);
    let bound = all[(all.len() as f64 * KEPT) as usize];
    let kept = |nanos: &[f64]| nanos.iter().copied().filter(|nanos| *nanos <= bound).collect::<Vec<_>>();
    let (whole, cropped) = (welch(&first.nanos, &kind.nanos), welch(&kept(&first.nanos), &kept(&kind.nanos)));
    let met = if whole.abs().max(cropped.abs()) < GOAL { "met" } else { "missed" };
    let [of_first, of_kind] = [first, kind].map(|kind| (kind.name, median(&mut kind.nanos)));
    println!("| {} | {:.0} | {:.0} | {whole:.2} | {cropped:.2} | {met} |", of_kind.0, of_kind.1, of_first.1);
}

/// Returns the mean of the values and the variance of that mean.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}

fn welch(one: &[f64], other: &[f64]) -> f64 {
    let ((one, of_one), (other, of_other)) = (moments(one), moments(other));
    (other - one) / (of_one + of_other).sqrt()
}
