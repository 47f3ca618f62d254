//! Wire 3: key agreement of each suite, the client's check of the server's confirmation, sealed requests and answers, and the
//! proof of the server's clock.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use sealway_proto::Error;
use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::session::native::problem::prove_clock;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameOpener, FrameSealer, IdentityKey, InitRequest, InnerHeaders, Read,
    RequestLine, SealHeaders, SealedRequest, ServerRandoms, ShareKey, Suite, Terms, agree,
};
use sealway_proto::session::{Auth, Fresh, Session};
use sealway_proto::wire::ReplayPolicy;

use super::{Library, NOW_MS, Path};
use crate::memcheck::{declare, declare_bit, secret_of};

pub(super) const PATHS: &[Path] = &[
    Path::of_each("native-x25519-ml-kem-768", |library| call(library, Suite::X25519MlKem768)).in_short("aws-lc"),
    Path::of_each("native-p256-ml-kem-768", |library| call(library, Suite::SecP256r1MlKem768)),
    Path::of_each("native-p256", |library| call(library, Suite::P256)),
    Path::of_each("native-forged", forged),
    Path::of_each("native-unconfirmed", unconfirmed),
    Path::of_each("native-clock", clock),
];

const TEXT: &[u8] = br#"{"card":"4111111111111111","amount":"10.00"}"#;
pub(crate) const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/pay" };
const OPENED: &str = "plaintext behind a verified tag: it is the caller's";
const CONFIRM: &str = "the server's confirmation, signature and share: they go over the wire";
const COMMIT: &str = "the commitment to the key: it goes over the wire";
const CLOCK: &str = "the proof of the server's clock: it goes over the wire";

