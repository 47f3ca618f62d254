//! Keys that open and keys that seal. A key has one algorithm, chosen when it is loaded, so that a token cannot choose another
//! (RFC 8725 section 3.1). SPEC mle.md#keys

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::algorithm::{Alg, Enc};
use super::crypto::{AesWrap, CryptoFailure, JoseProvider, Unwrap, Wrap};
use super::ec;
use super::key_error::KeyError;
use super::kid::{self, KidSource};
use super::load::{Numbers, Public, private_pkcs8, rsa_defect};
use crate::crypto::Provider;

/// A key that opens tokens.
pub struct OpeningKey {
    pub(super) kid: String,
    pub(super) alg: Alg,
    /// A shared content key has one `enc` too: A256GCM and A128CBC-HS256 have keys of one length.
    pub(super) enc: Option<Enc>,
    material: OpeningMaterial,
    /// The length of an encrypted RSA key, in bytes.
    modulus_len: usize,
    pub(super) certificate_sha256: Option<[u8; 32]>,
}

enum OpeningMaterial {
    Local(Box<dyn Unwrap>),
    Direct(Zeroizing<Vec<u8>>),
    /// Held elsewhere: a PKCS#11 token or a broker. The caller unwraps.
    External,
}

impl OpeningKey {
    /// Loads an RSA private key, PKCS#8 or PKCS#1, PEM or DER. A certificate of the key is needed for names that derive from it,
    /// and for tokens with `x5t#S256`.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Algorithm`] if `alg` is not of RSA.
    pub fn rsa(
        alg: Alg,
        private: &[u8],
        certificate: Option<&[u8]>,
        kid: &KidSource,
        provider: &dyn JoseProvider,
    ) -> Result<OpeningKey, KeyError> {
        check_rsa(alg)?;
        let pkcs8 = private_pkcs8(private)?;
        let key = provider.rsa_private(alg, &pkcs8);
        // The library says nothing of why: a key that is too short for it is read for its public half alone.
        let key = key.map_err(|_| rsa_defect(&pkcs8).unwrap_or(KeyError::Der))?;
        let public = Public::spki(&key.public_spki().map_err(|_| KeyError::Der)?)?.with_certificate(certificate)?;
        OpeningKey::of_public(alg, &public, kid, provider, OpeningMaterial::Local(key))
    }

    /// Loads a private key on P-256 for `ECDH-ES`, PKCS#8 or SEC 1, PEM or DER. Its certificate, or its public key, is needed for names
    /// that derive from it, and for tokens with `x5t#S256`.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::CertificateAbsent`] for a name that is derived and no public key.
    pub fn p256(
        private: &[u8],
        certificate: Option<&[u8]>,
        kid: &KidSource,
        provider: &dyn JoseProvider,
    ) -> Result<OpeningKey, KeyError> {
        let key = provider.p256_private(&*ec::scalar(private)?).map_err(|_| KeyError::Der)?;
        let point = key.public_point();
        let material = OpeningMaterial::Local(key);
        match (certificate.map(Public::load).transpose()?, kid) {
            (Some(public), _) if public.numbers != Numbers::P256(point) => Err(KeyError::Mismatch),
            (Some(public), _) => OpeningKey::of_public(Alg::EcdhEs, &public, kid, provider, material),
            (None, KidSource::Fixed(kid)) => OpeningKey::shared(Alg::EcdhEs, None, kid, material),
            (None, _) => Err(KeyError::CertificateAbsent),
        }
    }

    /// Creates a key whose private half another component holds. `public` is its certificate or its public key, PEM or DER.
    ///
    /// # Errors
    /// As [`OpeningKey::rsa`].
    pub fn external(
        alg: Alg,
        public: &[u8],
        kid: &KidSource,
        provider: &dyn JoseProvider,
    ) -> Result<OpeningKey, KeyError> {
        check_rsa(alg)?;
        let public = Public::load(public)?;
        if !matches!(public.numbers, Numbers::Rsa { .. }) {
            return Err(KeyError::Kind);
        }
        OpeningKey::of_public(alg, &public, kid, provider, OpeningMaterial::External)
    }

