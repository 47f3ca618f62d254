//! Sessions of wires 1 and 2 without a connection: what to send, and what to make of the answer. Whoever has a connection of their
//! own sends it there; [`crate::Client`] does both.
//!
//! ```text
//! Agreement::begin -> Outgoing -> (an answer) -> Agreement::finish -> Session
//! Session::seal -> Outgoing -> (an answer) -> Pending::open -> plaintext
//! ```

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{ClientInit, ClientSession, PendingAnswer, SealBuffer, SealRandoms, Step};
pub use sealway_proto::wire::Wire;
use sealway_proto::wire::{Field, Headers, ReplayPolicy, SessionId, header};

use crate::error::{Error, excerpt};
use crate::session::Options;

/// A session is replaced this long before it ends.
const RENEW_BEFORE_MS: u64 = 5000;

/// A request to be sent as `POST`.
pub struct Outgoing {
    /// Its headers, `Content-Type` among them. `Authorization` is marked as sensitive.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// What is authenticated beside the body, which is public; empty in an init.
    pub aad: Vec<u8>,
}

/// An init that was begun.
pub struct Agreement(ClientInit);

/// An agreed session, for as many calls as its time allows, several at a time too.
pub struct Session(ClientSession);

/// What must be remembered of a sealed request to open its answer.
pub struct Pending<'a>(PendingAnswer<'a>);

impl Agreement {
    /// Draws a key pair and says what to send to [`Options::init_path`].
    ///
    /// # Errors
    /// [`Error::Seal`], [`Error::Usage`].
    pub fn begin(options: &Options) -> Result<(Agreement, Outgoing), Error> {
        Self::begin_timed(options, &mut Laps::start())
    }

    pub(crate) fn begin_timed(options: &Options, laps: &mut Laps) -> Result<(Agreement, Outgoing), Error> {
        let provider = default_provider();
        let ephemeral = provider.p256_generate().map_err(Error::Seal)?;
        laps.lap(Step::EcdhKeygen);
        let mut nonce = [0; 16];
        provider.fill_random(&mut nonce).map_err(Error::Seal)?;
        let anonymous = options.init_path.ends_with("/anon");
        let (init, message) =
            ClientInit::new(options.wire, anonymous, &options.client_id, options.ttl_sec, ephemeral, &nonce, now_ms())
                .map_err(Error::Seal)?;
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &message.headers {
            insert(&mut headers, name, value)?;
        }
        if let Some(token) = &options.token {
            insert(&mut headers, AUTHORIZATION.as_str(), &format!("Bearer {token}"))?;
        }
        Ok((Agreement(init), Outgoing { headers, body: message.body.into(), aad: Vec::new() }))
    }

    /// Finishes with the service's answer.
    ///
    /// # Errors
    /// [`Error::InitRefused`], [`Error::Untrusted`].
    pub fn finish(self, status: StatusCode, body: &[u8]) -> Result<Session, Error> {
        self.finish_timed(status, body, &mut Laps::start())
    }

    pub(crate) fn finish_timed(self, status: StatusCode, body: &[u8], laps: &mut Laps) -> Result<Session, Error> {
        if status != StatusCode::OK {
            return Err(Error::InitRefused { status, body: excerpt(body) });
        }
        laps.skip();
        let session = self.0.finish(default_provider(), body, now_ms(), &mut |step| laps.lap(step));
        session.map(Session).map_err(Error::Untrusted)
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.0.id()
    }

    /// Whether it lasts a while yet: it is to be replaced 5 seconds before its end.
    pub fn is_usable(&self) -> bool {
        now_ms() + RENEW_BEFORE_MS < self.0.expires_ms()
    }

    /// How long it lasts, in seconds.
    pub fn expires_in_sec(&self) -> u64 {
        self.0.expires_ms().saturating_sub(now_ms()).div_ceil(1000)
    }

    /// Seals a request to this path, whose query is not sealed.
    ///
    /// # Errors
    /// [`Error::Seal`], [`Error::Usage`].
    pub fn seal(&self, path_and_query: &str, body: &[u8]) -> Result<(Outgoing, Pending<'_>), Error> {
        self.seal_timed(path_and_query, body, &mut Laps::start())
    }

