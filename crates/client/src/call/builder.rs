//! Settings of a client, with their defaults and bounds.

use std::fmt::Display;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use sealway_proto::wire::Wire;

use super::Client;
use super::transport::BoxError;
use crate::error::{Error, chain};
use crate::native::{DpopKey, SUITES_DEFAULT, Suite, Trust};

/// Upper bound of the timeouts.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Upper bound of the body limits, in bytes.
const BODY_MAX: usize = 1 << 30;

type Token = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

/// Terms that a client asks for in the agreement of a session.
#[derive(Clone)]
pub struct Offer {
    /// Name of the client, within the bounds of `X-ClientId` in `spec/session.md`. Wire 1 does not send it.
    pub client_id: String,
    /// Requested lifetime of the session in seconds; the service decides.
    pub ttl_sec: Option<u32>,
    /// Bearer token, or a token that is bound to `dpop`.
    pub token: Option<String>,
    /// Wire 3: suites in order of preference, at least one, each once.
    pub suites: Vec<Suite>,
    /// Wire 3: key to which the token is bound.
    pub dpop: Option<DpopKey>,
}

impl Default for Offer {
    fn default() -> Self {
        let (client_id, suites) = ("sealway-client".into(), SUITES_DEFAULT.to_vec());
        Offer { client_id, ttl_sec: None, token: None, suites, dpop: None }
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "redacted");
        f.debug_struct("Offer").field("client_id", &self.client_id).field("token", &token).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) wire: Wire,
    pub(crate) session_url: Option<Uri>,
    pub(crate) init_path: String,
    pub(crate) offer: Offer,
    pub(crate) authorization: Option<Arc<dyn Fn() -> Token + Send + Sync>>,
    pub(crate) trust: Trust,
    pub(crate) timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) body_max: usize,
    pub(crate) retry_body_max: usize,
    pub(crate) key_log: Option<PathBuf>,
}

/// Settings of a [`Client`], of which only the service's URL and, on wire 3, [`Builder::trust`] have no usable default.
///
/// ```
/// # use std::time::Duration;
/// # use sealway_client::{Client, Pin, Trust};
/// let client = Client::builder("https://service.example")
///     .trust(Trust::Keys(vec![Pin::parse("00112233445566778899aabbccddeeff")?]))
///     .timeout(Duration::from_secs(5))
///     .build()?;
/// # Ok::<(), sealway_client::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    url: Result<Uri, String>,
    settings: Settings,
}

impl Builder {
    pub(super) fn new<U: TryInto<Uri, Error: Display>>(url: U) -> Self {
        let settings = Settings {
            wire: Wire::Native,
            session_url: None,
            init_path: "/session/init".into(),
            offer: Offer::default(),
            authorization: None,
            trust: Trust::Keys(Vec::new()),
            timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            body_max: 64 << 20,
            retry_body_max: 1 << 20,
            key_log: None,
        };
        Builder { url: url.try_into().map_err(|err| format!("the service's URL: {err}")), settings }
    }

    /// Function that returns the token of an init. The client calls it at each init, not at renewals, within
    /// [`Builder::timeout`]. Default: no token.
    ///
    /// The token is a bearer token, or bound to the key of [`Builder::dpop`].
    pub fn authorization<F, R, E>(mut self, token: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.settings.authorization = Some(Arc::new(move || {
            let token = token();
            Box::pin(async { token.await.map_err(|err| Error::Authorization(chain(err.into().as_ref()))) })
        }));
        self
    }