    fn of_public(
        alg: Alg,
        public: &Public,
        kid: &KidSource,
        provider: &dyn JoseProvider,
        material: OpeningMaterial,
    ) -> Result<OpeningKey, KeyError> {
        Ok(OpeningKey {
            kid: kid.derive(public, provider.base())?,
            alg,
            enc: None,
            material,
            modulus_len: public.modulus_len(),
            certificate_sha256: public.certificate.as_ref().map(|it| kid::certificate_sha256(it, provider.base())),
        })
    }

    /// Creates a key of AES key wrap: 16 bytes for `A128KW`, 32 for `A256KW`.
    ///
    /// # Errors
    /// [`KeyError::Algorithm`], [`KeyError::SharedLength`], [`KeyError::Kid`].
    pub fn aes_wrap(alg: Alg, key: &[u8], kid: &str, provider: &dyn JoseProvider) -> Result<OpeningKey, KeyError> {
        let material = OpeningMaterial::Local(aes_wrap(alg, key, provider)?);
        OpeningKey::shared(alg, None, kid, material)
    }

    /// Creates a key that is the content key itself (`dir`), for one `enc` alone.
    ///
    /// # Errors
    /// [`KeyError::SharedLength`], [`KeyError::Kid`].
    pub fn direct(enc: Enc, key: &[u8], kid: &str) -> Result<OpeningKey, KeyError> {
        OpeningKey::shared(Alg::Dir, Some(enc), kid, OpeningMaterial::Direct(content_key(enc, key)?))
    }

    /// Creates a key of `dir`, for this `enc` alone, or of AES key wrap.
    ///
    /// # Errors
    /// As [`OpeningKey::aes_wrap`].
    pub fn secret(
        alg: Alg,
        enc: Enc,
        key: &[u8],
        kid: &str,
        provider: &dyn JoseProvider,
    ) -> Result<OpeningKey, KeyError> {
        if alg == Alg::Dir { OpeningKey::direct(enc, key, kid) } else { OpeningKey::aes_wrap(alg, key, kid, provider) }
    }

    fn shared(alg: Alg, enc: Option<Enc>, kid: &str, material: OpeningMaterial) -> Result<OpeningKey, KeyError> {
        let kid = kid::check(kid.to_string())?;
        Ok(OpeningKey { kid, alg, enc, material, modulus_len: 0, certificate_sha256: None })
    }

    /// Returns the name of the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the one algorithm of the key.
    pub fn alg(&self) -> Alg {
        self.alg
    }

    /// Returns whether another component holds the key, so that [`OpeningKey::unwrap_key`] cannot work.
    pub fn is_external(&self) -> bool {
        matches!(self.material, OpeningMaterial::External)
    }

    /// Performs the private operation, which blocks: some 700 µs for RSA-2048. With `ECDH-ES` the encrypted key is the ephemeral point,
    /// and the result the shared secret. `None` if the encrypted key does not decrypt, the point is not on the curve, or the key is external; the caller goes on with `None` all the same, so that time and answer do not differ.
    pub fn unwrap_key(&self, encrypted_key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        match &self.material {
            OpeningMaterial::Local(key) => key.unwrap_key(encrypted_key),
            OpeningMaterial::Direct(key) => Some(key.clone()),
            OpeningMaterial::External => None,
        }
    }

    /// Returns the length that the encrypted key of a token must have, in bytes.
    pub(super) fn encrypted_key_len(&self, cek_len: usize) -> usize {
        match self.alg {
            Alg::RsaOaep256 | Alg::RsaOaep | Alg::RsaOaep512 => self.modulus_len,
            Alg::A128Kw | Alg::A256Kw => cek_len + 8,
            Alg::Dir | Alg::EcdhEs => 0,
        }
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpeningKey").field("kid", &self.kid).field("alg", &self.alg).finish_non_exhaustive()
    }
}

