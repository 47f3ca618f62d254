//! The client side of TLS: the trusted authorities, and the certificate that is presented.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::files::{self, Content, FILE_LEN_MAX, FileWatch, LIST_LEN_MAX, Source};
use super::server::password;
use super::status::{self, CertificateStatus};
use super::{Secret, Time, TlsError, identity, measures, provider, used};
use crate::clock::Clock;

/// Most servers whose sessions are remembered for resumption.
const SESSIONS_MAX: usize = 256;

/// The files of a client's trust and certificate, as configured.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// Authorities that are trusted, in PEM.
    pub ca: Option<PathBuf>,
    /// Trusts the system's authorities too; without `ca` they are always trusted.
    pub system_roots: bool,
    /// The certificate chain to present, in PEM or PKCS#12. `None`: none.
    pub cert: Option<PathBuf>,
    /// Its key in PEM. `None`: the key is in the file of the chain.
    pub key: Option<PathBuf>,
    /// The password of a PKCS#12 file, in a file of one line.
    pub password_file: Option<PathBuf>,
    /// The password, if it is not configured by a file.
    pub password: Option<Secret>,
    /// The name that the server's certificate must have, if it is not the host of the connection.
    pub server_name: Option<String>,
    /// Rejects TLS 1.2 and earlier.
    pub tls13_only: bool,
}

impl ClientFiles {
    fn sources(&self) -> Vec<Source> {
        let one = |field, path: &PathBuf| Source::new(field, path, FILE_LEN_MAX);
        let ca = self.ca.iter().map(|path| Source::new("ca", path, LIST_LEN_MAX));
        let cert = self.cert.iter().map(|path| one("cert", path));
        let key = self.key.iter().map(|path| one("key", path));
        ca.chain(cert).chain(key).chain(self.password_file.iter().map(|path| one("password_file", path))).collect()
    }
}

struct ClientMaterial {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    generation: u64,
    digests: Vec<[u8; 32]>,
    certificates: Vec<CertificateStatus>,
}

/// The client side of TLS. Handshakes use the material that is loaded when they begin.
pub struct Client {
    files: ClientFiles,
    watched: FileWatch,
    clock: Arc<dyn Clock>,
    provider: Arc<CryptoProvider>,
    server_name: Option<ServerName<'static>>,
    loaded: ArcSwap<ClientMaterial>,
    generation: watch::Sender<u64>,
    reloading: Mutex<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("ca", &self.files.ca)
            .field("cert", &self.files.cert)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Reads the files, as [`super::Server::load`] does.
    ///
    /// # Errors
    /// [`TlsError`], naming the field and the file.
    pub fn load(files: ClientFiles, clock: Arc<dyn Clock>) -> Result<Client, TlsError> {
        let unfit = |field, message: String| TlsError::new(field, Path::new(""), message);
        if files.cert.is_none() && (files.key.is_some() || files.password_file.is_some()) {
            return Err(unfit("cert", "there is a key or a password, but no certificate".into()));
        }
        let server_name = match &files.server_name {
            None => None,
            Some(name) => Some(
                ServerName::try_from(name.clone())
                    .map_err(|_| unfit("server_name", format!("\"{name}\" is neither a DNS name nor an IP address")))?,
            ),
        };
        let (watched, provider) = (FileWatch::new(files.sources()), provider());
        let loaded = watched.load(|contents| build(&files, contents, &clock, &provider))?;
        status::warn_of_dates(&loaded.certificates, clock.now_ms());
        measures::register();
        let generation = watch::Sender::new(loaded.generation);
        let loaded = ArcSwap::from_pointee(loaded);
        Ok(Client { files, watched, clock, provider, server_name, loaded, generation, reloading: Mutex::default() })
    }

