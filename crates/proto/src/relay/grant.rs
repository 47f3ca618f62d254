//! Grants that a control plane gives to endpoints: one for each end of a channel, or the way to a direct one.
//! SPEC relay.md#grants

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::{Role, b64u, json};

/// Suites from here up are of the native profile, those below of v1.
pub const NATIVE_SUITE_MIN: u16 = 0x100;
/// Longest grant that is parsed, in bytes.
const GRANT_LEN_MAX: usize = 64 * 1024;
/// Most suites that a grant allows.
const SUITES_MAX: usize = 64;

/// A grant is invalid: the name of the member at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {0} of the grant is absent or wrong")]
pub struct GrantInvalid(pub &'static str);

/// The grant of one endpoint for a channel through a relay. Its `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// The relay: `ws://` or `wss://`.
    pub tunnel_url: String,
    /// The channel's id; not empty.
    pub channel_id: String,
    /// End of the time in which the channel must begin, in seconds since the Unix epoch.
    pub init_exp_s: i64,
    /// Longest time that the channel may stay without a message, in seconds.
    pub idle_timeout_s: u32,
    /// This endpoint's end of the channel.
    pub role: Role,
    /// The token to attach with.
    pub token: String,
    /// The pre-shared key, which both ends know and the relay does not: 32 bytes.
    pub psk: Zeroizing<[u8; 32]>,
    /// The suites that may be used; 1 to 64.
    pub allowed_suites: Vec<u16>,
    /// The suite to use; one of the allowed ones.
    pub default_suite: u16,
    /// The Noise pattern of a native channel, such as `NNpsk0`.
    pub noise_pattern: Option<String>,
    /// The peer's static public key, where it is pinned.
    pub peer_static: Option<Vec<u8>>,
}

impl Grant {
    /// Returns whether it is for the native profile; otherwise it is for v1.
    pub fn is_native(&self) -> bool {
        self.default_suite >= NATIVE_SUITE_MIN
    }

    /// Parses a grant. Unknown members are ignored.
    ///
    /// # Errors
    /// [`GrantInvalid`], naming the member.
    pub fn parse(bytes: &[u8]) -> Result<Grant, GrantInvalid> {
        if bytes.len() > GRANT_LEN_MAX {
            return Err(GrantInvalid("(its length)"));
        }
        let mut object = json::object(bytes).ok_or(GrantInvalid("(its JSON)"))?;
        let grant = Grant::read(&object);
        if let Some(Value::String(secret)) = object.get_mut("e2ee_psk_b64u") {
            secret.zeroize();
        }
        grant
    }

    /// Reads a grant, as [`Grant::parse`], from a parsed value.
    ///
    /// # Errors
    /// [`GrantInvalid`].
    fn read(object: &Value) -> Result<Grant, GrantInvalid> {
        let text = |name: &'static str| {
            json::text(object, name).filter(|text| !text.is_empty()).map(str::to_owned).ok_or(GrantInvalid(name))
        };
        let whole = |name: &'static str| json::whole(object, name).ok_or(GrantInvalid(name));
        let optional = |name: &'static str| match json::text(object, name) {
            Some("") => Ok(None),
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(GrantInvalid(name)),
        };
        let (default_suite, allowed_suites) = suites(object)?;
        let peer_static = optional("peer_static_b64u")?;
        Ok(Grant {
            tunnel_url: text("tunnel_url")?,
            channel_id: text("channel_id")?,
            init_exp_s: whole("channel_init_expire_at_unix_s")?,
            idle_timeout_s: u32::try_from(whole("idle_timeout_seconds")?.max(0))
                .map_err(|_| GrantInvalid("idle_timeout_seconds"))?,
            role: u64::try_from(whole("role")?).ok().and_then(Role::from_number).ok_or(GrantInvalid("role"))?,
            token: text("token")?,
            psk: psk(object)?,
            allowed_suites,
            default_suite,
            noise_pattern: optional("noise_pattern")?,
            peer_static: match peer_static {
                None => None,
                Some(text) => Some(b64u::decode(&text).ok_or(GrantInvalid("peer_static_b64u"))?),
            },
        })
    }

    /// Encodes the JSON text, which holds secrets.
    pub fn encode(&self) -> Zeroizing<String> {
        // The whole capacity at once: a text that grows leaves copies of the secret behind.
        let texts = self.tunnel_url.len() + self.channel_id.len() + self.token.len();
        let mut out = Zeroizing::new(String::with_capacity(texts * 6 + 2048));
        out.push('{');
        json::push_member(&mut out, "tunnel_url", &self.tunnel_url);
        json::push_member(&mut out, "channel_id", &self.channel_id);
        json::push_number(&mut out, "channel_init_expire_at_unix_s", self.init_exp_s);
        json::push_number(&mut out, "idle_timeout_seconds", i64::from(self.idle_timeout_s));
        json::push_number(&mut out, "role", i64::from(self.role.number()));
        json::push_member(&mut out, "token", &self.token);
        push_keys(&mut out, &self.psk, self.default_suite);
        json::push_name(&mut out, "allowed_suites");
        for (index, suite) in self.allowed_suites.iter().enumerate() {
            out.push(if index == 0 { '[' } else { ',' });
            let _ = fmt::Write::write_fmt(&mut *out, format_args!("{suite}"));
        }
        out.push_str(if self.allowed_suites.is_empty() { "[]" } else { "]" });
        if let Some(pattern) = &self.noise_pattern {
            json::push_member(&mut out, "noise_pattern", pattern);
        }
        if let Some(key) = &self.peer_static {
            json::push_member(&mut out, "peer_static_b64u", &b64u::encode(key));
        }
        out.push('}');
        out
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("tunnel_url", &self.tunnel_url)
            .field("channel_id", &self.channel_id)
            .field("role", &self.role)
            .field("default_suite", &self.default_suite)
            .finish_non_exhaustive()
    }
}

