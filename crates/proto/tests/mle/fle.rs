//! The field-level form: round trips, `openssl` as the other side, and what a changed message tells.

use std::sync::Arc;

use sealway_proto::mle::{
    Alg, Class, Enc, Encoding, FieldSealer, Fle, FleNames, JoseProvider, KidSource, Message, Metadata, NonceGuard,
    OpenRandoms, Opening, OpeningKey, OpeningKeys, Place, Plaintext, Profile, Refusal, SealRandoms, SealingKey, body,
};

use crate::setup::{KID, NOW_MS, OWN, opening_keys, openssl, provider, release};

const ENCODINGS: [Encoding; 3] = [Encoding::Hex, Encoding::Base64, Encoding::Base64Url];

fn profile(place: Place, encoding: Encoding) -> Profile {
    let text = |text: &str| text.to_owned();
    let names = FleNames {
        value: text("encryptedValue"),
        iv: text("iv"),
        encrypted_key: text("encryptedKey"),
        digest: Some(text("oaepHashingAlgorithm")),
        key_fingerprint: Some(text("publicKeyFingerprint")),
        certificate_fingerprint: Some(text("encryptionCertificateFingerprint")),
    };
    Profile::mastercard_field_level(Fle::new(place, encoding, names).unwrap())
}

fn sealing_key(alg: Alg) -> SealingKey {
    let kid = KidSource::Fixed(KID.to_owned());
    SealingKey::rsa(alg, Enc::A256Gcm, &OWN.certificate, &kid, provider()).unwrap()
}

fn randoms() -> SealRandoms {
    SealRandoms::draw(provider().base()).unwrap()
}

/// Seals a whole body with the metadata beside the value.
fn seal(plaintext: &[u8], profile: &Profile, alg: Alg) -> Vec<u8> {
    let sealer = FieldSealer::new(profile, Message::Request, &sealing_key(alg), randoms(), provider()).unwrap();
    let rules = [profile.fle().unwrap().sealing_rule("$", "$").unwrap()];
    let fields = body::find_plain(plaintext, &rules, 16, body::Scalars::Json).unwrap();
    let sealed: Vec<_> = fields.into_iter().map(|field| (field, sealer.seal(plaintext).unwrap())).collect();
    body::put_sealed(plaintext, &rules, &sealed).unwrap()
}

fn open(message: &[u8], profile: &Profile, keys: &OpeningKeys) -> Result<NonceGuard<Plaintext>, Refusal> {
    let fle = profile.fle().unwrap();
    let rules = [fle.opening_rule("$", "$").unwrap()];
    let fields = body::find_sealed(message, &rules, 16)?;
    let (_, metadata) = fle.take(message, &rules, &fields)?;
    open_value(fields[0].text(), &metadata[0], profile, keys)
}

fn open_value(
    value: &[u8],
    metadata: &Metadata,
    profile: &Profile,
    keys: &OpeningKeys,
) -> Result<NonceGuard<Plaintext>, Refusal> {
    let opening = Opening::begin_field(value, metadata, profile, Message::Request, keys, NOW_MS)?;
    let cek = opening.wants().unwrap_here();
    let randoms = OpenRandoms::draw(provider().base()).unwrap();
    opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, provider())
}

fn member(message: &[u8], name: &str) -> String {
    let value: serde_json::Value = serde_json::from_slice(message).unwrap();
    value[name].as_str().unwrap().to_owned()
}

#[test]
fn values_of_every_length_encoding_and_digest_open_again() {
    for (encoding, alg) in ENCODINGS.into_iter().flat_map(|it| [(it, Alg::RsaOaep256), (it, Alg::RsaOaep512)]) {
        let (profile, keys) = (profile(Place::Body, encoding), opening_keys(alg));
        for len in [2, 13, 14, 15, 16, 17, 31, 32, 1000] {
            let plaintext = format!("\"{}\"", "x".repeat(len - 2));
            let message = seal(plaintext.as_bytes(), &profile, alg);
            let opened = release(open(&message, &profile, &keys).unwrap());
            assert_eq!(opened.bytes().unwrap(), plaintext.as_bytes(), "{encoding:?} {alg} {len}");
            assert_eq!(opened.kid(), KID);
        }
    }
}

