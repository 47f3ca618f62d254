//! Keys, encapsulated secrets and messages that must not pass.

use sealway_proto::hpke::{
    Aead, HpkeError, Kem, PrivateKey, PublicKey, Suite, setup_receiver, setup_sender, setup_sender_with,
};

use crate::bytes;
use crate::providers::{provider, with_each};

const TEXT: &[u8] = b"text";

fn key(kem: Kem) -> PrivateKey {
    PrivateKey::derive(provider(), kem, &[5; 64]).unwrap().1
}

/// Points of small order on X25519, and their forms with the ignored bit set or not reduced.
fn low_order() -> Vec<Vec<u8>> {
    let forms = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    let with_bit = |form: &&str| {
        let mut form = bytes(form);
        form[31] |= 0x80;
        form
    };
    forms.iter().map(|form| bytes(form)).chain(forms.iter().map(with_bit)).collect()
}

/// Points that are none: compressed, hybrid, off the curve, infinity, a coordinate that is not below the prime.
fn no_points(good: &[u8]) -> Vec<Vec<u8>> {
    let prime = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
    let of = |first: u8, rest: &[u8]| [&[first], rest].concat();
    let mut off = good.to_vec();
    off[64] ^= 1;
    vec![
        of(2 + (good[64] & 1), &good[1..33]),
        of(6 + (good[64] & 1), &good[1..]),
        of(2, &good[1..]),
        off,
        vec![0],
        vec![0; 65],
        of(4, &[0; 64]),
        of(4, &[bytes(prime), good[33..].to_vec()].concat()),
        of(4, &[0xff; 64]),
    ]
}

#[test]
fn an_encapsulated_secret_of_another_form_is_rejected() {
    with_each(|name| {
        for kem in Kem::ALL {
            let (key, suite) = (key(kem), Suite { kem, aead: Aead::Aes256Gcm });
            let (enc, _) = setup_sender(provider(), suite, key.public_key(), b"", None).unwrap();
            let set_up = |enc: &[u8]| setup_receiver(provider(), suite, &key, enc, b"", None).map(|_| ());
            assert_eq!(set_up(&enc), Ok(()));
            for cut in 0..enc.len() {
                assert_eq!(set_up(&enc[..cut]), Err(HpkeError::Encapsulated), "{name} {kem:?} {cut}");
            }
            assert_eq!(set_up(&[&enc[..], &[0]].concat()), Err(HpkeError::Encapsulated), "{name} {kem:?}");
            // The group's part is the last one.
            let of_group = match kem {
                Kem::X25519 | Kem::XWing => low_order(),
                Kem::P256 | Kem::MlKem768P256 => no_points(&enc[enc.len() - 65..]),
                Kem::MlKem768 => Vec::new(),
            };
            let group_len = if matches!(kem, Kem::X25519 | Kem::XWing) { 32 } else { 65 };
            for part in of_group {
                let bad = [&enc[..enc.len() - group_len.min(enc.len())], &part[..]].concat();
                assert_eq!(set_up(&bad), Err(HpkeError::Encapsulated), "{name} {kem:?} {part:02x?}");
            }
        }
    });
}

#[test]
fn no_changed_byte_of_enc_or_message_opens() {
    with_each(|name| {
        for kem in Kem::ALL {
            let (key, suite) = (key(kem), Suite { kem, aead: Aead::ChaCha20Poly1305 });
            let (enc, mut sender) = setup_sender(provider(), suite, key.public_key(), b"", None).unwrap();
            let sealed = sender.seal(b"aad", TEXT).unwrap();
            let open = |enc: &[u8], aad: &[u8], sealed: &[u8]| {
                setup_receiver(provider(), suite, &key, enc, b"", None)?.open(aad, sealed)
            };
            assert_eq!(open(&enc, b"aad", &sealed).as_deref(), Ok(TEXT));
            // X25519 ignores the highest bit; the schedule does not.
            for bit in [0, 7] {
                for at in (0..enc.len()).step_by(if name == "aws-lc" { 7 } else { 211 }).chain([enc.len() - 1]) {
                    let mut bad = enc.clone();
                    bad[at] ^= 1 << bit;
                    assert!(open(&bad, b"aad", &sealed).is_err(), "{name} {kem:?} {at} {bit}");
                }
            }
            for at in 0..sealed.len() {
                let mut bad = sealed.clone();
                bad[at] ^= 1;
                assert_eq!(open(&enc, b"aad", &bad), Err(HpkeError::Unsealable), "{name} {kem:?} {at}");
                assert_eq!(open(&enc, b"aad", &sealed[..at]), Err(HpkeError::Unsealable), "{name} {kem:?} {at}");
            }
            assert_eq!(open(&enc, b"", &sealed), Err(HpkeError::Unsealable));
            let (other, _) = setup_sender(provider(), suite, key.public_key(), b"", None).unwrap();
            let mixed = [&enc[..enc.len() / 2], &other[enc.len() / 2..]].concat();
            assert!(open(&mixed, b"aad", &sealed).is_err(), "{name} {kem:?}");
        }
    });
}

