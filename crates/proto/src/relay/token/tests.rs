use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use super::*;
use crate::crypto::signature::default_signatures;
use crate::relay::{Binding, KEYSET_LEN_MAX, KeyFileInvalid};

fn key() -> IssuerKey {
    let mut seed = [0; 32];
    for (index, byte) in seed.iter_mut().enumerate() {
        *byte = u8::try_from(index).unwrap();
    }
    IssuerKey::from_seed("k1", &seed, default_signatures()).unwrap()
}

fn keys() -> Keyset {
    Keyset::parse(key().keyset_text().as_bytes(), default_signatures()).unwrap()
}

fn claims() -> Claims {
    Claims {
        form: TokenForm::Fst1,
        kid: "k1".into(),
        aud: "relay".into(),
        iss: "issuer".into(),
        channel_id: "c".into(),
        role: 1,
        token_id: "t".into(),
        init_exp: 1120,
        iat: 1000,
        exp: 1060,
        idle_timeout_s: None,
    }
}

fn expected() -> Requirements {
    Requirements { aud: vec!["relay".into()], iss: vec!["issuer".into()], lifetime_max_s: 120 }
}

fn told(token: &str, now_s: i64) -> Result<Claims, TokenInvalid> {
    verify(token, &keys(), &expected(), now_s)
}

fn signed_payload(payload: &str) -> String {
    signed_as("FST1", payload)
}

fn signed_as(prefix: &str, payload: &str) -> String {
    let signed = format!("{prefix}.{}", b64u::encode(payload.as_bytes()));
    format!("{signed}.{}", b64u::encode(&key().sign(signed.as_bytes())))
}

#[test]
fn a_token_that_is_right_gives_its_claims() {
    let with_idle = Claims { idle_timeout_s: Some(7), ..claims() };
    for claims in [claims(), with_idle, Claims { channel_id: "<&>\u{2028}\"\\\u{1}".into(), ..claims() }] {
        assert_eq!(told(&claims.sign(&key()), 1000).unwrap(), claims);
    }
    let open = Requirements::default();
    let other = Claims { aud: "x".into(), iss: String::new(), exp: 1120, ..claims() }.sign(&key());
    assert!(verify(&other, &keys(), &open, 1000).is_ok(), "what is not configured is not compared");
}

#[test]
fn times_are_judged_to_the_second_with_the_skew() {
    let token = claims().sign(&key());
    assert!(told(&token, 970).is_ok());
    assert_eq!(told(&token, 969), Err(TokenInvalid::Early));
    assert!(told(&token, 1090).is_ok());
    assert_eq!(told(&token, 1091), Err(TokenInvalid::Expired));
    let late = Claims { init_exp: 1060, ..claims() }.sign(&key());
    assert!(told(&late, 1090).is_ok());
    let early_init = Claims { exp: 1061, init_exp: 1060, ..claims() }.sign(&key());
    assert_eq!(told(&early_init, 1000), Err(TokenInvalid::Lifetime));
    let init_over = Claims { exp: 1060, init_exp: 1020, ..claims() }.sign(&key());
    assert_eq!(told(&init_over, 1051), Err(TokenInvalid::InitExpired), "before that exp is after it");
    let long = Claims { exp: 1121, init_exp: 1200, ..claims() }.sign(&key());
    assert_eq!(told(&long, 1000), Err(TokenInvalid::Lifetime));
}

#[test]
fn the_first_error_in_the_order_of_the_spec_is_reported() {
    let token = claims().sign(&key());
    for bad in ["", "FST1", "FST1.a", "FST3.a.b", "FST1.a.b.c", "fst1.a.b"] {
        assert_eq!(told(bad, 0), Err(TokenInvalid::Shape), "{bad}");
    }
    assert_eq!(told("FST1.a=.b", 0), Err(TokenInvalid::Encoding));
    assert_eq!(told(&format!("{token}="), 1000), Err(TokenInvalid::Encoding));
    assert_eq!(told("FST1.e30x.", 1000), Err(TokenInvalid::Payload));
    for payload in ["7", "[]", r#"{"kid":7}"#, r#"{"kid":"k1","role":256}"#, r#"{"kid":"k1","exp":1.5}"#] {
        assert_eq!(told(&signed_payload(payload), 1000), Err(TokenInvalid::Payload), "{payload}");
    }
    let stranger = IssuerKey::from_seed("k2", &[9; 32], default_signatures()).unwrap();
    assert_eq!(told(&Claims { kid: "k2".into(), ..claims() }.sign(&stranger), 0), Err(TokenInvalid::KeyUnknown));
    let forged = Claims { aud: "x".into(), ..claims() }.sign(&stranger);
    assert_eq!(told(&forged, 1000), Err(TokenInvalid::Signature));
    let aud = Claims { aud: "x".into(), iss: "x".into(), exp: 0, ..claims() }.sign(&key());
    assert_eq!(told(&aud, 1000), Err(TokenInvalid::Audience));
    let iss = Claims { iss: "x".into(), iat: 9999, ..claims() }.sign(&key());
    assert_eq!(told(&iss, 1000), Err(TokenInvalid::Issuer));
}