    pub(crate) fn seal_timed(
        &self,
        path_and_query: &str,
        body: &[u8],
        laps: &mut Laps,
    ) -> Result<(Outgoing, Pending<'_>), Error> {
        let randoms = SealRandoms::draw(default_provider()).map_err(Error::Seal)?;
        let path = path_and_query.split('?').next().unwrap_or_default();
        let sealed = self.0.seal(path, SealBuffer::from(body), now_ms(), &randoms, &mut |step| laps.lap(step));
        let (message, pending) = sealed.map_err(Error::Seal)?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(message.content_type));
        for (name, value) in &message.headers {
            insert(&mut headers, name, value)?;
        }
        Ok((Outgoing { headers, body: message.body.into(), aad: message.aad }, Pending(pending)))
    }
}

impl Pending<'_> {
    /// Opens the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not sealed at all, [`Error::Untrusted`].
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: Bytes) -> Result<Bytes, Error> {
        self.open_timed(status, headers, body, &mut Laps::start())
    }

    pub(crate) fn open_timed(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
        laps: &mut Laps,
    ) -> Result<Bytes, Error> {
        if !headers.contains_key(header::X_KID) {
            return Err(Error::Refused { status, body: excerpt(&body) });
        }
        laps.skip();
        let policy = ReplayPolicy::default();
        let (received, status) = (Received(headers), status.as_u16());
        let opened = self.0.open(&received, status, body.into(), now_ms(), &policy, &mut |step| laps.lap(step));
        let (buffer, range) = opened.map_err(Error::Untrusted)?.into_parts();
        Ok(Bytes::from(buffer).slice(range))
    }
}

impl std::fmt::Debug for Outgoing {
    /// Without its headers: there may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("len", &self.body.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agreement").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(self.id()).finish()
    }
}

impl std::fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

pub(crate) struct Received<'a>(pub(crate) &'a HeaderMap);

impl Headers for Received<'_> {
    fn field(&self, name: &'static str) -> Field<'_> {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
            _ => Field::Malformed,
        }
    }
}

/// Measures the client's own steps.
pub(crate) struct Laps {
    last: Instant,
    pub(crate) steps: Vec<(&'static str, Duration)>,
}

impl Laps {
    pub(crate) fn start() -> Self {
        Laps { last: Instant::now(), steps: Vec::with_capacity(4) }
    }

    fn lap(&mut self, step: Step) {
        self.named(step.name());
    }

    /// Ends a step that is not one of the old wires'.
    pub(crate) fn named(&mut self, name: &'static str) {
        let now = Instant::now();
        self.steps.push((name, now - self.last));
        self.last = now;
    }

    pub(crate) fn skip(&mut self) {
        self.last = Instant::now();
    }
}

#[expect(clippy::disallowed_methods, reason = "the SDK's own door to the clock: it may not import the servers' shell")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// When something was sent, by both clocks: one stands still while a machine sleeps, the other may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAt {
    monotonic: Instant,
    wall_ms: u64,
}

impl SentAt {
    pub(crate) fn now() -> Self {
        SentAt { monotonic: Instant::now(), wall_ms: now_ms() }
    }

    /// How long ago that was, in milliseconds: the longer of both, rounded up.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.longer(self.monotonic.elapsed(), now_ms())
    }

    #[cfg(test)]
    pub(crate) fn slept(&mut self, ms: u64) {
        self.wall_ms -= ms;
    }

    fn longer(&self, monotonic: Duration, wall_ms: u64) -> u64 {
        let monotonic = u64::try_from(monotonic.as_millis()).unwrap_or(u64::MAX);
        // Both are cut down to milliseconds, the wall clock's at either end.
        monotonic.max(wall_ms.saturating_sub(self.wall_ms)).saturating_add(1)
    }
}

pub(crate) fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Error> {
    let name =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::Usage(format!("{name} is no header name")))?;
    let mut text =
        HeaderValue::from_str(value).map_err(|_| Error::Usage(format!("the value of {name} is no header value")))?;
    text.set_sensitive(name == AUTHORIZATION);
    headers.insert(name, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_since_a_request_was_sent_is_the_longer_of_both_clocks() {
        let sent = SentAt { monotonic: Instant::now(), wall_ms: 1_000_000 };
        // A machine that slept, a wall clock that was set back, and one that was cut in the middle of a millisecond.
        assert_eq!(sent.longer(Duration::from_millis(5), 1_600_000), 600_001);
        assert_eq!(sent.longer(Duration::from_millis(5), 400_000), 6);
        assert_eq!(sent.longer(Duration::from_micros(1999), 1_000_001), 2);
    }
}