/// The live opening keys of one route and caller, by name. A key of another caller is not among them.
#[derive(Clone, Debug, Default)]
pub struct OpeningKeys(BTreeMap<String, Arc<OpeningKey>>);

impl OpeningKeys {
    /// Puts the keys of one route together.
    ///
    /// # Errors
    /// [`KeyError::KidTwice`].
    pub fn new(keys: impl IntoIterator<Item = Arc<OpeningKey>>) -> Result<OpeningKeys, KeyError> {
        let mut by_kid = BTreeMap::new();
        for key in keys {
            if let Some(other) = by_kid.insert(key.kid.clone(), key) {
                return Err(KeyError::KidTwice(other.kid.clone()));
            }
        }
        Ok(OpeningKeys(by_kid))
    }

    /// Returns the key of exactly this name.
    pub fn get(&self, kid: &str) -> Option<&Arc<OpeningKey>> {
        self.0.get(kid)
    }

    /// Returns the key if there is exactly one.
    pub(super) fn sole(&self) -> Option<&Arc<OpeningKey>> {
        let mut keys = self.0.values();
        keys.next().filter(|_| keys.next().is_none())
    }
}

/// A key that seals tokens for one recipient, with one pair of algorithms.
pub struct SealingKey {
    pub(super) kid: String,
    pub(super) alg: Alg,
    pub(super) enc: Enc,
    material: SealingMaterial,
    public: Option<Public>,
}

/// The content key of one token.
pub(super) struct ContentKey {
    pub(super) cek: Zeroizing<Vec<u8>>,
    pub(super) encrypted_key: Vec<u8>,
    /// The ephemeral public key of `ECDH-ES`, `0x04 || X || Y`.
    pub(super) ephemeral: Option<[u8; 65]>,
}

enum SealingMaterial {
    Wrap(Box<dyn Wrap>),
    /// The recipient's point, checked to be on the curve.
    P256([u8; 65]),
    Direct(Zeroizing<Vec<u8>>),
}

impl SealingKey {
    /// Loads the recipient's certificate or public key, PEM or DER.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Algorithm`] if `alg` is not of RSA.
    pub fn rsa(
        alg: Alg,
        enc: Enc,
        public: &[u8],
        kid: &KidSource,
        provider: &dyn JoseProvider,
    ) -> Result<SealingKey, KeyError> {
        check_rsa(alg)?;
        let public = Public::load(public)?;
        if !matches!(public.numbers, Numbers::Rsa { .. }) {
            return Err(KeyError::Kind);
        }
        let kid = kid.derive(&public, provider.base())?;
        let wrap = provider.rsa_public(alg, &public.spki).map_err(|_| KeyError::Der)?;
        Ok(SealingKey { kid, alg, enc, material: SealingMaterial::Wrap(wrap), public: Some(public) })
    }

    /// Creates a key of AES key wrap: 16 bytes for `A128KW`, 32 for `A256KW`.
    ///
    /// # Errors
    /// [`KeyError::Algorithm`], [`KeyError::SharedLength`], [`KeyError::Kid`].
    pub fn aes_wrap(
        alg: Alg,
        enc: Enc,
        key: &[u8],
        kid: &str,
        provider: &dyn JoseProvider,
    ) -> Result<SealingKey, KeyError> {
        let material = SealingMaterial::Wrap(aes_wrap(alg, key, provider)?);
        Ok(SealingKey { kid: kid::check(kid.to_string())?, alg, enc, material, public: None })
    }

    /// Creates a key that is the content key itself (`dir`).
    ///
    /// # Errors
    /// [`KeyError::SharedLength`], [`KeyError::Kid`].
    pub fn direct(enc: Enc, key: &[u8], kid: &str) -> Result<SealingKey, KeyError> {
        let material = SealingMaterial::Direct(content_key(enc, key)?);
        Ok(SealingKey { kid: kid::check(kid.to_string())?, alg: Alg::Dir, enc, material, public: None })
    }

