//! Sessions of wires 1 and 2 over connections. `spec/session.md`.

use std::sync::Arc;
use std::time::Instant;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use sealway_proto::wire::SessionId;
use tokio::sync::RwLock;

use crate::error::Error;
use crate::exchange::{Agreement, Laps, Outgoing, Session};
use crate::session::{Answer, Options, Seen, Timings, server_timing, texts};
use crate::transport::{Transport, whole};

pub(crate) struct Agreed {
    pub(crate) session: Session,
    pub(crate) timings: Timings,
    pub(crate) expires_in_sec: u64,
}

/// The sessions of one client, one at a time.
pub(crate) struct OldSessions {
    transport: Transport,
    /// Where sessions are agreed.
    authority: Transport,
    options: Options,
    agreed: RwLock<Option<Arc<Agreed>>>,
}

impl OldSessions {
    pub(crate) fn new(transport: Transport, options: Options) -> Result<Self, Error> {
        let authority = transport.at(options.session_url.as_ref())?;
        Ok(OldSessions { transport, authority, options, agreed: RwLock::default() })
    }

    pub(crate) async fn forget(&self) {
        *self.agreed.write().await = None;
    }

    /// A session that the service no longer knows is agreed anew, once.
    pub(crate) async fn post(&self, path_and_query: &str, body: &[u8]) -> Result<Answer, Error> {
        let agreed = self.session(None).await?;
        match self.exchange(&agreed.session, path_and_query, body).await {
            Err(Error::Refused { status: StatusCode::UNAUTHORIZED, .. }) => {
                let anew = self.session(Some(agreed.session.id())).await?;
                self.exchange(&anew.session, path_and_query, body).await
            }
            result => result,
        }
    }

    pub(crate) async fn seal_only(&self, path: &str, body: &[u8]) -> Result<Outgoing, Error> {
        let agreed = self.session(None).await?;
        agreed.session.seal(path, body).map(|(message, _)| message)
    }

    /// The session in use; agreed anew when there is none, it is about to end, or it is `not` wanted any more.
    pub(crate) async fn session(&self, not: Option<&SessionId>) -> Result<Arc<Agreed>, Error> {
        let usable = |agreed: &Arc<Agreed>| not != Some(agreed.session.id()) && agreed.session.is_usable();
        if let Some(agreed) = self.agreed.read().await.as_ref().filter(|agreed| usable(agreed)) {
            return Ok(agreed.clone());
        }
        // Whoever waits here waits for another's exchange, and no longer than for one of its own.
        let after = self.transport.timeout();
        let mut slot = tokio::time::timeout(after, self.agreed.write())
            .await
            .map_err(|_| Error::Timeout { url: self.transport.base().to_string(), after })?;
        // Another task may have been faster.
        if let Some(agreed) = slot.as_ref().filter(|agreed| usable(agreed)) {
            return Ok(agreed.clone());
        }
        let agreed = Arc::new(self.init().await?);
        *slot = Some(agreed.clone());
        Ok(agreed)
    }

    async fn init(&self) -> Result<Agreed, Error> {
        let start = Instant::now();
        let mut laps = Laps::start();
        let (agreement, message) = Agreement::begin_timed(&self.options, &mut laps)?;
        let (path, body) = (&self.options.init_path, whole(message.body));
        let request = self.authority.request(Method::POST, path, message.headers, body)?;
        let sent = Instant::now();
        let (status, headers, body) = self.transport.send(request).await?;
        let http = sent.elapsed();
        let session = agreement.finish_timed(status, &body, &mut laps)?;
        let timings =
            Timings { round_trip: start.elapsed(), http, crypto: laps.steps, server: server_timing(&headers) };
        let expires_in_sec = session.expires_in_sec();
        Ok(Agreed { session, timings, expires_in_sec })
    }

    async fn exchange(&self, session: &Session, path_and_query: &str, body: &[u8]) -> Result<Answer, Error> {
        let start = Instant::now();
        let mut laps = Laps::start();
        let (message, pending) = session.seal_timed(path_and_query, body, &mut laps)?;
        let mut seen = Seen {
            request_headers: texts(message.headers.iter().filter(|(name, _)| *name != CONTENT_TYPE)),
            request_aad: String::from_utf8_lossy(&message.aad).into_owned(),
            request_len: message.body.len(),
            ..Seen::default()
        };
        let body = whole(message.body);
        let request = self.transport.request(Method::POST, path_and_query, message.headers, body)?;
        let sent = Instant::now();
        let (status, headers, body) = self.transport.send(request).await?;
        let http = sent.elapsed();
        seen.answer_len = body.len();
        seen.answer_headers = texts(headers.iter());
        let body = pending.open_timed(status, &headers, body, &mut laps)?;
        let timings =
            Timings { round_trip: start.elapsed(), http, crypto: laps.steps, server: server_timing(&headers) };
        Ok(Answer { status, headers, body, timings, seen })
    }
}
