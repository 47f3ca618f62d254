//! Clients that send little and hold much: headers alone, slow bodies, sessions that end while their streams continue,
//! and stamps that expire while a body arrives. Other clients are served all the while.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod ground;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use ground::{DATA, Ground, HEADERS, PATIENCE, RST_STREAM, SETTINGS, frame, until};
use sealway_proto::session::native::Suite;
use sealway_proto::wire::{SessionId, Wire};
use sealway_testkit::native_client::{code, init, offer};
use sealway_testkit::raw_http::{Connection, Request, find};
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::WireSession;
use serde_json::json;
use socket2::{Domain, Socket, Type};

fn answering() -> Upstream {
    Upstream::answering(|_, _| answer("200 OK", &[], b"served")).unwrap()
}

/// Opens a connection of HTTP/2 with 256 streams, each with the headers of a request to `path` and no body.
fn headers_alone(ground: &Ground, path: &str) -> TcpStream {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // POST, http, the path, the host and a content type (RFC 7541 section 6).
    let path = [&[0x83, 0x86, 0x04], text(path).as_slice()].concat();
    let block =
        [path, [&[0x01], text("h").as_slice()].concat(), [&[0x0f, 0x10], text("application/json").as_slice()].concat()];
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(SETTINGS, 0, 0, &[]).as_slice()].concat();
    (0..256).for_each(|number| bytes.extend(frame(HEADERS, 4, 2 * number + 1, &block.concat())));
    let mut stream = TcpStream::connect(ground.address).unwrap();
    stream.write_all(&bytes).unwrap();
    stream
}

#[test]
fn headers_alone_take_no_room_from_the_inits_of_others() {
    let ground = Ground::start(json!({"routes": [], "limits": {"buffered_bytes_max": 134_217_728}}));
    for path in ["/v3/sessions", "/session/init", "/v1/session/init"] {
        let attack = headers_alone(&ground, path);
        until("all streams are open", || ground.connections.list(9).iter().any(|open| open.requests == 256));
        for _ in 0..3 {
            let (_, request) = init(offer(Suite::P256, &[]));
            // Without an announced length.
            let answer = request.chunked(100).send(ground.address).unwrap();
            assert_eq!(answer.status, 201, "{path}: {}", answer.text());
        }
        drop(attack);
        until("the connection has ended", || ground.connections.open() == 0);
    }
}

#[test]
fn a_request_that_its_client_resets_is_never_passed_on_as_whole() {
    let upstream = answering();
    let ground = Ground::before(upstream.address, "off", "auto");
    let path = [&[0x83, 0x86, 0x84, 0x01, 1], b"h".as_slice()].concat();
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(SETTINGS, 0, 0, &[]).as_slice()].concat();
    let mut resets = Vec::new();
    for code in 0..14_u32 {
        let stream = 2 * code + 1;
        bytes.extend([frame(HEADERS, 4, stream, &path), frame(DATA, 0, stream, b"hel")].concat());
        resets.extend(frame(RST_STREAM, 0, stream, &code.to_be_bytes()));
    }
    let mut stream = TcpStream::connect(ground.address).unwrap();
    stream.write_all(&bytes).unwrap();
    until("all requests began", || ground.connections.list(9).iter().any(|open| open.requests == 14));
    stream.write_all(&resets).unwrap();
    // A request that is reset in the same write does not even begin.
    let both = [frame(HEADERS, 4, 29, &path), frame(RST_STREAM, 0, 29, &[0, 0, 0, 8])].concat();
    stream.write_all(&both).unwrap();
    assert_eq!(Request::post("/x", "honest").send(ground.address).unwrap().status, 200);
    assert_eq!(upstream.next().unwrap().1, b"honest");
    drop(stream);
    until("the connection has ended", || ground.connections.open() == 0);
    assert!(upstream.is_untouched());
}

/// Sends all but the last byte of a request, calls `meanwhile`, and sends that byte; returns the answer.
fn interrupted(ground: &Ground, request: &Request, meanwhile: impl FnOnce()) -> String {
    let mut connection = Connection::open(ground.address).unwrap();
    let bytes = request.bytes();
    let (most, last) = bytes.split_at(bytes.len() - 1);
    connection.write(most).unwrap();
    // The gateway has read the head and found its session.
    thread::sleep(Duration::from_millis(300));
    meanwhile();
    connection.write(last).unwrap();
    let answer = connection.read_answer(request.method_name()).unwrap();
    format!("{} {}", answer.status, answer.text())
}

