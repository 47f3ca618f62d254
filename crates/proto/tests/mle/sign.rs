//! Signatures: the examples of the RFCs, what a verifier rejects, and requests signed as each scheme asks.

use std::sync::{Arc, LazyLock};

use sealway_proto::crypto::Provider;
use sealway_proto::crypto::aws_lc::AwsLc;
use sealway_proto::mle::compact::encode;
use sealway_proto::mle::load::rsa_modulus;
use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::oauth1::{self, ConsumerKey};
use sealway_proto::mle::sign::{Request, SigningKey, VerifyingKey, VerifyingKeys, WebOrigin, acceptance, x_pay_token};
use sealway_proto::mle::{Class, JwsAlg, KeyError, KidSource, Refusal};
use serde_json::{Value, json};

use crate::setup::{KID, NOW_MS, OTHER, OWN, openssl, provider};

fn kid() -> KidSource {
    KidSource::Fixed(KID.to_owned())
}

fn signing(alg: JwsAlg) -> SigningKey {
    SigningKey::rsa(alg, &OWN.private, None, &kid(), provider(), &AwsLc).unwrap()
}

fn only(key: VerifyingKey) -> VerifyingKeys {
    VerifyingKeys::new([Arc::new(key)]).unwrap()
}

fn verifying(alg: JwsAlg, public: &[u8]) -> VerifyingKeys {
    only(VerifyingKey::load(alg, public, &kid(), provider(), &AwsLc).unwrap())
}

/// A key on P-256, and its public half in DER.
static CURVE: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let private = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], b"");
    let public = openssl(&["pkey", "-pubout", "-outform", "DER"], &private);
    (private, public)
});

fn class<T: std::fmt::Debug>(result: Result<T, Refusal>) -> Class {
    result.unwrap_err().kind()
}

#[test]
fn the_examples_of_the_rfcs_verify_and_none_of_their_changes() {
    let rsa = |pem: &[u8]| verifying(JwsAlg::Rs256, pem);
    let der = openssl(&["pkey", "-pubin", "-outform", "DER"], include_bytes!("data/rfc7515-a3.pem"));
    let curve = only(VerifyingKey::load(JwsAlg::Es256, &der, &kid(), provider(), &AwsLc).unwrap());
    let hobbit = KidSource::Fixed("bilbo.baggins@hobbiton.example".to_owned());
    let hobbit = VerifyingKey::load(JwsAlg::Rs256, include_bytes!("data/rfc7520-4-1.pem"), &hobbit, provider(), &AwsLc);
    let joe = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
    let road = "It’s a dangerous business, Frodo, going out your door.";
    for (token, keys, payload) in [
        (include_str!("data/rfc7515-a2.jws"), rsa(include_bytes!("data/rfc7515-a2.pem")), joe),
        (include_str!("data/rfc7515-a3.jws"), curve, joe),
        (include_str!("data/rfc7520-4-1.jws"), only(hobbit.unwrap()), road),
    ] {
        let token = token.trim_end();
        let opened = String::from_utf8(jws::verify(token.as_bytes(), &keys).unwrap()).unwrap();
        assert!(opened.starts_with(payload), "{opened}");
        for at in 0..token.len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(jws::verify(&changed, &keys).is_err(), "{at}");
        }
    }
}

#[test]
fn each_algorithm_signs_and_verifies_with_its_own_keys_alone() {
    let curve = SigningKey::es256(&CURVE.0, KID, provider()).unwrap();
    let curve_public = only(VerifyingKey::load(JwsAlg::Es256, &CURVE.1, &kid(), provider(), &AwsLc).unwrap());
    let rsa = |alg| (signing(alg), verifying(alg, &OWN.spki));
    let all = [rsa(JwsAlg::Rs256), rsa(JwsAlg::Ps256), (curve, curve_public)];
    for (key, keys) in &all {
        for payload in [&b""[..], b"{}", &[0xff; 5000]] {
            let token = jws::sign(payload, "JWT", key).unwrap();
            assert_eq!(jws::verify(token.as_bytes(), keys).unwrap(), payload, "{}", key.alg());
        }
        // No other key's algorithm, even of the same material.
        let token = jws::sign(b"{}", "JWT", key).unwrap();
        for (other, keys) in &all {
            assert_eq!(jws::verify(token.as_bytes(), keys).is_ok(), other.alg() == key.alg());
        }
    }
}

