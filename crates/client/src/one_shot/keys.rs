//! Keys of a service and messages of wire 4, without a connection.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, StatusCode, Uri};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::exchange::SEALED_PROBLEMS;
use sealway_proto::hpke::Kem;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::{self, ClientPsk, KeyConfig, KeyDocument, is_psk_id};
use sealway_proto::session::native::call::PendingAnswer;
use sealway_proto::session::native::key_set::TIME_MS_MAX;
use sealway_proto::session::native::{FrameOpener, Problem, RejectedRequest, RequestLine, sends_again};
use sealway_proto::wire::base64;
use sealway_proto::wire::header::X_IDEMPOTENCY_KEY;
use sealway_proto::wire::nonce::PROBLEM_PREFIX;
use zeroize::Zeroizing;

use super::is_safe;
use crate::call::{Failure, Line, Remedy};
use crate::clock::{SentAt, now_ms};
use crate::error::{Error, ErrorKind, excerpt};
use crate::message::{AnswerHeaders, Message};
use crate::native::{AnswerOpening, PublicKey, Shape, StreamHead, open_whole, plain};

/// Most keys or kids that a client pins.
pub const PINS_MAX: usize = 16;

/// Source of trust in the keys of a service.
#[derive(Clone, Debug)]
pub enum OneShotTrust {
    /// These key configurations, of which the first is used whose KEM this build has. Their times are the caller's.
    Configs(Vec<KeyConfig>),
    /// Keys of the service's document with these kids: `hpke:` and 32 hexadecimal digits.
    Kids(Vec<String>),
    /// Keys of a document that this root signed.
    Root(PublicKey),
}

impl OneShotTrust {
    /// Reads pins: kids, or key configurations in base64, and not both.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] with the text that is neither.
    pub fn pins<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<OneShotTrust, Error> {
        let (mut configs, mut kids) = (Vec::new(), Vec::new());
        for text in texts {
            if is_kid(text) {
                kids.push(text.to_owned());
                continue;
            }
            let decoded = base64::decode(text.as_bytes()).ok();
            let config = decoded.and_then(|bytes| KeyConfig::decode(default_agreement_provider(), &bytes).ok());
            let neither = || {
                let shown = excerpt(text.as_bytes());
                ErrorKind::Usage(format!("\"{shown}\" is neither a kid (hpke:…) nor a key configuration in base64"))
            };
            configs.push(config.ok_or_else(neither)?);
        }
        match (configs.is_empty(), kids.is_empty()) {
            (false, true) => Ok(OneShotTrust::Configs(configs)),
            (true, false) => Ok(OneShotTrust::Kids(kids)),
            (true, true) => Err(ErrorKind::Usage("no key is pinned".into()).into()),
            (false, false) => Err(ErrorKind::Usage("pin kids or key configurations, not both".into()).into()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let usage = |what: &str| Err(ErrorKind::Usage(what.into()).into());
        match self {
            OneShotTrust::Configs(configs) if !(1..=PINS_MAX).contains(&configs.len()) => {
                usage("pin 1 to 16 key configurations")
            }
            OneShotTrust::Configs(configs)
                if configs.iter().all(|config| one_shot::client::suite_of(config).is_none()) =>
            {
                usage("no pinned key configuration has one suite of wire 4")
            }
            OneShotTrust::Kids(kids) if !(1..=PINS_MAX).contains(&kids.len()) => usage("pin 1 to 16 kids"),
            OneShotTrust::Kids(kids) if !kids.iter().all(|kid| is_kid(kid)) => {
                usage("a kid is hpke: and 32 lower-case hexadecimal digits")
            }
            OneShotTrust::Root(key) if default_identity_library().public(&key[..]).is_err() => {
                usage("the root is no public key of a known algorithm")
            }
            _ => Ok(()),
        }
    }
}

fn is_kid(text: &str) -> bool {
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("hpke:").is_some_and(|name| name.len() == 32 && name.bytes().all(lower_hex))
}

/// Trust in the keys of one service, and its clock as far as it was proven. Seals requests of wire 4 and opens their answers, without
/// a connection: [`OneShot`](super::OneShot) has one.
pub struct OneShotKeys {
    host: String,
    trust: OneShotTrust,
    psk: Option<(String, Zeroizing<[u8; KEY_LEN]>)>,
    /// KEMs that the caller allows; empty for all.
    kems: Vec<Kem>,
    /// Milliseconds by which the service's clock is ahead of this one, as the service proved.
    ahead_ms: AtomicI64,
}

impl OneShotKeys {
    /// Creates the keys of the service at a URL. With `kems`, only keys of these are used.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for pins or a root that cannot be used.
    pub fn new(trust: OneShotTrust, url: &Uri, kems: Vec<Kem>) -> Result<Self, Error> {
        trust.check()?;
        Ok(OneShotKeys { host: crate::native::host(url), trust, psk: None, kems, ahead_ms: AtomicI64::new(0) })
    }

    /// Adds a pre-shared key, by which the service knows the client. `id` is its public name.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a name that is not 1 to 64 visible ASCII characters.
    pub fn set_psk(&mut self, id: impl Into<String>, key: [u8; KEY_LEN]) -> Result<(), Error> {
        let (id, key) = (id.into(), Zeroizing::new(key));
        if !is_psk_id(&id) {
            return Err(ErrorKind::Usage("psk: the name is not 1 to 64 visible ASCII characters".into()).into());
        }
        self.psk = Some((id, key));
        Ok(())
    }

    /// Seals a whole request to a key.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a method or a header that cannot be sealed, [`ErrorKind::Seal`].
    pub fn seal(
        &self,
        key: &KeyConfig,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(Message, OneShotPending<'_>), Error> {
        self.begin(key, &Line { method, path: path_and_query, headers }, body.is_empty())?.whole(body)
    }

    /// Returns the pinned key to seal with; `None` if a document of the service has it.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if keys are pinned and none can be used.
    pub fn pinned(&self) -> Result<Option<KeyConfig>, Error> {
        let OneShotTrust::Configs(configs) = &self.trust else { return Ok(None) };
        let known = configs.iter().find(|config| self.is_usable(config));
        Ok(Some(known.cloned().ok_or(ErrorKind::Usage("no pinned key has a suite of wire 4".into()))?))
    }

    fn is_usable(&self, config: &KeyConfig) -> bool {
        let is_allowed = self.kems.is_empty() || self.kems.contains(&config.public_key().kem());
        is_allowed && one_shot::client::suite_of(config).is_some()
    }

    /// This client's clock, corrected by what the service proved.
    pub(super) fn stamp_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed)).min(TIME_MS_MAX)
    }