#[test]
fn a_session_and_a_stamp_are_looked_at_again_when_the_body_is_there() {
    let upstream = answering();
    let mut told = Vec::new();
    for late in ["revoked", "too old"] {
        for wire in [Wire::V1, Wire::V2, Wire::Native] {
            let ground = Ground::before(upstream.address, "required", "auto");
            let (id, request) = match wire {
                Wire::Native => {
                    let agreed = ground.agree();
                    (agreed.session.agreed().session_id, agreed.seal("POST", "/x", &[b"late"]).0)
                }
                old => {
                    let agreed = WireSession::open(ground.address, old, "/session/init").unwrap();
                    (SessionId::parse(&agreed.id()).unwrap(), agreed.seal("/x", b"late").0)
                }
            };
            let answer = interrupted(&ground, &request, || match late {
                "revoked" => ground.revoke(&id),
                _ => ground.pass(301_000),
            });
            told.push((late, wire, answer));
        }
    }
    assert!(upstream.is_untouched(), "{told:?}");
    for (late, wire, answer) in &told {
        assert!(answer.starts_with('4'), "{late}, {wire:?}: {answer}");
    }
}

/// Starts a service that reports the head of a request, and then sends a chunk every 20 ms without end.
fn endless() -> (SocketAddr, Receiver<()>) {
    let (sender, begun) = channel();
    let upstream = Upstream::serve(move |_, connection| {
        sender.send(())?;
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            connection.write_chunk(b"more")?;
            thread::sleep(Duration::from_millis(20));
        }
    });
    (upstream.unwrap().address, begun)
}

#[test]
fn a_stream_in_flight_is_cut_when_its_session_is_revoked_or_expires() {
    let (upstream, begun) = endless();
    let ground = Ground::before(upstream, "required", "auto");
    for ends in ["revoked", "expired"] {
        let agreed = ground.agree();
        let request = agreed.seal("GET", "/x", &[]).0;
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&request.header("Connection", "close").bytes()).unwrap();
        let (line, headers) = connection.read_head().unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        begun.recv_timeout(PATIENCE).unwrap();
        connection.read_chunk().unwrap();
        match ends {
            "revoked" => ground.revoke(&agreed.session.agreed().session_id),
            _ => ground.pass(u64::from(agreed.session.agreed().expires_in_sec) * 1000),
        }
        let since = Instant::now();
        while connection.read_chunk().is_ok_and(|chunk| !chunk.is_empty()) {
            assert!(since.elapsed() < PATIENCE / 4, "{ends}: the answer goes on");
        }
        println!("{ends}: cut after {:?}", since.elapsed());
        drop(headers);
    }
    // The same for a request's body: its service gets no more of it.
    let (sender, arrived) = channel();
    let upstream = Upstream::serve(move |_, connection| {
        while let Ok(chunk) = connection.read_chunk() {
            sender.send(chunk)?;
        }
        sender.send(b"cut".to_vec())?;
        Ok(Vec::new())
    })
    .unwrap();
    let ground = Ground::before(upstream.address, "required", "auto");
    let agreed = ground.agree();
    let (request, _) = agreed.seal("POST", "/x", &[b"first", b"second"]);
    let chunked = request.chunked(1 << 20);
    let bytes = chunked.bytes();
    let mut connection = Connection::open(ground.address).unwrap();
    connection.write(&bytes[..bytes.len() - 12]).unwrap();
    assert_eq!(arrived.recv_timeout(PATIENCE).unwrap(), b"first");
    ground.revoke(&agreed.session.agreed().session_id);
    assert_eq!(arrived.recv_timeout(PATIENCE / 4).unwrap(), b"cut");
    let answer = connection.read_answer("POST").unwrap();
    assert_eq!(code(&answer), "session_expired", "{}", answer.text());
}

