#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloc::string::{String, ToString};

use super::*;
use crate::crypto::default_provider;
use crate::crypto::identity::{SignatureAlgorithm, default_identity_library};

fn key() -> IdentityPair {
    default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1
}

fn set(keys: usize) -> KeySet {
    let keys = (0..keys).map(|_| IdentityKey::new(default_provider(), key().public(), 10, 20).unwrap()).collect();
    KeySet { issued_ms: 5, expires_ms: 1000, keys, root: None }
}

fn parse(text: &str) -> Result<KeySet, Error> {
    KeySet::parse(default_provider(), text.as_bytes())
}

#[test]
fn a_key_is_live_from_its_first_millisecond_up_to_and_without_its_last() {
    let key = IdentityKey::new(default_provider(), key().public(), 10, 20).unwrap();
    let live: Vec<u64> = (0..30).filter(|now| key.is_live(*now)).collect();
    assert_eq!(live, (10..20).collect::<Vec<_>>());
}

#[test]
fn a_key_id_is_the_hash_of_the_public_key_and_has_one_form() {
    let id = KeyId::of(default_provider(), &[4; 65]);
    let hash = default_provider().sha256(&[&[4; 65]]);
    let expected: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(id.as_str(), expected);
    assert_eq!(KeyId::parse(&expected), Ok(id));
    for bad in ["", &expected[1..], &format!("{expected}0"), &expected.to_uppercase(), &"g".repeat(32), &"é".repeat(16)]
    {
        assert_eq!(KeyId::parse(bad), Err(Error::FieldInvalid("key_id")), "{bad}");
    }
}

#[test]
fn a_key_set_round_trips_with_and_without_a_root() {
    let mut set = set(3);
    assert_eq!(parse(&set.encode()), Ok(set.clone()));
    set.sign(default_provider(), &key()).unwrap();
    assert_eq!(parse(&set.encode()), Ok(set.clone()));
    assert_eq!(set.get(&set.keys[1].key_id), Some(&set.keys[1]));
}

#[test]
fn the_signed_bytes_are_those_of_the_spec() {
    let set = set(2);
    let number = |n: u64| [&[0, 0, 0, 8][..], &n.to_be_bytes()].concat();
    let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let key = |key: &IdentityKey| {
        let parts = [field(key.key_id.as_str().as_bytes()), field(&key.public_key), number(10), number(20)];
        field(&parts.concat())
    };
    let all = [number(5), number(1000), field(&[key(&set.keys[0]), key(&set.keys[1])].concat())].concat();
    let expected = [&b"sealway/3 keys"[..], &default_provider().sha256(&[&all])].concat();
    assert_eq!(set.signed_message(default_provider()), expected);
}

