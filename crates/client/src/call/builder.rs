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
use crate::error::{Error, ErrorKind, chain};
use crate::native::{DpopKey, SUITES_DEFAULT, SignatureAlgorithm, Suite, Trust};

/// Upper bound of the timeouts.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Upper bound of the body limits, in bytes.
const BODY_MAX: usize = 1 << 30;

type Authorization = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

/// Terms that a client asks for in the agreement of a session.
#[derive(Clone)]
pub struct Offer {
    /// Name of the client, within the bounds of `X-ClientId` in `spec/session.md`. Wire 1 does not send it.
    pub client_id: String,
    /// Requested lifetime of the session in seconds; the service decides.
    pub ttl_sec: Option<u32>,
    /// Value of the header `Authorization`: `Bearer TOKEN`, or `DPoP TOKEN` with a token that is bound to `dpop`.
    pub authorization: Option<String>,
    /// Wire 3: suites in order of preference, at least one, each once.
    pub suites: Vec<Suite>,
    /// Wire 3: signature algorithms that the client accepts of identity keys; none for no restriction.
    pub signature_algorithms: Vec<SignatureAlgorithm>,
    /// Wire 3: key to which the token is bound.
    pub dpop: Option<DpopKey>,
}

impl Default for Offer {
    fn default() -> Self {
        let (client_id, suites) = ("sealway-client".into(), SUITES_DEFAULT.to_vec());
        Offer { client_id, ttl_sec: None, authorization: None, suites, signature_algorithms: Vec::new(), dpop: None }
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) wire: Wire,
    pub(crate) authority_url: Option<Uri>,
    pub(crate) init_path: String,
    pub(crate) offer: Offer,
    pub(crate) authorization: Option<Arc<dyn Fn() -> Authorization + Send + Sync>>,
    pub(crate) trust: Option<Trust>,
    pub(crate) connect_timeout: Duration,
    pub(crate) head_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) answer_max_bytes: usize,
    pub(crate) request_max_bytes: usize,
    pub(crate) key_log: Option<PathBuf>,
}

