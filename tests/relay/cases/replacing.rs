//! Replacement of an endpoint by a new connection.

use sealway_proto::relay::Claims;
use sealway_testkit::raw_ws::Got;

use super::{Case, Ground, again, closed};

pub(crate) const CASES: &[Case] = &[
    ("who attaches to a place that is taken gets it, and both others go", replaces_both),
    ("a place that waits is taken over too, and what waited is gone", replaces_waiting),
    ("after a replacement both ends attach anew", restarts),
    ("a place is taken over five times in ten seconds, no more", rate_limited),
    ("each place has a count of its own", rate_by_role),
    ("the code of a refused replacement can be set", rate_code),
    ("a channel that ended forgets how often its places were taken over", rate_forgotten),
    ("a native place is taken over by the same instance alone", native),
    ("a v1 endpoint does not take a native place", native_from_v1),
    ("another init_exp does not take a place", other_init_exp),
];

fn replaces_both(ground: &Ground) {
    let claims = ground.pair();
    let (mut client, mut server) = ground.paired_as(&ground.shared, &claims);
    let mut fresh = ground.attached(ground.shared.far(), &again(&claims[0]));
    assert_eq!(client.end(), closed(1008, "replaced"));
    assert_eq!(server.end(), closed(1001, "peer closed"));
    fresh.binary(b"kept");
    let mut server = ground.attach(ground.shared.near(), &again(&claims[1]));
    assert_eq!(server.message().unwrap(), b"kept");
}

fn replaces_waiting(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut first = ground.attached(ground.shared.near(), &client);
    first.binary(b"gone");
    let mut second = ground.attached(ground.shared.far(), &again(&client));
    assert_eq!(first.end(), closed(1008, "replaced"));
    second.binary(b"kept");
    let mut server = ground.attach(ground.shared.near(), &server);
    assert_eq!(server.message().unwrap(), b"kept");
}

fn restarts(ground: &Ground) {
    let claims = ground.pair();
    let _first = ground.paired_as(&ground.shared, &claims);
    for _ in 0..2 {
        ground.paired_as(&ground.shared, &claims.clone().map(|claims| again(&claims)));
    }
}

fn rate_limited(ground: &Ground) {
    let [client, _] = ground.pair();
    let mut held = ground.attached(ground.shared.near(), &client);
    for _ in 0..5 {
        let next = ground.attached(ground.shared.far(), &again(&client));
        assert_eq!(held.end(), closed(1008, "replaced"));
        held = next;
    }
    let refused = again(&client);
    assert_eq!(ground.attach(ground.shared.near(), &refused).got(), closed(1013, "replace rate limited"));
    assert_eq!(ground.attach(ground.shared.near(), &refused).got(), closed(1008, "token replay"), "it was burned");
    held.answers = false;
    held.send(0x89, b"mine").unwrap();
    assert_eq!(held.got(), Got::Frame(0x8a, b"mine".to_vec()), "who has it keeps it");
}

fn rate_by_role(ground: &Ground) {
    let [client, server] = ground.pair();
    let _held: Vec<_> = (0..6).map(|_| ground.attached(ground.shared.near(), &again(&client))).collect();
    assert_eq!(ground.attach(ground.shared.near(), &again(&client)).got(), closed(1013, "replace rate limited"));
    let _server = ground.attached(ground.shared.far(), &server);
    let _again = ground.attached(ground.shared.far(), &again(&server));
}

fn rate_code(ground: &Ground) {
    let fleet = ground.fleet(&["--replace-close-code", "1008"]);
    let [client, _] = ground.pair();
    let _held: Vec<_> = (0..6).map(|_| ground.attached(fleet.near(), &again(&client))).collect();
    assert_eq!(ground.attach(fleet.near(), &again(&client)).got(), closed(1008, "replace rate limited"));
}

fn rate_forgotten(ground: &Ground) {
    let [client, _] = ground.pair();
    let mut held: Vec<_> = (0..6).map(|_| ground.attached(ground.shared.near(), &again(&client))).collect();
    let mut last = held.pop().unwrap();
    last.send(0x88, b"\x03\xe8").unwrap();
    assert_eq!(last.end(), closed(1000, ""));
    let _fresh: Vec<_> = (0..6).map(|_| ground.attached(ground.shared.near(), &again(&client))).collect();
}

fn native(ground: &Ground) {
    let [client, server] = ground.pair();
    let mut first = ground.known(ground.attach_native(ground.shared.near(), &client, 1));
    let refused = again(&client);
    assert_eq!(ground.attach_native(ground.shared.far(), &refused, 2).got(), closed(1008, "replace refused"));
    assert_eq!(ground.attach_native(ground.shared.near(), &refused, 1).got(), closed(1008, "token replay"));
    let mut second = ground.known(ground.attach_native(ground.shared.far(), &again(&client), 1));
    assert_eq!(first.end(), closed(1008, "replaced"));
    second.binary(b"mine");
    let mut server = ground.attach_native(ground.shared.near(), &server, 2);
    assert_eq!(server.message().unwrap(), b"mine");
}

fn native_from_v1(ground: &Ground) {
    let [client, _] = ground.pair();
    let mut first = ground.known(ground.attach_native(ground.shared.near(), &client, 7));
    assert_eq!(ground.attach(ground.shared.near(), &again(&client)).got(), closed(1008, "replace refused"));
    first.answers = false;
    first.send(0x89, b"mine").unwrap();
    assert_eq!(first.got(), Got::Frame(0x8a, b"mine".to_vec()));
}

fn other_init_exp(ground: &Ground) {
    let [client, _] = ground.pair();
    let mut first = ground.attached(ground.shared.near(), &client);
    let wrong = again(&Claims { init_exp: client.init_exp + 1, ..client });
    assert_eq!(ground.attach(ground.shared.far(), &wrong).got(), closed(1011, "attach failed"));
    first.answers = false;
    first.send(0x89, b"mine").unwrap();
    assert_eq!(first.got(), Got::Frame(0x8a, b"mine".to_vec()));
}
