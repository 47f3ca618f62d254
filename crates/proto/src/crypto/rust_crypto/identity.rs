//! Signatures of identity keys by the crates `p256`, `p384` and `ml-dsa`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use getrandom::SysRng;
use ml_dsa::pkcs8::spki::AssociatedAlgorithmIdentifier;
use ml_dsa::pkcs8::spki::der::AnyRef;
use ml_dsa::{KeyExport, KeyInit, MlDsa65, MlDsa87, MlDsaParams};
use p256::SecretKey;
use p256::ecdsa::signature::{Keypair, RandomizedSigner, SignatureEncoding, Verifier};
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use zeroize::Zeroizing;

use super::{RustCrypto, fill_random, p256_private, p384_private};
use crate::crypto::identity::{IdentityLibrary, NewSchemeKey, PKCS8_LEN_MAX, Scheme, SchemeKey, SchemePublic};
use crate::error::Error;

struct Public<K, S>(K, core::marker::PhantomData<fn() -> S>);

struct Pair<K, S> {
    private: K,
    public: Vec<u8>,
    signature: core::marker::PhantomData<fn() -> S>,
}

struct MlDsaPublic<P: MlDsaParams>(ml_dsa::VerifyingKey<P>);

struct MlDsaPair<P: MlDsaParams> {
    private: ml_dsa::SigningKey<P>,
    public: Vec<u8>,
}

fn ec_public<K, S>(key: Result<K, p256::ecdsa::Error>) -> Result<Box<dyn SchemePublic>, Error>
where
    K: Verifier<S> + Send + Sync + 'static,
    S: for<'a> TryFrom<&'a [u8]> + 'static,
{
    Ok(Box::new(Public(key.map_err(|_| Error::PublicKeyInvalid)?, core::marker::PhantomData)))
}

fn es256(private: SecretKey) -> Box<dyn SchemeKey> {
    let private = p256::ecdsa::SigningKey::from(private);
    let public = private.verifying_key().to_sec1_point(false).as_bytes().to_vec();
    Box::new(Pair::<_, p256::ecdsa::Signature> { private, public, signature: core::marker::PhantomData })
}

fn es384(private: p384::SecretKey) -> Box<dyn SchemeKey> {
    let private = p384::ecdsa::SigningKey::from(private);
    let public = private.verifying_key().to_sec1_point(false).as_bytes().to_vec();
    Box::new(Pair::<_, p384::ecdsa::Signature> { private, public, signature: core::marker::PhantomData })
}

fn ml_dsa_public<P: MlDsaParams + 'static>(key: &[u8]) -> Result<Box<dyn SchemePublic>, Error> {
    let key = ml_dsa::VerifyingKey::<P>::new_from_slice(key).map_err(|_| Error::PublicKeyInvalid)?;
    Ok(Box::new(MlDsaPublic(key)))
}

fn ml_dsa_pair<P: MlDsaParams + 'static>(private: ml_dsa::SigningKey<P>) -> Box<dyn SchemeKey> {
    let public = private.verifying_key().to_bytes().to_vec();
    Box::new(MlDsaPair { private, public })
}

fn ml_dsa_generate<P>() -> Result<NewSchemeKey, Error>
where
    P: MlDsaParams + AssociatedAlgorithmIdentifier<Params = AnyRef<'static>> + 'static,
{
    let mut seed = Zeroizing::new([0; 32]);
    fill_random(seed.as_mut_slice())?;
    let private = ml_dsa::SigningKey::<P>::from_seed((&*seed).into());
    let document = written(&private)?;
    Ok((document, ml_dsa_pair(private)))
}

fn written(private: &impl EncodePrivateKey) -> Result<Zeroizing<Vec<u8>>, Error> {
    let document = private.to_pkcs8_der().map_err(|_| Error::Provider)?;
    Ok(Zeroizing::new(document.as_bytes().to_vec()))
}

fn read<K: DecodePrivateKey>(document: &[u8]) -> Result<K, Error> {
    if document.len() > PKCS8_LEN_MAX {
        return Err(Error::Provider);
    }
    K::from_pkcs8_der(document).map_err(|_| Error::Provider)
}

impl IdentityLibrary for RustCrypto {
    fn has(&self, _: Scheme) -> bool {
        true
    }

    fn scheme_public(&self, scheme: Scheme, key: &[u8]) -> Result<Box<dyn SchemePublic>, Error> {
        if !scheme.is_public_form(key) {
            return Err(Error::PublicKeyInvalid);
        }
        match scheme {
            Scheme::Es256 => ec_public::<_, p256::ecdsa::Signature>(p256::ecdsa::VerifyingKey::from_sec1_bytes(key)),
            Scheme::Es384 => ec_public::<_, p384::ecdsa::Signature>(p384::ecdsa::VerifyingKey::from_sec1_bytes(key)),
            Scheme::MlDsa65 => ml_dsa_public::<MlDsa65>(key),
            Scheme::MlDsa87 => ml_dsa_public::<MlDsa87>(key),
        }
    }

    fn scheme_generate(&self, scheme: Scheme) -> Result<NewSchemeKey, Error> {
        match scheme {
            Scheme::Es256 => {
                let private = p256_private()?;
                Ok((written(&private)?, es256(private)))
            }
            Scheme::Es384 => {
                let private = p384_private()?;
                Ok((written(&private)?, es384(private)))
            }
            Scheme::MlDsa65 => ml_dsa_generate::<MlDsa65>(),
            Scheme::MlDsa87 => ml_dsa_generate::<MlDsa87>(),
        }
    }

    fn scheme_from_pkcs8(&self, scheme: Scheme, document: &[u8]) -> Result<Box<dyn SchemeKey>, Error> {
        Ok(match scheme {
            Scheme::Es256 => es256(read(document)?),
            Scheme::Es384 => es384(read(document)?),
            Scheme::MlDsa65 => ml_dsa_pair::<MlDsa65>(read(document)?),
            Scheme::MlDsa87 => ml_dsa_pair::<MlDsa87>(read(document)?),
        })
    }
}

impl<K, S> SchemePublic for Public<K, S>
where
    K: Verifier<S> + Send + Sync,
    S: for<'a> TryFrom<&'a [u8]>,
{
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        S::try_from(signature).is_ok_and(|signature| self.0.verify(message, &signature).is_ok())
    }
}

impl<K, S> SchemeKey for Pair<K, S>
where
    K: RandomizedSigner<S> + Send + Sync,
    S: SignatureEncoding,
{
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.private.try_sign_with_rng(&mut SysRng, message).map_err(|_| Error::Provider)?;
        Ok(signature.to_vec())
    }
}

impl<P: MlDsaParams> SchemePublic for MlDsaPublic<P> {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        ml_dsa::Signature::try_from(signature).is_ok_and(|signature| self.0.verify(message, &signature).is_ok())
    }
}

impl<P: MlDsaParams> SchemeKey for MlDsaPair<P> {
    fn public(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.private.expanded_key().sign_randomized(message, &[], &mut SysRng);
        Ok(signature.map_err(|_| Error::Provider)?.encode().to_vec())
    }
}
