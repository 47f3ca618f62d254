//! Messages between a relay and its endpoints before anything is encrypted: tokens, grants, the attach message, and the causes
//! of closes. `spec/relay.md` is the contract.
//!
//! This module does not know the messages of paired endpoints, nor WebSockets: it sees messages, and names close codes.

mod attach;
mod b64u;
mod close;
mod grant;
mod json;
mod keys;
mod mint;
mod token;

pub use attach::{ATTACH_LEN_MAX, Attach, AttachInvalid, EID_LEN_MAX, EID_LEN_MIN, Profile};
pub use b64u::{decode as b64u_decode, encode as b64u_encode};
pub use close::{CloseCause, CloseReasons};
pub use grant::{DirectInfo, Grant, GrantInvalid, NATIVE_SUITE_MIN};
pub use keys::{Binding, IssuerKey, KEYSET_LEN_MAX, KeyFileInvalid, Keyset};
pub use mint::{DEFAULT_NATIVE_SUITE, Issuer, MintInvalid, Minting, random_name};
pub use token::{Claims, Requirements, SKEW_S, TokenForm, TokenInvalid, verify};

/// The end of a channel that an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Begins the handshake; 1 on the wire.
    Client,
    /// Answers the handshake; 2 on the wire.
    Server,
}

impl Role {
    /// Returns the number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Role::Client => 1,
            Role::Server => 2,
        }
    }

    /// Returns the role of a number on the wire.
    pub fn from_number(number: u64) -> Option<Role> {
        match number {
            1 => Some(Role::Client),
            2 => Some(Role::Server),
            _ => None,
        }
    }

    /// Returns the role of the other end.
    pub fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

/// Longest record that [`looks_like_record`] accepts, without its header of 18 bytes.
const RECORD_LEN_MAX: u32 = 1 << 20;
/// The header of a record, of either profile.
pub const RECORD_HEADER_LEN: usize = 18;

/// Returns whether a message of `len` bytes that begins with `head` looks like an encrypted record: of v1 (`FSEC`, version 1)
/// or of the native profile (`SWNR`, version 1). More cannot be told without the keys.
pub fn looks_like_record(head: &[u8], len: usize) -> bool {
    let Some(header) = head.first_chunk::<RECORD_HEADER_LEN>() else { return false };
    let (Some(magic), Some(version), Some(rest)) = (header.first_chunk::<4>(), header.get(4), header.last_chunk::<4>())
    else {
        return false;
    };
    let rest = u32::from_be_bytes(*rest);
    let announced = usize::try_from(rest).ok().and_then(|rest| rest.checked_add(RECORD_HEADER_LEN));
    matches!(magic, b"FSEC" | b"SWNR") && *version == 1 && rest <= RECORD_LEN_MAX && announced == Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_recognised_by_its_header_and_length() {
        let record = |magic: &[u8; 4], version, rest: u32| {
            let mut head = magic.to_vec();
            head.extend([version, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            head.extend(rest.to_be_bytes());
            head
        };
        assert!(looks_like_record(&record(b"FSEC", 1, 16), 34));
        assert!(looks_like_record(&record(b"SWNR", 1, 0), 18));
        assert!(looks_like_record(&record(b"FSEC", 1, 1 << 20), 18 + (1 << 20)));
        assert!(!looks_like_record(&record(b"FSEC", 1, (1 << 20) + 1), 19 + (1 << 20)));
        assert!(!looks_like_record(&record(b"FSEC", 2, 16), 34));
        assert!(!looks_like_record(&record(b"FSEH", 1, 16), 34));
        assert!(!looks_like_record(&record(b"FSEC", 1, 16), 35));
        assert!(!looks_like_record(b"FSEC", 4));
    }

    #[test]
    fn each_role_has_its_number_and_its_peer() {
        for (role, number, other) in [(Role::Client, 1, Role::Server), (Role::Server, 2, Role::Client)] {
            assert_eq!((role.number(), role.other()), (number, other));
            assert_eq!(Role::from_number(number.into()), Some(role));
        }
        assert_eq!([0, 3].map(Role::from_number), [None; 2]);
    }

    #[test]
    fn a_cause_has_a_reason_in_either_style_or_none() {
        let cause = CloseCause::AttachTimeout;
        assert_eq!((cause.code(), cause.token()), (1002, "timeout"));
        assert_eq!(
            [CloseReasons::Words, CloseReasons::Tokens].map(|style| cause.reason(style)),
            ["expected attach", "timeout"]
        );
        let cause = CloseCause::RecordTooLarge;
        assert_eq!((cause.code(), cause.token()), (1009, "record_too_large"));
        assert_eq!([CloseReasons::Words, CloseReasons::Tokens].map(|style| cause.reason(style)), [""; 2]);
    }

    #[test]
    fn texts_are_written_so_that_they_can_stand_in_a_script() {
        let mut out = alloc::string::String::from("{");
        json::push_member(&mut out, "a<", "\"\\\n\r\t\u{0}\u{1f} <>&\u{2028}\u{2029}\u{e9}/");
        json::push_number(&mut out, "b", -7);
        let expected = r#"{"a\u003c":"\"\\\n\r\t\u0000\u001f \u003c\u003e\u0026\u2028\u2029"#;
        assert_eq!(out, alloc::format!("{expected}\u{e9}/\",\"b\":-7"));
    }
}
