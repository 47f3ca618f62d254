//! The secrets of a request on wire 4, which HPKE gives to both sides.
// SPEC one-shot.md#the-request

use alloc::boxed::Box;
use alloc::sync::Arc;
use zeroize::Zeroizing;

use super::Prefix;
use crate::crypto::agreement::AgreementProvider;
use crate::error::Error;
use crate::hpke::{Aead, Context, HpkeError, Kem, PrivateKey, Psk, Suite, setup_receiver};
use crate::limits::KEY_LEN;
use crate::session::native::Fields;
use crate::session::native::schedule::Keys;
use crate::session::{Auth, Session, SessionKey, SessionRecord};
use crate::wire::{SessionId, Wire};

/// A key of the service that is accepted, and what belongs to it.
pub trait RecipientKey: Send + Sync {
    /// Returns the private half of the key.
    fn private(&self) -> &PrivateKey;

    /// Returns SHA-256 of the key configuration; its first half is the key name.
    fn hash(&self) -> &[u8; 32];

    /// Returns the time from which on the key is accepted no longer, in milliseconds since the epoch.
    fn not_after_ms(&self) -> u64;
}

/// The suite of wire 4 with this KEM.
pub(super) fn suite(kem: Kem) -> Suite {
    Suite { kem, aead: Aead::Aes256Gcm }
}

pub(super) fn info(name: &str, psk_id: &str) -> Fields {
    Fields::new().field("sealway/4").field(name).field(psk_id)
}

/// Exports the secrets of both directions.
pub(super) fn keys<Role>(provider: &dyn AgreementProvider, context: &Context<Role>) -> Result<Keys, Error> {
    let export = |label: &str| -> Result<Zeroizing<[u8; KEY_LEN]>, Error> {
        let mut secret = Zeroizing::new([0; KEY_LEN]);
        context.export(provider, label.as_bytes(), secret.as_mut_slice()).map_err(|_| Error::Provider)?;
        Ok(secret)
    };
    let (c2s, s2c) = (export("sealway/4 c2s")?, export("sealway/4 s2c")?);
    Ok(Keys::exported(provider, &c2s, &s2c))
}

/// Returns the text of a key name as it stands in kids, in the form of an id.
pub(crate) fn id_of(hash: &[u8; 32]) -> SessionId {
    SessionId::from_random(hash.first_chunk().unwrap_or(&[0; 16]), false)
}

/// Decapsulates the prefix of a request, and returns the session that the request is alone in. `psk` belongs to the prefix's name.
///
/// # Errors
/// [`Error::Unsealable`] for an encapsulated secret of a wrong form, [`Error::Provider`].
pub(crate) fn session(
    provider: &dyn AgreementProvider,
    key: &dyn RecipientKey,
    prefix: &Prefix,
    psk: Option<&[u8; KEY_LEN]>,
    now_ms: u64,
) -> Result<Arc<Session>, Error> {
    let (id, subject) = (id_of(key.hash()), prefix.psk_id.as_deref());
    let hpke_psk = subject.zip(psk).map(|(id, key)| Psk { key, id: id.as_bytes() });
    if hpke_psk.is_some() != subject.is_some() {
        return Err(Error::Unsealable);
    }
    let name = id.as_str().trim_start_matches("S-");
    let info = info(name, subject.unwrap_or_default());
    let suite = suite(key.private().public_key().kem());
    let context = setup_receiver(provider, suite, key.private(), &prefix.enc, info.as_bytes(), hpke_psk);
    let keys = keys(provider, &context.map_err(opening_error)?)?;
    let record = SessionRecord {
        id,
        wire: Wire::OneShot,
        client_id: None,
        subject: subject.map(Box::from),
        tenant: None,
        auth: if subject.is_some() { Auth::Psk } else { Auth::None },
        lineage: None,
        created_ms: now_ms,
        expires_ms: key.not_after_ms(),
        key: SessionKey::from_bytes(subject.and(psk).copied().unwrap_or([0; KEY_LEN])),
    };
    Ok(Arc::new(Session::of_request(record, keys)))
}

fn opening_error(err: HpkeError) -> Error {
    if err == HpkeError::Provider { Error::Provider } else { Error::Unsealable }
}
