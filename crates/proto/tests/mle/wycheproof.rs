//! The primitives below JWE against Project Wycheproof's cases. The numbers of cases are asserted: otherwise a filter that excludes
//! everything would pass unnoticed.

use sealway_proto::mle::{Alg, Enc, JoseProvider};
use wycheproof::{HashFunction, TestResult, aead, keywrap, rsa_oaep};

use crate::setup::provider;

#[test]
fn rsa_oaep_decrypts_the_valid_cases_alone() {
    use rsa_oaep::TestName::*;
    let (mut valid, mut invalid) = (0, 0);
    for name in [
        Rsa2048Sha1Mgf1Sha1,
        Rsa2048Sha256Mgf1Sha256,
        Rsa2048Sha512Mgf1Sha512,
        Rsa3072Sha256Mgf1Sha256,
        Rsa4096Sha256Mgf1Sha256,
        RsaMisc,
    ] {
        for group in rsa_oaep::TestSet::load(name).unwrap().test_groups {
            let alg = match (group.hash, group.mgf_hash) {
                (HashFunction::Sha1, HashFunction::Sha1) => Alg::RsaOaep,
                (HashFunction::Sha2_256, HashFunction::Sha2_256) => Alg::RsaOaep256,
                (HashFunction::Sha2_512, HashFunction::Sha2_512) => Alg::RsaOaep512,
                _ => continue,
            };
            let Ok(key) = provider().rsa_private(alg, &group.pkcs8) else {
                assert!(group.key_size < 2048, "{name:?}: a key of {} bits", group.key_size);
                continue;
            };
            for test in &group.tests {
                let plaintext = key.unwrap_key(&test.ct);
                // JWE has no label, so that a case with one is a wrong encrypted key.
                if test.result == TestResult::Invalid || !test.label.is_empty() {
                    assert!(plaintext.is_none(), "{name:?} {}", test.tc_id);
                    invalid += 1;
                } else {
                    assert_eq!(
                        plaintext.as_ref().map(|text| text.as_slice()),
                        Some(&test.pt[..]),
                        "{name:?} {}",
                        test.tc_id
                    );
                    valid += 1;
                }
            }
        }
    }
    assert!(valid > 60 && invalid > 60, "{valid} valid, {invalid} invalid");
    println!("RSA-OAEP: {valid} valid, {invalid} invalid");
}

#[test]
fn content_encryption_opens_the_valid_cases_alone_and_seals_to_the_same_bytes() {
    use aead::TestName::*;
    for (name, due) in [
        (AesGcm, (120, 80)),
        (Aes128CbcHmacSha256, (20, 10)),
        (Aes192CbcHmacSha384, (20, 10)),
        (Aes256CbcHmacSha512, (20, 10)),
    ] {
        let (mut valid, mut invalid) = (0, 0);
        for group in aead::TestSet::load(name).unwrap().test_groups {
            let enc = match (name, group.key_size) {
                (AesGcm, 128) => Enc::A128Gcm,
                (AesGcm, 192) => Enc::A192Gcm,
                (AesGcm, _) => Enc::A256Gcm,
                (Aes128CbcHmacSha256, _) => Enc::A128CbcHs256,
                (Aes192CbcHmacSha384, _) => Enc::A192CbcHs384,
                _ => Enc::A256CbcHs512,
            };
            let is_sent = group.nonce_size == enc.iv_len() * 8;
            let is_read = is_sent || (enc.is_gcm() && group.nonce_size == 128);
            for test in group.tests {
                let (mut data, id) = (test.ct.to_vec(), format!("{name:?} {}", test.tc_id));
                let opened = provider().open_content(enc, &test.key, &test.nonce, &test.aad, &mut data, &test.tag);
                let is_right = test.result != TestResult::Invalid && is_read;
                assert_eq!(opened.is_ok(), is_right, "{id}");
                if !is_right {
                    invalid += 1;
                    continue;
                }
                assert_eq!(data, test.pt[..], "{id}");
                valid += 1;
                let sealed = provider().seal_content(enc, &test.key, &test.nonce, &test.aad, &mut data);
                assert_eq!(sealed.is_ok(), is_sent, "{id}");
                if let Ok(tag) = sealed {
                    assert_eq!((&data[..], &tag[..]), (&test.ct[..], &test.tag[..]), "{id}");
                }
            }
        }
        println!("{name:?}: {valid} valid, {invalid} invalid");
        assert!(valid >= due.0 && invalid >= due.1, "{name:?}: {valid} valid, {invalid} invalid");
    }
}

#[test]
fn aes_key_wrap_unwraps_the_valid_cases_alone() {
    let (mut valid, mut invalid) = (0, 0);
    for group in keywrap::TestSet::load(keywrap::TestName::AesKeyWrap).unwrap().test_groups {
        for test in group.tests {
            let Ok(key) = provider().aes_wrap(&test.key) else {
                assert_eq!(group.key_size, 192, "{}", test.tc_id);
                continue;
            };
            let unwrapped = key.unwrap_key(&test.ct);
            if test.pt.len() > 64 {
                assert!(unwrapped.is_none(), "{}: longer than any content key", test.tc_id);
            } else if test.result == TestResult::Valid {
                assert_eq!(unwrapped.as_ref().map(|cek| cek.as_slice()), Some(&test.pt[..]), "{}", test.tc_id);
                assert_eq!(key.wrap_key(&test.pt).as_deref(), Ok(&test.ct[..]), "{}", test.tc_id);
                valid += 1;
            } else if test.result == TestResult::Invalid {
                assert!(unwrapped.is_none(), "{}", test.tc_id);
                invalid += 1;
            }
        }
    }
    println!("AES-KW: {valid} valid, {invalid} invalid");
    assert!(valid > 20 && invalid > 80, "{valid} valid, {invalid} invalid");
}
