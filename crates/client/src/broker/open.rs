//! The wire of the Open Crypto Broker (W4, which W3's servers answer too), for those who measure or compare: one input a
//! call, and the authority's private key in the call.
//!
//! It is spoken as that broker's own clients do, with the same bounds, retries and errors as [`Client`]'s other calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use sealway_proto::broker::open;

use super::call::Client;
use super::connection::{Line, origin};
use super::error::Error;
use super::generated::open::crypto_grpc_client::CryptoGrpcClient;
use super::generated::open::crypto_grpc_dev_client::CryptoGrpcDevClient;
use super::retry::Repeat;
use super::secret::Secret;

/// A client on that wire.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a>(pub &'a Client);

/// A certificate to be signed by a key that the caller has.
#[derive(Clone, Copy, Default)]
pub struct CertificateRequest<'a> {
    /// The profile.
    pub profile: &'a str,
    /// PKCS#10 in PEM.
    pub csr: &'a str,
    /// The authority's private key in PEM.
    pub ca_key: &'a str,
    /// The authority's certificate in PEM.
    pub ca_certificate: &'a str,
}

impl fmt::Debug for CertificateRequest<'_> {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRequest").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// What was encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// As long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// 12 bytes.
    pub nonce: Vec<u8>,
    /// 16 bytes.
    pub tag: Vec<u8>,
}

macro_rules! call {
    ($client:expr, $name:literal, $method:ident, $request:expr) => {{
        let max = $client.message_len_max();
        let send = |line: Line, request| {
            let mut stub = CryptoGrpcClient::with_origin(line, origin()).max_decoding_message_size(max);
            async move { stub.$method(request).await }
        };
        $client.call($name, Repeat::Always, $request, send).await?
    }};
}

impl Open<'_> {
    /// The digest of an input.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn hash_data(&self, profile: &str, input: &[u8]) -> Result<Vec<u8>, Error> {
        let request = open::HashDataRequest {
            profile: profile.to_owned(),
            input: input.to_vec(),
            metadata: metadata(),
            output_format: open::HashOutputFormat::Raw.into(),
        };
        let answer = call!(self.0, "HashData", hash_data, request);
        Ok(match answer.hash_value {
            Some(open::hash_data_response::HashValue::HashValueRaw(raw)) => raw,
            Some(open::hash_data_response::HashValue::HashValueHex(hex)) => hex.into_bytes(),
            None => Vec::new(),
        })
    }

    /// What the broker's own benchmarks come to, as JSON; only one that was started for development has them. Takes some
    /// seconds.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn benchmark(&self) -> Result<String, Error> {
        let send = |line: Line, request| {
            let mut stub = CryptoGrpcDevClient::with_origin(line, origin());
            async move { stub.benchmark(request).await }
        };
        let metadata = metadata().map(|own| open::MetadataW1 { id: own.id, ..open::MetadataW1::default() });
        let request = open::BenchmarkRequest { metadata };
        let answer = self.0.call("Benchmark", Repeat::Always, request, send).await?;
        Ok(answer.benchmark_results)
    }

    /// A certificate in DER, where the broker gives what it is asked for.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = call!(self.0, "SignCertificate", sign_certificate, request);
        Ok(match answer.signed_certificate {
            Some(open::sign_certificate_response::SignedCertificate::Der(der)) => der,
            Some(open::sign_certificate_response::SignedCertificate::Pem(pem)) => pem.into_bytes(),
            None => Vec::new(),
        })
    }

    /// Seals a plaintext under a key of the broker's store, with this nonce.
    ///
    /// # Errors
    /// [`Error`].
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
        let answer = call!(self.0, "EncryptData", encrypt_data, request);
        let with = answer.cipher_metadata.unwrap_or_default();
        Ok(Cipher { ciphertext: answer.ciphertext, nonce: with.nonce, tag: with.tag.unwrap_or_default() })
    }

    /// Opens what was sealed so.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn decrypt_data(&self, profile: &str, key: &str, cipher: &Cipher) -> Result<Secret, Error> {
        let with = open::DecryptMetadata { nonce: cipher.nonce.clone(), aad: None, tag: Some(cipher.tag.clone()) };
        let request = open::DecryptDataRequest {
            profile: profile.to_owned(),
            key_source: key_source(key),
            ciphertext: cipher.ciphertext.clone(),
            decrypt_metadata: Some(with),
            metadata: metadata(),
        };
        let answer = call!(self.0, "DecryptData", decrypt_data, request);
        Ok(answer.plaintext.into())
    }
}

fn key_source(key: &str) -> Option<open::KeySource> {
    Some(open::KeySource { source: Some(open::key_source::Source::KeyId(key.to_owned())) })
}

/// An id that no other call of this process has; the trace goes in the headers.
fn metadata() -> Option<open::Metadata> {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    let id = format!("sealway-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    Some(open::Metadata { id, ..open::Metadata::default() })
}
