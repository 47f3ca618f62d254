//! A frame of a stream of wire 3 costs no allocation beyond the given buffer. This is a separate program, because counting needs
//! its own allocator.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::alloc::System;
use std::sync::Arc;

use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, InitRequest, KeyId, Read, RequestLine, SealedRequest, ServerRandoms,
    ShareKey, Suite, Terms, agree,
};
use sealway_proto::session::{Auth, Session};
use sealway_proto::wire::ReplayPolicy;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOW_MS: u64 = 1_800_000_000_000;
const FRAME: usize = 65_536;
const FRAMES: usize = 200;
const LINE: RequestLine<'_> = RequestLine { method: "PUT", target: "/upload" };

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

fn agreed() -> (ClientSession, Arc<Session>) {
    let key = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1;
    let key_id = KeyId::of(provider(), key.public());
    let offer = ClientOffer {
        suites: vec![Suite::P256],
        client_id: "web".into(),
        ttl_sec: None,
        pinned_key_ids: Vec::new(),
        signature_algorithms: Vec::new(),
        credential: None,
    };
    let init = ClientInit::new(offer, ShareKey::generate(provider(), Suite::P256).unwrap(), None).unwrap();
    let request = InitRequest::parse(init.body().as_bytes()).unwrap();
    let terms = Terms {
        suites: vec![Suite::P256],
        expires_in_sec: 60,
        key_id,
        key_ids: vec![key_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    let agreed = agree(provider(), &request, terms, None, &[9; 16], ServerRandoms::Draw, NOW_MS, &mut |_| ()).unwrap();
    let signature = key.sign(&agreed.message()).unwrap();
    let (body, session) = agreed.signed(provider(), signature).unwrap();
    let public = default_identity_library().public(key.public()).unwrap();
    (init.finish(provider(), Some(&public), body.as_bytes()).unwrap(), Arc::new(session))
}

/// Returns the number of allocator calls of `operation`.
fn allocations(operation: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    operation();
    let change = region.change();
    change.allocations + change.reallocations
}

/// The only test of this file, because allocations of any other test in the process would be counted.
#[test]
fn a_frame_is_sealed_and_opened_without_an_allocation_in_a_buffer_that_is_kept_and_with_one_in_a_new_one() {
    let (client, session) = agreed();
    let mut call = client.seal(provider(), LINE, "", NOW_MS, &[7; 16]).unwrap();
    let plaintext = vec![1; FRAME];
    let mut buffer = Vec::with_capacity(FRAME + 64);
    let mut sealed = Vec::with_capacity((FRAMES + 1) * (FRAME + 64));
    let sealing = allocations(|| {
        for number in 1..=FRAMES {
            buffer.clear();
            let begun = call.sealer.begin(&mut buffer);
            buffer.extend_from_slice(&plaintext);
            call.sealer.seal(&mut buffer, begun, number == FRAMES).unwrap();
            sealed.extend_from_slice(&buffer);
        }
    });
    assert_eq!(sealing, 0, "for {FRAMES} frames");

    let headers: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let opener = || {
        let request = SealedRequest::parse(&headers, LINE).unwrap();
        request.open(provider(), session.clone(), NOW_MS, &ReplayPolicy::default()).unwrap().0
    };
    // Pieces as they come from a socket, none of which ends with a frame.
    let (mut kept, mut renewed) = (opener(), opener());
    let mut open = |is_kept: bool, pieces: usize| {
        let (opener, mut opened) = if is_kept { (&mut kept, 0) } else { (&mut renewed, 0) };
        let count = allocations(|| {
            buffer.clear();
            for mut input in sealed.chunks(pieces) {
                while !input.is_empty() {
                    if opener.read(&mut input, &mut buffer).unwrap() != Read::More {
                        opened += 1;
                        if is_kept { buffer.clear() } else { buffer = Vec::new() }
                    }
                }
            }
        });
        opener.end().unwrap();
        assert_eq!(opened, FRAMES);
        count
    };
    assert_eq!(open(true, 10_007), 0, "for {FRAMES} frames");
    // The first frame goes into the existing buffer.
    assert_eq!(open(false, 9973), FRAMES - 1, "for {FRAMES} frames");
}
