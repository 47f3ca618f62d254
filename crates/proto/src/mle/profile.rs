//! The profiles: what each scheme's messages may be. A profile is a value; the named ones are rows of one table, and the generic
//! one is put together by its caller. SPEC mle.md#profiles

use alloc::vec::Vec;

use super::algorithm::{Alg, Enc};
use super::compact::Alphabet;
use super::fle::Fle;
use crate::wire::ReplayPolicy;

/// Default of the longest token, in bytes.
pub const TOKEN_LEN_MAX_DEFAULT: usize = 2 * 1024 * 1024;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Answer,
}

/// The unit of the header parameter `iat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IatUnit {
    /// Seconds since the epoch, as RFC 7519 has them.
    Seconds,
    /// Milliseconds since the Unix epoch.
    Milliseconds,
}

/// The place of a token in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// The body is the token and nothing else.
    Bare,
    /// The body is a JSON object whose sole member, of this name, is the token.
    Member(&'static str),
}

/// The algorithms of one direction, and whether its messages must have a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub(super) algs: Vec<Alg>,
    pub(super) encs: Vec<Enc>,
    pub(super) is_iat_required: bool,
    pub(super) wrapper: Wrapper,
    pub(super) cty: Option<&'static str>,
    /// The media type of a bare token that is sent.
    pub(super) bare_type: &'static str,
}

impl Side {
    /// Creates the rules of one direction: allowed `alg` and `enc`, and the place of the token in the body.
    pub fn new(algs: &[Alg], encs: &[Enc], wrapper: Wrapper) -> Side {
        Side {
            algs: algs.to_vec(),
            encs: encs.to_vec(),
            is_iat_required: false,
            wrapper,
            cty: None,
            bare_type: "application/jose",
        }
    }

    /// Requires the header parameter `iat` of messages of this direction. It has no effect in a profile without a unit for it.
    #[must_use]
    pub fn with_iat(self) -> Side {
        Side { is_iat_required: true, ..self }
    }

    /// Sets the header parameter `cty` of messages that are sealed. It is never read.
    #[must_use]
    pub fn with_cty(self, cty: &'static str) -> Side {
        Side { cty: Some(cty), ..self }
    }
}

/// The rules for the messages of one scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(super) name: &'static str,
    pub(super) request: Side,
    pub(super) answer: Side,
    pub(super) alphabet: Alphabet,
    pub(super) is_long_iv_allowed: bool,
    pub(super) iat: Option<IatUnit>,
    pub(super) is_kid_required: bool,
    pub(super) replay: ReplayPolicy,
    pub(super) token_len_max: usize,
    /// The settings of the field-level form; `None` in a profile of JWE.
    pub(super) fle: Option<Fle>,
}

impl Profile {
    /// Mastercard's JWE: RSA-OAEP-256 alone, no time, and what its libraries send besides base64url and IVs of 12 bytes.
    pub fn mastercard_jwe() -> Profile {
        let encs = [Enc::A256Gcm, Enc::A128Gcm, Enc::A192Gcm, Enc::A128CbcHs256];
        let side = Side::new(&[Alg::RsaOaep256], &encs, Wrapper::Member("encryptedData")).with_cty("application/json");
        Profile {
            alphabet: Alphabet::Mixed,
            is_long_iv_allowed: true,
            iat: None,
            ..Profile::base("mastercard-jwe", side.clone(), side)
        }
    }

    /// Visa's message-level encryption: a time in milliseconds.
    pub fn visa() -> Profile {
        let encs = [Enc::A128Gcm, Enc::A256Gcm];
        let side = Side::new(&[Alg::RsaOaep256], &encs, Wrapper::Member("encData"));
        Profile { iat: Some(IatUnit::Milliseconds), ..Profile::base("visa", side.clone().with_iat(), side) }
    }

    /// Visa Acceptance (Cybersource): a time in seconds; answers may use two more algorithms than requests.
    pub fn visa_acceptance() -> Profile {
        let request = Side::new(&[Alg::RsaOaep256], &[Enc::A256Gcm], Wrapper::Member("encryptedRequest"));
        let (algs, encs) = ([Alg::RsaOaep256, Alg::RsaOaep], [Enc::A256Gcm, Enc::A128Gcm]);
        let answer = Side::new(&algs, &encs, Wrapper::Member("encryptedResponse"));
        Profile { iat: Some(IatUnit::Seconds), ..Profile::base("visa-acceptance", request.with_iat(), answer) }
    }

