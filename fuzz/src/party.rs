//! A client and a server with an agreed session, which is the same in every run, for each wire.

use std::sync::{Arc, OnceLock};

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::{
    ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, Session, Step, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, Wire};

/// The clock in Unix milliseconds, which an input may override.
pub(crate) const NOW_MS: u64 = 1_700_000_000_000;
/// The client id of wire 2.
pub(crate) const CLIENT_ID: &str = "web";

/// Both ends of a session.
pub(crate) struct Party {
    pub(crate) client: ClientSession,
    pub(crate) server: Arc<Session>,
}

/// A lap recorder that measures no time.
pub(crate) fn no_laps(_: Step) {}

/// Returns the client's ephemeral key, and its init as it would be sent.
pub(crate) fn client_init(wire: Wire, anonymous: bool) -> (ClientInit, sealway_proto::session::InitRequest) {
    let ephemeral = NoSecurity.p256_from_scalar(&[7; 32]).expect("any scalar will do");
    ClientInit::new(wire, anonymous, CLIENT_ID, Some(1800), ephemeral, b"sixteen bytes ok", NOW_MS)
        .expect("the client id is well-formed")
}

/// Returns the session of a wire.
pub(crate) fn party(wire: Wire) -> &'static Party {
    static ONE: OnceLock<Party> = OnceLock::new();
    static TWO: OnceLock<Party> = OnceLock::new();
    let cell = match wire {
        Wire::V1 => &ONE,
        Wire::V2 | Wire::Native | Wire::OneShot => &TWO,
    };
    cell.get_or_init(|| {
        let (init, request) = client_init(wire, false);
        let policy = ReplayPolicy::default();
        let body = request.body.as_bytes();
        let call = InitCall::parse(&NoSecurity, Family::Session, &request.headers, body, NOW_MS, &policy);
        let call = call.expect("an honest init is taken");
        let fresh = Fresh::reserved(call.claim());
        let call = call.release(fresh).expect("its own claim");
        let randoms = |laps: &mut dyn FnMut(Step)| InitRandoms::draw(&NoSecurity, laps);
        let accepted = call.accept(&NoSecurity, &TtlPolicy::default(), false, None, randoms, NOW_MS, &mut no_laps);
        let (answer, server) = accepted.expect("an honest init is accepted");
        let client = init.finish(&NoSecurity, answer.encode().as_bytes(), NOW_MS, &mut no_laps);
        Party { client: client.expect("an honest answer is taken"), server: Arc::new(server) }
    })
}
