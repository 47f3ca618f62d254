//! The end of channels: by an endpoint, by a violated rule, by time, by the relay.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sealway_proto::relay::Claims;
use sealway_testkit::raw_ws::Got;

use super::{Case, Fleet, Ground, closed, record};

pub(crate) const CASES: &[Case] = &[
    ("an endpoint that closes is answered with its code, and the peer is notified", closes),
    ("an endpoint that is gone ends the channel", gone),
    ("what was sent before the end still arrives", arrives_before_the_end),
    ("an endpoint that goes in the midst of a message ends the channel with a close frame", gone_midway),
    ("text after the attach message ends both", text),
    ("a message over 1 MiB ends both, by its head alone", too_large),
    ("a message over 1 MiB in fragments ends both", too_large_in_fragments),
    ("a channel without records is over at init_exp", init_expired),
    ("one fake header does not lift init_exp", fake_record),
    ("records from both ends lift init_exp", lifted),
    ("a record that waited before the pairing does not lift init_exp", early_record),
    ("a channel without a message is over after the idle time", idle),
    ("pings do not keep a channel from being idle", idle_with_pings),
    ("messages of one side keep a channel", kept_by_one_side),
    ("a token's idle time counts", idle_of_the_token),
    ("an endpoint without a sign of life is cut off", keepalive),
    ("an endpoint that reads nothing is cut off, and harms no other", stalled),
    ("a relay that stops tells who is left", drained),
    ("an ended channel's name can be used anew", anew),
];

/// The time to set up a channel that then outlives it, in seconds. A busy machine needs some of it for a handshake.
const BEGIN_S: i64 = 4;

fn closes(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    client.send(0x88, b"\x0b\xb8bye").unwrap();
    assert_eq!(client.end(), closed(3000, ""));
    assert_eq!(server.end(), closed(1001, "peer closed"));
    assert_eq!(server.got(), Got::Abrupt, "nothing comes after it");
}

fn gone(ground: &Ground) {
    for first in [true, false] {
        let (client, server) = ground.paired(&ground.shared);
        let (gone, mut left) = if first { (client, server) } else { (server, client) };
        gone.tcp().shutdown(Shutdown::Both).unwrap();
        assert_eq!(left.end(), closed(1001, "peer closed"));
    }
}

fn arrives_before_the_end(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    for number in 0..20 {
        client.binary(&[number; 30_000]);
    }
    client.send(0x88, b"").unwrap();
    for number in 0..20 {
        assert!(server.message().unwrap() == [number; 30_000]);
    }
    assert_eq!(server.got(), closed(1001, "peer closed"));
}

fn gone_midway(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    let long = sealway_testkit::raw_ws::frame(0x82, &vec![1; 500_000]);
    client.send_raw(&long[..300_000]).unwrap();
    client.tcp().shutdown(Shutdown::Both).unwrap();
    assert_eq!(server.end(), closed(1001, "peer closed"));
}

fn text(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    server.text("{}");
    assert_eq!(server.end(), closed(1003, "non binary frame"));
    assert_eq!(client.end(), closed(1001, "peer closed"));
    let mut alone = ground.waiting(&ground.pair()[0]);
    alone.text("");
    assert_eq!(alone.end(), closed(1003, "non binary frame"));
}

fn too_large(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    client.send_raw(b"\x82\xff\x00\x00\x00\x00\x00\x10\x00\x01\x00\x00\x00\x00").unwrap();
    assert_eq!(client.end(), closed(1009, ""));
    assert_eq!(server.end(), closed(1001, "peer closed"));
}

fn too_large_in_fragments(ground: &Ground) {
    let (mut client, mut server) = ground.paired(&ground.shared);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.send(0x02, &vec![0; 1 << 19]).unwrap();
            let _ = client.send(0x00, &vec![0; 1 << 19]);
            let _ = client.send(0x80, b"x");
            assert_eq!(client.end(), closed(1009, ""));
        });
        assert_eq!(server.end(), closed(1001, "peer closed"));
    });
}

fn init_expired(ground: &Ground) {
    let claims = ground.pair_until(BEGIN_S);
    let (mut client, mut server) = ground.paired_as(&ground.shared, &claims);
    assert_eq!(client.end(), closed(1008, "init expired"));
    assert_eq!(server.end(), closed(1008, "init expired"));
    let mut alone = ground.attach(ground.shared.near(), &ground.pair_until(BEGIN_S)[0]);
    assert_eq!(alone.end(), closed(1008, "init expired"), "alone too");
}

fn fake_record(ground: &Ground) {
    let (mut client, mut server) = ground.paired_as(&ground.shared, &ground.pair_until(BEGIN_S));
    client.binary(&record(0));
    client.binary(&record(100));
    assert_eq!(server.end(), closed(1008, "init expired"));
    assert_eq!(client.end(), closed(1008, "init expired"));
}

/// Asserts that a channel is alive: a message sent over it arrives.
fn lives(client: &mut sealway_testkit::raw_ws::RawWs, server: &mut sealway_testkit::raw_ws::RawWs) {
    client.binary(b"lives");
    assert_eq!(server.message().unwrap(), b"lives");
}

