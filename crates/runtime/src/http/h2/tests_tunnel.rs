//! Extended CONNECT (RFC 8441) between two connections of this engine, and from peers that break its rules.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::frame::{END_HEADERS, END_STREAM};
use super::tests::{CONFIG, Pair, cx, output, read};
use super::tests_hostile::{Hostile, literal};
use super::{Arrival, Config, Connection, Reason, RequestHead, StreamError, Tunnel, request};

const TUNNELS: Config = Config { connect_protocol: true, ..CONFIG };
const CONNECT: &[u8] = &[0x02, 7, b'C', b'O', b'N', b'N', b'E', b'C', b'T'];

fn connect(path: &'static str) -> RequestHead {
    let uri = Uri::builder().scheme("https").authority("a.example").path_and_query(path).build().unwrap();
    let protocol = Some(Bytes::from_static(b"websocket"));
    RequestHead { method: Method::CONNECT, uri, headers: HeaderMap::new(), protocol }
}

/// Opens a tunnel, and returns its stream.
fn tunnel(pair: &mut Pair) -> u32 {
    let id = pair.client.open(&connect("/chat?x"), false);
    pair.talk();
    let Arrival { stream, head, is_whole } = pair.server.next_request().unwrap();
    let head = head.unwrap();
    assert_eq!((stream, is_whole, head.method.as_str()), (id, false, "CONNECT"));
    assert_eq!((head.protocol.unwrap(), head.uri.to_string()), ("websocket".into(), "https://a.example/chat?x".into()));
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
    pair.talk();
    let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no answer") };
    assert_eq!(head.status, 200);
    id
}

#[test]
fn only_a_server_that_is_set_to_accepts_extended_connect_and_its_client_knows_once_the_settings_arrive() {
    for (config, accepts) in [(TUNNELS, true), (CONFIG, false)] {
        let mut pair = Pair::with(config);
        assert!(pair.client.poll_accepts_connect(&cx()).is_pending());
        pair.talk();
        assert_eq!(pair.client.poll_accepts_connect(&cx()), Poll::Ready(Ok(accepts)));
        assert_eq!(pair.server.poll_accepts_connect(&cx()), Poll::Ready(Ok(false)), "a client accepts none");
        pair.client.close();
        assert_eq!(pair.client.poll_accepts_connect(&cx()), Poll::Ready(Err(StreamError::Closed)));
    }
}

#[test]
fn a_tunnel_carries_data_both_ways_and_each_side_ends_its_own_direction() {
    for client_ends_first in [true, false] {
        let mut pair = Pair::with(TUNNELS);
        let id = tunnel(&mut pair);
        pair.client.send(id, Bytes::from_static(b"up"), client_ends_first);
        pair.server.send(id, Bytes::from_static(b"down"), !client_ends_first);
        pair.talk();
        assert_eq!(read(&mut pair.server, id), (b"up".to_vec(), None, Ok(client_ends_first)));
        assert_eq!(read(&mut pair.client, id), (b"down".to_vec(), None, Ok(!client_ends_first)));
        // The other direction goes on.
        let from = if client_ends_first { &mut pair.server } else { &mut pair.client };
        from.send(id, Bytes::from_static(b"more"), true);
        pair.talk();
        let other = if client_ends_first { &mut pair.client } else { &mut pair.server };
        assert_eq!(read(other, id), (b"more".to_vec(), None, Ok(true)));
        for connection in [&mut pair.client, &mut pair.server] {
            assert_eq!(connection.open_streams(), 0);
            connection.drop_reader(id);
            connection.drop_writer(id, Reason::Cancel);
            assert!(connection.at(id).is_none(), "it is forgotten");
            assert!(output(connection).is_empty(), "nothing is reset");
        }
    }
}

