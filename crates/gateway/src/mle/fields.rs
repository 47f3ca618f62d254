//! Messages of the field-level form: the metadata of their values is in members beside them, or in headers.

use std::borrow::Cow;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sealway_proto::mle::{
    Class, Envelope, Field, FieldSealer, Fle, Message, Opening, Place, Profile, Refusal, SealRandoms, SealingKey,
};
use zeroize::Zeroizing;

use super::Mle;
use super::keys::jose_provider;
use super::message::SealFault;

/// A message whose values are to be opened.
pub(super) struct Openings {
    /// The body without the metadata.
    pub(super) body: Zeroizing<Vec<u8>>,
    pub(super) openings: Vec<Opening>,
}

/// Encrypted values, and the headers of their metadata.
pub(super) struct Envelopes {
    pub(super) fields: Vec<(Field, Envelope)>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Checks what is public about the values of a message.
pub(super) fn begin(
    mle: &Mle,
    fle: &Fle,
    message: Message,
    (headers, bytes): (&HeaderMap, &[u8]),
    fields: &[Field],
    now_ms: u64,
) -> Result<Openings, Refusal> {
    let (body, metadata) = match fle.place() {
        Place::Body => fle.take(bytes, mle.rules(message), fields)?,
        Place::Headers => {
            let metadata = fle.read(|name| header(headers, name))?;
            (Zeroizing::new(bytes.to_vec()), vec![metadata; fields.len()])
        }
    };
    let profile = &mle.policy.profile;
    let openings = fields
        .iter()
        .zip(&metadata)
        .map(|(field, metadata)| Opening::begin_field(field.text(), metadata, profile, message, &mle.open, now_ms));
    Ok(Openings { body, openings: openings.collect::<Result<_, _>>()? })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text.into())),
        _ => Err(Refusal::new(Class::Shape, "a header of the metadata is there twice, or is not ASCII")),
    }
}

/// Seals the values of a message.
pub(super) fn seal(
    profile: &Profile,
    message: Message,
    fields: Vec<Field>,
    key: &SealingKey,
) -> Result<Envelopes, SealFault> {
    let sealer = || {
        let randoms = SealRandoms::draw(jose_provider().base()).map_err(|_| SealFault::Random)?;
        Ok::<_, SealFault>(FieldSealer::new(profile, message, key, randoms, jose_provider())?)
    };
    let shares_key = shares_key(profile);
    let mut current = sealer()?;
    let mut sealed = Vec::with_capacity(fields.len());
    for field in fields {
        let value = current.seal(field.text())?;
        sealed.push((field, value));
        if !shares_key {
            current = sealer()?;
        }
    }
    let headers = current.into_headers().into_iter().filter_map(|(name, value)| {
        // The configuration has checked the names, and a name of a key that is no header stays away.
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    });
    Ok(Envelopes { fields: sealed, headers: headers.collect() })
}

/// Returns whether one key serves all values of a message.
pub(super) fn shares_key(profile: &Profile) -> bool {
    profile.fle().is_some_and(|fle| fle.place() == Place::Headers)
}

/// Removes the headers of the metadata: they belong to another body.
pub(super) fn forget(headers: &mut HeaderMap, profile: &Profile) {
    if let Some(fle) = profile.fle().filter(|fle| fle.place() == Place::Headers) {
        for name in fle.names().metadata() {
            headers.remove(name);
        }
    }
}
