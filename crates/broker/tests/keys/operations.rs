//! Operations with keys: round trips, bounds, and mismatches of key and profile.

use proptest::prelude::*;
use sealway_broker::keys::Key;
use sealway_broker::operation::{
    BATCH_LEN_MAX, BATCH_MAX, Cipher, Derivation, Plain, RANDOM_LEN_MAX, RawKey, Recipient, SealedMessage, SignedInput,
    Source, decapsulate, decrypt, decrypt_one, derive, encapsulate, encrypt, encrypt_one, mac, random, rewrap, sign,
    sign_digests, verify, verify_digests, verify_mac,
};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{
    Curve, DeriveAlgorithm, EncryptAlgorithm, KemAlgorithm, MacAlgorithm, MlDsaAlgorithm, SignAlgorithm, SignatureHash,
    SizeRange,
};
use sealway_broker::refusal::{Code, Refusal};

use crate::ground::{CIPHERS, empty, encrypting, made, store};

const HASHES: [SignatureHash; 3] = [SignatureHash::Sha256, SignatureHash::Sha384, SignatureHash::Sha512];

fn plain<'a>(plaintext: &'a [u8], aad: &'a [u8], nonce: &'a [u8]) -> Plain<'a> {
    Plain { plaintext, aad, nonce }
}

fn cipher<'a>(sealed: &'a SealedMessage, aad: &'a [u8]) -> Cipher<'a> {
    let SealedMessage { key_version, nonce, ciphertext, tag } = sealed;
    Cipher { key_version: *key_version, nonce, ciphertext, tag: tag.as_ref(), aad }
}

fn open(profile: &Profile, key: &Key, one: Cipher<'_>) -> Result<Vec<u8>, Refusal> {
    decrypt(profile, key, &[one]).unwrap().pop().unwrap()
}

fn maccing() -> Profile {
    Profile { mac: Some(MacAlgorithm::HmacSha384), ..empty() }
}

#[test]
fn only_genuine_ciphertexts_decrypt_and_all_failures_look_alike() {
    let store = store();
    for (name, algorithm) in CIPHERS {
        let key = made(&store, name);
        for (tag_len, is_nonce_callers) in [(16, false), (16, true), (12, false), (15, true)] {
            if algorithm == EncryptAlgorithm::Aes256GcmSiv && tag_len != 16 {
                continue;
            }
            let profile = encrypting(algorithm, is_nonce_callers, tag_len);
            let nonce: &[u8] = if is_nonce_callers { &[3; 12] } else { b"" };
            let sealed = encrypt(&profile, &key, &[plain(b"some text", b"for", nonce)]).unwrap().remove(0);
            assert_eq!((sealed.ciphertext.len(), sealed.tag.as_ref().len()), (9, tag_len));
            let good = cipher(&sealed, b"for");
            assert_eq!(open(&profile, &key, good).unwrap(), b"some text");
            let (mut changed, mut tag, mut other_nonce) =
                (sealed.ciphertext.clone(), sealed.tag.as_ref().to_vec(), sealed.nonce);
            changed[8] ^= 1;
            tag[tag_len - 1] ^= 1;
            other_nonce[0] ^= 1;
            let bad = [
                Cipher { ciphertext: &changed, ..good },
                Cipher { ciphertext: &changed[..8], ..good },
                Cipher { tag: &tag, ..good },
                Cipher { tag: &good.tag[..tag_len - 1], ..good },
                Cipher { tag: &[], ..good },
                Cipher { nonce: &other_nonce, ..good },
                Cipher { nonce: &other_nonce[..11], ..good },
                Cipher { aad: b"fo", ..good },
                Cipher { key_version: 2, ..good },
            ];
            let refusals: Vec<Refusal> =
                decrypt(&profile, &key, &bad).unwrap().into_iter().map(Result::unwrap_err).collect();
            assert!(refusals.iter().all(|refusal| *refusal == refusals[0] && refusal.code == Code::InvalidArgument));
        }
    }
}

#[test]
fn a_tag_of_gcm_siv_is_whole_or_refused() {
    let store = store();
    let key = made(&store, "aes-256-gcm-siv");
    let profile = encrypting(EncryptAlgorithm::Aes256GcmSiv, false, 12);
    assert_eq!(encrypt(&profile, &key, &[plain(b"x", b"", b"")]).unwrap_err().code, Code::FailedPrecondition);
}

