//! The crate `hpke` as the other side: what one library seals the other opens. No published vector has these suites and modes.

use hpke::kem::{X25519HkdfSha256, XWing};
use hpke::{Deserializable, OpModeR, OpModeS, PskBundle, Serializable};
use sealway_proto::hpke::{Aead, Kem, PrivateKey, Psk, PublicKey, Suite, setup_receiver, setup_sender};

use crate::providers::{provider, with_each};

type Aes256 = hpke::aead::AesGcm256;
type Hkdf = hpke::kdf::HkdfSha256;

const INFO: &[u8] = b"between two libraries";
const PSK: [u8; 32] = [9; 32];
const ID: &[u8] = b"partner-7";

fn play<K: hpke::Kem>(kem: Kem, is_psk: bool) {
    let suite = Suite { kem, aead: Aead::Aes256Gcm };
    let psk = is_psk.then_some(Psk { key: &PSK, id: ID });
    let bundle = || PskBundle::new(&PSK, ID).unwrap();
    let (_, ours) = PrivateKey::derive(provider(), kem, &[3; 32]).unwrap();
    let (theirs, public) = K::derive_keypair(&[3; 32]);
    assert_eq!(&*public.to_bytes(), ours.public_key().as_bytes());

    // Theirs seals, ours opens.
    let mode = if is_psk { OpModeS::Psk(bundle()) } else { OpModeS::Base };
    let (enc, mut sender) = hpke::setup_sender::<Aes256, Hkdf, K>(&mode, &public, INFO).unwrap();
    let mut receiver = setup_receiver(provider(), suite, &ours, &enc.to_bytes(), INFO, psk).unwrap();
    for number in 0..300_u32 {
        let text = number.to_be_bytes().repeat(5);
        let sealed = sender.seal(&text, b"aad").unwrap();
        assert_eq!(receiver.open(b"aad", &sealed).as_deref(), Ok(&text[..]));
    }
    let (mut one, mut other) = ([0; 77], [0; 77]);
    sender.export(b"for both", &mut one).unwrap();
    receiver.export(provider(), b"for both", &mut other).unwrap();
    assert_eq!(one, other);

    // Ours seals, theirs opens.
    let public = PublicKey::from_bytes(provider(), kem, &public.to_bytes()).unwrap();
    let (enc, mut sender) = setup_sender(provider(), suite, &public, INFO, psk).unwrap();
    let enc = K::EncappedKey::from_bytes(&enc).unwrap();
    let mode = if is_psk { OpModeR::Psk(bundle()) } else { OpModeR::Base };
    let mut receiver = hpke::setup_receiver::<Aes256, Hkdf, K>(&mode, &theirs, &enc, INFO).unwrap();
    for number in 0..300_u32 {
        let text = number.to_be_bytes().repeat(5);
        let sealed = sender.seal(b"aad", &text).unwrap();
        assert_eq!(receiver.open(&sealed, b"aad").unwrap(), text);
    }
}

#[test]
fn both_libraries_open_what_the_other_seals() {
    with_each(|_| {
        for is_psk in [false, true] {
            play::<XWing>(Kem::XWing, is_psk);
            play::<X25519HkdfSha256>(Kem::X25519, is_psk);
        }
    });
}
