//! The service behind the gateway: mTLS, a delayed answer, and a new connection for each request. It issues no tickets, so all
//! its handshakes are full ones, and it counts them.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client::{Group, chain};

/// The backlog must hold a whole burst.
const BACKLOG: u32 = 4096;
/// The longest wait for the peer to close the connection.
const GOODBYE: Duration = Duration::from_secs(5);

/// The path that returns the counts of the service without delay.
pub(super) const COUNTS_PATH: &str = "/counts";

/// Settings of the service.
#[derive(Debug, clap::Args)]
pub(crate) struct Service {
    port: u16,
    #[arg(long)]
    cert: PathBuf,
    #[arg(long)]
    key: PathBuf,
    #[arg(long)]
    client_ca: PathBuf,
    #[arg(long)]
    delay_ms: u64,
    #[arg(long)]
    hybrid: bool,
}

#[derive(Debug, Default)]
struct Counts {
    full: AtomicU64,
    resumed: AtomicU64,
    requests: AtomicU64,
}

/// Returns the counts as text for the report.
pub(super) fn counts(full: u64, resumed: u64, requests: u64) -> String {
    format!("{full} full handshakes with a client's certificate, {resumed} resumed, {requests} delayed answers")
}

/// Runs the service until it is killed.
pub(crate) fn run(service: &Service) -> anyhow::Result<()> {
    let mut roots = RootCertStore::empty();
    for authority in chain(&service.client_ca)? {
        roots.add(authority)?;
    }
    let group = if service.hybrid { Group::X25519MlKem768 } else { Group::X25519 };
    let provider = Arc::new(group.provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(&service.cert)?, PrivateKeyDer::from_pem_file(&service.key)?)?;
    config.send_tls13_tickets = 0;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let counts = Arc::new(Counts::default());
    let delay = Duration::from_millis(service.delay_ms);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, service.port).into())?;
        let listener = socket.listen(BACKLOG)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let (acceptor, counts) = (acceptor.clone(), counts.clone());
            tokio::spawn(async move {
                let _ = serve(stream, &acceptor, &counts, delay).await;
            });
        }
    })
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, counts: &Counts, delay: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let mut buffer = vec![0; 4096];
    let mut filled = 0;
    while !buffer[..filled].ends_with(b"\r\n\r\n") {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
    }
    let path = buffer[..filled].split(|byte| *byte == b' ').nth(1);
    let body = if path == Some(COUNTS_PATH.as_bytes()) {
        self::counts(counts.full.load(Relaxed), counts.resumed.load(Relaxed), counts.requests.load(Relaxed))
    } else {
        let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
        if resumed { &counts.resumed } else { &counts.full }.fetch_add(1, Relaxed);
        counts.requests.fetch_add(1, Relaxed);
        drop(std::mem::take(&mut buffer));
        tokio::time::sleep(delay).await;
        r#"{"status":"ok","mode":"standalone"}"#.to_owned()
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 256];
    let _ = tokio::time::timeout(GOODBYE, async { while let Ok(1..) = stream.read(&mut rest).await {} }).await;
    Ok(())
}
