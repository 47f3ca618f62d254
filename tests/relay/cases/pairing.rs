//! Pairing: the messages that wait, and the order and form in which they are forwarded.

use sealway_testkit::raw_ws::Got;

use super::{Case, Ground, closed, record};

pub(crate) const CASES: &[Case] = &[
    ("what the first endpoint says waits, and comes in order before all else", waits_in_order),
    ("the server may be first", server_first),
    ("messages keep their boundaries, empty ones too", boundaries),
    ("messages of every size come whole", sizes),
    ("a message of 1 MiB is forwarded", largest),
    ("a fragmented message comes as one message", fragments),
    ("pings are answered before, between and after", pings),
    ("an attach that succeeds is answered by silence", silence),
    ("256 KiB may wait", pending_fits),
    ("more than 256 KiB that wait end the channel", pending_overflow),
    ("messages without a byte wait too, but not without a bound", pending_empty),
    ("both directions flow at once", both_ways),
    ("channels do not hear one another", apart),
    ("a frame that is no WebSocket frame of a client ends the channel", protocol_error),
];

fn waits_in_order(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut client = ground.attached(ground.shared.near(), &client);
    for number in 0..100_u32 {
        client.binary(&number.to_be_bytes());
    }
    let mut server = ground.attach(ground.shared.far(), &server);
    for number in 100..200_u32 {
        client.binary(&number.to_be_bytes());
    }
    for number in 0..200_u32 {
        assert_eq!(server.message().unwrap(), number.to_be_bytes());
    }
}

fn server_first(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut server = ground.attached(ground.shared.near(), &server);
    server.binary(b"first");
    let mut client = ground.attach(ground.shared.far(), &client);
    assert_eq!(client.message().unwrap(), b"first");
    client.binary(b"second");
    assert_eq!(server.message().unwrap(), b"second");
}

fn boundaries(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    let messages: [&[u8]; 6] = [b"", b"a", b"", b"", b"bc", b""];
    messages.iter().for_each(|message| client.binary(message));
    for message in messages {
        assert_eq!(server.message().unwrap(), message);
    }
}

fn sizes(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    for len in [1, 124, 125, 126, 127, 4096, 65_535, 65_536, 65_537, 65_792, 65_793, 131_072, 300_001] {
        let message: Vec<u8> = (0..len).map(|at| (at * 7 % 253) as u8).collect();
        client.binary(&message);
        assert!(server.message().unwrap() == message, "{len}");
    }
}

fn largest(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    let message = record((1 << 20) - 18);
    assert_eq!(message.len(), 1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| client.binary(&message));
        assert!(server.message().unwrap() == message);
    });
}

fn fragments(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    client.send(0x02, b"one ").unwrap();
    client.send(0x00, b"").unwrap();
    client.send(0x89, b"ping").unwrap();
    client.send(0x80, b"two").unwrap();
    assert_eq!(server.message().unwrap(), b"one two");
}

fn pings(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut ws = ground.shared.near();
    ws.answers = false;
    ws.send(0x89, b"before").unwrap();
    assert_eq!(ws.got(), Got::Frame(0x8a, b"before".to_vec()));
    let mut ws = ground.attach(ws, &client);
    ws.send(0x89, &[1; 125]).unwrap();
    assert_eq!(ws.got(), Got::Frame(0x8a, vec![1; 125]));
    let mut other = ground.attach(ground.shared.far(), &server);
    ws.send(0x8a, b"nobody asked").unwrap();
    ws.binary(b"x");
    assert_eq!(other.got(), Got::Frame(0x82, b"x".to_vec()), "neither pings nor their answers are forwarded");
}

fn silence(ground: &Ground) {
    let mut ws = ground.attach(ground.shared.near(), &ground.pair()[0]);
    assert_eq!(ws.try_next(std::time::Duration::from_millis(300)).unwrap(), None);
}

fn pending_fits(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut client = ground.attached(ground.shared.near(), &client);
    let message = vec![3; 64 * 1024];
    (0..4).for_each(|_| client.binary(&message));
    let mut server = ground.attach(ground.shared.far(), &server);
    for _ in 0..4 {
        assert!(server.message().unwrap() == message);
    }
}

fn pending_overflow(ground: &Ground) {
    let mut client = ground.attached(ground.shared.near(), &ground.pair()[0]);
    (0..4).for_each(|_| client.binary(&[3; 64 * 1024]));
    client.binary(b"");
    client.answers = false;
    client.send(0x89, b"still here").unwrap();
    assert_eq!(client.got(), Got::Frame(0x8a, b"still here".to_vec()));
    client.binary(b"x");
    assert_eq!(client.end(), closed(1009, "pending overflow"));
}

fn pending_empty(ground: &Ground) {
    let mut client = ground.attached(ground.shared.near(), &ground.pair()[0]);
    let many = sealway_testkit::raw_ws::frame(0x82, b"").repeat(300_000);
    let _ = client.send_raw(&many);
    assert!(matches!(client.end(), Got::Close(1009, _) | Got::Abrupt));
}

fn both_ways(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    std::thread::scope(|scope| {
        for ws in [&mut client, &mut server] {
            scope.spawn(move || {
                for number in 0..200_u32 {
                    ws.binary(&number.to_be_bytes().repeat(500));
                    assert_eq!(ws.message().unwrap(), number.to_be_bytes().repeat(500));
                }
            });
        }
    });
}

fn apart(ground: &Ground) {
    let mut pairs: Vec<_> = (0..5).map(|_| ground.paired(&ground.shared)).collect();
    for (number, (client, _)) in pairs.iter_mut().enumerate() {
        client.binary(&[number as u8]);
    }
    for (number, (_, server)) in pairs.iter_mut().enumerate() {
        assert_eq!(server.message().unwrap(), [number as u8]);
    }
}

fn protocol_error(ground: &Ground) {
    let faults: [&[u8]; 5] = [
        b"\x82\x01x",
        b"\xc2\x81\x00\x00\x00\x00x",
        b"\x83\x80\x00\x00\x00\x00",
        b"\x80\x80\x00\x00\x00\x00",
        b"\x09\x80\x00\x00\x00\x00",
    ];
    for fault in faults {
        let (mut client, mut server) = ground.paired(&ground.shared);
        client.send_raw(fault).unwrap();
        assert_eq!(client.end(), closed(1002, "protocol error"), "{fault:?}");
        assert_eq!(server.end(), closed(1001, "peer closed"), "{fault:?}");
    }
}
