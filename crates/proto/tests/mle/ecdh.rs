//! `ECDH-ES` on P-256, `dir` and AES key wrap: round trips, and keys of another kind.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::mle::load::shared;
use sealway_proto::mle::{
    Alg, Class, Enc, JoseProvider, KeyError, KidSource, Message, OpeningKey, OpeningKeys, Profile, Public, SealRandoms,
    SealingKey, Side, Wrapper, compact, seal,
};

use crate::setup::{NOW_MS, OWN, certificate, open, openssl, provider};

fn profile() -> Profile {
    let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
    Profile::generic(side.clone(), side, None)
}

fn ec_pem(curve: &str) -> Vec<u8> {
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", &format!("ec_paramgen_curve:{curve}")], b"")
}

fn token(plaintext: &[u8], key: &SealingKey) -> String {
    let randoms = SealRandoms::draw(provider().base()).unwrap();
    seal::seal(plaintext, &profile(), Message::Request, key, NOW_MS, randoms, provider()).unwrap()
}

fn keys(key: OpeningKey) -> OpeningKeys {
    OpeningKeys::new([Arc::new(key)]).unwrap()
}

#[test]
fn a_token_of_ecdh_es_opens_with_every_form_of_its_key() {
    let private = ec_pem("P-256");
    let certificate = certificate(&private, "/CN=ec");
    let sec1 = openssl(&["ec"], &private);
    let der = openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], &private);
    let sec1_der = openssl(&["ec", "-outform", "DER"], &private);
    for kid in [KidSource::SpkiSha256Hex, KidSource::JwkThumbprint, KidSource::Fixed("ec".into())] {
        for enc in Enc::ALL {
            let sealing = SealingKey::p256(*enc, &certificate, &kid, provider()).unwrap();
            let token = token(b"secret", &sealing);
            for form in [&private, &sec1, &der, &sec1_der] {
                let key = OpeningKey::p256(form, Some(&certificate), &kid, provider()).unwrap();
                let opened = open(token.as_bytes(), &profile(), Message::Request, &keys(key));
                assert_eq!(opened.as_deref(), Ok(&b"secret"[..]), "{enc} {kid:?}");
            }
        }
    }
    let sealing = SealingKey::p256(Enc::A256Gcm, &certificate, &KidSource::SpkiSha256Hex, provider()).unwrap();
    let [one, other] =
        [token(b"a", &sealing), token(b"a", &sealing)].map(|token| token.split('.').next().unwrap().to_owned());
    assert_ne!(one, other, "each token has an ephemeral key of its own");
}

#[test]
fn an_ephemeral_key_off_the_curve_or_of_another_is_refused() {
    let private = ec_pem("P-256");
    let key = || OpeningKey::p256(&private, None, &KidSource::Fixed("ec".into()), provider()).unwrap();
    let off_curve = compact::encode(&[7; 32]);
    for (crv, x, y) in [
        ("P-256", off_curve.as_str(), off_curve.as_str()),
        ("P-256", &compact::encode(&[0; 32]), &compact::encode(&[0; 32])),
        ("P-384", &off_curve, &off_curve),
        ("P-256", &compact::encode(&[7; 31]), &off_curve),
    ] {
        let header = format!(
            r#"{{"alg":"ECDH-ES","enc":"A128GCM","kid":"ec","epk":{{"kty":"EC","crv":"{crv}","x":"{x}","y":"{y}"}}}}"#
        );
        let [header, iv, tag] = [header.as_bytes(), &[0; 12], &[0; 16]].map(compact::encode);
        let token = format!("{header}..{iv}.AAAA.{tag}");
        let refused = open(token.as_bytes(), &profile(), Message::Request, &keys(key())).unwrap_err();
        assert_eq!(refused.kind(), Class::Epk, "{crv} {x} {y}");
    }
}

#[test]
fn shared_keys_open_what_they_seal() {
    let names = [(Alg::Dir, 0), (Alg::A128Kw, 16), (Alg::A256Kw, 32)];
    for (alg, len) in names {
        for enc in Enc::ALL {
            let len = if alg == Alg::Dir { enc.cek_len() } else { len };
            let text = format!("{}\n", STANDARD.encode(vec![7; len]));
            let secret = shared(text.as_bytes()).unwrap();
            let sealing = SealingKey::secret(alg, *enc, &secret, "shared", provider()).unwrap();
            let opening = OpeningKey::secret(alg, *enc, &secret, "shared", provider()).unwrap();
            let token = token(b"secret", &sealing);
            let opened = open(token.as_bytes(), &profile(), Message::Request, &keys(opening));
            assert_eq!(opened.as_deref(), Ok(&b"secret"[..]), "{alg} {enc}");
            let short = OpeningKey::secret(alg, *enc, &secret[1..], "shared", provider()).unwrap_err();
            assert_eq!(short, KeyError::SharedLength(len - 1, len), "{alg} {enc}");
        }
    }
    for text in ["", "Bw", "Bw==\nBw==", "-_8=", "not base64"] {
        assert!(shared(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn a_key_of_another_kind_is_named() {
    let (private, other) = (ec_pem("P-256"), ec_pem("P-384"));
    let (certificate, other_certificate) = (certificate(&private, "/CN=ec"), certificate(&other, "/CN=other"));
    let kid = KidSource::SpkiSha256Hex;
    let opening =
        |private: &[u8], public: Option<&[u8]>| OpeningKey::p256(private, public, &kid, provider()).unwrap_err();
    let sealing = |public: &[u8]| SealingKey::p256(Enc::A256Gcm, public, &kid, provider()).unwrap_err();
    assert_eq!(opening(&OWN.private, None), KeyError::Kind);
    assert_eq!(opening(&other, None), KeyError::Curve);
    assert_eq!(opening(&openssl(&["ec"], &other), None), KeyError::Curve);
    assert_eq!(opening(&private, None), KeyError::CertificateAbsent);
    assert_eq!(opening(&private, Some(&OWN.certificate)), KeyError::Mismatch);
    assert_eq!(opening(&private, Some(&other_certificate)), KeyError::Curve);
    assert_eq!(sealing(&OWN.certificate), KeyError::Kind);
    assert_eq!(sealing(&other_certificate), KeyError::Curve);
    assert_eq!(sealing(&private), KeyError::PrivateInPlaceOfPublic);
    let rsa = SealingKey::rsa(Alg::RsaOaep256, Enc::A256Gcm, &certificate, &kid, provider()).unwrap_err();
    assert_eq!(rsa, KeyError::Kind);
    assert_eq!(Public::load(&certificate).unwrap().kind(), "EC, P-256");
}
