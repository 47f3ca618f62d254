//! TLS of the scripted server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::aws_lc_rs};

use crate::certificates::Certificates;

/// The certificate of the server and its rules for clients.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// The certificate and key, in PEM.
    pub certificate: (PathBuf, PathBuf),
    /// The authority of required client certificates; `None` requires none.
    pub client_ca: Option<PathBuf>,
    /// Lets clients resume sessions, by tickets.
    pub resumes: bool,
}

impl ServerTls {
    /// Uses the server's certificate of these, resumption, and no client certificates.
    pub fn of(certificates: &Certificates) -> Self {
        ServerTls { certificate: certificates.server.clone(), client_ca: None, resumes: true }
    }

    /// Requires client certificates of this authority.
    pub fn with_client_ca(mut self, ca: &Path) -> Self {
        self.client_ca = Some(ca.to_owned());
        self
    }

    pub(super) fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(ca)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.certificate.1)?;
        let mut config = config.with_single_cert(certificates(&self.certificate.0)?, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if self.resumes {
            // Only tickets, as on servers with many clients: the session storage would forget the oldest.
            config.ticketer = aws_lc_rs::Ticketer::new()?;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let list = CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    list.with_context(|| format!("{} holds no certificates", file.display()))
}
