//! HPKE (RFC 9180) of each KEM and AEAD: decapsulation, key schedule with a pre-shared key, messages and export, at both ends.

use anyhow::ensure;
use sealway_proto::hpke::{Aead, HpkeError, Kem, PrivateKey, Psk, Suite, setup_receiver, setup_sender};

use super::{Library, Path};
use crate::memcheck::{declare, declare_bit, secret, secret_of};

pub(super) const PATHS: &[Path] = &[
    Path::of_each("hpke-p256", |library| messages(library, Kem::P256, Aead::Aes256Gcm)),
    Path::of_each("hpke-x25519", |library| messages(library, Kem::X25519, Aead::Aes128Gcm)).in_short("ring"),
    Path::of_each("hpke-ml-kem-768", |library| messages(library, Kem::MlKem768, Aead::ChaCha20Poly1305)),
    Path::of_each("hpke-ml-kem-768-p256", |library| messages(library, Kem::MlKem768P256, Aead::Aes256Gcm)),
    Path::of_each("hpke-x-wing", |library| messages(library, Kem::XWing, Aead::Aes256Gcm)),
];

const TEXT: &[u8] = b"4111111111111111";
const OPENED: &str = "plaintext behind a verified tag: it is the caller's";
const ENCAPSULATED: &str = "public key or encapsulated secret: they go over the wire";

fn messages(library: &Library, kem: Kem, aead: Aead) -> anyhow::Result<()> {
    let (provider, suite) = (library.provider, Suite { kem, aead });
    let private = PrivateKey::from_bytes(provider, kem, &secret_of(&vec![0x31; kem.private_len()]))?;
    let public = private.public_key().clone();
    declare(public.as_bytes(), ENCAPSULATED);
    let key = secret([0x41; 32]);
    let psk = Some(Psk { key: &key, id: b"partner-7" });
    let (enc, mut sender) = setup_sender(provider, suite, &public, b"info", psk)?;
    declare(&enc, ENCAPSULATED);
    let mut receiver = setup_receiver(provider, suite, &private, &enc, b"info", psk)?;
    let sealed = sender.seal(b"aad", &secret_of(TEXT))?;
    let opened = receiver.open(b"aad", &sealed)?;
    declare(&opened, OPENED);
    ensure!(opened == TEXT, "another plaintext");

    let mut changed = sender.seal(b"aad", TEXT)?;
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    ensure!(matches!(receiver.open(b"aad", &changed), Err(HpkeError::Unsealable)), "a changed message opens");

    let (mut one, mut other) = ([0; 32], [0; 32]);
    sender.export(provider, b"context", &mut one)?;
    receiver.export(provider, b"context", &mut other)?;
    let is_same: bool = subtle::ConstantTimeEq::ct_eq(one.as_slice(), &other).into();
    ensure!(declare_bit(is_same, "the comparison of this case itself"), "another exported secret");
    Ok(())
}
