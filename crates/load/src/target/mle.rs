//! Messages encrypted as card schemes do (`spec/mle.md`) over a connection of another kind.
//!
//! Each request is sealed anew, since a service rejects a token that it received before. The operations block the thread that offers the
//! load: they are the generator's cost, and the sample has their times.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};
use sealway_client::mle::Messages;

use super::carrier::Carrier;
use super::connect::Lines;
use super::{Connection, Sample};
use crate::record::{Class, Failure};
use crate::request::{CurrentRequest, Program, Raw, excerpt};

/// Connection whose requests are sealed one by one, without a session.
pub(crate) struct MleConnection {
    carrier: Carrier,
    messages: Arc<Messages>,
}

impl MleConnection {
    pub(super) fn new(inner: Connection, lines: Rc<Lines>, messages: Arc<Messages>, program: &Arc<Program>) -> Self {
        MleConnection { carrier: Carrier::new(inner, lines, program), messages }
    }

    pub(super) fn keeps(&self) -> bool {
        self.carrier.keeps()
    }

    pub(super) async fn is_open(&mut self) -> Result<bool, Failure> {
        self.carrier.is_open().await
    }

    pub(super) async fn finish(self, wait: Option<Duration>) {
        self.carrier.finish(wait).await;
    }

    /// Seals a request, and opens and checks its answer.
    ///
    /// # Errors
    /// A failure of class `Unsealed` if a successful answer does not open, `Status` if the request is rejected in clear, or any failure of
    /// the connection or of the checks.
    pub(super) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        let raw = self.seal(prepared, sample)?;
        let (status, _, answer) = self.carrier.send(raw, sample).await?;
        if !self.messages.is_message(&answer) {
            return check_clear(prepared, status, &answer);
        }
        let before = Instant::now();
        let opened = self.messages.open(&answer, None);
        sample.open = Some(before.elapsed());
        let plaintext = opened.map_err(|err| Failure::new(Class::Unsealed, err))?;
        sample.ended = Some(Instant::now());
        prepared.check_other(sample.status, &plaintext)
    }

    /// Makes the outer request. A request without a body has no token.
    fn seal(&self, prepared: &CurrentRequest, sample: &mut Sample) -> Result<Raw, Failure> {
        let (path, plaintext, mut headers) = (prepared.path()?, prepared.sent(), prepared.headers()?);
        for name in [CONTENT_LENGTH, TRANSFER_ENCODING, HOST] {
            headers.remove(name);
        }
        let mut body = Bytes::new();
        if !plaintext.is_empty() {
            let before = Instant::now();
            body = self.messages.seal(&plaintext).map_err(|err| Failure::new(Class::Internal, err))?.into();
            sample.seal = Some(before.elapsed());
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.messages.content_type()));
        }
        let method = prepared.method().clone();
        Ok(Raw { method, path: Some(path), headers, body, is_last: true, ..Raw::default() })
    }
}

/// Checks an answer that is not sealed: errors come in clear, and so does an answer without content.
fn check_clear(prepared: &CurrentRequest, status: StatusCode, answer: &[u8]) -> Result<(), Failure> {
    let may_be_clear = status == StatusCode::NO_CONTENT || !status.is_success();
    if !may_be_clear {
        return Err(Failure::new(Class::Unsealed, format_args!("the response is in clear: {}", excerpt(answer))));
    }
    prepared.check_other(status.as_u16(), answer).map_err(|failure| match failure.class {
        Class::Status => {
            let words = format!("the request was rejected in clear: {} {}", status.as_u16(), excerpt(answer));
            Failure::new(Class::Status, words)
        }
        _ => failure,
    })
}
