//! Wrong tokens, each with the class it must be rejected for, on every profile.

use sealway_proto::mle::compact::encode;
use sealway_proto::mle::{Alg, Class, Enc, IatUnit, Message, Opening, Profile, Side, Wrapper};

use crate::builder::{Builder, Wrapping, iat_now};
use crate::setup::{KID, NOW_MS, OTHER, OWN, open, opening_keys};

type Case = (String, String, Class);

fn case(name: impl Into<String>, token: impl Into<String>, class: Class) -> Case {
    (name.into(), token.into(), class)
}

fn forms(good: &Builder) -> Vec<Case> {
    let token = good.token();
    let text = token.text();
    let parts: Vec<&str> = text.split('.').collect();
    let mut cases = vec![
        case("nothing", "", Class::Shape),
        case("a dot", ".", Class::Shape),
        case("three parts, as a JWS", parts[..3].join("."), Class::Shape),
        case("four parts", parts[..4].join("."), Class::Shape),
        case("six parts", format!("{text}.{}", parts[4]), Class::Shape),
        case("a dot at the end", format!("{text}."), Class::Shape),
        case("a dot at the start", format!(".{text}"), Class::Shape),
        case("a million dots", ".".repeat(1_000_000), Class::Shape),
        case("empty parts", "....", Class::Header),
        case("JSON serialisation", format!(r#"{{"protected":"{}","tag":"{}"}}"#, parts[0], parts[4]), Class::Shape),
        case("two tokens", format!("{text} {text}"), Class::Shape),
        case("longer than the bound", format!("{text}{}", "A".repeat(2 << 20)), Class::Size),
        case("header beyond 4 KiB", good.adding(&format!(r#""pad":"{}""#, "p".repeat(4096))), Class::Size),
        case("header of 1 MiB", good.adding(&format!(r#""pad":"{}""#, "p".repeat(1 << 20))), Class::Size),
        case("encrypted key absent", token.with(1, Vec::clear), Class::Shape),
        case("encrypted key one byte short", token.with(1, |key| key.truncate(255)), Class::Shape),
        case("encrypted key one byte long", token.with(1, |key| key.push(0)), Class::Shape),
        case("encrypted key one zero longer at the front", token.with(1, |key| key.insert(0, 0)), Class::Shape),
    ];
    for (number, part) in ["header", "encrypted key", "IV", "ciphertext", "tag"].iter().enumerate() {
        for (defect, change) in [
            ("padding", "="),
            ("double padding", "=="),
            ("a line end", "\n"),
            ("a NUL", "\0"),
            ("a letter of no alphabet", "*"),
            ("a percent escape", "%2B"),
            ("a letter beyond ASCII", "é"),
        ] {
            let name = format!("{defect} behind the {part}");
            cases.push(case(name, token.with_text(number, |text| text.push_str(change)), Class::Base64));
        }
        let name = format!("white space before the {part}");
        cases.push(case(name, token.with_text(number, |text| text.insert(0, ' ')), Class::Base64));
        // A length with no last bits set: one, two or three bytes over a multiple of three.
        if !token.0[number].len().is_multiple_of(3) {
            let name = format!("bits behind the last byte of the {part}");
            let text = token.with_text(number, |text| {
                let last = text.pop().unwrap();
                text.push(char::from(last as u8 + 1));
            });
            cases.push(case(name, text, Class::Base64));
        }
    }
    cases
}

fn headers(good: &Builder) -> Vec<Case> {
    let json = format!("{{{}}}", good.header);
    let of = |bytes: &[u8]| good.token_of_header(bytes).text();
    vec![
        case("an empty header", of(b""), Class::Header),
        case("an empty object", of(b"{}"), Class::Alg),
        case("an array", of(format!("[{json}]").as_bytes()), Class::Header),
        case("a string", of(b"\"header\""), Class::Header),
        case("a header that is cut", of(&json.as_bytes()[..json.len() - 1]), Class::Header),
        case("bytes behind the header", of(format!("{json}x").as_bytes()), Class::Header),
        case("two headers", of(format!("{json}{json}").as_bytes()), Class::Header),
        case("a NUL behind the header", of(format!("{json}\0").as_bytes()), Class::Header),
        case("a byte order mark", of(format!("\u{feff}{json}").as_bytes()), Class::Header),
        case("UTF-16", of(&json.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()), Class::Header),
        case("invalid UTF-8", of(&[json.as_bytes(), b"\xff"].concat()), Class::Header),
        case("a letter that looks like a of alg", of(json.replace("alg", "\u{430}lg").as_bytes()), Class::Alg),
        case("single quotes", of(json.replace('"', "'").as_bytes()), Class::Header),
        case("a trailing comma", of(format!("{{{},}}", good.header).as_bytes()), Class::Header),
        case("a comment", of(format!("{{{}/**/}}", good.header).as_bytes()), Class::Header),
        case("alg twice", good.adding(r#""alg":"RSA-OAEP-256""#), Class::Header),
        case("alg twice, once escaped", good.adding(r#""\u0061lg":"RSA-OAEP-256""#), Class::Header),
        case("enc twice", good.adding(r#""enc":"A256GCM""#), Class::Header),
        case("kid twice", good.adding(&format!(r#""kid":"{KID}""#)), Class::Header),
        case("an unknown member twice", good.adding(r#""x":1,"x":1"#), Class::Header),
        case("nested 100 deep", good.adding(&format!(r#""x":{}{}"#, "[".repeat(100), "]".repeat(100))), Class::Header),
        case("typ is a number", good.adding(r#""typ":1"#), Class::Header),
        case("cty is an object", good.adding(r#""cty":{}"#), Class::Header),
        case("zip DEF", good.adding(r#""zip":"DEF""#), Class::Zip),
        case("an empty zip", good.adding(r#""zip":"""#), Class::Zip),
        case("zip null", good.adding(r#""zip":null"#), Class::Zip),
        case("crit empty", good.adding(r#""crit":[]"#), Class::Crit),
        case("crit unknown", good.adding(r#""crit":["exp"],"exp":1"#), Class::Crit),
        case("crit of registered names", good.adding(r#""crit":["alg"]"#), Class::Crit),
        case("crit of OBIE", good.adding(r#""crit":["http://openbanking.org.uk/iat"]"#), Class::Crit),
        case("crit null", good.adding(r#""crit":null"#), Class::Crit),
        case("b64 false", good.adding(r#""b64":false,"crit":["b64"]"#), Class::Crit),
        case("b64 without crit", good.adding(r#""b64":false"#), Class::Crit),
    ]
}

fn parameters(good: &Builder, profile: &Profile, alg: Alg) -> Vec<Case> {
    let mut cases = Vec::new();
    for member in [
        r#""jku":"http://169.254.169.254/""#,
        r#""x5u":"file:///etc/passwd""#,
        r#""jwk":{"kty":"RSA","n":"AQAB","e":"AQAB"}"#,
        r#""x5c":["MIIB"]"#,
        r#""x5t":"AAAA""#,
        r#""epk":{"kty":"EC"}"#,
        r#""apu":"QQ""#,
        r#""apv":"QQ""#,
        r#""p2c":2147483648"#,
        r#""p2s":"QQ""#,
        r#""iv":"AAAAAAAAAAAAAAAA""#,
        r#""tag":"AAAAAAAAAAAAAAAAAAAAAA""#,
        r#""x5t#S256":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA""#,
        r#""x5t#S256":"AAAA""#,
        r#""x5t#S256":"=""#,
        r#""x5t#S256":1"#,
    ] {
        cases.push(case(member, good.adding(member), Class::Param));
    }
    let alg = format!(r#""alg":"{alg}""#);
    for other in [
        r#""none""#,
        r#""None""#,
        r#""NONE""#,
        r#""RSA1_5""#,
        r#""rsa-oaep-256""#,
        r#""RSA-OAEP-384""#,
        r#""RSA-OAEP-512""#,
        r#""dir""#,
        r#""A128KW""#,
        r#""A192KW""#,
        r#""A256KW""#,
        r#""A128GCMKW""#,
        r#""A256GCMKW""#,
        r#""ECDH-ES+A128KW""#,
        r#""PBES2-HS512+A256KW""#,
        r#""HS256""#,
        r#""RS256""#,
        r#""PS256""#,
        r#""""#,
        "null",
        "1",
        "true",
        r#"["RSA-OAEP-256"]"#,
        r#""RSA-OAEP-256\u0000""#,
        r#"" RSA-OAEP-256""#,
    ] {
        cases.push(case(format!("alg {other}"), good.replacing(&alg, &format!(r#""alg":{other}"#)), Class::Alg));
    }
    let epk = r#""alg":"ECDH-ES","epk":{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#;
    cases.push(case("alg ECDH-ES", good.replacing(&alg, epk), Class::Alg));
    cases.push(case("ECDH-ES without epk", good.replacing(&alg, r#""alg":"ECDH-ES""#), Class::Epk));
    cases.push(case("ECDH-ES on P-384", good.replacing(&alg, &epk.replace("P-256", "P-384")), Class::Epk));
    cases.push(case(
        "ECDH-ES with a private epk",
        good.replacing(&alg, &epk.replace("\"kty\"", "\"d\":\"AA\",\"kty\"")),
        Class::Epk,
    ));
    cases.push(case("Alg", good.replacing(r#""alg""#, r#""Alg""#), Class::Alg));
    cases.push(case("no alg", good.replacing(&format!("{alg},"), ""), Class::Alg));

    let enc = format!(r#""enc":"{}""#, good.enc);
    for other in [
        r#""none""#,
        r#""a256gcm""#,
        r#""A256CBC""#,
        r#""C20P""#,
        r#""XC20P""#,
        r#""A256GCMKW""#,
        r#""""#,
        "null",
        "256",
        r#"["A256GCM"]"#,
    ] {
        cases.push(case(format!("enc {other}"), good.replacing(&enc, &format!(r#""enc":{other}"#)), Class::Enc));
    }
    cases.push(case("Enc", good.replacing(r#""enc""#, r#""Enc""#), Class::Enc));
    cases.push(case("no enc", good.replacing(&format!("{enc},"), ""), Class::Enc));
    for other in Enc::ALL.iter().filter(|other| !profile.allows(Message::Request, Alg::RsaOaep256, **other)) {
        let token = Builder { enc: *other, cek: vec![1; other.cek_len()], iv: vec![1; other.iv_len()], ..good.clone() };
        cases.push(case(format!("enc {other}"), token.replacing(&enc, &format!(r#""enc":"{other}""#)), Class::Enc));
    }

    let kid = format!(r#""kid":"{KID}""#);
    for other in [
        String::from(r#""""#),
        r#""unknown""#.into(),
        format!("\"{}\"", KID.to_uppercase()),
        format!("\"{KID} \""),
        "7".into(),
        format!("\"{KID}\\u0000\""),
        "null".into(),
        format!("[\"{KID}\"]"),
        r#""../../etc/passwd""#.into(),
        r#""' OR 1=1 --""#.into(),
        format!("\"{}\"", "k".repeat(257)),
        format!("\"{}\"", "k".repeat(3000)),
        r#""\u0000""#.into(),
        "{}".into(),
    ] {
        let name: String = other.chars().take(40).collect();
        cases.push(case(format!("kid {name}"), good.replacing(&kid, &format!(r#""kid":{other}"#)), Class::Kid));
    }
    cases.push(case("no kid", good.replacing(&format!(",{kid}"), ""), Class::Kid));
    cases.push(case("Kid", good.replacing(r#""kid""#, r#""Kid""#), Class::Kid));
    cases
}

fn times(good: &Builder, profile: &Profile) -> Vec<Case> {
    let Some(unit) = profile.iat_unit() else { return Vec::new() };
    let iat = format!(r#""iat":{}"#, iat_now(Some(unit)).unwrap());
    let (now, other, window) = match unit {
        IatUnit::Seconds => (NOW_MS / 1000, NOW_MS, 301),
        IatUnit::Milliseconds => (NOW_MS, NOW_MS / 1000, 300_001),
    };
    let mut cases = vec![
        case("no iat", good.replacing(&format!(",{iat}"), ""), Class::Iat),
        case("iat twice", good.adding(&iat), Class::Header),
        case("Iat", good.replacing("\"iat\"", "\"Iat\""), Class::Iat),
    ];
    for value in [
        format!("\"{now}\""),
        format!("{now}.0"),
        format!("{now}e0"),
        format!("-{now}"),
        "1e400".into(),
        "-0".into(),
        "null".into(),
        "true".into(),
        "[]".into(),
        format!("[{now}]"),
        "{}".into(),
        "18446744073709551616".into(),
        "18446744073709551615".into(),
        "0".into(),
        other.to_string(),
        (now - window).to_string(),
        (now + window).to_string(),
        format!("{now}000000"),
    ] {
        cases.push(case(format!("iat {value}"), good.replacing(&iat, &format!(r#""iat":{value}"#)), Class::Iat));
    }
    // A number with a leading zero is not JSON.
    cases.push(case("iat with a leading zero", good.replacing(&iat, &format!(r#""iat":0{now}"#)), Class::Header));
    cases
}

fn contents(good: &Builder, is_mixed: bool) -> Vec<Case> {
    let token = good.token();
    let mut cases = Vec::new();
    for len in [0, 1, 8, 11, 13, 15, 17, 24, 96] {
        cases.push(case(format!("IV of {len}"), token.with(2, |iv| iv.resize(len, 1)), Class::Iv));
    }
    if !is_mixed {
        let long = Builder { iv: vec![9; 16], ..good.clone() };
        cases.push(case("IV of 16 with a right tag", long.text(), Class::Iv));
        for (number, part) in token.0.iter().enumerate() {
            for (url, standard) in [('-', '+'), ('_', '/')] {
                if encode(part).contains(url) {
                    let text = token.with_text(number, |text| *text = text.replace(url, &standard.to_string()));
                    cases.push(case(format!("{standard} in part {number}"), text, Class::Base64));
                }
            }
        }
    }
    for len in [0, 1, 4, 8, 12, 15, 17, 32] {
        cases.push(case(format!("length of the tag {len}"), token.with(4, |tag| tag.resize(len, 0)), Class::Tag));
    }
    let unwraps = [
        ("encrypted key of zeros", token.with(1, |key| key.fill(0))),
        (
            "encrypted key of one",
            token.with(1, |key| {
                key.fill(0);
                key[255] = 1;
            }),
        ),
        ("encrypted key beyond the modulus", token.with(1, |key| key.fill(0xff))),
        ("encrypted key of another recipient", Builder { recipient: &OTHER.spki, ..good.clone() }.text()),
        ("PKCS#1 padding", Builder { wrapping: Wrapping::Pkcs1, ..good.clone() }.text()),
        (
            "OAEP with another hash",
            Builder {
                wrapping: match good.wrapping {
                    Wrapping::OaepSha1 => Wrapping::Oaep256,
                    _ => Wrapping::OaepSha1,
                },
                ..good.clone()
            }
            .text(),
        ),
    ];
    cases.extend(unwraps.map(|(name, text)| case(name, text, Class::Unwrap)));
    for len in [0, 1, good.enc.cek_len() - 1, good.enc.cek_len() + 1, good.enc.cek_len() / 2, good.enc.cek_len() + 16] {
        let wrong = Builder { cek: good.cek.iter().copied().cycle().take(len).collect(), ..good.clone() };
        cases.push(case(format!("content key of {len}"), wrong.text(), Class::Unwrap));
    }
    let header = format!("{{{}}}", good.header);
    let tags = [
        ("tag of zeros", token.with(4, |tag| tag.fill(0))),
        ("tag of another message", {
            let other = Builder { plaintext: b"other".to_vec(), ..good.clone() }.token();
            token.with(4, |tag| *tag = other.0[4].clone())
        }),
        ("ciphertext absent", token.with(3, Vec::clear)),
        ("ciphertext cut", token.with(3, |data| data.truncate(data.len() - 1))),
        ("ciphertext longer", token.with(3, |data| data.push(0))),
        ("IV of zeros", token.with(2, |iv| iv.fill(0))),
        ("additional data decoded", good.token_over(header.as_bytes(), header.as_bytes()).text()),
        (
            "additional data padded",
            good.token_over(header.as_bytes(), format!("{}=", encode(header.as_bytes())).as_bytes()).text(),
        ),
        ("additional data absent", good.token_over(header.as_bytes(), b"").text()),
        ("header with a space more", token.with(0, |header| header.push(b' '))),
        ("header of another token", {
            let other = good.token_of_header(format!("{{{} }}", good.header).as_bytes());
            token.with(0, |header| *header = other.0[0].clone())
        }),
    ];
    cases.extend(tags.map(|(name, text)| case(name, text, Class::Tag)));
    cases
}

/// Plays all cases of one profile and returns how many there were.
fn play(profile: &Profile, alg: Alg, enc: Enc, is_mixed: bool) -> usize {
    let iat = iat_now(profile.iat_unit());
    let good = Builder::new(alg.as_str(), enc, iat.as_deref());
    let keys = opening_keys(alg);
    let opened = open(good.text().as_bytes(), profile, Message::Request, &keys);
    assert_eq!(opened.as_deref(), Ok(good.plaintext.as_slice()), "{}: the good token", profile.name());

    let mut cases = forms(&good);
    cases.extend(headers(&good));
    cases.extend(parameters(&good, profile, alg));
    cases.extend(times(&good, profile));
    cases.extend(contents(&good, is_mixed));
    let mut wrong = Vec::new();
    for (name, token, class) in &cases {
        match open(token.as_bytes(), profile, Message::Request, &keys) {
            Err(refusal) if refusal.kind() == *class => {
                // The private operation is spent on what only it can tell, and on nothing else.
                let is_spent = Opening::begin(token.as_bytes(), profile, Message::Request, &keys, NOW_MS).is_ok();
                let is_due =
                    *class == Class::Unwrap || (*class == Class::Tag && !name.starts_with("length of the tag"));
                assert_eq!(is_spent, is_due, "{}: {name}", profile.name());
                assert!(!refusal.to_string().contains("4111"), "{refusal}");
            }
            other => wrong.push(format!("{name}: {class} expected, {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", profile.name());
    cases.len()
}

#[test]
fn wrong_tokens_are_rejected_on_the_profile_of_mastercard() {
    let count = play(&Profile::mastercard_jwe(), Alg::RsaOaep256, Enc::A256Gcm, true);
    assert!(count >= 150, "{count}");
    println!("mastercard-jwe: {count} wrong tokens");
}

#[test]
fn wrong_tokens_are_rejected_on_the_profile_of_visa() {
    let count = play(&Profile::visa(), Alg::RsaOaep256, Enc::A128Gcm, false);
    assert!(count >= 150, "{count}");
    println!("visa: {count} wrong tokens");
}

#[test]
fn wrong_tokens_are_rejected_on_the_profile_of_visa_acceptance() {
    let count = play(&Profile::visa_acceptance(), Alg::RsaOaep256, Enc::A256Gcm, false);
    assert!(count >= 150, "{count}");
    println!("visa-acceptance: {count} wrong tokens");
}

#[test]
fn wrong_tokens_are_rejected_on_a_generic_profile() {
    let side = Side::new(&[Alg::RsaOaep, Alg::RsaOaep256], &[Enc::A192Gcm], Wrapper::Bare).with_iat();
    let profile = Profile::generic(side.clone(), side, Some(IatUnit::Seconds));
    let count = play(&profile, Alg::RsaOaep, Enc::A192Gcm, false);
    assert!(count >= 150, "{count}");
    println!("generic-jwe: {count} wrong tokens");
}

#[test]
fn a_token_without_kid_is_opened_where_one_key_is_live_and_the_profile_allows_it() {
    let good = Builder::new("RSA-OAEP-256", Enc::A256Gcm, None);
    let token = good.replacing(&format!(r#","kid":"{KID}""#), "");
    let profile = Profile::mastercard_jwe().with_optional_kid();
    let keys = opening_keys(Alg::RsaOaep256);
    assert!(open(token.as_bytes(), &profile, Message::Request, &keys).is_ok());
    let other = sealway_proto::mle::OpeningKey::rsa(
        Alg::RsaOaep256,
        &OTHER.private,
        None,
        &sealway_proto::mle::KidSource::SpkiSha256Hex,
        crate::setup::provider(),
    );
    let two = [crate::setup::opening_key(Alg::RsaOaep256), other.unwrap()].map(std::sync::Arc::new);
    let keys = sealway_proto::mle::OpeningKeys::new(two).unwrap();
    let refused = open(token.as_bytes(), &profile, Message::Request, &keys).unwrap_err();
    assert_eq!(refused.kind(), Class::Kid);
}

#[test]
fn x5t_s256_of_the_keys_certificate_is_taken() {
    let der = crate::setup::openssl(&["x509", "-outform", "DER"], &OWN.certificate);
    let hash = crate::setup::openssl(&["dgst", "-sha256", "-binary"], &der);
    let good = Builder::new("RSA-OAEP-256", Enc::A256Gcm, None);
    let token = good.adding(&format!(r#""x5t#S256":"{}""#, encode(&hash)));
    let keys = opening_keys(Alg::RsaOaep256);
    assert!(open(token.as_bytes(), &Profile::mastercard_jwe(), Message::Request, &keys).is_ok());
}
