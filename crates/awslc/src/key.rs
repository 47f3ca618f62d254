//! Public and private keys of the library.

use std::fmt;
use std::ptr::NonNull;

use crate::bytes::{parse, written};
use crate::signature::{self, Scheme};
use crate::{CryptoError, QueueGuard, sys, yes};

/// The curves whose keys the library reads from certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// P-224 (NIST, SP 800-186), secp224r1.
    P224,
    /// P-256 (NIST, SP 800-186), secp256r1.
    P256,
    /// P-384 (NIST, SP 800-186), secp384r1.
    P384,
    /// P-521 (NIST, SP 800-186), secp521r1.
    P521,
    /// secp256k1 (SEC 2), a Koblitz curve.
    Secp256k1,
}

#[cfg(all(test, not(feature = "fips")))]
mod acvp;

/// Parameter sets of ML-DSA (FIPS 204 table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MlDsa {
    /// ML-DSA-44, with the object identifier 2.16.840.1.101.3.4.3.17.
    MlDsa44,
    /// ML-DSA-65, with the object identifier 2.16.840.1.101.3.4.3.18.
    MlDsa65,
    /// ML-DSA-87, with the object identifier 2.16.840.1.101.3.4.3.19.
    MlDsa87,
}

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RSA, and the bit length of its modulus.
    Rsa(u32),
    /// A point on this curve.
    Ec(Curve),
    /// Ed25519 (RFC 8032), without prehashing.
    Ed25519,
    /// ML-DSA (FIPS 204) with this parameter set; the module of a FIPS build knows none.
    MlDsa(MlDsa),
    /// Another kind, with which this crate neither signs nor verifies.
    Other,
}

/// A key of the library, freed with its owner.
struct Key(NonNull<sys::EVP_PKEY>);

// SAFETY: the library counts references atomically and locks what it computes late (RSA's Montgomery values). Nothing in this
// crate changes a key once it is made, so that one may be read by several threads, and freed by any.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: this value owns its one reference, and is not used again. What is secret in it is cleansed when it is freed.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) }
    }
}

impl Key {
    /// Takes ownership of a function's result; NULL is its failure.
    fn owned(made: *mut sys::EVP_PKEY) -> Option<Key> {
        NonNull::new(made).map(Key)
    }

    fn kind(&self) -> Kind {
        // SAFETY: the key is alive; reads its type.
        match unsafe { sys::EVP_PKEY_id(self.0.as_ptr()) } {
            sys::EVP_PKEY_RSA => {
                // SAFETY: the key is alive; of an RSA key it is the bit length of the modulus.
                let bits = unsafe { sys::EVP_PKEY_bits(self.0.as_ptr()) };
                u32::try_from(bits).map_or(Kind::Other, Kind::Rsa)
            }
            sys::EVP_PKEY_EC => self.curve().map_or(Kind::Other, Kind::Ec),
            sys::EVP_PKEY_ED25519 => Kind::Ed25519,
            #[cfg(not(feature = "fips"))]
            sys::EVP_PKEY_PQDSA => self.ml_dsa().map_or(Kind::Other, Kind::MlDsa),
            _ => Kind::Other,
        }
    }

    fn curve(&self) -> Option<Curve> {
        // SAFETY: the key is alive. What is returned belongs to it and is used while it is; NULL is looked for before use.
        let name = unsafe {
            let key = sys::EVP_PKEY_get0_EC_KEY(self.0.as_ptr());
            let group = if key.is_null() { std::ptr::null() } else { sys::EC_KEY_get0_group(key) };
            if group.is_null() {
                return None;
            }
            sys::EC_GROUP_get_curve_name(group)
        };
        match name {
            sys::NID_secp224r1 => Some(Curve::P224),
            sys::NID_X9_62_prime256v1 => Some(Curve::P256),
            sys::NID_secp384r1 => Some(Curve::P384),
            sys::NID_secp521r1 => Some(Curve::P521),
            sys::NID_secp256k1 => Some(Curve::Secp256k1),
            _ => None,
        }
    }