    pub(crate) fn begin(
        &self,
        key: &KeyConfig,
        line: &Line<'_>,
        is_empty: bool,
    ) -> Result<StreamHead<OneShotPending<'_>>, Error> {
        let provider = default_agreement_provider();
        let sent = SentAt::now();
        let psk = self.psk.as_ref().map(|(id, key)| ClientPsk { id, key });
        let psk_len = psk.map_or(0, |psk| psk.id.len());
        let prefix_len = 2 + psk_len + key.public_key().kem().enc_len();
        let shape = Shape::of(line.method, line.headers, is_empty, prefix_len)?;
        let (stamp_ms, nonce) = (self.stamp_ms(), hex(&shape.nonce));
        let request_line = RequestLine { method: line.method.as_str(), target: line.path };
        let stamp = stamp_ms.to_string();
        let call = one_shot::seal(provider, key, psk, request_line, shape.content_type, (&stamp, &nonce), None);
        let call = call.map_err(ErrorKind::Seal)?;
        let pending = OneShotPending { keys: self, answer: call.pending, method: line.method.clone(), stamp_ms, sent };
        shape.head(&call.headers, call.prefix, call.sealer, pending)
    }

    /// Takes a document of a root that is not older than the one before, or one that has a pinned key in use; `held` stays otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::Trust`] for a document that is refused.
    // SPEC one-shot.md#the-key-document
    pub fn take(&self, held: &mut Option<KeyDocument>, bytes: &[u8]) -> Result<(), Error> {
        let provider = default_agreement_provider();
        let refused = |why: &dyn std::fmt::Display| {
            Error::from(ErrorKind::Trust(format!("the key document of {} is refused: {why}", self.host)))
        };
        let document = KeyDocument::parse(provider, bytes).map_err(|err| refused(&err))?;
        if let OneShotTrust::Root(root) = &self.trust {
            let last_ms = held.as_ref().map_or(0, |held| held.issued_ms);
            let verified = document.verify(provider, default_identity_library(), root, now_ms(), last_ms);
            verified.map_err(|fault| refused(&fault))?;
        } else if self.choose(&document).is_none() {
            // Nobody signed it: its `issued_ms` proves nothing, and a forged document must not displace the held one.
            return Ok(());
        }
        *held = Some(document);
        Ok(())
    }

    /// Chooses the key of a document to seal with, and returns it with the time until which it is in use, in Unix milliseconds.
    pub fn choose(&self, document: &KeyDocument) -> Option<(KeyConfig, u64)> {
        // By the machine's own clock: the holder of a stolen key could move the corrected one back for ever.
        let (provider, now_ms) = (default_agreement_provider(), now_ms());
        let is_rooted = matches!(self.trust, OneShotTrust::Root(_));
        let expires_ms = if is_rooted { document.expires_ms } else { u64::MAX };
        let in_use = document.keys.iter().filter(|key| now_ms < expires_ms && key.is_in_use(now_ms));
        let mut known = in_use.filter_map(|key| {
            let config = KeyConfig::decode(provider, &key.config).ok()?;
            Some((config, key.use_until_ms.min(expires_ms)))
        });
        known.find(|(config, _)| {
            let is_trusted = match &self.trust {
                OneShotTrust::Kids(kids) => kids.contains(&config.kid(default_provider())),
                _ => true,
            };
            is_trusted && self.is_usable(config)
        })
    }

    /// Takes the document of a `key_retired`, which its root proves. With pinned kids `held` goes, so that the next call fetches
    /// another: the times of the held document are not proven.
    ///
    /// # Errors
    /// Those of [`OneShotKeys::take`].
    pub fn retired(&self, held: &mut Option<KeyDocument>, err: &Error) -> Result<(), Error> {
        if !matches!(self.trust, OneShotTrust::Root(_)) {
            *held = None;
            return Ok(());
        }
        let ErrorKind::Problem { more, .. } = err.kind() else { return Ok(()) };
        let Some(document) = more.get("key_document") else { return Ok(()) };
        self.take(held, document.to_string().as_bytes())
    }
}

