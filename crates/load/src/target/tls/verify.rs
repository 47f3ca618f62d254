//! Trust that was asked to be less than whole: of a chain whatever its name, or of anybody. Whoever answers must prove in
//! either case that the key of the certificate is theirs.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::plan::Protocol;

/// Why a certificate was refused last.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<Mutex<Option<Error>>>);

impl Refused {
    /// The error, for all that were refused since: there is one server, and one reason.
    #[cfg(feature = "http3")]
    pub(super) fn last(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Remembers why another verifier refused a certificate.
#[derive(Debug)]
pub(super) struct Told {
    verifier: Arc<dyn ServerCertVerifier>,
    refused: Refused,
}

impl Told {
    /// Over QUIC; elsewhere the verifier is asked as it is.
    pub(super) fn by(
        verifier: Arc<dyn ServerCertVerifier>,
        refused: &Refused,
        protocol: Protocol,
    ) -> Arc<dyn ServerCertVerifier> {
        match protocol {
            Protocol::Http3 => Arc::new(Told { verifier, refused: refused.clone() }),
            _ => verifier,
        }
    }
}

impl ServerCertVerifier for Told {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(leaf, intermediates, name, ocsp, now);
        if let Err(err) = &verified {
            *self.refused.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(err.clone());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Takes any certificate.
#[derive(Debug)]
pub(super) struct Anybody(WebPkiSupportedAlgorithms);

/// Takes any certificate of an authority that is trusted.
#[derive(Debug)]
pub(super) struct AnyName {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Anybody {
    pub(super) fn new(provider: &CryptoProvider) -> Self {
        Anybody(provider.signature_verification_algorithms)
    }
}

impl AnyName {
    pub(super) fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider) -> Self {
        AnyName { roots, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let leaf = ParsedCertificate::try_from(leaf)?;
        verify_server_cert_signed_by_trust_anchor(&leaf, &self.roots, intermediates, now, self.algorithms.all)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
