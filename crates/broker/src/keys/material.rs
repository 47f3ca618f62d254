//! Material of keys: generation and checked import. Asymmetric keys are stored as PKCS#8, secret keys and ML-KEM's
//! decapsulation keys raw.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::kem::DecapsulationKey;
use aws_lc_rs::rand;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair,
};
#[cfg(not(feature = "fips"))]
use aws_lc_rs::signature::{Ed25519KeyPair, PqdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::algorithm::secret_len;
use super::form::Form;
use super::token::{self, Tokens};
use super::{Algorithm, MATERIAL_LEN_MAX, ml_kem};
use crate::certificate::{ca_certificate, public_key_in};
use crate::profile::policy::Curve;
use crate::{Code, Refusal, Result};

/// Longest stored material, in bytes: an RSA key of 8192 bits has less than 5,000.
const STORED_LEN_MAX: usize = 16 * 1024;
/// Lengths of an imported MAC or derivation key, in bytes.
pub(super) const SECRET_LENS: std::ops::RangeInclusive<usize> = 16..=1024;

/// Generates a key. RSA takes up to seconds, with 8192 bits up to a minute.
///
/// # Errors
/// [`Code::InvalidArgument`]: keys of this size are not generated; [`Code::Internal`].
pub(crate) fn generate(algorithm: Algorithm) -> Result<Zeroizing<Vec<u8>>> {
    let failed = |_| Refusal::new(Code::Internal, "key store: cannot make a key");
    let made = |bytes: &[u8]| Ok(Zeroizing::new(bytes.to_vec()));
    match algorithm {
        Algorithm::Encrypt(_) | Algorithm::Mac(_) | Algorithm::Derive(_) => {
            let mut secret = Zeroizing::new(vec![0; secret_len(algorithm)]);
            rand::fill(&mut secret).map_err(failed)?;
            Ok(secret)
        }
        Algorithm::Ecdsa(curve) => {
            let pair = EcdsaKeyPair::generate(signing(curve)).map_err(failed)?;
            made(pair.to_pkcs8v1().map_err(failed)?.as_ref())
        }
        Algorithm::Rsa(bits) | Algorithm::RsaUnwrap(bits) => {
            let size = match bits {
                2048 => KeySize::Rsa2048,
                3072 => KeySize::Rsa3072,
                4096 => KeySize::Rsa4096,
                8192 => KeySize::Rsa8192,
                _ => return Err(Refusal::invalid("algorithm: RSA keys are made of 2048, 3072, 4096 or 8192 bits")),
            };
            let pair = RsaKeyPair::generate(size).map_err(failed)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
            made(der.as_ref())
        }
        #[cfg(feature = "fips")]
        Algorithm::Ed25519 => Err(super::form::no_ed25519()),
        #[cfg(not(feature = "fips"))]
        Algorithm::Ed25519 => {
            let pair = Ed25519KeyPair::generate().map_err(failed)?;
            made(pair.to_pkcs8v1().map_err(failed)?.as_ref())
        }
        #[cfg(not(feature = "fips"))]
        Algorithm::MlDsa(set) => {
            let pair = PqdsaKeyPair::generate(super::form::ml_dsa(set)).map_err(failed)?;
            made(pair.to_pkcs8v1().map_err(failed)?.as_ref())
        }
        #[cfg(feature = "fips")]
        Algorithm::MlDsa(_) => Err(super::form::no_ml_dsa(algorithm)),
        Algorithm::Kem(set) => {
            let secret = DecapsulationKey::generate(ml_kem::library(set)).map_err(failed)?;
            made(secret.key_bytes().map_err(failed)?.as_ref())
        }
    }
}

/// Material of a version as it is stored.
pub(crate) struct Material {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// Certificate in DER of the CA whose key it is, if it came with the key.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// Checks imported material, which may be PEM of a private key with the certificate of its CA behind it, or the URI of a key on
/// a token.
///
/// # Errors
/// [`Code::InvalidArgument`]: the material is not a key of this algorithm, or the certificate not that of a CA with this
/// key.
pub(crate) fn import(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Material> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    if material.len() > MATERIAL_LEN_MAX {
        return Err(Refusal::invalid(format!("material: too large (max {MATERIAL_LEN_MAX})")));
    }
    let begin = material.windows(BEGIN.len()).position(|window| window == BEGIN).filter(|_| algorithm.is_asymmetric());
    let Some((key, pem)) = begin.and_then(|at| material.split_at_checked(at)) else {
        return Ok(Material { bytes: key(tokens, algorithm, material)?, certificate: None });
    };
    let bytes = self::key(tokens, algorithm, key)?;
    let certificate = ca_certificate(pem)
        .ok_or_else(|| Refusal::invalid("material: the certificate behind the key is not that of a CA"))?;
    if public_key_in(&certificate) != Some(Form::parse(tokens, algorithm, &bytes)?.spki()?) {
        return Err(Refusal::invalid("material: the certificate behind the key is of another key"));
    }
    Ok(Material { bytes, certificate: Some(certificate) })
}

/// Checks an imported key, and returns it as it is stored.
fn key(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    if token::is_on_token(material) {
        return token::import(tokens, algorithm, material);
    }
    #[cfg(feature = "fips")]
    if algorithm == Algorithm::Ed25519 {
        return Err(super::form::no_ed25519());
    }
    let wrong = |what: &str| Refusal::invalid(format!("material: not a key of {algorithm}: {what}"));
    let material = if let Algorithm::Kem(set) = algorithm {
        let expanded = pkcs8(material).and_then(|der| ml_kem::expanded(set, &der));
        Zeroizing::new(expanded.unwrap_or_else(|| material.to_vec()))
    } else if !algorithm.is_asymmetric() {
        Zeroizing::new(material.to_vec())
    } else {
        pkcs8(material).ok_or_else(|| wrong("expected PKCS#8, unencrypted, as DER or PEM"))?
    };
    if material.len() > STORED_LEN_MAX {
        return Err(wrong("too large"));
    }
    match algorithm {
        Algorithm::Encrypt(_) if material.len() != secret_len(algorithm) => {
            return Err(wrong(&format!("expected {} bytes", secret_len(algorithm))));
        }
        Algorithm::Mac(_) | Algorithm::Derive(_) if !SECRET_LENS.contains(&material.len()) => {
            return Err(wrong("expected 16 to 1024 bytes"));
        }
        Algorithm::Ecdsa(curve) => {
            EcdsaKeyPair::from_pkcs8(signing(curve), &material)
                .map_err(|_| wrong("it is on no curve, or on another one"))?;
        }
        Algorithm::Rsa(bits) | Algorithm::RsaUnwrap(bits) => rsa(bits, &material).map_err(|what| wrong(&what))?,
        _ => {}
    }
    // A missing algorithm of the module is reported as such; other failures are the material's fault.
    Form::parse(tokens, algorithm, &material).map_err(|refusal| match refusal.code {
        Code::FailedPrecondition => refusal,
        _ => wrong("it does not parse"),
    })?;
    Ok(material)
}

fn rsa(bits: u32, pkcs8: &[u8]) -> Result<(), String> {
    let pair = RsaKeyPair::from_pkcs8(pkcs8)
        .map_err(|_| "it is no RSA key, or of no size between 2048 and 8192".to_owned())?;
    let (modulus, exponent) = (pair.public_key().modulus(), pair.public_key().exponent());
    let len = |bytes: &[u8]| {
        let first = bytes.first().copied().unwrap_or(0);
        u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX).saturating_sub(first.leading_zeros())
    };
    if len(modulus.big_endian_without_leading_zero()) != bits {
        return Err(format!("its modulus has {} bits", len(modulus.big_endian_without_leading_zero())));
    }
    // FIPS 186-5 section A.1.1: 2^16 < e. Forged paddings exploit small exponents.
    if len(exponent.big_endian_without_leading_zero()) < 17 {
        return Err("its exponent is less than 65537".into());
    }
    Ok(())
}

fn signing(curve: Curve) -> &'static EcdsaSigningAlgorithm {
    let algorithm: &'static signature::EcdsaSigningAlgorithm = match curve {
        Curve::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
        Curve::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        Curve::P521 => &ECDSA_P521_SHA512_ASN1_SIGNING,
    };
    algorithm
}

