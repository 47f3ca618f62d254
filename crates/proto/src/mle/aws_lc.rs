//! The provider of JWE over AWS-LC, through `aws-lc-rs`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    self, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::key_wrap::{self, AesKek, KeyWrap};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA512_MGF1SHA512, OaepAlgorithm, OaepPrivateDecryptingKey,
    OaepPublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::{constant_time, hmac};
use zeroize::Zeroizing;

use super::algorithm::{Alg, CEK_LEN_MAX, Enc};
use super::crypto::{AesWrap, CryptoFailure, JoseProvider, P256Private, RsaPrivate, Unwrap, Wrap};
use crate::crypto::Provider;
use crate::crypto::aws_lc::AwsLc;

/// Opens AES-GCM in place with a nonce of 16 bytes: `key`, `nonce`, `aad`, `data`, `tag`; false if the tag does not verify. The
/// safe API of the library takes nonces of 12 bytes alone, so a program brings `sealway_awslc::aes_gcm_open` here.
pub type OpenLongNonce = fn(&[u8], &[u8], &[u8], &mut [u8], &[u8]) -> bool;

/// JWE over AWS-LC, which production uses.
#[derive(Clone, Copy)]
pub struct AwsLcJose {
    open_long_nonce: OpenLongNonce,
}

impl AwsLcJose {
    /// Creates a provider that opens AES-GCM with nonces of 16 bytes by `open_long_nonce`, and does the rest itself.
    pub fn new(open_long_nonce: OpenLongNonce) -> AwsLcJose {
        AwsLcJose { open_long_nonce }
    }
}

impl fmt::Debug for AwsLcJose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsLcJose")
    }
}

fn failed<E>(_: E) -> CryptoFailure {
    CryptoFailure
}

fn gcm(enc: Enc, cek: &[u8]) -> Result<LessSafeKey, CryptoFailure> {
    let algorithm = match enc {
        Enc::A128Gcm => &aead::AES_128_GCM,
        Enc::A192Gcm => &aead::AES_192_GCM,
        Enc::A256Gcm => &aead::AES_256_GCM,
        _ => return Err(CryptoFailure),
    };
    UnboundKey::new(algorithm, cek).map(LessSafeKey::new).map_err(failed)
}

/// The two keys and the algorithms of AES-CBC with HMAC (RFC 7518 section 5.2.2.1): the first half authenticates.
struct CbcHmac {
    mac: hmac::Key,
    cipher: UnboundCipherKey,
}

impl CbcHmac {
    fn new(enc: Enc, cek: &[u8]) -> Result<CbcHmac, CryptoFailure> {
        let (mac, cipher) = match enc {
            Enc::A128CbcHs256 => (hmac::HMAC_SHA256, &cipher::AES_128),
            Enc::A192CbcHs384 => (hmac::HMAC_SHA384, &cipher::AES_192),
            Enc::A256CbcHs512 => (hmac::HMAC_SHA512, &cipher::AES_256),
            _ => return Err(CryptoFailure),
        };
        if cek.len() != enc.cek_len() {
            return Err(CryptoFailure);
        }
        let (mac_key, cipher_key) = cek.split_at_checked(enc.cek_len() / 2).ok_or(CryptoFailure)?;
        Ok(CbcHmac {
            mac: hmac::Key::new(mac, mac_key),
            cipher: UnboundCipherKey::new(cipher, cipher_key).map_err(failed)?,
        })
    }

    /// Computes the whole MAC, of which the tag is the first half: over the additional data, the IV, the ciphertext, and the
    /// length of the additional data in bits.
    fn mac(&self, aad: &[u8], iv: &[u8], ciphertext: &[u8]) -> Result<hmac::Tag, CryptoFailure> {
        let bits = u64::try_from(aad.len()).map_err(failed)?.checked_mul(8).ok_or(CryptoFailure)?;
        let mut context = hmac::Context::with_key(&self.mac);
        for part in [aad, iv, ciphertext, &bits.to_be_bytes()] {
            context.update(part);
        }
        Ok(context.sign())
    }
}

