//! The bytes that an init costs on the wire, as `spec/session-3.md` states them.

use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::session::Auth;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, InitRequest, KeyId, ServerRandoms, ShareKey, Suite, Terms, agree,
};

use super::{library, provider};

/// Returns the bytes of the bodies of an init and its answer: one suite, one pinned key, which is the only live one, a client id of 10
/// characters, times of today, and a client that is not authenticated.
fn bytes(suite: Suite, algorithm: SignatureAlgorithm) -> (usize, usize) {
    let (_, key) = library().generate(algorithm).unwrap();
    let key_id = KeyId::of(provider(), key.public());
    let offer = ClientOffer {
        suites: vec![suite],
        client_id: "0123456789".into(),
        ttl_sec: None,
        pinned_key_ids: vec![key_id],
        signature_algorithms: Vec::new(),
        credential: None,
    };
    let init = ClientInit::new(offer, ShareKey::generate(provider(), suite).unwrap(), None).unwrap();
    let request = InitRequest::parse(init.body().as_bytes()).unwrap();
    let terms = Terms {
        suites: vec![suite],
        expires_in_sec: 1800,
        key_id,
        key_ids: vec![key_id],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    let now_ms = 1_800_000_000_000;
    let agreed = agree(provider(), &request, terms, None, &[7; 16], ServerRandoms::Draw, now_ms, &mut |_| ()).unwrap();
    let signature = key.sign(&agreed.message()).unwrap();
    let (answer, _) = agreed.signed(provider(), signature).unwrap();
    let public = library().public(key.public()).unwrap();
    let body = init.body();
    init.finish(provider(), Some(&public), answer.as_bytes()).unwrap();
    (body.len(), answer.len())
}

#[test]
fn the_bytes_of_every_init_are_those_that_the_page_states() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/session-3.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<String> = Suite::ALL
        .into_iter()
        .map(|suite| {
            let (request, _) = bytes(suite, SignatureAlgorithm::Es256);
            let answers = SignatureAlgorithm::ALL.map(|algorithm| bytes(suite, algorithm));
            assert!(answers.iter().all(|(own, answer)| *own == request && *answer < 16_384));
            let answers = answers.map(|(_, answer)| answer.to_string()).join(" | ");
            format!("| `{}` | {request} | {answers} |", suite.name())
        })
        .collect();
    for row in &rows {
        assert!(page.contains(row.as_str()), "the page lacks a row; all rows are:\n{}", rows.join("\n"));
    }
}
