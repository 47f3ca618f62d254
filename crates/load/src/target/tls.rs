//! TLS towards the target, as the plan asks for it: trust in the server, client certificate, and session resumption.
//!
//! Files are read once for a run ([`Material`]). Each shard has its own configuration ([`Material::config`]) with its own
//! ticket store, so that threads share no lock.

mod store;
mod verify;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::Resumption as Resuming;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[cfg(feature = "http3")]
pub(crate) use self::store::HandshakeTickets;
pub(crate) use self::store::Tickets;
use self::verify::{LastRejection, Trust, Verifier};
use super::{Handshake, classify};
use crate::plan::{Plan, Protocol, Resumption, Tls, TlsVersion};
use crate::record::{Class, Failure};

/// Contents of the TLS files, and the settings derived from them for every handshake of a run.
#[derive(Clone)]
pub(crate) struct Material {
    base: Arc<ClientConfig>,
    resumption: Resumption,
    name: ServerName<'static>,
    /// Reason of the last rejected certificate, kept for QUIC, whose library passes on text only.
    #[cfg_attr(not(feature = "http3"), expect(dead_code, reason = "QUIC alone asks"))]
    refused: LastRejection,
}

impl Material {
    /// Reads the files of the plan's TLS settings, if it has any.
    ///
    /// # Errors
    /// A one-line message that names the file.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Material>, String> {
        let Some(tls) = &plan.target.tls else { return Ok(None) };
        let host = plan.target.url.host().unwrap_or_default();
        Material::load(tls, host, plan.target.protocol).map(Some)
    }

    /// Loads the TLS settings for this host.
    pub(crate) fn load(tls: &Tls, host: &str, protocol: Protocol) -> Result<Material, String> {
        let name = tls.files.server_name.as_deref().unwrap_or(host);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name.clone()).map_err(|_| {
            format!("\"{name}\" is neither a DNS name nor an IP address, so no certificate can match it")
        })?;
        let parts = tls.files.read().map_err(|err| err.to_string())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(parts.roots);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions(tls.min_version, protocol))
            .map_err(|err| format!("TLS cannot be set up: {err}"))?;
        if tls.verify && roots.is_empty() {
            return Err("ca: this machine has no trusted authorities; give a file".to_owned());
        }
        let trust = match (tls.verify, tls.verify_name) {
            (true, true) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
                Trust::Whole(verifier.map_err(|err| format!("ca: cannot be used: {err}"))?)
            }
            (true, false) => Trust::AnyName(roots),
            (false, _) => Trust::Anybody,
        };
        let refused = LastRejection::default();
        let verifier = Arc::new(Verifier::new(trust, &provider, &refused));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match parts.certified {
            None => builder.with_no_client_auth(),
            Some(certified) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
        };
        // Offers this protocol only: a run that says HTTP/2 and measures HTTP/1.1 would mislead.
        config.alpn_protocols = vec![alpn(protocol).to_vec()];
        Ok(Material { base: Arc::new(config), resumption: tls.resumption, name, refused })
    }

    /// Expected name in the server's certificate, as a QUIC handshake takes it.
    #[cfg(feature = "http3")]
    pub(crate) fn name(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// Reason of the last rejected certificate, if one was rejected.
    #[cfg(feature = "http3")]
    pub(crate) fn last_refusal(&self) -> Option<rustls::Error> {
        self.refused.last()
    }

    /// Creates a ticket store for a shard, if resumption is on.
    #[cfg(feature = "http3")]
    pub(crate) fn tickets(&self) -> Option<Arc<Tickets>> {
        (self.resumption != Resumption::Off).then(Arc::default)
    }

    /// Returns a configuration as [`Material::config`] does, with these tickets; the second value records whether a ticket
    /// was used.
    #[cfg(feature = "http3")]
    pub(crate) fn config_with(&self, tickets: Option<&Arc<Tickets>>) -> (ClientConfig, Option<Arc<HandshakeTickets>>) {
        let mut config = ClientConfig::clone(&self.base);
        let offered = tickets.map(|tickets| Arc::new(HandshakeTickets::new(tickets.clone())));
        config.resumption = match &offered {
            None => Resuming::disabled(),
            Some(offered) => Resuming::store(offered.clone()),
        };
        (config, offered)
    }

    /// Returns a configuration with its own ticket store, or without one if resumption is off.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.base);
        config.resumption = match self.resumption {
            Resumption::Off => Resuming::disabled(),
            Resumption::On | Resumption::Both => Resuming::store(Arc::new(Tickets::default())),
        };
        config
    }
}

/// Performs TLS handshakes over the TCP connections of one shard.
#[derive(Clone)]
pub(crate) struct Handshakes {
    connector: TlsConnector,
    name: ServerName<'static>,
    protocol: Protocol,
}

impl Handshakes {
    /// Creates the shard's own configuration.
    pub(crate) fn new(material: &Material, protocol: Protocol) -> Self {
        let connector = TlsConnector::from(Arc::new(material.config()));
        Handshakes { connector, name: material.name.clone(), protocol }
    }

    /// Performs a handshake and returns the stream with the kind of the handshake.
    ///
    /// # Errors
    /// A failure of class `TlsAlert`, `Certificate` or `Tls`, or of a failed connection.
    pub(crate) async fn shake(
        &self,
        tcp: TcpStream,
        to: SocketAddr,
    ) -> Result<(TlsStream<TcpStream>, Handshake), Failure> {
        let tls = self.connector.connect(self.name.clone(), tcp).await;
        let tls = tls.map_err(|err| classify::of(&err, classify::At::Handshake, to))?;
        let (_, state) = tls.get_ref();
        check_alpn(self.protocol, state.alpn_protocol(), to)?;
        let kind = kind(state.handshake_kind());
        Ok((tls, kind))
    }
}

fn kind(kind: Option<HandshakeKind>) -> Handshake {
    match kind {
        Some(HandshakeKind::Resumed) => Handshake::Resumed,
        _ => Handshake::Full,
    }
}

/// Checks the negotiated protocol. A server without ALPN speaks HTTP/1.1; other protocols must be agreed.
fn check_alpn(protocol: Protocol, shown: Option<&[u8]>, to: SocketAddr) -> Result<(), Failure> {
    match (shown, protocol) {
        (None, Protocol::Http1 | Protocol::WebSocket | Protocol::Broker | Protocol::Channel) => Ok(()),
        (Some(shown), protocol) if shown == alpn(protocol) => Ok(()),
        _ => {
            let wanted = String::from_utf8_lossy(alpn(protocol));
            Err(Failure::new(Class::Tls, format!("{to} does not support {wanted} (ALPN)")))
        }
    }
}

/// Name of the protocol in ALPN.
fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 | Protocol::WebSocket | Protocol::Broker | Protocol::Channel => b"http/1.1",
        Protocol::Http2 => b"h2",
        Protocol::Http3 => b"h3",
    }
}

/// Returns the TLS versions to offer; QUIC requires TLS 1.3.
fn versions(min: TlsVersion, protocol: Protocol) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
    match (min, protocol) {
        (TlsVersion::V13, _) | (_, Protocol::Http3) => &BOTH[..1],
        (TlsVersion::V12, _) => &BOTH,
    }
}