fn cbc_iv(iv: &[u8]) -> Result<FixedLength<16>, CryptoFailure> {
    <[u8; 16]>::try_from(iv).map(FixedLength::from).map_err(failed)
}

impl JoseProvider for AwsLcJose {
    fn base(&self) -> &dyn Provider {
        &AwsLc
    }

    fn open_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
        tag: &[u8],
    ) -> Result<(), CryptoFailure> {
        if tag.len() != enc.tag_len() || cek.len() != enc.cek_len() {
            return Err(CryptoFailure);
        }
        if enc.is_gcm() {
            return match <[u8; 12]>::try_from(iv) {
                Ok(iv) => gcm(enc, cek)?
                    .open_in_place_separate_tag(Nonce::assume_unique_for_key(iv), Aad::from(aad), tag, data)
                    .map(|_| ())
                    .map_err(failed),
                Err(_) if iv.len() == 16 && (self.open_long_nonce)(cek, iv, aad, data, tag) => Ok(()),
                Err(_) => Err(CryptoFailure),
            };
        }
        let keys = CbcHmac::new(enc, cek)?;
        let iv = cbc_iv(iv)?;
        let mac = keys.mac(aad, iv.as_ref(), data)?;
        // The MAC decides before any byte is decrypted, so that the padding is never an oracle.
        let expected = mac.as_ref().get(..enc.tag_len()).ok_or(CryptoFailure)?;
        constant_time::verify_slices_are_equal(expected, tag).map_err(failed)?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(keys.cipher).map_err(failed)?;
        let len = key.decrypt(data, DecryptionContext::Iv128(iv)).map_err(failed)?.len();
        // The padding behind the plaintext is not secret; what is cut stays in the buffer, which its owner wipes.
        data.truncate(len);
        Ok(())
    }

    fn seal_content(
        &self,
        enc: Enc,
        cek: &[u8],
        iv: &[u8],
        aad: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<Vec<u8>, CryptoFailure> {
        if enc.is_gcm() {
            let nonce = Nonce::assume_unique_for_key(<[u8; 12]>::try_from(iv).map_err(failed)?);
            let tag = gcm(enc, cek)?.seal_in_place_separate_tag(nonce, Aad::from(aad), data).map_err(failed)?;
            return Ok(tag.as_ref().to_vec());
        }
        let keys = CbcHmac::new(enc, cek)?;
        let cbc_iv = cbc_iv(iv)?;
        let cipher = UnboundCipherKey::new(keys.cipher.algorithm(), cek.get(enc.cek_len() / 2..).unwrap_or_default());
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(cipher.map_err(failed)?).map_err(failed)?;
        key.less_safe_encrypt(data, EncryptionContext::Iv128(cbc_iv)).map_err(failed)?;
        let mac = keys.mac(aad, iv, data)?;
        mac.as_ref().get(..enc.tag_len()).map(<[u8]>::to_vec).ok_or(CryptoFailure)
    }

    fn encrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        let key = UnboundCipherKey::new(&cipher::AES_128, key).and_then(EncryptingKey::cbc).map_err(failed)?;
        key.less_safe_encrypt(data, EncryptionContext::Iv128(cbc_iv(iv)?)).map(|_| ()).map_err(failed)
    }

    fn decrypt_blocks(&self, key: &[u8], iv: &[u8], data: &mut [u8]) -> Result<(), CryptoFailure> {
        let key = UnboundCipherKey::new(&cipher::AES_128, key).and_then(DecryptingKey::cbc).map_err(failed)?;
        key.decrypt(data, DecryptionContext::Iv128(cbc_iv(iv)?)).map(|_| ()).map_err(failed)
    }

    fn rsa_private(&self, alg: Alg, pkcs8: &[u8]) -> Result<Box<dyn RsaPrivate>, CryptoFailure> {
        let key = PrivateDecryptingKey::from_pkcs8(pkcs8).map_err(failed)?;
        let public = key.public_key();
        let key = OaepPrivateDecryptingKey::new(key).map_err(failed)?;
        Ok(Box::new(Rsa { oaep: oaep(alg)?, key, public }))
    }

    fn rsa_public(&self, alg: Alg, spki: &[u8]) -> Result<Box<dyn Wrap>, CryptoFailure> {
        let key = PublicEncryptingKey::from_der(spki).map_err(failed)?;
        Ok(Box::new(Oaep { oaep: oaep(alg)?, key: OaepPublicEncryptingKey::new(key).map_err(failed)? }))
    }

    fn p256_private(&self, scalar: &[u8; 32]) -> Result<Box<dyn P256Private>, CryptoFailure> {
        let public = *AwsLc.p256_from_scalar(scalar).map_err(failed)?.public();
        Ok(Box::new(Static { scalar: Zeroizing::new(*scalar), public }))
    }

    fn aes_wrap(&self, key: &[u8]) -> Result<Box<dyn AesWrap>, CryptoFailure> {
        if !matches!(key.len(), 16 | 32) {
            return Err(CryptoFailure);
        }
        Ok(Box::new(Kek(Zeroizing::new(key.to_vec()))))
    }
}

