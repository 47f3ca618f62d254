//! Signed claims of open banking, and wrong signatures, each with the class it must be rejected for.

use std::sync::{Arc, LazyLock};

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::compact::{Alphabet, decode, encode};
use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::{Parties, SigningKey, VerifyingKey, VerifyingKeys, nested};
use sealway_proto::mle::{Class, JwsAlg, KidSource, Message, Refusal};
use sealway_proto::session::Fresh;
use sealway_proto::wire::ReplayPolicy;
use serde_json::{Value, json};

use crate::setup::{KID, NOW_MS, OTHER, OWN, provider};

const NOW_S: u64 = NOW_MS / 1000;
const WINDOW_S: u64 = 120;

static PS256: LazyLock<SigningKey> = LazyLock::new(|| signing(JwsAlg::Ps256, &OWN.private));
static STRANGER: LazyLock<SigningKey> = LazyLock::new(|| signing(JwsAlg::Ps256, &OTHER.private));
static RS256: LazyLock<SigningKey> = LazyLock::new(|| signing(JwsAlg::Rs256, &OWN.private));
static KEYS: LazyLock<VerifyingKeys> = LazyLock::new(|| {
    let kid = KidSource::Fixed(KID.to_owned());
    let key = VerifyingKey::load(JwsAlg::Ps256, &OWN.certificate, &kid, provider(), &AwsLc);
    VerifyingKeys::new([Arc::new(key.unwrap())]).unwrap()
});

fn signing(alg: JwsAlg, private: &[u8]) -> SigningKey {
    SigningKey::rsa(alg, private, None, &KidSource::Fixed(KID.to_owned()), provider(), &AwsLc).unwrap()
}

fn parties() -> Parties {
    Parties { issuer: "tpp \"1\"".into(), audience: "https://bank.example".into(), subject: Some("É".into()) }
}

fn verify(token: &str, message: Message, now_ms: u64) -> Result<(Vec<u8>, [u8; 16]), Refusal> {
    let replay = ReplayPolicy::new(WINDOW_S * 1000, 0);
    let guarded = nested::verify(token.as_bytes(), &parties(), &KEYS, message, &replay, now_ms, &AwsLc)?.guarded;
    let (claim, fresh) = (guarded.claim().key().0, Fresh::reserved(guarded.claim()));
    Ok((guarded.release(fresh).unwrap().to_vec(), claim))
}

fn header() -> Value {
    json!({ "alg": "PS256", "kid": KID, "typ": "JWT" })
}

fn claims() -> Value {
    json!({ "iss": "tpp \"1\"", "aud": "https://bank.example", "sub": "É", "iat": NOW_S, "exp": NOW_S + 300,
        "jti": "id-1", "pan": "4111111111111111" })
}

/// Signs texts as they are, right or wrong.
fn compact(header: &str, payload: &[u8], key: &SigningKey) -> String {
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(payload));
    format!("{signed}.{}", encode(&key.sign(signed.as_bytes()).unwrap()))
}

/// Signs claims that differ from the right ones.
fn with_claims(change: impl FnOnce(&mut Value)) -> String {
    let mut claims = claims();
    change(&mut claims);
    compact(&header().to_string(), claims.to_string().as_bytes(), &PS256)
}

fn with_header(change: impl FnOnce(&mut Value)) -> String {
    let mut header = header();
    change(&mut header);
    compact(&header.to_string(), claims().to_string().as_bytes(), &PS256)
}

fn remove(value: &mut Value, name: &str) {
    value.as_object_mut().unwrap().remove(name);
}

#[test]
fn claims_are_signed_beside_members_that_keep_their_text() {
    let body =
        r#" { "n" : 12345678901234567890.10, "jti":"old", "\u0069at":1, "nested":{"iat": 2}, "é":[] } "#.as_bytes();
    let token = nested::sign(body, &parties(), &PS256, NOW_MS, [0xab; 16]).unwrap();
    let (payload, claim) = verify(&token, Message::Request, NOW_MS).unwrap();
    let due = format!(
        r#"{{"iss":"tpp \"1\"","aud":"https://bank.example","iat":{NOW_S},"exp":{},"jti":"{}","sub":"É","n":12345678901234567890.10,"nested":{{"iat": 2}},"é":[]}}"#,
        NOW_S + 300,
        "ab".repeat(16)
    );
    assert_eq!(String::from_utf8(payload).unwrap(), due);
    // The claim is of the issuer and the id: another signature over other bytes has the same.
    let again = nested::sign(b"{}", &parties(), &PS256, NOW_MS + 5_000, [0xab; 16]).unwrap();
    assert_eq!(verify(&again, Message::Request, NOW_MS).unwrap().1, claim);
    let other = nested::sign(body, &parties(), &PS256, NOW_MS, [0xac; 16]).unwrap();
    assert_ne!(verify(&other, Message::Request, NOW_MS).unwrap().1, claim);
    for body in [&b""[..], b"[]", b"\"text\"", b"{", b"{}{}", b"4111", b"\xff"] {
        let refused = nested::sign(body, &parties(), &PS256, NOW_MS, [0; 16]).unwrap_err();
        assert_eq!(refused.kind(), Class::Json, "{body:?}");
    }
}