#[test]
fn a_message_that_does_not_open_takes_no_number_and_none_opens_twice() {
    let suite = Suite { kem: Kem::X25519, aead: Aead::Aes128Gcm };
    let key = key(Kem::X25519);
    let (enc, mut sender) = setup_sender(provider(), suite, key.public_key(), b"", None).unwrap();
    let mut receiver = setup_receiver(provider(), suite, &key, &enc, b"", None).unwrap();
    let sealed = [sender.seal(b"", b"0").unwrap(), sender.seal(b"", b"1").unwrap()];
    assert_eq!(receiver.open(b"", &sealed[1]), Err(HpkeError::Unsealable));
    assert_eq!(receiver.open(b"", &sealed[0]).as_deref(), Ok(&b"0"[..]));
    assert_eq!(receiver.open(b"", &sealed[0]), Err(HpkeError::Unsealable));
    assert_eq!(receiver.open(b"", &sealed[1]).as_deref(), Ok(&b"1"[..]));
}

#[test]
fn a_public_key_of_another_form_is_rejected() {
    with_each(|name| {
        for kem in Kem::ALL {
            let good = key(kem).public_key().as_bytes().to_vec();
            let read = |bytes: &[u8]| PublicKey::from_bytes(provider(), kem, bytes).map(|_| ());
            assert_eq!(read(&good), Ok(()));
            for bad in [&good[1..], &good[..good.len() - 1], &[&good[..], &[0]].concat(), &[]] {
                assert_eq!(read(bad), Err(HpkeError::PublicKey), "{name} {kem:?}");
            }
            if matches!(kem, Kem::P256 | Kem::MlKem768P256) {
                for part in no_points(&good[good.len() - 65..]) {
                    let bad = [&good[..good.len() - 65], &part[..]].concat();
                    assert_eq!(read(&bad), Err(HpkeError::PublicKey), "{name} {kem:?} {part:02x?}");
                }
            }
            if good.len() > 1184 - 1 {
                // The first and the last coefficient of 768, at the prime and at the largest value of 12 bits.
                for value in [3329_u16, 4095] {
                    let [low, high] = value.to_le_bytes();
                    let (mut first, mut last) = (good.clone(), good.clone());
                    first[0] = low;
                    first[1] = (first[1] & 0xf0) | high;
                    last[1150] = (last[1150] & 0x0f) | (low << 4);
                    last[1151] = (low >> 4) | (high << 4);
                    assert_eq!(read(&first), Err(HpkeError::PublicKey), "{name} {kem:?} {value}");
                    assert_eq!(read(&last), Err(HpkeError::PublicKey), "{name} {kem:?} {value}");
                }
            }
        }
        // A point of small order is found when a secret is agreed.
        let suite = Suite { kem: Kem::X25519, aead: Aead::Aes256Gcm };
        for point in low_order() {
            let public = PublicKey::from_bytes(provider(), Kem::X25519, &point).unwrap();
            let set_up = setup_sender(provider(), suite, &public, b"", None).map(|_| ());
            assert_eq!(set_up, Err(HpkeError::PublicKey), "{name} {point:02x?}");
        }
    });
}

#[test]
fn a_private_key_of_another_form_is_rejected_and_none_is_printed() {
    with_each(|name| {
        for kem in Kem::ALL {
            let read = |bytes: &[u8]| PrivateKey::from_bytes(provider(), kem, bytes).map(|_| ());
            for len in [0, 31, 33, 63, 65] {
                assert_eq!(read(&vec![1; len]), Err(HpkeError::PrivateKey), "{name} {kem:?} {len}");
            }
            let short = PrivateKey::derive(provider(), kem, &[1; 31]).map(|_| ());
            assert_eq!(short, Err(HpkeError::PrivateKey), "{name} {kem:?}");
            let secret = vec![0x11; kem.private_len()];
            let key = PrivateKey::from_bytes(provider(), kem, &secret).unwrap();
            assert_eq!(format!("{key:?}"), format!("PrivateKey({kem:?}, redacted)"));
        }
        // Zero and the group's order are no scalars.
        let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
        for bad in [vec![0; 32], bytes(order), vec![0xff; 32]] {
            let read = PrivateKey::from_bytes(provider(), Kem::P256, &bad).map(|_| ());
            assert_eq!(read, Err(HpkeError::PrivateKey), "{name}");
        }
    });
}

#[test]
fn a_key_of_another_kem_a_long_export_and_bad_randomness_are_rejected() {
    let (x, p) = (key(Kem::X25519), key(Kem::P256));
    let suite = Suite { kem: Kem::X25519, aead: Aead::Aes256Gcm };
    let mismatch = Err(HpkeError::KemMismatch);
    assert_eq!(setup_sender(provider(), suite, p.public_key(), b"", None).map(|_| ()), mismatch);
    assert_eq!(setup_receiver(provider(), suite, &p, &[0; 32], b"", None).map(|_| ()), mismatch);
    let (_, sender) = setup_sender(provider(), suite, x.public_key(), b"", None).unwrap();
    assert_eq!(sender.export(provider(), b"", &mut [0; 8160]), Ok(()));
    assert_eq!(sender.export(provider(), b"", &mut [0; 8161]), Err(HpkeError::ExportLength));
    for kem in [Kem::MlKem768, Kem::MlKem768P256, Kem::XWing] {
        let suite = Suite { kem, aead: Aead::Aes256Gcm };
        let set_up = setup_sender_with(provider(), suite, key(kem).public_key(), b"", None, &[1; 31]);
        assert_eq!(set_up.map(|_| ()), Err(HpkeError::PrivateKey), "{kem:?}");
    }
}
