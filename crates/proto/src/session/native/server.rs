//! The server's side of an init or a renewal. `spec/session-3.md#init`.
//!
//! ```text
//! body ─ InitRequest::parse ─► who it is, policy ─ agree(request, terms, …) ─► Agreed
//!                       an identity key signs Agreed::message() ─ Agreed::signed ─► (answer, Session)
//! ```

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::message::{InitAnswer, InitProofs, InitRequest, InitSurroundings, transcript};
use super::share::{ServerRandoms, respond};
use super::{KeyId, Suite, choose, schedule};
use crate::crypto::agreement::AgreementProvider;
use crate::error::Error;
use crate::session::keys::SessionKey;
use crate::session::record::{Auth, Session, SessionRecord};
use crate::session::{Laps, Step};
use crate::wire::{SessionId, Wire};

/// Prefix of the hash that an identity key signs.
const SIGNATURE_LABEL: &[u8] = b"sealway/3 signature";

/// The terms that a server grants to a client.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// The server's suites for this client.
    pub suites: Vec<Suite>,
    /// The session's lifetime, in seconds.
    pub expires_in_sec: u32,
    /// The identity key that will sign.
    pub key_id: KeyId,
    /// The ids of all live identity keys.
    pub key_ids: Vec<KeyId>,
    /// The method by which the client was authenticated.
    pub auth: Auth,
    /// The subject that the authentication names.
    pub subject: Option<Box<str>>,
    /// The tenant of the subject.
    pub tenant: Option<Box<str>>,
    /// SHA-256 of the value of `Authorization`, if it was sent.
    pub credential: Option<&'a [u8; 32]>,
}

/// An agreement that an identity key must still sign.
pub struct UnsignedAgreement {
    answer: InitAnswer,
    th: [u8; 32],
    confirm: [u8; 32],
    record: SessionRecord,
}

/// Returns the message that an identity key signs.
pub(super) fn signed_message(th: &[u8; 32]) -> Vec<u8> {
    [SIGNATURE_LABEL, th].concat()
}

/// Agrees the keys of a session at `now_ms`; of a renewed one with the old session's secret mixed in. `session_id` is random.
///
/// # Errors
/// [`Error::SuiteRequired`] if the share's suite is not the one that both lists give, [`Error::PublicKeyInvalid`],
/// [`Error::Provider`].
// SPEC session-3.md#suites
pub fn agree(
    provider: &dyn AgreementProvider,
    request: &InitRequest,
    terms: Terms<'_>,
    renewed: Option<&Session>,
    session_id: &[u8; 16],
    randoms: ServerRandoms,
    now_ms: u64,
    laps: Laps<'_>,
) -> Result<UnsignedAgreement, Error> {
    let suite = choose(&request.suites, &terms.suites).filter(|suite| suite.name() == &*request.suite);
    let suite = suite.ok_or(Error::SuiteRequired)?;
    let (share, secret) = respond(provider, suite, &request.share, randoms)?;
    laps(Step::EcdhCompute);
    let answer = InitAnswer {
        session_id: SessionId::from_random(session_id, false),
        suite,
        suites: terms.suites.iter().map(|suite| suite.name().into()).collect(),
        share,
        expires_in_sec: terms.expires_in_sec,
        server_time_ms: now_ms,
        key_id: terms.key_id,
        key_ids: terms.key_ids,
        auth: terms.auth,
        subject: terms.subject,
        tenant: terms.tenant,
    };
    let surroundings = InitSurroundings { credential: terms.credential, renewed: renewed.map(Session::id) };
    let th = provider.sha256(&[transcript(request, &answer, surroundings).as_bytes()]);
    let key = derive(provider, &th, &secret, renewed.map(|old| &old.record().key));
    let confirm = *schedule::confirm(provider, &key, &th);
    let record = SessionRecord {
        id: answer.session_id,
        wire: Wire::Native,
        client_id: Some(request.client_id.clone()),
        subject: answer.subject.clone(),
        tenant: answer.tenant.clone(),
        auth: answer.auth,
        lineage: renewed.map(|old| *old.record().root()),
        created_ms: renewed.map_or(now_ms, |old| old.record().created_ms),
        expires_ms: now_ms.saturating_add(u64::from(answer.expires_in_sec) * 1000),
        key,
    };
    laps(Step::Hkdf);
    Ok(UnsignedAgreement { answer, th, confirm, record })
}

/// Derives the one secret that is kept of a session.
pub(super) fn derive(
    provider: &dyn AgreementProvider,
    th: &[u8; 32],
    secret: &[u8],
    old: Option<&SessionKey>,
) -> SessionKey {
    match old {
        None => schedule::extract(provider, th, &[secret]),
        Some(old) => schedule::extract(provider, th, &[schedule::exporter(provider, old).as_slice(), secret]),
    }
}

impl UnsignedAgreement {
    /// Returns the message that the identity key of [`Terms::key_id`] must sign.
    pub fn message(&self) -> Vec<u8> {
        signed_message(&self.th)
    }

    /// Returns the body of the answer, and the session to keep.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn signed(self, provider: &dyn AgreementProvider, signature: Vec<u8>) -> Result<(String, Session), Error> {
        let body = self.answer.encode(&InitProofs { signature, confirm: self.confirm });
        Ok((body, Session::new(provider, self.record)?))
    }
}

impl fmt::Debug for UnsignedAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agreed").field("answer", &self.answer).finish_non_exhaustive()
    }
}
