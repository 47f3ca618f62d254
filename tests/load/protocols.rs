//! `sealway load` over WebSocket and HTTP/3, against servers made with the server side of the same libraries, which count the
//! requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::{SinkExt, StreamExt};
use sealway_load::plan::{Arrival, Assertion, Plan, Protocol, Resumption, Text};
use sealway_load::record::{Class, Phase};
use sealway_testkit::certificates::Certificates;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::rustls;
use tokio_tungstenite::tungstenite::Message;

use crate::ground::{certificates, fault, plan, run, run_well, tls, workers};

/// The counts of a server.
#[derive(Debug, Default)]
struct ServerCounts {
    connections: AtomicU64,
    requests: AtomicU64,
    resumed: AtomicU64,
}

impl ServerCounts {
    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Runs a server's future on its own thread until the process ends.
fn serve<F: Future<Output = ()>>(serve: impl FnOnce() -> F + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::spawn(move || runtime.block_on(async { serve().await }));
}

/// Echoes messages, each after a ping. For the text `goodbye` it closes instead of echoing. It does not upgrade a request for
/// `/no`.
#[expect(clippy::result_large_err, reason = "the library's own kind of callback")]
fn echo(tls: Option<&Certificates>) -> (SocketAddr, Arc<ServerCounts>) {
    use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(ServerCounts::default());
    let told = seen.clone();
    let acceptor =
        tls.map(|certificates| tokio_rustls::TlsAcceptor::from(Arc::new(server_config(certificates, b"http/1.1"))));
    async fn talk<S>(stream: S, seen: &ServerCounts)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let upgrade = |request: &Request, response: Response| match request.uri().path() {
            "/no" => Err(ErrorResponse::new(None)).map_err(|mut refusal: ErrorResponse| {
                *refusal.status_mut() = http::StatusCode::FORBIDDEN;
                refusal
            }),
            _ => Ok(response),
        };
        let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, upgrade).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            if !(message.is_text() || message.is_binary()) {
                continue;
            }
            seen.requests.fetch_add(1, Ordering::SeqCst);
            if message.to_text().is_ok_and(|text| text == "goodbye") {
                let _ = socket.close(None).await;
                return;
            }
            socket.send(Message::Ping(Bytes::from_static(b"are you there"))).await.unwrap();
            if socket.send(message).await.is_err() {
                return;
            }
        }
    }
    serve(move || async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((tcp, _)) = listener.accept().await {
            told.connections.fetch_add(1, Ordering::SeqCst);
            let (acceptor, told) = (acceptor.clone(), told.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => talk(tcp, &told).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(tcp).await {
                            talk(stream, &told).await;
                        }
                    }
                }
            });
        }
    });
    (address, seen)
}