    #[cfg(not(feature = "fips"))]
    fn ml_dsa(&self) -> Option<MlDsa> {
        // SAFETY: the key is alive; reads its parameter set.
        match unsafe { sys::EVP_PKEY_pqdsa_get_type(self.0.as_ptr()) } {
            sys::NID_MLDSA44 => Some(MlDsa::MlDsa44),
            sys::NID_MLDSA65 => Some(MlDsa::MlDsa65),
            sys::NID_MLDSA87 => Some(MlDsa::MlDsa87),
            _ => None,
        }
    }

    fn spki(&self) -> Result<Vec<u8>, CryptoError> {
        let _queue = QueueGuard;
        // SAFETY: the writer is valid during the call and the key is alive.
        written(|writer| unsafe { sys::EVP_marshal_public_key(writer, self.0.as_ptr()) })
    }
}

/// A public key, which verifies signatures.
pub struct PublicKey(Key);

impl PublicKey {
    /// Parses a SubjectPublicKeyInfo (RFC 5280 section 4.1). A point must be on its curve; RSA has at most 16384 bits.
    ///
    /// # Errors
    /// Not a key that the library knows, beyond a bound, or followed by other bytes.
    pub fn from_spki(der: &[u8]) -> Result<PublicKey, CryptoError> {
        let _queue = QueueGuard;
        // SAFETY: the reader is valid during the call; the caller takes what is made.
        parse(der, |reader| Key::owned(unsafe { sys::EVP_parse_public_key(reader) })).map(PublicKey)
    }

    /// Returns the kind of the key.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// Returns its SubjectPublicKeyInfo, encoded anew.
    ///
    /// # Errors
    /// The library is out of memory.
    pub fn spki(&self) -> Result<Vec<u8>, CryptoError> {
        self.0.spki()
    }

    /// Verifies that this key's private half made `signature` of `message`. ECDSA signatures are in their DER form.
    ///
    /// # Errors
    /// The signature does not verify, the scheme is not of this key's kind, or the message is longer than
    /// [`crate::MESSAGE_MAX`].
    pub fn verify(&self, scheme: Scheme, message: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        // SAFETY: the key is alive during the call.
        unsafe { signature::verify(self.0.0, self.kind(), scheme, message, signature) }
    }

    /// Verifies a signature of a message with this digest, as [`PublicKey::verify`] does of the message itself.
    ///
    /// # Errors
    /// The signature does not verify, the scheme is not of this key's kind, or the digest has not the length of the
    /// scheme's.
    pub fn verify_digest(&self, scheme: Scheme, digest: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        // SAFETY: the key is alive during the call.
        unsafe { signature::verify_digest(self.0.0, self.kind(), scheme, digest, signature) }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.kind()).finish()
    }
}

/// A private key. Its secret lives in the library's memory, which is cleansed when it is freed; the input of a parser stays
/// with the caller, who wipes it.
pub struct PrivateKey(Key);

impl PrivateKey {
    /// Parses a PKCS#1 RSAPrivateKey (RFC 8017 appendix A.1.2), of two primes, and checks that its parts fit.
    ///
    /// # Errors
    /// The input is not such a key, is beyond a bound, or is followed by other bytes.
    pub fn from_pkcs1(der: &[u8]) -> Result<PrivateKey, CryptoError> {
        let _queue = QueueGuard;
        // SAFETY: the reader is valid during the call; what is made is owned at once, so that it is freed whatever follows.
        let rsa = parse(der, |reader| NonNull::new(unsafe { sys::RSA_parse_private_key(reader) }).map(Rsa))?;
        let key = new_key()?;
        // SAFETY: both are alive; the library takes a reference of its own.
        yes(unsafe { sys::EVP_PKEY_set1_RSA(key.0.as_ptr(), rsa.0.as_ptr()) })?;
        Ok(PrivateKey(key))
    }

