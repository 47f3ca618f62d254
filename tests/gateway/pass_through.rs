//! Routes that are not sealed, or not always: streaming in both directions, bounds, headers, and no way around a sealed path.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession};
use serde_json::json;

use crate::BINARY;

fn config(upstream: SocketAddr) -> String {
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: service }}
  - {{ match: {{ path_prefix: /either/ }}, sealed: optional, upstream: service }}
  - {{ match: {{ path_prefix: /small/ }}, upstream: service, body_max: 1000 }}
  - {{ match: {{ path_prefix: /slow }}, upstream: slow }}
  - {{ match: {{}}, sealed: 'off', upstream: service }}
upstreams:
  service: {{ servers: ['http://{upstream}'] }}
  slow: {{ servers: ['http://{upstream}'], timeouts: {{ response_ms: 300, idle_ms: 300 }} }}
limits: {{ body_idle_ms: 700 }}
"
    )
}

/// The service returns the received request as JSON.
fn mirror(received: &RequestHead, body: &[u8]) -> Vec<u8> {
    let (method, target) = received.method_and_target();
    let text = json!({
        "method": method, "target": target, "headers": received.headers, "body": String::from_utf8_lossy(body),
    });
    let text = text.to_string();
    match target {
        "/status/304" => answer("304 Not Modified", &[("ETag", "\"1\"")], b""),
        "/status/404" => {
            answer("404 Not Found", &[("Content-Type", "text/html"), ("X-Two", "1"), ("X-Two", "2")], b"no")
        }
        "/slow" => {
            std::thread::sleep(Duration::from_secs(1));
            answer("200 OK", &[], b"late")
        }
        "/slow-body" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_vec(),
        _ if method == "HEAD" => b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nConnection: close\r\n\r\n".to_vec(),
        _ => answer("200 OK", &[("Content-Type", "application/json")], text.as_bytes()),
    }
}

fn server() -> SocketAddr {
    static SETUP: OnceLock<(Server, Upstream)> = OnceLock::new();
    let (server, _) = SETUP.get_or_init(|| {
        let upstream = Upstream::answering(mirror).unwrap();
        (Launch::new(BINARY, &config(upstream.address)).start().unwrap(), upstream)
    });
    server.address()
}

#[test]
fn a_plain_request_passes_as_sent() {
    let request = Request::new("PUT", "/a%2Fb//c/./d?x=%20&y")
        .header("X-Kid", "kept on a plain route")
        .header("X-Custom", "1")
        .header("X-Custom", "2")
        .header("Content-Type", "text/csv")
        .header("X-Forwarded-For", "6.6.6.6")
        .header("Connection", "close, X-Hop")
        .header("X-Hop", "1")
        .body("a,b");
    let seen = request.send(server()).unwrap().json();
    assert_eq!(seen["method"], "PUT");
    assert_eq!(seen["target"], "/a%2Fb//c/./d?x=%20&y");
    assert_eq!(seen["body"], "a,b");
    let all = |name: &str| -> Vec<String> {
        let headers = seen["headers"].as_array().unwrap().iter();
        headers.filter(|pair| pair[0] == name).map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(all("x-custom"), ["1", "2"]);
    assert_eq!((all("content-type"), all("x-kid")), (vec!["text/csv".into()], vec!["kept on a plain route".into()]));
    assert_eq!((all("x-forwarded-for"), all("x-hop").len()), (vec!["127.0.0.1".to_owned()], 0));
}

#[test]
fn answers_pass_as_given_whatever_their_status() {
    let answer = Request::get("/status/404").send(server()).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (404, "no"));
    assert_eq!((answer.all("x-two"), answer.header("content-type")), (vec!["1", "2"], Some("text/html")));
    assert!(answer.header("server-timing").unwrap().contains("total;dur="));
    let answer = Request::get("/status/304").send(server()).unwrap();
    assert_eq!((answer.status, answer.header("etag")), (304, Some("\"1\"")));
    for method in ["GET", "DELETE", "PATCH", "OPTIONS", "PURGE"] {
        assert_eq!(Request::new(method, "/x").send(server()).unwrap().json()["method"], method);
    }
}

