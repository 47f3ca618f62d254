//! The product's crypto provider with random bytes of the seed: ids, nonces and marks are the same in each run of a seed. Key pairs and
//! signatures are the library's own and differ; nothing that a run decides or records depends on them.

use std::cell::RefCell;

use sealway_proto::Error;
use sealway_proto::crypto::agreement::{
    AgreementKey, AgreementProvider, Cipher, Curve, Kem, KemKey, P384_SECRET_LEN, P384Key, default_agreement_provider,
};
use sealway_proto::crypto::{AeadKey, EphemeralKey, MacKey, PeerKey, Provider};
use zeroize::Zeroizing;

use crate::rng::Rng;

thread_local! {
    static RANDOM: RefCell<Rng> = RefCell::new(Rng::new(0));
}

/// Sets the generator of this thread's run.
pub(crate) fn seed(seed: u64) {
    RANDOM.set(Rng::new(seed));
}

/// The provider with seeded random bytes.
#[derive(Debug)]
pub(crate) struct SeedProvider;

fn real() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

impl Provider for SeedProvider {
    fn name(&self) -> String {
        real().name()
    }

    fn fill_random(&self, out: &mut [u8]) -> Result<(), Error> {
        RANDOM.with_borrow_mut(|rng| rng.fill(out));
        Ok(())
    }

    fn p256_generate(&self) -> Result<Box<dyn EphemeralKey>, Error> {
        real().p256_generate()
    }

    fn p256_from_scalar(&self, scalar: &[u8; 32]) -> Result<Box<dyn EphemeralKey>, Error> {
        real().p256_from_scalar(scalar)
    }

    fn p256_public(&self, point: &[u8]) -> Result<Box<dyn PeerKey>, Error> {
        real().p256_public(point)
    }

    fn sha256(&self, parts: &[&[u8]]) -> [u8; 32] {
        real().sha256(parts)
    }

    fn mac_key(&self, key: &[u8]) -> Box<dyn MacKey> {
        real().mac_key(key)
    }

    fn aes256_gcm(&self, key: &[u8; 32]) -> Result<Box<dyn AeadKey>, Error> {
        real().aes256_gcm(key)
    }
}

impl AgreementProvider for SeedProvider {
    fn aes128_gcm(&self, key: &[u8; 16]) -> Result<Box<dyn AeadKey>, Error> {
        real().aes128_gcm(key)
    }

    fn agreement_generate(&self, curve: Curve) -> Result<Box<dyn AgreementKey>, Error> {
        real().agreement_generate(curve)
    }

    fn agreement_from_private(&self, curve: Curve, private: &[u8; 32]) -> Result<Box<dyn AgreementKey>, Error> {
        real().agreement_from_private(curve, private)
    }

    fn aead(&self, cipher: Cipher, key: &[u8; 32]) -> Result<Box<dyn AeadKey>, Error> {
        real().aead(cipher, key)
    }

    fn p384_generate(&self) -> Result<Box<dyn P384Key>, Error> {
        real().p384_generate()
    }

    fn p384_from_private(&self, private: &[u8; P384_SECRET_LEN]) -> Result<Box<dyn P384Key>, Error> {
        real().p384_from_private(private)
    }

    fn kem_generate(&self, kem: Kem) -> Result<Box<dyn KemKey>, Error> {
        real().kem_generate(kem)
    }

    fn kem_from_private(&self, kem: Kem, private: &[u8]) -> Result<Box<dyn KemKey>, Error> {
        real().kem_from_private(kem, private)
    }

    fn kem_encapsulate(&self, kem: Kem, public: &[u8]) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), Error> {
        real().kem_encapsulate(kem, public)
    }
}