#[test]
fn a_verifier_takes_no_algorithm_key_or_extension_from_a_token() {
    let (key, keys) = (signing(JwsAlg::Rs256), verifying(JwsAlg::Rs256, &OWN.spki));
    let forged = |header: &str| {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(b"{}"));
        format!("{signed}.{}", encode(&key.sign(signed.as_bytes()).unwrap()))
    };
    let good = forged(&format!(r#"{{"alg":"RS256","kid":"{KID}"}}"#));
    assert!(jws::verify(good.as_bytes(), &keys).is_ok());
    assert!(jws::verify(forged(r#"{"alg":"RS256"}"#).as_bytes(), &keys).is_ok(), "the only key there is");
    for (header, due) in [
        (r#"{"alg":"none"}"#.to_owned(), Class::Alg),
        (r#"{"alg":"None"}"#.to_owned(), Class::Alg),
        (r#"{"alg":"rs256"}"#.to_owned(), Class::Alg),
        (r#"{"alg":"HS256"}"#.to_owned(), Class::Alg),
        (r#"{"alg":"PS256"}"#.to_owned(), Class::Alg),
        (r#"{"alg":256}"#.to_owned(), Class::Alg),
        (r#"{}"#.to_owned(), Class::Alg),
        (r#"{"alg":"RS256","alg":"RS256"}"#.to_owned(), Class::Header),
        (r#"{"alg":"RS256","typ":1}"#.to_owned(), Class::Header),
        (r#"["RS256"]"#.to_owned(), Class::Header),
        (r#"{"alg":"RS256","kid":"another"}"#.to_owned(), Class::Kid),
        (r#"{"alg":"RS256","jwk":{}}"#.to_owned(), Class::Param),
        (r#"{"alg":"RS256","jku":"https://a.example/"}"#.to_owned(), Class::Param),
        (r#"{"alg":"RS256","x5c":[]}"#.to_owned(), Class::Param),
        (r#"{"alg":"RS256","crit":[]}"#.to_owned(), Class::Crit),
        (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#.to_owned(), Class::Crit),
        (r#"{"alg":"RS256","b64":true}"#.to_owned(), Class::Crit),
        (format!(r#"{{"alg":"RS256","x":"{}"}}"#, "x".repeat(5000)), Class::Size),
    ] {
        assert_eq!(class(jws::verify(forged(&header).as_bytes(), &keys)), due, "{header:.80}");
    }
    let parts: Vec<&str> = good.split('.').collect();
    for (token, due) in [
        (String::new(), Class::Shape),
        (parts[..2].join("."), Class::Shape),
        (format!("{good}."), Class::Shape),
        (format!("{good}="), Class::Base64),
        (format!("{}.{}.", parts[0], parts[1]), Class::Signature),
        (format!("{}..{}", parts[0], parts[2]), Class::Signature),
        (format!("{good}AAAA"), Class::Signature),
    ] {
        assert_eq!(class(jws::verify(token.as_bytes(), &keys)), due, "{token:.40}");
    }
    let stranger = verifying(JwsAlg::Rs256, &OTHER.spki);
    assert_eq!(class(jws::verify(good.as_bytes(), &stranger)), Class::Signature);
}

#[test]
fn a_detached_signature_is_bound_to_body_signer_time_and_parameters() {
    let signer = Signer { issuer: "CN=a \"b\", O=É".into(), trust_anchor: "openbanking.org.uk".into() };
    let (key, keys) = (signing(JwsAlg::Ps256), verifying(JwsAlg::Ps256, &OWN.certificate));
    let body = b"a.b.c.d.e";
    let token = jws::sign_detached(body, &signer, &key, NOW_MS).unwrap();
    let verify = |token: &str, body: &[u8], signer: &Signer, now_ms: u64| {
        jws::verify_detached(token.as_bytes(), body, &keys, signer, 60_000, now_ms)
    };
    assert_eq!(verify(&token, body, &signer, NOW_MS + 59_000), Ok(()));
    assert_eq!(class(verify(&token, b"a.b.c.d.f", &signer, NOW_MS)), Class::Signature);
    let mut other = signer.clone();
    other.issuer.push('x');
    assert_eq!(class(verify(&token, body, &other, NOW_MS)), Class::Signature);
    assert_eq!(
        class(verify(&token, body, &Signer { trust_anchor: "b".into(), ..signer.clone() }, NOW_MS)),
        Class::Signature
    );
    for now_ms in [NOW_MS - 61_000, NOW_MS + 62_000] {
        assert_eq!(class(verify(&token, body, &signer, now_ms)), Class::Iat);
    }
    let attached = token.replace("..", &format!(".{}.", encode(body)));
    assert_eq!(class(verify(&attached, body, &signer, NOW_MS)), Class::Shape);
    let names = ["iat", "iss", "tan"].map(|name| format!("http://openbanking.org.uk/{name}"));
    let header = json!({ "alg": "PS256", "kid": KID, "crit": names, names[0].as_str(): NOW_MS / 1000,
        names[1].as_str(): signer.issuer, names[2].as_str(): signer.trust_anchor });
    let forged = |change: &dyn Fn(&mut Value)| {
        let mut header = header.clone();
        change(&mut header);
        let header = encode(header.to_string().as_bytes());
        let signature = key.sign(format!("{header}.{}", encode(body)).as_bytes()).unwrap();
        verify(&format!("{header}..{}", encode(&signature)), body, &signer, NOW_MS)
    };
    assert_eq!(forged(&|_| {}), Ok(()));
    assert_eq!(class(forged(&|header| header["crit"] = json!(names[..2]))), Class::Crit);
    assert_eq!(class(forged(&|header| header["crit"] = json!([names[0], names[1], names[1]]))), Class::Crit);
    assert_eq!(class(forged(&|header| header["crit"] = json!("b64"))), Class::Crit);
    assert_eq!(class(forged(&|header| header["crit"] = Value::Null)), Class::Crit);
    assert_eq!(class(forged(&|header| header["b64"] = json!(true))), Class::Crit);
    assert_eq!(class(forged(&|header| header[&names[0]] = json!("1790000000"))), Class::Iat);
    assert_eq!(class(forged(&|header| header[&names[0]] = json!(-1))), Class::Iat);
    assert_eq!(class(forged(&|header| header[&names[1]] = Value::Null)), Class::Signature);
}

#[test]
fn a_signing_key_has_the_form_and_the_name_that_is_due() {
    let load = |alg, private: &[u8], kid: &KidSource| {
        SigningKey::rsa(alg, private, Some(&OWN.certificate), kid, provider(), &AwsLc).map(|key| key.kid().to_owned())
    };
    assert_eq!(load(JwsAlg::Rs256, &OWN.private, &KidSource::SubjectSerialNumber), Ok("16549".into()));
    let pkcs1 = openssl(&["rsa", "-traditional"], &OWN.private);
    assert_eq!(load(JwsAlg::Ps256, &pkcs1, &kid()), Ok(KID.into()));
    assert_eq!(rsa_modulus(&pkcs1), rsa_modulus(&OWN.private));
    assert_ne!(rsa_modulus(&pkcs1), rsa_modulus(&OTHER.private));
    assert_eq!(rsa_modulus(&CURVE.0), None);
    let certificate = OWN.certificate.as_slice();
    for (alg, private, due) in [
        (JwsAlg::Rs256, OTHER.private.as_slice(), KeyError::Mismatch),
        (JwsAlg::Rs256, certificate, KeyError::PublicInPlaceOfPrivate),
        (JwsAlg::Rs256, &CURVE.0, KeyError::Kind),
        (JwsAlg::Es256, &OWN.private, KeyError::JwsAlgorithm(JwsAlg::Es256)),
    ] {
        assert_eq!(load(alg, private, &kid()), Err(due), "{alg}");
    }
    let short = crate::setup::rsa_pem(1024);
    assert_eq!(load(JwsAlg::Rs256, &short, &kid()), Err(KeyError::Bits(1024)));
    assert_eq!(SigningKey::es256(&OWN.private, KID, provider()).err(), Some(KeyError::Curve));
    for (alg, public) in [(JwsAlg::Es256, OWN.spki.as_slice()), (JwsAlg::Ps256, CURVE.1.as_slice())] {
        let loaded = VerifyingKey::load(alg, public, &kid(), provider(), &AwsLc);
        assert_eq!(loaded.err(), Some(KeyError::Kind), "{alg}");
    }
    let secret = format!("{:?}", signing(JwsAlg::Rs256));
    assert!(!secret.contains("pkcs") && secret.len() < 120, "{secret}");
}

fn sha256_base64(body: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(AwsLc.sha256(&[body]))
}

#[test]
fn an_oauth_header_has_the_parameters_of_mastercard() {
    let origin = WebOrigin::new(true, "sandbox.API.mastercard.com:443");
    let request = Request { method: "POST", origin: &origin, path: "/a", query: Some("b=1"), body: b"{}" };
    let consumer = ConsumerKey::parse("abc!0f").unwrap();
    let key = signing(JwsAlg::Rs256);
    let header = oauth1::authorization(&request, &consumer, &key, NOW_MS, [0xab; 16], &AwsLc).unwrap();
    let hash = sha256_base64(b"{}");
    let (start, signature) = header.split_once("oauth_signature=\"").unwrap();
    let nonce = "ab".repeat(16);
    assert_eq!(
        start,
        format!(
            "OAuth oauth_body_hash=\"{hash}\",oauth_consumer_key=\"abc!0f\",oauth_nonce=\"{nonce}\",\
             oauth_signature_method=\"RSA-SHA256\",oauth_timestamp=\"1790000000\",oauth_version=\"1.0\","
        )
    );
    assert!(!signature.contains(['+', '/', '=']), "{signature}");
    let ambiguous = Request { query: Some("oauth_version=2"), ..request };
    assert_eq!(class(oauth1::authorization(&ambiguous, &consumer, &key, NOW_MS, [0; 16], &AwsLc)), Class::Signature);
}

#[test]
fn an_x_pay_token_leaves_out_the_prefix_alone() {
    let origin = WebOrigin::new(true, "sandbox.api.visa.com");
    let request = Request {
        method: "POST",
        origin: &origin,
        path: "/cybersource/payments/v1/sales",
        query: Some("apikey=A%20b"),
        body: b"{\"encData\":\"x\"}",
    };
    let token = |prefix: &str| x_pay_token::token(&request, b"secret", prefix, NOW_MS, &AwsLc);
    for (prefix, path) in [
        ("/cybersource/", "payments/v1/sales"),
        ("/", "cybersource/payments/v1/sales"),
        ("", "/cybersource/payments/v1/sales"),
    ] {
        let message = format!("1790000000{path}apikey=A%20b{{\"encData\":\"x\"}}");
        let mac = openssl(&["dgst", "-sha256", "-hmac", "secret", "-r"], message.as_bytes());
        let mac = String::from_utf8(mac[..64].to_vec()).unwrap();
        assert_eq!(token(prefix).unwrap(), format!("xv2:1790000000:{mac}"), "{prefix}");
    }
    assert_eq!(class(token("/vdp/")), Class::Signature);
}

#[test]
fn the_claims_of_visa_acceptance_name_the_request() {
    let origin = WebOrigin::new(true, "apitest.cybersource.com");
    let key = SigningKey::rsa(
        JwsAlg::Rs256,
        &OWN.private,
        Some(&OWN.certificate),
        &KidSource::SubjectSerialNumber,
        provider(),
        &AwsLc,
    );
    let (key, keys) = (key.unwrap(), {
        let key =
            VerifyingKey::load(JwsAlg::Rs256, &OWN.certificate, &KidSource::SubjectSerialNumber, provider(), &AwsLc);
        only(key.unwrap())
    });
    let claims = |method, body, kid| {
        let request = Request { method, origin: &origin, path: "/pts/v2/payments", query: Some("a=1"), body };
        let token = acceptance::token(&request, "mer\"chant", kid, &key, NOW_MS, [0xff; 16], &AwsLc).unwrap();
        serde_json::from_slice::<Value>(&jws::verify(token.as_bytes(), &keys).unwrap()).unwrap()
    };
    let mut due = json!({
        "digest": sha256_base64(b"{}"), "digestAlgorithm": "SHA-256", "iat": 1_790_000_000, "exp": 1_790_000_120,
        "request-host": "apitest.cybersource.com", "request-resource-path": "/pts/v2/payments?a=1",
        "request-method": "POST", "iss": "mer\"chant", "jti": "ffffffff-ffff-4fff-bfff-ffffffffffff",
        "v-c-jwt-version": "2", "v-c-merchant-id": "mer\"chant", "v-c-response-mle-kid": "16550",
    });
    assert_eq!(claims("POST", b"{}", Some("16550")), due);
    let object = due.as_object_mut().unwrap();
    for name in ["digest", "digestAlgorithm", "v-c-response-mle-kid"] {
        object.remove(name);
    }
    object["request-method"] = json!("GET");
    assert_eq!(claims("GET", b"", None), due);
}

#[test]
fn an_origin_has_one_spelling() {
    let origin = |is_https, text: &str| WebOrigin::new(is_https, text);
    assert_eq!(origin(true, "A.example:443"), origin(true, "a.example"));
    assert_eq!(origin(false, "a.example:80"), origin(false, "a.example"));
    assert_ne!(origin(false, "a.example"), origin(true, "a.example"));
    assert_eq!(origin(false, "a.example:443").authority(), "a.example:443");
    assert_eq!(origin(true, "[::1]:8443").authority(), "[::1]:8443");
}
