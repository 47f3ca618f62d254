//! The client's TLS settings and its certificate.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use sealway_testkit::certificates::Certificates;

/// The one key exchange group that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// A group that every server here supports.
    X25519,
    /// The post-quantum hybrid, which Debian's OpenSSL 3.0 does not support.
    X25519MlKem768,
}

impl Group {
    /// One group and one cipher suite, so that no server wins by a choice that another does not have.
    pub(crate) fn provider(self) -> CryptoProvider {
        let group = match self {
            Group::X25519 => aws_lc_rs::kx_group::X25519,
            Group::X25519MlKem768 => aws_lc_rs::kx_group::X25519MLKEM768,
        };
        CryptoProvider {
            kx_groups: vec![group],
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            ..aws_lc_rs::default_provider()
        }
    }
}

/// The authorities that the client trusts, and its own certificate.
pub(crate) struct Identity {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads the files that the testkit generated.
    pub(crate) fn read(certificates: &Certificates) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in chain(&certificates.ca)? {
            roots.add(authority)?;
        }
        let (certificate, key) = &certificates.client;
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read {}", key.display()))?;
        Ok(Identity { roots: Arc::new(roots), chain: chain(certificate)?, key })
    }

    /// Returns a configuration with its own empty session store; or, if `resumes` is false, with none, so that each handshake is
    /// a full one.
    pub(crate) fn config(
        &self,
        group: Group,
        alpn: &[u8],
        with_certificate: bool,
        resumes: bool,
    ) -> anyhow::Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(group.provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots.clone());
        let mut config = if with_certificate {
            builder.with_client_auth_cert(self.chain.clone(), self.key.clone_key())?
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
        Ok(Arc::new(config))
    }
}

/// Returns the certificates of a PEM file, in the order of the file.
pub(crate) fn chain(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    read().with_context(|| format!("cannot read {}", file.display()))
}
