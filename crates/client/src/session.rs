//! Sealed sessions over HTTP: one face over all wires. `spec/session.md`, `spec/session-3.md`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Body;
use sealway_proto::session::Auth;
use sealway_proto::wire::{SessionId, Wire};

pub use crate::error::Error;
use crate::exchange::Outgoing;
use crate::old::OldSessions;
use crate::sealed::{DpopKey, KeyId, SUITES_DEFAULT, SealedBody, Sessions, Suite, Trust};
use crate::transport::{BoxError, Transport, whole};

/// How to agree a session.
#[derive(Clone)]
pub struct Options {
    /// The wire.
    pub wire: Wire,
    /// Where sessions are agreed, and identity keys published: the service itself unless said. Of the URL the path is not used.
    pub session_url: Option<Uri>,
    /// Wires 1 and 2: the path of the init endpoint, `/session/init`, `/v1/session/init` or `/session/init/anon`.
    pub init_path: String,
    /// Who this client says it is. Wire 1 does not send it.
    pub client_id: String,
    /// How long a session should live; the service decides.
    pub ttl_sec: Option<u32>,
    /// A token for the init: a bearer's, or one that is bound to `dpop`.
    pub token: Option<String>,
    /// How long one exchange may take; of one whose bodies flow, until its answer begins, after the last of its own body.
    pub timeout: Duration,
    /// Wire 3: whose word is taken for who the service is. Nobody's unless said.
    pub trust: Trust,
    /// Wire 3: what is offered, the one that is liked most first; [`SUITES_DEFAULT`] unless said.
    pub suites: Vec<Suite>,
    /// Wire 3: the key that the token is bound to.
    pub dpop: Option<DpopKey>,
    /// Wire 3: how far apart two parts of an answer that flows may be.
    pub idle_timeout: Duration,
    /// Wire 3: a file for the secrets of all sessions, so that an inspector can read along. For development; it also takes
    /// `SEALWAY_KEY_LOG_ALLOWED=1` in the environment.
    pub key_log: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            wire: Wire::Three,
            session_url: None,
            init_path: "/session/init".into(),
            client_id: "sealway-client".into(),
            ttl_sec: None,
            token: None,
            timeout: Duration::from_secs(30),
            trust: Trust::Keys(Vec::new()),
            suites: SUITES_DEFAULT.to_vec(),
            dpop: None,
            idle_timeout: Duration::from_secs(120),
            key_log: None,
        }
    }
}

/// Where the time of one exchange went.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// From the call to the opened answer.
    pub round_trip: Duration,
    /// From sending to the last byte of the answer.
    pub http: Duration,
    /// The client's own crypto, by step.
    pub crypto: Vec<(&'static str, Duration)>,
    /// What the service says: names of `Server-Timing` and milliseconds.
    pub server: Vec<(String, f64)>,
}

/// What went over the wire, for those who want to look. It holds no key and no plaintext.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Headers of the request.
    pub request_headers: Vec<(String, String)>,
    /// The request's additional authenticated data; on wire 3 the fields that its context is the hash of, `|` between them.
    pub request_aad: String,
    /// Length of the sealed request body; 0 for one that flows, of which [`SealedBody::sent`] tells.
    pub request_len: usize,
    /// Headers of the answer.
    pub answer_headers: Vec<(String, String)>,
    /// Length of the sealed answer body.
    pub answer_len: usize,
}

/// An opened answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers. On wire 3 those that the service sealed; on wires 1 and 2 as received: anybody in between can change
    /// them.
    pub headers: HeaderMap,
    /// What the service said.
    pub body: Bytes,
    /// Where the time went.
    pub timings: Timings,
    /// What went over the wire.
    pub seen: Seen,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("wire", &self.wire)
            .field("session_url", &self.session_url)
            .field("init_path", &self.init_path)
            .field("client_id", &self.client_id)
            .field("ttl_sec", &self.ttl_sec)
            .field("token", &self.token.as_ref().map(|_| "redacted"))
            .field("timeout", &self.timeout)
            .field("trust", &self.trust)
            .field("suites", &self.suites)
            .finish_non_exhaustive()
    }
}

/// What a session of wire 3 is, as the service signed it.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// Its suite.
    pub suite: Suite,
    /// The identity key that signed.
    pub key_id: KeyId,
    /// How the service recognised this client.
    pub auth: Auth,
    /// As whom.
    pub subject: Option<String>,
    /// Of which tenant.
    pub tenant: Option<String>,
}

#[derive(Clone)]
enum Wires {
    Old(Arc<OldSessions>),
    Three(Arc<Sessions>),
}

/// A client of one service. Clones share the session and its connections.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    wires: Wires,
}

impl Client {
    /// A client of the service at `base` (`http://` or `https://`; its path is not used).
    ///
    /// # Errors
    /// [`Error::Usage`]; [`Error::Trust`] for a file of trusted keys that cannot be read.
    pub fn new(base: Uri, options: Options) -> Result<Self, Error> {
        let transport = Transport::new(base, options.timeout)?;
        let wires = match options.wire {
            Wire::One | Wire::Two => Wires::Old(Arc::new(OldSessions::new(transport.clone(), options)?)),
            Wire::Three => Wires::Three(Arc::new(Sessions::new(transport.clone(), Arc::new(options))?)),
        };
        Ok(Client { transport, wires })
    }

