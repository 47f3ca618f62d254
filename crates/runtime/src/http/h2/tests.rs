//! Two connections of this engine that talk to each other in memory, and peers that break the rules.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::{Arrival, Config, Connection, FieldLimits, Reason, RequestHead, Role, StreamError};

pub(super) const CONFIG: Config = Config {
    streams_max: 100,
    stream_window: 70_000,
    connection_window: 100_000,
    fields: FieldLimits { bytes_max: 4000, fields_max: 20 },
    pending_max: 10_000,
    connect_protocol: false,
};

pub(super) fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Returns the output, all of it.
pub(super) fn output(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(connection.poll_write(&mut bytes, &mut cx()).is_ready());
    bytes
}

pub(super) fn post(path: &str) -> RequestHead {
    let uri: Uri = format!("https://a.example{path}").parse().unwrap();
    RequestHead { method: Method::POST, uri, headers: HeaderMap::new(), protocol: None }
}

/// A client and a server of this engine.
pub(super) struct Pair {
    pub(super) client: Connection,
    pub(super) server: Connection,
    /// Bytes on their way to each.
    to_client: BytesMut,
    to_server: BytesMut,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(CONFIG)
    }

    pub(super) fn with(config: Config) -> Pair {
        let client = Connection::new(Role::Client, config);
        let server = Connection::new(Role::Server, config);
        Pair { client, server, to_client: BytesMut::new(), to_server: BytesMut::new() }
    }

    /// Passes everything on, until neither has more to say.
    pub(super) fn talk(&mut self) {
        loop {
            let (up, down) = (output(&mut self.client), output(&mut self.server));
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.to_server.extend_from_slice(&up);
            self.to_client.extend_from_slice(&down);
            self.server.receive(&mut self.to_server, Duration::ZERO).unwrap();
            self.client.receive(&mut self.to_client, Duration::ZERO).unwrap();
        }
    }
}

/// Reads what is there of a message. Returns the data, the trailers and whether the end has come.
pub(super) fn read(connection: &mut Connection, id: u32) -> (Vec<u8>, Option<HeaderMap>, Result<bool, StreamError>) {
    let (mut data, mut trailers) = (Vec::new(), None);
    loop {
        match connection.poll_piece(id, &mut cx()) {
            Poll::Pending => return (data, trailers, Ok(false)),
            Poll::Ready(None) => return (data, trailers, Ok(true)),
            Poll::Ready(Some(Err(err))) => return (data, trailers, Err(err)),
            Poll::Ready(Some(Ok(piece))) => match piece.into_data() {
                Ok(part) => data.extend_from_slice(&part),
                Err(piece) => trailers = piece.into_trailers().ok(),
            },
        }
    }
}

#[test]
fn a_request_and_its_answer_cross_with_bodies_trailers_and_interim_answers() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/x?y"), false);
    pair.client.send(id, Bytes::from_static(b"ask"), false);
    let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("t"))]);
    pair.client.send_trailers(id, trailers.clone());
    pair.talk();
    let Arrival { stream, head, is_whole } = pair.server.next_request().unwrap();
    let head = head.unwrap();
    assert_eq!((stream, head.uri.to_string(), is_whole), (1, "https://a.example/x?y".into(), false));
    assert_eq!(read(&mut pair.server, id), (b"ask".to_vec(), Some(trailers.clone()), Ok(true)));
    pair.server.interim(id, StatusCode::EARLY_HINTS, &HeaderMap::new());
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
    pair.server.send(id, Bytes::from_static(b"answer"), true);
    pair.talk();
    for status in [103, 200] {
        let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no {status}") };
        assert_eq!(head.status, status);
    }
    assert_eq!(read(&mut pair.client, id), (b"answer".to_vec(), None, Ok(true)));
    for connection in [&mut pair.client, &mut pair.server] {
        assert_eq!(connection.open_streams(), 0);
        connection.drop_reader(id);
        connection.drop_writer(id, Reason::Cancel);
        assert!(connection.at(id).is_none(), "it is forgotten");
    }
}

