//! Verification of a server's certificate, full or reduced as the plan asks. In each case the server must prove that it
//! holds the certificate's key.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Reason of the last rejected certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRejection(Arc<Mutex<Option<Error>>>);

impl LastRejection {
    /// Returns the last error; it stands for all rejections, because a run has one server.
    #[cfg(feature = "http3")]
    pub(super) fn last(&self) -> Option<Error> {
        self.0.lock().clone()
    }
}

/// Extent to which a certificate is verified.
#[derive(Debug)]
pub(super) enum Trust {
    /// Issued by a trusted authority for the name of the server.
    Whole(Arc<WebPkiServerVerifier>),
    /// Issued by a trusted authority, for any name.
    AnyName(Arc<RootCertStore>),
    /// Any certificate, without verification.
    Anybody,
}

/// Verifies certificates to the given extent, and remembers why it rejected one.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
    refused: LastRejection,
}

impl Verifier {
    /// Creates a verifier that records in `refused` why it rejects a certificate.
    pub(super) fn new(trust: Trust, provider: &CryptoProvider, refused: &LastRejection) -> Self {
        Verifier { trust, algorithms: provider.signature_verification_algorithms, refused: refused.clone() }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.trust {
            Trust::Whole(verifier) => verifier.verify_server_cert(leaf, intermediates, name, ocsp, now),
            Trust::AnyName(roots) => ParsedCertificate::try_from(leaf).and_then(|leaf| {
                let algorithms = self.algorithms.all;
                verify_server_cert_signed_by_trust_anchor(&leaf, roots, intermediates, now, algorithms)?;
                Ok(ServerCertVerified::assertion())
            }),
            Trust::Anybody => Ok(ServerCertVerified::assertion()),
        };
        verified.inspect_err(|err| *self.refused.0.lock() = Some(err.clone()))
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
