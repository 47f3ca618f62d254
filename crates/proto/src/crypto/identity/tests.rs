use super::*;

#[test]
fn a_key_of_every_algorithm_that_was_written_down_signs_what_its_public_half_verifies() {
    let library = default_identity_library();
    for algorithm in SignatureAlgorithm::ALL {
        let (document, key) = library.generate(algorithm).unwrap();
        let again = library.from_pkcs8(&document).unwrap();
        assert_eq!((again.algorithm(), again.public()), (algorithm, key.public()));
        assert_eq!(SignatureAlgorithm::of_public(key.public()), Some(algorithm));
        assert!(algorithm.is_public_form(key.public()));
        let signature = again.sign(b"message").unwrap();
        assert_eq!(signature.len(), algorithm.signature_len());
        let public = library.public(key.public()).unwrap();
        assert!(public.verify(b"message", &signature), "{algorithm}");
        assert!(!public.verify(b"massage", &signature), "{algorithm}");
        assert!(!public.verify(b"message", &signature[1..]), "{algorithm}");
        let longer = [&signature[..], &[0]].concat();
        assert!(!public.verify(b"message", &longer), "{algorithm}");
        assert_eq!(library.public(&key.public()[1..]).err(), Some(Error::PublicKeyInvalid));
        assert_eq!(library.from_pkcs8(&document[1..]).err(), Some(Error::Provider));
        assert_eq!(library.from_pkcs8(&document[..document.len() - 1]).err(), Some(Error::Provider));
        assert_eq!(library.from_pkcs8(&[&document[..], &[0x30]].concat()).err(), Some(Error::Provider));
        assert!(!alloc::format!("{key:?} {public:?}").contains("parts"));
    }
    assert_eq!(library.from_pkcs8(&[]).err(), Some(Error::Provider));
}

#[test]
fn a_composite_signature_is_none_of_its_parts_and_needs_both() {
    let library = default_identity_library();
    for algorithm in [SignatureAlgorithm::Es256MlDsa65, SignatureAlgorithm::Es384MlDsa87] {
        let (document, key) = library.generate(algorithm).unwrap();
        let public = library.public(key.public()).unwrap();
        let signature = key.sign(b"sealway/m").unwrap();
        let schemes: Vec<Scheme> = algorithm.schemes().collect();
        let (classic, post_quantum) = signature.split_at(schemes[0].signature_len());
        let (point, lattice) = key.public().split_at(schemes[0].public_len());
        // Each bit matters: a wrong part is not made up for by the right other one.
        for place in [0, classic.len() - 1, classic.len(), signature.len() - 1] {
            let mut changed = signature.clone();
            changed[place] ^= 1;
            assert!(!public.verify(b"sealway/m", &changed), "{algorithm}: byte {place}");
        }
        assert!(!public.verify(b"sealway/m", &[post_quantum, classic].concat()), "{algorithm}: swapped");
        // The parts as keys of their own, over the same message.
        for (part, own) in [(point, classic), (lattice, post_quantum)] {
            assert!(!library.public(part).unwrap().verify(b"sealway/m", own), "{algorithm}: a part alone");
        }
        // The parts' own signatures over the bare message make no composite one.
        let (first, second) = der_element(&document).unwrap();
        let parts = [first, second].map(|part| library.from_pkcs8(part).unwrap());
        let bare = parts.iter().flat_map(|part| part.sign(b"sealway/m").unwrap()).collect::<Vec<_>>();
        assert_eq!(bare.len(), signature.len());
        assert!(!public.verify(b"sealway/m", &bare), "{algorithm}: over the bare message");
        // Over the message that both sign, they do: that is what the specification says.
        let name = algorithm.name();
        let whole = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), b"sealway/m"].concat();
        let put_together = parts.iter().flat_map(|part| part.sign(&whole).unwrap()).collect::<Vec<_>>();
        assert!(public.verify(b"sealway/m", &put_together), "{algorithm}");
        let swapped = [&document[first.len()..], first].concat();
        assert_eq!(library.from_pkcs8(&swapped).err(), Some(Error::Provider), "{algorithm}: documents swapped");
    }
    let (es256, _) = library.generate(SignatureAlgorithm::Es256).unwrap();
    let (ml_dsa_87, _) = library.generate(SignatureAlgorithm::MlDsa87).unwrap();
    assert_eq!(library.from_pkcs8(&[&es256[..], &ml_dsa_87].concat()).err(), Some(Error::Provider), "no such pair");
}

#[test]
fn names_and_lengths_are_those_of_the_specification() {
    let row = |algorithm: SignatureAlgorithm| (algorithm.name(), algorithm.public_len(), algorithm.signature_len());
    let expected = [
        ("ES256", 65, 64),
        ("ES384", 97, 96),
        ("ML-DSA-65", 1952, 3309),
        ("ML-DSA-87", 2592, 4627),
        ("ES256+ML-DSA-65", 2017, 3373),
        ("ES384+ML-DSA-87", 2689, 4723),
    ];
    assert_eq!(SignatureAlgorithm::ALL.map(row), expected);
    for algorithm in SignatureAlgorithm::ALL {
        assert_eq!(SignatureAlgorithm::from_name(algorithm.name()), Some(algorithm));
    }
    assert_eq!(SignatureAlgorithm::from_name("es256"), None);
}
