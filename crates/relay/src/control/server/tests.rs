//! Tests of the control plane over HTTP.

use sealway_runtime::clock::ManualClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::super::rendezvous::WAIT;
use super::super::tests::issuer;
use super::*;

const TOKEN: &str = "the-only-token-of-the-tests";

fn start(
    tokens: &str,
    names_per_client_max: Option<u64>,
    tls: Option<tls::ServerFiles>,
) -> Result<ControlServer, String> {
    let settings = ControlSettings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls,
        tokens: Tokens::parse(tokens).unwrap(),
        issuer: issuer(),
        names_per_client_max,
    };
    let clock = Arc::new(ManualClock::new(1_800_000_000_000));
    ControlServer::start(settings, clock).map_err(|err| err.to_string())
}

/// An answer: its status, its head in lower case, its body.
struct Answer(u16, String, String);

/// Sends a request from an address of the loopback network.
async fn send(server: &ControlServer, from: &str, line: &str, token: &str, body: &str) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(server.addresses()[0]).await.unwrap();
    let fields =
        format!("host: c\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{line} HTTP/1.1\r\n{fields}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer(head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
}

#[tokio::test]
async fn each_path_has_its_method_and_each_error_its_status() {
    let server = start(TOKEN, None, None).unwrap();
    let named = r#"{"name":"n","role":"server"}"#;
    let long = " ".repeat(4097);
    let cases = [
        ("GET /healthz", "", "", 200, "ok"),
        ("POST /healthz", TOKEN, "", 405, "GET alone is answered here"),
        ("GET /v1/grant", TOKEN, "", 405, "POST alone is answered here"),
        ("PUT /v1/channel/init", TOKEN, "", 405, "POST alone is answered here"),
        ("POST /v1/other", TOKEN, "", 404, "no such path"),
        ("POST /v1/grant", "another-token-of-16", named, 401, "a token is needed"),
        ("POST /v1/channel/init", "", "", 401, "a token is needed"),
        ("POST /v1/grant", TOKEN, named, 200, "\"role\":2"),
        ("POST /v1/grant", TOKEN, "", 400, "name is no text"),
        ("POST /v1/channel/init", TOKEN, "", 200, "\"grant_server\":"),
        ("POST /v1/channel/init", TOKEN, r#"{"channel_id":"room"}"#, 200, "\"channel_id\":\"room\""),
        ("POST /v1/channel/init", TOKEN, r#"{"channel_id":1}"#, 400, "channel_id is no text"),
        ("POST /v1/channel/init", TOKEN, "[]", 400, "no JSON object"),
        ("POST /v1/channel/init", TOKEN, "{", 400, "no JSON: "),
        ("POST /v1/channel/init", TOKEN, &long, 413, "more than 4096 bytes"),
        ("POST /v1/channel/init", TOKEN, &long[1..], 200, "\"grant_client\":"),
    ];
    for (line, token, body, status, text) in cases {
        let Answer(answered, head, answer) = send(&server, "127.0.0.1", line, token, body).await;
        assert_eq!(answered, status, "{line} {body}: {answer}");
        assert!(answer.contains(text), "{line} {body}: {answer}");
        assert_eq!(head.contains("www-authenticate: bearer"), status == 401, "{head}");
        assert_eq!(head.contains("\r\nallow: "), status == 405, "{head}");
        if line != "GET /healthz" {
            assert!(
                head.contains("content-type: application/json") && head.contains("cache-control: no-store"),
                "{head}"
            );
            let is_error = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["error"].is_string();
            assert_eq!(is_error, status >= 400, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_client_is_a_network_if_there_is_one_token_and_a_token_if_there_are_several() {
    let other = "another-token-of-the-tests";
    for (tokens, clients) in [
        (TOKEN.to_owned(), [("127.0.0.1", TOKEN), ("127.0.0.2", TOKEN)]),
        (format!("{TOKEN}\n{other}"), [("127.0.0.1", TOKEN), ("127.0.0.1", other)]),
    ] {
        let server = start(&tokens, Some(1), None).unwrap();
        for (number, (address, token)) in clients.into_iter().enumerate() {
            for (name, status) in [("a", 200), ("b", 429), ("a", 200)] {
                let body = format!(r#"{{"name":"{name}{number}","role":"server"}}"#);
                let Answer(answered, _, answer) = send(&server, address, "POST /v1/grant", token, &body).await;
                assert_eq!(answered, status, "{address} {token} {body}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_control_plane_requires_a_token_or_a_certificate() {
    let files = |client_auth| tls::ServerFiles { cert: "none".into(), client_auth, ..tls::ServerFiles::default() };
    let unprotected = "--token-file or --tls-client-ca: without either, anybody would be given grants";
    // The files are read once that is settled.
    let of_files = "--tls-";
    for (tokens, client_auth, error) in [
        ("", None, unprotected),
        ("", Some(tls::ClientAuth::None), unprotected),
        ("", Some(tls::ClientAuth::Optional), unprotected),
        ("", Some(tls::ClientAuth::Required), of_files),
        (TOKEN, Some(tls::ClientAuth::None), of_files),
        (TOKEN, Some(tls::ClientAuth::Required), of_files),
    ] {
        let started = start(tokens, None, client_auth.map(files)).unwrap_err();
        assert!(started.starts_with(error), "{client_auth:?}: {started}");
    }
    assert!(start(TOKEN, None, None).is_ok());
}

#[tokio::test]
async fn the_end_of_a_control_plane_closes_its_connections() {
    let server = start(TOKEN, None, None).unwrap();
    let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: c\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200");
    server.stop().await;
    timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.expect("the end").unwrap();
}

#[test]
fn a_connection_on_which_a_listener_waits_is_not_idle() {
    assert!(HttpLimits::default().idle_timeout > WAIT);
}
