//! Wires 1 and 2: key agreement, key derivation, and a call in both directions, at both ends.

use std::sync::Arc;

use anyhow::{bail, ensure};
use sealway_proto::Error;
use sealway_proto::session::{
    ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, SealBuffer, SealRandoms, SealedCall,
    SealedMessage, Session, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, Wire};

use super::{Library, NOW_MS, Path};
use crate::memcheck::{declare, secret, secret_of};

pub(super) const PATHS: &[Path] = &[
    Path::of_each("v1-call", |library| call(library, Wire::V1)).in_short("rust-crypto"),
    Path::of_each("v2-call", |library| call(library, Wire::V2)).in_short("aws-lc"),
    Path::of_each("v1-forged", |library| forged(library, Wire::V1)),
    Path::of_each("v2-forged", |library| forged(library, Wire::V2)),
];

const TEXT: &[u8] = br#"{"card":"4111111111111111","amount":"10.00"}"#;
const OPENED: &str = "plaintext behind a verified tag: it is the caller's";
pub(crate) const PATH: &str = "/pay";

/// Both ends of a session whose ephemeral keys are secrets.
fn agreed(library: &Library, wire: Wire) -> anyhow::Result<(ClientSession, Arc<Session>)> {
    let (provider, policy) = (library.provider, ReplayPolicy::default());
    let ephemeral = provider.p256_from_scalar(&secret([0x11; 32]))?;
    let (init, request) = ClientInit::new(wire, false, "client-1", None, ephemeral, &[1; 16], NOW_MS)?;
    let call = InitCall::parse(provider, Family::Session, &request.headers, request.body.as_bytes(), NOW_MS, &policy)?;
    let fresh = Fresh::reserved(call.claim());
    let call = call.release(fresh)?;
    let randoms = InitRandoms { session_id: [3; 16], ephemeral: provider.p256_from_scalar(&secret([0x22; 32]))? };
    let (answer, session) =
        call.accept(provider, &TtlPolicy::default(), false, None, |_| Ok(randoms), NOW_MS, &mut |_| ())?;
    let client = init.finish(provider, answer.encode().as_bytes(), NOW_MS, &mut |_| ())?;
    Ok((client, Arc::new(session)))
}

type RequestParts = (Vec<(&'static str, String)>, Vec<u8>, Arc<Session>);

/// The headers and the body of a request on wire 2, and the session that opens it.
pub(crate) fn sealed_request(library: &Library) -> anyhow::Result<RequestParts> {
    let (client, session) = agreed(library, Wire::V2)?;
    let (sealed, _) = client.seal(PATH, SealBuffer::from([0x61; 1024].as_slice()), NOW_MS, &randoms(5), &mut |_| ())?;
    Ok((sealed.headers, sealed.body, session))
}

fn randoms(byte: u8) -> SealRandoms {
    SealRandoms { iv: [byte; 12], nonce: [byte; 16] }
}

fn call(library: &Library, wire: Wire) -> anyhow::Result<()> {
    let (client, session) = agreed(library, wire)?;
    let policy = ReplayPolicy::default();
    let text = SealBuffer::from(secret_of(TEXT).as_slice());
    let (sealed, pending) = client.seal(PATH, text, NOW_MS, &randoms(5), &mut |_| ())?;
    let call = SealedCall::parse(&sealed.headers, PATH, NOW_MS, &policy)?;
    let opened = call.open(library.provider, session, sealed.body, &mut |_| ())?;
    let fresh = Fresh::reserved(opened.claim());
    let request = opened.release(fresh)?;
    declare(request.plaintext.as_slice(), OPENED);
    ensure!(request.plaintext.as_slice() == TEXT, "another plaintext");

    let text = SealBuffer::from(secret_of(TEXT).as_slice());
    let SealedMessage { headers, body, .. } = request.reply.seal(200, text, NOW_MS, &randoms(6), &mut |_| ())?;
    let answer = pending.open(&headers, 200, body, NOW_MS, &policy, &mut |_| ())?;
    declare(answer.as_slice(), OPENED);
    ensure!(answer.as_slice() == TEXT, "another answer");
    Ok(())
}

/// A call whose ciphertext was changed, and an answer.
fn forged(library: &Library, wire: Wire) -> anyhow::Result<()> {
    let (client, session) = agreed(library, wire)?;
    let policy = ReplayPolicy::default();
    let (mut sealed, _) = client.seal(PATH, SealBuffer::from(TEXT), NOW_MS, &randoms(5), &mut |_| ())?;
    let middle = sealed.body.len() / 2;
    let Some(byte) = sealed.body.get_mut(middle) else { bail!("an empty body") };
    *byte = if *byte == b'A' { b'B' } else { b'A' };
    let call = SealedCall::parse(&sealed.headers, PATH, NOW_MS, &policy)?;
    let opened = call.open(library.provider, session, sealed.body, &mut |_| ());
    ensure!(matches!(opened, Err(Error::Unsealable)), "a changed ciphertext opens");
    Ok(())
}
