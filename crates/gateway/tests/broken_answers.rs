//! Answers of a service that end too early: however they break off, the client sees a broken answer, on plain and
//! sealed routes, over HTTP/1.1 and HTTP/2. A request with a malformed answer is not retried.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod ground;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ground::{DATA, GOAWAY, Ground, HEADERS, OK, RST_STREAM, frame, serve_h2};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_proto::wire::Wire;
use sealway_testkit::certificates::Certificates;
use sealway_testkit::native_client::read_frames;
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::wire_client::WireSession;
use serde_json::json;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

/// An answer as seen by its client.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole(String),
    Broken,
}

fn over_http1(ground: &Ground) -> Outcome {
    let mut connection = Connection::open(ground.address).unwrap();
    connection.write(&Request::get("/plain/x").bytes()).unwrap();
    match connection.read_answer("GET") {
        Ok(answer) if answer.status == 200 => Outcome::Whole(answer.text()),
        _ => Outcome::Broken,
    }
}

fn over_http2(ground: &Ground) -> Outcome {
    ground.runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(ground.address).await.unwrap();
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let driver = tokio::spawn(connection);
        let request = http::Request::get("http://h/plain/x").body(Empty::<Bytes>::new()).unwrap();
        let seen = match sender.send_request(request).await {
            Ok(answer) if answer.status() == 200 => match answer.into_body().collect().await {
                Ok(body) => Outcome::Whole(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
                Err(_) => Outcome::Broken,
            },
            _ => Outcome::Broken,
        };
        driver.abort();
        seen
    })
}

fn sealed(ground: &Ground) -> Outcome {
    let agreed = ground.agree();
    let (request, pending) = agreed.seal("GET", "/sealed/x", &[]);
    let Ok(answer) = ground.link().send(&request) else { return Outcome::Broken };
    if answer.status != 200 {
        return Outcome::Broken;
    }
    match read_frames(&pending, &answer) {
        (frames, None) => Outcome::Whole(String::from_utf8_lossy(&frames.concat()).into_owned()),
        (_, Some(_)) => Outcome::Broken,
    }
}

fn ground(server: &str, settings: serde_json::Value) -> Ground {
    let mut upstream = json!({"servers": [server]});
    upstream.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    Ground::start(json!({
        "routes": [
            {"match": {"path_prefix": "/sealed/"}, "sealed": "required", "upstream": "service"},
            {"match": {}, "upstream": "service"},
        ],
        "upstreams": {"service": upstream},
    }))
}

#[track_caller]
fn assert_broken(what: &str, ground: &Ground) {
    assert_eq!(over_http1(ground), Outcome::Broken, "{what}, over HTTP/1.1");
    assert_eq!(over_http2(ground), Outcome::Broken, "{what}, over HTTP/2");
    assert_eq!(sealed(ground), Outcome::Broken, "{what}, sealed");
}

#[test]
fn an_answer_over_http_2_that_breaks_off_is_broken_whatever_the_server_says() {
    type End = fn(&mut TcpStream, u32, u32);
    let reset: End = |stream, id, code| stream.write_all(&frame(RST_STREAM, 0, id, &code.to_be_bytes())).unwrap();
    let go_away: End = |stream, _, last| {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        stream.write_all(&frame(GOAWAY, 0, 0, &payload)).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    };
    let close: End = |stream, _, _| stream.shutdown(Shutdown::Both).unwrap();
    let codes = (0..=13).chain([0xff, u32::MAX]).map(|code| (format!("reset with code {code}"), reset, code));
    let others = [("GOAWAY before it", go_away, 0), ("GOAWAY behind it", go_away, 0x7fff_ffff), ("closed", close, 0)];
    for (what, end, code) in codes.chain(others.map(|(what, end, code)| (what.to_owned(), end, code))) {
        for part in [&b"hel"[..], b""] {
            let address = serve_h2(move |stream, id| {
                stream.write_all(&frame(HEADERS, 4, id, OK)).unwrap();
                if !part.is_empty() {
                    stream.write_all(&frame(DATA, 0, id, part)).unwrap();
                }
                thread::sleep(std::time::Duration::from_millis(20));
                end(stream, id, code);
            });
            let ground = ground(&format!("http://{address}"), json!({"protocol": "http2"}));
            assert_broken(&format!("{what} after {} bytes", part.len()), &ground);
        }
    }
}

