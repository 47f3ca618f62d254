//! Each operation of each kind of key, checked by a library that does not know the token.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::object::{Attribute, KeyType, ObjectClass};
use cryptoki::session::UserType;
use cryptoki::types::AuthPin;
use sealway_awslc::{Hash as Digest, Kind, MlDsa, PublicKey, Scheme as Verified};
use sealway_pkcs11::{Fault, Gcm, Generate, Hash, KeyName, SecretKind, Signing, Token};
use sealway_testkit::softhsm::{PIN, SoftHsm};

use crate::{Hsm, PATIENCE, ready};

const MESSAGE: &[u8] = b"a message of no special length";

fn softhsm() -> (SoftHsm, Token) {
    let hsm = SoftHsm::new().unwrap();
    let token = ready(&hsm, hsm.module(), PATIENCE);
    (hsm, token)
}

#[test]
fn signatures_of_every_kind_verify_under_the_public_half_that_the_token_gives() {
    for hsm in Hsm::all() {
        signatures(&hsm.token());
    }
}

fn signatures(token: &Token) {
    let hashes = [(Hash::Sha256, Digest::Sha256), (Hash::Sha384, Digest::Sha384), (Hash::Sha512, Digest::Sha512)];
    for (label, kind, order_len) in
        [("p256", Generate::P256, 32), ("p384", Generate::P384, 48), ("p521", Generate::P521, 66)]
    {
        let key = token.generate(label, kind, 0).unwrap();
        let public = PublicKey::from_spki(&token.public_key(&key).unwrap()).unwrap();
        for (hash, digest) in hashes {
            let signature = token.sign(&key, Signing::Ecdsa(hash, order_len), MESSAGE).unwrap();
            public.verify(Verified::Ecdsa(digest), MESSAGE, &signature).unwrap();
            assert!(public.verify(Verified::Ecdsa(digest), b"another", &signature).is_err());
        }
    }
    let key = token.generate("rsa", Generate::RsaSign, 2048).unwrap();
    let public = PublicKey::from_spki(&token.public_key(&key).unwrap()).unwrap();
    for (hash, digest) in hashes {
        let signature = token.sign(&key, Signing::RsaPkcs1(hash), MESSAGE).unwrap();
        public.verify(Verified::RsaPkcs1(digest), MESSAGE, &signature).unwrap();
        let signature = token.sign(&key, Signing::RsaPss(hash), MESSAGE).unwrap();
        public.verify(Verified::RsaPss(digest), MESSAGE, &signature).unwrap();
    }
    let key = token.generate("ed25519", Generate::Ed25519, 0).unwrap();
    let spki = token.public_key(&key).unwrap();
    let signature = token.sign(&key, Signing::Ed25519, MESSAGE).unwrap();
    UnparsedPublicKey::new(&ED25519, &spki[12..]).verify(MESSAGE, &signature).unwrap();
}