#[test]
fn a_client_that_waits_for_a_100_gets_it_when_its_body_is_first_read_and_not_behind_the_answer() {
    for is_read in [true, false] {
        let mut pair = Pair::new();
        let id = pair.client.open(&post("/"), false);
        pair.talk();
        pair.server.hold_body(id);
        if is_read {
            assert_eq!(read(&mut pair.server, id), (Vec::new(), None, Ok(false)));
            assert_eq!(read(&mut pair.server, id), (Vec::new(), None, Ok(false)));
        }
        pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
        assert_eq!(read(&mut pair.server, id), (Vec::new(), None, Ok(false)));
        pair.talk();
        let mut statuses = Vec::new();
        while let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) {
            statuses.push(head.status.as_u16());
        }
        assert_eq!(statuses, if is_read { vec![100, 200] } else { vec![200] });
    }
}

#[test]
fn a_body_longer_than_the_windows_crosses_as_it_is_read_and_no_faster() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < body.len() {
        while sent < body.len() && pair.client.poll_room(id, &cx()).is_ready() {
            let part = &body[sent..body.len().min(sent + 7000)];
            sent += part.len();
            pair.client.send(id, Bytes::copy_from_slice(part), sent == body.len());
        }
        pair.talk();
        let unread: usize = pair.server.stream(id).unwrap().data.iter().map(Bytes::len).sum();
        assert!(unread > 0 && unread <= 70_000, "{unread}");
        got.extend_from_slice(&read(&mut pair.server, id).0);
    }
    assert!(got == body);
    assert_eq!(read(&mut pair.server, id).2, Ok(true));
}

#[test]
fn streams_take_turns_and_one_that_is_not_read_stops_no_other() {
    let mut pair = Pair::new();
    let ids = [(); 3].map(|()| pair.client.open(&post("/"), true));
    pair.talk();
    for id in ids {
        pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
        pair.server.send(id, Bytes::from(vec![0; 40_000]), true);
    }
    pair.talk();
    // 100,000 bytes of the connection: each has got its turns.
    let got = ids.map(|id| pair.client.stream(id).unwrap().data.iter().map(Bytes::len).sum::<usize>());
    assert!(got.iter().all(|len| *len > 10_000), "{got:?}");
    // The first is not read, and the others end.
    for _ in 0..4 {
        ids[1..].iter().for_each(|id| drop(read(&mut pair.client, *id)));
        pair.talk();
    }
    assert!(ids[1..].iter().all(|id| read(&mut pair.client, *id).2 == Ok(true)));
    assert!(!pair.client.is_read(ids[0]));
}

#[test]
fn an_answer_before_the_end_of_its_request_stops_the_request() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.client.send(id, Bytes::from(vec![0; 200_000]), true);
    pair.talk();
    pair.server.drop_reader(id);
    pair.server.respond(id, StatusCode::FORBIDDEN, &HeaderMap::new(), true);
    pair.server.drop_writer(id, Reason::InternalError);
    pair.talk();
    let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no answer") };
    assert_eq!(head.status, 403);
    assert_eq!(read(&mut pair.client, id).2, Ok(true));
    assert_eq!((pair.client.open_streams(), pair.server.open_streams()), (0, 0));
    // What was on its way is given back: the next request has all of the window.
    let next = pair.client.open(&post("/"), false);
    pair.client.send(next, Bytes::from(vec![0; 60_000]), true);
    pair.talk();
    assert_eq!(read(&mut pair.server, next).0.len(), 60_000);
}

#[test]
fn a_stream_that_the_peer_resets_ends_both_its_directions() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.talk();
    pair.client.reset(id, Reason::Cancel);
    pair.talk();
    assert_eq!(read(&mut pair.server, id).2, Err(StreamError::Reset(Reason::Cancel)));
    assert!(pair.server.poll_ended(id, &cx()).is_ready());
    assert_eq!(pair.server.open_streams(), 0);
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), true);
    assert!(output(&mut pair.server).is_empty(), "nothing is sent on it");
}

