//! A service that answers sealed calls arbitrarily, while another one agrees sessions correctly: every answer gives a
//! typed error in time, and the error repeats no secret.

use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, StatusCode, Uri};
use sealway_client::{Client, Error, ErrorKind};
use sealway_proto::Error as Wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::ground::{Flowing, Service, call, post, trusted};

const TIMEOUT: Duration = Duration::from_millis(700);
const SECRET: &[u8] = b"{\"card\":\"4111111111111111\"}";

/// Behaviour of the hostile server for one answer.
#[derive(Clone)]
enum Delivery {
    /// These bytes, and then the end of the connection.
    Whole(Vec<u8>),
    /// These bytes, and then neither bytes nor an end.
    Held(Vec<u8>),
    /// These bytes, then one more every 50 ms.
    Slowly(Vec<u8>),
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Starts a server that reads a request's head and sends this answer, each time.
async fn hostile(sent: Delivery) -> (Uri, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let sent = sent.clone();
            tokio::spawn(async move {
                let mut head = [0; 8192];
                let _ = stream.read(&mut head).await;
                match sent {
                    Delivery::Whole(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        let _ = stream.shutdown().await;
                        let mut rest = Vec::new();
                        let _ = stream.read_to_end(&mut rest).await;
                    }
                    Delivery::Held(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        std::future::pending::<()>().await;
                    }
                    Delivery::Slowly(bytes) => {
                        let _ = stream.write_all(&bytes).await;
                        while stream.write_all(b"x").await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                }
            });
        }
    });
    (url, count)
}

/// Makes a sealed call to the hostile server, and returns its error; checks that the call was sent once.
async fn called(service: &std::sync::Arc<Service>, method: Method, sent: Delivery) -> Error {
    let (url, count) = hostile(sent).await;
    let settings = Client::builder(url).authority_url(service.listen().await).trust(trusted(service));
    let client = settings.head_timeout(TIMEOUT).idle_timeout(TIMEOUT).build().unwrap();
    client.session().await.unwrap();
    let began = Instant::now();
    let err = call(&client, method, "/a", HeaderMap::new(), SECRET).await.unwrap_err();
    assert!(began.elapsed() < TIMEOUT * 4, "{err}");
    assert!(!format!("{err} {err:?}").contains("4111"), "{err:?}");
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 1, "{err}");
    err
}

fn sealed_headers(session: &str) -> String {
    format!("x-seal: 3\r\nx-kid: session:{session}\r\nx-idempotency-key: 1.r-00000000000000000000000000000000\r\n")
}

#[tokio::test]
async fn redirects_are_not_followed_and_unsealed_answers_are_reported_with_their_status() {
    let service = Service::new();
    for (status, headers) in [
        ("302 Found", "location: http://127.0.0.1:1/elsewhere\r\n"),
        ("307 Temporary Redirect", "location: /a\r\n"),
        ("200 OK", ""),
        ("500 Internal Server Error", ""),
        ("502 Bad Gateway", ""),
        ("503 Service Unavailable", "retry-after: 1\r\n"),
    ] {
        let err = called(&service, Method::POST, Delivery::Whole(answer(status, headers, b"<html>no</html>"))).await;
        let code: u16 = status[..3].parse().unwrap();
        assert!(
            matches!(err.kind(), ErrorKind::Refused { status, .. } if *status == StatusCode::from_u16(code).unwrap()),
            "{err}"
        );
    }
}

#[tokio::test]
async fn an_answer_with_a_header_missing_or_of_another_session_is_not_trusted() {
    let service = Service::new();
    let other = sealed_headers("S-00000000000000000000000000000000");
    for (headers, what) in [
        ("x-seal: 3\r\n".to_owned(), Wire::HeaderMissing("x-kid")),
        ("x-seal: 4\r\n".into(), Wire::HeaderInvalid("x-seal")),
        ("x-seal: 3\r\nx-kid: nonsense\r\n".into(), Wire::KidPrefix),
        (other, Wire::AnswerMismatch),
    ] {
        let err = called(&service, Method::POST, Delivery::Whole(answer("200 OK", &headers, &[0; 64]))).await;
        assert!(matches!(err.kind(), ErrorKind::Untrusted(told) if *told == what), "{headers}: {err}");
    }
}

#[tokio::test]
async fn a_long_unsealed_answer_is_reported_by_its_beginning() {
    let service = Service::new();
    let err = called(&service, Method::POST, Delivery::Whole(answer("200 OK", "", &vec![b'a'; 10 << 20]))).await;
    assert!(matches!(err.kind(), ErrorKind::Refused { body, .. } if body.len() == 300), "{err}");
}

#[tokio::test]
async fn broken_slow_and_malformed_answers_are_reported_in_time() {
    let service = Service::new();
    let mut cut = answer("200 OK", "", b"some bytes of many");
    cut.truncate(cut.len() - 5);
    for sent in
        [Delivery::Whole(cut.clone()), Delivery::Whole(b"SSH-2.0-x\r\n\r\n".to_vec()), Delivery::Whole(Vec::new())]
    {
        let err = called(&service, Method::POST, sent).await;
        assert!(matches!(err.kind(), ErrorKind::Network { .. }), "{err}");
    }
    let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_vec();
    for sent in [
        Delivery::Held(cut),
        Delivery::Held(Vec::new()),
        Delivery::Held(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Delivery::Slowly(begun),
    ] {
        let err = called(&service, Method::POST, sent).await;
        assert!(matches!(err.kind(), ErrorKind::Timeout { .. }), "{err}");
    }
}

#[tokio::test]
async fn an_answer_that_stops_behind_its_head_is_a_timeout_though_its_request_waits_for_its_source() {
    let service = Service::new();
    let mut cut = answer("401 Unauthorized", "", b"some bytes of many");
    cut.truncate(cut.len() - 5);
    let (url, _) = hostile(Delivery::Held(cut)).await;
    let settings = Client::builder(url).authority_url(service.listen().await).trust(trusted(&service));
    let client = settings.head_timeout(TIMEOUT).idle_timeout(TIMEOUT).build().unwrap();
    client.session().await.unwrap();
    // The source stays open and has nothing more.
    let (source, body) = mpsc::channel(1);
    source.send("begun".into()).await.unwrap();
    let sent = client.send(Request::post("/a").body(Flowing(body)).unwrap());
    let err = tokio::time::timeout(TIMEOUT * 8, sent).await.expect("the call has an end").unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { .. }), "{err}");
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let service = Service::new();
    let many =
        format!("HTTP/1.1 200 OK\r\n{}", "x-padding: 0123456789012345678901234567890123456789\r\n".repeat(10_000));
    let err = called(&service, Method::POST, Delivery::Whole(many.into_bytes())).await;
    assert!(matches!(err.kind(), ErrorKind::Network { .. }), "{err}");
}

#[tokio::test]
async fn a_call_that_its_caller_gives_up_harms_no_other() {
    let service = Service::new();
    let (url, _) = hostile(Delivery::Held(Vec::new())).await;
    let settings = Client::builder(url).authority_url(service.listen().await);
    let client = settings.trust(trusted(&service)).build().unwrap();
    let began = Instant::now();
    let given_up = tokio::time::timeout(Duration::from_millis(200), post(&client, "/a", SECRET)).await;
    assert!(given_up.is_err() && began.elapsed() < Duration::from_secs(5));
    let id = client.session().await.unwrap().id;
    assert_eq!(client.session().await.unwrap().id, id);
    assert_eq!(service.count("POST /v3/sessions"), 1);
}