#[test]
fn ml_dsa_signatures_verify_and_a_token_without_ml_dsa_says_so() {
    let hsm = Hsm::kryoptic();
    let token = hsm.token();
    for (label, kind, set, len) in [
        ("ml-dsa-44", Generate::MlDsa44, MlDsa::MlDsa44, 2420),
        ("ml-dsa-65", Generate::MlDsa65, MlDsa::MlDsa65, 3309),
        ("ml-dsa-87", Generate::MlDsa87, MlDsa::MlDsa87, 4627),
    ] {
        let key = token.generate(label, kind, 0).unwrap();
        let public = PublicKey::from_spki(&token.public_key(&key).unwrap()).unwrap();
        assert_eq!(public.kind(), Kind::MlDsa(set), "{label}");
        for message in [b"".as_slice(), MESSAGE, &[5; 100_000]] {
            let signature = token.sign(&key, Signing::MlDsa, message).unwrap();
            assert_eq!(signature.len(), len, "{label}");
            public.verify(Verified::MlDsa(set), message, &signature).unwrap();
            assert!(public.verify(Verified::MlDsa(set), b"another", &signature).is_err(), "{label}");
        }
        assert_eq!(token.sign_digest(&key, Signing::MlDsa, &[0; 64]).unwrap_err().fault, Fault::Mechanism, "{label}");
        let others = token.sign(&key, Signing::Ecdsa(Hash::Sha256, 32), MESSAGE).unwrap_err().fault;
        assert_eq!(others, Fault::KeyUnfit, "{label}");
    }
    // The value of a private key is its secret: without the public object there is no public half.
    hsm.tool(&["--delete-object", "--type", "pubkey", "--label", "ml-dsa-44"]);
    let alone = KeyName { id: None, label: Some("ml-dsa-44".into()) };
    assert_eq!(token.public_key(&alone).unwrap_err().fault, Fault::KeyUnfit);
    let (_hsm, token) = softhsm();
    let host = token.host_id();
    let err = token.generate("ml-dsa", Generate::MlDsa65, 0).unwrap_err();
    assert_eq!((err.fault, token.host_id()), (Fault::Mechanism, host), "{err}");
}

#[test]
fn an_encrypted_content_key_decrypts_and_a_changed_one_is_told_from_a_fault() {
    for hsm in Hsm::all() {
        content_keys(&hsm.token(), matches!(hsm, Hsm::Kryoptic(_)));
    }
}

fn content_keys(token: &Token, has_sha256: bool) {
    let key = token.generate("decrypts", Generate::RsaDecrypt, 2048).unwrap();
    let public = PublicEncryptingKey::from_der(&token.public_key(&key).unwrap()).unwrap();
    let public = OaepPublicEncryptingKey::new(public).unwrap();
    let mut encrypted = vec![0; public.ciphertext_size()];
    public.encrypt(&OAEP_SHA1_MGF1SHA1, b"content key", &mut encrypted, None).unwrap();
    assert_eq!(token.decrypt_oaep(&key, true, &encrypted).unwrap().as_slice(), b"content key");
    let host = token.host_id();
    encrypted[100] ^= 1;
    assert_eq!(token.decrypt_oaep(&key, true, &encrypted).unwrap_err().fault, Fault::Data);
    // SoftHSM has OAEP with SHA-1 alone.
    let expected = if has_sha256 { Fault::Data } else { Fault::Mechanism };
    assert_eq!(token.decrypt_oaep(&key, false, &encrypted).unwrap_err().fault, expected);
    if has_sha256 {
        public.encrypt(&OAEP_SHA256_MGF1SHA256, b"content key", &mut encrypted, None).unwrap();
        assert_eq!(token.decrypt_oaep(&key, false, &encrypted).unwrap().as_slice(), b"content key");
    }
    // A key that decrypts does not sign.
    assert_eq!(token.sign(&key, Signing::RsaPkcs1(Hash::Sha256), MESSAGE).unwrap_err().fault, Fault::KeyUnfit);
    assert_eq!(token.host_id(), host, "an input ended the host");
}

#[test]
fn secret_keys_give_what_a_library_gives_for_the_same_key() {
    for hsm in Hsm::all() {
        secret_keys(&hsm);
    }
}