fn server_config(certificates: &Certificates, alpn: &[u8]) -> rustls::ServerConfig {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let (cert, key) = &certificates.server;
    let chain = CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

fn messages(url: &str, certificates: Option<&Certificates>, body: Text, requests: u64) -> Plan {
    let mut plan = plan(url, certificates.map(|certificates| certificates.ca.as_path()), requests);
    plan.target.protocol = Protocol::WebSocket;
    plan.request.body = Some(body);
    plan
}

#[test]
fn messages_of_a_websocket_are_echoed_and_asserted_with_and_without_tls() {
    let (_folder, certificates) = certificates();
    for certificates in [None, Some(&certificates)] {
        let (address, seen) = echo(certificates);
        let scheme = if certificates.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://localhost:{}/chat?room=1", address.port());
        let mut plan = messages(&url, certificates, Text::Template(r#"{"n":{{counter}}}"#.into()), 200);
        plan.assertions = vec![Assertion::JsonPath { path: "$.n".into(), equals: "{{counter}}".into() }];
        workers(&mut plan, 4);
        let sum = run_well(plan).totals.sum;
        assert_eq!((sum.counts.succeeded, seen.requests()), (200, 200), "{scheme}");
        assert_eq!((sum.counts.connections_opened, seen.connections()), (4, 4), "{scheme}");
        assert_eq!(sum.times(Phase::FirstByte).len(), 200, "{scheme}");
        assert!(sum.counts.bytes_received > 2_000 && sum.counts.bytes_sent > 2_000, "{:?}", sum.counts);
    }
}

#[test]
fn bytes_are_sent_as_bytes_and_a_connection_may_be_for_one_message() {
    let (address, seen) = echo(None);
    let mut plan = messages(&format!("ws://{address}/"), None, Text::Fixed(vec![0xff, 0x00, 0x80]), 40);
    plan.connections.reuse = false;
    let sum = run_well(plan).totals.sum;
    assert_eq!((sum.counts.connections_opened, seen.connections(), seen.requests()), (40, 40, 40));
}

#[test]
fn a_failed_upgrade_and_a_close_frame_are_reported() {
    let (address, _) = echo(None);
    let text = |text: &str| Text::Fixed(text.as_bytes().to_vec());
    let outcome = run(messages(&format!("ws://{address}/no"), None, text("hello"), 4));
    let (class, words) = fault(&outcome);
    assert!(
        class == Class::Status && words.contains("does not upgrade to WebSocket: it responds with status 403"),
        "{words}"
    );
    assert_eq!(outcome.totals.sum.statuses(), [(403, 4)]);
    let (class, words) = fault(&run(messages(&format!("ws://{address}/"), None, text("goodbye"), 4)));
    assert!(class == Class::Closed && words.contains("closed the WebSocket"), "{class:?}: {words}");
    let http = sealway_testkit::upstream::Upstream::answering(|_, _| {
        sealway_testkit::upstream::answer("200 OK", &[], b"hello")
    });
    let address = http.unwrap().address;
    let (class, words) = fault(&run(messages(&format!("ws://{address}/"), None, text("hello"), 4)));
    assert!(class == Class::Status && words.contains("does not upgrade"), "{class:?}: {words}");
}

/// Answers one HTTP/1.1 request on each connection. It delays the handshake, like a distant server.
fn far_away(certificates: &Certificates) -> (SocketAddr, Arc<ServerCounts>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(ServerCounts::default()));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config(certificates, b"http/1.1")));
    let told = seen.clone();
    serve(move || async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((tcp, _)) = listener.accept().await {
            let (acceptor, told) = (acceptor.clone(), told.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let Ok(mut stream) = acceptor.accept(tcp).await else { return };
                let kind = stream.get_ref().1.handshake_kind();
                told.resumed.fetch_add(u64::from(kind == Some(rustls::HandshakeKind::Resumed)), Ordering::SeqCst);
                let mut head = [0; 1024];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.read(&mut head).await;
            });
        }
    });
    (address, seen)
}

#[test]
fn a_burst_of_connections_has_a_ticket_for_each() {
    let (_folder, certificates) = certificates();
    let (address, seen) = far_away(&certificates);
    let mut plan = plan(&format!("https://{address}/"), Some(&certificates.ca), 180);
    plan.connections.reuse = false;
    tls(&mut plan).resumption = Resumption::On;
    plan.arrival = Arrival::Bursts { burst: 60, every: Duration::from_secs(3), times: 3 };
    let counts = run_well(plan).totals.sum.counts;
    assert_eq!(counts.handshakes_resumed, seen.resumed.load(Ordering::SeqCst));
    // The first sixty have no session to resume. rustls' default store would keep eight tickets for each later burst.
    assert!(counts.handshakes_resumed >= 110, "{counts:?}");
}

/// Sessions kept for resumption, and the number of resumptions.
#[derive(Debug)]
struct Sessions(Arc<dyn rustls::server::StoresServerSessions>, Arc<ServerCounts>);

impl rustls::server::StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let taken = self.0.take(key);
        self.1.resumed.fetch_add(u64::from(taken.is_some()), Ordering::SeqCst);
        taken
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Echoes bodies over HTTP/3 with status 200 and a `Server-Timing` of 2 ms. It shuts each connection down after `requests_max`
/// requests.
fn http3(certificates: &Certificates, requests_max: usize) -> (SocketAddr, Arc<ServerCounts>) {
    let seen = Arc::new(ServerCounts::default());
    let mut config = server_config(certificates, b"h3");
    config.session_storage = Arc::new(Sessions(rustls::server::ServerSessionMemoryCache::new(10_000), seen.clone()));
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(config).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let (sender, receiver) = std::sync::mpsc::channel();
    let told = seen.clone();
    serve(move || async move {
        let endpoint = quinn::Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        sender.send(endpoint.local_addr().unwrap()).unwrap();
        while let Some(incoming) = endpoint.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                told.connections.fetch_add(1, Ordering::SeqCst);
                let connection = h3_quinn::Connection::new(connection);
                let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await.unwrap();
                let mut left = requests_max;
                while let Ok(Some(request)) = connection.accept().await {
                    let Ok((_, mut stream)) = request.resolve_request().await else { return };
                    told.requests.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(async move {
                        let mut body = Vec::new();
                        while let Ok(Some(data)) = stream.recv_data().await {
                            body.extend_from_slice(data.chunk());
                        }
                        let head = http::Response::builder().header("server-timing", "app;dur=2").body(()).unwrap();
                        let _ = stream.send_response(head).await;
                        let _ = stream.send_data(body.into()).await;
                        let _ = stream.finish().await;
                    });
                    left = left.saturating_sub(1);
                    if left == 0 {
                        let _ = connection.shutdown(0).await;
                    }
                }
            });
        }
    });
    (receiver.recv().unwrap(), seen)
}