/// State that opens the answer to one request.
pub struct OneShotPending<'a> {
    keys: &'a OneShotKeys,
    answer: PendingAnswer<'static>,
    method: Method,
    stamp_ms: u64,
    /// Taken before the request is sealed, and so not later than it was sent.
    sent: SentAt,
}

impl OneShotPending<'_> {
    /// Opens a whole answer: the sealed headers and the body. A sealed `clock_skew` corrects the clock of the keys.
    ///
    /// # Errors
    /// [`ErrorKind::Problem`] and [`ErrorKind::Refused`] for a rejection, sealed or not; [`ErrorKind::Untrusted`] if the answer does not
    /// open. [`Error::is_retryable`] is true if the request may be sent again.
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(HeaderMap, Bytes), Error> {
        let opener = match self.opener(status, headers) {
            Err(err) if err.code() == "unsealed" => return Err(self.refused(status, body).err),
            opener => opener?,
        };
        let (inner, plaintext) = open_whole(opener, body)?;
        if self.is_problem(headers) { Err(self.problem(status, &plaintext).err) } else { Ok((inner, plaintext)) }
    }
}

impl AnswerOpening for OneShotPending<'_> {
    fn opener(&self, status: StatusCode, headers: &HeaderMap) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        let opened = self.answer.open(default_provider(), &AnswerHeaders(headers), status.as_u16());
        Ok(opened.map_err(ErrorKind::Untrusted)?)
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        match Problem::parse(status.as_u16(), body) {
            // Anybody on the path can have written it.
            Some(problem) if SEALED_PROBLEMS.contains(&problem.code.as_str()) => {
                Error::from(ErrorKind::Refused { status, body: excerpt(body) }).into()
            }
            Some(problem) if problem.code == "key_retired" => {
                let is_rooted = matches!(self.keys.trust, OneShotTrust::Root(_));
                let may_repeat = is_rooted && is_safe(&self.method);
                Failure { err: plain(status, body).repeatable(may_repeat), remedy: Some(Remedy::NewKey) }
            }
            _ => plain(status, body).into(),
        }
    }

    fn is_problem(&self, headers: &HeaderMap) -> bool {
        let key = headers.get(X_IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
        key.and_then(|key| key.split_once('.')).is_some_and(|(_, nonce)| nonce.starts_with(PROBLEM_PREFIX))
    }

    fn problem(&self, status: StatusCode, body: &[u8]) -> Failure {
        let Some(problem) = Problem::parse(status.as_u16(), body) else { return plain(status, body).into() };
        if !SEALED_PROBLEMS.contains(&problem.code.as_str()) {
            return Error::from(ErrorKind::Refused { status, body: excerpt(body) }).into();
        }
        let time = problem.more.get("server_time_ms").and_then(serde_json::Value::as_u64);
        let time = time.filter(|ms| *ms <= TIME_MS_MAX);
        let (Some(server_ms), "clock_skew") = (time, problem.code.as_str()) else { return plain(status, body).into() };
        let ahead = i64::try_from(i128::from(server_ms) - i128::from(now_ms())).unwrap_or_default();
        self.keys.ahead_ms.store(ahead, Ordering::Relaxed);
        let (method, elapsed_ms) = (self.method.as_str(), self.sent.elapsed_ms());
        let refused = RejectedRequest { method, stamp_ms: self.stamp_ms, elapsed_ms };
        let may_repeat = sends_again(&problem, true, &refused);
        Failure { err: plain(status, body).repeatable(may_repeat), remedy: Some(Remedy::Clock) }
    }
}

fn hex(nonce: &[u8; 16]) -> String {
    nonce.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Debug for OneShotKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneShotKeys").field("host", &self.host).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for OneShotPending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneShotPending").field("stamp_ms", &self.stamp_ms).finish_non_exhaustive()
    }
}