#[test]
fn head_has_the_length_and_no_body_and_the_connection_goes_on() {
    let mut connection = Connection::open(server()).unwrap();
    let keep = |request: Request| request.header("Connection", "keep-alive").bytes();
    connection.write(&keep(Request::new("HEAD", "/x"))).unwrap();
    let head = connection.read_answer("HEAD").unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("1234")));
    connection.write(&keep(Request::get("/after"))).unwrap();
    assert_eq!(connection.read_answer("GET").unwrap().json()["target"], "/after");
}

#[test]
fn an_optional_route_takes_both_kinds_and_an_unsealed_header_makes_it_none() {
    let plain = Request::post("/either/x", "in plain").send(server()).unwrap();
    assert_eq!((plain.status, plain.json()["body"].as_str()), (200, Some("in plain")));
    let seen = Request::get("/either/x").send(server()).unwrap().json();
    assert_eq!(seen["method"], "GET");
    for wire in [Wire::V1, Wire::V2] {
        let agreed = WireSession::open(server(), wire, "/session/init").unwrap();
        let (answer, opened) = agreed.call("/either/x", b"sealed").unwrap();
        let seen: serde_json::Value = serde_json::from_slice(&opened).unwrap();
        assert_eq!((answer.status, seen["body"].as_str()), (200, Some("sealed")));
    }
    let half = |name: &str| Request::post("/either/x", "in plain").header(name, "x").send(server()).unwrap();
    for name in ["X-Kid", "X-Idempotency-Key"] {
        half(name).assert_error(name, 400, "CRYPTO_ERROR");
    }
    // Wire 3 returns it as a problem document.
    let answer = half("X-Seal");
    assert_eq!((answer.status, answer.json()["code"].as_str()), (400, Some("unsealable")));
}