/// Decodes DER, or one PEM block, to a single SEQUENCE without trailing bytes. The parser checks its content.
fn pkcs8(material: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
    const END: &str = "-----END PRIVATE KEY-----";
    if is_sequence(material) {
        return Some(Zeroizing::new(material.to_vec()));
    }
    let text = std::str::from_utf8(material).ok()?.trim();
    let body = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let mut compact = Zeroizing::new(String::with_capacity(body.len()));
    compact.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
    STANDARD.decode(compact.as_bytes()).ok().map(Zeroizing::new).filter(|der| is_sequence(der))
}

/// True for exactly one DER SEQUENCE of less than 64 KiB.
fn is_sequence(der: &[u8]) -> bool {
    match der {
        [0x30, len, content @ ..] if *len < 0x80 => content.len() == usize::from(*len),
        [0x30, 0x81, len, content @ ..] => content.len() == usize::from(*len),
        [0x30, 0x82, high, low, content @ ..] => content.len() == usize::from(u16::from_be_bytes([*high, *low])),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        super::import(tokens, algorithm, material).map(|material| material.bytes)
    }

    fn none() -> Tokens {
        Tokens::default()
    }

    fn pem(der: &[u8]) -> String {
        let body = STANDARD.encode(der);
        let lines: Vec<&str> = body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    fn algorithms() -> Vec<Algorithm> {
        // Larger RSA keys take seconds to generate.
        let is_large = |name: &str| name.starts_with("rsa-") && !name.ends_with("-2048");
        Algorithm::names().filter(|name| !is_large(name)).map(parsed).collect()
    }

    fn parsed(name: &str) -> Algorithm {
        Algorithm::parse(name).unwrap()
    }

    #[test]
    fn a_key_is_accepted_only_for_its_own_algorithm() {
        let keys: Vec<(Algorithm, Zeroizing<Vec<u8>>)> =
            algorithms().into_iter().map(|algorithm| (algorithm, generate(algorithm).unwrap())).collect();
        for (made, material) in &keys {
            assert_eq!(import(&none(), *made, material).unwrap(), *material, "{made}");
            if made.is_asymmetric() && !matches!(made, Algorithm::Kem(_)) {
                assert_eq!(import(&none(), *made, pem(material).as_bytes()).unwrap(), *material, "{made} as PEM");
                assert!(
                    import(&none(), *made, &[material.as_slice(), b"x"].concat()).is_err(),
                    "{made} with something after it"
                );
            }
            // The two uses of RSA have keys of one form; the algorithm of the import decides on the use.
            let is_rsa = |algorithm: Algorithm| matches!(algorithm, Algorithm::Rsa(_) | Algorithm::RsaUnwrap(_));
            let is_alike = |other: &Algorithm| other == made || (is_rsa(*other) && is_rsa(*made));
            for other in algorithms().into_iter().filter(|other| !is_alike(other) && other.is_asymmetric()) {
                let refusal = import(&none(), other, material).unwrap_err();
                assert_eq!(refusal.code, Code::InvalidArgument, "{made} as {other}");
            }
        }
        let rsa = keys.iter().find(|(made, _)| *made == parsed("rsa-2048")).unwrap();
        let refusal = import(&none(), parsed("rsa-2056"), &rsa.1).unwrap_err();
        assert!(refusal.text.contains("its modulus has 2048 bits"), "{refusal}");
    }

    #[test]
    fn secrets_must_have_the_length_of_their_algorithm() {
        for (name, good, bad) in [
            ("aes-128-gcm", vec![16], vec![0, 15, 17, 24, 32]),
            ("aes-256-gcm-siv", vec![32], vec![16, 31, 33]),
            ("chacha20-poly1305", vec![32], vec![16, 64]),
            ("hmac-sha-256", vec![16, 32, 1024], vec![0, 15, 1025, MATERIAL_LEN_MAX + 1]),
            ("hkdf-sha-512", vec![16, 64, 1024], vec![0, 15, 1025]),
        ] {
            for len in good {
                assert!(import(&none(), parsed(name), &vec![7; len]).is_ok(), "{name} {len}");
            }
            for len in bad {
                assert!(import(&none(), parsed(name), &vec![7; len]).is_err(), "{name} {len}");
            }
        }
    }

    #[test]
    fn a_decapsulation_key_is_accepted_raw_and_as_pkcs8_with_and_without_its_seed() {
        // Parameter set, last number of its identifier, and the four lengths of the two forms, written out from RFC 9935.
        for (name, last, [alone, key, raw], [both, octets, sequence]) in [
            ("ml-kem-512", 1, [[0x06, 0x78], [0x06, 0x64], [0x06, 0x60]], [[0x06, 0xbe], [0x06, 0xaa], [0x06, 0xa6]]),
            ("ml-kem-768", 2, [[0x09, 0x78], [0x09, 0x64], [0x09, 0x60]], [[0x09, 0xbe], [0x09, 0xaa], [0x09, 0xa6]]),
            ("ml-kem-1024", 3, [[0x0c, 0x78], [0x0c, 0x64], [0x0c, 0x60]], [[0x0c, 0xbe], [0x0c, 0xaa], [0x0c, 0xa6]]),
        ] {
            let algorithm = parsed(name);
            let material = generate(algorithm).unwrap();
            let oid = [0x02, 0x01, 0x00, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x04, last];
            let element = |tag: u8, len: [u8; 2]| [tag, 0x82, len[0], len[1]];
            let alone = [&element(0x30, alone), oid.as_slice(), &element(4, key), &element(4, raw), &material];
            let seed = [&[0x04, 0x40], [7; 64].as_slice()].concat();
            let heads = [element(4, octets), element(0x30, sequence)].concat();
            let both = [&element(0x30, both), oid.as_slice(), &heads, &seed, &element(4, raw), &material];
            for der in [alone.concat(), both.concat()] {
                assert_eq!(import(&none(), algorithm, &der).unwrap(), material, "{name}");
                assert_eq!(import(&none(), algorithm, pem(&der).as_bytes()).unwrap(), material, "{name}");
                assert!(import(&none(), algorithm, &der[..der.len() - 1]).is_err(), "{name}");
                let others = ["ml-kem-512", "ml-kem-768", "ml-kem-1024"].into_iter().filter(|other| *other != name);
                assert!(others.map(parsed).all(|other| import(&none(), other, &der).is_err()), "{name}");
            }
        }
    }

    #[test]
    fn a_changed_decapsulation_key_is_refused() {
        let algorithm = parsed("ml-kem-768");
        let material = generate(algorithm).unwrap();
        // Changes in its public half, and in that half's digest.
        for index in [1152, 2000, 2335, 2336, 2367] {
            let mut changed = material.clone();
            changed[index] ^= 1;
            assert!(import(&none(), algorithm, &changed).is_err(), "byte {index}");
        }
    }

    #[test]
    fn no_debug_output_or_error_shows_key_material() {
        for algorithm in algorithms().into_iter().filter(|algorithm| algorithm.is_asymmetric()) {
            let material = generate(algorithm).unwrap();
            for len in (0..material.len()).step_by(37) {
                let refusal = import(&none(), algorithm, &material[..len]).unwrap_err();
                assert!(refusal.text.len() < 120, "{refusal}");
            }
        }
        assert!(
            import(&none(), parsed("ed25519"), pem(b"nothing").replace("PRIVATE", "EC PRIVATE").as_bytes()).is_err()
        );
    }
}
