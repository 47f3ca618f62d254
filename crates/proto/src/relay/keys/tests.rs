use alloc::format;
use alloc::string::ToString;
use alloc::vec;

use super::*;
use crate::crypto::signature::default_signatures;

const SEED: [u8; 32] = [3; 32];

fn key(kid: &str) -> Result<IssuerKey, KeyFileInvalid> {
    IssuerKey::from_seed(kid, &SEED, default_signatures())
}

fn parse(text: &str) -> Result<Keyset, KeyFileInvalid> {
    Keyset::parse(text.as_bytes(), default_signatures())
}

/// Formats a keyset of keys with these names.
fn keyset(kids: impl IntoIterator<Item = String>) -> String {
    let public = b64u::encode(&key("a").unwrap().key.public());
    let entry = |kid| format!(r#"{{"kid":"{kid}","pubkey_b64u":"{public}"}}"#);
    format!(r#"{{"keys":[{}]}}"#, kids.into_iter().map(entry).collect::<Vec<_>>().join(","))
}

#[test]
fn a_keys_name_has_1_to_256_bytes() {
    let names = [(0, false), (1, true), (256, true), (257, false)];
    for (len, is_right) in names {
        let kid = "k".repeat(len);
        let invalid = KeyFileInvalid::Kid(kid.chars().take(64).collect());
        assert_eq!(key(&kid).map(|key| key.kid().len()), if is_right { Ok(len) } else { Err(invalid.clone()) });
        let read = parse(&keyset([kid.clone()])).map(|keys| keys.kids().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read, if is_right { Ok(vec![kid]) } else { Err(invalid) });
    }
}

#[test]
fn a_keyset_has_1_to_1024_keys_and_a_file_256_kibibytes() {
    let count =
        |count: usize| parse(&keyset((0..count).map(|number| number.to_string()))).map(|keys| keys.kids().count());
    assert_eq!((count(1_024), count(1_025)), (Ok(1_024), Err(KeyFileInvalid::Count)));
    let texts = [keyset(["a".to_owned()]), IssuerKey::encode_seed("a", &SEED).to_string()];
    let [public, secret] = texts
        .each_ref()
        .map(|text| [KEYSET_LEN_MAX, KEYSET_LEN_MAX + 1].map(|len| format!("{text}{}", " ".repeat(len - text.len()))));
    assert_eq!(public.map(|text| parse(&text).map(|_| ())), [Ok(()), Err(KeyFileInvalid::TooLarge)]);
    let read = |text: String| IssuerKey::parse(text.as_bytes(), default_signatures()).map(|_| ());
    assert_eq!(secret.map(read), [Ok(()), Err(KeyFileInvalid::TooLarge)]);
}

#[test]
fn a_key_file_has_its_seed_and_gives_the_key_of_it() {
    let text = IssuerKey::encode_seed("a\"", &SEED);
    assert_eq!(*text, format!("{{\"kid\":\"a\\\"\",\"seed_b64u\":\"{}\"}}\n", b64u::encode(&SEED)));
    let read = IssuerKey::parse(text.as_bytes(), default_signatures()).unwrap();
    assert_eq!((read.kid(), read.sign(b"m")), ("a\"", key("a").unwrap().sign(b"m")));
    assert!(read.keyset_text().contains(&b64u::encode(&read.key.public())));
    for (bad, invalid) in [
        (r#"{"kid":7,"seed_b64u":""}"#, KeyFileInvalid::Shape(r#"{"kid":"k1","seed_b64u":"..."}"#)),
        (r#"{"kid":"a","seed_b64u":"AA"}"#, KeyFileInvalid::Key("a".into())),
    ] {
        assert_eq!(IssuerKey::parse(bad.as_bytes(), default_signatures()).map(|_| ()), Err(invalid));
    }
}

#[test]
fn a_key_is_bound_to_64_audiences_at_most() {
    for (count, is_right) in [(64, true), (65, false)] {
        let aud = Some((0..count).map(|number: u8| number.to_string()).collect());
        let binding = Binding { iss: None, aud };
        let read =
            parse(&key("a").unwrap().bound_keyset_text(&binding)).map(|keys| keys.get("a").unwrap().binding.clone());
        assert_eq!(read, if is_right { Ok(binding) } else { Err(KeyFileInvalid::Binding("a".into())) });
    }
}

#[test]
fn a_binding_is_whole_with_both_of_its_members() {
    let of = |has_iss: bool, has_aud: bool| Binding {
        iss: has_iss.then(|| "i".into()),
        aud: has_aud.then(|| vec!["a".into(), "b".into()]),
    };
    assert!(of(true, true).is_whole() && !of(true, false).is_whole() && !of(false, true).is_whole());
    assert!(of(true, true).allows_aud("b") && !of(true, true).allows_aud("c") && of(true, false).allows_aud("c"));
    assert!(of(true, true).allows_iss("i") && !of(true, true).allows_iss("") && of(false, true).allows_iss(""));
}
