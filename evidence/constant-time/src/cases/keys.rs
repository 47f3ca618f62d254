//! Keys at rest, and an issuer's key: key-encryption keys, session keys, and the signature of relay tokens.

use anyhow::ensure;
use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::crypto::is_equal;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Claims, IssuerKey, Keyset, Requirements, verify};
use sealway_proto::session::SessionKey;
use sealway_proto::store::keys::{KeyEncryptionKeys, UnwrapError};

use super::{Library, Path};
use crate::memcheck::{declare, declare_bit, secret};
use crate::seam::SecretKeys;

pub(super) const PATHS: &[Path] = &[
    Path::of_each("kek-unwrap", unwrap).in_short("aws-lc"),
    Path::of_each("secret-equality", equality).in_short("aws-lc"),
    Path::of_each("identity-sign", sign),
    Path::of_one("relay-token", token),
];

/// A wrapped session key unwraps, and a changed one does not.
fn unwrap(library: &Library) -> anyhow::Result<()> {
    // Text of a key file is read once, when a service starts, by a decoder with tables: the seam marks what it read.
    let text = "first S0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0tLS0s=";
    let keys = KeyEncryptionKeys::parse(&SecretKeys(library.provider), text)?;
    let key = SessionKey::from_bytes(secret([0x61; 32]));
    let mut wrapped = keys.wrap(b"aad", &key, &[9; 12])?;
    let unwrapped = keys.unwrap(b"aad", &wrapped)?;
    declare(unwrapped.expose(), "the unwrapped key, for the comparison of this case itself");
    ensure!(unwrapped.expose() == &[0x61; 32], "another key");
    wrapped.bytes[20] ^= 1;
    ensure!(matches!(keys.unwrap(b"aad", &wrapped), Err(UnwrapError::Damaged)), "a changed key unwraps");
    Ok(())
}

/// The comparison of a pre-shared key with the one that a request was opened with.
fn equality(_: &Library) -> anyhow::Result<()> {
    let key = secret([0x61; 32]);
    for (other, is_same) in [([0x61; 32], true), ([0x62; 32], false)] {
        let equal = is_equal(&key, &secret(other));
        ensure!(declare_bit(equal, "accept or reject: a pre-shared key") == is_same, "{is_same} is expected");
    }
    Ok(())
}

/// A signature of an identity key whose private half is a secret.
fn sign(library: &Library) -> anyhow::Result<()> {
    let (document, pair) = library.identity.generate(SignatureAlgorithm::Es256)?;
    // The scalar of ES256 in PKCS#8: 32 bytes behind the head of an ECPrivateKey.
    let head = [0x02, 0x01, 0x01, 0x04, 0x20];
    let at = document.windows(head.len()).position(|window| window == head);
    let Some(at) = at.map(|at| at + head.len()) else { anyhow::bail!("no scalar in PKCS#8") };
    let mut document = document.to_vec();
    if let Some(scalar) = document.get_mut(at..at + 32) {
        crate::memcheck::mark(scalar);
    }
    let secret_pair = library.identity.from_pkcs8(&document)?;
    let signature = secret_pair.sign(b"message")?;
    declare(&signature, "a signature: it goes over the wire");
    ensure!(library.identity.public(pair.public())?.verify(b"message", &signature), "the signature does not verify");
    Ok(())
}

/// A relay's token, signed with a secret seed. Its verification has no secret: the relay knows public keys alone.
fn token(_: &Library) -> anyhow::Result<()> {
    let signatures = default_signatures();
    let key = IssuerKey::from_seed("k1", &secret([0x71; 32]), signatures)?;
    let claims = Claims {
        kid: "k1".into(),
        aud: "relay".into(),
        channel_id: "channel-1".into(),
        role: 1,
        token_id: "token-1".into(),
        init_exp: 1_060,
        iat: 1_000,
        exp: 1_030,
        ..Claims::default()
    };
    let token = claims.sign(&key);
    declare(token.as_bytes(), "a token: it goes over the wire");
    let keyset = key.keyset_text();
    declare(keyset.as_bytes(), "public key or encapsulated secret: they go over the wire");
    let keys = Keyset::parse(keyset.as_bytes(), signatures)?;
    let requirements = Requirements { aud: vec!["relay".into()], ..Requirements::default() };
    ensure!(verify(&token, &keys, &requirements, 1_010)?.channel_id == "channel-1");
    Ok(())
}
