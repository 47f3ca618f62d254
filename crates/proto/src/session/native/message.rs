//! The bodies of an init, and the transcript that both ends build from them. `spec/session-3.md#init`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde_json::{Value, json};

use super::signed_list::read_signature;
use super::{Fields, IdentityKey, KeyId, Suite};
use crate::crypto::Provider;
use crate::crypto::identity::SignatureAlgorithm;
use crate::error::Error;
use crate::limits::{
    INIT_V3_BODY_MAX, PINNED_KEYS_MAX, PROOF_LEN_MAX, SIGNATURE_ALGORITHMS_MAX, SUBJECT_LEN_MAX, SUITE_NAME_LEN_MAX,
    SUITES_MAX,
};
use crate::session::Auth;
use crate::wire::{ClientId, SessionId, base64};

/// The body of a client's init.
#[derive(Clone, PartialEq, Eq)]
pub struct InitRequest {
    /// The name of the share's suite.
    pub suite: Box<str>,
    /// The names of all suites of the client, in order of preference.
    pub suites: Vec<Box<str>>,
    /// The key share of the client.
    pub share: Vec<u8>,
    /// The client id that it claims.
    pub client_id: Box<str>,
    /// Requested lifetime of the session, in seconds.
    pub ttl_sec: Option<u32>,
    /// A DPoP proof (RFC 9449).
    pub proof: Option<Box<str>>,
    /// Identity keys that it trusts.
    pub pinned_key_ids: Vec<KeyId>,
    /// The names of the signature algorithms that it accepts, if it restricts them; otherwise none.
    pub signature_algorithms: Vec<Box<str>>,
}

/// The body of a server's answer, without its proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitAnswer {
    /// The id of the session.
    pub session_id: SessionId,
    /// The suite of the session.
    pub suite: Suite,
    /// The server's list of suites, for this client.
    pub suites: Vec<Box<str>>,
    /// The key share of the server.
    pub share: Vec<u8>,
    /// The session's lifetime, in seconds.
    pub expires_in_sec: u32,
    /// The server's clock, in milliseconds since the epoch.
    pub server_time_ms: u64,
    /// The identity key that signs.
    pub key_id: KeyId,
    /// The ids of all live identity keys.
    pub key_ids: Vec<KeyId>,
    /// The method by which the client was authenticated.
    pub auth: Auth,
    /// The subject of its token or certificate.
    pub subject: Option<Box<str>>,
    /// The tenant of the subject.
    pub tenant: Option<Box<str>>,
}

/// The proofs of a server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitProofs {
    /// The identity key's signature over the transcript, of the length of its algorithm.
    pub signature: Vec<u8>,
    /// The confirmation that the server holds the agreed keys.
    pub confirm: [u8; 32],
}

/// The inputs of the transcript outside the two bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitSurroundings<'a> {
    /// SHA-256 of the value of `Authorization`, if it was sent.
    pub credential: Option<&'a [u8; 32]>,
    /// The session that is renewed, if it is a renewal.
    pub renewed: Option<&'a SessionId>,
}

