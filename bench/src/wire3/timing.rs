//! The time of a rejection by the fault of a stream, in this process.

use std::sync::Arc;
use std::time::Instant;

use sealway_proto::Error;
use sealway_proto::session::Session;
use sealway_proto::session::native::{Read, RequestLine, SealedRequest};
use sealway_proto::wire::ReplayPolicy;

use super::calls::request;
use super::{NOW, agreed, provider};
use crate::welch::{self, GOAL, Kind};

const TARGET: &str = "/transaction/purchase";
const BODY: usize = 1024;

fn kinds(good: &[u8], of_another_target: Vec<u8>) -> Vec<Kind> {
    let flipped = |at: usize| {
        let mut stream = good.to_vec();
        stream[at] ^= 1;
        stream
    };
    let tag = good.len() - 16;
    let kind = |name, stream| Kind::new(name, vec![stream]);
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
    welch::print_head();
    let mut kinds = kinds(&good, elsewhere);
    let mut first = kinds.remove(0);
    let mut frame = Vec::with_capacity(2 * BODY);
    for kind in &mut kinds {
        welch::take_turns(samples, &mut [&mut first, kind], |input| {
            frame.clear();
            refuse(&session, &outer, input, &mut frame)
        });
        welch::print(&mut first, kind);
    }
    println!();
}