#[test]
fn interim_answers_never_leave_a_seal_and_follow_the_rules_of_headers_elsewhere() {
    let upstream = Upstream::serve(|_, connection| {
        connection.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nSet-Cookie: a=1\r\nX-Internal: host-7\r\n\r\n")?;
        thread::sleep(Duration::from_millis(100));
        connection.write(&answer("200 OK", &[("X-Internal", "host-7")], b"page"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let servers = [format!("http://{}", upstream.address)];
    let rules = json!({"remove": ["X-Internal"], "set": {"X-Edge": "1"}});
    let ground = Ground::start(json!({
        "routes": [
            {"match": {"path_prefix": "/sealed/"}, "sealed": "required", "upstream": "service", "response_headers": rules},
            {"match": {}, "upstream": "service", "response_headers": rules},
        ],
        "upstreams": {"service": {"servers": servers}},
    }));
    let mut connection = Connection::open(ground.address).unwrap();
    connection.write(&Request::get("/plain").bytes()).unwrap();
    let (line, headers) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 103"), "{line}");
    assert_eq!((find(&headers, "link"), find(&headers, "x-edge")), (Some("</x>"), Some("1")));
    assert_eq!(find(&headers, "x-internal"), None, "{headers:?}");
    let (agreed, old) = (ground.agree(), WireSession::open(ground.address, Wire::V2, "/session/init").unwrap());
    for request in [agreed.seal("GET", "/sealed/x", &[]).0, old.seal("/sealed/x", b"{}").0] {
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&request.bytes()).unwrap();
        let (line, headers) = connection.read_head().unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line} {headers:?}");
    }
}

/// Opens this many connections that begin a request and send only `first` of its body.
fn dribble(ground: &Ground, count: usize, head: &str, first: &str) -> Vec<TcpStream> {
    let one = |_| {
        let mut stream = TcpStream::connect(ground.address).unwrap();
        write!(stream, "POST /x HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n{first}").unwrap();
        stream
    };
    (0..count).map(one).collect()
}

#[test]
fn bodies_that_dribble_leave_connections_to_the_service_for_others() {
    let held = answering();
    let servers = [format!("http://{}", held.address)];
    let ground = Ground::start(json!({
        "routes": [{"match": {}, "upstream": "service"}],
        "upstreams": {"service": {"servers": servers, "connections_max": 8, "queue_max": 1, "timeouts": {"connect_ms": 1000}}},
    }));
    let ways = [
        ("Content-Length: 1000", "x"),
        ("Transfer-Encoding: chunked", "1\r\nx\r\n"),
        ("Content-Length: 1000\r\nExpect: 100-continue", ""),
    ];
    for (head, first) in ways {
        let dribbling = dribble(&ground, 40, head, first);
        thread::sleep(Duration::from_millis(500));
        for number in 0..10 {
            let get = Request::get("/x").send(ground.address).unwrap();
            assert_eq!(get.status, 200, "{head}: {number}: {}", get.text());
            let post = Request::post("/x", "all of it").send(ground.address).unwrap();
            assert_eq!(post.status, 200, "{head}: {number}: {}", post.text());
        }
        drop(dribbling);
        // A long body gets a place again.
        until("a long body is taken", || {
            Request::post("/x", vec![b'x'; 300_000]).send(ground.address).is_ok_and(|answer| answer.status == 200)
        });
    }
}

#[test]
fn a_client_that_waits_in_line_many_times_leaves_places_for_others() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let service = Upstream::serve(move |_, connection| {
        released.lock().unwrap().recv_timeout(PATIENCE)?;
        connection.write(&answer("200 OK", &[], b"served"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let servers = [format!("http://{}", service.address)];
    let ground = Ground::start(json!({
        "routes": [{"match": {}, "upstream": "service"}],
        "upstreams": {"service": {"servers": servers, "connections_max": 1, "queue_max": 8, "timeouts": {"connect_ms": 20_000}}},
    }));
    let to = ground.address;
    // One request is with the service, and four of the others wait: half of the queue.
    let greedy: Vec<_> = (0..8).map(|_| thread::spawn(move || get_from("127.0.0.2", to))).collect();
    until("three are turned away", || greedy.iter().filter(|request| request.is_finished()).count() == 3);
    let others = ["127.0.0.3", "127.0.0.4"].map(|client| thread::spawn(move || get_from(client, to)));
    (0..7).for_each(|_| release.send(()).unwrap());
    let statuses = |requests: Vec<thread::JoinHandle<u16>>| {
        let mut statuses: Vec<u16> = requests.into_iter().map(|request| request.join().unwrap()).collect();
        statuses.sort_unstable();
        statuses
    };
    assert_eq!(statuses(others.into()), [200, 200]);
    assert_eq!(statuses(greedy), [200, 200, 200, 200, 200, 503, 503, 503]);
}

/// Gets a path from a client's address, and returns the status.
fn get_from(client: &str, to: SocketAddr) -> u16 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(client.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut connection = Connection::over(socket.into()).unwrap();
    connection.write(&Request::get("/x").bytes()).unwrap();
    connection.read_answer("GET").unwrap().status
}

#[test]
fn a_frame_that_dribbles_is_late_as_a_whole() {
    let upstream = answering();
    let ground = Ground::start(json!({
        "body_deadline_ms": 3000,
        "routes": [{"match": {}, "sealed": "required", "upstream": "service"}],
        "upstreams": {"service": {"servers": [format!("http://{}", upstream.address)]}},
    }));
    let request = ground.agree().seal("POST", "/x", &[&[b'x'; 2000]]).0;
    let stream = TcpStream::connect(ground.address).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let since = Instant::now();
    thread::spawn(move || {
        let (head, bytes) = (request.head_bytes().len(), request.bytes());
        writer.write_all(&bytes[..head]).unwrap();
        for byte in &bytes[head..] {
            thread::sleep(Duration::from_millis(50));
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    let answer = Connection::over(stream).unwrap().read_answer("POST").unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(since.elapsed() < PATIENCE / 2, "{:?}", since.elapsed());
    assert!(upstream.is_untouched());
}
