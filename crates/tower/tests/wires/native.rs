//! Sealed requests of wire 3.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::ground::{Ground, NOW_MS, ORIGIN, StoreFault, native_request, native_request_at};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::session::Family;
use sealway_proto::session::native::{ClientSession, InnerHeaders, PendingAnswer, Read, RequestLine, SealedCall};
use sealway_proto::wire::{ReplayPolicy, Wire, base64};
use sealway_testkit::native_client::{code, open};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::vectors::HeaderList;
use sealway_tower::Settings;

#[test]
fn any_method_goes_through_with_its_headers_within() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let inner = [("content-type", "text/x-order"), ("x-in", "1"), ("forwarded", "for=6.6.6.6")];
    for (method, frames) in
        [("POST", &[&b"an order"[..]][..]), ("PUT", &[b""]), ("GET", &[]), ("DELETE", &[]), ("POST", &[b"one", b"two"])]
    {
        let (request, pending) = native_request(&session, method, "/echo?a=b", &inner, frames);
        let answer =
            ground.send(&request.header("Cookie", "outside").header("X-In", "outside").header("X-Sealway-Tenant", "t"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let opened = open(&pending, &answer).unwrap();
        assert_eq!(opened.body, frames.concat());
        assert_eq!(opened.headers.get("x-from"), Some(&b"the application"[..]));
        assert_eq!((answer.header("x-from"), answer.header("cache-control")), (None, Some("no-store, no-transform")));
        assert!(answer.header("server-timing").unwrap().contains("upstream;dur="));
        let seen = ground.seen.lock().unwrap().pop().unwrap();
        let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((seen.method.as_str(), seen.body), (method, Ok(frames.concat())));
        assert_eq!((header("content-type"), header("x-in"), header("cookie")), (Some("text/x-order"), Some("1"), None));
        assert_eq!((header("x-sealway-subject"), header("x-sealway-auth")), (Some("alice"), Some("bearer")));
        assert_eq!((header("x-sealway-tenant"), header("forwarded"), header("x-seal")), (None, None, None));
    }
    let (request, pending) = native_request(&session, "HEAD", "/echo", &[], &[]);
    let answer = ground.send(&request);
    assert!(answer.header("x-sealed").is_some() && open(&pending, &answer).unwrap().body.is_empty());
    let (request, pending) = native_request(&session, "POST", "/status/204", &[], &[b"x"]);
    let answer = ground.send(&request);
    assert_eq!((answer.status, open(&pending, &answer).unwrap().body), (204, Vec::new()));
    let (request, pending) = native_request(&session, "POST", "/status/422", &[], &[b"x"]);
    let answer = ground.send(&request);
    assert_eq!((answer.status, open(&pending, &answer).unwrap().body), (422, b"told".to_vec()));
}

#[test]
fn forwarding_headers_count_only_from_trusted_proxies_and_never_within_a_seal() {
    for trusts_origin in [false, true] {
        let ground = Ground::new(Settings { trusts_origin, ..Settings::default() });
        let session = ground.native();
        let within: Vec<(&str, &str)> = ORIGIN.iter().map(|name| (*name, "within")).collect();
        let (request, _) = native_request(&session, "POST", "/echo", &within, &[b"an order"]);
        assert_eq!(ground.send(&request).status, 200);
        let (request, _) = native_request(&session, "POST", "/echo", &within, &[b"an order"]);
        let request = ORIGIN.iter().fold(request, |request, name| request.header(name, "outside"));
        assert_eq!(ground.send(&request.header("Traceparent", "00-1-2-01")).status, 200);
        let seen = ground.seen.lock().unwrap();
        for name in ORIGIN {
            assert_eq!(seen[0].headers.get(name), None, "{name}");
            let told = seen[1].headers.get(name).map(|value| value.to_str().unwrap());
            // A trusted peer writes hyphens; a similar name with underscores comes from the client.
            let is_told = trusts_origin && !name.contains('_');
            assert_eq!(told, is_told.then_some("outside"), "{name}");
        }
        assert_eq!(seen[1].headers["traceparent"], "00-1-2-01");
    }
}

#[test]
fn without_its_store_nothing_is_served_and_the_client_may_try_later() {
    for broken in [StoreFault::Away, StoreFault::Silent, StoreFault::Claims] {
        let ground = Ground::new(Settings { store_deadline: Duration::from_millis(200), ..Settings::default() });
        let session = ground.native();
        for frames in [&[&b"an order"[..]][..], &[b"one", b"two"]] {
            let (request, _) = native_request(&session, "POST", "/echo", &[], frames);
            ground.breaks(broken);
            let began = std::time::Instant::now();
            let answer = ground.send(&request);
            assert_eq!((answer.status, code(&answer).as_str()), (503, "store_unavailable"), "{broken:?}");
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert!(began.elapsed() < Duration::from_secs(5) && ground.served() == 0);
            ground.breaks(StoreFault::Not);
        }
    }
}

#[test]
fn long_bodies_flow_both_ways() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let frame = vec![b'y'; 60_000];
    let (request, pending) = native_request(&session, "POST", "/long", &[], &[&frame, &frame, &frame]);
    let answer = ground.send(&request.chunked(1000));
    let opened = open(&pending, &answer).unwrap();
    assert!(opened.body.len() == 300_000 && opened.frames > 4);
    assert_eq!(ground.seen.lock().unwrap()[0].body.as_ref().unwrap().len(), 180_000);
}

