//! The forms of header values at their edges.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

extern crate std;

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::error::Error;
use crate::wire::json::InitAnswer;

/// A session id: its head and as many digits.
fn id(head: &str, digits: &str) -> String {
    format!("{head}{digits}")
}

#[test]
fn base64_has_one_spelling_and_arrays_one_length() {
    assert_eq!((base64::encode(b""), base64::encode(&[0xfb, 0xff])), (String::new(), "+/8=".into()));
    assert_eq!(base64::decode("+/8="), Ok(vec![0xfb, 0xff]));
    for text in ["-_8=", "+/8", "+/9=", "+/8=\n", " +/8=", "+/8==", "é"] {
        assert_eq!(base64::decode(text), Err(Error::Base64Invalid), "{text}");
    }
    assert_eq!(base64::decode_array::<2>("+/8="), Ok([0xfb, 0xff]));
    assert_eq!(base64::decode_array::<3>("+/8="), Err(Error::Base64Invalid));
    assert_eq!(base64::decode_array::<1>("+/8="), Err(Error::Base64Invalid));
}

#[test]
fn a_client_id_is_printable_has_no_bar_and_256_bytes_at_most() {
    for text in ["a", " ", "~", "a b.c-d", &"x".repeat(256)] {
        assert_eq!(ClientId::parse(text).unwrap().as_str(), text);
    }
    for text in ["", "|", "a|b", "\t", "\u{1f}", "\u{7f}", "é", &"x".repeat(257)] {
        assert_eq!(ClientId::parse(text), Err(Error::HeaderInvalid(header::X_CLIENT_ID)), "{text}");
    }
}

#[test]
fn an_idempotency_key_has_two_parts() {
    assert_eq!(idempotency::split("1.a"), Ok(("1", "a")));
    for text in ["", ".", "1", "1.", ".a", "1.a.", "1.a.b", "..", "1..a"] {
        assert_eq!(idempotency::split(text), Err(Error::IdempotencyKeyShape), "{text}");
    }
}

#[test]
fn a_header_is_absent_one_printable_value_or_malformed() {
    let headers: Vec<(&str, &str)> = vec![
        ("X-One", "a \t~"),
        ("x-empty", ""),
        ("x-twice", "a"),
        ("X-Twice", "a"),
        ("x-del", "\u{7f}"),
        ("x-line", "a\nb"),
        ("x-high", "é"),
    ];
    let fields = [
        ("x-none", Field::Absent, Err(Error::HeaderMissing("x-none"))),
        ("x-one", Field::Value("a \t~"), Ok("a \t~")),
        ("x-empty", Field::Value(""), Err(Error::HeaderMissing("x-empty"))),
        ("x-twice", Field::Malformed, Err(Error::HeaderInvalid("x-twice"))),
        ("x-del", Field::Malformed, Err(Error::HeaderInvalid("x-del"))),
        ("x-line", Field::Malformed, Err(Error::HeaderInvalid("x-line"))),
        ("x-high", Field::Malformed, Err(Error::HeaderInvalid("x-high"))),
    ];
    for (name, field, required) in fields {
        assert_eq!((headers.field(name), headers.field(name).required(name)), (field, required));
    }
}

#[test]
fn a_request_is_of_wire_1_if_it_has_a_nonce_and_no_idempotency_key() {
    for (names, wire) in [
        (&[][..], Wire::V2),
        (&[header::X_NONCE][..], Wire::V1),
        (&[header::X_IDEMPOTENCY_KEY][..], Wire::V2),
        (&[header::X_NONCE, header::X_IDEMPOTENCY_KEY][..], Wire::V2),
    ] {
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (*name, "a")).collect();
        assert_eq!(Wire::of(&headers), wire, "{names:?}");
    }
}

#[test]
fn wires_have_numbers_and_names() {
    let wires = [(Wire::V1, 1, "1"), (Wire::V2, 2, "2"), (Wire::Native, 3, "3"), (Wire::OneShot, 4, "hpke")];
    for (wire, number, name) in wires {
        assert_eq!((wire.number(), wire.name()), (number, name));
        // No session is of wire 4.
        assert_eq!(Wire::from_number(number), Some(wire).filter(|_| number < 4));
    }
    assert_eq!((Wire::from_number(0), Wire::from_number(5)), (None, None));
}

#[test]
fn a_session_id_is_its_kind_and_32_lower_case_digits() {
    let digits = "09af".repeat(8);
    for (head, is_anonymous) in [("S-", false), ("A-", true)] {
        let text = id(head, &digits);
        let parsed = SessionId::parse(&text).unwrap();
        assert_eq!((parsed.as_str(), parsed.is_anonymous()), (text.as_str(), is_anonymous));
        assert_eq!((format!("{parsed}"), format!("{parsed:?}")), (text.clone(), text.clone()));
        assert_eq!(parsed.kid(), format!("session:{text}"));
        assert_eq!(SessionId::from_kid(&parsed.kid()), Ok(Ok(parsed)));
        assert_eq!(SessionId::from_kid(&text), Err(Error::KidPrefix));
        assert_eq!(SessionId::from_random(&[0x09; 16], is_anonymous).as_str(), id(head, &"09".repeat(16)));
    }
    for text in [
        id("", &digits),
        id("S-", ""),
        id("B-", &digits),
        id("s-", &digits),
        id("S_", &digits),
        id("S-", &digits[1..]),
        id("S-0", &digits),
        id("S-", &"09AF".repeat(8)),
        id("S-", &"09ag".repeat(8)),
        id("S-", &"09a`".repeat(8)),
        id("S-", &"09a/".repeat(8)),
        id("S-", &"09a:".repeat(8)),
    ] {
        assert_eq!(SessionId::parse(&text), Err(Error::SessionUnknown), "{text}");
    }
}

#[test]
fn the_answer_to_an_init_is_read_as_it_is_written() {
    let session_id = SessionId::from_random(&[7; 16], false);
    for enc_alg in ["A256GCM", "aes-256-gcm"] {
        let answer = InitAnswer { session_id, server_public: [4; 65], enc_alg, expires_in_sec: 1_800 };
        let text = answer.encode();
        let public = base64::encode(&[4; 65]);
        let expected = format!(
            r#"{{"sessionId":"{session_id}","serverPublicKey":"{public}","encAlg":"{enc_alg}","expiresInSec":1800}}"#
        );
        assert_eq!(text, expected);
        assert_eq!(InitAnswer::parse(text.as_bytes()), Ok(answer));
        let parse = |from: &str, to: &str| InitAnswer::parse(text.replace(from, to).as_bytes()).unwrap_err();
        assert_eq!(parse(enc_alg, "a256gcm"), Error::FieldInvalid("encAlg"));
        assert_eq!(parse("S-", "S_"), Error::FieldInvalid("sessionId"));
        assert_eq!(parse(&public, &public[4..]), Error::PublicKeyInvalid);
        assert_eq!(parse("1800", "4294967296"), Error::FieldInvalid("expiresInSec"));
        assert_eq!(parse("{", ""), Error::JsonInvalid);
    }
}