    /// Mastercard's field-level form: RSA-OAEP with SHA-256 or SHA-512, AES-128-CBC without integrity, no time, and key names that may
    /// be absent.
    pub fn mastercard_field_level(fle: Fle) -> Profile {
        let side = Side::new(&[Alg::RsaOaep256, Alg::RsaOaep512], &[], Wrapper::Bare);
        let base = Profile::base("mastercard-field-level", side.clone(), side);
        Profile { fle: Some(fle), is_kid_required: false, ..base }
    }

    /// A profile of the caller's own lists: strict base64url, IVs of the standard's lengths.
    pub fn generic(request: Side, answer: Side, iat: Option<IatUnit>) -> Profile {
        Profile { iat, ..Profile::base("generic-jwe", request, answer) }
    }

    /// Open banking: a profile of the caller's own lists, whose messages are signed too. The bare token of UK Open Banking has a media type
    /// of its own.
    pub fn open_banking(side: Side) -> Profile {
        let side = Side { bare_type: "application/jose+jwe", ..side };
        Profile::base("open-banking", side.clone(), side)
    }

    fn base(name: &'static str, request: Side, answer: Side) -> Profile {
        Profile {
            name,
            request,
            answer,
            alphabet: Alphabet::Strict,
            is_long_iv_allowed: false,
            iat: None,
            is_kid_required: true,
            replay: ReplayPolicy::default(),
            token_len_max: TOKEN_LEN_MAX_DEFAULT,
            fle: None,
        }
    }

    /// Sets the window for `iat` and how long a message is remembered.
    #[must_use]
    pub fn with_replay(self, replay: ReplayPolicy) -> Profile {
        Profile { replay, ..self }
    }

    /// Sets the longest token, in bytes.
    #[must_use]
    pub fn with_token_len_max(self, token_len_max: usize) -> Profile {
        Profile { token_len_max, ..self }
    }

    /// Allows tokens without `kid` where exactly one key is live. By default they are rejected.
    #[must_use]
    pub fn with_optional_kid(self) -> Profile {
        Profile { is_kid_required: false, ..self }
    }

    /// Sets the place of the token in requests and in answers.
    #[must_use]
    pub fn with_wrappers(mut self, request: Wrapper, answer: Wrapper) -> Profile {
        self.request.wrapper = request;
        self.answer.wrapper = answer;
        self
    }

    /// Marks the plaintext of one direction as a JWT (RFC 7519 section 5.2): `cty` of tokens that are sealed, and their media type.
    #[must_use]
    pub fn with_nested(mut self, message: Message) -> Profile {
        let side = if message == Message::Request { &mut self.request } else { &mut self.answer };
        (side.cty, side.bare_type) = (Some("JWT"), "application/jwt");
        self
    }

    /// Returns the name, as configuration and logs have it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the place of the token in messages of one direction.
    pub fn wrapper(&self, message: Message) -> Wrapper {
        self.side(message).wrapper
    }

    /// Returns the media type of sealed messages of one direction whose body is one token.
    pub fn media_type(&self, message: Message) -> &'static str {
        let side = self.side(message);
        if side.wrapper == Wrapper::Bare { side.bare_type } else { "application/json" }
    }

    /// Returns the unit of `iat`; `None` in a profile without time.
    pub fn iat_unit(&self) -> Option<IatUnit> {
        self.iat
    }

    /// Returns the window of times, and how long a message is remembered.
    pub fn replay(&self) -> &ReplayPolicy {
        &self.replay
    }

    /// Returns the settings of the field-level form; `None` in a profile of JWE.
    pub fn fle(&self) -> Option<&Fle> {
        self.fle.as_ref()
    }

    /// Returns whether one direction allows this pair of algorithms. The field-level form has no `enc`.
    pub fn allows(&self, message: Message, alg: Alg, enc: Enc) -> bool {
        let side = self.side(message);
        side.algs.contains(&alg) && (self.fle.is_some() || side.encs.contains(&enc))
    }

    pub(super) fn side(&self, message: Message) -> &Side {
        match message {
            Message::Request => &self.request,
            Message::Answer => &self.answer,
        }
    }
}