#[test]
fn no_byte_of_a_token_can_be_changed() {
    let token = claims().sign(&key());
    for at in 0..token.len() {
        for change in [0x01_u8, 0x20] {
            let mut bytes = token.clone().into_bytes();
            bytes[at] ^= change;
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(told(&changed, 1000).is_err(), "byte {at}");
            }
        }
    }
}

#[test]
fn a_token_of_the_later_form_has_all_required_claims_and_a_signed_prefix() {
    let good = Claims { form: TokenForm::Fst2, idle_timeout_s: Some(60), ..claims() };
    let token = good.sign(&key());
    assert!(token.starts_with("FST2."));
    assert_eq!(told(&token, 1000).unwrap(), good);
    assert_eq!(Claims::read_unverified(&token).unwrap(), good);
    let payload = b64u::decode(token.split('.').nth(1).unwrap()).unwrap();
    let payload = String::from_utf8(payload).unwrap();
    let order =
        ["kid", "aud", "iss", "channel_id", "role", "token_id", "init_exp", "idle_timeout_seconds", "iat", "exp"];
    let places: Vec<_> = order.iter().map(|name| payload.find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{payload}");
    assert_eq!(told(&token.replacen("FST2", "FST1", 1), 1000), Err(TokenInvalid::Signature));
    for (was, is) in [
        (r#""idle_timeout_seconds":60,"#, ""),
        (r#""idle_timeout_seconds":60"#, r#""idle_timeout_seconds":0"#),
        (r#""idle_timeout_seconds":60"#, r#""idle_timeout_seconds":-1"#),
        (r#""idle_timeout_seconds":60"#, r#""idle_timeout_seconds":"60""#),
        (r#""role":1"#, r#""role":3"#),
        (r#""token_id":"t""#, r#""token_id":" ""#),
        (r#""channel_id":"c""#, r#""channel_id":"""#),
        (r#""iat":1000"#, r#""iat":1061"#),
    ] {
        assert!(payload.contains(was), "{was}");
        assert_eq!(told(&signed_as("FST2", &payload.replace(was, is)), 1000), Err(TokenInvalid::Payload), "{is}");
    }
}

#[test]
fn a_token_may_live_as_long_as_the_longest_lifetime_and_no_second_longer() {
    let lasting = |lifetime_s: i64, max_s: i64| {
        let claims = Claims { exp: 1000 + lifetime_s, init_exp: 2000, ..claims() };
        let expected = Requirements { lifetime_max_s: max_s, ..expected() };
        verify(&claims.sign(&key()), &keys(), &expected, 1000).map(|_| ())
    };
    assert_eq!((lasting(120, 120), lasting(121, 120)), (Ok(()), Err(TokenInvalid::Lifetime)));
    assert_eq!(lasting(900, 0), Ok(()), "0 is no bound");
}

#[test]
fn each_reason_has_a_code_of_its_own_and_claims_show_no_name_of_a_channel() {
    let all = [
        (TokenInvalid::Shape, "token_shape"),
        (TokenInvalid::Encoding, "token_encoding"),
        (TokenInvalid::Payload, "token_payload"),
        (TokenInvalid::KeyUnknown, "token_key_unknown"),
        (TokenInvalid::Signature, "token_signature"),
        (TokenInvalid::Audience, "token_audience"),
        (TokenInvalid::Issuer, "token_issuer"),
        (TokenInvalid::Early, "token_early"),
        (TokenInvalid::Expired, "token_expired"),
        (TokenInvalid::InitExpired, "token_init_expired"),
        (TokenInvalid::Lifetime, "token_lifetime"),
    ];
    assert_eq!(all.map(|(reason, _)| reason.code()), all.map(|(_, code)| code));
    let claims = Claims { channel_id: "a name".into(), ..claims() };
    assert_eq!(claims.to_string(), "role 1 of a channel, by key k1");
}

#[test]
fn a_key_that_is_bound_signs_for_its_own_tenant_alone() {
    let binding = |iss: &str, aud: &str| Binding { iss: Some(iss.into()), aud: Some(vec![aud.into()]) };
    let other = IssuerKey::from_seed("k2", &[9; 32], default_signatures()).unwrap();
    let entries = [key().bound_keyset_text(&binding("alice", "a")), other.bound_keyset_text(&binding("bob", "b"))];
    let inner = entries.each_ref().map(|text| text.strip_prefix(r#"{"keys":["#).unwrap().strip_suffix("]}").unwrap());
    let text = format!(r#"{{"keys":[{}]}}"#, inner.join(","));
    let keys = Keyset::parse(text.as_bytes(), default_signatures()).unwrap();
    assert_eq!((keys.encode(), keys.unbound().count()), (text, 0));
    let expected = Requirements { aud: vec!["a".into(), "b".into()], iss: vec![], lifetime_max_s: 0 };
    let judge = |kid: &str, signer: &IssuerKey, iss: &str, aud: &str| {
        let claims = Claims { kid: kid.into(), iss: iss.into(), aud: aud.into(), ..claims() };
        verify(&claims.sign(signer), &keys, &expected, 1000).map(|_| ())
    };
    assert_eq!(judge("k1", &key(), "alice", "a"), Ok(()));
    assert_eq!(judge("k2", &other, "bob", "b"), Ok(()));
    assert_eq!(judge("k2", &other, "alice", "a"), Err(TokenInvalid::Audience));
    assert_eq!(judge("k2", &other, "bob", "a"), Err(TokenInvalid::Audience));
    assert_eq!(judge("k2", &other, "alice", "b"), Err(TokenInvalid::Issuer));
    assert_eq!(judge("k1", &key(), "", "a"), Err(TokenInvalid::Issuer), "no issuer is another one");
    assert_eq!(judge("k1", &other, "alice", "a"), Err(TokenInvalid::Signature), "another's name");
    let half = key().bound_keyset_text(&Binding { iss: Some("alice".into()), aud: None });
    let half = Keyset::parse(half.as_bytes(), default_signatures()).unwrap();
    assert_eq!(half.unbound().collect::<Vec<_>>(), ["k1"]);
    for bad in [r#""iss":7"#, r#""iss":null"#, r#""aud":"a""#, r#""aud":[]"#, r#""aud":[1]"#] {
        let text = key().keyset_text().replace(r#""kid":"#, &format!(r#"{bad},"kid":"#));
        let err = Keyset::parse(text.as_bytes(), default_signatures()).unwrap_err();
        assert!(matches!(err, KeyFileInvalid::Binding(_)), "{bad}: {err}");
    }
}

#[test]
fn absent_members_are_zero_and_an_idle_time_of_nothing_is_none() {
    let bare = signed_payload(r#"{"kid":"k1","init_exp":9000,"exp":8000,"idle_timeout_seconds":-1,"role":null}"#);
    let claims = verify(&bare, &keys(), &Requirements::default(), 7000).unwrap();
    assert_eq!((claims.role, claims.idle_timeout_s, claims.token_id.as_str()), (0, None, ""));
    let huge = signed_payload(r#"{"kid":"k1","init_exp":9000,"exp":8000,"idle_timeout_seconds":2147483648}"#);
    assert_eq!(verify(&huge, &keys(), &Requirements::default(), 7000), Err(TokenInvalid::Payload));
}

#[test]
fn keysets_are_read_strictly_and_shown_without_keys() {
    let parse = |text: &str| Keyset::parse(text.as_bytes(), default_signatures()).map(|keys| format!("{keys:?}"));
    let one = r#"{"kid":"k1","pubkey_b64u":"A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"}"#;
    assert_eq!(parse(&format!(r#"{{"keys":[{one}],"other":1}}"#)).unwrap(), r#"{"k1"}"#);
    assert!(matches!(parse(&format!(r#"{{"keys":[{one},{one}]}}"#)), Err(KeyFileInvalid::Kid(_))));
    assert!(matches!(parse(r#"{"keys":[]}"#), Err(KeyFileInvalid::Count)));
    assert!(matches!(parse(r#"{"keys":{}}"#), Err(KeyFileInvalid::Shape(_))));
    assert!(matches!(parse(r#"{"keys":[{"kid":"","pubkey_b64u":"AA"}]}"#), Err(KeyFileInvalid::Kid(_))));
    assert!(matches!(parse(r#"{"keys":[{"kid":"a","pubkey_b64u":"AA"}]}"#), Err(KeyFileInvalid::Key(_))));
    assert!(matches!(parse(&" ".repeat(KEYSET_LEN_MAX + 1)), Err(KeyFileInvalid::TooLarge)));
    let keys = keys();
    assert_eq!(Keyset::parse(keys.encode().as_bytes(), default_signatures()).unwrap().encode(), keys.encode());
    let file = IssuerKey::encode_seed("k1", &[3; 32]);
    let read = IssuerKey::parse(file.as_bytes(), default_signatures()).unwrap();
    assert_eq!((read.kid(), format!("{read:?}")), ("k1", "IssuerKey { kid: \"k1\", .. }".to_string()));
    assert!(IssuerKey::parse(br#"{"kid":"k1"}"#, default_signatures()).is_err());
}
