//! A sealed call at the server on each wire: the server parses the headers, opens the body, reserves the nonce, and seals an
//! answer as long as the request. No socket, no store.

use std::hint::black_box;
use std::sync::Arc;

use sealway_proto::crypto::{RandomPool, default_provider};
use sealway_proto::session::native::{ClientSession, InnerHeaders, Read, RequestLine, SealedRequest};
use sealway_proto::session::{Fresh, SealBuffer, SealRandoms, SealedCall, Session};
use sealway_proto::wire::{ReplayPolicy, Wire};

use super::{NOW, agreed, compare, headers, provider, stream};
use crate::crypto;
use crate::table::{us, verdict};

const TARGET: &str = "/transaction/purchase";

pub(super) fn run() -> anyhow::Result<()> {
    println!("## A sealed call at the server, open and seal (CPU, median of rounds that take turns)\n");
    println!("| plaintext | wire 1 µs | wire 2 µs | wire 3 µs | to wire 2 | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for (name, len, count) in [("256 B", 256, 2000), ("1 KiB", 1024, 2000), ("64 KiB", 65_536, 200)] {
        let (mut one, mut two, mut three) = (old(Wire::V1, len)?, old(Wire::V2, len)?, native(len)?);
        let ([one, two, three], _) = compare(count, [&mut one, &mut two, &mut three]);
        let (more, ratio) = ((three - two) / 1000.0, three / two);
        let (goal, met) = match len {
            1024 => ("3 µs more", verdict(more, 3.0)),
            65_536 => ("1.2", verdict(ratio, 1.2)),
            _ => ("none", ""),
        };
        println!("| {name} | {} | {} | {} | {ratio:.3}, {more:+.2} µs | {goal} | {met} |", us(one), us(two), us(three));
    }
    println!();
    Ok(())
}

fn old(wire: Wire, len: usize) -> anyhow::Result<impl FnMut()> {
    let (provider, policy) = (default_provider(), ReplayPolicy::default());
    let (client, session) = crypto::agreed(wire)?;
    let plaintext = vec![0x61_u8; len];
    let randoms = SealRandoms::draw(provider)?;
    let (message, _) = client.seal(TARGET, SealBuffer::from(plaintext.as_slice()), NOW, &randoms, &mut |_| ())?;
    let mut pool = RandomPool::new();
    Ok(move || {
        let call = SealedCall::parse(&message.headers, TARGET, NOW, &policy).unwrap();
        let opened = call.open(provider, session.clone(), message.body.clone(), &mut |_| ()).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let opened = opened.release(fresh).unwrap();
        let randoms = SealRandoms::from_pool(provider, &mut pool).unwrap();
        let answer = SealBuffer::from(plaintext.as_slice());
        black_box(opened.reply.seal(200, answer, NOW, &randoms, &mut |_| ()).unwrap());
    })
}

/// The headers and the stream of a request.
pub(super) fn request(client: &ClientSession, target: &str, body: &[u8]) -> (Vec<(String, String)>, Vec<u8>) {
    let line = RequestLine { method: "POST", target };
    let call = client.seal(provider(), line, "application/octet-stream", NOW, &[7; 16]).unwrap();
    let mut outer: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    outer.push(("content-type".into(), "application/octet-stream".into()));
    (outer, stream(call.sealer, &headers(), body))
}

fn native(len: usize) -> anyhow::Result<impl FnMut()> {
    let (client, session) = agreed();
    let plaintext = vec![0x61_u8; len];
    let (outer, sealed) = request(&client, TARGET, &plaintext);
    let (inner, mut pool) = (headers(), RandomPool::new());
    Ok(move || {
        let body = serve(&session, &outer, &sealed);
        black_box(answer(body, &inner, &plaintext, &mut pool));
    })
}

/// Opens the request. Returns its frames and the state that seals the answer.
fn serve(
    session: &Arc<Session>,
    outer: &Vec<(String, String)>,
    mut input: &[u8],
) -> sealway_proto::session::native::Reply {
    let line = RequestLine { method: "POST", target: TARGET };
    let request = SealedRequest::parse(outer, line).unwrap();
    let policy = ReplayPolicy::default();
    let (mut opener, opening) = request.open(provider(), session.clone(), NOW, &policy).unwrap();
    let mut frame = Vec::new();
    let mut read = opener.read(&mut input, &mut frame).unwrap();
    let opened = opening.first(frame).unwrap();
    let fresh = Fresh::reserved(opened.claim());
    let opened = opened.release(fresh).unwrap();
    while read == Read::Frame {
        let mut frame = Vec::new();
        read = opener.read(&mut input, &mut frame).unwrap();
        black_box(frame);
    }
    black_box(opened.first);
    opened.reply
}

fn answer(
    reply: sealway_proto::session::native::Reply,
    inner: &InnerHeaders,
    body: &[u8],
    pool: &mut RandomPool,
) -> Vec<u8> {
    let nonce = pool.take(provider()).unwrap();
    let (outer, sealer) = reply.seal(provider(), 200, "application/octet-stream", NOW, &nonce).unwrap();
    black_box(outer);
    stream(sealer, inner, body)
}
