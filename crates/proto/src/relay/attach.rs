//! The attach message: the first message of an endpoint to a relay, as one text message. SPEC relay.md#attach

use alloc::borrow::ToOwned;
use alloc::string::String;

use serde_json::Value;

use super::{Role, b64u, json};

/// Longest attach message, in bytes.
pub const ATTACH_LEN_MAX: usize = 8192;
/// Shortest instance id of an endpoint, decoded, in bytes.
pub const EID_LEN_MIN: usize = 16;
/// Longest instance id of an endpoint, decoded, in bytes.
pub const EID_LEN_MAX: usize = 32;

/// The attach message is malformed. The peer gets `invalid attach`, whatever the defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an attach message")]
pub struct AttachInvalid;

/// The rules that apply to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As v1: any endpoint with a token for the role replaces it.
    #[default]
    V1,
    /// The endpoint sent `"caps":{"profile":"native"}`: only the same instance may replace it.
    Native,
}

/// The attach message of an endpoint.
#[derive(Clone, PartialEq, Eq)]
pub struct Attach {
    /// The channel's id; not empty.
    pub channel_id: String,
    /// The endpoint's end of the channel.
    pub role: Role,
    /// A token of the control plane; not empty. A secret for as long as it has not been used.
    pub token: String,
    /// Names the endpoint's run: 16 to 32 random bytes in base64url.
    pub endpoint_instance_id: String,
    /// The rules that apply to the endpoint.
    pub profile: Profile,
}

impl core::fmt::Debug for Attach {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Attach").field("role", &self.role).field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Attach {
    /// Parses the JSON text of the message.
    ///
    /// # Errors
    /// [`AttachInvalid`].
    pub fn parse(message: &[u8]) -> Result<Attach, AttachInvalid> {
        Self::read(message).ok_or(AttachInvalid)
    }

    fn read(message: &[u8]) -> Option<Attach> {
        if message.len() > ATTACH_LEN_MAX {
            return None;
        }
        let object = json::object(message)?;
        if json::whole(&object, "v")? != 1 {
            return None;
        }
        let text = |name| json::text(&object, name).filter(|text| !text.is_empty());
        let (channel_id, token, eid) = (text("channel_id")?, text("token")?, text("endpoint_instance_id")?);
        let role = Role::from_number(u64::try_from(json::whole(&object, "role")?).ok()?)?;
        if !(EID_LEN_MIN..=EID_LEN_MAX).contains(&b64u::decode(eid)?.len()) {
            return None;
        }
        Some(Attach {
            channel_id: channel_id.to_owned(),
            role,
            token: token.to_owned(),
            endpoint_instance_id: eid.to_owned(),
            profile: profile(object.get("caps"))?,
        })
    }

    /// Encodes the text of the message.
    pub fn encode(&self) -> String {
        let mut out = String::from("{");
        json::push_number(&mut out, "v", 1);
        json::push_member(&mut out, "channel_id", &self.channel_id);
        json::push_number(&mut out, "role", i64::from(self.role.number()));
        json::push_member(&mut out, "token", &self.token);
        json::push_member(&mut out, "endpoint_instance_id", &self.endpoint_instance_id);
        if self.profile == Profile::Native {
            json::push_name(&mut out, "caps");
            out.push_str(r#"{"profile":"native"}"#);
        }
        out.push('}');
        out
    }
}

/// Reads the profile. Capabilities are texts by name; unknown ones are ignored.
fn profile(caps: Option<&Value>) -> Option<Profile> {
    match caps {
        None | Some(Value::Null) => Some(Profile::V1),
        Some(Value::Object(caps)) => {
            if !caps.values().all(|value| value.is_string() || value.is_null()) {
                return None;
            }
            let is_native = caps.get("profile").and_then(Value::as_str) == Some("native");
            Some(if is_native { Profile::Native } else { Profile::V1 })
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    const EID: &str = "AAECAwQFBgcICQoLDA0ODw";

    fn with(member: &str, value: &str) -> Result<Attach, AttachInvalid> {
        let mut object: Value = serde_json::from_str(&format!(
            r#"{{"v":1,"channel_id":"c","role":1,"token":"t","endpoint_instance_id":"{EID}"}}"#
        ))
        .unwrap();
        object[member] = serde_json::from_str(value).unwrap();
        Attach::parse(object.to_string().as_bytes())
    }

    #[test]
    fn malformed_attach_messages_are_rejected_and_unknown_members_are_ignored() {
        assert!(with("unknown", r#"{"deep":[1]}"#).is_ok());
        let native = with("caps", r#"{"profile":"native","x":"y"}"#).unwrap();
        assert_eq!((native.profile, native.role), (Profile::Native, Role::Client));
        assert_eq!(Attach::parse(native.encode().as_bytes()).unwrap(), native);
        for (member, value) in [
            ("v", "2"),
            ("v", "0"),
            ("v", "1.0"),
            ("v", "\"1\""),
            ("v", "null"),
            ("channel_id", "\"\""),
            ("channel_id", "7"),
            ("role", "0"),
            ("role", "3"),
            ("role", "257"),
            ("role", "-1"),
            ("role", "\"1\""),
            ("token", "\"\""),
            ("token", "null"),
            ("endpoint_instance_id", "\"\""),
            ("endpoint_instance_id", "\"AAECAwQFBgcICQoLDA0O\""),
            ("endpoint_instance_id", "\"AAECAwQFBgcICQoLDA0ODw==\""),
            ("endpoint_instance_id", "\"AAECAwQFBgcICQoLDA0ODx\""),
            ("endpoint_instance_id", "\"AAECAwQFBgcICQoLDA0OD+\""),
            ("endpoint_instance_id", "\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\""),
            ("caps", "[]"),
            ("caps", r#"{"profile":1}"#),
        ] {
            assert_eq!(with(member, value), Err(AttachInvalid), "{member} {value}");
        }
        for text in ["", "[]", "7", "{", "{}{}", "\u{feff}{}"] {
            assert_eq!(Attach::parse(text.as_bytes()), Err(AttachInvalid), "{text}");
        }
    }

    #[test]
    fn a_printed_attach_shows_no_token() {
        let text = format!("{:?}", with("token", "\"FST1.secret\"").unwrap());
        assert!(!text.contains("secret") && !text.contains(EID), "{text}");
    }

    #[test]
    fn an_attach_message_and_an_instance_id_have_lengths() {
        let v1 = with("caps", "null").unwrap();
        assert_eq!((v1.profile, &v1), (Profile::V1, &with("caps", r#"{"profile":"other","x":null}"#).unwrap()));
        let text = v1.encode();
        assert!(!text.contains("caps"), "{text}");
        for (len, read) in [(ATTACH_LEN_MAX, Ok(v1)), (ATTACH_LEN_MAX + 1, Err(AttachInvalid))] {
            let padded = format!("{text}{}", " ".repeat(len - text.len()));
            assert_eq!(Attach::parse(padded.as_bytes()), read, "{len}");
        }
        for (len, is_right) in [(15, false), (16, true), (32, true), (33, false)] {
            let eid = format!("{:?}", b64u::encode(&[7; 33][..len]));
            assert_eq!(with("endpoint_instance_id", &eid).is_ok(), is_right, "{len}");
        }
        assert_eq!(with("role", "2").map(|attach| attach.role), Ok(Role::Server));
    }
}
