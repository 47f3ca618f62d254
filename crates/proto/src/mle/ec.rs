//! `ECDH-ES` on P-256 (RFC 7518 section 4.6): private keys from DER, and the derivation of the content key. SPEC mle.md#ecdh-es

use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::algorithm::{CEK_LEN_MAX, Enc};
use super::der::{Der, INTEGER, OCTET_STRING, OID, SEQUENCE};
use super::key_error::KeyError;
use super::load::{Block, blocks, private_pkcs8, sole};
use crate::crypto::Provider;

/// The length of an uncompressed point, in bytes.
pub(super) const POINT_LEN: usize = 65;
/// The content of the object identifier id-ecPublicKey, 1.2.840.10045.2.1.
pub(super) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// The content of the object identifier prime256v1, 1.2.840.10045.3.1.7.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// The tag of the curve in an ECPrivateKey.
const PARAMETERS: u8 = 0xa0;

/// Returns the point of a SubjectPublicKeyInfo whose parameters and key are these.
pub(super) fn point(mut parameters: Der<'_>, key: &[u8]) -> Result<[u8; POINT_LEN], KeyError> {
    if parameters.take(OID) != Some(P256) || !parameters.is_empty() {
        return Err(KeyError::Curve);
    }
    match <[u8; POINT_LEN]>::try_from(key) {
        Ok(point @ [4, ..]) => Ok(point),
        _ => Err(KeyError::Der),
    }
}

/// Reads the scalar of a private key on P-256, PKCS#8 or SEC 1, PEM or DER.
pub(super) fn scalar(bytes: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let blocks = blocks(bytes)?;
    if let Some(der) = sole(&blocks, "EC PRIVATE KEY")? {
        return scalar_of(der);
    }
    match &blocks[..] {
        [Block { label: None, der }] => scalar_of(der),
        _ => scalar_of(&private_pkcs8(bytes)?),
    }
}

/// Reads the scalar from its PKCS#8 form (RFC 5958), or from an ECPrivateKey (RFC 5915).
fn scalar_of(der: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let mut outer = Der::sequence(der).ok_or(KeyError::Der)?;
    let version = outer.take(INTEGER).ok_or(KeyError::Der)?;
    // The version of an ECPrivateKey is 1, and its curve stands in it.
    if version == [1] && outer.0.first() == Some(&OCTET_STRING) {
        return ec_private(Der::sequence(der).ok_or(KeyError::Der)?, true);
    }
    let mut algorithm = Der(outer.take(SEQUENCE).ok_or(KeyError::Der)?);
    if algorithm.take(OID) != Some(EC_PUBLIC_KEY) {
        return Err(KeyError::Kind);
    }
    if algorithm.take(OID) != Some(P256) {
        return Err(KeyError::Curve);
    }
    let key = outer.take(OCTET_STRING).and_then(Der::sequence).ok_or(KeyError::Der)?;
    ec_private(key, false)
}

fn ec_private(mut key: Der<'_>, is_curve_due: bool) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    if key.take(INTEGER) != Some(&[1]) {
        return Err(KeyError::Der);
    }
    let scalar = key.take(OCTET_STRING).ok_or(KeyError::Der)?;
    if is_curve_due && key.take(PARAMETERS).and_then(|content| Der(content).take(OID)) != Some(P256) {
        return Err(KeyError::Curve);
    }
    scalar.try_into().map(Zeroizing::new).map_err(|_| KeyError::Der)
}

/// Derives a content key from a shared secret by Concat KDF with SHA-256 (SP 800-56A section 5.8.1, RFC 7518 section 4.6.2).
// SPEC mle.md#ecdh-es
pub(super) fn derive(
    secret: &[u8],
    enc: Enc,
    (apu, apv): (&[u8], &[u8]),
    provider: &dyn Provider,
) -> Zeroizing<Vec<u8>> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    let name = enc.as_str().as_bytes();
    let bits = u32::try_from(enc.cek_len() * 8).unwrap_or(u32::MAX).to_be_bytes();
    let mut key = Zeroizing::new(Vec::with_capacity(CEK_LEN_MAX));
    for round in 1_u32..=2 {
        let hash = Zeroizing::new(provider.sha256(&[
            &round.to_be_bytes(),
            secret,
            &len(name),
            name,
            &len(apu),
            apu,
            &len(apv),
            apv,
            &bits,
        ]));
        key.extend_from_slice(hash.as_slice());
    }
    key.truncate(enc.cek_len());
    key
}

#[cfg(all(test, feature = "aws-lc"))]
mod tests {
    use super::*;
    use crate::crypto::aws_lc::AwsLc;
    use crate::mle::compact::{Alphabet, decode};

    #[test]
    fn the_example_of_rfc_7518_appendix_c_is_derived() {
        let part = |text: &str| decode(text.as_bytes(), Alphabet::Strict).unwrap();
        let scalar = part("0_NxaRPUMQoAJt50Gz8YiTr8gRTwyEaCumd-MToTmIo");
        let mut point = alloc::vec![4];
        point.extend(part("weNJy2HscCSM6AEDTDg04biOvhFhyyWvOHQfeF_PxMQ"));
        point.extend(part("e8lnCO-AlStT-NJVX-crhB7QRYhiix03illJOVAOyck"));
        let private = AwsLc.p256_from_scalar(&scalar.try_into().unwrap()).unwrap();
        let secret = private.agree(AwsLc.p256_public(&point).unwrap()).unwrap();
        let key = derive(secret.as_slice(), Enc::A128Gcm, (b"Alice", b"Bob"), &AwsLc);
        assert_eq!(*key, part("VqqN6vgjbSBcIijNcacQGg"));
    }
}