#[test]
fn a_batch_keeps_its_order_and_a_bad_item_fails_alone() {
    let store = store();
    let key = made(&store, "aes-256-gcm");
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, false, 16);
    let texts: Vec<Vec<u8>> = (0..BATCH_MAX).map(|n| n.to_be_bytes().to_vec()).collect();
    let plains: Vec<Plain<'_>> = texts.iter().map(|text| plain(text, b"", b"")).collect();
    let sealed = encrypt(&profile, &key, &plains).unwrap();
    let nonces: std::collections::HashSet<_> = sealed.iter().map(|one| one.nonce).collect();
    assert_eq!(nonces.len(), BATCH_MAX, "a nonce was used twice");
    let mut ciphers: Vec<Cipher<'_>> = sealed.iter().map(|one| cipher(one, b"")).collect();
    ciphers[5].aad = b"another";
    for (index, opened) in decrypt(&profile, &key, &ciphers).unwrap().into_iter().enumerate() {
        match index {
            5 => assert!(opened.is_err()),
            _ => assert_eq!(opened.unwrap(), texts[index]),
        }
    }
}

#[test]
fn batches_have_bounds() {
    let store = store();
    let key = made(&store, "hmac-sha-384");
    let big = vec![0; BATCH_LEN_MAX / 2];
    assert!(mac(&maccing(), &key, &[&big, &big]).is_ok());
    for inputs in [vec![], vec![b"".as_slice(); BATCH_MAX + 1], vec![&big, &big, b"x"]] {
        assert_eq!(mac(&maccing(), &key, &inputs).unwrap_err().code, Code::InvalidArgument, "{}", inputs.len());
    }
    let key = made(&store, "chacha20-poly1305");
    let profile = encrypting(EncryptAlgorithm::ChaCha20Poly1305, false, 16);
    assert!(encrypt(&profile, &key, &[plain(&big, &big, b"")]).is_ok());
    assert!(encrypt(&profile, &key, &[plain(&big, &big, b""), plain(b"x", b"", b"")]).is_err());
    let signed = |signature| SignedInput { input: &big, signature, key_version: 0 };
    let key = store.get("hmac-sha-384").unwrap();
    assert!(verify_mac(&maccing(), &key, &[signed(&big)]).is_ok());
    assert!(verify_mac(&maccing(), &key, &[signed(&big), signed(b"")]).is_err());
}

#[test]
fn a_key_serves_its_own_algorithm_alone_and_a_profile_its_own_operations() {
    let store = store();
    let nothing = empty();
    let full = Profile {
        encrypt: encrypting(EncryptAlgorithm::Aes256Gcm, false, 16).encrypt,
        sign: Some(SignAlgorithm::RsaPss(SignatureHash::Sha256)),
        mac: Some(MacAlgorithm::HmacSha256),
        derive: Some(DeriveAlgorithm::HkdfSha256),
        kem: Some(KemAlgorithm::MlKem768),
        ..empty()
    };
    // Algorithms close to those of the profile, but none of its own.
    for name in ["aes-128-gcm", "chacha20-poly1305", "hmac-sha-512", "hkdf-sha-384", "ecdsa-p256", "ed25519"] {
        let key = made(&store, name);
        for (profile, code) in [(&nothing, Code::FailedPrecondition), (&full, Code::InvalidArgument)] {
            let derivation = Derivation { salt: b"", info: b"", length: 1 };
            let signed = SignedInput { input: b"", signature: b"", key_version: 0 };
            let one = Cipher { key_version: 0, nonce: &[0; 12], ciphertext: b"", tag: &[0; 16], aad: b"" };
            let raw = Source::Key(&key);
            for refusal in [
                encrypt(profile, &key, &[plain(b"", b"", b"")]).unwrap_err(),
                decrypt(profile, &key, &[one]).unwrap_err(),
                rewrap(profile, &key, &[one]).unwrap_err(),
                encrypt_one(profile, raw, plain(b"", b"", b"")).unwrap_err(),
                decrypt_one(profile, raw, &one).unwrap_err(),
                sign(profile, &key, &[b""]).unwrap_err(),
                verify(profile, &key, &[signed]).unwrap_err(),
                mac(profile, &key, &[b""]).unwrap_err(),
                verify_mac(profile, &key, &[signed]).unwrap_err(),
                derive(profile, &key, 0, &[derivation]).unwrap_err(),
                encapsulate(profile, Recipient::Key(&key), 1).unwrap_err(),
                decapsulate(profile, &key, 0, &[&[0; 1088]]).unwrap_err(),
            ] {
                assert_eq!(refusal.code, code, "{name}: {refusal}");
            }
        }
    }
    assert_eq!(random(&full, 1, 1).unwrap_err().code, Code::FailedPrecondition);
}

