//! The operations under profiles, each a batch: one answer for each input, in the order of the inputs.
//!
//! All of them may be repeated, and are, as `retry` says.

use sealway_proto::broker::{health, v1};

use super::call::Client;
use super::connection::{Line, origin};
use super::error::{Code, Error, Sent};
use super::generated::health::health_client::HealthClient;
use super::generated::v1::broker_client::BrokerClient;
use super::message::{
    Batch, Certificate, CertificateRequest, Cipher, Derivation, Descriptor, Encapsulated, Health, Information, Plain,
    Recipient, Refusal, Sealed, Signed,
};
use super::retry::Repeat;
use super::secret::Secret;

/// A call of the service that may be repeated.
macro_rules! repeat {
    ($client:expr, $name:literal, $method:ident, $request:expr) => {{
        let max = $client.message_len_max();
        let send = |line: Line, request| {
            let mut stub = BrokerClient::with_origin(line, origin()).max_decoding_message_size(max);
            async move { stub.$method(request).await }
        };
        $client.call($name, Repeat::Always, $request, send).await?
    }};
}

impl Client {
    /// Digests of inputs, by the profile's algorithm.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn hash(&self, profile: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        let request = v1::HashRequest { profile: profile.to_owned(), inputs: copies(inputs) };
        let answer = repeat!(self, "Hash", hash, request);
        batch("Hash", answer.descriptor, answer.digests, inputs.len())
    }

    /// A certificate for a request, signed by a key of the broker's store. Repeated after a lost answer, it is another
    /// certificate with a serial number of its own.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = repeat!(self, "SignCertificate", sign_certificate, request);
        Ok(Certificate { der: answer.der, descriptor: answer.descriptor.unwrap_or_default() })
    }

    /// Seals plaintexts under the current version of a key.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = repeat!(self, "Encrypt", encrypt, request);
        batch("Encrypt", answer.descriptor, answer.ciphers.into_iter().map(Cipher::from).collect(), plains.len())
    }

    /// Opens ciphertexts, each by itself: one that does not open is refused, and the others are opened all the same.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn decrypt(
        &self,
        profile: &str,
        key: &str,
        sealed: &[Sealed<'_>],
    ) -> Result<Batch<Result<Secret, Refusal>>, Error> {
        let ciphers = sealed.iter().map(Sealed::message).collect();
        let request = v1::DecryptRequest { profile: profile.to_owned(), key_id: key.to_owned(), ciphers };
        let answer = repeat!(self, "Decrypt", decrypt, request);
        let opened = answer.opened.into_iter().map(|one| match one.result {
            Some(v1::opened::Result::Plaintext(plaintext)) => Ok(plaintext.into()),
            Some(v1::opened::Result::Refusal(refusal)) => Err(refusal.into()),
            None => Err(nothing()),
        });
        batch("Decrypt", answer.descriptor, opened.collect(), sealed.len())
    }

    /// Seals anew under the key's current version what an earlier one sealed; the plaintext does not leave the broker.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn rewrap(
        &self,
        profile: &str,
        key: &str,
        sealed: &[Sealed<'_>],
    ) -> Result<Batch<Result<Cipher, Refusal>>, Error> {
        let ciphers = sealed.iter().map(Sealed::message).collect();
        let request = v1::RewrapRequest { profile: profile.to_owned(), key_id: key.to_owned(), ciphers };
        let answer = repeat!(self, "Rewrap", rewrap, request);
        let rewrapped = answer.rewrapped.into_iter().map(|one| match one.result {
            Some(v1::rewrapped::Result::Cipher(cipher)) => Ok(cipher.into()),
            Some(v1::rewrapped::Result::Refusal(refusal)) => Err(refusal.into()),
            None => Err(nothing()),
        });
        batch("Rewrap", answer.descriptor, rewrapped.collect(), sealed.len())
    }

    /// Signatures of inputs by the current version of a key.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn sign(&self, profile: &str, key: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        let request = v1::SignRequest { profile: profile.to_owned(), key_id: key.to_owned(), inputs: copies(inputs) };
        let answer = repeat!(self, "Sign", sign, request);
        batch("Sign", answer.descriptor, answer.signatures, inputs.len())
    }

    /// Whether signatures are right.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn verify(&self, profile: &str, key: &str, signed: &[Signed<'_>]) -> Result<Batch<bool>, Error> {
        let messages = signed.iter().map(Signed::message).collect();
        let request = v1::VerifyRequest { profile: profile.to_owned(), key_id: key.to_owned(), signed: messages };
        let answer = repeat!(self, "Verify", verify, request);
        batch("Verify", answer.descriptor, answer.valid, signed.len())
    }

    /// Authentication tags of inputs under the current version of a key.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn mac(&self, profile: &str, key: &str, inputs: &[impl AsRef<[u8]>]) -> Result<Batch<Vec<u8>>, Error> {
        let request = v1::MacRequest { profile: profile.to_owned(), key_id: key.to_owned(), inputs: copies(inputs) };
        let answer = repeat!(self, "Mac", mac, request);
        batch("Mac", answer.descriptor, answer.tags, inputs.len())
    }

    /// Whether authentication tags, given as signatures, are right.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn verify_mac(&self, profile: &str, key: &str, signed: &[Signed<'_>]) -> Result<Batch<bool>, Error> {
        let messages = signed.iter().map(Signed::message).collect();
        let request = v1::VerifyMacRequest { profile: profile.to_owned(), key_id: key.to_owned(), signed: messages };
        let answer = repeat!(self, "VerifyMac", verify_mac, request);
        batch("VerifyMac", answer.descriptor, answer.valid, signed.len())
    }

    /// Keys derived from a version of a key; 0 takes the current one.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = repeat!(self, "Derive", derive, request);
        batch("Derive", answer.descriptor, secrets(answer.outputs), derivations.len())
    }

    /// So many random strings of so many bytes each.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn random(&self, profile: &str, length: u32, count: u32) -> Result<Batch<Secret>, Error> {
        let request = v1::RandomRequest { profile: profile.to_owned(), length, count };
        let answer = repeat!(self, "Random", random, request);
        batch("Random", answer.descriptor, secrets(answer.outputs), count.max(1) as usize)
    }

    /// So many secrets shared with whoever has the private key.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn encapsulate(
        &self,
        profile: &str,
        recipient: Recipient<'_>,
        count: u32,
    ) -> Result<Batch<Encapsulated>, Error> {
        let to = match recipient {
            Recipient::Key(key) => v1::encapsulate_request::To::KeyId(key.to_owned()),
            Recipient::Public(key) => v1::encapsulate_request::To::PublicKey(key.to_vec()),
        };
        let request = v1::EncapsulateRequest { profile: profile.to_owned(), to: Some(to), count };
        let answer = repeat!(self, "Encapsulate", encapsulate, request);
        let outputs = answer.encapsulated.into_iter().map(Encapsulated::from).collect();
        batch("Encapsulate", answer.descriptor, outputs, count.max(1) as usize)
    }

    /// The secrets that ciphertexts tell the owner of a key; version 0 takes the current one.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = repeat!(self, "Decapsulate", decapsulate, request);
        batch("Decapsulate", answer.descriptor, secrets(answer.shared_secrets), ciphertexts.len())
    }

    /// What the broker says of itself.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn information(&self) -> Result<Information, Error> {
        let answer = repeat!(self, "Information", information, v1::InformationRequest {});
        Ok(answer.into())
    }

    /// Whether it serves.
    ///
    /// # Errors
    /// [`Error`], where nobody says.
    pub async fn health(&self) -> Result<Health, Error> {
        let send = |line: Line, request| {
            let mut stub = HealthClient::with_origin(line, origin());
            async move { stub.check(request).await }
        };
        let answer = self.call("Health", Repeat::Always, health::HealthCheckRequest::default(), send).await?;
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

/// An answer that is shorter or longer than what was asked for could be taken for another input's.
fn batch<T>(
    operation: &'static str,
    descriptor: Option<Descriptor>,
    outputs: Vec<T>,
    asked: usize,
) -> Result<Batch<T>, Error> {
    if outputs.len() != asked {
        let text = format!("{} answers to {asked} inputs", outputs.len());
        return Err(Error { operation, code: Code::Internal, text, sent: Sent::Answered, attempts: 1 });
    }
    Ok(Batch { outputs, descriptor: descriptor.unwrap_or_default() })
}
