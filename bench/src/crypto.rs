//! The server's side of init compared with bare P-256 key generation, ECDH and HKDF; and open and seal compared with bare
//! AES-256-GCM.

use std::hint::black_box;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use rustix::time::{ClockId, clock_gettime};
use sealway_proto::crypto::{RandomPool, default_provider};
use sealway_proto::session::{
    ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, SealBuffer, SealRandoms, SealedCall, Session,
    TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, Wire};

use crate::table::{median, us, verdict};

const ROUNDS: usize = 31;
const NOW: u64 = 1_800_000_000_000;

/// Returns the CPU time of this thread in nanoseconds.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the median CPU time of each operation, measured in alternating rounds.
pub(crate) fn compare(count: usize, mut floor: impl FnMut(), mut ours: impl FnMut()) -> (f64, f64) {
    let measure = |operation: &mut dyn FnMut()| {
        let start = cpu_ns();
        for _ in 0..count {
            operation();
        }
        (cpu_ns() - start) / count as f64
    };
    measure(&mut floor);
    measure(&mut ours);
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        samples.0.push(measure(&mut floor));
        samples.1.push(measure(&mut ours));
    }
    (median(&mut samples.0), median(&mut samples.1))
}

pub(crate) fn run() -> anyhow::Result<()> {
    println!("## In process: ours beside the floor (CPU per operation, median of {ROUNDS} rounds that take turns)\n");
    println!("| operation | floor µs | ours µs | ratio | goal | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let row = |name: &str, (floor, ours): (f64, f64), goal: f64| {
        let ratio = ours / floor;
        println!("| {name} | {} | {} | {ratio:.3} | {goal} | {} |", us(floor), us(ours), verdict(ratio, goal));
    };
    row("server side of init, wire 2, against P-256 keygen + ECDH + HKDF", init()?, 1.15);
    row("open + seal 1 KiB, wire 2, against AES-256-GCM", open_and_seal(Wire::V2, 1024, 4000)?, 1.3);
    row("open + seal 64 KiB, wire 2, against AES-256-GCM", open_and_seal(Wire::V2, 65_536, 300)?, 1.1);
    println!();
    println!("Wire 1 carries base64, which the floor does not have; no goal is set for it:\n");
    println!("| operation | floor µs | ours µs | ratio |");
    println!("| --- | ---: | ---: | ---: |");
    for (name, len, count) in [("1 KiB", 1024, 2000), ("64 KiB", 65_536, 100)] {
        let (floor, ours) = open_and_seal(Wire::V1, len, count)?;
        println!("| open + seal {name}, wire 1 | {} | {} | {:.3} |", us(floor), us(ours), ours / floor);
    }
    println!();
    Ok(())
}

fn init() -> anyhow::Result<(f64, f64)> {
    let provider = default_provider();
    let policy = ReplayPolicy::default();
    let (_, request) = ClientInit::new(Wire::V2, false, "bench", None, provider.p256_generate()?, &[7; 16], NOW)?;
    let peer = PrivateKey::generate(&ECDH_P256)?.compute_public_key()?;
    let floor = || {
        let private = PrivateKey::generate(&ECDH_P256).unwrap();
        let public = private.compute_public_key().unwrap();
        let key = agree(&private, UnparsedPublicKey::new(&ECDH_P256, peer.as_ref()), (), |z| {
            let mut key = [0_u8; 32];
            let salt = Salt::new(HKDF_SHA256, b"S-0123456789abcdef0123456789abcdef");
            salt.extract(z).expand(&[b"SESSION|A256GCM|bench"], HKDF_SHA256).unwrap().fill(&mut key).unwrap();
            Ok(key)
        });
        black_box((public, key.unwrap()));
    };
    let ours = || {
        let parsed =
            InitCall::parse(provider, Family::Session, &request.headers, request.body.as_bytes(), NOW, &policy)
                .unwrap();
        let fresh = Fresh::reserved(parsed.claim());
        let call = parsed.release(fresh).unwrap();
        let draw = |laps: sealway_proto::session::Laps<'_>| InitRandoms::draw(provider, laps);
        let (answer, session) =
            call.accept(provider, &TtlPolicy::default(), false, None, draw, NOW, &mut |_| ()).unwrap();
        black_box((answer.encode(), session));
    };
    Ok(compare(200, floor, ours))
}

pub(crate) fn agreed(wire: Wire) -> anyhow::Result<(ClientSession, Arc<Session>)> {
    let provider = default_provider();
    let (init, request) = ClientInit::new(wire, false, "bench", None, provider.p256_generate()?, &[7; 16], NOW)?;
    let policy = ReplayPolicy::default();
    let parsed = InitCall::parse(provider, Family::Session, &request.headers, request.body.as_bytes(), NOW, &policy)?;
    let fresh = Fresh::reserved(parsed.claim());
    let draw = |laps: sealway_proto::session::Laps<'_>| InitRandoms::draw(provider, laps);
    let ttl = TtlPolicy::default();
    let (answer, session) = parsed.release(fresh)?.accept(provider, &ttl, false, None, draw, NOW, &mut |_| ())?;
    let client = init.finish(provider, answer.encode().as_bytes(), NOW, &mut |_| ())?;
    Ok((client, Arc::new(session)))
}

fn open_and_seal(wire: Wire, len: usize, count: usize) -> anyhow::Result<(f64, f64)> {
    let provider = default_provider();
    let policy = ReplayPolicy::default();
    let plaintext = vec![0x61_u8; len];
    let (client, session) = agreed(wire)?;
    let randoms = SealRandoms::draw(provider)?;
    let (message, _) =
        client.seal("/transaction/purchase", SealBuffer::from(plaintext.as_slice()), NOW, &randoms, &mut |_| ())?;

    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[9; 32])?);
    let mut sealed = plaintext.clone();
    let tag =
        key.seal_in_place_separate_tag(Nonce::assume_unique_for_key([1; 12]), Aad::from(&message.aad), &mut sealed)?;
    sealed.extend_from_slice(tag.as_ref());
    let mut buffer = sealed.clone();
    let mut answer = plaintext.clone();
    // A body is read from the wire into its buffer, and a service's answer into its own: both operations include that copy.
    let floor = || {
        buffer.copy_from_slice(&sealed);
        let nonce = Nonce::assume_unique_for_key([1; 12]);
        black_box(key.open_in_place(nonce, Aad::from(&message.aad), &mut buffer).unwrap());
        answer.copy_from_slice(&plaintext);
        let nonce = Nonce::assume_unique_for_key([2; 12]);
        let _ = black_box(key.seal_in_place_separate_tag(nonce, Aad::from(&message.aad), &mut answer).unwrap());
    };
    let mut pool = RandomPool::new();
    let ours = || {
        let call = SealedCall::parse(&message.headers, "/transaction/purchase", NOW, &policy).unwrap();
        let opened = call.open(provider, session.clone(), message.body.clone(), &mut |_| ()).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let opened = opened.release(fresh).unwrap();
        let randoms = SealRandoms::from_pool(provider, &mut pool).unwrap();
        let answer = SealBuffer::from(plaintext.as_slice());
        black_box(opened.reply.seal(200, answer, NOW, &randoms, &mut |_| ()).unwrap());
    };
    Ok(compare(count, floor, ours))
}
