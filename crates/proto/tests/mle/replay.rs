//! Claims against replays, and the path of a failed unwrap.

use std::sync::Mutex;

use sealway_proto::crypto::Provider;
use sealway_proto::mle::crypto::{AesWrap, CryptoFailure, P256Private, RsaPrivate, Wrap};
use sealway_proto::mle::{Alg, Class, Enc, JoseProvider, Message, OpenRandoms, Opening, Profile};
use sealway_proto::session::{Claim, Fresh};
use sealway_proto::wire::ReplayPolicy;

use crate::builder::{Builder, iat_now};
use crate::setup::{NOW_MS, open_at, opening_keys, provider, release};

#[test]
fn another_spelling_of_a_token_has_the_same_claim() {
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    let token = Builder::new("RSA-OAEP-256", Enc::A256Gcm, None).token();
    let claim = |text: &str| *open_at(text.as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap().claim();
    let first = claim(&token.text());
    for part in 1..5 {
        let mixed = token.with_text(part, |text| *text = text.replace('-', "+").replace('_', "/"));
        assert_eq!(claim(&mixed), first, "part {part}");
    }
    // The same content sealed anew is another token.
    assert_ne!(claim(&Builder::new("RSA-OAEP-256", Enc::A256Gcm, None).text()).key(), first.key());
}

#[test]
fn a_claim_of_a_token_without_time_is_stamped_ahead_so_that_it_is_made_durable() {
    let keys = opening_keys(Alg::RsaOaep256);
    let token = Builder::new("RSA-OAEP-256", Enc::A256Gcm, None).text();
    let profile = Profile::mastercard_jwe().with_replay(ReplayPolicy::new(1_000, 60_000));
    let opened = open_at(token.as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap();
    let claim = *opened.claim();
    assert!(claim.is_stamped_ahead());
    // It is so still when a store that is asked later makes the claim anew, by its own clock.
    let later = Claim::passed_on(claim.key(), false, claim.stamp_ms(), NOW_MS + 400, &ReplayPolicy::new(1_000, 60_000));
    assert!(later.unwrap().is_stamped_ahead());
    // Anybody can make a token, so that its claim is bounded as those of strangers are.
    assert!(!claim.is_sealed());
    assert_eq!(claim.expires_ms(), NOW_MS + 60_001);

    let iat = iat_now(Profile::visa().iat_unit());
    let token = Builder::new("RSA-OAEP-256", Enc::A128Gcm, iat.as_deref()).text();
    let timed = open_at(token.as_bytes(), &Profile::visa(), Message::Request, &keys, NOW_MS + 5).unwrap();
    assert_eq!((timed.claim().stamp_ms(), timed.claim().is_stamped_ahead()), (NOW_MS, false));
    // A claim of one token releases no other.
    assert!(timed.release(Fresh::reserved(&claim)).is_err());
    assert!(release(opened).bytes().unwrap().starts_with(b"{\"pan\""));
}

#[test]
fn the_window_holds_to_the_millisecond_both_ways() {
    let keys = opening_keys(Alg::RsaOaep256);
    let profile = Profile::visa().with_replay(ReplayPolicy::new(120_000, 0));
    let token = Builder::new("RSA-OAEP-256", Enc::A128Gcm, Some(&NOW_MS.to_string())).text();
    for (now_ms, is_open) in
        [(NOW_MS - 120_001, false), (NOW_MS - 120_000, true), (NOW_MS + 120_000, true), (NOW_MS + 120_001, false)]
    {
        let opened = open_at(token.as_bytes(), &profile, Message::Request, &keys, now_ms);
        assert_eq!(opened.is_ok(), is_open, "{now_ms}");
        if let Err(refusal) = opened {
            assert_eq!(refusal.kind(), Class::Iat);
            assert!(refusal.detail().contains("120001 ms"), "{refusal}");
        }
    }
    let seconds = Builder::new("RSA-OAEP-256", Enc::A128Gcm, Some("1790000000")).text();
    let refusal = open_at(seconds.as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap_err();
    assert!(refusal.detail().contains("iat is in seconds"), "{refusal}");
    let token = Builder::new("RSA-OAEP-256", Enc::A256Gcm, Some(&NOW_MS.to_string())).text();
    let refusal = open_at(token.as_bytes(), &Profile::visa_acceptance(), Message::Request, &keys, NOW_MS).unwrap_err();
    assert!(refusal.detail().contains("iat is in milliseconds"), "{refusal}");
}

#[test]
fn an_answer_may_be_without_time_and_is_checked_if_it_has_one() {
    let keys = opening_keys(Alg::RsaOaep256);
    let token = Builder::new("RSA-OAEP-256", Enc::A128Gcm, None).text();
    assert!(open_at(token.as_bytes(), &Profile::visa(), Message::Answer, &keys, NOW_MS).is_ok());
    let refusal = open_at(token.as_bytes(), &Profile::visa(), Message::Request, &keys, NOW_MS).unwrap_err();
    assert_eq!(refusal.kind(), Class::Iat);
    let old = Builder::new("RSA-OAEP-256", Enc::A128Gcm, Some(&(NOW_MS - 999_999).to_string())).text();
    let refusal = open_at(old.as_bytes(), &Profile::visa(), Message::Answer, &keys, NOW_MS).unwrap_err();
    assert_eq!(refusal.kind(), Class::Iat);
}

/// A provider that writes down the content keys it was asked to open with.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Vec<u8>>>);

impl JoseProvider for Recorder {
    fn base(&self) -> &dyn Provider {
        provider().base()
    }

    fn open_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
        tag: &[u8],
    ) -> Result<(), CryptoFailure> {
        self.0.lock().unwrap().push(cek.to_vec());
        provider().open_content(enc, cek, iv, aad, data, tag)
    }

    fn seal_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<Vec<u8>, CryptoFailure> {
        provider().seal_content(enc, cek, iv, aad, data)
    }

    fn encrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        provider().encrypt_blocks(key, iv, data)
    }

    fn decrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        provider().decrypt_blocks(key, iv, data)
    }

    fn rsa_private(&self, alg: Alg, pkcs8: &[u8]) -> Result<Box<dyn RsaPrivate>, CryptoFailure> {
        provider().rsa_private(alg, pkcs8)
    }

    fn rsa_public(&self, alg: Alg, spki: &[u8]) -> Result<Box<dyn Wrap>, CryptoFailure> {
        provider().rsa_public(alg, spki)
    }

    fn p256_private(&self, scalar: &[u8; 32]) -> Result<Box<dyn P256Private>, CryptoFailure> {
        provider().p256_private(scalar)
    }

    fn aes_wrap(&self, key: &[u8]) -> Result<Box<dyn AesWrap>, CryptoFailure> {
        provider().aes_wrap(key)
    }
}