impl InitRequest {
    /// Parses the body of an init. The last of a repeated member counts: the transcript covers what was parsed.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`], [`Error::JsonInvalid`], [`Error::FieldInvalid`] with the member's name.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        if body.len() > INIT_V3_BODY_MAX {
            return Err(Error::BodyTooLarge);
        }
        // A JSON value that is not an object has no members, and so lacks the first one.
        let object: Value = serde_json::from_slice(body).map_err(|_| Error::JsonInvalid)?;
        let suite = text(&object, "suite")?;
        if !is_suite_name(suite) {
            return Err(Error::FieldInvalid("suite"));
        }
        let suites = suites(&object)?;
        let share = base64::decode(text(&object, "share")?).map_err(|_| Error::FieldInvalid("share"))?;
        let client_id = text(&object, "client_id")?;
        ClientId::parse(client_id).map_err(|_| Error::FieldInvalid("client_id"))?;
        let ttl_sec = match member(&object, "ttl_sec") {
            None => None,
            Some(value) => Some(whole(value).ok_or(Error::FieldInvalid("ttl_sec"))?),
        };
        let proof = optional_text(&object, "proof", PROOF_LEN_MAX)?;
        let pinned_key_ids = key_ids(&object, "pinned_key_ids")?;
        let signature_algorithms = signature_algorithms(&object)?;
        Ok(InitRequest {
            suite: suite.into(),
            suites,
            share,
            client_id: client_id.into(),
            ttl_sec,
            proof,
            pinned_key_ids,
            signature_algorithms,
        })
    }

    /// Encodes the body as JSON.
    pub fn encode(&self) -> String {
        let mut object = json!({
            "suite": self.suite,
            "suites": self.suites,
            "share": base64::encode(&self.share),
            "client_id": self.client_id,
        });
        if let Some(sec) = self.ttl_sec {
            set(&mut object, "ttl_sec", sec.into());
        }
        if let Some(proof) = &self.proof {
            set(&mut object, "proof", Value::from(&**proof));
        }
        if !self.pinned_key_ids.is_empty() {
            set(&mut object, "pinned_key_ids", self.pinned_key_ids.iter().map(KeyId::as_str).collect());
        }
        if !self.signature_algorithms.is_empty() {
            set(&mut object, "signature_algorithms", self.signature_algorithms.iter().map(|name| &**name).collect());
        }
        object.to_string()
    }

    fn ttl(&self, fields: Fields) -> Fields {
        match self.ttl_sec {
            Some(sec) => fields.number(sec.into()),
            None => fields.field(""),
        }
    }

    /// Appends the list of signature algorithms; nothing at all if it is absent, as for clients that do not know it.
    fn algorithms(&self, fields: Fields) -> Fields {
        match self.signature_algorithms.as_slice() {
            [] => fields,
            names => fields.list(names.iter().map(|name| name.as_bytes())),
        }
    }

    /// Returns whether the client accepts an identity key of this algorithm. A client that names none accepts ES256, and any
    /// algorithm of a key that it pins.
    // SPEC session-3.md#the-request
    pub fn accepts(&self, key_id: &KeyId, algorithm: SignatureAlgorithm) -> bool {
        match self.signature_algorithms.as_slice() {
            [] => algorithm == SignatureAlgorithm::Es256 || self.pinned_key_ids.contains(key_id),
            names => names.iter().any(|name| &**name == algorithm.name()),
        }
    }

    /// Returns whether an identity key may sign for the client: it is one that it pins, if it pins some, and of an algorithm that it
    /// accepts.
    // SPEC session-3.md#the-answer
    pub fn is_served_by(&self, key: &IdentityKey) -> bool {
        let is_pinned = self.pinned_key_ids.is_empty() || self.pinned_key_ids.contains(&key.key_id);
        is_pinned && key.algorithm().is_some_and(|algorithm| self.accepts(&key.key_id, algorithm))
    }

    /// Returns the hash that a proof is bound to: everything in the body but the proof.
    pub fn init_hash(&self, provider: &dyn Provider) -> [u8; 32] {
        let fields = Fields::new().list(self.suites.iter().map(|name| name.as_bytes())).field(self.suite.as_bytes());
        let fields = self.ttl(fields.field(&self.share).field(self.client_id.as_bytes()));
        provider.sha256(&[self.algorithms(fields.list(&self.pinned_key_ids)).as_bytes()])
    }
}

impl InitAnswer {
    /// Parses the body of an answer.
    ///
    /// # Errors
    /// [`Error::AnswerMismatch`], whatever the defect.
    pub fn parse(body: &[u8]) -> Result<(Self, InitProofs), Error> {
        Self::read(body).map_err(|_| Error::AnswerMismatch)
    }

    fn read(body: &[u8]) -> Result<(Self, InitProofs), Error> {
        if body.len() > INIT_V3_BODY_MAX {
            return Err(Error::BodyTooLarge);
        }
        let object: Value = serde_json::from_slice(body).map_err(|_| Error::JsonInvalid)?;
        let key_id = |name| KeyId::parse(text(&object, name)?);
        let session_id = SessionId::parse(text(&object, "session_id")?)?;
        if session_id.is_anonymous() {
            return Err(Error::FieldInvalid("session_id"));
        }
        let server_time_ms = member(&object, "server_time_ms").and_then(Value::as_u64);
        let answer = InitAnswer {
            session_id,
            suite: Suite::from_name(text(&object, "suite")?).ok_or(Error::FieldInvalid("suite"))?,
            suites: suites(&object)?,
            share: base64::decode(text(&object, "share")?)?,
            expires_in_sec: member(&object, "expires_in_sec")
                .and_then(whole)
                .ok_or(Error::FieldInvalid("expires_in_sec"))?,
            server_time_ms: server_time_ms.ok_or(Error::FieldInvalid("server_time_ms"))?,
            key_id: key_id("key_id")?,
            key_ids: Some(key_ids(&object, "key_ids")?)
                .filter(|ids| !ids.is_empty())
                .ok_or(Error::FieldInvalid("key_ids"))?,
            auth: Auth::from_name(text(&object, "auth")?).ok_or(Error::FieldInvalid("auth"))?,
            subject: optional_text(&object, "subject", SUBJECT_LEN_MAX)?,
            tenant: optional_text(&object, "tenant", SUBJECT_LEN_MAX)?,
        };
        let signature = read_signature(text(&object, "signature")?).ok_or(Error::FieldInvalid("signature"))?;
        let confirm = base64::decode_array(text(&object, "confirm")?)?;
        Ok((answer, InitProofs { signature, confirm }))
    }

    /// Encodes the body as JSON.
    pub fn encode(&self, proofs: &InitProofs) -> String {
        let mut object = json!({
            "session_id": self.session_id.as_str(),
            "suite": self.suite.name(),
            "suites": self.suites,
            "share": base64::encode(&self.share),
            "expires_in_sec": self.expires_in_sec,
            "server_time_ms": self.server_time_ms,
            "key_id": self.key_id.as_str(),
            "key_ids": self.key_ids.iter().map(KeyId::as_str).collect::<Vec<_>>(),
            "auth": self.auth.name(),
            "signature": base64::encode(&proofs.signature),
            "confirm": base64::encode(&proofs.confirm),
        });
        for (name, text) in [("subject", &self.subject), ("tenant", &self.tenant)] {
            if let Some(text) = text {
                set(&mut object, name, Value::from(&**text));
            }
        }
        object.to_string()
    }
}