#[test]
fn what_a_partner_may_send_is_taken() {
    let subject_free = Parties { subject: None, ..parties() };
    let own_hash = encode(&AwsLc.sha256(&[&pem_der(&OWN.certificate)]));
    for (what, token) in [
        ("as it is", with_claims(|_| {})),
        ("a list of audiences", with_claims(|claims| claims["aud"] = json!(["a", "https://bank.example"]))),
        ("an old nbf", with_claims(|claims| claims["nbf"] = json!(0))),
        ("an nbf within the leeway", with_claims(|claims| claims["nbf"] = json!(NOW_S + 60))),
        ("an end within the leeway", with_claims(|claims| claims["exp"] = json!(NOW_S - 59))),
        ("the edge of the window", with_claims(|claims| claims["iat"] = json!(NOW_S - WINDOW_S + 1))),
        ("the longest id", with_claims(|claims| claims["jti"] = json!("j".repeat(256)))),
        ("the only key", with_header(|header| remove(header, "kid"))),
        ("the hash of the key's certificate", with_header(|header| header["x5t#S256"] = json!(own_hash))),
        ("unknown parameters", with_header(|header| header["x"] = json!({ "y": 1 }))),
    ] {
        assert!(verify(&token, Message::Request, NOW_MS).is_ok(), "{what}");
    }
    let token = with_claims(|claims| remove(claims, "sub"));
    let replay = ReplayPolicy::default();
    let free = nested::verify(token.as_bytes(), &subject_free, &KEYS, Message::Request, &replay, NOW_MS, &AwsLc);
    assert!(free.unwrap().has_id, "no subject is expected");
    let token = with_claims(|claims| remove(claims, "jti"));
    let answer = nested::verify(token.as_bytes(), &parties(), &KEYS, Message::Answer, &replay, NOW_MS, &AwsLc);
    assert!(!answer.unwrap().has_id, "an answer");
}

fn pem_der(pem: &[u8]) -> Vec<u8> {
    crate::setup::openssl(&["x509", "-outform", "DER"], pem)
}