#[test]
fn a_failed_unwrap_goes_on_with_a_random_key_of_the_right_length() {
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    for enc in [Enc::A256Gcm, Enc::A192Gcm, Enc::A128Gcm, Enc::A128CbcHs256] {
        let good = Builder::new("RSA-OAEP-256", enc, None);
        let token = good.text();
        for (cek, class) in [
            (None, Some(Class::Unwrap)),
            (Some(vec![]), Some(Class::Unwrap)),
            (Some(good.cek[1..].to_vec()), Some(Class::Unwrap)),
            (Some([good.cek.as_slice(), &[0]].concat()), Some(Class::Unwrap)),
            (Some(vec![1; enc.cek_len()]), Some(Class::Tag)),
            (Some(good.cek.clone()), None),
        ] {
            let recorder = Recorder::default();
            let opening = Opening::begin(token.as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap();
            let opened = opening.unwrapped(cek.as_deref(), &OpenRandoms::from_bytes([0xd5; 64]), &recorder);
            assert_eq!(opened.err().map(|refusal| refusal.kind()), class, "{enc} {cek:?}");
            let is_decoy = class == Some(Class::Unwrap);
            let used = if is_decoy { vec![0xd5; enc.cek_len()] } else { cek.unwrap() };
            assert_eq!(*recorder.0.lock().unwrap(), [used], "{enc}: the cipher runs once, whatever was unwrapped");
        }
    }
}

#[test]
fn a_key_that_equals_the_decoy_opens_nothing_if_the_unwrap_failed() {
    let (profile, keys) = (Profile::mastercard_jwe(), opening_keys(Alg::RsaOaep256));
    let good = Builder { cek: vec![0xd5; 32], ..Builder::new("RSA-OAEP-256", Enc::A256Gcm, None) };
    let opening = Opening::begin(good.text().as_bytes(), &profile, Message::Request, &keys, NOW_MS).unwrap();
    let refused = opening.unwrapped(None, &OpenRandoms::from_bytes([0xd5; 64]), provider()).unwrap_err();
    assert_eq!(refused.kind(), Class::Unwrap);
}
