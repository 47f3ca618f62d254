//! Answers of a service behind a sealed route: `spec/session.md#service-answers`, both wires.

use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::{WireSession, open};

use crate::{BINARY, BOTH, MIB};

/// A service whose answer depends on the path.
fn serve() -> Upstream {
    let serve = |received: &sealway_testkit::upstream::RequestHead,
                 connection: &mut sealway_testkit::raw_http::Connection| {
        let body = connection.read_body(&received.headers, false)?;
        let (_, target) = received.method_and_target();
        let mut words = target.trim_start_matches('/').splitn(2, '/');
        let (what, argument) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match what {
            "status" => {
                let headers =
                    [("Content-Type", "text/html"), ("X-Service", "kept"), ("X-Kid", "forged"), ("ETag", "\"1\"")];
                connection.write(&answer(&format!("{argument} Whatever"), &headers, b"from the service"))?;
            }
            "hop" => {
                let headers = [
                    ("Connection", "X-Nominated"),
                    ("X-Nominated", "1"),
                    ("Keep-Alive", "timeout=1"),
                    ("Server-Timing", "theirs;dur=1"),
                    ("Access-Control-Allow-Origin", "*"),
                    ("Set-Cookie", "a=b"),
                    ("Set-Cookie", "c=d"),
                    ("Content-Encoding", "gzip"),
                ];
                connection.write(&answer("200 OK", &headers, b"x"))?;
            }
            "size" => connection.write(&answer("200 OK", &[], &vec![b'x'; argument.parse()?]))?,
            "chunks" => {
                connection.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for _ in 0..argument.parse::<usize>()? {
                    connection.write_chunk(&[b'x'; 1024])?;
                }
                connection.write_chunk(b"")?;
            }
            "cut" => connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")?,
            "cut-chunk" => {
                connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")?;
            }
            "hang-up" => {}
            "junk" => connection.write(b"SMTP ready\r\n\r\n")?,
            "slow" => std::thread::sleep(Duration::from_secs(3)),
            "slow-body" => {
                connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")?;
                std::thread::sleep(Duration::from_secs(3));
            }
            _ => connection.write(&answer("200 OK", &[], &body))?,
        }
        Ok(body)
    };
    Upstream::serve(serve).unwrap()
}

fn server() -> SocketAddr {
    static SETUP: OnceLock<(Server, Upstream)> = OnceLock::new();
    let (server, _) = SETUP.get_or_init(|| {
        let upstream = serve();
        // A port that was free a moment ago: no process listens.
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /gone }}, sealed: required, upstream: gone }}
  - {{ match: {{ path_prefix: /slow }}, sealed: required, upstream: slow }}
  - {{ match: {{ path_prefix: /small }}, sealed: required, upstream: service, sealed_body_max: 1000 }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams:
  gone: {{ servers: ['http://{nobody}'] }}
  slow: {{ servers: ['http://{address}'], timeouts: {{ response_ms: 400 }} }}
  service: {{ servers: ['http://{address}'] }}
",
            address = upstream.address
        );
        (Launch::new(BINARY, &config).start().unwrap(), upstream)
    });
    server.address()
}

fn agreed(wire: Wire) -> WireSession {
    WireSession::open(server(), wire, "/session/init").unwrap()
}

fn unavailable(path: &str, status: u16) {
    for wire in BOTH {
        let agreed = agreed(wire);
        let started = Instant::now();
        let (request, _) = agreed.seal(path, b"x");
        let answer = request.send(server()).unwrap();
        answer.assert_error(path, status, "SERVICE_UNAVAILABLE");
        assert!(answer.header("x-kid").is_none() && started.elapsed() < Duration::from_millis(2500), "{path}");
        assert_eq!(request.send(server()).unwrap().status, 400, "the nonce is spent: it is not known what was done");
    }
}

