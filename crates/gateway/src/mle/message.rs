//! One message: opened with the keys of the route, or sealed to one recipient.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use metrics::counter;
use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_proto::mle::{self as core, Class, Message, NonceGuard, Profile, Refusal, Wrapper, body};
use sealway_proto::session::{Claim, Fresh};
use sealway_runtime::http::notices::Gate;
use zeroize::Zeroizing;

use super::fields;
use super::keys::{Recipient, jose_provider};
use super::opened;
use super::pool::Overload;
use super::sign::Signer;
use super::{Direction, Exchange};
use crate::upstream::UpstreamError;
use crate::used::{count_jwe, count_jws};

/// The media types of a body that is a token and nothing else. The second is registered for the JSON form of JOSE; Wise uses it for
/// the compact one, and UK Open Banking the third. The last is that of a nested JWT.
const BARE_TYPES: [&str; 4] = ["application/jose", "application/jose+json", "application/jose+jwe", "application/jwt"];
/// The header in which Visa's clients repeat the kid.
const KEY_ID: &str = "keyid";

/// The reasons for which an exchange ends without the service's answer.
pub(super) enum Fault {
    /// The request is rejected: a client's token, or the plaintext of a service that does not have the form of the route.
    Refused(Refusal),
    /// The answer to an outbound request is rejected.
    Answer(Refusal),
    /// A message cannot be sealed: no key is valid, or the body is not of the form that the route needs.
    Unsealable(String),
    /// The caller has no key, or may not use the route.
    Caller,
    /// Too many messages wait for a private operation.
    Overload,
    /// The broker that holds the key did not answer.
    Broker,
    /// The claim against replays was not granted.
    Store(sealway_proto::exchange::Refusal),
    /// The service did not answer.
    Upstream(UpstreamError),
}

impl Fault {
    /// Returns the fault as that of an answer to an outbound request: a rejected message is the upstream's then.
    pub(super) fn of_answer(self) -> Fault {
        match self {
            Fault::Refused(refusal) => Fault::Answer(refusal),
            Fault::Store(sealway_proto::exchange::Refusal::Wire(sealway_proto::Error::Replayed)) => {
                Fault::Answer(Refusal::new(Class::Replayed, "the answer was received before"))
            }
            Fault::Store(sealway_proto::exchange::Refusal::Wire(_)) => {
                Fault::Answer(Refusal::new(Class::Iat, "the time of the answer is outside of the window by now"))
            }
            fault => fault,
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault::Refused(refusal)
    }
}

impl From<Overload> for Fault {
    fn from(_: Overload) -> Fault {
        Fault::Overload
    }
}

/// The reasons for which a message is not sealed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SealFault {
    #[error("no key of the recipient is valid now: see the times of its certificates")]
    NoKey,
    #[error("the body cannot be sealed: {0}")]
    Body(Refusal),
    #[error("the body cannot be sealed: {0}")]
    Token(#[from] core::SealError),
    #[error("the generator of random numbers failed")]
    Random,
    #[error("too many messages wait for a private operation")]
    Overload,
}

impl From<SealFault> for Fault {
    fn from(fault: SealFault) -> Fault {
        match fault {
            SealFault::Body(refusal) => Fault::Refused(refusal),
            SealFault::Overload => Fault::Overload,
            fault => Fault::Unsealable(fault.to_string()),
        }
    }
}

/// A body with its tokens, and its media type.
pub(super) struct TokenBody {
    pub(super) body: Vec<u8>,
    pub(super) content_type: &'static str,
    /// Metadata of the field-level form, where it is in headers.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Exchange<'_> {
    /// Returns whether a message has the form of the profile. With places of tokens a request that cannot be read counts as one, so that
    /// it is rejected; an answer that cannot be read is one in clear.
    pub(super) fn is_token(&self, message: Message, headers: &HeaderMap, bytes: &[u8]) -> bool {
        let rules = self.mle.rules(message);
        if !rules.is_empty() {
            let found = body::find_sealed(bytes, rules, body::EACH_MAX_DEFAULT);
            return found.map_or(message == Message::Request, |fields| !fields.is_empty());
        }
        match self.mle.policy.profile.wrapper(message) {
            Wrapper::Bare => {
                let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
                let essence = media_type.split(';').next().unwrap_or_default().trim();
                BARE_TYPES.iter().any(|bare| essence.eq_ignore_ascii_case(bare))
            }
            wrapper => body::is_wrapped(bytes, wrapper),
        }
    }