    /// Agrees a session now, or returns the one there is: its id, its life in seconds, and what it cost.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn connect(&self) -> Result<(SessionId, u64, Timings), Error> {
        match &self.wires {
            Wires::Old(old) => {
                let agreed = old.session(None).await?;
                Ok((*agreed.session.id(), agreed.expires_in_sec, agreed.timings.clone()))
            }
            Wires::Three(sessions) => {
                let agreed = sessions.session().await?;
                let session = &agreed.session;
                Ok((*session.id(), session.agreed().expires_in_sec.into(), agreed.timings.clone()))
            }
        }
    }

    /// What the service signed of the session on wire 3, which is agreed if there is none; nothing on the others.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn recognised(&self) -> Result<Option<Recognised>, Error> {
        let Wires::Three(sessions) = &self.wires else { return Ok(None) };
        let agreed = sessions.session().await?;
        let said = agreed.session.agreed();
        Ok(Some(Recognised {
            suite: said.suite,
            key_id: said.key_id,
            auth: said.auth,
            subject: said.subject.as_deref().map(str::to_owned),
            tenant: said.tenant.as_deref().map(str::to_owned),
        }))
    }

    /// Whether there was reason to trust the service before this client first met it: false with [`Trust::FirstUse`] until
    /// the first session is agreed.
    pub fn is_met(&self) -> bool {
        matches!(&self.wires, Wires::Three(sessions) if sessions.is_met())
    }

    /// Forgets the session: the next call, or [`Client::connect`], agrees a new one.
    pub async fn forget(&self) {
        match &self.wires {
            Wires::Old(old) => old.forget().await,
            Wires::Three(sessions) => sessions.forget().await,
        }
    }

    /// Ends the session, at the service too on wire 3; the others have no way to say so. The next call agrees a new one.
    ///
    /// # Errors
    /// [`Error`]; the session is forgotten here nonetheless.
    pub async fn end(&self) -> Result<(), Error> {
        match &self.wires {
            Wires::Old(old) => {
                old.forget().await;
                Ok(())
            }
            Wires::Three(sessions) => sessions.end().await,
        }
    }

    /// Seals a `POST` to `path_and_query`, and opens its answer.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn post(&self, path_and_query: &str, body: &[u8]) -> Result<Answer, Error> {
        match &self.wires {
            Wires::Old(old) => old.post(path_and_query, body).await,
            Wires::Three(sessions) => sessions.request(&Method::POST, path_and_query, &HeaderMap::new(), body).await,
        }
    }

    /// Seals a request and opens its answer, of 64 MiB at most. On wire 3 headers go within the seal, but for those that
    /// frame a message, which are dropped; wires 1 and 2 seal a `POST` without headers alone.
    ///
    /// A session that the service no longer knows is agreed anew, and the call sent again, once; on wire 3 only if the
    /// service proves that it cannot have served it, or the method is safe. A clock that is wrong is set right, and the call
    /// sent again by the same rule, once. Where it is not, the caller is told of the problem, and the next call has the new
    /// session, or the time.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn request(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Error> {
        match &self.wires {
            Wires::Old(_) if method != Method::POST => {
                Err(Error::Usage(format!("wires 1 and 2 seal POST alone, not {method}")))
            }
            Wires::Old(_) if !headers.is_empty() => Err(Error::Usage("wires 1 and 2 seal no headers".into())),
            Wires::Old(old) => old.post(path_and_query, &body).await,
            Wires::Three(sessions) => sessions.request(&method, path_and_query, &headers, &body).await,
        }
    }

    /// Sends a request whose body is sealed as it comes, and gives an answer whose body is opened as it comes: a frame ends
    /// where its source has nothing more ready. A URI that names an origin has to name this service's: nothing is sent elsewhere.
    /// Less than 1 MiB is held of both.
    /// Among the answer's extensions are [`Seen`] and [`Timings`], of the time until its first frame.
    ///
    /// A call with an empty body heals as [`Client::request`] does. One with a body is not sent again: what is gone of it
    /// cannot be had once more.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Usage`] on wires 1 and 2.
    pub async fn stream<B>(&self, request: Request<B>) -> Result<Response<SealedBody>, Error>
    where
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        match &self.wires {
            Wires::Old(_) => Err(Error::Usage("bodies stream on wire 3 alone".into())),
            Wires::Three(sessions) => sessions.stream(request).await,
        }
    }

    /// Sends bytes that were sealed before, as somebody would who captured them. For demonstrations and tests.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Timeout`].
    pub async fn send_captured(&self, path_and_query: &str, captured: &Outgoing) -> Result<(StatusCode, Bytes), Error> {
        let (headers, body) = (captured.headers.clone(), whole(captured.body.clone()));
        let request = self.transport.request(Method::POST, path_and_query, headers, body)?;
        let (status, _, body) = self.transport.send(request).await?;
        Ok((status, body))
    }

    /// Seals a `POST` without sending it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn seal_only(&self, path: &str, body: &[u8]) -> Result<Outgoing, Error> {
        match &self.wires {
            Wires::Old(old) => old.seal_only(path, body).await,
            Wires::Three(sessions) => sessions.seal_only(&Method::POST, path, body).await,
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", self.transport.base()).finish_non_exhaustive()
    }
}

pub(crate) fn texts<'a>(headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> Vec<(String, String)> {
    headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}

/// `name;dur=1.234, …` of every `Server-Timing` header.
pub(crate) fn server_timing(headers: &HeaderMap) -> Vec<(String, f64)> {
    let values = headers.get_all("server-timing").iter().filter_map(|value| value.to_str().ok());
    let parse = |entry: &str| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next()?.to_owned();
        let ms = parts.find_map(|part| part.strip_prefix("dur="))?.parse().ok()?;
        Some((name, ms))
    };
    values.flat_map(|value| value.split(',')).filter_map(parse).collect()
}
