//! One connection from its first byte: its handshake, the detection of its protocol, then that protocol until its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use hyper::service::Service;
use hyper::{Request, Response};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::connections::{Place, Protocol};
use super::h1::{Alarm, Setup};
use super::h2::PREFACE;
use super::share::network;
use super::stream::{Stream, Transport};
use super::{Body, BodyError, IDLE_GRACE, Listening, Origin, RequestBody, h1, h2};
use crate::clock::{Clock, SystemClock};
use crate::inventory::Party;
use crate::tls::{self, PeerCertificate};

/// Longest time that a handshake may continue after shutdown began.
const STOP_HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// Longest interval between two checks of a connection's client certificate, however long it is valid.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Time that a client has to finish its requests once its certificate is no longer valid.
const RECHECK_GRACE: Duration = Duration::from_secs(5);

/// Serves one accepted connection of a listener.
///
/// # Errors
/// The connection ended early.
pub(super) async fn serve<S>(stream: Stream, listening: &Listening, place: &Place, service: S) -> Result<(), BodyError>
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let peer = place.entry.peer;
    let origin = Origin { listener: listening.name.clone(), peer, client: peer.ip(), is_tls: false, certificate: None };
    let (limits, takes_connect) = (listening.limits, listening.takes_connect);
    let setup = Setup { origin, limits, takes_connect, entry: place.entry.clone(), list: place.list.clone() };
    match &listening.tls {
        Some(tls) => Box::pin(serve_handshake(stream, tls, setup, place, service)).await,
        None => serve_either(stream, &setup, service).await,
    }
}

/// Serves a connection from its TLS handshake on. Boxed: a connection without TLS reserves no memory for it.
async fn serve_handshake<S>(
    stream: Stream,
    tls: &tls::Server,
    mut setup: Setup,
    place: &Place,
    service: S,
) -> Result<(), BodyError>
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    setup.entry.set_protocol(Protocol::Handshake);
    // Subscribed before the handshake: rules that change during it count at once, not at the next check.
    let generation = tls.generation();
    // The future is larger than those that follow, and short-lived.
    let client = setup.origin.client.map(network);
    let handshake = Box::pin(timeout(setup.limits.handshake_timeout, tls.accept(stream, client)));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = told_to_end(&setup, STOP_HANDSHAKE_TIME) => return Ok(()),
    };
    let (stream, certificate) = match handshake {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(err)) => {
            place.list.note_failed_handshake(&place.entry.peer, &err);
            return Err(err.into());
        }
        Err(late) => {
            place.list.count_failed_handshake("timeout");
            return Err(late.into());
        }
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    count(&setup, stream.get_ref().1, certificate.as_deref());
    setup.origin.is_tls = true;
    setup.origin.certificate = certificate.clone();
    setup.entry.set_protocol(if is_h2 { Protocol::Http2Tls } else { Protocol::Http1Tls });
    let Some(certificate) = certificate else { return serve_tls(stream, is_h2, &setup, service).await };
    setup.entry.set_subject(&certificate.subject);
    tokio::select! {
        served = serve_tls(stream, is_h2, &setup, service) => served,
        () = outlived(tls, &certificate, &setup, generation) => Ok(()),
    }
}

/// Counts a handshake in the inventory, with the key that the client presented.
fn count(setup: &Setup, state: &rustls::CommonState, certificate: Option<&PeerCertificate>) {
    let party = Party::Named("listener", &setup.origin.listener);
    tls::count_handshake(party, state);
    if let Some(PeerCertificate { subject, key, .. }) = certificate {
        tls::count_peer(party, state, "tls-client-certificate", subject, *key);
    }
}

async fn serve_tls<IO, S>(io: IO, is_h2: bool, setup: &Setup, service: S) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    if is_h2 {
        // Each is boxed, so that no connection reserves memory for the other one.
        Box::pin(h2::serve(io, BytesMut::new(), setup, service)).await
    } else {
        Ok(Box::pin(h1::serve(io, BytesMut::new(), Alarm::default(), setup, service)).await?)
    }
}

/// Resolves when the client's certificate is no longer valid, after a time in which the connection can end in order.
/// `generation` was subscribed when the handshake began.
async fn outlived(
    tls: &tls::Server,
    certificate: &Arc<PeerCertificate>,
    setup: &Setup,
    mut generation: watch::Receiver<u64>,
) {
    loop {
        let left = certificate.not_after_ms.saturating_sub(SystemClock.now_ms());
        // Just after its last millisecond, not before.
        let wait = RECHECK_INTERVAL.min(Duration::from_millis(left.saturating_add(1000)));
        tokio::select! {
            changed = generation.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
            () = sleep(wait) => {}
        }
        if let Err(why) = tls.still_valid(certificate) {
            tracing::info!(peer = %setup.entry.peer, why, "closing a connection: the client's certificate has expired");
            setup.entry.stop.cancel();
            sleep(RECHECK_GRACE).await;
            return;
        }
    }
}

