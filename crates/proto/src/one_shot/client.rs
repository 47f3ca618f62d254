//! The client's side of wire 4: seals one request to a key of the service.
// SPEC one-shot.md#the-request

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{KeyConfig, Prefix, is_psk_id, setup};
use crate::crypto::agreement::AgreementProvider;
use crate::error::Error;
use crate::hpke::{Aead, HpkeError, Psk, Suite, setup_sender, setup_sender_with};
use crate::limits::KEY_LEN;
use crate::session::native::call::{PendingAnswer, SealHeaders};
use crate::session::native::client::sealed_head;
use crate::session::native::{FrameSealer, RequestLine};

/// A pre-shared key of the client. Its key is never printed.
#[derive(Clone, Copy)]
pub struct ClientPsk<'a> {
    /// The public name, 1 to 64 visible ASCII characters.
    pub id: &'a str,
    /// The key itself, 32 bytes.
    pub key: &'a [u8; KEY_LEN],
}

/// A request under seal: its headers, the head of its stream, and what opens its answer.
pub struct OneShotCall {
    /// Lower-case names and their values.
    pub headers: SealHeaders,
    /// The bytes with which the stream begins, before the first frame.
    pub prefix: Vec<u8>,
    /// Inner headers first, then the body.
    pub sealer: FrameSealer,
    /// The context that opens the answer.
    pub pending: PendingAnswer<'static>,
}

/// Begins to seal a request to a key. `stamp` and `nonce` are texts of `X-Idempotency-Key`; `randomness` is that of the
/// encapsulation, given for vectors alone.
///
/// # Errors
/// [`Error::FieldInvalid`] for a configuration that wire 4 does not have, or a name of a pre-shared key of a wrong form;
/// [`Error::PublicKeyInvalid`] for a key that no secret can be agreed with; [`Error::Provider`].
pub fn seal(
    provider: &dyn AgreementProvider,
    config: &KeyConfig,
    psk: Option<ClientPsk<'_>>,
    line: RequestLine<'_>,
    content_type: &str,
    (stamp, nonce): (&str, &str),
    randomness: Option<&[u8]>,
) -> Result<OneShotCall, Error> {
    let suite = suite_of(config).ok_or(Error::FieldInvalid("config"))?;
    if psk.is_some_and(|psk| !is_psk_id(psk.id)) {
        return Err(Error::FieldInvalid("psk_id"));
    }
    let (id, psk_id) = (setup::id_of(&config.hash(provider)), psk.map_or("", |psk| psk.id));
    let info = setup::info(&config.name(provider), psk_id);
    let (info, key) = (info.as_bytes(), psk.map(|psk| Psk { key: psk.key, id: psk.id.as_bytes() }));
    let set_up = match randomness {
        None => setup_sender(provider, suite, config.public_key(), info, key),
        Some(bytes) => setup_sender_with(provider, suite, config.public_key(), info, key, bytes),
    };
    let (enc, context) = set_up.map_err(|err| match err {
        HpkeError::Provider => Error::Provider,
        _ => Error::PublicKeyInvalid,
    })?;
    let keys = setup::keys(provider, &context)?;
    let (headers, sealer) = sealed_head(provider, (&keys, &id), line, content_type, (stamp, nonce))?;
    let prefix = Prefix { psk_id: psk.map(|psk| String::from(psk.id)), enc }.encode();
    Ok(OneShotCall { headers, prefix, sealer, pending: PendingAnswer::one_shot(keys, id, line, stamp, nonce) })
}

/// Returns the suite of a configuration, if it is one of wire 4: one suite, with AES-256-GCM.
pub fn suite_of(config: &KeyConfig) -> Option<Suite> {
    let mut suites = config.suites();
    let suite = suites.next().filter(|suite| suite.aead == Aead::Aes256Gcm)?;
    (config.pairs().len() == 1 && suite.kem != crate::hpke::Kem::MlKem768).then_some(suite)
}

impl fmt::Debug for ClientPsk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPsk").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for OneShotCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneShotCall").field("headers", &self.headers).finish_non_exhaustive()
    }
}
