//! Wire 2's bytes: `AAD = timestamp|nonce|kid|clientId`, body `IV || ciphertext || tag`. `spec/session.md#wire-2`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::crypto::AeadKey;
use crate::error::Error;
use crate::limits::{IV_LEN, TAG_LEN};
use crate::session::buffer::{Plaintext, SealBuffer};
use crate::session::call::SealedMessage;
use crate::session::{Laps, Step};
use crate::wire::header::{X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_KID};
use crate::wire::{ClientId, Headers, idempotency};

/// The media type of sealed bodies.
const CONTENT_TYPE: &str = "application/octet-stream";

/// The parts of a message's AAD, each as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) stamp: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) kid: &'a str,
    pub(crate) client_id: &'a str,
}

impl Context<'_> {
    pub(crate) fn aad(&self) -> Vec<u8> {
        [self.stamp, self.nonce, self.kid, self.client_id].join("|").into_bytes()
    }
}

/// Reads timestamp, nonce and client id of a request, in the order of checks.
pub(crate) fn parse_headers(headers: &impl Headers) -> Result<(&str, &str, &str), Error> {
    let key = headers.field(X_IDEMPOTENCY_KEY).required(X_IDEMPOTENCY_KEY)?;
    let client_id = ClientId::parse(headers.field(X_CLIENT_ID).required(X_CLIENT_ID)?)?;
    let (stamp, nonce) = idempotency::split(key)?;
    Ok((stamp, nonce, client_id.as_str()))
}

/// Opens `IV || ciphertext || tag` in place.
pub(crate) fn open(
    aead: &dyn AeadKey,
    context: &Context<'_>,
    mut body: Vec<u8>,
    laps: Laps<'_>,
) -> Result<Plaintext, Error> {
    let end = body.len().checked_sub(TAG_LEN).filter(|end| *end >= IV_LEN).ok_or(Error::BodyTooShort)?;
    let aad = context.aad();
    laps(Step::AadBuild);
    let (iv, sealed) = body.split_first_chunk_mut::<IV_LEN>().ok_or(Error::BodyTooShort)?;
    let opened = aead.open_in_place(iv, &aad, sealed);
    laps(Step::Decrypt);
    opened?;
    Ok(Plaintext::new(body, IV_LEN..end))
}

/// Seals a request or an answer.
pub(crate) fn seal(
    aead: &dyn AeadKey,
    stamp: &str,
    nonce: &str,
    kid: String,
    client_id: &str,
    iv: &[u8; IV_LEN],
    plaintext: SealBuffer,
) -> Result<SealedMessage, Error> {
    let aad = Context { stamp, nonce, kid: &kid, client_id }.aad();
    let mut body = plaintext.into_inner();
    let (head, data) = body.split_first_chunk_mut::<IV_LEN>().ok_or(Error::Provider)?;
    *head = *iv;
    let tag = aead.seal_in_place(iv, &aad, data)?;
    body.extend_from_slice(&tag);
    let headers = alloc::vec![(X_KID, kid), (X_IDEMPOTENCY_KEY, [stamp, nonce].join("."))];
    Ok(SealedMessage { headers, aad, content_type: CONTENT_TYPE, body })
}
