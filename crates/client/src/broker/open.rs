//! The wire of the Open Crypto Broker (W4, which servers of W3 answer too), for measurements and comparisons: one input
//! per call, and the authority's private key in the call.
//!
//! Calls have the same bounds, retries and errors as [`Client`]'s other calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::broker::open;

use super::call::Client;
use super::error::Error;
use super::retry::Repeat;
use super::secret::Secret;

/// A client on the wire of the Open Crypto Broker.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a>(pub &'a Client);

/// A request for a certificate, signed by a key that the caller holds.
#[derive(Clone, Copy, Default)]
pub struct CertificateRequest<'a> {
    /// Name of the certificate profile.
    pub profile: &'a str,
    /// Certificate signing request, PKCS#10 in PEM.
    pub csr: &'a str,
    /// The authority's private key in PEM.
    pub ca_key: &'a str,
    /// The authority's certificate in PEM.
    pub ca_certificate: &'a str,
}

impl fmt::Debug for CertificateRequest<'_> {
    /// Leaves out the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRequest").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// A ciphertext with its nonce and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// Ciphertext, as long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// Nonce of the encryption, 12 bytes.
    pub nonce: Vec<u8>,
    /// Authentication tag of 16 bytes.
    pub tag: Vec<u8>,
}

impl Open<'_> {
    /// Returns the digest of an input.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn hash_data(&self, profile: &str, input: &[u8]) -> Result<Vec<u8>, Error> {
        let request = open::HashDataRequest {
            profile: profile.to_owned(),
            input: input.to_vec(),
            metadata: metadata(),
            output_format: open::HashOutputFormat::Raw.into(),
        };
        let answer = self.0.call(open::crypto_grpc::HASH_DATA, Repeat::Always, request).await?;
        Ok(match answer.hash_value {
            Some(open::hash_data_response::HashValue::HashValueRaw(raw)) => raw,
            Some(open::hash_data_response::HashValue::HashValueHex(hex)) => hex.into_bytes(),
            None => Vec::new(),
        })
    }

    /// Results of the broker's built-in benchmarks, as JSON. Only a broker in development mode has them. The call takes
    /// some seconds.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn benchmark(&self) -> Result<String, Error> {
        let metadata = metadata().map(|own| open::MetadataW1 { id: own.id, ..open::MetadataW1::default() });
        let request = open::BenchmarkRequest { metadata };
        let answer = self.0.call(open::crypto_grpc_dev::BENCHMARK, Repeat::Always, request).await?;
        Ok(answer.benchmark_results)
    }

    /// Requests a certificate in DER. A broker that answers in PEM is accepted, and its PEM is returned.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn sign_certificate(&self, request: &CertificateRequest<'_>) -> Result<Vec<u8>, Error> {
        let request = open::SignCertificateRequest {
            profile: request.profile.to_owned(),
            csr: request.csr.to_owned(),
            ca_private_key: request.ca_key.to_owned(),
            ca_cert: request.ca_certificate.to_owned(),
            metadata: metadata(),
            output_format: open::SignOutputFormat::Der.into(),
            ..open::SignCertificateRequest::default()
        };
        let answer = self.0.call(open::crypto_grpc::SIGN_CERTIFICATE, Repeat::Always, request).await?;
        Ok(match answer.signed_certificate {
            Some(open::sign_certificate_response::SignedCertificate::Der(der)) => der,
            Some(open::sign_certificate_response::SignedCertificate::Pem(pem)) => pem.into_bytes(),
            None => Vec::new(),
        })
    }

    /// Encrypts a plaintext under a key of the broker's store, with this nonce.
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn encrypt_data(
        &self,
        profile: &str,
        key: &str,
        nonce: &[u8; 12],
        plaintext: &[u8],
    ) -> Result<Cipher, Error> {
        let request = open::EncryptDataRequest {
            profile: profile.to_owned(),
            key_source: key_source(key),
            plaintext: plaintext.to_vec(),
            encrypt_metadata: Some(open::EncryptMetadata { nonce: nonce.to_vec(), aad: None }),
            metadata: metadata(),
        };
        let answer = self.0.call(open::crypto_grpc::ENCRYPT_DATA, Repeat::Always, request).await?;
        let with = answer.cipher_metadata.unwrap_or_default();
        Ok(Cipher { ciphertext: answer.ciphertext, nonce: with.nonce, tag: with.tag.unwrap_or_default() })
    }

    /// Decrypts a result of [`Open::encrypt_data`].
    ///
    /// # Errors
    /// [`Error`] of the broker or the connection.
    pub async fn decrypt_data(&self, profile: &str, key: &str, cipher: &Cipher) -> Result<Secret, Error> {
        let with = open::DecryptMetadata { nonce: cipher.nonce.clone(), aad: None, tag: Some(cipher.tag.clone()) };
        let request = open::DecryptDataRequest {
            profile: profile.to_owned(),
            key_source: key_source(key),
            ciphertext: cipher.ciphertext.clone(),
            decrypt_metadata: Some(with),
            metadata: metadata(),
        };
        let answer = self.0.call(open::crypto_grpc::DECRYPT_DATA, Repeat::Always, request).await?;
        Ok(answer.plaintext.into())
    }
}

fn key_source(key: &str) -> Option<open::KeySource> {
    Some(open::KeySource { source: Some(open::key_source::Source::KeyId(key.to_owned())) })
}

/// Call metadata with an id that is unique in this process; the trace goes into the headers.
fn metadata() -> Option<open::Metadata> {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let id = format!("sealway-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    Some(open::Metadata { id, ..open::Metadata::default() })
}
