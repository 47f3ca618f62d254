//! The server side of TLS: the certificate of a listener, and the rules for those of its clients; loaded at the start, and
//! again while it serves.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::sign::SingleCertAndKey;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use super::allow::AllowPattern;
use super::external::{self, ExternalKey, KeyFault, Lane};
use super::files::{self, Content, FILE_LEN_MAX, FileWatch, LIST_LEN_MAX, Source};
use super::peer::PeerCertificate;
use super::status::{self, CertificateStatus};
use super::verify::{self, BuildError, ClientVerifier};
use super::{Secret, Time, TlsError, identity, measures, provider, unix_time, used};
use crate::clock::Clock;

/// Longest wait of a start for a key outside this process that is becoming ready.
const KEY_WAIT: Duration = Duration::from_secs(10);

/// The requirement of a client certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients are asked. A client without a certificate is accepted without a name; one with an invalid certificate is not.
    Optional,
    /// Clients must present a certificate.
    Required,
}

/// The files of a listener's certificate and rules, as configured.
#[derive(Clone, Debug, Default)]
pub struct ServerFiles {
    /// The certificate chain, in PEM or PKCS#12.
    pub cert: PathBuf,
    /// Its key in PEM (PKCS#8, SEC1 or PKCS#1). `None`: the key is in the file of the chain.
    pub key: Option<PathBuf>,
    /// Its key, if that is outside this process; `key` is `None` then, and the chain is PEM.
    pub external_key: Option<Arc<dyn ExternalKey>>,
    /// The password of a PKCS#12 file, in a file of one line.
    pub password_file: Option<PathBuf>,
    /// The password, if it is not configured by a file. `password_file` takes precedence.
    pub password: Option<Secret>,
    /// Authorities whose clients are accepted, in PEM. Required unless `client_auth` is `None`.
    pub client_ca: Vec<PathBuf>,
    /// The requirement of a client certificate.
    pub client_auth: ClientAuth,
    /// Lists of revoked client certificates, in PEM or DER.
    pub crl: Vec<PathBuf>,
    /// The patterns of accepted clients; empty for all clients of an authority.
    pub allow: Vec<AllowPattern>,
    /// An OCSP answer in DER that is sent with the certificate.
    pub ocsp: Option<PathBuf>,
    /// Rejects TLS 1.2 and earlier.
    pub tls13_only: bool,
    /// The one protocol of the listener, by its name in ALPN (RFC 7301). `None`: HTTP/2 and HTTP/1.1.
    pub alpn: Option<&'static [u8]>,
}

impl ServerFiles {
    fn sources(&self) -> Vec<Source> {
        let one = |field, path: &Path| Source::new(field, path, FILE_LEN_MAX);
        let mut sources = vec![one("cert", &self.cert)];
        sources.extend(self.key.iter().map(|path| one("key", path)));
        sources.extend(self.password_file.iter().map(|path| one("password_file", path)));
        sources.extend(self.ocsp.iter().map(|path| one("ocsp", path)));
        if self.client_auth != ClientAuth::None {
            sources.extend(self.client_ca.iter().map(|path| Source::new("client_ca", path, LIST_LEN_MAX)));
            sources.extend(self.crl.iter().map(|path| Source::new("crl", path, LIST_LEN_MAX)));
        }
        sources
    }
}

/// The material from one reading of the files.
pub(super) struct ServerMaterial {
    pub(super) config: Arc<ServerConfig>,
    pub(super) verifier: Option<Arc<ClientVerifier>>,
    generation: u64,
    /// The number of the rules for clients, which a new certificate of the listener does not change. Unique in the process: a
    /// verdict under another server's rules must not pass for one under these.
    pub(super) rules: u64,
    ticketer: Arc<dyn ProducesTickets>,
    digests: Vec<[u8; 32]>,
    /// Digests of the files that define the accepted clients.
    client_digests: Vec<[u8; 32]>,
    certificates: Vec<CertificateStatus>,
    /// The public half of the certificate's key, as SubjectPublicKeyInfo.
    public: Vec<u8>,
}

