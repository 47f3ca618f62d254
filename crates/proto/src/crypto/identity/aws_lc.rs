//! Signatures of identity keys by AWS-LC, through `aws-lc-rs`.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, ML_DSA_65, ML_DSA_65_SIGNING, ML_DSA_87, ML_DSA_87_SIGNING,
    ParsedPublicKey, PqdsaKeyPair, PqdsaSigningAlgorithm, VerificationAlgorithm,
};

use crate::crypto::aws_lc::AwsLc;

use super::*;

struct Public(ParsedPublicKey);

enum Pair {
    Ec(EcdsaKeyPair),
    MlDsa(PqdsaKeyPair),
}

/// The library's algorithm for signing.
enum Signing {
    Ec(&'static EcdsaSigningAlgorithm),
    MlDsa(&'static PqdsaSigningAlgorithm),
}

fn signing(scheme: Scheme) -> Signing {
    match scheme {
        Scheme::Es256 => Signing::Ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
        Scheme::Es384 => Signing::Ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
        Scheme::MlDsa65 => Signing::MlDsa(&ML_DSA_65_SIGNING),
        Scheme::MlDsa87 => Signing::MlDsa(&ML_DSA_87_SIGNING),
    }
}

fn verification(scheme: Scheme) -> &'static dyn VerificationAlgorithm {
    match scheme {
        Scheme::Es256 => &ECDSA_P256_SHA256_FIXED,
        Scheme::Es384 => &ECDSA_P384_SHA384_FIXED,
        Scheme::MlDsa65 => &ML_DSA_65,
        Scheme::MlDsa87 => &ML_DSA_87,
    }
}

impl IdentityLibrary for AwsLc {
    fn has(&self, _: Scheme) -> bool {
        true
    }

    fn scheme_public(&self, scheme: Scheme, key: &[u8]) -> Result<Box<dyn SchemePublic>, Error> {
        // The library also reads compressed points and DER.
        if !scheme.is_public_form(key) {
            return Err(Error::PublicKeyInvalid);
        }
        let key = ParsedPublicKey::new(verification(scheme), key).map_err(|_| Error::PublicKeyInvalid)?;
        Ok(Box::new(Public(key)))
    }

    fn scheme_generate(&self, scheme: Scheme) -> Result<NewSchemeKey, Error> {
        let (document, pair) = match signing(scheme) {
            Signing::Ec(algorithm) => {
                let pair = EcdsaKeyPair::generate(algorithm).map_err(|_| Error::Provider)?;
                (pair.to_pkcs8v1(), Pair::Ec(pair))
            }
            Signing::MlDsa(algorithm) => {
                let pair = PqdsaKeyPair::generate(algorithm).map_err(|_| Error::Provider)?;
                (pair.to_pkcs8v1(), Pair::MlDsa(pair))
            }
        };
        Ok((Zeroizing::new(document.map_err(|_| Error::Provider)?.as_ref().to_vec()), Box::new(pair)))
    }

    fn scheme_from_pkcs8(&self, scheme: Scheme, document: &[u8]) -> Result<Box<dyn SchemeKey>, Error> {
        if document.len() > PKCS8_LEN_MAX {
            return Err(Error::Provider);
        }
        let pair = match signing(scheme) {
            Signing::Ec(algorithm) => EcdsaKeyPair::from_pkcs8(algorithm, document).map(Pair::Ec),
            Signing::MlDsa(algorithm) => PqdsaKeyPair::from_pkcs8(algorithm, document).map(Pair::MlDsa),
        };
        Ok(Box::new(pair.map_err(|_| Error::Provider)?))
    }
}

impl SchemePublic for Public {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(message, signature).is_ok()
    }
}

impl SchemeKey for Pair {
    fn public(&self) -> &[u8] {
        match self {
            Pair::Ec(pair) => pair.public_key().as_ref(),
            Pair::MlDsa(pair) => pair.public_key().as_ref(),
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Pair::Ec(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| Error::Provider)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::MlDsa(pair) => {
                let mut signature = alloc::vec![0; pair.algorithm().signature_len()];
                pair.sign(message, &mut signature).map_err(|_| Error::Provider)?;
                Ok(signature)
            }
        }
    }
}