fn oaep(alg: Alg) -> Result<&'static OaepAlgorithm, CryptoFailure> {
    match alg {
        Alg::RsaOaep256 => Ok(&OAEP_SHA256_MGF1SHA256),
        Alg::RsaOaep => Ok(&OAEP_SHA1_MGF1SHA1),
        Alg::RsaOaep512 => Ok(&OAEP_SHA512_MGF1SHA512),
        _ => Err(CryptoFailure),
    }
}

struct Rsa {
    oaep: &'static OaepAlgorithm,
    key: OaepPrivateDecryptingKey,
    public: PublicEncryptingKey,
}

impl Unwrap for Rsa {
    fn unwrap_key(&self, encrypted_key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(vec![0; self.key.min_output_size()]);
        let cek = self.key.decrypt(self.oaep, encrypted_key, &mut out, None).ok()?;
        Some(Zeroizing::new(cek.to_vec()))
    }
}

impl RsaPrivate for Rsa {
    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure> {
        self.public.as_der().map(|der| der.as_ref().to_vec()).map_err(failed)
    }
}

struct Oaep {
    oaep: &'static OaepAlgorithm,
    key: OaepPublicEncryptingKey,
}

impl Wrap for Oaep {
    fn wrap_key(&self, cek: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let mut out = vec![0; self.key.ciphertext_size()];
        let len = self.key.encrypt(self.oaep, cek, &mut out, None).map_err(failed)?.len();
        out.truncate(len);
        Ok(out)
    }
}

/// A private key that agrees more than once. The library's own object is used up by one agreement.
struct Static {
    scalar: Zeroizing<[u8; 32]>,
    public: [u8; 65],
}

impl Unwrap for Static {
    fn unwrap_key(&self, point: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let peer = AwsLc.p256_public(point).ok()?;
        let secret = AwsLc.p256_from_scalar(&self.scalar).ok()?.agree(peer).ok()?;
        Some(Zeroizing::new(secret.to_vec()))
    }
}

impl P256Private for Static {
    fn public_point(&self) -> [u8; 65] {
        self.public
    }
}

/// A shared key. The library's own object is used up by one operation.
struct Kek(Zeroizing<Vec<u8>>);

impl Kek {
    fn expand(&self) -> Result<AesKek, CryptoFailure> {
        let cipher = if self.0.len() == 16 { &key_wrap::AES_128 } else { &key_wrap::AES_256 };
        AesKek::new(cipher, &self.0).map_err(failed)
    }
}

impl Unwrap for Kek {
    fn unwrap_key(&self, encrypted_key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new([0; CEK_LEN_MAX + 8]);
        if encrypted_key.len() > out.len() {
            return None;
        }
        let cek = self.expand().ok()?.unwrap(encrypted_key, out.as_mut_slice()).ok()?;
        Some(Zeroizing::new(cek.to_vec()))
    }
}

impl Wrap for Kek {
    fn wrap_key(&self, cek: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let mut out = vec![0; cek.len() + 8];
        let len = self.expand()?.wrap(cek, &mut out).map_err(failed)?.len();
        out.truncate(len);
        Ok(out)
    }
}

impl AesWrap for Kek {}