#[test]
fn openssl_decrypts_what_is_sealed() {
    let profile = profile(Place::Body, Encoding::Hex);
    for (alg, digest) in [(Alg::RsaOaep256, "sha256"), (Alg::RsaOaep512, "sha512")] {
        let message = seal(br#"{"pan":"4111111111111111"}"#, &profile, alg);
        assert_eq!(member(&message, "oaepHashingAlgorithm"), digest.to_ascii_uppercase());
        let der = openssl(&["x509", "-outform", "DER"], &OWN.certificate);
        let hash = Encoding::Hex.encode(&provider().base().sha256(&[&der]));
        assert_eq!(member(&message, "encryptionCertificateFingerprint"), hash);
        let file = std::env::temp_dir().join(format!("sealway-fle-{}-{digest}", std::process::id()));
        std::fs::write(&file, &OWN.private).unwrap();
        let unhex = |name: &str| Encoding::Hex.decode(member(&message, name).as_bytes()).unwrap();
        let md = format!("rsa_oaep_md:{digest}");
        let mgf = format!("rsa_mgf1_md:{digest}");
        let options = ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", &md, "-pkeyopt", &mgf];
        let decrypt = ["pkeyutl", "-decrypt", "-inkey", file.to_str().unwrap()];
        let key = openssl(&[&decrypt[..], &options].concat(), &unhex("encryptedKey"));
        std::fs::remove_file(&file).unwrap();
        let (key, iv) = (Encoding::Hex.encode(&key), member(&message, "iv"));
        let plaintext = openssl(&["enc", "-d", "-aes-128-cbc", "-K", &key, "-iv", &iv], &unhex("encryptedValue"));
        assert_eq!(plaintext, br#"{"pan":"4111111111111111"}"#);
    }
}

#[test]
fn one_key_and_iv_serve_all_values_where_the_metadata_is_in_headers() {
    let (profile, keys) = (profile(Place::Headers, Encoding::Base64), opening_keys(Alg::RsaOaep256));
    let sealer =
        FieldSealer::new(&profile, Message::Request, &sealing_key(Alg::RsaOaep256), randoms(), provider()).unwrap();
    let values = [&b"{\"a\":1}"[..], b"[2]", b"[2]"].map(|it| sealer.seal(it).unwrap());
    assert!(values.iter().all(|value| value.beside.is_empty()));
    let headers = sealer.into_headers();
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let all =
        ["iv", "encryptedKey", "oaepHashingAlgorithm", "publicKeyFingerprint", "encryptionCertificateFingerprint"];
    assert_eq!(names, all);
    let get = |name: &str| Ok(headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str().into()));
    let metadata = profile.fle().unwrap().read(get).unwrap();
    let opened = values.map(|value| open_value(value.value.as_bytes(), &metadata, &profile, &keys).unwrap());
    assert_eq!(opened[0].claim().key(), opened[1].claim().key(), "they have one claim");
    let plaintexts = opened.map(|it| release(it).into_bytes().unwrap().to_vec());
    assert_eq!(plaintexts, [&b"{\"a\":1}"[..], b"[2]", b"[2]"]);
}

#[test]
fn each_defect_has_its_class() {
    let profile = profile(Place::Body, Encoding::Hex);
    let keys = opening_keys(Alg::RsaOaep256);
    let good = seal(br#"{"pan":"4111111111111111"}"#, &profile, Alg::RsaOaep256);
    let with = |name: &str, value: &str| {
        let mut message: serde_json::Value = serde_json::from_slice(&good).unwrap();
        message[name] = value.into();
        serde_json::to_vec(&message).unwrap()
    };
    let part = |name: &str, range: std::ops::Range<usize>| member(&good, name)[range].to_owned();
    for (name, value, class) in [
        ("encryptedValue", String::new(), Class::Shape),
        ("encryptedValue", part("encryptedValue", 0..30), Class::Shape),
        ("encryptedValue", "zz".into(), Class::Base64),
        ("iv", part("iv", 0..24), Class::Iv),
        ("iv", String::new(), Class::Iv),
        ("encryptedKey", part("encryptedKey", 0..510), Class::Shape),
        ("encryptedKey", "00".repeat(256), Class::Unwrap),
        ("oaepHashingAlgorithm", "SHA512".into(), Class::Alg),
        ("oaepHashingAlgorithm", "SHA1".into(), Class::Alg),
        ("oaepHashingAlgorithm", "sha256".into(), Class::Alg),
        ("publicKeyFingerprint", "another".into(), Class::Kid),
        ("publicKeyFingerprint", String::new(), Class::Kid),
    ] {
        let refused = open(&with(name, &value), &profile, &keys).map(release);
        assert_eq!(refused.unwrap_err().kind(), class, "{name}: {value:.40}");
    }
    // A token of JWE is never opened without its tag.
    let refused = Opening::begin(b"a.b.c.d.e", &profile, Message::Request, &keys, NOW_MS).unwrap_err();
    assert_eq!(refused.kind(), Class::Base64);
    let long = profile.clone().with_token_len_max(63);
    assert_eq!(open(&good, &long, &keys).unwrap_err().kind(), Class::Size);
}

#[test]
fn a_message_without_a_key_name_needs_exactly_one_live_key() {
    let mut message: serde_json::Value =
        serde_json::from_slice(&seal(b"{}", &profile(Place::Body, Encoding::Hex), Alg::RsaOaep256)).unwrap();
    message.as_object_mut().unwrap().remove("publicKeyFingerprint");
    let message = serde_json::to_vec(&message).unwrap();
    let profile = profile(Place::Body, Encoding::Hex);
    assert!(open(&message, &profile, &opening_keys(Alg::RsaOaep256)).is_ok());
    let key = |kid: &str| {
        let kid = KidSource::Fixed(kid.to_owned());
        Arc::new(OpeningKey::rsa(Alg::RsaOaep256, &OWN.private, None, &kid, provider()).unwrap())
    };
    let two = OpeningKeys::new([key("a"), key("b")]).unwrap();
    assert_eq!(open(&message, &profile, &two).unwrap_err().kind(), Class::Kid);
}

/// Changes to a message that an attacker saw have the claim of that message, so that its key answers one question alone; and what is wrong
/// with a padding is known behind the claim.
#[test]
fn a_changed_message_has_the_claim_of_the_one_that_was_seen() {
    let (profile, keys) = (profile(Place::Body, Encoding::Hex), opening_keys(Alg::RsaOaep256));
    let good = seal(br#"{"pan":"4111"}"#, &profile, Alg::RsaOaep256);
    let claim = open(&good, &profile, &keys).unwrap().claim().key();
    let (mut opened, mut defective) = (0, 0);
    // The last byte of the IV changes the last byte of the only block: its padding is right for one or two of all values.
    let iv = Encoding::Hex.decode(member(&good, "iv").as_bytes()).unwrap();
    let fle = profile.fle().unwrap();
    let rules = [fle.opening_rule("$", "$").unwrap()];
    let fields = body::find_sealed(&good, &rules, 16).unwrap();
    for byte in 0..=u8::MAX {
        let mut changed = iv.clone();
        changed[15] = byte;
        let mut message: serde_json::Value = serde_json::from_slice(&good).unwrap();
        message["iv"] = Encoding::Hex.encode(&changed).into();
        let (_, metadata) = fle.take(&serde_json::to_vec(&message).unwrap(), &rules, &fields).unwrap();
        let guarded = open_value(fields[0].text(), &metadata[0], &profile, &keys).unwrap();
        assert_eq!(guarded.claim().key(), claim, "{byte}");
        match release(guarded).into_bytes() {
            Ok(_) => opened += 1,
            Err(refusal) => {
                assert_eq!(refusal.kind(), Class::Padding);
                defective += 1;
            }
        }
    }
    assert!((1..=2).contains(&opened) && opened + defective == 256, "{opened} {defective}");
    let other = open(&seal(br#"{"pan":"4111"}"#, &profile, Alg::RsaOaep256), &profile, &keys).unwrap();
    assert_ne!(other.claim().key(), claim);
}