    /// Reads the files again; returns true if something changed.
    ///
    /// # Errors
    /// [`TlsError`]; the material loaded before stays in force.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let _one_at_a_time = self.reloading.lock();
        let before = self.loaded.load_full();
        let loaded = self.watched.load(|contents| {
            if contents.iter().map(Content::digest).eq(before.digests.iter().copied()) {
                return Ok(None);
            }
            build(&self.files, contents, &self.clock, &self.provider).map(Some)
        })?;
        let Some(loaded) = loaded else { return Ok(false) };
        status::warn_of_dates(&loaded.certificates, self.clock.now_ms());
        let generation = loaded.generation;
        self.loaded.store(Arc::new(loaded));
        self.generation.send_replace(generation);
        Ok(true)
    }

    /// Returns whether a file has changed since it was last read, successfully or not.
    pub fn files_changed(&self) -> bool {
        self.watched.changed()
    }

    /// Returns a channel that changes when other material is in force: earlier connections were made with other trust, or
    /// another name.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the loaded certificates, without the system's authorities.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        self.loaded.load().certificates.clone()
    }

    /// Returns the configuration for a handshake: one that offers HTTP/2 and HTTP/1.1, or only HTTP/1.1.
    pub fn config(&self, alpn_h2: bool) -> Arc<ClientConfig> {
        let loaded = self.loaded.load();
        Arc::clone(if alpn_h2 { &loaded.http2 } else { &loaded.http1 })
    }

    /// Performs the client's part of a handshake for the protocol with the name `alpn`, which the server must agree on. The
    /// server's certificate must have the configured name, and is verified each time: no session is resumed. The caller sets a
    /// deadline; this has none.
    ///
    /// # Errors
    /// The handshake failed, or the server has not agreed on the protocol.
    pub async fn connect<IO>(&self, io: IO, alpn: &'static [u8]) -> io::Result<TlsStream<IO>>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.server_name().ok_or_else(|| io::Error::other("no name of the server is configured"))?;
        let mut config = ClientConfig::clone(&self.config(false));
        config.alpn_protocols = vec![alpn.to_vec()];
        config.resumption = Resumption::disabled();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, io).await?;
        if stream.get_ref().1.alpn_protocol() != Some(alpn) {
            return Err(io::Error::other("it does not know the protocol"));
        }
        Ok(stream)
    }

    /// Returns the name that the server's certificate must have, if it is configured.
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        self.server_name.clone()
    }
}

/// The contents of the files, for a configuration that another component builds.
pub struct ClientParts {
    /// Trusted authorities; there may be none.
    pub roots: RootCertStore,
    /// The certificate to present, with its key.
    pub certified: Option<CertifiedKey>,
}

impl ClientFiles {
    /// Reads the files once, without watching them.
    ///
    /// # Errors
    /// [`TlsError`], naming the field and the file.
    pub fn read(&self) -> Result<ClientParts, TlsError> {
        if self.cert.is_none() && (self.key.is_some() || self.password_file.is_some()) {
            return Err(TlsError::new("cert", Path::new(""), "there is a key or a password, but no certificate"));
        }
        FileWatch::new(self.sources()).load(|contents| parts(self, contents, &provider(), &mut Vec::new()))
    }
}

fn parts(
    files: &ClientFiles,
    contents: &[Content],
    provider: &Arc<CryptoProvider>,
    certificates: &mut Vec<CertificateStatus>,
) -> Result<ClientParts, TlsError> {
    let mut roots = match files::of(contents, "ca").next() {
        Some(file) => authorities(file, certificates)?,
        None => RootCertStore::empty(),
    };
    if files.system_roots || files.ca.is_none() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let certified = match files::of(contents, "cert").next() {
        None => None,
        Some(cert) => {
            let password = password(files::of(contents, "password_file").next(), files.password.as_ref())?;
            let (key, word) = (files::of(contents, "key").next(), password.as_ref().map(|word| word.expose_secret()));
            let certified = identity::load(cert, key, word, provider)?;
            certificates.extend(status::chain(cert, "client", &certified.cert));
            Some(used::counted(certified, &cert.path))
        }
    };
    Ok(ClientParts { roots, certified })
}

fn build(
    files: &ClientFiles,
    contents: &[Content],
    clock: &Arc<dyn Clock>,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientMaterial, TlsError> {
    let mut certificates = Vec::new();
    let ClientParts { roots, certified } = parts(files, contents, provider, &mut certificates)?;
    if roots.is_empty() {
        return Err(TlsError::new("ca", Path::new(""), "the system has no trusted authorities; name a file"));
    }
    let unusable = |err: rustls::Error| TlsError::new("ca", Path::new(""), format!("cannot be used: {err}"));
    let versions: &[_] =
        if files.tls13_only { &[&rustls::version::TLS13] } else { &[&rustls::version::TLS13, &rustls::version::TLS12] };
    let config = ClientConfig::builder_with_details(Arc::clone(provider), Arc::new(Time(Arc::clone(clock))))
        .with_protocol_versions(versions)
        .map_err(unusable)?
        .with_root_certificates(roots);
    let mut config = match certified {
        None => config.with_no_client_auth(),
        Some(certified) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let http1 = Arc::new(config.clone());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    Ok(ClientMaterial {
        http1,
        http2: Arc::new(config),
        generation: GENERATION.fetch_add(1, Ordering::Relaxed),
        digests: contents.iter().map(Content::digest).collect(),
        certificates,
    })
}

fn authorities(file: &Content, certificates: &mut Vec<CertificateStatus>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for der in identity::certificates(file)? {
        certificates.extend(CertificateStatus::of(&file.path, "server_ca", &der));
        roots.add(der).map_err(|err| file.fault(format!("holds an authority that cannot be used: {err}")))?;
    }
    Ok(roots)
}
