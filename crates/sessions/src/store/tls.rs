//! TLS to a server that a store uses: its certificate is always verified, and a client certificate is presented if
//! configured.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use sealway_runtime::config::{ConfigError, read_bounded};
use zeroize::Zeroizing;

/// Largest file of certificates or of a key, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// Creates a TLS configuration that trusts the certificates of `ca`, by default the system's; `identity` is a
/// certificate chain and its key.
///
/// # Errors
/// [`ConfigError`], naming the file and never its content.
pub(crate) fn client_config(
    ca: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let fail = |what: String| ConfigError(format!("TLS: {what}"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| fail(err.to_string()))?
        .with_root_certificates(roots(ca)?);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((chain, key_file)) => {
            let key = Zeroizing::new(read_bounded(key_file, FILE_LEN_MAX)?);
            // The library's text is dropped: it may quote a line of the key.
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|_| ConfigError(format!("{}: expected a private key in PEM", key_file.display())))?;
            config
                .with_client_auth_cert(certificates(chain)?, key)
                .map_err(|err| ConfigError(format!("{} and {}: {err}", chain.display(), key_file.display())))?
        }
    };
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(ConfigError("TLS: the system has no trusted certificates; set a CA file".into()));
        }
        return Ok(roots);
    };
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|err| ConfigError(format!("{}: {err}", ca.display())))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let text = read_bounded(file, FILE_LEN_MAX)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(ConfigError(format!("{}: expected certificates in PEM", file.display())));
    }
    Ok(certificates)
}
