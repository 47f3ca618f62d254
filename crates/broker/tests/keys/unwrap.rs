//! Content keys of JWE: those that decrypt come back, and all others are replaced without a trace.

use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPublicEncryptingKey, Pkcs1PublicEncryptingKey,
    PublicEncryptingKey,
};
use sealway_broker::keys::{Key, Store};
use sealway_broker::operation::{EncryptedKey, sign, unwrap};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{SignAlgorithm, SignatureHash, UnwrapAlgorithm};
use sealway_broker::refusal::Code;

use crate::ground::{Memory, algorithm, empty, kek, made, store};

const LENS: [usize; 5] = [16, 24, 32, 48, 64];

fn unwrapping(algorithm: UnwrapAlgorithm) -> Profile {
    Profile { unwrap: Some(algorithm), ..empty() }
}

/// Encrypts to a version of a key.
fn wrapped(key: &Key, version: u32, oaep: &'static OaepAlgorithm, content_key: &[u8]) -> Vec<u8> {
    let public = PublicEncryptingKey::from_der(&key.public_key(version).unwrap().1).unwrap();
    let public = OaepPublicEncryptingKey::new(public).unwrap();
    let mut out = vec![0; public.ciphertext_size()];
    public.encrypt(oaep, content_key, &mut out, None).unwrap();
    out
}

fn one(profile: &Profile, key: &Key, version: u32, bytes: &[u8], content_key_len: usize) -> Vec<u8> {
    let outputs = unwrap(profile, key, version, &[EncryptedKey { bytes, content_key_len }]).unwrap();
    outputs.outputs[0].to_vec()
}

#[test]
fn content_keys_of_every_length_come_back_under_their_algorithm_and_version() {
    let store = store();
    let key = made(&store, "rsa-unwrap-2048");
    store.rotate(key.id(), b"", 2).unwrap();
    let key = store.get(key.id()).unwrap();
    for (name, oaep) in
        [(UnwrapAlgorithm::RsaOaep256, &OAEP_SHA256_MGF1SHA256), (UnwrapAlgorithm::RsaOaep, &OAEP_SHA1_MGF1SHA1)]
    {
        let profile = unwrapping(name);
        for version in [1, 2] {
            let keys = LENS.map(|len| vec![u8::try_from(len).unwrap(); len]);
            let sent: Vec<_> = keys.iter().map(|it| wrapped(&key, version, oaep, it)).collect();
            let batch: Vec<_> =
                sent.iter().zip(LENS).map(|(bytes, content_key_len)| EncryptedKey { bytes, content_key_len }).collect();
            let made = unwrap(&profile, &key, version, &batch).unwrap();
            assert_eq!(made.key_version, version);
            assert!(made.outputs.iter().zip(&keys).all(|(got, sent)| **got == *sent));
        }
        // The current version is the second one.
        let sent = wrapped(&key, 1, oaep, &[7; 32]);
        assert_ne!(one(&profile, &key, 0, &sent, 32), [7; 32]);
    }
}

#[test]
fn an_encrypted_key_that_does_not_decrypt_gives_the_same_other_key_each_time_and_after_a_restart() {
    let memory = Memory::default();
    let store = Store::over(memory.clone(), kek()).unwrap();
    let key = made(&store, "rsa-unwrap-2048");
    let profile = unwrapping(UnwrapAlgorithm::RsaOaep256);
    let good = wrapped(&key, 0, &OAEP_SHA256_MGF1SHA256, &[7; 32]);
    let mut changed = good.clone();
    changed[100] ^= 1;
    let public = PublicEncryptingKey::from_der(&key.public_key(0).unwrap().1).unwrap();
    let mut pkcs1 = vec![0; 256];
    Pkcs1PublicEncryptingKey::new(public).unwrap().encrypt(&[7; 32], &mut pkcs1).unwrap();
    let bad = [
        changed,
        wrapped(&key, 0, &OAEP_SHA1_MGF1SHA1, &[7; 32]),
        wrapped(&key, 0, &OAEP_SHA256_MGF1SHA256, &[7; 16]),
        wrapped(&key, 0, &OAEP_SHA256_MGF1SHA256, &[7; 31]),
        wrapped(&key, 0, &OAEP_SHA256_MGF1SHA256, &[]),
        pkcs1,
        // Not below the modulus.
        vec![0xff; 256],
        vec![0; 256],
    ];
    let got: Vec<_> = bad.iter().map(|bytes| one(&profile, &key, 0, bytes, 32)).collect();
    let different: std::collections::HashSet<_> = got.iter().collect();
    assert_eq!(different.len(), bad.len(), "two of them have one key");
    assert!(got.iter().all(|key| key.len() == 32 && *key != [7; 32]));
    // Neither a repetition nor a restart tells a replaced key from a content key, which stays the same too.
    let again = Store::over(memory, kek()).unwrap();
    let again = again.get(key.id()).unwrap();
    for (bytes, got) in bad.iter().zip(&got) {
        assert_eq!(one(&profile, &key, 0, bytes, 32), *got);
        assert_eq!(one(&profile, &again, 0, bytes, 32), *got);
    }
    // A key of another length is not the beginning of a longer one, which a content key would never be.
    assert_ne!(one(&profile, &key, 0, &bad[0], 16), got[0][..16]);
    assert_ne!(one(&unwrapping(UnwrapAlgorithm::RsaOaep), &key, 0, &bad[0], 32), got[0]);
    assert_eq!(one(&profile, &key, 0, &good, 32), [7; 32]);
}

#[test]
fn a_key_has_one_use_and_wrong_shapes_are_named() {
    let store = store();
    let (key, signer) = (made(&store, "rsa-unwrap-2048"), made(&store, "rsa-2048"));
    let profile = unwrapping(UnwrapAlgorithm::RsaOaep256);
    let signing = Profile { sign: Some(SignAlgorithm::RsaPss(SignatureHash::Sha256)), ..empty() };
    let sent = wrapped(&key, 0, &OAEP_SHA256_MGF1SHA256, &[7; 32]);
    let ask = |profile: &Profile, key: &Key, bytes: &[u8], content_key_len: usize| {
        unwrap(profile, key, 0, &[EncryptedKey { bytes, content_key_len }]).map(drop).unwrap_err()
    };
    for (refusal, code, text) in [
        (ask(&empty(), &key, &sent, 32), Code::FailedPrecondition, "profile: Test has no Unwrap"),
        (
            ask(&profile, &signer, &sent, 32),
            Code::InvalidArgument,
            "key_id: a key of rsa-2048, the profile wants rsa-unwrap",
        ),
        (ask(&profile, &key, &sent[1..], 32), Code::InvalidArgument, "wrapped.encrypted_key: expected 256 bytes each"),
        (ask(&profile, &key, &sent, 20), Code::InvalidArgument, "wrapped.length: expected 16, 24, 32, 48 or 64"),
        (
            unwrap(&profile, &key, 0, &[]).map(drop).unwrap_err(),
            Code::InvalidArgument,
            "wrapped: expected 1 to 1024, got 0",
        ),
        (
            sign(&signing, &key, &[b""]).map(drop).unwrap_err(),
            Code::InvalidArgument,
            "key_id: a key of rsa-unwrap-2048, the profile wants rsa",
        ),
    ] {
        assert_eq!((refusal.code, refusal.text.as_str()), (code, text));
    }
    assert!(store.import("wrong", algorithm("rsa-unwrap-3072"), b"no key", 1).is_err());
}
