//! Answers to rejected clients, which wire 4 seals in part.

use http::request::Parts;
use http::{Method, Response, StatusCode};
use sealway_proto::Error;
use sealway_proto::exchange::{Form, ProblemSeal, Refusal, Rejection, wire_of};
use sealway_proto::wire::Wire;

use crate::body::{Body, full};
use crate::error_answer;
use crate::headers::{self, HttpHeaders};
use crate::sessions::Sessions;

/// The way in which errors of one request are answered: on wire 4 some go under the seal, once the request has opened.
#[derive(Debug)]
pub struct Problems {
    form: Form,
    is_one_shot: bool,
    is_head: bool,
    /// The state that seals a problem, once the request has opened.
    pub(crate) seal: Option<ProblemSeal>,
}

impl Problems {
    pub(crate) fn of(parts: &Parts) -> Self {
        let wire = wire_of(&HttpHeaders(&parts.headers));
        let (is_one_shot, is_head) = (wire == Wire::OneShot, parts.method == Method::HEAD);
        Problems { form: Form::of(wire), is_one_shot, is_head, seal: None }
    }

    /// Builds the answer to a rejected client.
    // SPEC one-shot.md#problems
    pub fn answer(&self, sessions: &impl Sessions, mut rejection: Rejection) -> Response<Body> {
        if self.is_one_shot && rejection.refusal == Refusal::Wire(Error::KeyRetired) {
            let document = sessions.one_shot().and_then(|keys| keys.document(sessions.now_ms()));
            rejection = document.into_iter().fold(rejection, |rejection, keys| rejection.with("key_document", keys));
        }
        // A limit that counts after the request has opened is the store's: its problem goes under the seal.
        if self.seal.is_some() && matches!(rejection.refusal, Refusal::RateLimited(_)) {
            rejection = Refusal::NoncesFull.into();
        }
        let answer = rejection.answer(self.form);
        let sealed = self.seal.as_ref().filter(|_| rejection.is_sealed()).and_then(|seal| {
            let randoms = sessions.randoms().ok()?;
            seal.seal(sessions.provider(), &answer, self.is_head, sessions.now_ms(), &randoms.nonce).ok()
        });
        let Some(sealed) = sealed else { return error_answer(answer) };
        let mut response = Response::new(full(sealed.body));
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        headers::put_seal(response.headers_mut(), sealed.headers);
        response
    }
}