fn lifted(ground: &Ground) {
    let (mut client, mut server) = ground.paired_as(&ground.shared, &ground.pair_until(BEGIN_S));
    client.binary(&record(16));
    server.binary(&record(16));
    assert_eq!((client.message().unwrap().len(), server.message().unwrap().len()), (34, 34));
    std::thread::sleep(Duration::from_secs(BEGIN_S.unsigned_abs()) + Duration::from_millis(2500));
    lives(&mut client, &mut server);
}

fn early_record(ground: &Ground) {
    let claims = ground.pair_until(BEGIN_S);
    let mut client = ground.attached(ground.shared.near(), &claims[0]);
    client.binary(&record(16));
    let mut client = ground.known(client);
    let mut server = ground.attach(ground.shared.far(), &claims[1]);
    assert_eq!(server.message().unwrap(), record(16));
    server.binary(&record(16));
    assert_eq!(client.message().unwrap(), record(16));
    assert_eq!(server.end(), closed(1008, "init expired"));
}

fn quick(ground: &Ground, more: &[&str]) -> Fleet {
    ground.fleet(&[&["--idle-timeout-ms", "2500", "--tick-ms", "50"], more].concat())
}

fn idle(ground: &Ground) {
    let fleet = quick(ground, &[]);
    let (mut client, mut server) = ground.paired(&fleet);
    assert_eq!(client.end(), closed(1001, "idle timeout"));
    assert_eq!(server.end(), closed(1001, "idle timeout"));
}

fn idle_with_pings(ground: &Ground) {
    let fleet = quick(ground, &[]);
    let (mut client, _server) = ground.paired(&fleet);
    let begun = Instant::now();
    let end = loop {
        let _ = client.send(0x89, b"");
        match client.try_next(Duration::from_millis(100)).unwrap() {
            Some(Got::Frame(..)) | None => {}
            Some(end) => break end,
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
    };
    assert_eq!(end, closed(1001, "idle timeout"));
}

fn kept_by_one_side(ground: &Ground) {
    let fleet = quick(ground, &[]);
    let (mut client, mut server) = ground.paired(&fleet);
    // A machine may pause for long between two of these: only a received message proves that the channel was alive.
    for _ in 0..50 {
        server.binary(b"");
        std::thread::sleep(Duration::from_millis(100));
    }
    for _ in 0..50 {
        assert_eq!(client.message().unwrap(), b"");
    }
}

fn idle_of_the_token(ground: &Ground) {
    let claims = ground.pair().map(|claims| Claims { idle_timeout_s: Some(2), ..claims });
    let (mut client, _server) = ground.paired_as(&ground.shared, &claims);
    assert_eq!(client.end(), closed(1001, "idle timeout"));
    let fleet = quick(ground, &[]);
    let claims = ground.pair().map(|claims| Claims { idle_timeout_s: Some(3600), ..claims });
    let (mut client, mut server) = ground.paired_as(&fleet, &claims);
    std::thread::sleep(Duration::from_secs(4));
    lives(&mut client, &mut server);
}

fn keepalive(ground: &Ground) {
    let fleet = ground.fleet(&["--keepalive-ms", "700", "--tick-ms", "50"]);
    let (mut silent, mut lively) = ground.paired(&fleet);
    silent.answers = false;
    assert_eq!(lively.end(), closed(1001, "peer closed"), "it answers pings, the other does not");
    assert_eq!(silent.got(), Got::Frame(0x89, Vec::new()), "it was asked");
}

fn stalled(ground: &Ground) {
    let fleet = ground.fleet(&["--write-timeout-ms", "1500", "--tick-ms", "50"]);
    let (mut sender, stalled) = ground.paired(&fleet);
    let (mut other, mut other_end) = ground.paired(&fleet);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Until the connection accepts no more data.
            while sender.send(0x82, &[0; 65536]).is_ok() {}
        });
        for _ in 0..50 {
            lives(&mut other, &mut other_end);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // Data in transit at the reset of a connection may be lost, the close frame too.
    assert!(matches!(sender.end(), Got::Close(1001, _) | Got::Abrupt));
    drop(stalled);
    lives(&mut other, &mut other_end);
}

fn drained(ground: &Ground) {
    let mut fleet = ground.fleet(&["--drain-s", "3", "--tick-ms", "50"]);
    let (mut client, mut server) = ground.paired(&fleet);
    let begun = Instant::now();
    for relay in &fleet.relays {
        relay.signal(Signal::TERM).unwrap();
    }
    lives(&mut client, &mut server);
    let far = [client.end(), server.end()];
    assert!(begun.elapsed() >= Duration::from_millis(500), "there is a while in which channels may end by themselves");
    assert!(far.contains(&closed(1001, "relay draining")), "{far:?}");
    for end in far {
        assert!(matches!(end, Got::Close(1001, _)), "{end:?}");
    }
    drop((client, server));
    for relay in &mut fleet.relays {
        assert!(relay.wait().unwrap(), "{}", relay.log());
    }
}

fn anew(ground: &Ground) {
    let claims = ground.pair();
    let (mut client, mut server) = ground.paired_as(&ground.shared, &claims);
    client.send(0x88, b"\x03\xe8").unwrap();
    assert_eq!((client.end(), server.end()), (closed(1000, ""), closed(1001, "peer closed")));
    ground.paired_as(&ground.shared, &claims.map(|claims| super::again(&claims)));
}