/// The TLS side of a listener. Handshakes use the material that is loaded when they begin.
pub struct Server {
    files: ServerFiles,
    watched: FileWatch,
    pub(super) clock: Arc<dyn Clock>,
    provider: Arc<CryptoProvider>,
    pub(super) loaded: ArcSwap<ServerMaterial>,
    generation: watch::Sender<u64>,
    /// The key outside this process, if it has one.
    pub(super) lane: Option<Lane>,
    reloading: Mutex<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("cert", &self.files.cert)
            .field("client_auth", &self.files.client_auth)
            .field("generation", &self.loaded.load().generation)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the files. If key and certificate do not fit together, as during their replacement, it tries again for 300 ms, and
    /// blocks meanwhile. Expired certificates are loaded all the same, with a warning in the log. It waits up to 10 s for a key
    /// outside this process; if that is away, the server is loaded all the same, and [`Server::key_fault`] says so.
    ///
    /// # Errors
    /// [`TlsError`], naming the field and the file.
    pub fn load(files: ServerFiles, clock: Arc<dyn Clock>) -> Result<Server, TlsError> {
        if files.client_auth != ClientAuth::None && files.client_ca.is_empty() {
            return Err(TlsError::new(
                "client_ca",
                Path::new(""),
                "clients are asked for certificates of no authority",
            ));
        }
        let (watched, provider) = (FileWatch::new(files.sources()), provider());
        let loaded = watched.load(|contents| build(&files, contents, None, &clock, &provider))?;
        let lane = files.external_key.clone().map(Lane::new);
        check_key(&files, lane.as_ref(), &loaded.public, KEY_WAIT)?;
        status::warn_of_dates(&loaded.certificates, clock.now_ms());
        measures::register();
        let generation = watch::Sender::new(loaded.generation);
        let loaded = ArcSwap::from_pointee(loaded);
        Ok(Server { files, watched, clock, provider, loaded, generation, lane, reloading: Mutex::default() })
    }

    /// Reads the files again; returns true if something changed. It blocks as [`Server::load`] does.
    ///
    /// Session tickets stay valid unless the rules for clients have changed.
    ///
    /// # Errors
    /// [`TlsError`]; the material loaded before stays in force.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let _one_at_a_time = self.reloading.lock();
        let before = self.loaded.load_full();
        let loaded = self.watched.load(|contents| {
            let is_same = contents.iter().map(Content::digest).eq(before.digests.iter().copied());
            if is_same {
                return Ok(None);
            }
            build(&self.files, contents, Some(&before), &self.clock, &self.provider).map(Some)
        })?;
        let Some(loaded) = loaded else { return Ok(false) };
        check_key(&self.files, self.lane.as_ref(), &loaded.public, Duration::ZERO)?;
        status::warn_of_dates(&loaded.certificates, self.clock.now_ms());
        let generation = loaded.generation;
        self.loaded.store(Arc::new(loaded));
        self.generation.send_replace(generation);
        Ok(true)
    }

    /// Returns whether a file has changed since it was last read, successfully or not. Cheap: it reads times, lengths and
    /// inodes.
    pub fn files_changed(&self) -> bool {
        self.watched.changed()
    }

    /// Returns whether an accepted client would be accepted now: by the authorities, the lists of revoked certificates and the
    /// allow-list that are loaded, and by the clock. Cheap as long as only the clock has changed.
    ///
    /// # Errors
    /// A sentence for a log.
    pub fn still_valid(&self, peer: &PeerCertificate) -> Result<(), String> {
        let (loaded, now_ms) = (self.loaded.load(), self.clock.now_ms());
        if peer.holds(loaded.rules, now_ms) {
            return Ok(());
        }
        let Some(verifier) = &loaded.verifier else { return Ok(()) };
        let holds = verifier.verify(&peer.chain, unix_time(now_ms)).map_err(|err| verify::explain(&err))?;
        peer.verified(loaded.rules, holds.from_ms, holds.until_ms);
        Ok(())
    }

    /// Checks the key outside this process, and returns its fault. It blocks as long as the key does; at once `None` if the
    /// key is a file.
    pub fn check_key(&self) -> Option<KeyFault> {
        self.lane.as_ref()?.check(&self.loaded.load().public, Duration::ZERO)
    }

    /// Returns the fault of the key outside this process at its last check.
    pub fn key_fault(&self) -> Option<KeyFault> {
        self.lane.as_ref()?.fault()
    }

    /// Returns true if the key is outside this process.
    pub fn has_external_key(&self) -> bool {
        self.lane.is_some()
    }

    /// Returns a channel that changes when other material is in force. The number has no other meaning.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the loaded certificates and lists.
    pub fn certificates(&self) -> Vec<CertificateStatus> {
        self.loaded.load().certificates.clone()
    }
}

/// Checks a key outside this process. One that is away is a warning, as it may come back.
fn check_key(files: &ServerFiles, lane: Option<&Lane>, public: &[u8], wait: Duration) -> Result<(), TlsError> {
    let cert = files.cert.display();
    match lane.and_then(|lane| lane.check(public, wait)) {
        Some(fault) if fault.is_final => Err(TlsError::new("key", &files.cert, fault.to_string())),
        Some(fault) => {
            tracing::warn!(%cert, reason = fault.reason, why = %fault, "the key of a certificate does not sign yet");
            Ok(())
        }
        None => Ok(()),
    }
}

