//! ES256 by the crate `p256`.

use alloc::boxed::Box;

use getrandom::SysRng;
use p256::SecretKey;
use p256::ecdsa::signature::{RandomizedSigner, Verifier};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use zeroize::Zeroizing;

use super::{RustCrypto, p256_private, uncompressed};
use crate::crypto::es256::{ES256_PKCS8_LEN_MAX, ES256_SIGNATURE_LEN, Es256, Es256Key, Es256Public, NewKey};
use crate::error::Error;
use crate::limits::P256_PUBLIC_LEN;

struct Public(VerifyingKey);

struct Pair {
    private: SigningKey,
    public: [u8; P256_PUBLIC_LEN],
}

impl Pair {
    fn boxed(private: SecretKey) -> Result<Box<dyn Es256Key>, Error> {
        let public = uncompressed(&private.public_key())?;
        Ok(Box::new(Pair { private: private.into(), public }))
    }
}

impl Es256 for RustCrypto {
    fn public(&self, point: &[u8]) -> Result<Box<dyn Es256Public>, Error> {
        if point.len() != P256_PUBLIC_LEN || point.first() != Some(&0x04) {
            return Err(Error::PublicKeyInvalid);
        }
        Ok(Box::new(Public(VerifyingKey::from_sec1_bytes(point).map_err(|_| Error::PublicKeyInvalid)?)))
    }

    fn generate(&self) -> Result<NewKey, Error> {
        let private = p256_private()?;
        let document = private.to_pkcs8_der().map_err(|_| Error::Provider)?;
        let document = Zeroizing::new(document.as_bytes().to_vec());
        Ok((document, Pair::boxed(private)?))
    }

    fn from_pkcs8(&self, document: &[u8]) -> Result<Box<dyn Es256Key>, Error> {
        if document.len() > ES256_PKCS8_LEN_MAX {
            return Err(Error::Provider);
        }
        Pair::boxed(SecretKey::from_pkcs8_der(document).map_err(|_| Error::Provider)?)
    }
}

impl Es256Public for Public {
    fn verify(&self, message: &[u8], signature: &[u8; ES256_SIGNATURE_LEN]) -> bool {
        Signature::from_slice(signature).is_ok_and(|signature| self.0.verify(message, &signature).is_ok())
    }
}

impl Es256Key for Pair {
    fn public(&self) -> &[u8; P256_PUBLIC_LEN] {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; ES256_SIGNATURE_LEN], Error> {
        let signature: Signature = self.private.try_sign_with_rng(&mut SysRng, message).map_err(|_| Error::Provider)?;
        Ok(signature.to_bytes().into())
    }
}