#[test]
fn requests_behind_a_go_away_are_unprocessed_and_those_before_it_are_answered() {
    let mut pair = Pair::new();
    let first = pair.client.open(&post("/"), true);
    pair.talk();
    pair.server.say_go_away(true);
    let second = pair.client.open(&post("/"), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(second, &mut cx()), Poll::Ready(Err(StreamError::Unprocessed))));
    assert!(matches!(pair.client.poll_can_open(&cx()), Poll::Ready(Err(StreamError::Unprocessed))));
    pair.server.respond(first, StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(first, &mut cx()), Poll::Ready(Ok(_))));
}

#[test]
fn a_client_opens_no_more_streams_than_the_server_allows() {
    let mut pair = Pair::new();
    pair.talk();
    let ids: Vec<u32> = (0..100).map(|_| pair.client.open(&post("/"), true)).collect();
    assert!(pair.client.poll_can_open(&cx()).is_pending());
    pair.talk();
    pair.server.respond(ids[7], StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(pair.client.poll_can_open(&cx()).is_ready());
}

#[test]
fn bytes_in_any_pieces_are_received_as_the_same_messages() {
    let mut client = Connection::new(Role::Client, CONFIG);
    for number in 0..20 {
        let id = client.open(&post(&format!("/{number}")), false);
        client.send(id, Bytes::from(vec![7; number * 50]), true);
    }
    let bytes = output(&mut client);
    for cut in [1, 2, 9, 10, 1000, bytes.len()] {
        let (mut server, mut input) = (Connection::new(Role::Server, CONFIG), BytesMut::new());
        for part in bytes.chunks(cut) {
            input.extend_from_slice(part);
            server.receive(&mut input, Duration::ZERO).unwrap();
        }
        let arrived: Vec<_> = std::iter::from_fn(|| server.next_request()).collect();
        assert_eq!(arrived.len(), 20, "{cut}");
        for (number, arrival) in arrived.into_iter().enumerate() {
            assert_eq!(arrival.head.unwrap().uri.path(), format!("/{number}"));
            assert_eq!(read(&mut server, arrival.stream).0.len(), number * 50);
        }
    }
}

#[test]
fn input_may_come_from_a_shared_buffer_and_data_that_nobody_wants_is_not_kept() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), true);
    pair.client.skip_data(id);
    pair.client.keep_fields(|name| name == "kept");
    pair.talk();
    pair.server.next_request().unwrap();
    let header = |name| (http::HeaderName::from_static(name), HeaderValue::from_static("1"));
    let headers = HeaderMap::from_iter(["kept", "other"].map(header));
    pair.server.respond(id, StatusCode::OK, &headers, false);
    pair.server.send(id, Bytes::from(vec![0; 1_000_000]), true);
    let mut rest = Vec::new();
    loop {
        rest.extend(output(&mut pair.server));
        if rest.is_empty() {
            break;
        }
        // Reads end anywhere.
        let cut = rest.len().min(50_001);
        let taken = pair.client.receive_from(&rest[..cut], Duration::ZERO).unwrap();
        assert!(taken > 0 && taken <= cut, "{taken} of {cut}");
        rest.drain(..taken);
        assert_eq!(pair.client.stream(id).unwrap().data.len(), 0);
        pair.to_server.extend_from_slice(&output(&mut pair.client));
        pair.server.receive(&mut pair.to_server, Duration::ZERO).unwrap();
    }
    let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no response") };
    assert_eq!(head.headers, HeaderMap::from_iter([header("kept")]));
    assert_eq!(read(&mut pair.client, id), (Vec::new(), None, Ok(true)));
}

