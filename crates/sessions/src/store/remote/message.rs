//! Messages between an API side and its authority: one flat JSON object each, parsed strictly, in the same format for
//! both directions. `spec/session.md#authority-endpoints`.
//!
//! It may not know HTTP. No parsed value is ever part of an error's text: a message may hold a session key.

use std::borrow::Cow;
use std::fmt;

use sealway_proto::session::{Auth, ClaimKey, SessionKey, SessionRecord};
use sealway_proto::wire::{ClientId, SessionId, Wire, base64};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use zeroize::{Zeroize, Zeroizing};

use crate::store::{Part, Pool, Status};

/// Maximum length of a message, either way, in bytes.
pub(crate) const MESSAGE_LEN_MAX: usize = 64 * 1024;
/// Maximum number of members of an object.
const MEMBERS_MAX: usize = 32;
/// Maximum length of subjects and tenants, as in tokens, in bytes.
const SUBJECT_LEN_MAX: usize = 256;

/// Failure to parse a message. The text names the member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MessageError(pub(crate) String);

fn malformed<T>(member: &str, what: &str) -> Result<T, MessageError> {
    Err(MessageError(format!("{member}: {what}")))
}

/// Value of a member; nested values are ignored.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value<'a> {
    Bool(bool),
    Number(u64),
    Text(#[serde(borrow)] Cow<'a, str>),
    Null(()),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Members of a message. Each is taken once; the rest are unknown.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Members<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        // The library's own text may quote the input.
        serde_json::from_slice(bytes)
            .map_err(|_| MessageError("expected one JSON object, with no member twice and at most 32".into()))
    }

    fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<u64, MessageError> {
        match self.take(name) {
            Some(Value::Number(number)) => Ok(number),
            _ => malformed(name, "expected a whole number"),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, MessageError> {
        match self.take(name) {
            Some(Value::Bool(flag)) => Ok(flag),
            _ => malformed(name, "expected true or false"),
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Cow<'a, str>, MessageError> {
        match self.take(name) {
            Some(Value::Text(text)) => Ok(text),
            _ => malformed(name, "expected a text"),
        }
    }

    /// Takes a text that may be absent; null counts as absent.
    fn text_if_there(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, MessageError> {
        match self.take(name) {
            None | Some(Value::Null(())) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            _ => malformed(name, "expected a text or null"),
        }
    }

    fn optional_text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, MessageError> {
        match self.take(name) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null(())) => Ok(None),
            _ => malformed(name, "expected a text or null"),
        }
    }

    fn count(&mut self, name: &str) -> Result<usize, MessageError> {
        Ok(usize::try_from(self.number(name)?).unwrap_or(usize::MAX))
    }

    pub(crate) fn id(&mut self, name: &str) -> Result<SessionId, MessageError> {
        let text = self.text(name)?;
        SessionId::parse(&text).or_else(|_| malformed(name, "expected S- or A- and 32 of 0-9a-f"))
    }

    pub(crate) fn claim_key(&mut self, name: &str) -> Result<ClaimKey, MessageError> {
        let text = self.text(name)?;
        let is_hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match u128::from_str_radix(&text, 16) {
            Ok(key) if is_hex => Ok(ClaimKey(key.to_be_bytes())),
            _ => malformed(name, "expected 32 of 0-9a-f"),
        }
    }

    /// Checks that no member is left over.
    pub(crate) fn end(self) -> Result<(), MessageError> {
        match self.0.first() {
            None => Ok(()),
            // A short name is useful in the error, a long one may be anything.
            Some((name, _)) if name.len() <= 32 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                malformed(name, "unknown member")
            }
            Some(_) => Err(MessageError("an unknown member".into())),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, Value<'de>)> = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    if members.len() == MEMBERS_MAX || members.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom("a member twice, or too many"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// Encodes a session with its key, in the clear.
pub(crate) fn encode_session(record: &SessionRecord) -> Zeroizing<String> {
    let text = |text: &Option<Box<str>>| serde_json::json!(text.as_deref()).to_string();
    let key = Zeroizing::new(base64::encode(record.key.expose()));
    let SessionRecord { id, wire, client_id, subject, tenant, auth, lineage, created_ms, expires_ms, .. } = record;
    // Has capacity for the longest message: a reallocation would leave a copy of the key in memory.
    let mut message = Zeroizing::new(String::with_capacity(4096));
    message.push_str(&format!(r#"{{"id":"{id}","wire":{},"client_id":{},"#, wire.name(), text(client_id)));
    message.push_str(&format!(r#""subject":{},"created_ms":{created_ms},"expires_ms":{expires_ms},"#, text(subject)));
    // Left out if empty: an authority of the previous release rejects members that it does not know.
    if tenant.is_some() {
        message.push_str(&format!(r#""tenant":{},"#, text(tenant)));
    }
    if *auth != Auth::None {
        message.push_str(&format!(r#""auth":"{}","#, auth.name()));
    }
    if let Some(lineage) = lineage {
        message.push_str(&format!(r#""lineage":"{lineage}","#));
    }
    message.push_str(r#""key":""#);
    message.push_str(&key);
    message.push_str("\"}");
    message
}

/// Decodes a session; the caller, which has a clock, checks its times.
pub(crate) fn decode_session(bytes: &[u8]) -> Result<SessionRecord, MessageError> {
    let mut members = Members::parse(bytes)?;
    let id = members.id("id")?;
    let Some(wire) = u8::try_from(members.number("wire")?).ok().and_then(Wire::from_number) else {
        return malformed("wire", "expected 1, 2 or 3");
    };
    let client_id = members.optional_text("client_id")?;
    match (wire, &client_id) {
        (Wire::V1, None) => {}
        (Wire::V2 | Wire::Native | Wire::OneShot, Some(text)) if ClientId::parse(text).is_ok() => {}
        (Wire::V1, Some(_)) => return malformed("client_id", "a session of wire 1 has none"),
        (Wire::V2 | Wire::Native | Wire::OneShot, _) => {
            return malformed("client_id", "expected 1 to 256 characters of printable ASCII without |");
        }
    }
    if wire != Wire::V1 && id.is_anonymous() {
        return malformed("id", "only a session of wire 1 is anonymous");
    }
    let subject = members.optional_text("subject")?;
    if subject.as_ref().is_some_and(|subject| subject.is_empty() || subject.len() > SUBJECT_LEN_MAX) {
        return malformed("subject", "expected 1 to 256 bytes");
    }
    let tenant = members.text_if_there("tenant")?;
    if tenant.as_ref().is_some_and(|tenant| tenant.is_empty() || tenant.len() > SUBJECT_LEN_MAX) {
        return malformed("tenant", "expected 1 to 256 bytes");
    }
    let auth = match members.text_if_there("auth")? {
        None => Auth::None,
        Some(name) => match Auth::from_name(&name) {
            Some(auth) => auth,
            None => return malformed("auth", "expected none, bearer, dpop or certificate"),
        },
    };
    let lineage = members.text_if_there("lineage")?;
    let Ok(lineage) = lineage.map(|lineage| SessionId::parse(&lineage)).transpose() else {
        return malformed("lineage", "expected S- and 32 of 0-9a-f");
    };
    let (created_ms, expires_ms) = (members.number("created_ms")?, members.number("expires_ms")?);
    if expires_ms <= created_ms {
        return malformed("expires_ms", "is not after created_ms");
    }
    let text = members.text("key")?;
    let Ok(mut bytes) = base64::decode_array(&*text) else { return malformed("key", "expected 32 bytes in base64") };
    let key = SessionKey::from_bytes(bytes);
    bytes.zeroize();
    members.end()?;
    let boxed = |text: Option<Cow<'_, str>>| text.map(|text| text.into_owned().into_boxed_str());
    Ok(SessionRecord {
        id,
        wire,
        client_id: boxed(client_id),
        subject: boxed(subject),
        tenant: boxed(tenant),
        auth,
        lineage,
        created_ms,
        expires_ms,
        key,
    })
}

/// Encodes a claim key as hexadecimal text.
pub(crate) fn hex(key: ClaimKey) -> String {
    format!("{:032x}", u128::from_be_bytes(key.0))
}

/// Fields of a claim on the wire. Expiry and clock are the authority's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassedClaim {
    pub(crate) key: ClaimKey,
    pub(crate) sealed: bool,
    pub(crate) stamp_ms: u64,
}

impl PassedClaim {
    pub(crate) fn encode(&self) -> String {
        format!(r#"{{"key":"{}","sealed":{},"stamp_ms":{}}}"#, hex(self.key), self.sealed, self.stamp_ms)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut members = Members::parse(bytes)?;
        let claim = PassedClaim {
            key: members.claim_key("key")?,
            sealed: members.flag("sealed")?,
            stamp_ms: members.number("stamp_ms")?,
        };
        members.end()?;
        Ok(claim)
    }
}

/// State that an authority reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) up: bool,
    pub(crate) postgres: Part,
    pub(crate) redis: Part,
    pub(crate) sessions: usize,
    pub(crate) nonces: (usize, usize),
    pub(crate) pool: Pool,
    pub(crate) now_ms: u64,
    pub(crate) window_ms: u64,
}

impl State {
    pub(crate) fn of(status: &Status, now_ms: u64, window_ms: u64) -> Self {
        let &Status { up, postgres, redis, sessions, nonces, pool, .. } = status;
        State { up, postgres, redis, sessions, nonces, pool, now_ms, window_ms }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::json!({
            "up": self.up,
            "postgres": part_name(self.postgres),
            "redis": part_name(self.redis),
            "sessions": self.sessions,
            "sealed_nonces": self.nonces.0,
            "init_nonces": self.nonces.1,
            "pool_total": self.pool.total,
            "pool_idle": self.pool.idle,
            "pool_waiting": self.pool.waiting,
            "now_ms": self.now_ms,
            "window_ms": self.window_ms,
        })
        .to_string()
    }

    /// Ignores further members, which a later release may add.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut members = Members::parse(bytes)?;
        Ok(State {
            up: members.flag("up")?,
            postgres: part(&mut members, "postgres")?,
            redis: part(&mut members, "redis")?,
            sessions: members.count("sessions")?,
            nonces: (members.count("sealed_nonces")?, members.count("init_nonces")?),
            pool: Pool {
                total: members.count("pool_total")?,
                idle: members.count("pool_idle")?,
                waiting: members.count("pool_waiting")?,
            },
            now_ms: members.number("now_ms")?,
            window_ms: members.number("window_ms")?,
        })
    }
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Unused => "unused",
        Part::Up => "up",
        Part::Down => "down",
    }
}

fn part(members: &mut Members<'_>, name: &str) -> Result<Part, MessageError> {
    match &*members.text(name)? {
        "unused" => Ok(Part::Unused),
        "up" => Ok(Part::Up),
        "down" => Ok(Part::Down),
        _ => malformed(name, "expected unused, up or down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = r#"{"id":"S-00112233445566778899aabbccddeeff","wire":2,"client_id":"web","subject":null,"created_ms":1,"expires_ms":2,"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU="}"#;
    const CLAIM: &str = r#"{"key":"000102030405060708090a0b0c0d0e0f","sealed":true,"stamp_ms":5}"#;

    #[test]
    fn a_session_comes_back_as_it_was_sent() {
        for (wire, client_id, subject, tenant, auth) in [
            (Wire::V1, None, Some("\u{e9}\"\\\u{1}"), None, Auth::None),
            (Wire::V2, Some("a\"b\\c"), None, None, Auth::Bearer),
            (Wire::V2, Some("web"), Some("x"), Some("\u{e9}\"\\\u{1}"), Auth::None),
            (Wire::Native, Some("web"), Some("x"), Some("acme"), Auth::Dpop),
            (Wire::Native, Some("web"), None, None, Auth::Certificate),
        ] {
            let record = SessionRecord {
                id: SessionId::from_random(&[3; 16], wire == Wire::V1),
                wire,
                client_id: client_id.map(Into::into),
                subject: subject.map(Into::into),
                tenant: tenant.map(Into::into),
                auth,
                lineage: None,
                created_ms: 1,
                expires_ms: u64::MAX,
                key: SessionKey::from_bytes([5; 32]),
            };
            let back = decode_session(encode_session(&record).as_bytes()).unwrap();
            assert_eq!((back.id, back.wire), (record.id, record.wire));
            assert_eq!((&back.client_id, &back.subject), (&record.client_id, &record.subject));
            assert_eq!((&back.tenant, back.auth), (&record.tenant, record.auth));
            assert_eq!((back.created_ms, back.expires_ms), (record.created_ms, record.expires_ms));
            assert_eq!(back.key.expose(), record.key.expose());
        }
    }

    #[test]
    fn a_malformed_session_is_rejected_by_member_name_without_its_value() {
        decode_session(SESSION.as_bytes()).unwrap();
        for (from, to, member) in [
            ("S-00", "S-0", "id: "),
            ("S-00", "A-00", "id: "),
            (":2,\"client", ":4,\"client", "wire: "),
            (":2,\"client", ":258,\"client", "wire: "),
            ("\"key\"", "\"tenant\":\"\",\"key\"", "tenant: "),
            ("\"key\"", "\"tenant\":7,\"key\"", "tenant: "),
            ("\"key\"", "\"auth\":\"BQUF\",\"key\"", "auth: "),
            ("\"key\"", "\"auth\":[],\"key\"", "auth: "),
            (":2,\"client", ":2.0,\"client", "wire: "),
            (":2,\"client", ":1,\"client", "client_id: "),
            ("\"web\"", "null", "client_id: "),
            ("\"web\"", "\"a|b\"", "client_id: "),
            ("\"web\"", "[7]", "client_id: "),
            ("null", "\"\"", "subject: "),
            ("null", "{\"BQUF\":1}", "subject: "),
            ("\"subject\":null,", "", "subject: "),
            ("_ms\":1", "_ms\":-1", "created_ms: "),
            ("_ms\":1", "_ms\":18446744073709551616", "created_ms: "),
            ("_ms\":1", "_ms\":2", "expires_ms: "),
            ("BQUFBQU=", "BQUFBQ==", "key: "),
            ("\"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU=\"", "7", "key: "),
            ("}", ",\"more\":0}", "more: unknown"),
            ("}", ",\"BQUF\":0}", "an unknown member"),
            ("}", ",\"id\":0}", "expected one JSON object"),
            ("}", "", "expected one JSON object"),
            ("}", "}{", "expected one JSON object"),
            (SESSION, "\"BQUF\"", "expected one JSON object"),
        ] {
            let message = SESSION.replacen(from, to, 1);
            assert_ne!(message, SESSION, "{from}");
            let err = decode_session(message.as_bytes()).unwrap_err().to_string();
            assert!(err.starts_with(member), "{message}: {err}");
            assert!(!err.contains("BQUF"), "{message}: {err}");
        }
    }

    #[test]
    fn a_claim_comes_back_and_a_malformed_one_is_refused() {
        let claim = PassedClaim::decode(CLAIM.as_bytes()).unwrap();
        assert_eq!(claim.encode(), CLAIM);
        for (from, to, member) in [
            ("0e0f", "0e0", "key: "),
            ("0e0f", "0e0F", "key: "),
            ("\"0001", "\"+001", "key: "),
            ("true", "1", "sealed: "),
            (":5", ":\"5\"", "stamp_ms: "),
            ("}", ",\"expires_ms\":9}", "expires_ms: unknown"),
        ] {
            let err = PassedClaim::decode(CLAIM.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(err.starts_with(member), "{to}: {err}");
        }
    }

    #[test]
    fn a_state_comes_back_and_may_have_more_members() {
        let state = State {
            up: true,
            postgres: Part::Up,
            redis: Part::Down,
            sessions: 1,
            nonces: (2, 3),
            pool: Pool { total: 4, idle: 5, waiting: 6 },
            now_ms: 7,
            window_ms: 8,
        };
        let message = state.encode();
        assert_eq!(State::decode(message.as_bytes()), Ok(state));
        assert_eq!(State::decode(message.replacen('{', r#"{"later":[1],"#, 1).as_bytes()), Ok(state));
        assert!(State::decode(message.replace("down", "away").as_bytes()).unwrap_err().0.starts_with("redis: "));
        assert!(State::decode(b"{}").is_err());
    }
}