/// Returns the next chunk of an answer's body; `read` holds bytes beyond its head.
fn chunk(stream: &mut TcpStream, read: &mut Vec<u8>) -> Vec<u8> {
    loop {
        let line = read.windows(2).position(|pair| pair == b"\r\n");
        if let Some(at) = line {
            let len = usize::from_str_radix(std::str::from_utf8(&read[..at]).unwrap(), 16).unwrap();
            if read.len() >= at + 2 + len + 2 {
                let chunk = read[at + 2..at + 2 + len].to_vec();
                read.drain(..at + 2 + len + 2);
                return chunk;
            }
        }
        let mut more = [0; 4096];
        let len = stream.read(&mut more).unwrap();
        assert!(len > 0, "the answer ended");
        read.extend_from_slice(&more[..len]);
    }
}

#[test]
fn a_piece_is_handed_on_before_the_rest_is_there_both_ways() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let (request, pending) = native_request(&session, "POST", "/flow", &[], &[b"one", b"two"]);
    let bytes = request.bytes();
    // The second frame is its length, three bytes and a tag.
    let (begin, rest) = bytes.split_at(bytes.len() - (4 + 3 + 16));
    let mut stream = TcpStream::connect(ground.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(begin).unwrap();
    let mut read = Vec::new();
    let head = loop {
        let mut more = [0; 4096];
        let len = stream.read(&mut more).expect("nothing is answered before the request is whole");
        read.extend_from_slice(&more[..len]);
        if let Some(at) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break String::from_utf8(read.drain(..at + 4).collect()).unwrap();
        }
    };
    let pairs = head.lines().filter_map(|line| line.split_once(": "));
    let headers: HeaderList = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (_, mut opener) = pending.open(default_agreement_provider(), &headers, 200).unwrap();
    let mut next = |stream: &mut TcpStream| {
        let mut frame = Vec::new();
        loop {
            let chunk = chunk(stream, &mut read);
            let read = opener.read(&mut chunk.as_slice(), &mut frame).unwrap();
            if read != Read::More {
                return (frame, read);
            }
        }
    };
    let (first, _) = next(&mut stream);
    let (_, at) = InnerHeaders::parse(&first).unwrap();
    assert_eq!(&first[at..], b"one");
    stream.write_all(rest).unwrap();
    assert_eq!(next(&mut stream).0, b"two");
}

