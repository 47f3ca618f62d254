//! Tests of a session's lifetime across sleeps of the machine.

use std::time::Instant;

use http::StatusCode;
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::Auth;
use sealway_proto::session::native::{InitRequest, KeyId, ServerRandoms, Suite, Terms, agree};

use super::session::{Agreement, Session};
use crate::call::Offer;

const SERVER_MS: u64 = 2_500_000_000_000;

fn agreed() -> Session {
    let (provider, offer) = (default_agreement_provider(), Offer::default());
    let (_, key) = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap();
    let (agreement, sent) = Agreement::begin(&offer, offer.suites[0], Vec::new(), "", None).unwrap();
    let key_id = KeyId::of(provider, key.public());
    let terms = Terms {
        suites: Suite::ALL.to_vec(),
        expires_in_sec: 600,
        key_id,
        key_ids: vec![key_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    let request = InitRequest::parse(&sent.body).unwrap();
    let answer = agree(provider, &request, terms, None, &[7; 16], ServerRandoms::Draw, SERVER_MS, &mut |_| ()).unwrap();
    let signature = key.sign(&answer.message()).unwrap();
    let (body, _) = answer.signed(provider, signature).unwrap();
    agreement.claimed(StatusCode::CREATED, body.as_bytes()).unwrap();
    agreement.finish(key.public(), body.as_bytes(), Instant::now()).unwrap()
}

#[test]
fn a_session_that_ended_while_the_machine_slept_is_over_and_its_stamps_stay_by_the_clock_that_never_jumps() {
    let mut session = agreed();
    assert!(session.is_usable() && !session.is_over());
    session.born.slept(500_000);
    assert!(session.is_usable());
    session.born.slept(60_000);
    assert!(!session.is_usable() && !session.is_over(), "it is to be renewed");
    session.born.slept(60_000);
    assert!(session.is_over());
    assert!((SERVER_MS..SERVER_MS + 60_000).contains(&session.stamp_ms()));
}
