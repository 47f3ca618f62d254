//! Default TLS trust of connections to a service.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// A TLS configuration that trusts the certificate authorities of this machine.
///
/// # Errors
/// A text, if the machine has none.
pub(crate) fn system() -> Result<ClientConfig, String> {
    let roots = builder()?.with_native_roots();
    Ok(roots.map_err(|err| format!("no certificate authorities on this machine: {err}"))?.with_no_client_auth())
}

/// A TLS configuration that trusts no authority, for addresses without TLS.
///
/// # Errors
/// A text, if the crypto library supports no protocol version.
pub(crate) fn nobody() -> Result<ClientConfig, String> {
    Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(crypto).with_safe_default_protocol_versions().map_err(|err| err.to_string())
}
