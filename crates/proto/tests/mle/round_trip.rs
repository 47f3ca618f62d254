//! A sealed message opens, on each profile, and looks as the profile says.

use std::sync::Arc;

use sealway_proto::mle::body::{unwrap, wrap};
use sealway_proto::mle::compact::{Alphabet, Parts, decode};
use sealway_proto::mle::seal::seal;
use sealway_proto::mle::{
    Alg, Enc, IatUnit, JoseProvider, KidSource, Message, OpeningKey, OpeningKeys, Profile, SealError, SealRandoms,
    SealingKey, Side, Wrapper,
};

use crate::setup::{KID, NOW_MS, OWN, open, opening_keys, provider};

fn randoms() -> SealRandoms {
    SealRandoms::draw(provider().base()).unwrap()
}

fn sealing_key(alg: Alg, enc: Enc) -> SealingKey {
    SealingKey::rsa(alg, enc, &OWN.certificate, &KidSource::Fixed(KID.to_owned()), provider()).unwrap()
}

fn bodies() -> Vec<Vec<u8>> {
    let long = format!("{{\"text\":\"{}\"}}", "é😀\\u0000".repeat(9000));
    let texts = ["", "0", "{}", r#"{"b":12345678901234567890.10,"a":1.0}"#, &long];
    let mut bodies: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    bodies.push((0..=255).cycle().take(1 << 20).collect());
    bodies
}

fn header(token: &str) -> String {
    let parts = Parts::split(token.as_bytes()).unwrap();
    String::from_utf8(decode(parts.header, Alphabet::Strict).unwrap()).unwrap()
}

#[test]
fn what_is_sealed_opens_on_every_profile_direction_and_algorithm() {
    let every = Side::new(&[Alg::RsaOaep256, Alg::RsaOaep], Enc::ALL, Wrapper::Bare);
    let generic = Profile::generic(every.clone(), every, Some(IatUnit::Seconds));
    let mut count = 0;
    for profile in [Profile::mastercard_jwe(), Profile::visa(), Profile::visa_acceptance(), generic] {
        for message in [Message::Request, Message::Answer] {
            for (alg, enc) in Alg::ALL.iter().flat_map(|alg| Enc::ALL.iter().map(|enc| (*alg, *enc))) {
                if !profile.allows(message, alg, enc) {
                    continue;
                }
                let (sealer, keys) = (sealing_key(alg, enc), opening_keys(alg));
                for plaintext in bodies() {
                    let token = seal(&plaintext, &profile, message, &sealer, NOW_MS, randoms(), provider()).unwrap();
                    let body = wrap(&token, profile.wrapper(message));
                    let token = unwrap(&body, profile.wrapper(message)).unwrap();
                    assert_eq!(
                        open(&token, &profile, message, &keys).unwrap(),
                        plaintext,
                        "{} {alg} {enc}",
                        profile.name()
                    );
                    let iv = Parts::split(&token).map(|parts| decode(parts.iv, Alphabet::Strict).unwrap()).unwrap();
                    assert_eq!(iv.len(), if enc.is_gcm() { 12 } else { 16 });
                    count += 1;
                }
            }
        }
    }
    // Pairs of algorithms: 4 and 4, 2 and 2, 1 and 4, 12 and 12; of each, six bodies.
    assert_eq!(count, (8 + 4 + 5 + 24) * 6);
}

#[test]
fn headers_are_as_the_profiles_say() {
    for (profile, enc, expected) in [
        (
            Profile::mastercard_jwe(),
            Enc::A256Gcm,
            format!(r#"{{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"{KID}","cty":"application/json"}}"#),
        ),
        (
            Profile::visa(),
            Enc::A128Gcm,
            format!(r#"{{"alg":"RSA-OAEP-256","enc":"A128GCM","kid":"{KID}","iat":1790000000123}}"#),
        ),
        (
            Profile::visa_acceptance(),
            Enc::A256Gcm,
            format!(r#"{{"alg":"RSA-OAEP-256","enc":"A256GCM","kid":"{KID}","iat":1790000000}}"#),
        ),
    ] {
        let key = sealing_key(Alg::RsaOaep256, enc);
        let token = seal(b"{}", &profile, Message::Request, &key, NOW_MS, randoms(), provider()).unwrap();
        assert_eq!(header(&token), expected);
    }
}

#[test]
fn a_kid_is_escaped_and_never_ends_its_string() {
    let kid = "a\",\"alg\":\"none\\\u{1}é";
    let key = SealingKey::direct(Enc::A256Gcm, &[7; 32], kid).unwrap();
    let side = Side::new(&[Alg::Dir], &[Enc::A256Gcm], Wrapper::Bare);
    let profile = Profile::generic(side.clone(), side, None);
    let token = seal(b"{}", &profile, Message::Request, &key, NOW_MS, randoms(), provider()).unwrap();
    let keys = OpeningKeys::new([Arc::new(OpeningKey::direct(Enc::A256Gcm, &[7; 32], kid).unwrap())]).unwrap();
    assert_eq!(open(token.as_bytes(), &profile, Message::Request, &keys).unwrap(), b"{}");
}

#[test]
fn shared_keys_seal_and_open_and_a_direct_key_has_one_enc() {
    let side = Side::new(&[Alg::Dir, Alg::A128Kw, Alg::A256Kw], Enc::ALL, Wrapper::Bare);
    let profile = Profile::generic(side.clone(), side, None);
    for (alg, len) in [(Alg::A128Kw, 16), (Alg::A256Kw, 32)] {
        let secret = vec![3; len];
        let keys = OpeningKey::aes_wrap(alg, &secret, "s", provider()).unwrap();
        let keys = OpeningKeys::new([Arc::new(keys)]).unwrap();
        for enc in Enc::ALL {
            let sealer = SealingKey::aes_wrap(alg, *enc, &secret, "s", provider()).unwrap();
            let token = seal(b"text", &profile, Message::Request, &sealer, NOW_MS, randoms(), provider()).unwrap();
            assert_eq!(open(token.as_bytes(), &profile, Message::Request, &keys).unwrap(), b"text", "{alg} {enc}");
        }
    }
    // The two have content keys of one length; the key is bound to the one that it was loaded for.
    let sealer = SealingKey::direct(Enc::A256Gcm, &[7; 32], "s").unwrap();
    let token = seal(b"text", &profile, Message::Request, &sealer, NOW_MS, randoms(), provider()).unwrap();
    for (enc, is_open) in [(Enc::A256Gcm, true), (Enc::A128CbcHs256, false)] {
        let keys = OpeningKeys::new([Arc::new(OpeningKey::direct(enc, &[7; 32], "s").unwrap())]).unwrap();
        assert_eq!(open(token.as_bytes(), &profile, Message::Request, &keys).is_ok(), is_open, "{enc}");
    }
}

#[test]
fn algorithms_outside_of_the_profile_are_not_sealed_with() {
    let key = sealing_key(Alg::RsaOaep, Enc::A256Gcm);
    let sealed = seal(b"{}", &Profile::visa(), Message::Request, &key, NOW_MS, randoms(), provider());
    assert_eq!(sealed, Err(SealError::Algorithm("visa", "RSA-OAEP", "A256GCM")));
    assert!(seal(b"{}", &Profile::visa_acceptance(), Message::Answer, &key, NOW_MS, randoms(), provider()).is_ok());
}

#[test]
fn no_secret_is_printable() {
    let keys = opening_keys(Alg::RsaOaep256);
    let key = sealing_key(Alg::RsaOaep256, Enc::A256Gcm);
    let profile = Profile::mastercard_jwe();
    let token = seal(b"4111111111111111", &profile, Message::Request, &key, NOW_MS, randoms(), provider()).unwrap();
    let opened = crate::setup::open_at(token.as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap();
    let texts = [
        format!("{keys:?}"),
        format!("{key:?}"),
        format!("{opened:?}"),
        format!("{:?}", crate::setup::release(opened)),
    ];
    for text in texts {
        assert!(!text.contains("4111") && !text.contains("52, 49, 49") && text.len() < 400, "{text}");
    }
}

#[test]
fn the_libraries_of_mastercard_are_read_with_their_ivs_and_alphabet() {
    use crate::builder::Builder;
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    for enc in [Enc::A256Gcm, Enc::A192Gcm, Enc::A128Gcm] {
        let long = Builder { iv: (1..17).collect(), ..Builder::new("RSA-OAEP-256", enc, None) };
        // Node replaces `+` and leaves `/`; the header it encodes is the additional data as it stands.
        let token = long.token();
        let node = token.with_text(1, |text| *text = text.replace('_', "/"));
        let node = node.replace("..", ".");
        for text in [token.text(), node] {
            assert_eq!(open(text.as_bytes(), &profile, Message::Request, &keys).unwrap(), long.plaintext, "{enc}");
        }
    }
}