#[test]
fn a_request_that_does_not_open_is_a_problem_with_its_code_and_no_handler_runs() {
    let ground = Ground::new(Settings { body_max: 100_000, ..Settings::default() });
    let session = ground.native();
    let fresh = || native_request(&session, "POST", "/echo", &[], &[b"an order"]).0;
    let bent = |at: usize| {
        let mut body = fresh().body_bytes().to_vec();
        body[at] ^= 1;
        body
    };
    let one = fresh();
    let long = [one.body_bytes(), b"x"].concat();
    let (bent_commit, bent_tag, cut) = (bent(0), bent(30), one.body_bytes()[..30].to_vec());
    for (what, request, told, status) in [
        ("commit", fresh().body(bent_commit), "unsealable", 400),
        ("tag", fresh().body(bent_tag), "unsealable", 400),
        ("cut", one.clone().body(cut), "unsealable", 400),
        ("long", one.clone().body(long), "unsealable", 400),
        ("other method", fresh().method("PUT"), "unsealable", 400),
        ("other target", fresh().target("/echo?b"), "unsealable", 400),
        ("other type", fresh().set("Content-Type", "text/plain"), "unsealable", 400),
        ("no kid", fresh().without("x-kid"), "unsealable", 400),
        ("wire 4", fresh().set("x-seal", "4"), "wire_disabled", 403),
        ("a seal of no wire", fresh().set("x-seal", "5"), "unsealable", 400),
        ("both places", fresh().header("x-sealed", "AAAA"), "unsealable", 400),
        ("too large", fresh().body(vec![0; 100_001]), "too_large", 413),
        ("unknown", fresh().set("x-kid", "session:S-00000000000000000000000000000000"), "session_expired", 401),
    ] {
        let answer = ground.send(&request);
        assert_eq!((code(&answer).as_str(), answer.status), (told, status), "{what}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
    }
    let old = ground.old(Family::Session, Wire::V2);
    let answer = ground.send(&fresh().set("x-kid", old.id().kid()));
    assert_eq!(code(&answer), "unsealable");
    assert_eq!(ground.served(), 0);
    ground.set_clock(NOW_MS + 600_000);
    assert_eq!(code(&ground.send(&fresh())), "session_expired");
}

#[test]
fn a_header_with_a_frame_that_is_not_the_last_is_rejected_before_the_handler_runs() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let line = RequestLine { method: "GET", target: "/echo" };
    let SealedCall { headers, mut sealer, .. } =
        session.seal(default_agreement_provider(), line, "", NOW_MS, &[9; 16]).unwrap();
    let mut stream = Vec::new();
    let begun = sealer.begin(&mut stream);
    InnerHeaders::new().encode(&mut stream);
    sealer.seal(&mut stream, begun, false).unwrap();
    let sealed = Request::get("/echo").header("X-Sealed", base64::encode(&stream));
    let request = headers.into_iter().fold(sealed, |request, (name, value)| request.header(name, value));
    let answer = ground.send(&request);
    assert_eq!((answer.status, code(&answer).as_str(), ground.served()), (400, "unsealable", 0));
}

#[test]
fn a_wrong_clock_gets_the_proven_time() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    ground.set_clock(NOW_MS + 300_001);
    let (request, pending) = native_request(&session, "POST", "/echo", &[], &[b"an order"]);
    let answer = ground.send(&request);
    assert_eq!(proven_time(&pending, &session, &answer), NOW_MS + 300_001);
}

/// The server's time of a `clock_skew`, in milliseconds, once its proof has verified.
fn proven_time(pending: &PendingAnswer<'_>, session: &ClientSession, answer: &Answer) -> u64 {
    assert_eq!(code(answer), "clock_skew");
    let told = answer.json();
    let (time, mac) = (told["server_time_ms"].as_u64().unwrap(), base64::decode_array(told["mac"].as_str().unwrap()));
    let (stamp, nonce) = pending.stamp_and_nonce();
    assert!(session.verifies_clock(default_agreement_provider(), stamp, nonce, time, &mac.unwrap()));
    time
}

