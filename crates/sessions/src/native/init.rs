//! Inits of wire 3: `POST /v3/sessions`. `spec/session-3.md#init`.

use std::net::{IpAddr, Ipv4Addr};

use http::header::{CACHE_CONTROL, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_exchange::Sessions;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::Error;
use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::limits::INIT_V3_BODY_MAX;
use sealway_proto::session::Session;
use sealway_proto::session::native::{
    IdentityKey, InitRequest, ServerRandoms, Suite, Terms, UnsignedAgreement, agree, choose,
};
use sealway_proto::wire::{Field, Headers, Wire};
use sealway_runtime::http::share::network;
use sealway_runtime::http::{Body, Origin, discard, read_body};
use sealway_runtime::inventory::{Party, Use, count_now};

use crate::answer::{Form, Refusal, Rejection, body_fault, json, method_not_allowed, rejected, report};
use crate::authentication::{ClientIdentity, InitCredentials};
use crate::authority::Authority;
use crate::policies::ClientPolicy;
use sealway_exchange::headers::HttpHeaders;

/// Answers an init of wire 3.
pub(crate) async fn handle<B>(
    authority: &Authority,
    parts: &Parts,
    body: B,
    timing: &mut ServerTiming,
) -> Response<Body>
where
    B: HttpBody + Unpin + 'static,
{
    if parts.method != Method::POST {
        discard(body).await;
        return method_not_allowed("POST, OPTIONS", Form::Problem);
    }
    match init(authority, parts, body, timing).await {
        Ok(answer) => {
            let mut response = json(StatusCode::CREATED, answer);
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(rejection) => {
            timing.forget_steps();
            report(&rejection.refusal, "init");
            rejected(rejection, Form::Problem)
        }
    }
}

async fn init<B>(authority: &Authority, parts: &Parts, body: B, timing: &mut ServerTiming) -> Result<String, Rejection>
where
    B: HttpBody + Unpin + 'static,
{
    let origin = parts.extensions.get::<Origin>();
    let peer = origin.and_then(|origin| origin.client).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let admitted = authority.check_wire(Wire::Native);
    let admitted = admitted.and_then(|()| authority.native_inits.take(&network(peer)).map_err(Refusal::RateLimited));
    if let Err(refusal) = admitted {
        discard(body).await;
        return Err(refusal.into());
    }
    let body = read_body(body, INIT_V3_BODY_MAX, authority.body_deadline()).await.map_err(body_fault)?;
    timing.skip();
    let request = InitRequest::parse(&body)?;
    let recognised = authority.recognise_native(parts, &request).await?;
    let headers = HttpHeaders(&parts.headers);
    let credential = match headers.field("authorization") {
        Field::Value(value) if !value.is_empty() => Some(authority.provider().sha256(&[value.as_bytes()])),
        _ => None,
    };
    authority.agree_native(&request, recognised, credential.as_ref(), None, timing).await
}

/// Counts an agreed session in the inventory: the suite of its key agreement, and the signature of the identity key.
fn count_native(suite: &str, key: &IdentityKey) {
    let party = Party::Named("sessions", "init");
    let used = Use { operation: "session-init", algorithm: suite, size: 0, key: "", party, protocol: "wire-3" };
    count_now(&used, 1);
    let Some(algorithm) = key.algorithm() else { return };
    let size = match algorithm {
        SignatureAlgorithm::Es256 => 256,
        SignatureAlgorithm::Es384 => 384,
        // Their names have the parameter set.
        _ => 0,
    };
    let key = key.key_id.to_string();
    count_now(&Use { operation: "session-signature", algorithm: algorithm.name(), size, key: &key, ..used }, 1);
}

impl Authority {
    async fn recognise_native(&self, parts: &Parts, request: &InitRequest) -> Result<ClientIdentity, Refusal> {
        let init_hash = request.init_hash(self.provider());
        let asked = InitCredentials::of(parts, request.proof.as_deref(), init_hash, self.now_ms());
        self.recognise(&asked).await
    }

    /// Agrees a session, or its renewal, and stores it; returns the body of the answer.
    pub(super) async fn agree_native(
        &self,
        request: &InitRequest,
        recognised: ClientIdentity,
        credential: Option<&[u8; 32]>,
        renewed: Option<&Session>,
        timing: &mut ServerTiming,
    ) -> Result<String, Rejection> {
        let now_ms = self.now_ms();
        let (subject, tenant) = (recognised.subject.as_deref(), recognised.tenant.as_deref());
        let policy = self.policies().find(Some(&request.client_id), subject, tenant);
        if !policy.allows_wire(Wire::Native) {
            return Err(Error::Policy.into());
        }
        let suites = self.native_suites(policy);
        self.check_suite(request, &suites)?;
        let identity = self.identity().ok_or(Refusal::WireOff(Wire::Native))?;
        let Some(key) = identity.signer_for(now_ms, |key| request.is_served_by(key)) else {
            let key_set = serde_json::from_slice::<serde_json::Value>(&identity.key_set(now_ms)).unwrap_or_default();
            return Err(Rejection::from(Error::KeyRetired).with("key_set", key_set));
        };
        let ttl_sec = self.native_ttl(request, policy, &recognised, renewed, now_ms)?;
        let terms = Terms {
            suites,
            expires_in_sec: ttl_sec,
            key_id: key.key().key_id,
            key_ids: identity.live_at(now_ms),
            auth: recognised.auth,
            subject: recognised.subject,
            tenant: recognised.tenant,
            credential,
        };
        let mut session_id = [0; 16];
        self.provider().fill_random(&mut session_id)?;
        let agreed: UnsignedAgreement =
            agree(self.provider(), request, terms, renewed, &session_id, ServerRandoms::Draw, now_ms, &mut |step| {
                timing.lap(step.name())
            })?;
        let signature = key.sign(now_ms, &agreed.message()).await.map_err(|err| {
            tracing::error!(%err, "signing a session agreement failed");
            Refusal::from(Error::Provider)
        })?;
        timing.lap("sign");
        let (answer, session) = agreed.signed(self.provider(), signature)?;
        self.keep(session).await?;
        timing.lap("session-store");
        self.note_init(Wire::Native);
        count_native(&request.suite, key.key());
        Ok(answer)
    }

    fn native_suites(&self, policy: &ClientPolicy) -> Vec<Suite> {
        let suites = self.policy.wire3.suites.iter().copied();
        suites.filter(|suite| policy.allows_suite(suite.name())).collect()
    }

    fn check_suite(&self, request: &InitRequest, suites: &[Suite]) -> Result<(), Rejection> {
        let chosen = choose(&request.suites, suites);
        if chosen.is_some_and(|suite| suite.name() == &*request.suite) {
            return Ok(());
        }
        let names: Vec<_> = suites.iter().map(|suite| suite.name()).collect();
        let rejection = Rejection::from(Error::SuiteRequired).with("suites", names);
        Err(match chosen {
            Some(suite) => rejection.with("suite", suite.name()),
            None => rejection,
        })
    }

    /// Returns a session's lifetime in seconds: as requested, within the bounds of the server, the client, the token
    /// and the chain.
    fn native_ttl(
        &self,
        request: &InitRequest,
        policy: &ClientPolicy,
        recognised: &ClientIdentity,
        renewed: Option<&Session>,
        now_ms: u64,
    ) -> Result<u32, Refusal> {
        let ttl = &self.policy.ttl;
        let sec = request.ttl_sec.map_or(ttl.default_sec, |sec| sec.clamp(ttl.min_sec, ttl.max_sec));
        let sec = policy.clamp_ttl(sec).min(recognised.ttl_max_sec.unwrap_or(u32::MAX));
        let Some(old) = renewed else { return Ok(sec) };
        let end_ms = old.record().created_ms.saturating_add(u64::from(self.policy.wire3.renew_max_sec) * 1000);
        match u32::try_from(end_ms.saturating_sub(now_ms) / 1000).unwrap_or(u32::MAX).min(sec) {
            0 => Err(Error::Policy.into()),
            sec => Ok(sec),
        }
    }
}