#[test]
fn an_answer_over_http_2_that_is_whole_stays_so_when_its_stream_is_reset_behind_it() {
    let address = serve_h2(|stream, id| {
        let frames = [
            frame(HEADERS, 4, id, OK),
            frame(DATA, 1, id, b"hello"),
            // It rejects the rest of the request (RFC 9113 section 8.1).
            frame(RST_STREAM, 0, id, &0_u32.to_be_bytes()),
        ];
        stream.write_all(&frames.concat()).unwrap();
    });
    let ground = ground(&format!("http://{address}"), json!({"protocol": "http2"}));
    assert_eq!(over_http1(&ground), Outcome::Whole("hello".into()));
    assert_eq!(over_http2(&ground), Outcome::Whole("hello".into()));
    assert!(matches!(sealed(&ground), Outcome::Whole(text) if text.ends_with("hello")));
}

/// Starts a service that answers every connection with these bytes, and closes it.
fn serve_h1(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn an_answer_over_http_1_that_is_cut_off_is_broken() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        assert_broken(answer, &ground(&format!("http://{}", serve_h1(answer)), json!({})));
    }
}

#[test]
fn an_answer_whose_end_nothing_proves_is_sealed_as_whole_on_wires_1_and_2_alone() {
    let server = serve_h1("HTTP/1.1 200 OK\r\n\r\nhel");
    let ground = ground(&format!("http://{server}"), json!({}));
    assert_eq!(over_http1(&ground), Outcome::Whole("hel".into()));
    for wire in [Wire::V1, Wire::V2] {
        let session = WireSession::open(ground.address, wire, "/session/init").unwrap();
        let (answer, plaintext) = session.call("/sealed/x", b"{}").unwrap();
        assert_eq!((answer.status, &*plaintext), (200, &b"hel"[..]), "{wire:?}");
    }
    assert_eq!(sealed(&ground), Outcome::Broken);
}

#[test]
fn an_answer_without_a_length_over_tls_ends_by_close_notify_alone() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "client").unwrap();
    let chain = vec![CertificateDer::from_pem_file(&certificates.server.0).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&certificates.server.1).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    for says_close in [true, false] {
        let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), config.clone());
        let server = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut tls = ServerConnection::new(config.clone()).unwrap();
                let mut request = [0; 4096];
                let mut io = tokio_rustls::rustls::Stream::new(&mut tls, &mut stream);
                let _ = io.read(&mut request);
                let _ = io.write_all(b"HTTP/1.1 200 OK\r\n\r\nhel");
                let _ = io.flush();
                if says_close {
                    tls.send_close_notify();
                    let _ = tls.write_tls(&mut stream);
                }
                let _ = stream.shutdown(Shutdown::Write);
            }
        });
        let ground = ground(&server, json!({"protocol": "http1", "tls": {"ca": certificates.ca}}));
        match says_close {
            true => {
                assert_eq!(over_http1(&ground), Outcome::Whole("hel".into()));
                assert!(matches!(sealed(&ground), Outcome::Whole(text) if text.ends_with("hel")));
            }
            false => assert_broken("no close_notify", &ground),
        }
    }
}

#[test]
fn a_malformed_answer_is_not_retried() {
    let asked = Arc::new(AtomicUsize::new(0));
    // A header field without a preceding status; a status and a field name with a capital letter.
    for malformed in [&b"\x00\x01a\x01b"[..], b"\x88\x00\x01A\x01b"] {
        asked.store(0, Ordering::SeqCst);
        let count = asked.clone();
        let address = serve_h2(move |stream, id| {
            let block = if count.fetch_add(1, Ordering::SeqCst) == 0 { OK } else { malformed };
            stream.write_all(&frame(HEADERS, 5, id, block)).unwrap();
        });
        let ground = ground(&format!("http://{address}"), json!({"protocol": "http2"}));
        // The second request uses an existing connection.
        assert_eq!(over_http1(&ground), Outcome::Whole(String::new()));
        assert_eq!(Request::get("/plain/x").send(ground.address).unwrap().status, 502);
        assert_eq!(asked.load(Ordering::SeqCst), 2, "{malformed:?}");
    }
}