#[test]
fn the_profile_decides_whether_caller_or_broker_supplies_the_nonce() {
    let store = store();
    let key = made(&store, "aes-128-gcm");
    let (ours, theirs) =
        (encrypting(EncryptAlgorithm::Aes128Gcm, false, 16), encrypting(EncryptAlgorithm::Aes128Gcm, true, 16));
    for nonce in [b"".as_slice(), &[0; 11], &[0; 13]] {
        assert!(encrypt(&theirs, &key, &[plain(b"", b"", nonce)]).is_err());
    }
    assert_eq!(encrypt(&theirs, &key, &[plain(b"", b"", &[7; 12])]).unwrap()[0].nonce, [7; 12]);
    assert!(encrypt(&ours, &key, &[plain(b"", b"", b""), plain(b"", b"", &[7; 12])]).is_err());
    let sealed = encrypt(&ours, &key, &[plain(b"", b"", b"")]).unwrap().remove(0);
    assert_eq!(rewrap(&theirs, &key, &[cipher(&sealed, b"")]).unwrap_err().code, Code::FailedPrecondition);
}

#[test]
fn rewrapping_moves_to_the_current_version_and_the_old_one_can_be_disabled() {
    let store = store();
    let key = made(&store, "aes-256-gcm");
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, false, 13);
    let sealed = encrypt(&profile, &key, &[plain(b"text", b"aad", b""); 3]).unwrap();
    let key = store.rotate("aes-256-gcm", &[], 2).unwrap();
    let mut ciphers: Vec<Cipher<'_>> = sealed.iter().map(|one| cipher(one, b"aad")).collect();
    ciphers[1].aad = b"";
    let anew = rewrap(&profile, &key, &ciphers).unwrap();
    let key = store.disable("aes-256-gcm", 1).unwrap();
    assert_eq!(open(&profile, &key, ciphers[0]).unwrap_err().code, Code::FailedPrecondition);
    for (index, one) in anew.iter().enumerate() {
        match index {
            1 => assert_eq!(one.as_ref().unwrap_err().code, Code::InvalidArgument),
            _ => {
                let one = one.as_ref().unwrap();
                assert_eq!(one.key_version, 2);
                assert_eq!(open(&profile, &key, cipher(one, b"aad")).unwrap(), b"text");
            }
        }
    }
}

#[test]
fn one_message_has_a_whole_tag_whatever_the_profile_says_and_finds_its_version() {
    let store = store();
    let key = made(&store, "aes-256-gcm");
    let profile = encrypting(EncryptAlgorithm::Aes256Gcm, true, 12);
    let raw = Source::Raw(RawKey(&[9; 32]));
    let sealed = encrypt_one(&profile, raw, plain(b"text", b"a", &[1; 12])).unwrap();
    assert_eq!((sealed.key_version, sealed.tag.as_ref().len()), (0, 16));
    assert_eq!(decrypt_one(&profile, raw, &cipher(&sealed, b"a")).unwrap(), b"text");
    assert!(decrypt_one(&profile, Source::Key(&key), &cipher(&sealed, b"a")).is_err());
    for len in [0, 16, 31, 33] {
        let short = vec![9; len];
        let refusal = encrypt_one(&profile, Source::Raw(RawKey(&short)), plain(b"", b"", &[1; 12])).unwrap_err();
        assert!(refusal.code == Code::InvalidArgument && refusal.text.starts_with("rawKey"), "{refusal}");
    }
    let sealed = encrypt_one(&profile, Source::Key(&key), plain(b"text", b"", &[1; 12])).unwrap();
    let mut newest = key;
    for round in 2..10 {
        newest = store.rotate("aes-256-gcm", &[], round).unwrap();
        let opened = decrypt_one(&profile, Source::Key(&newest), &cipher(&sealed, b""));
        assert_eq!(opened.is_ok(), round <= 8, "after {round} versions");
    }
    assert_eq!(format!("{raw:?}"), "Raw(RawKey)");
    let drawing = encrypting(EncryptAlgorithm::Aes256Gcm, false, 12);
    let drawn = encrypt_one(&drawing, raw, plain(b"text", b"", b"")).unwrap();
    assert_eq!(decrypt_one(&drawing, raw, &cipher(&drawn, b"")).unwrap(), b"text");
    assert!(encrypt_one(&drawing, raw, plain(b"text", b"", &[1; 12])).is_err());
    assert_eq!(newest.id(), "aes-256-gcm");
}

