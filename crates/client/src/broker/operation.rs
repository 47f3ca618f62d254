//! Operations under profiles. Each is a batch: one result for each input, in the order of the inputs.
//!
//! All of them may be retried, by the rules of the module `retry`.

use sealway_proto::broker::{health, v1};

use super::call::Client;
use super::error::{Code, Delivery, Error};
use super::message::{
    Batch, Certificate, CertificateRequest, Cipher, DecryptInput, Derivation, Descriptor, Encapsulation, Health,
    Information, Plain, Recipient, Refusal, Verification, WrappedKey,
};
use super::retry::Repeat;
use super::secret::Secret;

impl Client {
    /// Computes digests of inputs with the profile's algorithm.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn hash(&self, profile: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        let request = v1::HashRequest { profile: profile.to_owned(), inputs: copies(inputs) };
        let answer = self.call(v1::broker::HASH, Repeat::Always, request).await?;
        batch("Hash", answer.descriptor, answer.digests, inputs.len())
    }

    /// Requests a certificate, signed by a key of the broker's store. A retry after a lost answer gives another
    /// certificate with its own serial number.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn sign_certificate(&self, request: &CertificateRequest<'_>) -> Result<Certificate, Error> {
        let request = v1::SignCertificateRequest {
            profile: request.profile.to_owned(),
            csr: request.csr.to_vec(),
            ca_key_ref: request.ca_key.to_owned(),
            ca_certificate: request.ca_certificate.to_vec(),
            not_before: request.not_before,
            not_after: request.not_after,
            subject: request.subject.map(str::to_owned),
            crl_distribution_points: request.crl_points.iter().map(|&point| point.to_owned()).collect(),
        };
        let answer = self.call(v1::broker::SIGN_CERTIFICATE, Repeat::Always, request).await?;
        Ok(Certificate { der: answer.der, descriptor: answer.descriptor.unwrap_or_default() })
    }

    /// Encrypts plaintexts under the current version of a key.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn encrypt(&self, profile: &str, key: &str, plains: &[Plain<'_>]) -> Result<Batch<Cipher>, Error> {
        let message = |plain: &Plain<'_>| v1::Plain {
            plaintext: plain.plaintext.to_vec(),
            aad: plain.aad.to_vec(),
            nonce: plain.nonce.to_vec(),
        };
        let request = v1::EncryptRequest {
            profile: profile.to_owned(),
            key_id: key.to_owned(),
            plains: plains.iter().map(message).collect(),
        };
        let answer = self.call(v1::broker::ENCRYPT, Repeat::Always, request).await?;
        batch("Encrypt", answer.descriptor, answer.ciphers.into_iter().map(Cipher::from).collect(), plains.len())
    }

    /// Decrypts ciphertexts independently: one that fails gets a [`Refusal`], and the others are decrypted.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn decrypt(
        &self,
        profile: &str,
        key: &str,
        sealed: &[DecryptInput<'_>],
    ) -> Result<Batch<Result<Secret, Refusal>>, Error> {
        let ciphers = sealed.iter().map(DecryptInput::message).collect();
        let request = v1::DecryptRequest { profile: profile.to_owned(), key_id: key.to_owned(), ciphers };
        let answer = self.call(v1::broker::DECRYPT, Repeat::Always, request).await?;
        let opened = answer.opened.into_iter().map(|one| match one.result {
            Some(v1::opened::Result::Plaintext(plaintext)) => Ok(plaintext.into()),
            Some(v1::opened::Result::Refusal(refusal)) => Err(refusal.into()),
            None => Err(nothing()),
        });
        batch("Decrypt", answer.descriptor, opened.collect(), sealed.len())
    }

    /// Re-encrypts ciphertexts under the key's current version. The plaintext does not leave the broker.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn rewrap(
        &self,
        profile: &str,
        key: &str,
        sealed: &[DecryptInput<'_>],
    ) -> Result<Batch<Result<Cipher, Refusal>>, Error> {
        let ciphers = sealed.iter().map(DecryptInput::message).collect();
        let request = v1::RewrapRequest { profile: profile.to_owned(), key_id: key.to_owned(), ciphers };
        let answer = self.call(v1::broker::REWRAP, Repeat::Always, request).await?;
        let rewrapped = answer.rewrapped.into_iter().map(|one| match one.result {
            Some(v1::rewrapped::Result::Cipher(cipher)) => Ok(cipher.into()),
            Some(v1::rewrapped::Result::Refusal(refusal)) => Err(refusal.into()),
            None => Err(nothing()),
        });
        batch("Rewrap", answer.descriptor, rewrapped.collect(), sealed.len())
    }

    /// Signs inputs with the current version of a key.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn sign(&self, profile: &str, key: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        self.sign_inputs(profile, key, inputs, false).await
    }

    /// Signs digests by the profile's `HashAlg` with the current version of a key. The profile has to allow it.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn sign_digests(
        &self,
        profile: &str,
        key: &str,
        digests: &[impl AsRef<[u8]>],
    ) -> Result<Batch<Vec<u8>>, Error> {
        self.sign_inputs(profile, key, digests, true).await
    }

    async fn sign_inputs(
        &self,
        profile: &str,
        key: &str,
        inputs: &[impl AsRef<[u8]>],
        prehashed: bool,
    ) -> Result<Batch<Vec<u8>>, Error> {
        let (profile, key_id) = (profile.to_owned(), key.to_owned());
        let request = v1::SignRequest { profile, key_id, inputs: copies(inputs), prehashed };
        let answer = self.call(v1::broker::SIGN, Repeat::Always, request).await?;
        batch("Sign", answer.descriptor, answer.signatures, inputs.len())
    }

    /// Verifies signatures; true for each valid one.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn verify(&self, profile: &str, key: &str, signed: &[Verification<'_>]) -> Result<Batch<bool>, Error> {
        self.verify_inputs(profile, key, signed, false).await
    }

    /// Verifies signatures of digests by the profile's `HashAlg`. The profile has to allow it.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn verify_digests(
        &self,
        profile: &str,
        key: &str,
        signed: &[Verification<'_>],
    ) -> Result<Batch<bool>, Error> {
        self.verify_inputs(profile, key, signed, true).await
    }

    async fn verify_inputs(
        &self,
        profile: &str,
        key: &str,
        signed: &[Verification<'_>],
        prehashed: bool,
    ) -> Result<Batch<bool>, Error> {
        let messages = signed.iter().map(Verification::message).collect();
        let (profile, key_id) = (profile.to_owned(), key.to_owned());
        let request = v1::VerifyRequest { profile, key_id, signed: messages, prehashed };
        let answer = self.call(v1::broker::VERIFY, Repeat::Always, request).await?;
        batch("Verify", answer.descriptor, answer.valid, signed.len())
    }

    /// Computes authentication tags of inputs under the current version of a key.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn mac(&self, profile: &str, key: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        let request = v1::MacRequest { profile: profile.to_owned(), key_id: key.to_owned(), inputs: copies(inputs) };
        let answer = self.call(v1::broker::MAC, Repeat::Always, request).await?;
        batch("Mac", answer.descriptor, answer.tags, inputs.len())
    }

    /// Verifies authentication tags, given as signatures; true for each valid one.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn verify_mac(
        &self,
        profile: &str,
        key: &str,
        signed: &[Verification<'_>],
    ) -> Result<Batch<bool>, Error> {
        let messages = signed.iter().map(Verification::message).collect();
        let request = v1::VerifyMacRequest { profile: profile.to_owned(), key_id: key.to_owned(), signed: messages };
        let answer = self.call(v1::broker::VERIFY_MAC, Repeat::Always, request).await?;
        batch("VerifyMac", answer.descriptor, answer.valid, signed.len())
    }

    /// Derives keys from a version of a key, or from the current one for 0.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn derive(
        &self,
        profile: &str,
        key: &str,
        key_version: u32,
        derivations: &[Derivation<'_>],
    ) -> Result<Batch<Secret>, Error> {
        let message = |one: &Derivation<'_>| v1::Derivation {
            salt: one.salt.to_vec(),
            info: one.info.to_vec(),
            length: one.length,
        };
        let request = v1::DeriveRequest {
            profile: profile.to_owned(),
            key_id: key.to_owned(),
            key_version,
            derivations: derivations.iter().map(message).collect(),
        };
        let answer = self.call(v1::broker::DERIVE, Repeat::Always, request).await?;
        batch("Derive", answer.descriptor, secrets(answer.outputs), derivations.len())
    }

    /// Returns `count` random strings of `length` bytes each; a count of 0 gives one.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn random(&self, profile: &str, length: u32, count: u32) -> Result<Batch<Secret>, Error> {
        let request = v1::RandomRequest { profile: profile.to_owned(), length, count };
        let answer = self.call(v1::broker::RANDOM, Repeat::Always, request).await?;
        batch("Random", answer.descriptor, secrets(answer.outputs), count.max(1) as usize)
    }

    /// Creates `count` secrets shared with the holder of the recipient's private key; a count of 0 gives one.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn encapsulate(
        &self,
        profile: &str,
        recipient: Recipient<'_>,
        count: u32,
    ) -> Result<Batch<Encapsulation>, Error> {
        let to = match recipient {
            Recipient::Key(key) => v1::encapsulate_request::To::KeyId(key.to_owned()),
            Recipient::Public(key) => v1::encapsulate_request::To::PublicKey(key.to_vec()),
        };
        let request = v1::EncapsulateRequest { profile: profile.to_owned(), to: Some(to), count };
        let answer = self.call(v1::broker::ENCAPSULATE, Repeat::Always, request).await?;
        let outputs = answer.encapsulated.into_iter().map(Encapsulation::from).collect();
        batch("Encapsulate", answer.descriptor, outputs, count.max(1) as usize)
    }

    /// Recovers the shared secrets of ciphertexts with a version of a key, or with the current one for 0.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn decapsulate(
        &self,
        profile: &str,
        key: &str,
        key_version: u32,
        ciphertexts: &[impl AsRef<[u8]>],
    ) -> Result<Batch<Secret>, Error> {
        let request = v1::DecapsulateRequest {
            profile: profile.to_owned(),
            key_id: key.to_owned(),
            key_version,
            ciphertexts: copies(ciphertexts),
        };
        let answer = self.call(v1::broker::DECAPSULATE, Repeat::Always, request).await?;
        batch("Decapsulate", answer.descriptor, secrets(answer.shared_secrets), ciphertexts.len())
    }

    /// Decrypts content keys of JWE with a version of a key, or with the current one for 0. An encrypted key that does not decrypt
    /// gives another key of its length, and no error.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn unwrap(
        &self,
        profile: &str,
        key: &str,
        key_version: u32,
        wrapped: &[WrappedKey<'_>],
    ) -> Result<Batch<Secret>, Error> {
        let message =
            |one: &WrappedKey<'_>| v1::WrappedKey { encrypted_key: one.encrypted_key.to_vec(), length: one.length };
        let request = v1::UnwrapRequest {
            profile: profile.to_owned(),
            key_id: key.to_owned(),
            key_version,
            wrapped: wrapped.iter().map(message).collect(),
        };
        let answer = self.call(v1::broker::UNWRAP, Repeat::Always, request).await?;
        batch("Unwrap", answer.descriptor, secrets(answer.content_keys), wrapped.len())
    }

    /// Asks the broker for its version, build and profiles.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn information(&self) -> Result<Information, Error> {
        let answer = self.call(v1::broker::INFORMATION, Repeat::Always, v1::InformationRequest {}).await?;
        Ok(answer.into())
    }

    /// Asks the broker for its health.
    ///
    /// # Errors
    /// [`Error`], if there is no answer.
    pub async fn health(&self) -> Result<Health, Error> {
        let request = health::HealthCheckRequest::default();
        let checked = self.call(health::health::CHECK, Repeat::Always, request).await;
        let answer = checked.map_err(|err| Error { operation: "Health", ..err })?;
        let is_serving = answer.status() == health::health_check_response::ServingStatus::Serving;
        Ok(if is_serving { Health::Serving } else { Health::NotServing })
    }
}

fn copies(inputs: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    inputs.iter().map(|input| input.as_ref().to_vec()).collect()
}

fn secrets(outputs: Vec<Vec<u8>>) -> Vec<Secret> {
    outputs.into_iter().map(Secret::from).collect()
}

fn nothing() -> Refusal {
    Refusal { code: Code::Internal, text: "the broker said nothing of it".into() }
}

/// Checks that a batch has one result for each input: a result could else be taken for another input's.
fn batch<T>(
    operation: &'static str,
    descriptor: Option<Descriptor>,
    outputs: Vec<T>,
    asked: usize,
) -> Result<Batch<T>, Error> {
    if outputs.len() != asked {
        let text = format!("{} answers to {asked} inputs", outputs.len());
        return Err(Error { operation, code: Code::Internal, text, sent: Delivery::Answered, attempts: 1 });
    }
    Ok(Batch { outputs, descriptor: descriptor.unwrap_or_default() })
}
