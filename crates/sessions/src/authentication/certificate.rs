//! Identifies a client by its certificate: the one of the connection, which the listener has verified, or the one that
//! a trusted proxy forwards in `Client-Cert` (RFC 9440).
//!
//! The proxy verifies the chain of a forwarded certificate and that the client holds its key. The authority sees no
//! handshake with the client and does not repeat these checks.

use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sealway_proto::session::Auth;
use sealway_proto::wire::Field;
use sealway_runtime::tls::{CertificateField, PeerCertificate};

use super::{ClientIdentity, InitCredentials, Token};
use crate::answer::Refusal;

/// Maximum length of `Client-Cert`, in bytes.
const FORWARDED_LEN_MAX: usize = 16 * 1024;
/// Maximum length of a subject, in bytes.
const SUBJECT_LEN_MAX: usize = 256;

/// The client's certificate, with its source.
pub(super) enum CertificateSource<'a> {
    Connections(&'a PeerCertificate),
    Forwarded(Box<PeerCertificate>),
}

impl Deref for CertificateSource<'_> {
    type Target = PeerCertificate;

    fn deref(&self) -> &PeerCertificate {
        match self {
            CertificateSource::Connections(certificate) => certificate,
            CertificateSource::Forwarded(certificate) => certificate,
        }
    }
}

/// Returns the client's certificate, if there is one.
pub(super) fn of<'a>(asked: &InitCredentials<'a>) -> Result<Option<CertificateSource<'a>>, Refusal> {
    match &asked.forwarded {
        None => Ok(asked.certificate.map(CertificateSource::Connections)),
        Some(Field::Absent) => Ok(None),
        Some(Field::Value(value)) => {
            forwarded(value).map(|certificate| Some(CertificateSource::Forwarded(Box::new(certificate))))
        }
        Some(Field::Malformed) => Err(Refusal::Token("the forwarded certificate is malformed")),
    }
}

/// Parses a certificate from a byte sequence of RFC 8941 section 3.3.5.
fn forwarded(value: &str) -> Result<PeerCertificate, Refusal> {
    const MALFORMED: Refusal = Refusal::Token("the forwarded certificate is malformed");
    let text = value.trim().strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).ok_or(MALFORMED)?;
    if text.len() > FORWARDED_LEN_MAX {
        return Err(MALFORMED);
    }
    let der = STANDARD.decode(text).map_err(|_| MALFORMED)?;
    PeerCertificate::parse(vec![der.into()]).map_err(|_| MALFORMED)
}

/// Identifies the client that a certificate names in `field`.
pub(super) fn recognise(
    field: CertificateField,
    certificate: &PeerCertificate,
    now_ms: u64,
) -> Result<ClientIdentity, Refusal> {
    let left_sec = certificate.not_after_ms.saturating_sub(now_ms) / 1000;
    if left_sec == 0 {
        return Err(Refusal::Token("the certificate is over"));
    }
    // Of several names none is the subject: services could disagree on which one counts.
    let [subject] = field.texts(certificate)[..] else {
        return Err(Refusal::Token("the certificate does not name one subject"));
    };
    if subject.is_empty() || subject.len() > SUBJECT_LEN_MAX || subject.chars().any(char::is_control) {
        return Err(Refusal::Token("the certificate's subject is no name"));
    }
    let ttl_max_sec = Some(u32::try_from(left_sec).unwrap_or(u32::MAX));
    Ok(ClientIdentity { auth: Auth::Certificate, subject: Some(subject.into()), tenant: None, ttl_max_sec })
}

/// Checks that a token bound to a certificate (RFC 8705) came with that certificate.
pub(super) fn check_binding(token: &Token, certificate: Option<&PeerCertificate>) -> Result<(), Refusal> {
    let Some(bound) = &token.certificate else { return Ok(()) };
    let is_it = certificate.is_some_and(|certificate| {
        let digits: Vec<u32> = certificate.sha256.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let hash: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
        URL_SAFE_NO_PAD.encode(hash) == **bound
    });
    if is_it { Ok(()) } else { Err(Refusal::Token("it is bound to another certificate")) }
}
