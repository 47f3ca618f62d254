//! TLS towards the target, as a plan asks for it: whom to trust and how far, what to show, whether sessions are resumed.
//!
//! Files are read once for a run ([`Material`]); each shard has a configuration of its own ([`Material::config`]), with a
//! store of tickets of its own, so that no lock is shared between threads.

mod store;
mod verify;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::Resumption as Resuming;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[cfg(feature = "http3")]
pub(crate) use self::store::Offered;
pub(crate) use self::store::Tickets;
use self::verify::{AnyName, Anybody, Refused, Told};
use super::{Handshake, classify};
use crate::plan::{Plan, Protocol, Resumption, Tls, TlsVersion};
use crate::record::{Class, Fault};

/// What files hold, and what follows from it for every handshake of a run.
#[derive(Clone)]
pub(crate) struct Material {
    base: Arc<ClientConfig>,
    resumption: Resumption,
    name: ServerName<'static>,
    /// Why a certificate was refused last; kept for QUIC, whose library hands on words alone.
    #[cfg_attr(not(feature = "http3"), expect(dead_code, reason = "QUIC alone asks"))]
    refused: Refused,
}

impl Material {
    /// Reads the files of the plan's TLS, if it has any.
    ///
    /// # Errors
    /// In one line, with the file.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Material>, String> {
        let Some(tls) = &plan.target.tls else { return Ok(None) };
        let host = plan.target.url.host().unwrap_or_default();
        Material::load(tls, host, plan.target.protocol).map(Some)
    }

    /// For this host.
    pub(crate) fn load(tls: &Tls, host: &str, protocol: Protocol) -> Result<Material, String> {
        let name = tls.files.server_name.as_deref().unwrap_or(host);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name.clone())
            .map_err(|_| format!("\"{name}\" is neither a DNS name nor an IP address: no certificate can be for it"))?;
        let parts = tls.files.read().map_err(|err| err.to_string())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(parts.roots);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions(tls.min_version, protocol))
            .map_err(|err| format!("TLS cannot be set up: {err}"))?;
        if tls.verify && roots.is_empty() {
            return Err("ca: this machine has no trusted authorities; name a file".to_owned());
        }
        let verifier: Arc<dyn ServerCertVerifier> = match (tls.verify, tls.verify_name) {
            (true, true) => WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|err| format!("ca: cannot be used: {err}"))?,
            (true, false) => Arc::new(AnyName::new(roots, &provider)),
            (false, _) => Arc::new(Anybody::new(&provider)),
        };
        let refused = Refused::default();
        let builder = builder.dangerous().with_custom_certificate_verifier(Told::by(verifier, &refused, protocol));
        let mut config = match parts.certified {
            None => builder.with_no_client_auth(),
            Some(certified) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
        };
        // This protocol and no other: a run that says HTTP/2 and measures HTTP/1.1 would mislead.
        config.alpn_protocols = vec![alpn(protocol).to_vec()];
        Ok(Material { base: Arc::new(config), resumption: tls.resumption, name, refused })
    }

    /// Whom the server's certificate must be of, as a handshake of QUIC wants it.
    #[cfg(feature = "http3")]
    pub(crate) fn name(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// Why a certificate was refused last, if one was.
    #[cfg(feature = "http3")]
    pub(crate) fn last_refusal(&self) -> Option<rustls::Error> {
        self.refused.last()
    }

    /// Where a shard's tickets are kept, if they are.
    #[cfg(feature = "http3")]
    pub(crate) fn tickets(&self) -> Option<Arc<Tickets>> {
        (self.resumption != Resumption::Off).then(Arc::default)
    }

    /// As [`Material::config`], with these tickets; they tell afterwards whether one was taken.
    #[cfg(feature = "http3")]
    pub(crate) fn config_with(&self, tickets: Option<&Arc<Tickets>>) -> (ClientConfig, Option<Arc<Offered>>) {
        let mut config = ClientConfig::clone(&self.base);
        let offered = tickets.map(|tickets| Arc::new(Offered::new(tickets.clone())));
        config.resumption = match &offered {
            None => Resuming::disabled(),
            Some(offered) => Resuming::store(offered.clone()),
        };
        (config, offered)
    }

    /// A configuration with tickets of its own, or with none.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.base);
        config.resumption = match self.resumption {
            Resumption::Off => Resuming::disabled(),
            Resumption::On | Resumption::Both => Resuming::store(Arc::new(Tickets::default())),
        };
        config
    }
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Material").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Shakes hands over TCP connections of one shard.
#[derive(Clone)]
pub(crate) struct Handshakes {
    connector: TlsConnector,
    name: ServerName<'static>,
    protocol: Protocol,
}

impl Handshakes {
    /// With a configuration of the shard's own.
    pub(crate) fn new(material: &Material, protocol: Protocol) -> Self {
        let connector = TlsConnector::from(Arc::new(material.config()));
        Handshakes { connector, name: material.name.clone(), protocol }
    }

    /// Shakes hands; which kind of handshake it was.
    ///
    /// # Errors
    /// A fault of class `TlsAlert`, `Certificate` or `Tls`, or of a connection that broke.
    pub(crate) async fn shake(
        &self,
        tcp: TcpStream,
        to: SocketAddr,
    ) -> Result<(TlsStream<TcpStream>, Handshake), Fault> {
        let tls = self.connector.connect(self.name.clone(), tcp).await;
        let tls = tls.map_err(|err| classify::of(&err, classify::At::Handshake, to))?;
        let (_, state) = tls.get_ref();
        check_alpn(self.protocol, state.alpn_protocol(), to)?;
        let kind = kind(state.handshake_kind());
        Ok((tls, kind))
    }
}

impl std::fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshakes").field("name", &self.name).finish_non_exhaustive()
    }
}

fn kind(kind: Option<HandshakeKind>) -> Handshake {
    match kind {
        Some(HandshakeKind::Resumed) => Handshake::Resumed,
        _ => Handshake::Full,
    }
}

/// HTTP/1.1 is what a server that says nothing speaks; the others must be agreed.
fn check_alpn(protocol: Protocol, told: Option<&[u8]>, to: SocketAddr) -> Result<(), Fault> {
    match (told, protocol) {
        (None, Protocol::Http1 | Protocol::WebSocket | Protocol::Broker | Protocol::Channel) => Ok(()),
        (Some(told), protocol) if told == alpn(protocol) => Ok(()),
        _ => {
            let wanted = String::from_utf8_lossy(alpn(protocol));
            Err(Fault::new(Class::Tls, format!("{to} does not agree to speak {wanted} (ALPN)")))
        }
    }
}

/// The protocol's name in a handshake.
fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 | Protocol::WebSocket | Protocol::Broker | Protocol::Channel => b"http/1.1",
        Protocol::Http2 => b"h2",
        Protocol::Http3 => b"h3",
    }
}

/// QUIC has TLS 1.3 alone.
fn versions(min: TlsVersion, protocol: Protocol) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
    match (min, protocol) {
        (TlsVersion::V13, _) | (_, Protocol::Http3) => &BOTH[..1],
        (TlsVersion::V12, _) => &BOTH,
    }
}