    /// Creates a key of `dir` or of AES key wrap.
    ///
    /// # Errors
    /// As [`SealingKey::aes_wrap`].
    pub fn secret(
        alg: Alg,
        enc: Enc,
        key: &[u8],
        kid: &str,
        provider: &dyn JoseProvider,
    ) -> Result<SealingKey, KeyError> {
        match alg {
            Alg::Dir => SealingKey::direct(enc, key, kid),
            alg => SealingKey::aes_wrap(alg, enc, key, kid, provider),
        }
    }

    /// Loads the recipient's certificate or public key on P-256, PEM or DER, for `ECDH-ES`.
    ///
    /// # Errors
    /// [`KeyError`]; [`KeyError::Der`] for a point that is not on the curve.
    pub fn p256(enc: Enc, public: &[u8], kid: &KidSource, provider: &dyn JoseProvider) -> Result<SealingKey, KeyError> {
        let public = Public::load(public)?;
        let Numbers::P256(point) = public.numbers else { return Err(KeyError::Kind) };
        provider.base().p256_public(&point).map_err(|_| KeyError::Der)?;
        let kid = kid.derive(&public, provider.base())?;
        let material = SealingMaterial::P256(point);
        Ok(SealingKey { kid, alg: Alg::EcdhEs, enc, material, public: Some(public) })
    }

    /// Returns the recipient's name of the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Returns the algorithms that it seals with.
    pub fn algorithms(&self) -> (Alg, Enc) {
        (self.alg, self.enc)
    }

    /// Returns the recipient's public key, and its certificate with the times of its validity; `None` for a shared key.
    pub fn public(&self) -> Option<&Public> {
        self.public.as_ref()
    }

    /// Returns the content key of one token and its encrypted form. `fresh` is a random key of the right length.
    pub(super) fn content_key(&self, fresh: &[u8], provider: &dyn Provider) -> Result<ContentKey, CryptoFailure> {
        let key = |cek, encrypted_key| ContentKey { cek, encrypted_key, ephemeral: None };
        match &self.material {
            SealingMaterial::Wrap(wrap) => Ok(key(Zeroizing::new(fresh.to_vec()), wrap.wrap_key(fresh)?)),
            SealingMaterial::Direct(cek) => Ok(key(cek.clone(), Vec::new())),
            SealingMaterial::P256(point) => {
                let failed = |_| CryptoFailure;
                let private = provider.p256_generate().map_err(failed)?;
                let ephemeral = Some(*private.public());
                let secret = private.agree(provider.p256_public(point).map_err(failed)?).map_err(failed)?;
                let cek = ec::derive(secret.as_slice(), self.enc, (&[], &[]), provider);
                Ok(ContentKey { cek, encrypted_key: Vec::new(), ephemeral })
            }
        }
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SealingKey");
        shown.field("kid", &self.kid).field("alg", &self.alg).field("enc", &self.enc).finish_non_exhaustive()
    }
}

fn check_rsa(alg: Alg) -> Result<(), KeyError> {
    if alg.is_rsa() { Ok(()) } else { Err(KeyError::Algorithm(alg)) }
}

fn aes_wrap(alg: Alg, key: &[u8], provider: &dyn JoseProvider) -> Result<Box<dyn AesWrap>, KeyError> {
    let due = match alg {
        Alg::A128Kw => 16,
        Alg::A256Kw => 32,
        other => return Err(KeyError::Algorithm(other)),
    };
    let wrong = KeyError::SharedLength(key.len(), due);
    if key.len() == due { provider.aes_wrap(key).map_err(|_| wrong) } else { Err(wrong) }
}

fn content_key(enc: Enc, key: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    if key.len() != enc.cek_len() {
        return Err(KeyError::SharedLength(key.len(), enc.cek_len()));
    }
    Ok(Zeroizing::new(key.to_vec()))
}