/// Builds a configuration from the files' contents. Tickets outlive `before` if the same clients are accepted.
fn build(
    files: &ServerFiles,
    contents: &[Content],
    before: Option<&ServerMaterial>,
    clock: &Arc<dyn Clock>,
    provider: &Arc<CryptoProvider>,
) -> Result<ServerMaterial, TlsError> {
    let none = || TlsError::new("cert", &files.cert, "was not read");
    let cert = files::of(contents, "cert").next().ok_or_else(none)?;
    let password = password(files::of(contents, "password_file").next(), files.password.as_ref())?;
    let key = files::of(contents, "key").next();
    let mut certified = match &files.external_key {
        Some(key) => external::certified(cert, key)?,
        None => identity::load(cert, key, password.as_ref().map(|word| word.expose_secret()), provider)?,
    };
    let public = certified.key.public_key().map(|public| public.to_vec()).unwrap_or_default();
    certified.ocsp = files::of(contents, "ocsp").next().map(identity::staple).transpose()?;
    let certified = used::counted(certified, &files.cert);
    let mut certificates = status::chain(cert, "server", &certified.cert);

    let verifier = match files.client_auth {
        ClientAuth::None => None,
        wanted => Some(Arc::new(clients(files, contents, wanted, provider, &mut certificates)?)),
    };
    let is_about_clients = |content: &&Content| matches!(content.field, "client_ca" | "crl");
    let client_digests: Vec<_> = contents.iter().filter(is_about_clients).map(Content::digest).collect();
    let unusable = |err: rustls::Error| TlsError::new("cert", &files.cert, format!("cannot be used: {err}"));
    static GENERATION: AtomicU64 = AtomicU64::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    let (ticketer, rules) = match before.filter(|before| before.client_digests == client_digests) {
        Some(before) => (Arc::clone(&before.ticketer), before.rules),
        None => (Ticketer::new().map_err(unusable)?, generation),
    };

    let versions: &[_] =
        if files.tls13_only { &[&rustls::version::TLS13] } else { &[&rustls::version::TLS13, &rustls::version::TLS12] };
    let config = ServerConfig::builder_with_details(Arc::clone(provider), Arc::new(Time(Arc::clone(clock))))
        .with_protocol_versions(versions)
        .map_err(unusable)?;
    let config = match &verifier {
        None => config.with_no_client_auth(),
        Some(verifier) => config.with_client_cert_verifier(Arc::clone(verifier) as _),
    };
    let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = match files.alpn {
        Some(protocol) => vec![protocol.to_vec()],
        None => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    // Scanners expect the server to set an order. It sets that of common clients: each suite is a good one.
    config.ignore_client_order = true;
    config.ticketer = Arc::clone(&ticketer);
    // Clients keep the tickets; a memory of sessions here would have to forget those of rejected clients.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(ServerMaterial {
        config: Arc::new(config),
        verifier,
        generation,
        rules,
        ticketer,
        digests: contents.iter().map(Content::digest).collect(),
        client_digests,
        certificates,
        public,
    })
}

/// Builds the rules for clients, and their digests.
fn clients(
    files: &ServerFiles,
    contents: &[Content],
    wanted: ClientAuth,
    provider: &Arc<CryptoProvider>,
    certificates: &mut Vec<CertificateStatus>,
) -> Result<ClientVerifier, TlsError> {
    let mut authorities = Vec::new();
    for file in files::of(contents, "client_ca") {
        let found = identity::certificates(file)?;
        certificates.extend(found.iter().filter_map(|der| CertificateStatus::of(&file.path, "client_ca", der)));
        authorities.extend(found);
    }
    let mut lists = Vec::new();
    for file in files::of(contents, "crl") {
        let found = identity::revocations(file)?;
        for der in &found {
            let status = CertificateStatus::of_list(&file.path, der);
            let status = status.ok_or_else(|| file.fault("is no list of revoked certificates"))?;
            if !certificates.iter().any(|known| known.role == "client_ca" && known.subject == status.issuer) {
                tracing::warn!(
                    file = status.file,
                    issuer = status.issuer,
                    "a list of revoked certificates is of no authority in client_ca"
                );
            }
            certificates.push(status);
        }
        lists.extend(found);
    }
    let is_optional = wanted == ClientAuth::Optional;
    let first = |paths: &[PathBuf]| paths.first().cloned().unwrap_or_default();
    ClientVerifier::new(&authorities, lists, files.allow.clone(), is_optional, Arc::clone(provider)).map_err(|err| {
        match err {
            BuildError::Authority(message) => TlsError::new("client_ca", &first(&files.client_ca), message),
            BuildError::List(message) => TlsError::new("crl", &first(&files.crl), message),
        }
    })
}

/// Returns the password: one line of a file, or as given.
pub(super) fn password(file: Option<&Content>, given: Option<&Secret>) -> Result<Option<Secret>, TlsError> {
    let Some(file) = file else { return Ok(given.cloned()) };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| file.fault("is not text"))?;
    let line = text.trim_end_matches(['\r', '\n']);
    if line.contains(['\r', '\n']) {
        return Err(file.fault("holds more than one line; a password is one"));
    }
    Ok(Some(Secret::from(line.to_owned())))
}