    /// Parses an unencrypted PKCS#8 PrivateKeyInfo (RFC 5208). ML-DSA may have its seed, its expanded key, or both, which must
    /// belong together (RFC 9881 section 6).
    ///
    /// # Errors
    /// The input is not such a key, is of a kind that the library does not know, is beyond a bound, or is followed by other
    /// bytes.
    pub fn from_pkcs8(der: &[u8]) -> Result<PrivateKey, CryptoError> {
        let _queue = QueueGuard;
        // SAFETY: the reader is valid during the call; the caller takes what is made.
        parse(der, |reader| Key::owned(unsafe { sys::EVP_parse_private_key(reader) })).map(PrivateKey)
    }

    /// Parses a SEC1 ECPrivateKey (RFC 5915), which must name its curve.
    ///
    /// # Errors
    /// The input is not such a key, names no known curve, is beyond a bound, or is followed by other bytes.
    pub fn from_sec1(der: &[u8]) -> Result<PrivateKey, CryptoError> {
        let _queue = QueueGuard;
        // SAFETY: the reader is valid during the call, NULL is "the curve is in it"; what is made is owned at once.
        let made = |reader| NonNull::new(unsafe { sys::EC_KEY_parse_private_key(reader, std::ptr::null()) }).map(Ec);
        let point = parse(der, made)?;
        let key = new_key()?;
        // SAFETY: both are alive; the library takes a reference of its own.
        yes(unsafe { sys::EVP_PKEY_set1_EC_KEY(key.0.as_ptr(), point.0.as_ptr()) })?;
        Ok(PrivateKey(key))
    }

    /// Parses any of the three, in the order PKCS#1, PKCS#8, SEC1.
    ///
    /// # Errors
    /// The input is none of them.
    pub fn from_der(der: &[u8]) -> Result<PrivateKey, CryptoError> {
        PrivateKey::from_pkcs1(der).or_else(|_| PrivateKey::from_pkcs8(der)).or_else(|_| PrivateKey::from_sec1(der))
    }

    /// Returns the kind of the key.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// Returns the SubjectPublicKeyInfo of its public half.
    ///
    /// # Errors
    /// The library is out of memory.
    pub fn public_spki(&self) -> Result<Vec<u8>, CryptoError> {
        self.0.spki()
    }

    /// Signs `message`. ECDSA signatures are in DER form, with a nonce of the library's; PSS has a salt as long as the digest.
    ///
    /// # Errors
    /// The scheme is not of this key's kind, its digest is SHA-1, the key is too small for the digest, or the message is
    /// longer than [`crate::MESSAGE_MAX`].
    pub fn sign(&self, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        // SAFETY: the key is alive during the call.
        unsafe { signature::sign(self.0.0, self.kind(), scheme, message) }
    }

    /// Signs a message of which the caller has the digest alone. The signature is as that of [`PrivateKey::sign`].
    ///
    /// # Errors
    /// As [`PrivateKey::sign`]; or the digest has not the length of the scheme's.
    pub fn sign_digest(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, CryptoError> {
        // SAFETY: the key is alive during the call.
        unsafe { signature::sign_digest(self.0.0, self.kind(), scheme, digest) }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.kind()).finish()
    }
}

fn new_key() -> Result<Key, CryptoError> {
    // SAFETY: takes no argument; the caller takes what is made.
    Key::owned(unsafe { sys::EVP_PKEY_new() }).ok_or(CryptoError)
}

struct Rsa(NonNull<sys::RSA>);

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference, and is not used again.
        unsafe { sys::RSA_free(self.0.as_ptr()) }
    }
}

struct Ec(NonNull<sys::EC_KEY>);

impl Drop for Ec {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference, and is not used again.
        unsafe { sys::EC_KEY_free(self.0.as_ptr()) }
    }
}