    /// Opens every token of a message, and claims each against replays if it is a client's.
    pub(super) async fn open(
        &self,
        message: Message,
        bytes: &[u8],
        headers: &HeaderMap,
    ) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let policy = &self.mle.policy;
        let rules = self.mle.rules(message);
        let fields = if rules.is_empty() {
            None
        } else {
            let fields = body::find_sealed(bytes, rules, body::EACH_MAX_DEFAULT)?;
            if fields.is_empty() {
                return Err(Refusal::new(Class::Json, "no token stands at a configured path").into());
            }
            Some(fields)
        };
        let now_ms = self.authority.now_ms();
        let (rest, openings) = match (policy.profile.fle(), fields.as_deref()) {
            (Some(fle), Some(fields)) => {
                let begun = fields::begin(self.mle, fle, message, (headers, bytes), fields, now_ms)?;
                (Some(begun.body), begun.openings)
            }
            (_, fields) => (None, self.begin_tokens(message, (headers, bytes), fields, now_ms)?),
        };
        let shares_key = fields::shares_key(&policy.profile);
        let kids: Vec<_> =
            openings.iter().map(|opening| (opening.wants().kid().to_owned(), opening.wants().alg())).collect();
        let mut plaintexts = Vec::with_capacity(kids.len());
        let opened = opened::open_all(self.origin, openings, shares_key, &self.mle.brokers).await?;
        for (index, guarded) in opened.into_iter().enumerate() {
            // Values of one key have one claim.
            let is_other = index == 0 || !shares_key;
            let claims = is_other && policy.direction == Direction::Inbound;
            plaintexts.push(self.release(guarded, claims).await?.into_bytes());
        }
        for (kid, alg) in kids {
            count_jwe("jwe-open", self.route, policy.profile.name(), &kid, (alg, None));
            counter!("sealway_mle_key_uses_total", "kid" => kid).increment(1);
        }
        // Behind the claims: see `Plaintext::bytes`.
        let plaintexts = plaintexts.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut plaintexts = self.signed_inside(message, plaintexts, now_ms).await?;
        self.count("open");
        match fields {
            None => Ok(plaintexts.pop().unwrap_or_default()),
            Some(fields) => {
                let opened: Vec<_> = fields.into_iter().zip(plaintexts).collect();
                let bytes = rest.as_ref().map_or(bytes, |rest| rest.as_slice());
                Ok(body::put_opened(bytes, rules, &opened, policy.scalars)?)
            }
        }
    }

    /// Reserves a claim against replays, unless the configuration lets messages come again.
    pub(super) async fn reserve(&self, claim: &Claim) -> Result<Fresh, Fault> {
        if !self.mle.policy.refuses_replays {
            return Ok(Fresh::reserved(claim));
        }
        let peer = self.origin.and_then(|origin| origin.client);
        self.authority.reserve_from(peer, claim).await.map_err(Fault::Store)
    }

    /// Releases what was opened, behind its claim against replays if it `claims`.
    async fn release<T>(&self, guarded: NonceGuard<T>, claims: bool) -> Result<T, Fault> {
        let fresh = match claims {
            true => self.reserve(guarded.claim()).await?,
            // A token of an answer belongs to its request's connection; its signature may have a claim.
            false => Fresh::reserved(guarded.claim()),
        };
        guarded.release(fresh).map_err(|err| Fault::Store(err.into()))
    }