#[test]
fn a_set_is_refused_for_each_single_fault() {
    let mut good = set(2);
    good.sign(default_provider(), &key()).unwrap();
    let text = good.encode();
    let (first, second) = (good.keys[0].key_id.to_string(), good.keys[1].key_id.to_string());
    let point = base64::encode(&good.keys[0].public_key);
    let other = base64::encode(&good.keys[1].public_key);
    let root = good.root.as_ref().unwrap().key_id.to_string();
    for (from, to, field) in [
        (first.as_str(), second.as_str(), "key_id"),
        (&first, &first.to_uppercase(), "key_id"),
        (&point, &other, "key_id"),
        (&point, &point[4..], "public_key"),
        (&point, &base64::encode(&[2; 65]), "public_key"),
        ("ES256", "ES384", "public_key"),
        ("ES256", "another", "public_key"),
        ("\"ES256\"", "\"\"", "alg"),
        ("\"ES256\"", "\"a b\"", "alg"),
        (r#""alg":"ES256","#, "", "alg"),
        ("\"issued_ms\":5", "\"issued_ms\":-5", "issued_ms"),
        ("\"issued_ms\":5", "\"issued_ms\":\"5\"", "issued_ms"),
        ("\"expires_ms\":1000", "\"expires_ms\":1000000000000000", "expires_ms"),
        ("\"expires_ms\":1000,", "", "expires_ms"),
        ("\"not_before_ms\":10", "\"not_before_ms\":1.5", "not_before_ms"),
        ("\"not_after_ms\":20", "\"not_after_ms\":null", "not_after_ms"),
        ("\"keys\":[", "\"keys\":1,\"x\":[", "keys"),
        (&root, "root", "root_key_id"),
        ("\"root_signature\":\"", "\"root_signature\":\"AA", "root_signature"),
        ("\"root_signature\"", "\"x\"", "root_signature"),
        ("\"root_key_id\"", "\"x\"", "root_key_id"),
    ] {
        assert!(text.contains(from), "{from}");
        assert_eq!(parse(&text.replacen(from, to, 1)), Err(Error::FieldInvalid(field)), "{from} -> {to}");
    }
    let mut twice = good.clone();
    twice.keys[1] = twice.keys[0].clone();
    assert_eq!(parse(&twice.encode()), Err(Error::FieldInvalid("key_id")));
    assert!(parse(&set(KEYS_MAX).encode()).is_ok());
    assert_eq!(parse(&set(KEYS_MAX + 1).encode()), Err(Error::FieldInvalid("keys")));
    assert_eq!(parse("[]"), Err(Error::FieldInvalid("keys")));
    assert_eq!(parse(&text[1..]), Err(Error::JsonInvalid));
    let of_len = |len: usize| format!("{text}{}", " ".repeat(len - text.len()));
    assert!(parse(&of_len(KEY_SET_LEN_MAX)).is_ok());
    assert_eq!(parse(&of_len(KEY_SET_LEN_MAX + 1)), Err(Error::BodyTooLarge));
    assert!(parse(&text.replacen('{', r#"{"more":[1],"#, 1)).is_ok());
}

#[test]
fn a_root_signature_covers_exactly_its_key_set() {
    let root = key();
    let mut good = set(2);
    good.sign(default_provider(), &root).unwrap();
    let verify = |set: &KeySet| set.verify(default_provider(), default_identity_library(), root.public(), 999, 0);
    assert_eq!(verify(&good), Ok(()));
    let changes: [fn(&mut KeySet); 8] = [
        |set| set.issued_ms += 1,
        |set| set.expires_ms += 1,
        |set| set.keys[0].not_before_ms -= 1,
        |set| set.keys[1].not_after_ms += 1,
        |set| set.keys.swap(0, 1),
        |set| set.keys.truncate(1),
        |set| set.keys[0] = IdentityKey::new(default_provider(), key().public(), 10, 20).unwrap(),
        |set| set.root.as_mut().unwrap().signature[63] ^= 1,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut changed = good.clone();
        change(&mut changed);
        assert_eq!(verify(&changed), Err(KeySetFault::SignatureInvalid), "change {index}");
    }
    let mut unsigned = good.clone();
    unsigned.root = None;
    assert_eq!(verify(&unsigned), Err(KeySetFault::Unsigned));
    let mut by_another = good.clone();
    by_another.sign(default_provider(), &key()).unwrap();
    assert_eq!(verify(&by_another), Err(KeySetFault::OtherRoot));
    // The id of the pinned root with the signature of another: ids prove nothing.
    by_another.root.as_mut().unwrap().key_id = good.root.as_ref().unwrap().key_id;
    assert_eq!(verify(&by_another), Err(KeySetFault::SignatureInvalid));
}

#[test]
fn a_set_is_good_up_to_and_without_its_end_and_none_is_older_than_the_last() {
    let root = key();
    let mut set = set(1);
    set.sign(default_provider(), &root).unwrap();
    let verify = |now, last| set.verify(default_provider(), default_identity_library(), root.public(), now, last);
    for (now, last, expected) in [
        (0, 0, Ok(())),
        (999, 5, Ok(())),
        (1000, 5, Err(KeySetFault::Expired)),
        (1001, 5, Err(KeySetFault::Expired)),
        (999, 4, Ok(())),
        (999, 6, Err(KeySetFault::RolledBack)),
    ] {
        assert_eq!(verify(now, last), expected, "at {now}, after {last}");
    }
}

#[test]
fn a_root_that_is_no_point_verifies_nothing() {
    let mut set = set(1);
    let no_point = [4; 65];
    set.root = Some(RootSignature { key_id: KeyId::of(default_provider(), &no_point), signature: alloc::vec![1; 64] });
    let verified = set.verify(default_provider(), default_identity_library(), &no_point, 0, 0);
    assert_eq!(verified, Err(KeySetFault::RootInvalid));
}

#[test]
fn a_key_of_an_unknown_algorithm_is_under_the_signature_and_trusted_by_nobody() {
    let root = key();
    let mut all = set(1);
    for algorithm in SignatureAlgorithm::ALL {
        let pair = default_identity_library().generate(algorithm).unwrap().1;
        all.keys.push(IdentityKey::new(default_provider(), pair.public(), 10, 20).unwrap());
    }
    let later = IdentityKey {
        key_id: KeyId::of(default_provider(), b"later"),
        alg: "later+1".into(),
        public_key: (*b"later").into(),
        ..all.keys[0].clone()
    };
    all.keys.push(later.clone());
    all.sign(default_provider(), &root).unwrap();
    let read = parse(&all.encode()).unwrap();
    assert_eq!(read, all);
    assert_eq!(read.verify(default_provider(), default_identity_library(), root.public(), 0, 0), Ok(()));
    assert!(read.keys[..7].iter().all(|key| read.signer(&key.key_id, 15, 15) == Some(key)));
    assert_eq!(read.signer(&later.key_id, 15, 15), None);
    assert!(read.get(&later.key_id).is_some());
    // Changed, or left out, it spoils the signature.
    for change in [|set: &mut KeySet| set.keys.truncate(7), |set: &mut KeySet| set.keys[7].not_after_ms += 1] {
        let mut changed = read.clone();
        change(&mut changed);
        let verified = changed.verify(default_provider(), default_identity_library(), root.public(), 0, 0);
        assert_eq!(verified, Err(KeySetFault::SignatureInvalid));
    }
}

#[test]
fn a_root_of_any_algorithm_signs_a_set_and_no_part_of_it_does() {
    for algorithm in SignatureAlgorithm::ALL {
        let root = default_identity_library().generate(algorithm).unwrap().1;
        let mut signed = set(2);
        signed.sign(default_provider(), &root).unwrap();
        let read = parse(&signed.encode()).unwrap();
        let verify = |public: &[u8]| read.verify(default_provider(), default_identity_library(), public, 0, 0);
        assert_eq!(verify(root.public()), Ok(()), "{algorithm}");
        let first = algorithm.schemes().next().unwrap().public_len();
        if algorithm.is_composite() {
            assert_eq!(verify(&root.public()[..first]), Err(KeySetFault::OtherRoot));
            assert_eq!(verify(&root.public()[first..]), Err(KeySetFault::OtherRoot));
        }
        let mut cut = read.clone();
        cut.root.as_mut().unwrap().signature.pop();
        let verified = cut.verify(default_provider(), default_identity_library(), root.public(), 0, 0);
        assert_eq!(verified, Err(KeySetFault::SignatureInvalid), "{algorithm}");
    }
}