#[test]
fn a_request_is_served_once_however_many_send_it() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let (request, _) = native_request(&session, "POST", "/echo", &[], &[b"an order"]);
    let codes: Vec<String> = std::thread::scope(|scope| {
        let sending: Vec<_> = (0..8).map(|_| scope.spawn(|| code(&ground.send(&request)))).collect();
        sending.into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| *code == "replayed").count(), 7, "{codes:?}");
    assert_eq!(ground.served(), 1);
}

#[test]
fn a_stream_that_breaks_behind_its_first_frame_is_no_whole_body_for_the_handler() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let (request, _) = native_request(&session, "POST", "/echo", &[], &[b"one", b"two", b"three"]);
    let whole = request.body_bytes().to_vec();
    let mut bent = whole.clone();
    *bent.last_mut().unwrap() ^= 1;
    let answer = ground.send(&request.clone().body(bent));
    assert_eq!((answer.status, code(&answer).as_str()), (400, "unsealable"));
    assert!(ground.seen.lock().unwrap().pop().unwrap().body.is_err());

    let (request, _) = native_request(&session, "POST", "/echo", &[], &[b"one", b"two", b"three"]);
    let cut = request.body_bytes()[..whole.len() - 20].to_vec();
    let answer = ground.send(&request.body(cut));
    assert_eq!((answer.status, code(&answer).as_str()), (400, "unsealable"));
    assert!(ground.seen.lock().unwrap().pop().unwrap().body.is_err());
}

#[test]
fn a_stream_that_breaks_while_its_answer_is_read_is_its_clients_fault() {
    let ground = Ground::new(Settings::default());
    let session = ground.native();
    let (request, pending) = native_request(&session, "POST", "/early", &[], &[b"one", b"two"]);
    assert_eq!(open(&pending, &ground.send(&request)).unwrap().body, b"all");
    let (request, _) = native_request(&session, "POST", "/early", &[], &[b"one", b"two"]);
    let mut bent = request.body_bytes().to_vec();
    *bent.last_mut().unwrap() ^= 1;
    let answer = ground.send(&request.body(bent));
    assert_eq!((answer.status, code(&answer).as_str()), (400, "unsealable"));
}

#[test]
fn a_request_whose_first_frame_takes_longer_than_its_stamp_or_its_session_lasts_reaches_nobody() {
    for (what, told) in [
        ("the stamp leaves the window", "clock_skew"),
        ("a revocation", "session_expired"),
        ("its end", "session_expired"),
    ] {
        let ground = Ground::new(Settings::default());
        let session = ground.native();
        if what == "its end" {
            ground.set_clock(NOW_MS + 299_999);
        }
        let (request, pending) = native_request(&session, "POST", "/echo", &[], &[b"an order"]);
        let bytes = request.bytes();
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&bytes[..bytes.len() - 4]).unwrap();
        // The head was checked once the store was asked for its session.
        ground.wait_until_asked();
        match what {
            "a revocation" => assert!(ground.store.delete(session.id())),
            "its end" => ground.set_clock(NOW_MS + 600_000),
            _ => ground.set_clock(NOW_MS + 300_001),
        }
        connection.write(&bytes[bytes.len() - 4..]).unwrap();
        let answer = connection.read_answer("POST").unwrap();
        assert_eq!((code(&answer).as_str(), ground.served()), (told, 0), "{what}");
        if told == "clock_skew" {
            assert_eq!(proven_time(&pending, &session, &answer), NOW_MS + 300_001);
        }
    }
}