fn over_http3(address: SocketAddr, certificates: &Certificates, requests: u64) -> Plan {
    let url = format!("https://localhost:{}/echo", address.port());
    let mut plan = plan(&url, Some(&certificates.ca), requests);
    plan.target.addresses = vec![address];
    plan.target.protocol = Protocol::Http3;
    plan.request.method = http::Method::POST;
    plan.request.body = Some(Text::Template("n={{counter}}".into()));
    plan.assertions = vec![Assertion::BodyIs("n={{counter}}".into())];
    plan
}

#[test]
fn http3_shares_connections_by_streams_and_both_sides_count_the_same() {
    let (_folder, certificates) = certificates();
    let (address, seen) = http3(&certificates, usize::MAX);
    let mut plan = over_http3(address, &certificates, 300);
    plan.connections.streams = 4;
    workers(&mut plan, 10);
    let sum = run_well(plan).totals.sum;
    assert_eq!((sum.counts.succeeded, seen.requests()), (300, 300));
    assert_eq!((sum.counts.connections_opened, seen.connections()), (3, 3));
    assert_eq!((sum.counts.handshakes_full, sum.counts.handshakes_resumed), (3, 0));
    assert_eq!(sum.times(Phase::Server).len(), 300);
    assert!(sum.counts.bytes_received > 300 * 10, "{:?}", sum.counts);
}

#[test]
fn sessions_of_http3_are_resumed_when_they_are_to_be() {
    let (_folder, certificates) = certificates();
    for resumption in [Resumption::Off, Resumption::On] {
        let (address, seen) = http3(&certificates, usize::MAX);
        let mut plan = over_http3(address, &certificates, 60);
        plan.connections.reuse = false;
        tls(&mut plan).resumption = resumption;
        let counts = run_well(plan).totals.sum.counts;
        assert_eq!((counts.connections_opened, seen.connections()), (60, 60), "{resumption:?}");
        assert_eq!(counts.handshakes_full + counts.handshakes_resumed, 60, "{resumption:?}");
        assert_eq!(counts.handshakes_resumed, seen.resumed.load(Ordering::SeqCst), "{resumption:?}");
        let is_right = if resumption == Resumption::Off {
            counts.handshakes_resumed == 0
        } else {
            counts.handshakes_resumed >= 50
        };
        assert!(is_right, "{resumption:?}: {counts:?}");
    }
}

#[test]
fn goodbyes_of_http3_cost_no_request() {
    let (_folder, certificates) = certificates();
    let (address, seen) = http3(&certificates, 10);
    let counts = run_well(over_http3(address, &certificates, 100)).totals.sum.counts;
    assert_eq!((counts.succeeded, seen.requests()), (100, 100));
    assert!(seen.connections() >= 10 && counts.connections_opened == seen.connections(), "{counts:?}");
}

#[test]
fn failures_over_http3_are_reported_like_those_over_tcp() {
    let (_folder, certificates) = certificates();
    let (_others, stranger) = self::certificates();
    let (address, _) = http3(&certificates, usize::MAX);
    let (class, words) = fault(&run(over_http3(address, &stranger, 4)));
    assert!(class == Class::Certificate && words.ends_with("give its authority with --ca"), "{class:?}: {words}");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = over_http3(silent.local_addr().unwrap(), &certificates, 2);
    plan.timeouts.connect = Duration::from_millis(300);
    let (class, words) = fault(&run(plan));
    assert!(class == Class::ConnectTimeout && words.contains("300ms"), "{class:?}: {words}");
}