    /// Returns the payloads of plaintexts that are signed tokens, each behind the claim of its id; others stay as they are.
    async fn signed_inside(
        &self,
        message: Message,
        plaintexts: Vec<Zeroizing<Vec<u8>>>,
        now_ms: u64,
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, Fault> {
        let Some(verifier) = self.mle.verifier(self.origin)?.filter(|verifier| verifier.is_nested()) else {
            return Ok(plaintexts);
        };
        let replay = self.mle.policy.profile.replay();
        let mut payloads = Vec::with_capacity(plaintexts.len());
        for payload in verifier.open(self.origin, plaintexts, message, replay, now_ms).await? {
            payloads.push(self.release(payload.guarded, payload.has_id).await?);
        }
        Ok(payloads)
    }

    /// Checks what is public about the tokens of a message: those of the fields, or the one of the whole body.
    fn begin_tokens(
        &self,
        message: Message,
        (headers, bytes): (&HeaderMap, &[u8]),
        fields: Option<&[core::Field]>,
        now_ms: u64,
    ) -> Result<Vec<core::Opening>, Refusal> {
        let profile = &self.mle.policy.profile;
        let tokens = match fields {
            None => vec![body::unwrap(bytes, profile.wrapper(message))?],
            Some(fields) => fields.iter().map(|field| field.text().to_vec()).collect(),
        };
        let begin = |token: &Vec<u8>| {
            let opening = core::Opening::begin(token, profile, message, &self.mle.open, now_ms)?;
            if message == Message::Request
                && headers.get_all(KEY_ID).iter().any(|said| said.as_bytes() != opening.wants().kid().as_bytes())
            {
                return Err(Refusal::new(Class::Kid, "the header keyId is not the kid of the token"));
            }
            Ok(opening)
        };
        tokens.iter().map(begin).collect()
    }

    /// Seals a message to a recipient, after its plaintexts are signed in a profile whose signatures stand inside of tokens.
    pub(super) async fn seal(
        &self,
        message: Message,
        bytes: &[u8],
        recipient: &Recipient,
    ) -> Result<TokenBody, SealFault> {
        let policy = &self.mle.policy;
        let now_ms = self.authority.now_ms();
        let key = recipient.key(now_ms).ok_or(SealFault::NoKey)?;
        let rules = self.mle.rules(message);
        let seal = |plaintext: &[u8]| {
            let provider = jose_provider();
            let randoms = core::SealRandoms::draw(provider.base()).map_err(|_| SealFault::Random)?;
            Ok::<_, SealFault>(core::seal::seal(plaintext, &policy.profile, message, key, now_ms, randoms, provider)?)
        };
        let mut headers = Vec::new();
        let sealed = if rules.is_empty() {
            let plaintext = self.sign_inside(vec![Zeroizing::new(bytes.to_vec())], now_ms).await?;
            let token = seal(plaintext.first().map(|text| text.as_slice()).unwrap_or_default())?;
            body::wrap(&token, policy.profile.wrapper(message))
        } else {
            let fields =
                body::find_plain(bytes, rules, body::EACH_MAX_DEFAULT, policy.scalars).map_err(SealFault::Body)?;
            // A mistyped path would let the whole message pass in clear.
            if fields.is_empty() {
                return Err(SealFault::Body(Refusal::new(Class::Json, "no value stands at a configured path")));
            }
            let fields = if policy.profile.fle().is_some() {
                let sealed = fields::seal(&policy.profile, message, fields, key)?;
                headers = sealed.headers;
                sealed.fields
            } else {
                let texts = fields.iter().map(|field| Zeroizing::new(field.text().to_vec())).collect();
                let texts = self.sign_inside(texts, now_ms).await?;
                let fields = fields.into_iter().zip(texts);
                let fields = fields.map(|(field, text)| seal(&text).map(|token| (field, token.into())));
                fields.collect::<Result<Vec<_>, _>>()?
            };
            body::put_sealed(bytes, rules, &fields).map_err(SealFault::Body)?
        };
        counter!("sealway_mle_key_uses_total", "kid" => key.kid().to_owned()).increment(1);
        let (alg, enc) = key.algorithms();
        count_jwe("jwe-seal", self.route, policy.profile.name(), key.kid(), (alg, Some(enc)));
        self.count("seal");
        let content_type = if rules.is_empty() { policy.profile.media_type(message) } else { "application/json" };
        Ok(TokenBody { body: sealed, content_type, headers })
    }

    /// Signs plaintexts in a profile whose signatures stand inside of tokens; in others they stay as they are.
    async fn sign_inside(
        &self,
        plaintexts: Vec<Zeroizing<Vec<u8>>>,
        now_ms: u64,
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, SealFault> {
        let Some(signer) = self.mle.sign.as_ref().filter(|signer| signer.is_nested()) else { return Ok(plaintexts) };
        let signed = signer.sign_inside(self.origin, plaintexts, now_ms).await?;
        self.count_signature(signer.kid());
        self.count_sign_use(signer);
        Ok(signed)
    }

    /// Asks an outbound route's upstream for tokens, as UK Open Banking wants it of a caller that can open them.
    pub(super) fn accept_tokens(&self, headers: &mut HeaderMap) {
        let policy = &self.mle.policy;
        if policy.profile.name() == "open-banking" && policy.answer.is_empty() && !policy.open.is_empty() {
            headers.insert(ACCEPT, HeaderValue::from_static(policy.profile.media_type(Message::Answer)));
        }
    }

    /// Sets the header in which Visa expects the name of the key; a request without a body has it too, for its answer.
    pub(super) fn name_key(&self, headers: &mut HeaderMap, recipient: &Recipient) {
        if self.mle.policy.profile.name() != "visa" {
            return;
        }
        headers.remove(KEY_ID);
        if let Some(kid) = recipient.key(self.authority.now_ms()).and_then(|key| HeaderValue::from_str(key.kid()).ok())
        {
            headers.insert(KEY_ID, kid);
        }
    }

    /// Counts a request that was signed, and the use of its key.
    pub(super) fn count_signature(&self, kid: Option<&str>) {
        if let Some(kid) = kid {
            counter!("sealway_mle_key_uses_total", "kid" => kid.to_owned()).increment(1);
        }
        self.count("sign");
    }

    /// Counts a signature in the inventory, unless it is made with a shared secret.
    pub(super) fn count_sign_use(&self, signer: &Signer) {
        if let Some((kid, alg)) = signer.key_and_algorithm() {
            count_jws(self.route, self.mle.policy.profile.name(), kid, alg);
        }
    }

    fn count(&self, step: &'static str) {
        let (route, profile) = (self.route.to_owned(), self.mle.policy.profile.name());
        counter!("sealway_mle_messages_total", "route" => route, "profile" => profile, "step" => step).increment(1);
    }
}

/// Counts a rejected message and logs its class, in a limited number of lines: the peer decides how often it sends one.
pub(super) fn report(route: &str, profile: &Profile, refusal: &Refusal) {
    static NOTICES: LazyLock<Mutex<HashMap<&'static str, Gate>>> = LazyLock::new(Mutex::default);
    counter!("sealway_refusals_total", "on" => "mle", "class" => refusal.class()).increment(1);
    let kept_back = NOTICES.lock().entry(refusal.class()).or_default().pass(Instant::now());
    if let Some(kept_back) = kept_back {
        let (class, profile) = (refusal.class(), profile.name());
        tracing::info!(on = "mle", class, route, profile, kept_back, "refused: {refusal}");
    }
}
