//! SubjectPublicKeyInfo (RFC 5280 section 4.1) of the public keys that tokens describe by attributes.

const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const EC: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
const ED25519: &[u8] = b"\x30\x05\x06\x03\x2b\x65\x70";
/// AlgorithmIdentifier of ML-DSA (RFC 9881 section 2), all but its last byte.
const ML_DSA: &[u8] = b"\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03";
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 2;
const BIT_STRING: u8 = 3;

/// Parameter sets of ML-DSA (FIPS 204 table 1).
#[derive(Clone, Copy)]
pub(crate) enum MlDsa {
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

/// Encodes a public RSA key from its modulus and exponent.
pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = element(SEQUENCE, &[&unsigned(modulus), &unsigned(exponent)]);
    element(SEQUENCE, &[RSA, &element(BIT_STRING, &[&[0], &key])])
}

/// Encodes a point on a named curve; `params` is the curve's OID in DER. The point is wrapped in an OCTET STRING, or bare.
pub(crate) fn ec(params: &[u8], point: &[u8]) -> Vec<u8> {
    let algorithm = element(SEQUENCE, &[EC, params]);
    element(SEQUENCE, &[&algorithm, &element(BIT_STRING, &[&[0], unwrapped(point)])])
}

/// Encodes an Ed25519 key, wrapped in an OCTET STRING, or bare.
pub(crate) fn ed25519(point: &[u8]) -> Vec<u8> {
    let point = if point.len() == 32 { point } else { unwrapped(point) };
    element(SEQUENCE, &[ED25519, &element(BIT_STRING, &[&[0], point])])
}

/// Encodes an ML-DSA key (RFC 9881 section 4); `None` if it has not the length of its parameter set (FIPS 204 table 2).
pub(crate) fn ml_dsa(set: MlDsa, key: &[u8]) -> Option<Vec<u8>> {
    let (last, len) = match set {
        MlDsa::MlDsa44 => (0x11, 1312),
        MlDsa::MlDsa65 => (0x12, 1952),
        MlDsa::MlDsa87 => (0x13, 2592),
    };
    (key.len() == len).then(|| element(SEQUENCE, &[ML_DSA, &[last], &element(BIT_STRING, &[&[0], key])]))
}

/// Encodes r and s of ECDSA in the DER form of RFC 3279 section 2.2.3; `None` for an odd length.
pub(crate) fn ecdsa(fixed: &[u8]) -> Option<Vec<u8>> {
    (fixed.len().is_multiple_of(2) && !fixed.is_empty()).then(|| {
        let (r, s) = fixed.split_at(fixed.len() / 2);
        element(SEQUENCE, &[&unsigned(r), &unsigned(s)])
    })
}

/// Content of an OCTET STRING that spans all bytes; else the bytes. A bare uncompressed point begins with 4 too, so that
/// the length decides.
fn unwrapped(point: &[u8]) -> &[u8] {
    match point {
        [4, len, content @ ..] if *len < 0x80 && content.len() == usize::from(*len) => content,
        [4, 0x81, len, content @ ..] if content.len() == usize::from(*len) => content,
        _ => point,
    }
}

fn unsigned(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let number = number.get(zeros..).unwrap_or_default();
    match number.first() {
        Some(first) if *first < 0x80 => element(INTEGER, &[number]),
        _ => element(INTEGER, &[&[0], number]),
    }
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut der = vec![tag];
    let bytes = len.to_be_bytes();
    let significant = bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    if len < 0x80 {
        der.extend(significant.first().or(Some(&0)));
    } else {
        // At most 8 bytes of length.
        der.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
        der.extend(significant);
    }
    parts.iter().for_each(|part| der.extend_from_slice(part));
    der
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, ML_DSA_44_SIGNING, ML_DSA_65_SIGNING,
        ML_DSA_87_SIGNING, PqdsaKeyPair, RsaKeyPair,
    };

    use super::*;

    #[test]
    fn the_encodings_are_those_of_the_library() {
        let rsa_pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let (public, der): (_, PublicKeyX509Der<'_>) = (rsa_pair.public_key(), rsa_pair.public_key().as_der().unwrap());
        let n = [&[0], public.modulus().big_endian_without_leading_zero()].concat();
        assert_eq!(rsa(&n, public.exponent().big_endian_without_leading_zero()), der.as_ref());

        let pair = EcdsaKeyPair::generate(&ECDSA_P521_SHA512_ASN1_SIGNING).unwrap();
        let der: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let (point, oid) = (pair.public_key().as_ref(), b"\x06\x05\x2b\x81\x04\x00\x23");
        assert_eq!(ec(oid, point), der.as_ref());
        assert_eq!(ec(oid, &element(4, &[point])), der.as_ref());

        let pair = Ed25519KeyPair::generate().unwrap();
        let der: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
        let point = pair.public_key().as_ref();
        assert_eq!(ed25519(point), der.as_ref());
        assert_eq!(ed25519(&element(4, &[point])), der.as_ref());

        for (set, signing) in [
            (MlDsa::MlDsa44, &ML_DSA_44_SIGNING),
            (MlDsa::MlDsa65, &ML_DSA_65_SIGNING),
            (MlDsa::MlDsa87, &ML_DSA_87_SIGNING),
        ] {
            let pair = PqdsaKeyPair::generate(signing).unwrap();
            let der: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
            let key = pair.public_key().as_ref();
            assert_eq!(ml_dsa(set, key).unwrap(), der.as_ref());
            assert!(ml_dsa(set, &key[1..]).is_none() && ml_dsa(set, &element(4, &[key])).is_none());
        }
    }

    #[test]
    fn a_signature_of_zeros_and_high_bits_is_der() {
        assert_eq!(ecdsa(&[0, 0, 0, 0x80]).unwrap(), [0x30, 7, 2, 1, 0, 2, 2, 0, 0x80]);
        assert_eq!((ecdsa(&[1]), ecdsa(&[])), (None, None));
    }
}