/// A waker that counts its calls.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn the_place_of_a_request_that_stopped_waiting_goes_to_the_next_one() {
    let mut client = Connection::new(Role::Client, CONFIG);
    let wakes: [std::sync::Arc<Wakes>; 3] = Default::default();
    let wakers = wakes.clone().map(Waker::from);
    let count = |of: usize| wakes[of].0.load(std::sync::atomic::Ordering::Relaxed);
    let mut open = Vec::new();
    for _ in 0..100 {
        assert!(client.poll_can_open(&cx()).is_ready(), "before the server's settings");
        open.push(client.open(&post("/"), true));
    }
    for waker in &wakers {
        assert!(client.poll_can_open(&Context::from_waker(waker)).is_pending());
    }
    client.cancel_open(&wakers[0]);
    client.reset(open[0], Reason::Cancel);
    // Also the one that stopped: another wait of its task may share its registration.
    assert_eq!([0, 1, 2].map(count), [1, 1, 0]);
    // Woken, and gone before it takes the place.
    client.cancel_open(&wakers[1]);
    assert_eq!([0, 1, 2].map(count), [1, 1, 1]);
}

#[test]
fn a_peer_that_does_not_read_is_sent_no_heads_without_end() {
    let mut client = Connection::new(Role::Client, CONFIG);
    let mut count = 0;
    while client.poll_can_open(&cx()).is_ready() {
        let id = client.open(&post(&format!("/{count}")), true);
        client.drop_reader(id);
        count += 1;
        assert!(count < 100_000, "heads without end");
    }
    output(&mut client);
    assert!(client.poll_can_open(&cx()).is_ready(), "the output is written");
}

#[test]
fn a_server_may_reset_every_request() {
    let mut pair = Pair::new();
    for _ in 0..5000 {
        let id = pair.client.open(&post("/"), true);
        pair.talk();
        pair.server.next_request().unwrap();
        pair.server.reset(id, Reason::RefusedStream);
        pair.server.drop_reader(id);
        pair.server.drop_writer(id, Reason::Cancel);
        pair.talk();
        let refused = pair.client.poll_response(id, &mut cx());
        assert_eq!(refused.map(|refused| refused.map(drop)), Poll::Ready(Err(StreamError::Unprocessed)));
        pair.client.drop_reader(id);
    }
}

#[test]
fn answers_to_any_number_of_requests_that_were_given_up_are_dropped() {
    let mut pair = Pair::new();
    pair.server.config.streams_max = 1000;
    pair.talk();
    let ids: Vec<u32> = (0..600).map(|_| pair.client.open(&post("/"), true)).collect();
    let bytes = output(&mut pair.client);
    pair.to_server.extend_from_slice(&bytes);
    pair.server.receive(&mut pair.to_server, Duration::ZERO).unwrap();
    for id in &ids {
        pair.server.respond(*id, StatusCode::OK, &HeaderMap::new(), false);
        pair.server.send(*id, Bytes::from_static(b"x"), true);
    }
    for id in ids {
        pair.client.drop_reader(id);
        pair.client.drop_writer(id, Reason::Cancel);
    }
    pair.talk();
    let next = pair.client.open(&post("/"), true);
    pair.talk();
    pair.server.respond(next, StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(next, &mut cx()), Poll::Ready(Ok(_))));
}

#[test]
fn small_pieces_that_wait_share_a_frame() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.talk();
    for number in 0..300_u32 {
        pair.client.send(id, Bytes::from(vec![number as u8; 100]), number == 299);
    }
    let bytes = output(&mut pair.client);
    assert_eq!(bytes.len(), 30_000 + 2 * 9, "two frames");
    pair.to_server.extend_from_slice(&bytes);
    pair.server.receive(&mut pair.to_server, Duration::ZERO).unwrap();
    let (data, _, is_end) = read(&mut pair.server, id);
    assert_eq!(is_end, Ok(true));
    assert!(data.chunks(100).enumerate().all(|(number, piece)| piece == vec![number as u8; 100]));
}
