//! The certificates by which nodes know each other: TLS 1.3 with a certificate on both sides, of one authority and for one name,
//! so that a certificate of the authority for another purpose is not enough. SPEC relay.md#bridge

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sealway_runtime::clock::Clock;
use sealway_runtime::http::Raw;
use sealway_runtime::tls::{
    AllowPattern, CertificateStatus, Client, ClientAuth, ClientFiles, Server, ServerFiles, TlsError,
};
use tokio::io::{AsyncRead, AsyncWrite};

/// The protocol's name in ALPN: a connection for another protocol is none of a node, whatever its certificate.
const ALPN: &[u8] = b"sealway-relay-bridge/2";
/// Most bytes of a handshake in transit, in the check at the start.
const HANDSHAKE_LEN: usize = 64 * 1024;

/// The files by which a node proves that it is one, and knows the others; read again when they change.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// The certificate chain of this node, for a server and for a client.
    pub cert: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// The authorities of the nodes' certificates.
    pub ca: PathBuf,
    /// The DNS name that every node's certificate has.
    pub name: String,
}

/// Both sides of TLS between nodes.
pub(crate) struct Identity {
    server: Server,
    client: Client,
}

impl Identity {
    /// Reads the files, and verifies that another node with the same settings would accept this one.
    pub(crate) async fn load(files: &NodeFiles, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let name = &files.name;
        if name.contains('*') || name.parse::<std::net::IpAddr>().is_ok() {
            return Err(format!("--node-name: \"{name}\" is no DNS name, such as relay-node.internal"));
        }
        let allow = AllowPattern::parse(&format!("DNS:{name}")).map_err(|err| format!("--node-name: {err}"))?;
        let server = ServerFiles {
            cert: files.cert.clone(),
            key: Some(files.key.clone()),
            client_ca: vec![files.ca.clone()],
            client_auth: ClientAuth::Required,
            allow: vec![allow],
            tls13_only: true,
            alpn: Some(ALPN),
            ..ServerFiles::default()
        };
        let client = ClientFiles {
            ca: Some(files.ca.clone()),
            cert: Some(files.cert.clone()),
            key: Some(files.key.clone()),
            server_name: Some(name.clone()),
            tls13_only: true,
            ..ClientFiles::default()
        };
        let server = Server::load(server, clock.clone()).map_err(|err| by_flag(&err))?;
        let client = Client::load(client, clock).map_err(|err| by_flag(&err))?;
        let identity = Identity { server, client };
        identity.try_itself().await.map_err(|err| {
            format!(
                "--node-cert: {}: other nodes would reject it: {err}; it needs an issuer in --node-ca, the DNS name \
                 \"{name}\" (--node-name), a validity that has not ended, and the usages of a server and of a client",
                files.cert.display()
            )
        })?;
        Ok(identity)
    }

    /// Performs both sides of a handshake in memory.
    async fn try_itself(&self) -> io::Result<()> {
        let (near, far) = tokio::io::duplex(HANDSHAKE_LEN);
        let (dialed, accepted) = tokio::join!(self.connect(near), self.accept(far));
        // The side that rejects knows the cause; the other one gets an alert.
        dialed.and(accepted).map(drop)
    }

    /// Performs the handshake with a node that has connected.
    pub(crate) async fn accept<IO>(&self, io: IO) -> io::Result<Box<dyn Raw>>
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (stream, _) = self.server.accept(io, None).await.map_err(io::Error::other)?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::other("it does not speak the protocol of nodes"));
        }
        Ok(Box::new(stream))
    }

    /// Performs the handshake with a node that this one has connected to.
    pub(crate) async fn connect<IO>(&self, io: IO) -> io::Result<Box<dyn Raw>>
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Ok(Box::new(self.client.connect(io, ALPN).await?))
    }

    /// Returns whether a file has changed since it was last read.
    pub(crate) fn files_changed(&self) -> bool {
        self.server.files_changed() || self.client.files_changed()
    }

    /// Reads the files again; returns true if something changed. Blocks for a moment if they do not fit together.
    pub(crate) fn reload(&self) -> Result<bool, TlsError> {
        let (server, client) = (self.server.reload(), self.client.reload());
        Ok(server? | client?)
    }

    /// Returns the certificates that are loaded now.
    pub(crate) fn certificates(&self) -> Vec<CertificateStatus> {
        self.server.certificates()
    }
}

/// Describes the defect of a file, by its flag.
fn by_flag(err: &TlsError) -> String {
    let flag = match err.field {
        "cert" => "--node-cert",
        "key" => "--node-key",
        "server_name" => return format!("--node-name: {}", err.message),
        _ => "--node-ca",
    };
    format!("{flag}: {}: {}", err.file.display(), err.message)
}