fn secret_keys(hsm: &Hsm) {
    let token = hsm.token();
    let file = hsm.folder().join("secret");
    std::fs::write(&file, [7; 32]).unwrap();
    let file = file.display().to_string();
    hsm.tool(&[
        "--write-object",
        &file,
        "--type",
        "secrkey",
        "--key-type",
        "AES:32",
        "--id",
        "01",
        "--label",
        "aes",
        "--sensitive",
        "--usage-decrypt",
    ]);
    import_generic(hsm);
    // The objects are younger than the host.
    let aes = KeyName { id: None, label: Some("aes".into()) };
    let mac = KeyName { id: Some(vec![2]), label: None };
    assert_eq!(token.secret_key(&aes).unwrap(), (SecretKind::Aes, 32));
    assert_eq!(token.secret_key(&mac).unwrap(), (SecretKind::Generic, 64));
    for (hash, algorithm) in
        [(Hash::Sha256, hmac::HMAC_SHA256), (Hash::Sha384, hmac::HMAC_SHA384), (Hash::Sha512, hmac::HMAC_SHA512)]
    {
        let tag = token.sign(&mac, Signing::Hmac(hash), MESSAGE).unwrap();
        hmac::verify(&hmac::Key::new(algorithm, &[7; 64]), MESSAGE, &tag).unwrap();
    }
    let library = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).unwrap());
    for (len, aad_len) in [(0, 0), (1, 5), (32, 0), (100_000, 70)] {
        let (text, aad) = (vec![1; len], vec![2; aad_len]);
        let gcm = Gcm { nonce: &[3; 12], aad: &aad, tag_len: 16 };
        let sealed = token.seal(&aes, gcm, &text).unwrap();
        let mut expected = text.clone();
        library
            .seal_in_place_append_tag(Nonce::assume_unique_for_key([3; 12]), Aad::from(&aad), &mut expected)
            .unwrap();
        assert_eq!(sealed, expected, "{len} bytes");
        assert_eq!(*token.open(&aes, gcm, &sealed).unwrap(), text);
        let host = token.host_id();
        let mut changed = sealed.clone();
        changed[len / 2] ^= 1;
        assert_eq!(token.open(&aes, gcm, &changed).unwrap_err().fault, Fault::Data, "{len} bytes");
        assert_eq!(token.host_id(), host, "an input ended the host");
    }
}

/// Creates a generic secret of 64 bytes of 7 with the id 2: in a process of its own, as a module reads one configuration.
fn import_generic(hsm: &Hsm) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let (name, conf) = hsm.environment();
    command.args(["--exact", "--ignored", "operations::create_generic"]).env(name, conf);
    assert!(command.env("MODULE", hsm.module()).status().unwrap().success());
}

#[test]
#[ignore = "runs in a process of its own, started by import_generic"]
fn create_generic() {
    let context = Pkcs11::new(std::env::var("MODULE").unwrap()).unwrap();
    context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    let slot = context.get_slots_with_initialized_token().unwrap()[0];
    let session = context.open_rw_session(slot).unwrap();
    session.login(UserType::User, Some(&AuthPin::from(PIN.to_owned()))).unwrap();
    let template = [
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(KeyType::GENERIC_SECRET),
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Id(vec![2]),
        Attribute::Label(b"mac".to_vec()),
        Attribute::Value(vec![7; 64]),
        Attribute::Sign(true),
    ];
    session.create_object(&template).unwrap();
}

#[test]
fn keys_are_found_by_all_that_is_named_and_never_by_less() {
    for hsm in Hsm::all() {
        names(&hsm.token());
    }
}

fn names(token: &Token) {
    let key = token.generate("one", Generate::P256, 0).unwrap();
    let by = |id: Option<Vec<u8>>, label: Option<&str>| KeyName { id, label: label.map(str::to_owned) };
    assert_eq!(token.public_key(&by(None, Some("one"))), token.public_key(&key));
    for other in [by(None, Some("two")), by(Some(vec![9]), Some("one")), by(key.id.clone(), Some("two"))] {
        assert_eq!(token.public_key(&other).unwrap_err().fault, Fault::KeyNotFound, "{other:?}");
    }
    assert_eq!(token.secret_key(&key).unwrap_err().fault, Fault::KeyNotFound);
    assert_eq!(token.generate("one", Generate::Aes, 32).unwrap_err().fault, Fault::KeyExists);
    assert_eq!(token.public_key(&by(None, None)).unwrap_err().fault, Fault::KeyNotFound);
    token.generate("two", Generate::P256, 0).unwrap();
}