fn signatures() -> Vec<(&'static str, SignAlgorithm)> {
    let mut all = vec![("ed25519", SignAlgorithm::Ed25519)];
    all.extend(MlDsaAlgorithm::NAMES.map(|(name, set)| (name, SignAlgorithm::MlDsa(set))));
    for hash in HASHES {
        all.push(("rsa-2048", SignAlgorithm::RsaPkcs1(hash)));
        all.push(("rsa-2048", SignAlgorithm::RsaPss(hash)));
        for (name, curve) in [("ecdsa-p256", Curve::P256), ("ecdsa-p384", Curve::P384), ("ecdsa-p521", Curve::P521)] {
            all.push((name, SignAlgorithm::EcdsaDer(curve, hash)));
            all.push((name, SignAlgorithm::EcdsaRaw(curve, hash)));
        }
    }
    all
}

#[test]
fn every_signature_verifies_by_its_own_algorithm_and_no_other() {
    let store = store();
    let names = ["ed25519", "rsa-2048", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521"];
    for name in names.into_iter().chain(MlDsaAlgorithm::NAMES.map(|(name, _)| name)) {
        made(&store, name);
    }
    let profile = |algorithm| Profile { sign: Some(algorithm), ..empty() };
    for (name, algorithm) in signatures() {
        let key = store.get(name).unwrap();
        let made = sign(&profile(algorithm), &key, &[b"one", b""]).unwrap();
        assert_eq!((made.key_version, made.outputs.len()), (1, 2));
        let signed = |input, signature| SignedInput { input, signature, key_version: 0 };
        let (one, two) = (&made.outputs[0], &made.outputs[1]);
        let mut changed = one.clone();
        changed[7] ^= 1;
        let batch =
            [signed(b"one", one), signed(b"", two), signed(b"", one), signed(b"one", &changed), signed(b"one", b"")];
        assert_eq!(
            verify(&profile(algorithm), &key, &batch).unwrap(),
            [true, true, false, false, false],
            "{algorithm:?}"
        );
        for (other_name, other) in
            signatures().into_iter().filter(|(other_name, other)| *other_name == name && *other != algorithm)
        {
            let other_key = store.get(other_name).unwrap();
            assert_eq!(
                verify(&profile(other), &other_key, &batch[..1]).unwrap(),
                [false],
                "{algorithm:?} as {other:?}"
            );
        }
    }
}

#[test]
fn a_signature_of_a_digest_is_one_of_its_message_and_only_if_the_profile_allows_it() {
    let store = store();
    for name in ["ed25519", "rsa-2048", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "ml-dsa-65"] {
        made(&store, name);
    }
    let message = b"a message".as_slice();
    let mut count = 0;
    for (name, algorithm) in signatures().into_iter().filter(|(name, _)| store.get(name).is_ok()) {
        let key = store.get(name).unwrap();
        let allowing = Profile { sign: Some(algorithm), sign_digests: true, ..empty() };
        let hash = match algorithm {
            SignAlgorithm::RsaPkcs1(hash) | SignAlgorithm::RsaPss(hash) => hash,
            SignAlgorithm::EcdsaDer(_, hash) | SignAlgorithm::EcdsaRaw(_, hash) => hash,
            SignAlgorithm::Ed25519 | SignAlgorithm::MlDsa(_) => {
                let refusal = sign_digests(&allowing, &key, &[&[0; 32]]).unwrap_err();
                assert_eq!(refusal.code, Code::InvalidArgument, "{algorithm:?}");
                continue;
            }
        };
        let digest = match hash {
            SignatureHash::Sha256 => aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, message),
            SignatureHash::Sha384 => aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA384, message),
            SignatureHash::Sha512 => aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, message),
        };
        let digest = digest.as_ref();
        let signature = sign_digests(&allowing, &key, &[digest]).unwrap().outputs.remove(0);
        let signed = |input| SignedInput { input, signature: &signature, key_version: 0 };
        assert_eq!(
            verify(&allowing, &key, &[signed(message), signed(digest)]).unwrap(),
            [true, false],
            "{algorithm:?}"
        );
        assert_eq!(verify_digests(&allowing, &key, &[signed(digest)]).unwrap(), [true], "{algorithm:?}");
        let other = vec![1; digest.len()];
        assert_eq!(verify_digests(&allowing, &key, &[signed(&other)]).unwrap(), [false], "{algorithm:?}");
        for wrong in [&digest[1..], message, &[]] {
            let refusal = sign_digests(&allowing, &key, &[digest, wrong]).unwrap_err();
            assert!(refusal.code == Code::InvalidArgument && refusal.text.contains("prehashed: "), "{refusal:?}");
        }
        let denying = Profile { sign_digests: false, ..allowing };
        for refusal in [
            sign_digests(&denying, &key, &[digest]).unwrap_err(),
            verify_digests(&denying, &key, &[signed(digest)]).unwrap_err(),
        ] {
            assert!(refusal.code == Code::FailedPrecondition && refusal.text.contains("Prehashed"), "{refusal:?}");
        }
        count += 1;
    }
    assert_eq!(count, 3 * 2 + 3 * 3 * 2);
}

