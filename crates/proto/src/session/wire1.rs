//! Wire 1's bytes: seven headers, `AAD = POST|path|timestamp|nonce|kid` (an answer: its status for `POST`), the
//! ciphertext as base64 text. `spec/session.md#wire-1`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::crypto::AeadKey;
use crate::error::Error;
use crate::limits::{IV_LEN, PATH_LEN_MAX, TAG_LEN};
use crate::session::buffer::{Plaintext, SealBuffer};
use crate::session::call::SealedMessage;
use crate::session::{Laps, Step};
use crate::wire::header::{A256GCM, X_AAD, X_ENC_ALG, X_IV, X_KID, X_NONCE, X_TAG, X_TIMESTAMP};
use crate::wire::{Headers, Nonce, Timestamp, base64};

/// The media type of a base64 text body.
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// The first part of the AAD: a request's method, or an answer's status.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    Request,
    Answer(u16),
}

pub(crate) fn aad(subject: Subject, path: &str, stamp: &str, nonce: &str, kid: &str) -> Vec<u8> {
    let status;
    let subject = match subject {
        Subject::Request => "POST",
        Subject::Answer(code) => {
            status = code.to_string();
            &status
        }
    };
    [subject, path, stamp, nonce, kid].join("|").into_bytes()
}

/// The headers that wire 1 adds to stamp, nonce and kid.
#[derive(Debug)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) path: &'a str,
    iv: [u8; IV_LEN],
    tag: [u8; TAG_LEN],
    aad: Vec<u8>,
}

/// IV, tag and AAD, which wire 1 carries in headers.
type DetachedParts = ([u8; IV_LEN], [u8; TAG_LEN], Vec<u8>);

/// Reads the detached parts of a message, of a request or an answer.
fn parse_detached(headers: &impl Headers) -> Result<DetachedParts, Error> {
    if headers.field(X_ENC_ALG).required(X_ENC_ALG)? != A256GCM {
        return Err(Error::HeaderInvalid(X_ENC_ALG));
    }
    let iv = headers.field(X_IV).required(X_IV)?;
    let tag = headers.field(X_TAG).required(X_TAG)?;
    let aad = headers.field(X_AAD).required(X_AAD)?;
    let invalid = |name| move |_| Error::HeaderInvalid(name);
    Ok((
        base64::decode_array(iv).map_err(invalid(X_IV))?,
        base64::decode_array(tag).map_err(invalid(X_TAG))?,
        base64::decode(aad).map_err(invalid(X_AAD))?,
    ))
}

/// Opens base64 text with detached IV and tag.
pub(crate) fn open(
    aead: &dyn AeadKey,
    iv: &[u8; IV_LEN],
    tag: &[u8; TAG_LEN],
    aad: &[u8],
    body: &[u8],
) -> Result<Plaintext, Error> {
    let mut data = base64::decode(body)?;
    let len = data.len();
    data.extend_from_slice(tag);
    aead.open_in_place(iv, aad, &mut data)?;
    Ok(Plaintext::new(data, 0..len))
}

impl<'a> RequestHeaders<'a> {
    /// Reads timestamp and nonce, not yet checked, and the other headers.
    pub(crate) fn parse(headers: &'a impl Headers, path: &'a str) -> Result<(&'a str, &'a str, Self), Error> {
        let nonce = headers.field(X_NONCE).required(X_NONCE)?;
        let stamp = headers.field(X_TIMESTAMP).required(X_TIMESTAMP)?;
        let (iv, tag, aad) = parse_detached(headers)?;
        if path.len() > PATH_LEN_MAX {
            return Err(Error::BodyTooLarge);
        }
        Ok((stamp, nonce, RequestHeaders { path, iv, tag, aad }))
    }

    pub(crate) fn open(
        &self,
        aead: &dyn AeadKey,
        stamp: Timestamp<'_>,
        nonce: Nonce<'_>,
        kid: &str,
        body: &[u8],
        laps: Laps<'_>,
    ) -> Result<Plaintext, Error> {
        let aad = aad(Subject::Request, self.path, stamp.as_str(), nonce.as_str(), kid);
        laps(Step::AadBuild);
        if aad != self.aad {
            return Err(Error::AadMismatch);
        }
        let opened = open(aead, &self.iv, &self.tag, &aad, body);
        laps(Step::Decrypt);
        opened
    }
}

/// Seals a request or an answer.
pub(crate) fn seal(
    aead: &dyn AeadKey,
    subject: Subject,
    path: &str,
    stamp: String,
    nonce: String,
    kid: String,
    iv: &[u8; IV_LEN],
    plaintext: SealBuffer,
) -> Result<SealedMessage, Error> {
    let aad = aad(subject, path, &stamp, &nonce, &kid);
    let mut buffer = plaintext.into_inner();
    let (_, data) = buffer.split_first_chunk_mut::<IV_LEN>().ok_or(Error::Provider)?;
    let tag = aead.seal_in_place(iv, &aad, data)?;
    let body = base64::encode(data).into_bytes();
    let headers = alloc::vec![
        (X_KID, kid),
        (X_ENC_ALG, A256GCM.into()),
        (X_IV, base64::encode(iv)),
        (X_TAG, base64::encode(&tag)),
        (X_AAD, base64::encode(&aad)),
        (X_NONCE, nonce),
        (X_TIMESTAMP, stamp),
    ];
    Ok(SealedMessage { headers, aad, content_type: CONTENT_TYPE, body })
}

/// Opens an answer for a client that knows its request. Returns the answer's stamp and nonce beside the plaintext.
pub(crate) fn open_answer<'h>(
    aead: &dyn AeadKey,
    headers: &'h impl Headers,
    status: u16,
    path: &str,
    kid: &str,
    body: &[u8],
) -> Result<(&'h str, &'h str, Plaintext), Error> {
    let nonce = headers.field(X_NONCE).required(X_NONCE)?;
    let stamp = headers.field(X_TIMESTAMP).required(X_TIMESTAMP)?;
    let (iv, tag, sent) = parse_detached(headers)?;
    let aad = aad(Subject::Answer(status), path, stamp, nonce, kid);
    if aad != sent {
        return Err(Error::AadMismatch);
    }
    Ok((stamp, nonce, open(aead, &iv, &tag, &aad, body)?))
}
