//! The key schedule: from a secret to the keys of a session, and from those to the keys of one message.
//! `spec/session-3.md#init`.

use alloc::boxed::Box;
use alloc::string::String;

use zeroize::Zeroizing;

use crate::crypto::{AeadKey, MacKey, Provider};
use crate::error::Error;
use crate::limits::IV_LEN;
use crate::session::keys::SessionKey;
use crate::wire::{SessionId, Wire};

/// A key commitment, in bytes.
pub(crate) const COMMIT_LEN: usize = 16;

const C2S: &[u8] = b"sealway/3 c2s";
const S2C: &[u8] = b"sealway/3 s2c";
const EXPORTER: &[u8] = b"sealway/3 exporter";
const CONFIRM: &[u8] = b"sealway/3 confirm";
const CLOCK: &[u8] = b"sealway/3 clock";

/// The texts that a wire binds into its messages, and the form of its kid.
#[derive(Debug)]
pub(crate) struct Labels {
    pub(crate) wire: Wire,
    /// The value of `X-Seal` on the wire.
    pub(crate) seal: &'static str,
    kid_prefix: &'static str,
    /// The part of a session id that the wire sends and binds: all of it, or the digits, which are a key name.
    id_from: usize,
    request: &'static str,
    answer: &'static str,
    pub(super) request_context: &'static str,
    pub(super) answer_context: &'static str,
}

pub(crate) static NATIVE: Labels = Labels {
    wire: Wire::Native,
    seal: "3",
    kid_prefix: "session:",
    id_from: 0,
    request: "sealway/3 request",
    answer: "sealway/3 answer",
    request_context: "sealway/3 request context",
    answer_context: "sealway/3 answer context",
};

#[cfg(feature = "one-shot")]
pub(crate) static ONE_SHOT: Labels = Labels {
    wire: Wire::OneShot,
    seal: "4",
    kid_prefix: crate::one_shot::key_config::KID_PREFIX,
    id_from: 2,
    request: "sealway/4 request",
    answer: "sealway/4 answer",
    request_context: "sealway/4 request context",
    answer_context: "sealway/4 answer context",
};

impl Labels {
    /// Returns the labels of a value of `X-Seal`.
    pub(super) fn of_seal(seal: &str) -> Option<&'static Labels> {
        match seal {
            "3" => Some(&NATIVE),
            #[cfg(feature = "one-shot")]
            "4" => Some(&ONE_SHOT),
            _ => None,
        }
    }

    /// Returns the id as the wire binds it: a session id, or a key name.
    pub(crate) fn id<'a>(&self, id: &'a SessionId) -> &'a str {
        id.as_str().get(self.id_from..).unwrap_or_default()
    }

    pub(crate) fn kid(&self, id: &SessionId) -> String {
        [self.kid_prefix, self.id(id)].concat()
    }

    /// Parses a kid. The outer error precedes any access to a store.
    pub(super) fn parse_kid(&self, kid: &str) -> Result<Result<SessionId, Error>, Error> {
        let name = kid.strip_prefix(self.kid_prefix).ok_or(Error::KidPrefix)?;
        match self.id_from {
            0 => Ok(SessionId::parse(name)),
            // A key name of a wrong form names no key, as another prefix does.
            _ => SessionId::parse(&["S-", name].concat()).map(Ok).map_err(|_| Error::KidPrefix),
        }
    }
}

/// Performs Extract of RFC 5869. A server keeps nothing else of a session's keys than the result.
pub(super) fn extract(provider: &dyn Provider, th: &[u8; 32], ikm: &[&[u8]]) -> SessionKey {
    SessionKey::from_bytes(*provider.hmac_sha256(th, ikm))
}

/// Performs Expand of RFC 5869, 32 bytes.
fn expand(provider: &dyn Provider, prk: &[u8; 32], label: &[u8]) -> Zeroizing<[u8; 32]> {
    provider.hmac_sha256(prk, &[label, &[1]])
}

/// Derives the secret that a renewal mixes in.
pub(super) fn exporter(provider: &dyn Provider, prk: &SessionKey) -> Zeroizing<[u8; 32]> {
    expand(provider, prk.expose(), EXPORTER)
}

/// Computes the server's proof that it holds the keys.
pub(super) fn confirm(provider: &dyn Provider, prk: &SessionKey, th: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    provider.hmac_sha256(expand(provider, prk.expose(), CONFIRM).as_slice(), &[th])
}

/// The keys of a session, one for each direction, expanded.
pub(crate) struct Keys {
    c2s: Box<dyn MacKey>,
    s2c: Box<dyn MacKey>,
    labels: &'static Labels,
}

/// The keys of one message.
pub(crate) struct MessageKeys {
    pub(super) aead: Box<dyn AeadKey>,
    pub(super) iv: [u8; IV_LEN],
    pub(super) commit: [u8; COMMIT_LEN],
}

impl Keys {
    pub(crate) fn new(provider: &dyn Provider, prk: &SessionKey) -> Self {
        let key = |label| provider.mac_key(expand(provider, prk.expose(), label).as_slice());
        Keys { c2s: key(C2S), s2c: key(S2C), labels: &NATIVE }
    }

    /// The keys of one request on wire 4, whose secrets HPKE exported.
    #[cfg(feature = "one-shot")]
    pub(crate) fn exported(provider: &dyn Provider, c2s: &[u8; 32], s2c: &[u8; 32]) -> Self {
        Keys { c2s: provider.mac_key(c2s), s2c: provider.mac_key(s2c), labels: &ONE_SHOT }
    }

    pub(crate) fn labels(&self) -> &'static Labels {
        self.labels
    }

    pub(crate) fn request(&self, provider: &dyn Provider, nonce: &str, stamp: &str) -> Result<MessageKeys, Error> {
        message(provider, self.c2s.as_ref(), self.labels.request, nonce, stamp)
    }

    /// Derives the keys of the answer with `nonce` to the request with `request_nonce`.
    pub(super) fn answer(
        &self,
        provider: &dyn Provider,
        request_nonce: &str,
        nonce: &str,
    ) -> Result<MessageKeys, Error> {
        message(provider, self.s2c.as_ref(), self.labels.answer, request_nonce, nonce)
    }

    /// Derives the key that authenticates the server's time in a problem.
    pub(super) fn clock(&self) -> Zeroizing<[u8; 32]> {
        self.s2c.mac(&[CLOCK, &[1]])
    }
}

/// Performs Expand for 60 bytes: two blocks, of which the first is the key.
fn message(
    provider: &dyn Provider,
    key: &dyn MacKey,
    label: &str,
    one: &str,
    other: &str,
) -> Result<MessageKeys, Error> {
    // The parsers of the texts bound their lengths.
    let len = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    let (label, one, other) = (label.as_bytes(), one.as_bytes(), other.as_bytes());
    let (lens, empty) = ([len(label), len(one), len(other)], [].as_slice());
    let [label_len, one_len, other_len] = &lens;
    let block =
        |before: &[u8], number: u8| key.mac(&[before, label_len, label, one_len, one, other_len, other, &[number]]);
    let first = block(empty, 1);
    let second = block(first.as_slice(), 2);
    let (iv, rest) = second.split_first_chunk().ok_or(Error::Provider)?;
    let commit = rest.first_chunk().ok_or(Error::Provider)?;
    Ok(MessageKeys { aead: provider.aes256_gcm(&first)?, iv: *iv, commit: *commit })
}