#[test]
fn a_key_outside_of_the_profiles_sizes_neither_signs_nor_verifies() {
    let store = store();
    let key = made(&store, "ecdsa-p384");
    let signed = SignedInput { input: b"x", signature: b"", key_version: 0 };
    for (min, max, is_in) in [(256, 521, true), (384, 384, true), (256, 383, false), (385, 521, false), (2, 1, false)] {
        let sign_key_size = Some(SizeRange { min, max });
        let algorithm = SignAlgorithm::EcdsaDer(Curve::P384, SignatureHash::Sha384);
        let profile = Profile { sign: Some(algorithm), sign_key_size, ..empty() };
        let (made, verified) = (sign(&profile, &key, &[b"x"]), verify(&profile, &key, &[signed]));
        assert_eq!((made.is_ok(), verified.is_ok()), (is_in, is_in), "{min} to {max}");
    }
}

#[test]
fn signatures_of_an_earlier_version_verify_under_its_number() {
    let store = store();
    let key = made(&store, "ed25519");
    let profile = Profile { sign: Some(SignAlgorithm::Ed25519), ..empty() };
    let signature = sign(&profile, &key, &[b"x"]).unwrap().outputs.remove(0);
    let key = store.rotate("ed25519", &[], 2).unwrap();
    let signed = |key_version| SignedInput { input: b"x", signature: &signature, key_version };
    assert_eq!(verify(&profile, &key, &[signed(1), signed(0), signed(2)]).unwrap(), [true, false, false]);
}

#[test]
fn derivations_have_bounds_and_are_the_same_again() {
    let store = store();
    let key = made(&store, "hkdf-sha-256");
    let profile = Profile { derive: Some(DeriveAlgorithm::HkdfSha256), ..empty() };
    let one = |length| Derivation { salt: b"salt", info: b"info", length };
    let outputs = derive(&profile, &key, 0, &[one(42), one(42), one(255 * 32), one(1)]).unwrap().outputs;
    assert!(outputs[0] == outputs[1] && outputs[2].starts_with(&outputs[0]) && outputs[3].len() == 1);
    assert!(derive(&profile, &key, 0, &[one(0)]).is_err() && derive(&profile, &key, 0, &[one(255 * 32 + 1)]).is_err());
    assert!(derive(&profile, &key, 0, &[one(8160); 128]).is_ok());
    assert!(derive(&profile, &key, 0, &[one(8160); 129]).is_err(), "more than 1 MiB of output");
    let long = vec![1; 100_000];
    assert!(derive(&profile, &key, 0, &[Derivation { salt: &long, info: &long, length: 5 }]).is_ok());
    let rotated = store.rotate("hkdf-sha-256", &[], 2).unwrap();
    assert_eq!(derive(&profile, &rotated, 1, &[one(42)]).unwrap().outputs[0], outputs[0]);
    assert_ne!(derive(&profile, &rotated, 0, &[one(42)]).unwrap().outputs[0], outputs[0]);
}