/// The grant of an endpoint for a channel without a relay. Its `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct DirectInfo {
    /// The server endpoint: `ws://` or `wss://`.
    pub ws_url: String,
    /// The channel's id; not empty.
    pub channel_id: String,
    /// The pre-shared key, which both ends know: 32 bytes.
    pub psk: Zeroizing<[u8; 32]>,
    /// The suite to use, v1's or a native one.
    pub default_suite: u16,
    /// End of the time in which the channel must begin, in seconds since the Unix epoch.
    pub init_exp_s: i64,
}

impl DirectInfo {
    /// Parses the JSON text. Unknown members are ignored.
    ///
    /// # Errors
    /// [`GrantInvalid`], naming the member.
    pub fn parse(bytes: &[u8]) -> Result<DirectInfo, GrantInvalid> {
        if bytes.len() > GRANT_LEN_MAX {
            return Err(GrantInvalid("(its length)"));
        }
        let object = json::object(bytes).ok_or(GrantInvalid("(its JSON)"))?;
        let text = |name: &'static str| {
            json::text(&object, name).filter(|text| !text.is_empty()).map(str::to_owned).ok_or(GrantInvalid(name))
        };
        let init_exp = "channel_init_expire_at_unix_s";
        Ok(DirectInfo {
            ws_url: text("ws_url")?,
            channel_id: text("channel_id")?,
            psk: psk(&object)?,
            default_suite: suite(object.get("default_suite")).ok_or(GrantInvalid("default_suite"))?,
            init_exp_s: json::whole(&object, init_exp).ok_or(GrantInvalid(init_exp))?,
        })
    }

    /// Encodes the JSON text, which holds a secret.
    pub fn encode(&self) -> Zeroizing<String> {
        let mut out = Zeroizing::new(String::with_capacity((self.ws_url.len() + self.channel_id.len()) * 6 + 512));
        out.push('{');
        json::push_member(&mut out, "ws_url", &self.ws_url);
        json::push_member(&mut out, "channel_id", &self.channel_id);
        push_keys(&mut out, &self.psk, self.default_suite);
        json::push_number(&mut out, "channel_init_expire_at_unix_s", self.init_exp_s);
        out.push('}');
        out
    }
}

impl fmt::Debug for DirectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectInfo")
            .field("ws_url", &self.ws_url)
            .field("channel_id", &self.channel_id)
            .field("default_suite", &self.default_suite)
            .finish_non_exhaustive()
    }
}

fn push_keys(out: &mut String, psk: &[u8; 32], default_suite: u16) {
    let psk = Zeroizing::new(b64u::encode(psk));
    json::push_member(out, "e2ee_psk_b64u", &psk);
    json::push_number(out, "default_suite", i64::from(default_suite));
}

fn psk(object: &Value) -> Result<Zeroizing<[u8; 32]>, GrantInvalid> {
    let text = json::text(object, "e2ee_psk_b64u");
    text.and_then(b64u::decode_array).map(Zeroizing::new).ok_or(GrantInvalid("e2ee_psk_b64u"))
}