#[test]
fn a_body_over_its_bound_is_413_whether_announced_or_not() {
    assert_eq!(Request::post("/small/x", vec![b'x'; 1000]).send(server()).unwrap().status, 200);
    assert_eq!(Request::post("/small/x", vec![b'x'; 1000]).chunked(100).send(server()).unwrap().status, 200);
    for len in [1001, 10 * 1024 * 1024] {
        let answer = Request::post("/small/x", vec![b'x'; len]).send(server()).unwrap();
        answer.assert_error("announced", 413, "PAYLOAD_TOO_LARGE");
    }
    let answer = Request::post("/small/x", vec![b'x'; 1001]).chunked(200).send(server()).unwrap();
    answer.assert_error("chunked", 413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn no_other_spelling_of_a_sealed_path_reaches_the_service_in_plain() {
    for path in [
        "/transaction/purchase",
        "//transaction/purchase",
        "/x/../transaction/purchase",
        "/./transaction/purchase",
        "/%74ransaction/purchase",
        "/%2574ransaction/purchase",
        "/transaction%2fpurchase",
        "/transaction%2Fpurchase",
        "/x/%2e%2e/transaction/purchase",
        "/transaction;v=1/purchase",
        "/transaction\\purchase",
        "/either/../transaction/purchase",
        "/transaction/../transaction/purchase",
        "/TRANSACTION/purchase",
        "/transaction",
    ] {
        let answer = Request::post(path, ORDER).send(server()).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (400, r#"{"error":"CRYPTO_ERROR"}"#), "{path}");
    }
    let absolute = Request::post("http://localhost/transaction/purchase", ORDER).send(server()).unwrap();
    assert_eq!(absolute.status, 400, "{}", absolute.text());
    let sealed = WireSession::open(server(), Wire::V2, "/session/init").unwrap();
    let (request, _) = sealed.seal(PURCHASE, ORDER);
    request.target("/x/../transaction/purchase").send(server()).unwrap().assert_error("sealed", 400, "CRYPTO_ERROR");
    for path in ["/transactions/x", "/x/transaction/purchase", "/x/TRANSACTION/purchase"] {
        assert_eq!(Request::post(path, "x").send(server()).unwrap().json()["target"], path);
    }
}

#[test]
fn a_chunk_in_is_a_chunk_out_both_ways() {
    // The service reports the bytes that arrived, and sends a chunk when the test allows it.
    type Ends = (Sender<Vec<u8>>, Mutex<Receiver<Vec<u8>>>);
    let (arrived, arrives) = channel();
    let (release, released) = channel();
    let ends: Ends = (arrived, Mutex::new(released));
    let upstream = Upstream::serve(move |_, connection| {
        loop {
            let chunk = connection.read_chunk()?;
            ends.0.send(chunk.clone())?;
            if chunk.is_empty() {
                break;
            }
        }
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")?;
        let released = ends.1.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        while let Ok(chunk) = released.recv_timeout(Duration::from_secs(10)) {
            connection.write_chunk(&chunk)?;
            if chunk.is_empty() {
                break;
            }
        }
        Ok(Vec::new())
    });
    let upstream = upstream.unwrap();
    let server = Launch::new(BINARY, &config(upstream.address)).start().unwrap();
    let mut connection = Connection::open(server.address()).unwrap();
    let wait = Duration::from_secs(10);

    connection.write(&Request::post("/stream", "").chunked(1).head_bytes()).unwrap();
    for chunk in [&b"first"[..], b"second"] {
        connection.write_chunk(chunk).unwrap();
        assert_eq!(arrives.recv_timeout(wait).unwrap(), chunk, "before the next is sent");
    }
    connection.write_chunk(b"").unwrap();
    assert_eq!(arrives.recv_timeout(wait).unwrap(), b"");
    let (line, _) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "the head comes before the body: {line}");
    for chunk in [&b"one"[..], b"two", b""] {
        release.send(chunk.to_vec()).unwrap();
        assert_eq!(connection.read_chunk().unwrap(), chunk);
    }
}

#[test]
fn large_bodies_pass_both_ways_unchanged() {
    let upstream = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
    let server = Launch::new(BINARY, &config(upstream.address)).start().unwrap();
    let body: Vec<u8> = (0..20_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let answer = Request::post("/echo", body.clone()).send(server.address()).unwrap();
    assert!(answer.status == 200 && answer.body == body);
}

#[test]
fn a_request_whose_framing_can_be_read_in_two_ways_reaches_the_service_in_one_or_not_at_all() {
    let head = "POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let chunked = "5\r\nhello\r\n0\r\n\r\n";
    for (framing, body) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunked),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunked),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked),
        ("Transfer-Encoding: chunked, identity\r\n", chunked),
        ("Transfer-Encoding: xchunked\r\n", chunked),
        ("Transfer-Encoding : chunked\r\n", chunked),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"),
        ("Content-Length: 5, 6\r\n", "hello!"),
        ("Content-Length: +5\r\n", "hello"),
        ("Content-Length: 0x5\r\n", "hello"),
        ("Transfer-Encoding:\r\n chunked\r\n", chunked),
        ("Transfer-Encoding: chunked\r\n", "5;x=\"\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n"),
        ("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let mut connection = Connection::open(server()).unwrap();
        connection.write(format!("{head}{framing}\r\n{body}").as_bytes()).unwrap();
        let Ok(answer) = connection.read_answer("POST") else { continue };
        if answer.status == 200 {
            let seen = answer.json();
            let headers = seen["headers"].as_array().unwrap();
            let framings = headers.iter().filter(|pair| {
                let name = pair[0].as_str().unwrap();
                name == "content-length" || name == "transfer-encoding"
            });
            assert_eq!((framings.count(), seen["body"].as_str()), (1, Some("hello")), "{framing} {body}");
        } else {
            assert_eq!(answer.status, 400, "the fault is the client's: {framing} {body}");
        }
    }
}

#[test]
fn a_service_that_is_slow_or_breaks_off_is_no_whole_answer() {
    Request::get("/slow").send(server()).unwrap().assert_error("slow", 504, "SERVICE_UNAVAILABLE");
    let cut = Request::get("/slow-body").send(server());
    assert!(cut.is_err(), "an answer that broke off must not look whole: {cut:?}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Launch::new(BINARY, &config(nobody)).start().unwrap();
    Request::get("/x").send(server.address()).unwrap().assert_error("nobody", 502, "SERVICE_UNAVAILABLE");
}

#[test]
fn a_client_that_stops_sending_gets_408() {
    let mut connection = Connection::open(server()).unwrap();
    connection.write(&Request::post("/x", "").header("Content-Length", "100").head_bytes()).unwrap();
    connection.write(b"half").unwrap();
    let answer = connection.read_answer("POST").unwrap();
    answer.assert_error("idle", 408, "BAD_REQUEST");
}