/// Settings of a [`Client`], of which only the service's URL and, on wire 3, [`Builder::trust`] have no usable default.
///
/// ```
/// # use std::time::Duration;
/// # use sealway_client::{Client, Pin, Trust};
/// let client = Client::builder("https://service.example")
///     .trust(Trust::Pins(vec![Pin::parse("00112233445566778899aabbccddeeff")?]))
///     .total_timeout(Duration::from_secs(5))
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
            authority_url: None,
            init_path: "/session/init".into(),
            offer: Offer::default(),
            authorization: None,
            trust: None,
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            total_timeout: Some(Duration::from_secs(60)),
            answer_max_bytes: 16 << 20,
            request_max_bytes: 16 << 20,
            key_log: None,
        };
        Builder { url: url.try_into().map_err(|err| format!("the service's URL: {err}")), settings }
    }

    /// Function that returns the value of the header `Authorization`, such as `Bearer TOKEN`. The client calls it at
    /// each init, not at renewals. With [`Builder::dpop`] the value is `DPoP TOKEN`. Default: none.
    pub fn authorization<F, R, E>(mut self, value: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.settings.authorization = Some(Arc::new(move || {
            let value = value();
            Box::pin(async { Ok(value.await.map_err(|err| ErrorKind::Authorization(chain(err.into().as_ref())))?) })
        }));
        self
    }

    /// Requested lifetime of sessions, rounded up to seconds; the service bounds it. Default: the service's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.offer.ttl_sec = Some(u32::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        self
    }

    /// Creates the client without sending anything.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a setting out of bounds; [`ErrorKind::Trust`] for a trust file that cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        self.check_bounds()?;
        let settings = &self.settings;
        let has_path = match settings.init_path.as_str() {
            "/session/init" => true,
            "/session/init/anon" => settings.wire == Wire::V1,
            "/v1/session/init" => settings.wire == Wire::V2,
            _ => false,
        };
        if !has_path {
            let allowed = "/session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)";
            return Err(ErrorKind::Usage(format!("init_path: {} is not {allowed}", settings.init_path)).into());
        }
        if self.settings.offer.suites.is_empty() {
            return Err(ErrorKind::Usage("suites: the list is empty".into()).into());
        }
        Client::new(self.url.map_err(ErrorKind::Usage)?, self.settings)
    }

    /// Creates a client that seals single requests without a session, with the timeouts and bounds of these settings. What belongs to
    /// sessions has no effect.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a setting out of bounds, and for pins that cannot be used.
    #[cfg(feature = "one-shot")]
    pub fn one_shot(self, trust: crate::OneShotTrust) -> Result<crate::OneShot, Error> {
        self.check_bounds()?;
        crate::OneShot::new(self.url.map_err(ErrorKind::Usage)?, self.settings, trust)
    }

    fn check_bounds(&self) -> Result<(), Error> {
        let settings = &self.settings;
        for (name, time) in [
            ("connect_timeout", settings.connect_timeout),
            ("head_timeout", settings.head_timeout),
            ("idle_timeout", settings.idle_timeout),
            ("total_timeout", settings.total_timeout.unwrap_or(TIMEOUT_MAX)),
        ] {
            if !(Duration::from_millis(1)..=TIMEOUT_MAX).contains(&time) {
                return Err(ErrorKind::Usage(format!("{name}: {time:?} is not within 1 ms and 24 h")).into());
            }
        }
        for (name, len) in
            [("answer_max_bytes", settings.answer_max_bytes), ("request_max_bytes", settings.request_max_bytes)]
        {
            if len > BODY_MAX {
                return Err(ErrorKind::Usage(format!("{name}: {len} is more than {BODY_MAX} bytes")).into());
            }
        }
        Ok(())
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
    /// Identity keys that the client trusts. Wire 3 requires it; wires 1 and 2 do not prove the service's identity.
    trust: Trust => trust;
    /// Key of DPoP proofs (RFC 9449) to which the token of [`Builder::authorization`] is bound, on wire 3. Default: none.
    dpop: DpopKey => offer.dpop;
    /// URL of the service that agrees sessions and publishes identity keys; its path is not used. Default: the
    /// service's own.
    authority_url: Uri => authority_url;
    /// Wire of the calls. Default: 3.
    wire: Wire => wire;
    /// Path of inits: `/session/init`, `/session/init/anon` (wire 1) or `/v1/session/init` (wire 2). Default:
    /// `/session/init`.
    init_path: impl Into<String> => init_path;
    /// Name of the client, which wire 1 does not send. Default: `sealway-client`. Bounds: those of `X-ClientId` in
    /// `spec/session.md`.
    client_id: impl Into<String> => offer.client_id;
    /// Suites in order of preference, on wire 3, at least one, each once. Default: [`SUITES_DEFAULT`], those with
    /// ML-KEM.
    suites: impl Into<Vec<Suite>> => offer.suites;
    /// Signature algorithms that the client accepts of identity keys and roots, on wire 3, up to 8. Default: none, which accepts
    /// ES256, and any algorithm of keys and roots that are pinned.
    signature_algorithms: impl Into<Vec<SignatureAlgorithm>> => offer.signature_algorithms;
    /// Time to connect, TCP and TLS together. Default: 10 s. Bounds: 1 ms to 24 h.
    connect_timeout: Duration => connect_timeout;
    /// Time from the last sent part of a request to the first frame of its answer; to the answer's head on wires 1 and
    /// 2. It begins with the request if that has no body. Default: 30 s. Bounds: 1 ms to 24 h.
    head_timeout: Duration => head_timeout;
    /// Time between two parts of an answer. Default: 60 s. Bounds: 1 ms to 24 h.
    idle_timeout: Duration => idle_timeout;
    /// Time of a whole call, with the agreement of its session, retries and the answer's body; also of an agreement
    /// alone. `None` sets no bound, for answers without an end. Default: 60 s. Bounds: 1 ms to 24 h.
    total_timeout: impl Into<Option<Duration>> => total_timeout;
    /// Largest answer that is read whole, in bytes: those of [`Body::bytes`], and all answers on wires 1 and 2.
    /// Default: 16 MiB. Bounds: 0 to 1 GiB.
    ///
    /// [`Body::bytes`]: crate::Body::bytes
    answer_max_bytes: usize => answer_max_bytes;
    /// Largest request body that is read whole, in bytes. On wire 3 a body of known length up to the bound is read
    /// before it is sent, and can be sent again; a longer one, or one of unknown length, is sealed as it comes and sent
    /// once. Wires 1 and 2 reject a longer one. Default: 16 MiB. Bounds: 0 to 1 GiB.
    request_max_bytes: usize => request_max_bytes;
    /// File for the secrets of all sessions on wire 3, for an inspector in development. It also requires
    /// `SEALWAY_KEY_LOG_ALLOWED=1` in the environment. Default: none.
    key_log: PathBuf => key_log;
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("url", &self.url).field("offer", &self.settings.offer).finish_non_exhaustive()
    }
}