/// Both ends of a session whose private keys are secrets. `change` may change the server's answer.
fn agreed(
    library: &Library,
    suite: Suite,
    change: impl FnOnce(String) -> String,
) -> anyhow::Result<(Result<ClientSession, Error>, Arc<Session>)> {
    let provider = library.provider;
    let (_, identity) = library.identity.generate(SignatureAlgorithm::Es256)?;
    let public = library.identity.public(identity.public())?;
    let key = IdentityKey::new(provider, identity.public(), 0, u64::MAX)?;
    let offer = ClientOffer {
        suites: vec![suite],
        client_id: "client-1".into(),
        ttl_sec: None,
        pinned_key_ids: vec![key.key_id],
        signature_algorithms: Vec::new(),
        credential: None,
    };
    let init = ClientInit::new(offer, ShareKey::generate(provider, suite)?, None)?;
    let request = InitRequest::parse(init.body().as_bytes())?;
    let terms = Terms {
        suites: vec![suite],
        expires_in_sec: 600,
        key_id: key.key_id,
        key_ids: vec![key.key_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    let agreement = agree(provider, &request, terms, None, &[3; 16], ServerRandoms::Draw, NOW_MS, &mut |_| ())?;
    let signature = identity.sign(&agreement.message())?;
    let (answer, session) = agreement.signed(provider, signature)?;
    declare(answer.as_bytes(), CONFIRM);
    let client = init.finish(provider, Some(&public), change(answer).as_bytes());
    Ok((client, Arc::new(session)))
}

fn unchanged(answer: String) -> String {
    answer
}

/// Seals one frame with a secret plaintext.
fn sealed(mut sealer: FrameSealer) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let begun = sealer.begin(&mut out);
    InnerHeaders::new().encode(&mut out);
    out.extend_from_slice(&secret_of(TEXT));
    sealer.seal(&mut out, begun, true)?;
    declare(out.get(..16).context("no commitment")?, COMMIT);
    Ok(out)
}

fn opened(mut opener: FrameOpener, mut stream: &[u8]) -> Result<Vec<u8>, Error> {
    let mut frame = Vec::new();
    match opener.read(&mut stream, &mut frame)? {
        Read::Last => {
            declare(&frame, OPENED);
            Ok(frame)
        }
        Read::More | Read::Frame => Err(Error::StreamTruncated),
    }
}

fn call(library: &Library, suite: Suite) -> anyhow::Result<()> {
    let (client, session) = agreed(library, suite, unchanged)?;
    let (client, provider, policy) = (client?, library.provider, ReplayPolicy::default());
    let call = client.seal(provider, LINE, "application/json", NOW_MS, &[5; 16])?;
    let mut headers: Vec<(&str, String)> = call.headers;
    headers.push(("content-type", "application/json".into()));
    let stream = sealed(call.sealer)?;
    let request = SealedRequest::parse(&headers, LINE)?;
    let (opener, opening) = request.open(provider, session, NOW_MS, &policy)?;
    let frame = opened(opener, &stream)?;
    ensure!(frame.ends_with(TEXT), "another plaintext");
    let request = opening.first(frame)?;
    let fresh = Fresh::reserved(request.claim());
    let reply = request.release(fresh)?.reply;

    let (headers, sealer) = reply.seal(provider, 200, "", NOW_MS, &[6; 16])?;
    let stream = sealed(sealer)?;
    let (_, opener) = call.pending.open(provider, &headers, 200)?;
    ensure!(opened(opener, &stream)?.ends_with(TEXT), "another answer");
    Ok(())
}

/// The headers and the stream of a request, and the session that opens it.
pub(crate) fn sealed_request(library: &Library) -> anyhow::Result<(SealHeaders, Vec<u8>, Arc<Session>)> {
    let (client, session) = agreed(library, Suite::P256, unchanged)?;
    let client = client?;
    let call = client.seal(library.provider, LINE, "", NOW_MS, &[5; 16])?;
    let stream = sealed(call.sealer)?;
    Ok((call.headers, stream, session))
}

/// Requests with a wrong commitment, a wrong tag, and both.
fn forged(library: &Library) -> anyhow::Result<()> {
    let (client, session) = agreed(library, Suite::P256, unchanged)?;
    let (client, provider, policy) = (client?, library.provider, ReplayPolicy::default());
    let call = client.seal(provider, LINE, "", NOW_MS, &[5; 16])?;
    let stream = sealed(call.sealer)?;
    let last = stream.len() - 1;
    for flipped in [&[0][..], &[last], &[0, last]] {
        let mut stream = stream.clone();
        flipped.iter().filter_map(|at| stream.get_mut(*at).map(|byte| *byte ^= 1)).count();
        let request = SealedRequest::parse(&call.headers, LINE)?;
        let (opener, _) = request.open(provider, session.clone(), NOW_MS, &policy)?;
        ensure!(opened(opener, &stream) == Err(Error::Unsealable), "a changed stream opens");
    }
    Ok(())
}

/// An answer whose confirmation was changed: the client must notice, and where the difference is must not show.
fn unconfirmed(library: &Library) -> anyhow::Result<()> {
    let change = |answer: String| {
        let marked = "\"confirm\":\"";
        let Some(at) = answer.find(marked).map(|at| at + marked.len()) else { return String::new() };
        let mut bytes = answer.into_bytes();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        String::from_utf8(bytes).unwrap_or_default()
    };
    match agreed(library, Suite::P256, change)?.0 {
        Err(Error::Unconfirmed) => Ok(()),
        Err(other) => bail!("rejected as {other}"),
        Ok(_) => bail!("a changed confirmation is accepted"),
    }
}

fn clock(library: &Library) -> anyhow::Result<()> {
    let (client, session) = agreed(library, Suite::P256, unchanged)?;
    let (client, stamp, nonce) = (client?, "1790000000000", "05".repeat(16));
    let proof = prove_clock(library.provider, &session, stamp, &nonce, NOW_MS)?;
    declare(&proof, CLOCK);
    for (number, is_right) in [(NOW_MS, true), (NOW_MS + 1, false)] {
        let verified = client.verifies_clock(library.provider, stamp, &nonce, number, &proof);
        ensure!(declare_bit(verified, "accept or reject: the proof of the server's clock") == is_right);
    }
    Ok(())
}