#[test]
fn an_extended_connect_needs_each_of_its_pseudo_headers() {
    let protocol = &literal(":protocol", "websocket")[..];
    let (scheme, path, authority) = (&[0x86][..], &[0x84][..], &[0x41, 1, b'h'][..]);
    let other_scheme = &literal(":scheme", "ftp")[..];
    for (what, parts, is_accepted) in [
        ("all", vec![scheme, path, authority, protocol], true),
        ("no :scheme", vec![path, authority, protocol], false),
        ("no :path", vec![scheme, authority, protocol], false),
        ("no :authority", vec![scheme, path, protocol], false),
        ("another scheme", vec![other_scheme, path, authority, protocol], false),
        ("two protocols", vec![scheme, path, authority, protocol, protocol], false),
        ("a plain CONNECT with a path", vec![scheme, path, authority], false),
        ("a field of HTTP/1", vec![scheme, path, authority, protocol, b"\0\x07upgrade\x09websocket"], false),
        ("Connection", vec![scheme, path, authority, protocol, b"\0\x0aconnection\x07upgrade"], false),
        ("a protocol behind a field", vec![scheme, path, authority, b"\0\x01a\x01b", protocol], false),
    ] {
        let mut hostile = Hostile::with(TUNNELS);
        hostile.send(1, END_HEADERS, 1, &[CONNECT, &parts.concat()].concat()).unwrap();
        assert_eq!(hostile.server.next_request().is_some(), is_accepted, "{what}");
        assert_eq!(hostile.reset(1), (!is_accepted).then_some(Reason::ProtocolError), "{what}");
    }
    // A GET cannot ask for a protocol.
    let mut hostile = Hostile::with(TUNNELS);
    hostile.send(1, END_HEADERS, 1, &[&[0x82][..], scheme, path, authority, protocol].concat()).unwrap();
    assert_eq!(hostile.reset(1), Some(Reason::ProtocolError));
}

#[test]
fn an_extended_connect_with_a_length_or_a_target_that_is_no_path_is_a_bad_request() {
    assert!(request::check(&connect("/chat")).is_ok());
    for length in ["0", "5"] {
        let mut head = connect("/chat");
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
        assert!(request::check(&head).is_err(), "Content-Length: {length}");
    }
    assert!(request::check(&connect("*")).is_err());
    let mut head = connect("/chat");
    head.headers.insert(header::HOST, HeaderValue::from_static("b.example"));
    assert!(request::check(&head).is_err(), "Host differs from :authority");
}

fn open(hostile: &mut Hostile, id: u32, flags: u8) {
    let rest = [&[0x86, 0x84, 0x41, 1, b'h'][..], &literal(":protocol", "websocket")].concat();
    hostile.send(1, END_HEADERS | flags, id, &[CONNECT, &rest].concat()).unwrap();
    assert!(hostile.server.next_request().unwrap().head.is_ok());
    hostile.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
    output(&mut hostile.server);
}

#[test]
fn trailers_end_a_tunnel_as_a_fault() {
    let mut hostile = Hostile::with(TUNNELS);
    open(&mut hostile, 1, 0);
    hostile.send(1, END_HEADERS | END_STREAM, 1, &literal("x-a", "b")).unwrap();
    assert_eq!(hostile.reset(1), Some(Reason::ProtocolError));
}

#[test]
fn a_client_that_ends_with_its_head_still_receives() {
    let mut hostile = Hostile::with(TUNNELS);
    open(&mut hostile, 1, END_STREAM);
    assert_eq!(read(&mut hostile.server, 1), (Vec::new(), None, Ok(true)));
    hostile.server.send(1, Bytes::from_static(b"x"), true);
    assert!(output(&mut hostile.server).ends_with(b"\0\0\x01\0\x01\0\0\0\x01x"));
    assert_eq!(hostile.reset(1), None);
}