#[test]
fn the_number_of_random_bytes_is_bounded() {
    let profile = Profile { random: true, ..empty() };
    let outputs = random(&profile, 32, 1024).unwrap();
    let different: std::collections::HashSet<&Vec<u8>> = outputs.iter().collect();
    assert_eq!((different.len(), outputs[0].len()), (1024, 32));
    assert_eq!(random(&profile, RANDOM_LEN_MAX, 1).unwrap()[0].len(), RANDOM_LEN_MAX);
    for (length, count) in [(0, 1), (1, 0), (RANDOM_LEN_MAX, 2), (RANDOM_LEN_MAX + 1, 1), (1, 1025), (usize::MAX, 2)] {
        assert_eq!(random(&profile, length, count).unwrap_err().code, Code::InvalidArgument, "{length} x {count}");
    }
}

#[test]
fn secrets_are_encapsulated_to_keys_of_the_store_and_to_public_keys() {
    let lens = [(800, 768), (1184, 1088), (1568, 1568)];
    for ((name, algorithm), (public_len, ciphertext_len)) in KemAlgorithm::NAMES.into_iter().zip(lens) {
        encapsulated_both_ways(name, algorithm, public_len, ciphertext_len);
    }
}

fn encapsulated_both_ways(name: &'static str, algorithm: KemAlgorithm, public_len: usize, ciphertext_len: usize) {
    let store = store();
    let key = made(&store, name);
    let profile = Profile { kem: Some(algorithm), ..empty() };
    let spki = key.public_key(0).unwrap().1;
    let raw = &spki[spki.len() - public_len..];
    for (to, version) in [(Recipient::Key(&key), 1), (Recipient::Public(&spki), 0), (Recipient::Public(raw), 0)] {
        let made = encapsulate(&profile, to, 3).unwrap();
        assert_eq!(made.key_version, version);
        let ciphertexts: Vec<&[u8]> = made.outputs.iter().map(|one| one.ciphertext.as_slice()).collect();
        assert!(ciphertexts.iter().all(|ciphertext| ciphertext.len() == ciphertext_len), "{name}");
        let secrets = decapsulate(&profile, &key, 1, &ciphertexts).unwrap().outputs;
        for (secret, one) in secrets.iter().zip(&made.outputs) {
            assert_eq!((secret, secret.len()), (&one.shared_secret, 32));
        }
        let mut changed = ciphertexts[0].to_vec();
        changed[0] ^= 1;
        assert_ne!(decapsulate(&profile, &key, 1, &[&changed]).unwrap().outputs[0], secrets[0]);
        assert!(decapsulate(&profile, &key, 1, &[&changed[1..]]).is_err());
    }
    let mut too_large = raw.to_vec();
    too_large[..2].fill(0xff);
    for public in [b"".as_slice(), &raw[1..], &too_large, &spki[1..]] {
        assert!(encapsulate(&profile, Recipient::Public(public), 1).is_err());
    }
    assert!(encapsulate(&profile, Recipient::Key(&key), 0).is_err());
    assert!(encapsulate(&profile, Recipient::Key(&key), BATCH_MAX + 1).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_comes_back_with_any_tag(
        texts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..40)), 1..8),
        which in 0_usize..5,
        tag_len in 12_usize..=16,
    ) {
        let (name, algorithm) = CIPHERS[which];
        let tag_len = if algorithm == EncryptAlgorithm::Aes256GcmSiv { 16 } else { tag_len };
        let (store, profile) = (store(), encrypting(algorithm, false, tag_len));
        let key = made(&store, name);
        let plains: Vec<Plain<'_>> = texts.iter().map(|(text, aad)| plain(text, aad, b"")).collect();
        let sealed = encrypt(&profile, &key, &plains).unwrap();
        let ciphers: Vec<Cipher<'_>> = sealed.iter().zip(&texts).map(|(one, (_, aad))| cipher(one, aad)).collect();
        for (opened, (text, _)) in decrypt(&profile, &key, &ciphers).unwrap().into_iter().zip(&texts) {
            prop_assert_eq!(&opened.unwrap(), text);
        }
    }

    #[test]
    fn any_input_has_one_tag_and_a_part_of_it_is_none(inputs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6)) {
        let store = store();
        let key = made(&store, "hmac-sha-384");
        let parts: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let tags = mac(&maccing(), &key, &parts).unwrap().outputs;
        let signed = |cut: usize| -> Vec<bool> {
            let batch: Vec<SignedInput<'_>> = parts.iter().zip(&tags)
                .map(|(input, tag)| SignedInput { input, signature: &tag[cut..], key_version: 1 }).collect();
            verify_mac(&maccing(), &key, &batch).unwrap()
        };
        prop_assert!(signed(0).iter().all(|valid| *valid) && signed(1).iter().all(|valid| !*valid));
    }
}