#[test]
fn success_is_sealed_and_sent_as_200() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for status in [200, 201, 202, 203, 204, 206, 299] {
            let (answer, plain) = agreed.call(&format!("/status/{status}"), b"x").unwrap();
            let text = if status == 204 { "" } else { "from the service" };
            assert_eq!((answer.status, String::from_utf8_lossy(&plain).as_ref()), (200, text), "{status}");
            assert_eq!(answer.header("x-service"), Some("kept"));
            assert!(answer.header("etag").is_none());
        }
    }
}

#[test]
fn a_400_or_422_of_the_service_becomes_an_unsealed_400() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for status in [400, 422] {
            let (request, _) = agreed.seal(&format!("/status/{status}"), b"x");
            let answer = request.send(server()).unwrap();
            answer.assert_error("unreadable", 400, "CRYPTO_ERROR");
            assert!(answer.header("x-kid").is_none() && answer.header("x-service").is_none());
        }
    }
}

#[test]
fn any_other_status_is_kept_and_its_body_sealed() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for status in
            [300, 301, 302, 303, 307, 401, 402, 403, 404, 405, 409, 410, 418, 429, 451, 500, 501, 502, 503, 504, 599]
        {
            let (request, pending) = agreed.seal(&format!("/status/{status}"), b"x");
            let answer = request.send(server()).unwrap();
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("x-kid"), Some(format!("session:{}", agreed.id()).as_str()), "{status}");
            assert_eq!(open(&pending, &answer).unwrap(), b"from the service", "{status}");
            if wire == Wire::V1 {
                let mut other = answer.clone();
                other.status = 200;
                assert!(open(&pending, &other).is_err(), "wire 1 binds the status");
            }
        }
    }
}

#[test]
fn not_modified_seals_nothing_and_is_502() {
    unavailable("/status/304", 502);
}

#[test]
fn a_service_that_gives_no_whole_answer_is_502() {
    for path in ["/gone", "/cut", "/cut-chunk", "/hang-up", "/junk"] {
        unavailable(path, 502);
    }
}

#[test]
fn a_service_that_is_too_slow_is_504_before_and_within_its_answer() {
    unavailable("/slow", 504);
    unavailable("/slow-body", 504);
}

#[test]
fn an_answer_longer_than_a_sealed_body_may_be_is_502() {
    for path in ["/size/1048577", "/size/20000000", "/chunks/1025"] {
        unavailable(path, 502);
    }
    for wire in BOTH {
        let agreed = agreed(wire);
        for (path, len) in [("/size/0", 0), ("/size/1048576", MIB), ("/chunks/1024", MIB)] {
            let (answer, plain) = agreed.call(path, b"x").unwrap();
            assert_eq!((answer.status, plain.len()), (200, len), "{path}");
        }
    }
}

#[test]
fn headers_of_the_services_connection_and_body_do_not_come_through() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let (answer, _) = agreed.call("/hop", b"x").unwrap();
        for name in ["x-nominated", "keep-alive", "access-control-allow-origin", "content-encoding"] {
            assert_eq!(answer.header(name), None, "{name}");
        }
        assert_eq!(answer.all("set-cookie"), ["a=b", "c=d"]);
        assert!(!answer.header("server-timing").unwrap().contains("theirs"));
    }
}

#[test]
fn an_answer_belongs_to_its_session_and_opens_once_changed_no_more() {
    for wire in BOTH {
        let (mine, other) = (agreed(wire), agreed(wire));
        let (request, _) = mine.seal("/echo", b"x");
        let (_, others) = other.seal("/echo", b"x");
        let mut answer = request.send(server()).unwrap();
        assert!(open(&others, &answer).is_err());
        let (_, pending) = mine.seal("/echo", b"x");
        assert!(open(&pending, &answer).is_ok(), "wires 1 and 2 do not bind an answer to its request");
        answer.body[0] ^= 1;
        assert!(open(&pending, &answer).is_err());
    }
}
