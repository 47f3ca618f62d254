//! Mode psk: RFC 9180 appendix A.1.2 and A.3.2, and the rules of section 5.1.2.

use sealway_proto::hpke::{Aead, HpkeError, Kem, PrivateKey, Psk, Suite, setup_receiver, setup_sender};

use crate::bytes;
use crate::providers::{provider, with_each};

const INFO: &[u8] = b"Ode on a Grecian Urn";
const ID: &[u8] = b"Ennyn Durin aran Moria";
const KEY: &str = "0247fd33b913760fa1fa51e1892d9f307fbe65eb171e8132c2af18555a738b82";
const TEXT: &[u8] = b"Beauty is truth, truth beauty";

#[test]
fn the_contexts_of_appendix_a_come_out() {
    // KEM, private key, enc, the AEAD's key, base nonce.
    let published = [
        (
            Kem::X25519,
            "c5eb01eb457fe6c6f57577c5413b931550a162c71a03ac8d196babbd4e5ce0fd",
            "0ad0950d9fb9588e59690b74f1237ecdf1d775cd60be2eca57af5a4b0471c91b",
            "15026dba546e3ae05836fc7de5a7bb26",
            "9518635eba129d5ce0914555",
        ),
        (
            Kem::P256,
            "438d8bcef33b89e0e9ae5eb0957c353c25a94584b0dd59c991372a75b43cb661",
            "04305d35563527bce037773d79a13deabed0e8e7cde61eecee403496959e89e4d0ca701726696d1485137ccb5341b3c1c7aaee90a4a02449725e744b1193b53b5f",
            "55d9eb9d26911d4c514a990fa8d57048",
            "b595dc6b2d7e2ed23af529b1",
        ),
    ];
    with_each(|name| {
        for (kem, private, enc, key, nonce) in published {
            let suite = Suite { kem, aead: Aead::Aes128Gcm };
            let private = PrivateKey::from_bytes(provider(), kem, &bytes(private)).unwrap();
            let psk = Some(Psk { key: &bytes(KEY), id: ID });
            let mut context = setup_receiver(provider(), suite, &private, &bytes(enc), INFO, psk).unwrap();
            // What the published key and nonce seal is what the context opens.
            let key = provider().aes128_gcm(&bytes(key).try_into().unwrap()).unwrap();
            let mut nonce: [u8; 12] = bytes(nonce).try_into().unwrap();
            for number in 0..2_u8 {
                nonce[11] ^= number;
                let mut sealed = TEXT.to_vec();
                let aad = format!("Count-{number}");
                let tag = key.seal_in_place(&nonce, aad.as_bytes(), &mut sealed).unwrap();
                sealed.extend_from_slice(&tag);
                if (kem, number) == (Kem::X25519, 0) {
                    let published =
                        "e52c6fed7f758d0cf7145689f21bc1be6ec9ea097fef4e959440012f4feb73fb611b946199e681f4cfc34db8ea";
                    assert_eq!(sealed, bytes(published), "{name}");
                }
                assert_eq!(context.open(aad.as_bytes(), &sealed).as_deref(), Ok(TEXT), "{name} {kem:?} {number}");
            }
        }
    });
}

#[test]
fn every_kem_agrees_with_the_right_psk_alone() {
    with_each(|name| {
        for kem in Kem::ALL {
            let suite = Suite { kem, aead: Aead::Aes256Gcm };
            let key = PrivateKey::derive(provider(), kem, &[7; 64]).unwrap().1;
            let (right, other) = (bytes(KEY), [1; 32]);
            let psk = Psk { key: &right, id: ID };
            let (enc, mut sender) = setup_sender(provider(), suite, key.public_key(), INFO, Some(psk)).unwrap();
            let sealed = sender.seal(b"", TEXT).unwrap();
            let open = |info: &[u8], psk: Option<Psk<'_>>| {
                setup_receiver(provider(), suite, &key, &enc, info, psk).unwrap().open(b"", &sealed)
            };
            assert_eq!(open(INFO, Some(psk)).as_deref(), Ok(TEXT), "{name} {kem:?}");
            for (info, wrong) in [
                (INFO, None),
                (INFO, Some(Psk { key: &other, id: ID })),
                (INFO, Some(Psk { key: &right, id: b"Ennyn" })),
                (b"another".as_slice(), Some(psk)),
            ] {
                assert_eq!(open(info, wrong), Err(HpkeError::Unsealable), "{name} {kem:?} {wrong:?}");
            }
        }
    });
}

#[test]
fn a_short_psk_and_one_without_a_name_are_rejected() {
    let suite = Suite { kem: Kem::X25519, aead: Aead::Aes256Gcm };
    let key = PrivateKey::derive(provider(), Kem::X25519, &[7; 32]).unwrap().1;
    for (psk, id) in [(&[1; 31][..], ID), (&[], ID), (&[1; 32], b"")] {
        let set_up = setup_sender(provider(), suite, key.public_key(), INFO, Some(Psk { key: psk, id }));
        assert_eq!(set_up.map(|_| ()), Err(HpkeError::Psk));
    }
}