    /// Fixed token for all inits, for tokens that do not expire; [`Builder::authorization`] serves all others. Default:
    /// none.
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.authorization(move || std::future::ready(Ok::<_, Error>(token.clone())))
    }

    /// Creates the client without sending anything.
    ///
    /// # Errors
    /// [`Error::Usage`] for a setting out of bounds; [`Error::Trust`] for a trust file that cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        let Settings { timeout, idle_timeout, body_max, retry_body_max, .. } = self.settings;
        for (name, time) in [("timeout", timeout), ("idle_timeout", idle_timeout)] {
            if !(Duration::from_millis(1)..=TIMEOUT_MAX).contains(&time) {
                return Err(Error::Usage(format!("{name}: {time:?} is not within 1 ms and 24 h")));
            }
        }
        for (name, len) in [("body_max", body_max), ("retry_body_max", retry_body_max)] {
            if len > BODY_MAX {
                return Err(Error::Usage(format!("{name}: {len} is more than {BODY_MAX} bytes")));
            }
        }
        if self.settings.offer.suites.is_empty() {
            return Err(Error::Usage("no suite is offered".into()));
        }
        Client::new(self.url.map_err(Error::Usage)?, self.settings)
    }

    /// Creates the client, and agrees its first session.
    ///
    /// # Errors
    /// Errors of [`Builder::build`] and of the agreement.
    pub async fn connect(self) -> Result<Client, Error> {
        let client = self.build()?;
        client.session().await?;
        Ok(client)
    }
}

/// Defines setters of single fields of [`Settings`].
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $($field:ident).+;)*) => {
        impl Builder {
            $($(#[$doc])*
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$($field).+ = $name.into();
                self
            })*
        }
    };
}

setters! {
    /// Identity keys that the client trusts, on wire 3. Default: none, so that no service is trusted by oversight.
    trust: Trust => trust;
    /// Key of DPoP proofs (RFC 9449) to which the token is bound, on wire 3. Default: none, for bearer tokens.
    dpop: DpopKey => offer.dpop;
    /// URL of the service that agrees sessions and publishes identity keys; its path is not used. Default: the
    /// service's own.
    session_url: Uri => session_url;
    /// Wire of the calls. Default: 3.
    wire: Wire => wire;
    /// Path of inits on wires 1 and 2: `/session/init`, `/v1/session/init` or `/session/init/anon`. Default:
    /// `/session/init`.
    init_path: impl Into<String> => init_path;
    /// Name of the client, which wire 1 does not send. Default: `sealway-client`. Bounds: those of `X-ClientId` in
    /// `spec/session.md`.
    client_id: impl Into<String> => offer.client_id;
    /// Requested lifetime of sessions in seconds, within the service's bounds. Default: the service's.
    ttl_sec: u32 => offer.ttl_sec;
    /// Suites in order of preference, on wire 3, at least one, each once. Default: [`SUITES_DEFAULT`], those with
    /// ML-KEM.
    suites: impl Into<Vec<Suite>> => offer.suites;
    /// Time bound. On wire 3 it bounds the wait for an answer's first frame, from the call or from the last part of a
    /// streamed body. On wires 1 and 2 it bounds the whole exchange, and [`Body::bytes`] has the same bound again.
    /// Default: 30 s. Bounds: 1 ms to 24 h.
    ///
    /// [`Body::bytes`]: crate::Body::bytes
    timeout: Duration => timeout;
    /// Time between two parts of a streamed answer, on wire 3. Default: 120 s. Bounds: 1 ms to 24 h.
    idle_timeout: Duration => idle_timeout;
    /// Largest body that is read whole, in bytes: all requests and answers on wires 1 and 2, answers read by
    /// [`Body::bytes`] on wire 3. Default: 64 MiB. Bounds: 0 to 1 GiB.
    ///
    /// [`Body::bytes`]: crate::Body::bytes
    body_max: usize => body_max;
    /// Largest request body that is buffered, in bytes, on wire 3. A body of known length up to the bound is read
    /// before it is sent, and can be retried. A longer one, or one of unknown length, is sealed as it comes and sent
    /// once. Default: 1 MiB. Bounds: 0 to 1 GiB.
    retry_body_max: usize => retry_body_max;
    /// File for the secrets of all sessions on wire 3, for an inspector in development. It also requires
    /// `SEALWAY_KEY_LOG_ALLOWED=1` in the environment. Default: none.
    key_log: PathBuf => key_log;
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("url", &self.url).field("offer", &self.settings.offer).finish_non_exhaustive()
    }
}
