//! HTTP before the WebSocket: permitted upgrades, and the other paths.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Case, Fleet, Ground};

pub(crate) const CASES: &[Case] = &[
    ("a page is refused unless its origin is allowed, byte for byte", origins),
    ("no origin is allowed unless that is switched off", no_origin),
    ("a request without an upgrade is answered with the way to upgrade", no_upgrade),
    ("health is served, and any other path is not", health),
    ("metrics are served, and v1's names with signals where that is asked for", metrics),
    ("the path of the WebSocket can be set", path),
    ("a relay that stops lets nobody in", stopping),
];

fn status(got: Result<sealway_testkit::raw_ws::RawWs, u16>) -> u16 {
    got.map_or_else(|status| status, |_| 101)
}

fn origins(ground: &Ground) {
    assert_eq!(status(ground.shared.upgrade("/ws", &[("Origin", "https://a.example")])), 403);
    let fleet = ground.fleet(&["--allow-origin", "https://a.example", "--allow-origin", "https://b.example"]);
    for (origin, want) in [
        ("https://a.example", 101),
        ("https://b.example", 101),
        ("https://A.example", 403),
        ("https://a.example/", 403),
        ("http://a.example", 403),
        ("null", 403),
    ] {
        assert_eq!(status(fleet.upgrade("/ws", &[("Origin", origin)])), want, "{origin}");
    }
}

fn no_origin(ground: &Ground) {
    assert_eq!(status(ground.shared.upgrade("/ws", &[])), 101);
    let fleet = ground.fleet(&["--allow-no-origin=false", "--allow-origin", "https://a.example"]);
    assert_eq!(status(fleet.upgrade("/ws", &[])), 403);
    assert_eq!(status(fleet.upgrade("/ws", &[("Origin", "https://a.example")])), 101);
}

fn no_upgrade(ground: &Ground) {
    for (headers, want) in [
        (("Upgrade", ""), 426),
        (("Connection", "close"), 426),
        (("Sec-WebSocket-Version", "12"), 426),
        (("Sec-WebSocket-Key", "short"), 400),
        (("Sec-WebSocket-Key", ""), 400),
    ] {
        assert_eq!(status(ground.shared.upgrade("/ws", &[headers])), want, "{headers:?}");
    }
}

fn health(ground: &Ground) {
    assert_eq!(status(ground.shared.upgrade("/healthz", &[])), 200);
    assert_eq!(status(ground.shared.upgrade("/", &[])), 404);
    assert_eq!(status(ground.shared.upgrade("/ws/", &[])), 404);
}

fn metrics(ground: &Ground) {
    assert_eq!(status(ground.shared.upgrade("/metrics", &[])), 200);
    let fleet = ground.fleet(&["--metrics-compat"]);
    let shows = |fleet: &Fleet| status(fleet.upgrade("/metrics", &[]));
    assert_eq!(shows(&fleet), 404);
    for (signal, want) in [(Signal::USR1, 200), (Signal::USR2, 404), (Signal::USR1, 200)] {
        fleet.relays[0].signal(signal).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while shows(&fleet) != want {
            assert!(Instant::now() < until, "{signal:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn path(ground: &Ground) {
    let fleet = ground.fleet(&["--ws-path", "/tunnel"]);
    assert_eq!(status(fleet.upgrade("/tunnel", &[])), 101);
    assert_eq!(status(fleet.upgrade("/ws", &[])), 404);
}

fn stopping(ground: &Ground) {
    let fleet = ground.fleet(&["--drain-s", "20", "--tick-ms", "50"]);
    // A connection from before, which sends its request after the stop began; and a channel that delays the relay's exit.
    let _held = ground.known(fleet.near());
    let mut late = std::net::TcpStream::connect(fleet.relays[0].address).unwrap();
    if ground.ca.is_none() {
        std::io::Write::write_all(&mut late, b"GET /ws HTTP/1.1\r\n").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        fleet.relays[0].signal(Signal::TERM).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while !fleet.relays[0].log().contains("stopping") {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(100));
        let rest = b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        std::io::Write::write_all(&mut late, rest).unwrap();
        let mut answer = [0; 12];
        std::io::Read::read_exact(&mut late, &mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 503");
    }
}