/// Returns the transcript, which both ends hash: every member of both messages but the proofs, and the inputs outside them.
pub fn transcript(request: &InitRequest, answer: &InitAnswer, surroundings: InitSurroundings<'_>) -> Fields {
    let fields = match surroundings.renewed {
        None => Fields::new().field("sealway/3 init"),
        Some(old) => Fields::new().field("sealway/3 renew").field(old.as_str()),
    };
    let fields = fields.field(request.suite.as_bytes()).list(request.suites.iter().map(|name| name.as_bytes()));
    let fields = request.ttl(fields.field(&request.share).field(request.client_id.as_bytes()));
    let fields = fields.field(request.proof.as_deref().unwrap_or_default()).list(&request.pinned_key_ids);
    request
        .algorithms(fields)
        .field(surroundings.credential.map_or(&[][..], |hash| hash))
        .field(answer.session_id.as_str())
        .field(answer.suite.name())
        .list(answer.suites.iter().map(|name| name.as_bytes()))
        .field(&answer.share)
        .number(answer.expires_in_sec.into())
        .number(answer.server_time_ms)
        .field(answer.key_id)
        .list(&answer.key_ids)
        .field(answer.auth.name())
        .field(answer.subject.as_deref().unwrap_or_default())
        .field(answer.tenant.as_deref().unwrap_or_default())
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_string(), value);
    }
}

/// Returns a member that is present and not null.
fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Value, name: &'static str) -> Result<&'a str, Error> {
    match member(object, name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(Error::FieldInvalid(name)),
    }
}

fn optional_text(object: &Value, name: &'static str, len_max: usize) -> Result<Option<Box<str>>, Error> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::String(text)) if (1..=len_max).contains(&text.len()) => Ok(Some(text.as_str().into())),
        Some(_) => Err(Error::FieldInvalid(name)),
    }
}

/// Reads a number of integer value, in any notation, that fits a `u32`.
fn whole(value: &Value) -> Option<u32> {
    match value.as_u64() {
        Some(number) => u32::try_from(number).ok(),
        // `as` saturates; its result for a fraction is no longer the same number.
        None => value.as_f64().filter(|number| f64::from(*number as u32) == *number).map(|number| number as u32),
    }
}

fn is_suite_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=SUITE_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(of_name)
}

/// Returns whether a text has the form of a signature algorithm's name.
pub(super) fn is_algorithm_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+');
    (1..=SUITE_NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(of_name)
}

/// Reads a list of up to `len_max` different members, each by `read`.
fn list<T: PartialEq>(
    value: &Value,
    name: &'static str,
    len_max: usize,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let invalid = Error::FieldInvalid(name);
    let members = value.as_array().filter(|members| members.len() <= len_max).ok_or(invalid)?;
    let mut all = Vec::with_capacity(members.len());
    for member in members {
        let read = member.as_str().and_then(&read).filter(|read| !all.contains(read));
        all.push(read.ok_or(invalid)?);
    }
    Ok(all)
}

fn suites(object: &Value) -> Result<Vec<Box<str>>, Error> {
    let invalid = Error::FieldInvalid("suites");
    let names = list(member(object, "suites").ok_or(invalid)?, "suites", SUITES_MAX, |name| {
        is_suite_name(name).then(|| Box::from(name))
    })?;
    if names.is_empty() { Err(invalid) } else { Ok(names) }
}

fn signature_algorithms(object: &Value) -> Result<Vec<Box<str>>, Error> {
    const NAME: &str = "signature_algorithms";
    let Some(value) = member(object, NAME) else { return Ok(Vec::new()) };
    let names = list(value, NAME, SIGNATURE_ALGORITHMS_MAX, |name| is_algorithm_name(name).then(|| Box::from(name)))?;
    // An empty list would be as good as an absent one, and the transcript could not tell them apart.
    if names.is_empty() { Err(Error::FieldInvalid(NAME)) } else { Ok(names) }
}

fn key_ids(object: &Value, name: &'static str) -> Result<Vec<KeyId>, Error> {
    match member(object, name) {
        None => Ok(Vec::new()),
        Some(value) => list(value, name, PINNED_KEYS_MAX, |text| KeyId::parse(text).ok()),
    }
}

impl fmt::Debug for InitRequest {
    /// Prints it without its proof.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitRequest")
            .field("suite", &self.suite)
            .field("suites", &self.suites)
            .field("client_id", &self.client_id)
            .field("ttl_sec", &self.ttl_sec)
            .field("pinned_key_ids", &self.pinned_key_ids)
            .field("signature_algorithms", &self.signature_algorithms)
            .finish_non_exhaustive()
    }
}