#[test]
fn unread_tunnels_leave_the_window_to_others_up_to_a_bound_and_give_all_of_it_back() {
    let mut hostile = Hostile::with(TUNNELS);
    open(&mut hostile, 1, 0);
    let whole = usize::try_from(TUNNELS.stream_window).unwrap();
    let fill = |hostile: &mut Hostile, id: u32, len: usize| {
        for part in vec![b'x'; len].chunks(10_000) {
            hostile.send(0, 0, id, part).unwrap();
        }
    };
    fill(&mut hostile, 1, whole);
    assert_eq!(hostile.server.lent, whole);
    let half = TUNNELS.connection_window / 2;
    assert!(hostile.server.window > half, "{} is left to others", hostile.server.window);
    // The second is lent the rest of the bound, and no more.
    open(&mut hostile, 3, 0);
    fill(&mut hostile, 3, whole);
    assert_eq!(hostile.server.lent, usize::try_from(TUNNELS.connection_window).unwrap());
    assert!(hostile.server.held() <= 2 * whole + 1000);
    for id in [1, 3] {
        assert_eq!(read(&mut hostile.server, id).0.len(), whole);
    }
    assert_eq!(hostile.server.lent, 0);
    // What was lent is not given back twice: one window is all that the peer may ever send.
    assert!(hostile.server.window <= TUNNELS.connection_window);
    assert!(hostile.server.window > half);
    // A reader that leaves gives back what it has not read.
    fill(&mut hostile, 1, 20_000);
    hostile.server.drop_reader(1);
    assert_eq!(hostile.server.lent, 0);
    assert!(hostile.server.window <= TUNNELS.connection_window);
}

#[test]
fn a_tunnel_that_is_not_read_is_reset_once_it_leaves_no_window_and_not_before() {
    let mut hostile = Hostile::with(TUNNELS);
    let whole = usize::try_from(TUNNELS.stream_window).unwrap();
    let late = Duration::from_secs(61);
    for id in [1, 3, 5] {
        open(&mut hostile, id, 0);
    }
    let send = |hostile: &mut Hostile, id: u32, len: usize| {
        for part in vec![b'x'; len].chunks(10_000) {
            hostile.send(0, 0, id, part).unwrap();
        }
    };
    send(&mut hostile, 1, whole);
    hostile.server.set_now(late);
    hostile.server.end_stalled_tunnels(Duration::from_secs(60));
    assert_eq!(hostile.reset(1), None, "others have a window");
    hostile.server.set_now(Duration::ZERO);
    send(&mut hostile, 3, whole);
    let left = usize::try_from(hostile.server.window).unwrap();
    send(&mut hostile, 5, left.min(whole));
    assert!(hostile.server.window < 16_384, "{}", hostile.server.window);
    hostile.server.end_stalled_tunnels(Duration::from_secs(60));
    assert_eq!(hostile.reset(1), None, "it is not late");
    hostile.server.set_now(late);
    assert_eq!(read(&mut hostile.server, 3).0.len(), whole);
    hostile.server.end_stalled_tunnels(Duration::from_secs(60));
    let bytes = output(&mut hostile.server);
    let reset = |id: u8| bytes.windows(13).any(|frame| frame == [0, 0, 4, 3, 0, 0, 0, 0, id, 0, 0, 0, 11]);
    assert!(reset(1) && reset(5) && !reset(3), "the one that is read stays");
}

#[test]
fn a_tunnel_that_its_client_does_not_read_is_left_to_its_idle_time() {
    for is_tunnel in [true, false] {
        let mut hostile = Hostile::with(TUNNELS);
        open(&mut hostile, 1, 0);
        if !is_tunnel {
            hostile.post(3, END_STREAM, &[]).unwrap();
            hostile.server.next_request().unwrap();
            hostile.server.respond(3, StatusCode::OK, &HeaderMap::new(), false);
        }
        let id = if is_tunnel { 1 } else { 3 };
        hostile.server.send(id, Bytes::from(vec![0; 100_000]), false);
        output(&mut hostile.server);
        hostile.server.set_now(Duration::from_secs(90));
        assert!(hostile.server.end_unread(Duration::from_secs(60)));
        assert_eq!(hostile.reset(id).is_none(), is_tunnel);
    }
}