#[test]
fn a_request_is_not_served_again_when_its_claim_was_forgotten_while_its_first_frame_came() {
    let settings = Settings { replay: ReplayPolicy::new(10_000, 0), ..Settings::default() };
    let ground = Ground::with_entries(settings, 2);
    let session = ground.native();
    let (request, _) = native_request(&session, "POST", "/echo", &[], &[b"an order"]);
    let bytes = request.bytes();
    let mut slow = Connection::open(ground.address).unwrap();
    slow.write(&bytes[..bytes.len() - 4]).unwrap();
    ground.wait_until_asked();
    for request in [request, native_request(&session, "POST", "/echo", &[], &[b"another"]).0] {
        assert_eq!(ground.send(&request).status, 200);
    }
    // Twice the window later a full store removes both claims in favour of a third.
    let later_ms = NOW_MS + 20_001;
    ground.set_clock(later_ms);
    let (third, _) = native_request_at(&session, "POST", "/echo", &[], &[b"a third"], later_ms);
    assert_eq!(ground.send(&third).status, 200);
    slow.write(&bytes[bytes.len() - 4..]).unwrap();
    assert_eq!(code(&slow.read_answer("POST").unwrap()), "clock_skew");
    assert_eq!(ground.served(), 3);
}

#[test]
fn a_first_frame_has_one_deadline_however_regularly_its_bytes_come() {
    let ground = Ground::new(Settings { first_frame_time: Duration::from_millis(500), ..Settings::default() });
    let session = ground.native();
    let (request, _) = native_request(&session, "POST", "/echo", &[], &[&[b'x'; 2000]]);
    let bytes = request.bytes();
    let head = bytes.len() - request.body_bytes().len();
    let mut writer = TcpStream::connect(ground.address).unwrap();
    let mut connection = Connection::over(writer.try_clone().unwrap()).unwrap();
    connection.write(&bytes[..head]).unwrap();
    let body = bytes[head..].to_vec();
    let dribble = std::thread::spawn(move || {
        // A whole minute, while the deadline is half a second.
        for byte in body.chunks(1).take(1200) {
            std::thread::sleep(Duration::from_millis(50));
            if writer.write_all(byte).is_err() {
                return;
            }
        }
    });
    let answer = connection.read_answer("POST").unwrap();
    assert!(!dribble.is_finished(), "the body was read to its end");
    assert_eq!((answer.status, code(&answer).as_str(), ground.served()), (400, "unsealable", 0));
}

#[test]
fn requests_in_flight_are_cut_when_their_session_ends() {
    for is_revoked in [true, false] {
        let ground = Ground::new(Settings::default());
        let session = ground.native();
        let (request, _) = native_request(&session, "POST", "/flow", &[], &[b"one", b"two"]);
        let bytes = request.bytes();
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&bytes[..bytes.len() - (4 + 3 + 16)]).unwrap();
        let (line, _) = connection.read_head().unwrap();
        assert!(line.contains("200"), "{line}");
        match is_revoked {
            true => assert!(ground.store.delete(session.id())),
            false => ground.set_clock(NOW_MS + 600_000),
        }
        // The client never ends its body, and the answer still ends: broken off, not as if it were complete.
        let began = std::time::Instant::now();
        connection.set_wait(Duration::from_secs(20)).unwrap();
        let read = connection.read_to_end();
        assert!(began.elapsed() < Duration::from_secs(15), "nothing was cut");
        let is_whole = read.as_ref().is_ok_and(|bytes| bytes.ends_with(b"0\r\n\r\n"));
        assert!(!is_whole, "{read:?}");
    }
}

#[test]
fn a_body_that_comes_too_slowly_ends_the_request_in_time() {
    let ground = Ground::new(Settings { body_idle: Duration::from_millis(200), ..Settings::default() });
    let session = ground.native();
    for frames in [&[&b"an order"[..]][..], &[b"one", b"two"]] {
        let (request, _) = native_request(&session, "POST", "/echo", &[], frames);
        let bytes = request.bytes();
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&bytes[..bytes.len() - 4]).unwrap();
        let began = std::time::Instant::now();
        let answer = connection.read_answer("POST").unwrap();
        assert_eq!((answer.status, code(&answer).as_str()), (400, "unsealable"));
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
