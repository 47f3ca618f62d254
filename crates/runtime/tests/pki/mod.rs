//! Certificates at a fixed time, and handshakes with them.
#![allow(dead_code, clippy::unwrap_used, reason = "part of tests, each of which uses its own part")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::client::WantsClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use sealway_runtime::clock::ManualClock;
use sealway_runtime::tls::{AcceptError, ClientAuth, PeerCertificate, Server, ServerFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The fixed time, in seconds since 1970.
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const DAY: u64 = 86_400;

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(NOW * 1000))
}

pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

/// The content of a certificate to be issued.
pub(crate) struct Wish {
    pub(crate) name: &'static str,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) usages: Vec<ExtendedKeyUsagePurpose>,
    pub(crate) names: Vec<SanType>,
    pub(crate) serial: u64,
}

pub(crate) fn client(name: &'static str) -> Wish {
    Wish { usages: vec![ExtendedKeyUsagePurpose::ClientAuth], serial: 7, ..server(name) }
}

pub(crate) fn server(name: &'static str) -> Wish {
    let names = vec![SanType::DnsName("localhost".try_into().unwrap())];
    let usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Wish { name, from: NOW - DAY, until: NOW + 30 * DAY, usages, names, serial: 5 }
}

pub(crate) struct IssuedCertificate {
    pub(crate) cert: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::until(name, NOW + 3650 * DAY)
    }

    pub(crate) fn until(name: &str, until: u64) -> Self {
        Self::between(name, NOW - 10 * DAY, until)
    }

    pub(crate) fn between(name: &str, from: u64, until: u64) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(from);
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(until);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn issue(&self, wish: Wish) -> IssuedCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, wish.name);
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(wish.from);
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(wish.until);
        params.extended_key_usages = wish.usages;
        params.subject_alt_names = wish.names;
        params.serial_number = Some(SerialNumber::from(wish.serial));
        let key = KeyPair::generate().unwrap();
        IssuedCertificate { cert: params.signed_by(&key, &self.0).unwrap(), key }
    }

    /// Issues a list of revoked certificates, due again at `until`.
    pub(crate) fn revoke(&self, serials: &[u64], until: u64) -> String {
        let moment = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: moment(NOW - 60),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: moment(NOW - DAY),
            next_update: moment(until),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

/// A folder with a listener's files.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ca: Authority,
    pub(crate) clock: Arc<ManualClock>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let ground = Ground { folder: tempfile::tempdir().unwrap(), ca: Authority::new("a CA"), clock: clock() };
        ground.write("ca.pem", ground.ca.0.pem());
        ground.put("server", &ground.ca.issue(server("a server")));
        ground
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        // A new inode each time, as an atomic replacement has: two writes within a tick of the clock look different.
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    pub(crate) fn put(&self, name: &str, issued: &IssuedCertificate) {
        self.write(&format!("{name}.pem"), issued.cert.pem());
        self.write(&format!("{name}.key"), issued.key.serialize_pem());
    }

    /// Returns the files of a listener that requires certificates of the authority.
    pub(crate) fn mutual(&self) -> ServerFiles {
        ServerFiles { client_ca: vec![self.path("ca.pem")], client_auth: ClientAuth::Required, ..self.plain() }
    }

    pub(crate) fn plain(&self) -> ServerFiles {
        ServerFiles { cert: self.path("server.pem"), key: Some(self.path("server.key")), ..ServerFiles::default() }
    }

    pub(crate) fn load(&self, files: ServerFiles) -> Server {
        Server::load(files, self.clock.clone()).unwrap()
    }

    /// Returns a client that trusts the authority and presents this certificate.
    pub(crate) fn client(&self, issued: Option<&IssuedCertificate>) -> Arc<ClientConfig> {
        match issued {
            None => Arc::new(self.asking().with_no_client_auth()),
            Some(issued) => self.client_with(issued, &[]),
        }
    }

    /// Returns a client without a certificate that speaks one version of TLS.
    pub(crate) fn client_of(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        Arc::new(self.asking_in(&[version]).with_no_client_auth())
    }

    /// Returns the same client, which presents further certificates behind its own.
    pub(crate) fn client_with(
        &self,
        issued: &IssuedCertificate,
        beside: &[CertificateDer<'static>],
    ) -> Arc<ClientConfig> {
        let chain = [&[issued.cert.der().clone()], beside].concat();
        Arc::new(self.asking().with_client_auth_cert(chain, key(issued)).unwrap())
    }

    fn asking(&self) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        self.asking_in(&[&rustls::version::TLS13, &rustls::version::TLS12])
    }

    fn asking_in(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ClientConfig::builder_with_details(provider, Arc::new(Standing))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
    }
}

pub(crate) fn key(issued: &IssuedCertificate) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(issued.key.serialize_der().into())
}

#[derive(Debug)]
pub(crate) struct Standing;

impl rustls::time_provider::TimeProvider for Standing {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        Some(rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(NOW)))
    }
}

/// The results of both sides after a handshake and an exchange of two bytes.
pub(crate) struct HandshakeResult {
    pub(crate) server: Result<Option<Arc<PeerCertificate>>, AcceptError>,
    /// The kind of handshake, or the error that the client received.
    pub(crate) client: Result<HandshakeKind, String>,
    pub(crate) alpn: Option<Vec<u8>>,
}

impl HandshakeResult {
    pub(crate) fn refusal(&self) -> String {
        self.server.as_ref().expect_err("it was let in").to_string()
    }

    pub(crate) fn told(&self) -> &str {
        self.client.as_ref().expect_err("the client was not told")
    }

    pub(crate) fn peer(self) -> Arc<PeerCertificate> {
        self.server.expect("it was refused").expect("it has no certificate")
    }
}

pub(crate) async fn meet(server: &Server, config: &Arc<ClientConfig>) -> HandshakeResult {
    meet_from(None, server, config).await
}

/// The same for a client of a network.
pub(crate) async fn meet_from(network: Option<IpAddr>, server: &Server, config: &Arc<ClientConfig>) -> HandshakeResult {
    let (here, there) = tokio::io::duplex(256 * 1024);
    let mut alpn = None;
    let asking = async {
        let connector = tokio_rustls::TlsConnector::from(config.clone());
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, here).await.map_err(|err| err.to_string())?;
        stream.write_all(b"a").await.map_err(|err| err.to_string())?;
        let mut answer = [0];
        stream.read_exact(&mut answer).await.map_err(|err| err.to_string())?;
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let _ = stream.shutdown().await;
        Ok(kind)
    };
    let answering = async {
        let (mut stream, peer) = server.accept(there, network).await?;
        let mut question = [0];
        stream.read_exact(&mut question).await.map_err(AcceptError::Io)?;
        stream.write_all(b"b").await.map_err(AcceptError::Io)?;
        stream.flush().await.map_err(AcceptError::Io)?;
        let _ = stream.read(&mut question).await;
        Ok(peer)
    };
    let (client, server) = tokio::join!(asking, answering);
    HandshakeResult { server, client, alpn }
}

pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