#[test]
fn the_length_of_a_success_is_ignored_and_another_answer_is_a_message() {
    let mut pair = Pair::with(TUNNELS);
    let id = pair.client.open(&connect("/"), false);
    pair.talk();
    pair.server.next_request().unwrap();
    let length = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from_static("1"))]);
    pair.server.respond(id, StatusCode::OK, &length, false);
    pair.server.send(id, Bytes::from_static(b"longer"), true);
    pair.talk();
    assert_eq!(read(&mut pair.client, id), (b"longer".to_vec(), None, Ok(true)));

    let id = pair.client.open(&connect("/"), false);
    pair.talk();
    pair.server.next_request().unwrap();
    pair.server.drop_reader(id);
    pair.server.respond(id, StatusCode::FORBIDDEN, &HeaderMap::new(), false);
    pair.server.send(id, Bytes::from_static(b"no"), false);
    let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("t"))]);
    pair.server.send_trailers(id, trailers.clone());
    pair.talk();
    assert_eq!(read(&mut pair.client, id), (b"no".to_vec(), Some(trailers), Ok(true)));
}

#[tokio::test]
async fn a_tunnel_reads_and_writes_within_its_bounds_and_resets_what_is_dropped_early() {
    let mut pair = Pair::with(TUNNELS);
    let id = tunnel(&mut pair);
    let Pair { mut client, server, .. } = pair;
    let server = Arc::new(Mutex::new(server));
    let mut far = Tunnel::new(server.clone(), id);
    let pass = |client: &mut Connection| {
        let mut bytes = BytesMut::from(&output(client)[..]);
        server.lock().receive(&mut bytes, Duration::ZERO).unwrap();
        let mut bytes = BytesMut::from(&output(&mut server.lock())[..]);
        client.receive(&mut bytes, Duration::ZERO).unwrap();
    };
    client.send(id, Bytes::from_static(b"hello"), false);
    pass(&mut client);
    let mut part = [0; 3];
    far.read_exact(&mut part).await.unwrap();
    assert_eq!(&part, b"hel");
    far.read_exact(&mut part[..2]).await.unwrap();
    assert_eq!(&part[..2], b"lo");
    // It takes no more than may wait.
    let sent = std::future::poll_fn(|cx| {
        let mut sent = 0;
        loop {
            match Pin::new(&mut far).poll_write(cx, &[0; 50_000]) {
                Poll::Ready(len) => sent += len.unwrap(),
                Poll::Pending => return Poll::Ready(sent),
            }
        }
    });
    let sent = sent.await;
    assert!(sent < TUNNELS.pending_max + 16_384 + 1, "{sent}");
    pass(&mut client);
    assert_eq!(read(&mut client, id).0.len(), sent);
    client.send(id, Bytes::new(), true);
    pass(&mut client);
    assert_eq!(far.read(&mut part).await.unwrap(), 0, "the client has ended its direction");
    drop(far);
    pass(&mut client);
    assert_eq!(read(&mut client, id).2, Err(StreamError::Reset(Reason::Cancel)));

    let mut pair = Pair::with(TUNNELS);
    let id = tunnel(&mut pair);
    let server = Arc::new(Mutex::new(pair.server));
    let mut far = Tunnel::new(server.clone(), id);
    far.shutdown().await.unwrap();
    assert!(far.write(b"x").await.is_err(), "it has ended");
    pair.client.reset(id, Reason::Cancel);
    server.lock().receive(&mut BytesMut::from(&output(&mut pair.client)[..]), Duration::ZERO).unwrap();
    assert_eq!(far.read(&mut [0; 1]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    drop(far);
    assert!(server.lock().at(id).is_none(), "it is forgotten");
}
