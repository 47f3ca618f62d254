//! `relay-attach`: an attach message, and the token in it. The verification keys accept every signature that begins with a zero,
//! so that inputs reach the code after the signature check.

use sealway_proto::Error;
use sealway_proto::crypto::signature::{
    ED25519_PUBLIC_LEN, ED25519_SEED_LEN, ED25519_SIGNATURE_LEN, Signatures, SigningKey, VerifyKey,
};
use sealway_proto::relay::{Attach, Grant, IssuerKey, Keyset, Requirements, SKEW_S, looks_like_record, verify};

const NOW_S: i64 = 1_700_000_000;

#[derive(Debug)]
struct Lax;

struct Key;

impl Signatures for Lax {
    fn ed25519_public(&self, _: &[u8; ED25519_PUBLIC_LEN]) -> Result<Box<dyn VerifyKey>, Error> {
        Ok(Box::new(Key))
    }

    fn ed25519_from_seed(&self, _: &[u8; ED25519_SEED_LEN]) -> Result<Box<dyn SigningKey>, Error> {
        Ok(Box::new(Key))
    }
}

impl VerifyKey for Key {
    fn verify(&self, _: &[u8], signature: &[u8; ED25519_SIGNATURE_LEN]) -> bool {
        signature[0] == 0
    }
}

impl SigningKey for Key {
    fn public(&self) -> [u8; ED25519_PUBLIC_LEN] {
        [1; ED25519_PUBLIC_LEN]
    }

    fn sign(&self, _: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
        [0; ED25519_SIGNATURE_LEN]
    }
}

/// The fuzz target for attach messages.
pub fn relay_attach(data: &[u8]) {
    let _ = looks_like_record(data, data.len());
    let _ = Keyset::parse(data, &Lax);
    if let Ok(grant) = Grant::parse(data) {
        assert_eq!(Grant::parse(grant.encode().as_bytes()).as_ref(), Ok(&grant));
    }
    let Ok(attach) = Attach::parse(data) else { return };
    assert_eq!(Attach::parse(attach.encode().as_bytes()).as_ref(), Ok(&attach), "what was read is written so");
    assert!(!format!("{attach:?}").contains(&attach.endpoint_instance_id), "what is printed names the instance");
    let key = IssuerKey::from_seed("k1", &[1; 32], &Lax).expect("a name");
    let keys = Keyset::parse(key.keyset_text().as_bytes(), &Lax).expect("a keyset of our own");
    let expected = Requirements { aud: vec!["relay".into()], iss: vec![], lifetime_max_s: 600 };
    if let Ok(claims) = verify(&attach.token, &keys, &expected, NOW_S) {
        assert_eq!((claims.kid.as_str(), claims.aud.as_str()), ("k1", "relay"));
        assert!(claims.iat <= NOW_S + SKEW_S && claims.exp >= NOW_S - SKEW_S && claims.exp <= claims.init_exp);
        assert!((0..=255).contains(&claims.role) && claims.exp - claims.iat <= 600);
        assert_eq!(verify(&claims.sign(&key), &keys, &expected, NOW_S), Ok(claims), "signed anew it says the same");
    }
}