fn suite(value: Option<&Value>) -> Option<u16> {
    value.and_then(Value::as_u64).and_then(|suite| u16::try_from(suite).ok())
}

/// Reads the default suite and the allowed ones, which contain it. Suites of both profiles in one grant are rejected: nobody
/// between the ends may choose the profile.
fn suites(object: &Value) -> Result<(u16, Vec<u16>), GrantInvalid> {
    let default = suite(object.get("default_suite")).ok_or(GrantInvalid("default_suite"))?;
    const NAME: &str = "allowed_suites";
    let list = object.get(NAME).and_then(Value::as_array).ok_or(GrantInvalid(NAME))?;
    if list.is_empty() || list.len() > SUITES_MAX {
        return Err(GrantInvalid(NAME));
    }
    let suites: Option<Vec<u16>> = list.iter().map(|value| suite(Some(value))).collect();
    let suites = suites.ok_or(GrantInvalid(NAME))?;
    let is_native = default >= NATIVE_SUITE_MIN;
    if !suites.contains(&default) || suites.iter().any(|suite| (*suite >= NATIVE_SUITE_MIN) != is_native) {
        return Err(GrantInvalid(NAME));
    }
    Ok((default, suites))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn grant() -> Grant {
        Grant {
            tunnel_url: "wss://relay.example/ws".into(),
            channel_id: "a<b".into(),
            init_exp_s: 1_700_000_120,
            idle_timeout_s: 60,
            role: Role::Server,
            token: "FST1.a.b".into(),
            psk: Zeroizing::new([7; 32]),
            allowed_suites: vec![0x101],
            default_suite: 0x101,
            noise_pattern: Some("NNpsk0".into()),
            peer_static: Some(vec![9; 32]),
        }
    }

    #[test]
    fn a_grant_is_read_as_it_was_written_and_shows_no_secret() {
        let grant = grant();
        assert_eq!(Grant::parse(grant.encode().as_bytes()).unwrap(), grant);
        let printed = format!("{grant:?}");
        assert!(!printed.contains("FST1") && !printed.contains("BwcH"), "{printed}");
        assert!(printed.contains("a<b"), "{printed}");
    }

    #[test]
    fn a_text_with_a_secret_never_grows_so_that_no_copy_of_it_stays_behind() {
        // Each of these characters becomes six.
        let long = "\u{1}".repeat(3000);
        let of = |text: &str| Grant {
            tunnel_url: text.into(),
            channel_id: text.into(),
            token: text.into(),
            noise_pattern: Some("XXpsk3".into()),
            ..grant()
        };
        for text in [&long[..1], &long[..700], &long] {
            let encoded = of(text).encode();
            assert!(encoded.len() > text.len() * 18);
            assert_eq!(encoded.capacity(), text.len() * 18 + 2048, "its capacity is that of the beginning");
            let info = DirectInfo {
                ws_url: text.into(),
                channel_id: text.into(),
                psk: Zeroizing::new([1; 32]),
                default_suite: 1,
                init_exp_s: 5,
            };
            assert_eq!(info.encode().capacity(), text.len() * 12 + 512);
        }
    }

    #[test]
    fn a_grant_with_a_wrong_member_names_it() {
        let good: Value = serde_json::from_str(&grant().encode()).unwrap();
        for (member, value) in [
            ("tunnel_url", "\"\""),
            ("channel_id", "null"),
            ("role", "3"),
            ("token", "1"),
            ("e2ee_psk_b64u", "\"AAAA\""),
            ("allowed_suites", "[]"),
            ("allowed_suites", "[1]"),
            ("allowed_suites", "[257,1]"),
            ("allowed_suites", "[65536]"),
            ("default_suite", "\"x\""),
            ("noise_pattern", "7"),
            ("peer_static_b64u", "\"=\""),
            ("idle_timeout_seconds", "1.5"),
            ("channel_init_expire_at_unix_s", "\"1\""),
        ] {
            let mut object = good.clone();
            object[member] = serde_json::from_str(value).unwrap();
            assert_eq!(Grant::read(&object), Err(GrantInvalid(member)), "{value}");
        }
    }

    #[test]
    fn direct_info_is_read_as_it_was_written() {
        let info = DirectInfo {
            ws_url: "ws://127.0.0.1:1/ws".into(),
            channel_id: "c".into(),
            psk: Zeroizing::new([1; 32]),
            default_suite: 1,
            init_exp_s: 5,
        };
        assert_eq!(DirectInfo::parse(info.encode().as_bytes()).unwrap(), info);
        let printed = format!("{info:?}");
        assert!(!printed.contains("AQEB") && printed.contains("127.0.0.1"), "{printed}");
    }

    #[test]
    fn a_grant_of_64_kibibytes_is_read_and_a_longer_one_is_not() {
        let info = DirectInfo {
            ws_url: "ws://127.0.0.1:1/ws".into(),
            channel_id: "c".into(),
            psk: Zeroizing::new([1; 32]),
            default_suite: 1,
            init_exp_s: 5,
        };
        let padded = |text: &str, len: usize| format!("{text}{}", " ".repeat(len - text.len()));
        for (len, is_read) in [(65_536, true), (65_537, false)] {
            let read = Grant::parse(padded(&grant().encode(), len).as_bytes());
            assert_eq!(read, if is_read { Ok(grant()) } else { Err(GrantInvalid("(its length)")) });
            let read = DirectInfo::parse(padded(&info.encode(), len).as_bytes());
            assert_eq!(read, if is_read { Ok(info.clone()) } else { Err(GrantInvalid("(its length)")) });
        }
        assert_eq!(Grant::parse(b"[]"), Err(GrantInvalid("(its JSON)")));
        assert_eq!(DirectInfo::parse(b"[]"), Err(GrantInvalid("(its JSON)")));
    }

    #[test]
    fn the_suites_of_a_grant_are_1_to_64_of_one_profile_with_the_default_one() {
        let read = |default_suite: u16, allowed_suites: &[u16]| {
            let grant = Grant { default_suite, allowed_suites: allowed_suites.to_vec(), ..grant() };
            Grant::parse(grant.encode().as_bytes()).map(|grant| (grant.is_native(), grant.allowed_suites.len()))
        };
        assert_eq!(read(NATIVE_SUITE_MIN, &[0x101, NATIVE_SUITE_MIN]), Ok((true, 2)));
        assert_eq!(read(NATIVE_SUITE_MIN - 1, &[1, NATIVE_SUITE_MIN - 1]), Ok((false, 2)));
        assert_eq!(read(1, &[1; 64]), Ok((false, 64)));
        for (default, allowed) in [
            (1, &[][..]),
            (1, &[1; 65]),
            (1, &[2]),
            (1, &[1, NATIVE_SUITE_MIN]),
            (NATIVE_SUITE_MIN, &[NATIVE_SUITE_MIN, NATIVE_SUITE_MIN - 1]),
        ] {
            assert_eq!(read(default, allowed), Err(GrantInvalid("allowed_suites")), "{default} {allowed:?}");
        }
    }

    #[test]
    fn absent_members_of_a_grant_are_none_and_an_idle_time_below_0_is_0() {
        let mut object: Value = serde_json::from_str(&grant().encode()).unwrap();
        object["noise_pattern"] = "".into();
        object["peer_static_b64u"] = Value::Null;
        object["idle_timeout_seconds"] = (-1).into();
        let expected = Grant { noise_pattern: None, peer_static: None, idle_timeout_s: 0, ..grant() };
        assert_eq!(Grant::read(&object), Ok(expected.clone()));
        let text = expected.encode();
        assert!(!text.contains("noise_pattern") && !text.contains("peer_static"), "{}", *text);
        object["idle_timeout_seconds"] = (1_u64 << 32).into();
        assert_eq!(Grant::read(&object), Err(GrantInvalid("idle_timeout_seconds")));
    }

    #[test]
    fn direct_info_with_a_wrong_member_names_it() {
        let info = r#"{"ws_url":"ws://a","channel_id":"c","e2ee_psk_b64u":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE","default_suite":1}"#;
        assert_eq!(DirectInfo::parse(info.as_bytes()).map(|info| info.init_exp_s), Ok(0));
        for (member, value) in [
            ("ws_url", "\"\""),
            ("channel_id", "null"),
            ("e2ee_psk_b64u", "\"AAAA\""),
            ("default_suite", "65536"),
            ("channel_init_expire_at_unix_s", "\"1\""),
        ] {
            let mut object: Value = serde_json::from_str(info).unwrap();
            object[member] = serde_json::from_str(value).unwrap();
            assert_eq!(DirectInfo::parse(object.to_string().as_bytes()), Err(GrantInvalid(member)), "{value}");
        }
    }
}