/// Wrong tokens inside of a JWE, by name and class.
fn wrong_nested() -> Vec<(String, String, Class)> {
    let mut all = Vec::new();
    let mut add = |name: &str, token: String, class| all.push((name.to_owned(), token, class));
    let good = with_claims(|_| {});
    let parts: Vec<&str> = good.split('.').collect();
    add("nothing", String::new(), Class::Shape);
    add("a plaintext that is not signed", claims().to_string(), Class::Shape);
    add("two parts", parts[..2].join("."), Class::Shape);
    add("four parts", format!("{good}."), Class::Shape);
    add("a JWE", "a.b.c.d.e".into(), Class::Shape);
    add(
        "the JSON form",
        json!({ "payload": parts[1], "protected": parts[0], "signature": parts[2] }).to_string(),
        Class::Shape,
    );
    add("padding", format!("{good}="), Class::Base64);
    add("white space", format!("{good}\n"), Class::Base64);
    add("no signature", format!("{}.{}.", parts[0], parts[1]), Class::Signature);
    add("no payload", format!("{}..{}", parts[0], parts[2]), Class::Signature);
    add("a longer signature", format!("{good}AAAA"), Class::Signature);
    add("another payload", format!("{}.{}.{}", parts[0], encode(b"{}"), parts[2]), Class::Signature);
    add(
        "a stranger's key",
        compact(&header().to_string(), claims().to_string().as_bytes(), &STRANGER),
        Class::Signature,
    );
    add(
        "another padding of the key",
        compact(&header().to_string(), claims().to_string().as_bytes(), &RS256),
        Class::Signature,
    );
    for alg in
        ["none", "None", "nOnE", "HS256", "HS512", "RS256", "PS384", "PS512", "ES256", "EdDSA", "ps256", "PS256 ", ""]
    {
        add(&format!("alg {alg:?}"), with_header(|header| header["alg"] = json!(alg)), Class::Alg);
    }
    let unsigned = format!("{}.{}.", encode(br#"{"alg":"none"}"#), parts[1]);
    add("none without a signature", unsigned, Class::Alg);
    add("alg absent", with_header(|header| remove(header, "alg")), Class::Alg);
    add("alg in a list", with_header(|header| header["alg"] = json!(["PS256"])), Class::Alg);
    for crit in
        [json!([]), json!(["exp"]), json!(["b64"]), json!("exp"), json!(null), json!(["http://openbanking.org.uk/iat"])]
    {
        add(&format!("crit {crit}"), with_header(|header| header["crit"] = crit), Class::Crit);
    }
    add("b64", with_header(|header| header["b64"] = json!(false)), Class::Crit);
    for name in ["jku", "jwk", "x5u", "x5c", "x5t"] {
        add(name, with_header(|header| header[name] = json!("https://a.example/")), Class::Param);
    }
    add(
        "the hash of another certificate",
        with_header(|header| header["x5t#S256"] = json!(encode(&[7; 32]))),
        Class::Param,
    );
    for kid in [json!("another"), json!(""), json!(7), json!(null), json!("k".repeat(257))] {
        add(&format!("kid {kid:.20}"), with_header(|header| header["kid"] = kid.clone()), Class::Kid);
    }
    let payload = claims().to_string();
    let twice = format!(r#"{{"alg":"PS256","kid":"{KID}","\u0061lg":"none"}}"#);
    add("alg twice", compact(&twice, payload.as_bytes(), &PS256), Class::Header);
    add("a header that is a list", compact("[]", payload.as_bytes(), &PS256), Class::Header);
    add("bytes behind the header", compact(&format!("{} x", header()), payload.as_bytes(), &PS256), Class::Header);
    add("a header beyond 4 KiB", with_header(|header| header["pad"] = json!("p".repeat(4096))), Class::Size);
    for name in ["iss", "aud", "sub"] {
        add(&format!("{name} absent"), with_claims(|claims| remove(claims, name)), Class::Claims);
        add(&format!("another {name}"), with_claims(|claims| claims[name] = json!("another")), Class::Claims);
        add(&format!("{name} a number"), with_claims(|claims| claims[name] = json!(1)), Class::Claims);
    }
    add("iss in a list", with_claims(|claims| claims["iss"] = json!(["tpp \"1\""])), Class::Claims);
    add("aud longer", with_claims(|claims| claims["aud"] = json!("https://bank.example/")), Class::Claims);
    add(
        "no audience of a list",
        with_claims(|claims| claims["aud"] = json!(["a", ["https://bank.example"]])),
        Class::Claims,
    );
    for exp in [json!(NOW_S - 60), json!(0), json!("1790000300"), json!(1.79e9 + 300.5), json!(-1), json!(null)] {
        add(&format!("exp {exp}"), with_claims(|claims| claims["exp"] = exp.clone()), Class::Claims);
    }
    add("exp absent", with_claims(|claims| remove(claims, "exp")), Class::Claims);
    add("nbf ahead", with_claims(|claims| claims["nbf"] = json!(NOW_S + 61)), Class::Claims);
    add("nbf a text", with_claims(|claims| claims["nbf"] = json!("0")), Class::Claims);
    for iat in [
        json!(NOW_S - WINDOW_S - 1),
        json!(NOW_S + WINDOW_S + 1),
        json!(NOW_MS),
        json!("1790000000"),
        json!(1.5),
        json!(u64::MAX),
    ] {
        add(&format!("iat {iat}"), with_claims(|claims| claims["iat"] = iat.clone()), Class::Iat);
    }
    add("iat absent", with_claims(|claims| remove(claims, "iat")), Class::Iat);
    for jti in [json!(""), json!(1), json!("j".repeat(257)), json!(null)] {
        add(&format!("jti {jti:.20}"), with_claims(|claims| claims["jti"] = jti.clone()), Class::Claims);
    }
    add("jti absent", with_claims(|claims| remove(claims, "jti")), Class::Claims);
    for payload in [r#"{"iss":"a","iss":"tpp \"1\""}"#, "[]", "", "null", "{\"iss\":"] {
        add(&format!("payload {payload}"), compact(&header().to_string(), payload.as_bytes(), &PS256), Class::Claims);
    }
    let inner = compact(&header().to_string(), good.as_bytes(), &PS256);
    add("a JWS in a JWS", inner, Class::Claims);
    all
}

#[test]
fn no_wrong_token_is_taken_and_each_has_its_class() {
    let cases = wrong_nested();
    assert!(cases.len() >= 60, "{}", cases.len());
    for (name, token, class) in &cases {
        let refused = verify(token, Message::Request, NOW_MS).expect_err(name);
        assert_eq!(refused.kind(), *class, "{name}: {refused}");
        assert!(!refused.to_string().contains("4111"), "{name}: {refused}");
    }
    let good = with_claims(|_| {});
    assert!(verify(&good, Message::Request, NOW_MS).is_ok());
    for at in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(verify(&String::from_utf8(changed).unwrap(), Message::Request, NOW_MS).is_err(), "{at}");
    }
}

#[test]
fn no_wrong_detached_signature_is_taken_and_each_has_its_class() {
    let names = ["iat", "iss", "tan"].map(|name| format!("http://openbanking.org.uk/{name}"));
    let signer = Signer { issuer: "tpp".into(), trust_anchor: "openbanking.org.uk".into() };
    let body = b"a.b.c.d.e";
    let verify = |token: &str| jws::verify_detached(token.as_bytes(), body, &KEYS, &signer, WINDOW_S * 1000, NOW_MS);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut header = json!({ "alg": "PS256", "kid": KID, "crit": names, names[0].as_str(): NOW_S,
            names[1].as_str(): "tpp", names[2].as_str(): "openbanking.org.uk" });
        change(&mut header);
        let token = compact(&header.to_string(), body, &PS256);
        let parts: Vec<&str> = token.split('.').collect();
        format!("{}..{}", parts[0], parts[2])
    };
    let good = with(&|_| {});
    assert_eq!(verify(&good), Ok(()));
    let replay = ReplayPolicy::new(WINDOW_S * 1000, 0);
    let claim = |token: &str| jws::claim_detached(token.as_bytes(), body, &KEYS, &signer, &replay, NOW_MS, &AwsLc);
    let header = good.split("..").next().unwrap();
    let issuer = [&[8, 0, 0, 0, 0, 0, 0, 0, 3][..], b"tpp"].concat();
    let due = AwsLc.sha256(&[&issuer, header.as_bytes(), b".", body]);
    let (first, again) = (claim(&good).unwrap(), claim(&with(&|_| {})).unwrap());
    assert_eq!((first.key().0.as_slice(), first.stamp_ms()), (&due[..16], NOW_S * 1000));
    assert_eq!(first.key(), again.key(), "another signature over the same");
    let [iat, iss, tan] = &names;
    let registered = json!([iat, iss, tan, "exp"]);
    let cases: Vec<(&str, String, Class)> = vec![
        ("attached", good.replace("..", &format!(".{}.", encode(body))), Class::Shape),
        ("nothing", String::new(), Class::Shape),
        ("one part", good.replace("..", ""), Class::Shape),
        ("no signature", good.split("..").next().unwrap().to_owned() + "..", Class::Signature),
        ("padding", format!("{good}=="), Class::Base64),
        ("none", with(&|header| header["alg"] = json!("none")), Class::Alg),
        ("HMAC under the public key", with(&|header| header["alg"] = json!("HS256")), Class::Alg),
        ("RS256", with(&|header| header["alg"] = json!("RS256")), Class::Alg),
        ("crit absent", with(&|header| remove(header, "crit")), Class::Crit),
        ("crit empty", with(&|header| header["crit"] = json!([])), Class::Crit),
        ("crit of two", with(&|header| header["crit"] = json!([iat, iss])), Class::Crit),
        ("crit of four", with(&|header| header["crit"] = registered.clone()), Class::Crit),
        ("crit twice the same", with(&|header| header["crit"] = json!([iat, iss, iss])), Class::Crit),
        ("crit with b64", with(&|header| header["crit"] = json!([iat, iss, tan, "b64"])), Class::Crit),
        ("b64 false", with(&|header| header["b64"] = json!(false)), Class::Crit),
        ("b64 true", with(&|header| header["b64"] = json!(true)), Class::Crit),
        ("jwk", with(&|header| header["jwk"] = json!({})), Class::Param),
        ("x5c", with(&|header| header["x5c"] = json!([])), Class::Param),
        ("another kid", with(&|header| header["kid"] = json!("../../etc/passwd")), Class::Kid),
        ("another issuer", with(&|header| header[iss] = json!("tpp2")), Class::Signature),
        ("issuer absent", with(&|header| remove(header, iss)), Class::Signature),
        ("another anchor", with(&|header| header[tan] = json!("openbanking.org.uk.evil.example")), Class::Signature),
        ("anchor a list", with(&|header| header[tan] = json!(["openbanking.org.uk"])), Class::Signature),
        ("too old", with(&|header| header[iat] = json!(NOW_S - WINDOW_S - 1)), Class::Iat),
        ("ahead", with(&|header| header[iat] = json!(NOW_S + WINDOW_S + 1)), Class::Iat),
        ("milliseconds", with(&|header| header[iat] = json!(NOW_MS)), Class::Iat),
        ("time a text", with(&|header| header[iat] = json!("1790000000")), Class::Iat),
        ("time absent", with(&|header| remove(header, iat)), Class::Iat),
    ];
    for (name, token, class) in cases {
        assert_eq!(verify(&token).expect_err(name).kind(), class, "{name}");
        assert_eq!(claim(&token).expect_err(name).kind(), class, "{name}");
    }
    for at in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(verify(&String::from_utf8(changed).unwrap()).is_err(), "{at}");
    }
    assert!(decode(good.split("..").nth(1).unwrap().as_bytes(), Alphabet::Strict).is_ok());
}
