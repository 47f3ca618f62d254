//! Signatures over AWS-LC, through `aws-lc-rs`.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    VerificationAlgorithm,
};

use super::seam::{JwsProvider, Sign, Verify};
use crate::mle::algorithm::JwsAlg;
use crate::mle::aws_lc::AwsLcJose;
use crate::mle::crypto::CryptoFailure;

fn failed<E>(_: E) -> CryptoFailure {
    CryptoFailure
}

impl JwsProvider for AwsLcJose {
    fn signing_key(&self, alg: JwsAlg, pkcs8: &[u8]) -> Result<Box<dyn Sign>, CryptoFailure> {
        let padding: &'static dyn RsaEncoding = match alg {
            JwsAlg::Rs256 => &RSA_PKCS1_SHA256,
            JwsAlg::Ps256 => &RSA_PSS_SHA256,
            JwsAlg::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8).map_err(failed)?;
                return Ok(Box::new(Ecdsa(pair)));
            }
        };
        Ok(Box::new(Rsa { pair: RsaKeyPair::from_pkcs8(pkcs8).map_err(failed)?, padding }))
    }

    fn verifying_key(&self, alg: JwsAlg, spki: &[u8]) -> Result<Box<dyn Verify>, CryptoFailure> {
        let algorithm: &'static dyn VerificationAlgorithm = match alg {
            JwsAlg::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            JwsAlg::Ps256 => &RSA_PSS_2048_8192_SHA256,
            JwsAlg::Es256 => &ECDSA_P256_SHA256_FIXED,
        };
        Ok(Box::new(Public(ParsedPublicKey::new(algorithm, spki).map_err(failed)?)))
    }
}

struct Rsa {
    pair: RsaKeyPair,
    padding: &'static dyn RsaEncoding,
}

impl Sign for Rsa {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair.sign(self.padding, &SystemRandom::new(), message, &mut signature).map_err(failed)?;
        Ok(signature)
    }

    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure> {
        self.pair.public_key().as_der().map(|der| der.as_ref().to_vec()).map_err(failed)
    }
}

struct Ecdsa(EcdsaKeyPair);

impl Sign for Ecdsa {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        self.0.sign(&SystemRandom::new(), message).map(|signature| signature.as_ref().to_vec()).map_err(failed)
    }

    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure> {
        self.0.public_key().as_der().map(|der| der.as_ref().to_vec()).map_err(failed)
    }
}

struct Public(ParsedPublicKey);

impl Verify for Public {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(message, signature).is_ok()
    }
}
