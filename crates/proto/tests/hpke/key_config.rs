//! Key configurations of RFC 9458 and their lists.

use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::one_shot::key_config::KEY_LIST_LEN_MAX;
use sealway_proto::one_shot::{KeyConfig, KeyConfigError};

use crate::bytes;
use crate::providers::{provider, with_each};

/// The configuration of RFC 9458 appendix A.
const PUBLISHED: &str = "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003";

fn config(key_id: u8, kem: Kem) -> KeyConfig {
    let key = PrivateKey::derive(provider(), kem, &[key_id; 64]).unwrap().1;
    KeyConfig::new(key_id, key.public_key().clone(), &[Aead::Aes256Gcm]).unwrap()
}

#[test]
fn the_published_configuration_decodes_and_encodes_to_the_same_bytes() {
    with_each(|name| {
        let config = KeyConfig::decode(provider(), &bytes(PUBLISHED)).unwrap();
        assert_eq!((config.key_id(), config.public_key().kem()), (1, Kem::X25519), "{name}");
        let private = bytes("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a");
        let private = PrivateKey::from_bytes(provider(), Kem::X25519, &private).unwrap();
        assert_eq!(config.public_key(), private.public_key());
        assert_eq!(config.pairs(), [(1, 1), (1, 3)]);
        let aeads: Vec<Aead> = config.suites().map(|suite| suite.aead).collect();
        assert_eq!(aeads, [Aead::Aes128Gcm, Aead::ChaCha20Poly1305]);
        assert_eq!(config.encode(), bytes(PUBLISHED));
        let again = KeyConfig::new(1, config.public_key().clone(), &aeads).unwrap();
        assert_eq!(again, config);
        // `sha256sum` of the bytes.
        assert_eq!(config.kid(provider()), "hpke:30a685fefa307e3aaacfd689d9bf26f6");
    });
}

#[test]
fn every_cut_and_every_byte_too_many_is_rejected() {
    for kem in Kem::ALL {
        let good = config(7, kem).encode();
        let decode = |bytes: &[u8]| KeyConfig::decode(provider(), bytes);
        assert_eq!(decode(&good).unwrap(), config(7, kem));
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut]).map(|_| ()), Err(KeyConfigError::Truncated), "{kem:?} {cut}");
        }
        let more = [&good[..], &[0]].concat();
        assert_eq!(decode(&more).map(|_| ()), Err(KeyConfigError::TrailingBytes));
    }
}

#[test]
fn bad_parts_of_a_configuration_are_named() {
    let decode = |bytes: &[u8]| KeyConfig::decode(provider(), bytes).map(|_| ());
    let good = bytes(PUBLISHED);
    let with = |at: usize, part: &[u8]| [&good[..at], part].concat();
    assert_eq!(decode(&with(35, &[0, 0])), Err(KeyConfigError::Suites));
    assert_eq!(decode(&with(35, &[0, 6, 0, 1, 0, 1, 0, 1])), Err(KeyConfigError::Suites));
    assert_eq!(decode(&with(1, &[0xab, 0xcd, 1, 2])), Err(KeyConfigError::UnknownKem(0xabcd)));
    let off_curve = [&[1, 0, 0x10, 4][..], &[1; 64], &[0, 4, 0, 1, 0, 2]].concat();
    assert_eq!(decode(&off_curve), Err(KeyConfigError::PublicKey));
    // A pair that is unknown stays, and is no suite of ours.
    let unknown = KeyConfig::decode(provider(), &with(35, &[0, 8, 0, 9, 0, 1, 0, 1, 0, 2])).unwrap();
    assert_eq!((unknown.pairs().len(), unknown.suites().count()), (2, 1));
    let key = unknown.public_key();
    assert_eq!(KeyConfig::new(1, key.clone(), &[]).map(|_| ()), Err(KeyConfigError::Suites));
    assert_eq!(KeyConfig::new(1, key.clone(), &[Aead::Aes128Gcm; 16384]).map(|_| ()), Err(KeyConfigError::Suites));
}

#[test]
fn a_list_is_read_whole_or_not_at_all() {
    let configs: Vec<KeyConfig> = (1..).zip(Kem::ALL).map(|(id, kem)| config(id, kem)).collect();
    let list = KeyConfig::encode_list(&configs).unwrap();
    let decode = |bytes: &[u8]| KeyConfig::decode_list(provider(), bytes);
    assert_eq!(decode(&list).unwrap(), configs);
    assert_eq!(decode(&[]).unwrap(), []);
    // Where a configuration ends the list may end; nowhere else.
    let mut ends = vec![0];
    for config in &configs {
        ends.push(ends.last().unwrap() + 2 + config.encode().len());
    }
    for cut in 0..list.len() {
        assert_eq!(decode(&list[..cut]).is_ok(), ends.contains(&cut), "{cut}");
    }
    // An unknown KEM is skipped; a malformed entry and an id that occurs twice reject the list.
    let unknown = [&[0, 5, 9, 0xab, 0xcd, 1, 2][..], &list].concat();
    assert_eq!(decode(&unknown).unwrap(), configs);
    let malformed = [&list[..], &[0, 3, 9, 0, 0x20]].concat();
    assert_eq!(decode(&malformed), Err(KeyConfigError::Truncated));
    let twice = [config(1, Kem::X25519), config(1, Kem::P256)];
    assert_eq!(KeyConfig::encode_list(&twice), Err(KeyConfigError::KeyIdTwice(1)));
    let twice = twice.map(|config| [&[0, config.encode().len() as u8][..], &config.encode()].concat()).concat();
    assert_eq!(decode(&twice), Err(KeyConfigError::KeyIdTwice(1)));
    assert_eq!(decode(&vec![0; KEY_LIST_LEN_MAX + 1]), Err(KeyConfigError::ListTooLong));
}