/// Serves a connection without TLS, over either protocol.
async fn serve_either<IO, S>(mut io: IO, setup: &Setup, service: S) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let mut alarm = Alarm::default();
    let sniffed = tokio::select! {
        sniffed = sniff(&mut io, setup, &mut alarm) => sniffed?,
        // Nothing was sent yet: there is nothing to answer.
        () = told_to_end(setup, IDLE_GRACE) => return Ok(()),
    };
    let Some((is_h2, read)) = sniffed else { return Ok(()) };
    if is_h2 {
        setup.entry.set_protocol(Protocol::Http2);
        Box::pin(h2::serve(io, read, setup, service)).await
    } else {
        setup.entry.set_protocol(Protocol::Http1);
        Ok(Box::pin(h1::serve(io, read, alarm, setup, service)).await?)
    }
}

/// Resolves a time of `grace` after the connection was asked to end.
async fn told_to_end(setup: &Setup, grace: Duration) {
    setup.entry.stop.cancelled().await;
    sleep(grace).await;
}

/// Reads the first bytes, and returns whether they are HTTP/2's preface, and the bytes. `None` if nothing was sent in time.
async fn sniff<IO: Transport>(io: &mut IO, setup: &Setup, alarm: &mut Alarm) -> io::Result<Option<(bool, BytesMut)>> {
    let mut read = BytesMut::new();
    alarm.set(Instant::now() + setup.limits.idle_timeout);
    poll_fn(|cx| {
        loop {
            let is_first = read.is_empty();
            match h1::poll_read(io, cx, &mut read)? {
                Poll::Ready(0) => return Poll::Ready(Ok(None)),
                Poll::Ready(_) => {}
                Poll::Pending => return alarm.poll(cx).map(|()| Ok(None)),
            }
            let len = read.len().min(PREFACE.len());
            let may_be_h2 = read[..len] == PREFACE[..len];
            if !may_be_h2 || len == PREFACE.len() {
                return Poll::Ready(Ok(Some((may_be_h2, std::mem::take(&mut read)))));
            }
            if is_first {
                alarm.set(Instant::now() + setup.limits.header_timeout);
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::certs::{self, Leaf, Making};
    use crate::http::{Connections, HttpLimits, Peer};
    use crate::tls::{ClientAuth, Secret, Server, ServerFiles};

    #[tokio::test]
    async fn a_certificate_revoked_during_the_handshake_is_rejected_at_once() {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("certs");
        let password = Secret::from("changeit".to_owned());
        let making = Making { names: vec![], client_name: "a".into(), days: 30, password, force: false };
        certs::make(&folder, &making, SystemClock.now_ms()).unwrap();
        let files = ServerFiles {
            cert: folder.join(Leaf::Server.cert()),
            key: Some(folder.join(Leaf::Server.key())),
            client_ca: vec![folder.join(certs::CA_CERT)],
            client_auth: ClientAuth::Required,
            crl: vec![folder.join(certs::CA_CRL)],
            ..ServerFiles::default()
        };
        let tls = Server::load(files, Arc::new(SystemClock)).unwrap();
        let client = folder.join(Leaf::Client.cert());
        let chain = CertificateDer::pem_file_iter(&client).unwrap().collect::<Result<_, _>>().unwrap();
        let certificate = Arc::new(PeerCertificate::parse(chain).unwrap());
        let limits = HttpLimits::default();
        let place = Arc::new(Connections::new("test")).enter(Peer::Unix, &limits, CancellationToken::new()).unwrap();
        let (listener, peer) = ("test".into(), Peer::Unix);
        let origin = Origin { listener, peer, client: None, is_tls: true, certificate: None };
        let setup =
            Setup { origin, limits, takes_connect: false, entry: place.entry.clone(), list: place.list.clone() };

        // As in `serve`: the handshake is over, and has found nothing.
        let generation = tls.generation();
        tls.still_valid(&certificate).unwrap();
        certs::revoke(&folder, &client.display().to_string(), SystemClock.now_ms()).unwrap();
        assert!(tls.reload().unwrap());
        tokio::select! {
            () = outlived(&tls, &certificate, &setup, generation) => {}
            () = setup.entry.stop.cancelled() => {}
            () = sleep(RECHECK_INTERVAL / 2) => panic!("it stays"),
        }
    }
}
