//! Handshakes: settings that agree, and the error of each rejected one.

use sealway_proto::channel::{
    ChannelError, ChannelSettings, Content, Handshake, Opener, Progress, RecordContent, Sealer, Suite,
};

use crate::ends::{NOW_S, connected, draw, provider, public, settings, talk};

fn send(progress: Progress) -> Vec<u8> {
    match progress {
        Progress::Send(message) | Progress::SendThenDone(message) => message,
        other => panic!("nothing to send: {other:?}"),
    }
}

fn v1() -> Suite {
    Suite::from_id(1).unwrap()
}

fn records(handshake: Handshake) -> (Sealer, Opener) {
    handshake.into_records().unwrap()
}

#[test]
fn both_ends_of_every_suite_agree_and_talk() {
    for suite in Suite::all() {
        let (mut client, mut server) = connected(suite);
        for _ in 0..3 {
            assert_eq!(
                server.opener.open(&mut client.data(b"to the server")),
                Ok(RecordContent::Data(b"to the server"))
            );
            assert_eq!(
                client.opener.open(&mut server.data(b"to the client")),
                Ok(RecordContent::Data(b"to the client"))
            );
            assert_eq!(server.opener.open(&mut client.seal(Content::Ping(0), b"")), Ok(RecordContent::Ping(0)));
            assert_eq!(client.opener.open(&mut server.seal(Content::Rekey, b"")), Ok(RecordContent::Rekeyed));
        }
    }
}

#[test]
fn no_end_is_connected_before_the_other_has_proved_its_keys() {
    for suite in Suite::all() {
        let (client, server) = settings(suite);
        let (client, first) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
        let mut ends = [Handshake::server(server, provider(), draw()).unwrap(), client];
        let (mut message, mut progress) = (first, None);
        for number in 0_usize.. {
            let said = ends[number % 2].read(&message, NOW_S).unwrap();
            match said {
                Progress::Send(next) => message = next,
                Progress::SendThenDone(next) => {
                    assert_eq!(progress, None, "the first to be connected");
                    // It ends with a record: a ping that proves its keys.
                    assert!(sealway_proto::channel::looks_like_record(&next), "{}", suite.name());
                    (message, progress) = (next, Some(number));
                }
                Progress::Done => {
                    assert_eq!(progress, Some(number - 1));
                    break;
                }
                Progress::Wait => unreachable!("no message of these handshakes needs no answer"),
            }
        }
    }
}

#[test]
fn a_client_that_waits_for_no_ping_says_so_in_its_settings() {
    let (mut client, server) = settings(v1());
    client.accept_unconfirmed = true;
    let (mut client, init) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
    let mut server = Handshake::server(server, provider(), draw()).unwrap();
    let resp = send(server.read(&init, NOW_S).unwrap());
    let Progress::SendThenDone(ack) = client.read(&resp, NOW_S).unwrap() else { panic!("not done") };
    let mut ping = send(server.read(&ack, NOW_S).unwrap());
    // A late server's ping is then the first record.
    assert_eq!(records(client).1.open(&mut ping), Ok(RecordContent::Ping(0)));
}

#[test]
fn a_client_takes_no_other_first_record_for_the_servers_proof() {
    let (client, server) = settings(v1());
    let (mut client, init) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
    let mut server = Handshake::server(server, provider(), draw()).unwrap();
    let resp = send(server.read(&init, NOW_S).unwrap());
    let ack = send(client.read(&resp, NOW_S).unwrap());
    server.read(&ack, NOW_S).unwrap();
    // Its second record, instead of the ping that is its first.
    let mut data = Vec::new();
    records(server).0.seal(Content::Data, b"x", &mut data, 0).unwrap();
    assert_eq!(client.read(&data, NOW_S), Err(ChannelError::RecordMissing));
    assert_eq!(client.read(&data, NOW_S), Err(ChannelError::HandshakeState));
}

/// Part B 1 of the design: a relay that replays Init and Ack on a second connection of the server.
#[test]
fn a_relay_that_doubles_init_and_ack_never_gets_two_equal_keys() {
    for suite in [1, 2].map(|id| Suite::from_id(id).unwrap()) {
        let (client, server) = settings(suite);
        let (mut client, init) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
        let mut first = Handshake::server(server.clone(), provider(), draw()).unwrap();
        let mut second = Handshake::server(server, provider(), draw()).unwrap();
        let resp = send(first.read(&init, NOW_S).unwrap());
        let other = send(second.read(&init, NOW_S).unwrap());
        assert_ne!(resp, other, "two connections share an answer");
        let ack = send(client.read(&resp, NOW_S).unwrap());
        assert_eq!(second.read(&ack, NOW_S), Err(ChannelError::HandshakeIdMismatch));
        assert!(second.into_records().is_err());
        assert!(matches!(first.read(&ack, NOW_S), Ok(Progress::SendThenDone(_))));
        // Nor does the Ack count twice where it belongs.
        assert_eq!(first.read(&ack, NOW_S), Err(ChannelError::HandshakeState));
    }
}

#[test]
fn two_connections_of_equal_settings_never_have_equal_keys() {
    for suite in Suite::all() {
        let (mut one, _) = connected(suite);
        let (_, mut other) = connected(suite);
        assert_eq!(other.opener.open(&mut one.data(b"x")), Err(ChannelError::RecordUnsealable), "{}", suite.name());
    }
}

#[test]
fn an_init_may_be_repeated_byte_for_byte_until_the_ack_and_no_other_may_come() {
    let (client_settings, server) = settings(v1());
    let (mut client, init) = Handshake::client(client_settings.clone(), provider(), draw(), NOW_S).unwrap();
    let (_, another) = Handshake::client(client_settings, provider(), draw(), NOW_S).unwrap();

    let mut strict = Handshake::server(server.clone(), provider(), draw()).unwrap();
    strict.read(&init, NOW_S).unwrap();
    assert_eq!(strict.read(&another, NOW_S), Err(ChannelError::InitChanged));
    assert_eq!(strict.read(&init, NOW_S), Err(ChannelError::HandshakeState));

    let mut server = Handshake::server(server, provider(), draw()).unwrap();
    let resp = send(server.read(&init, NOW_S).unwrap());
    assert_eq!(send(server.read(&init, NOW_S).unwrap()), resp);
    let ack = send(client.read(&resp, NOW_S).unwrap());
    let ping = send(server.read(&ack, NOW_S).unwrap());
    assert_eq!(client.read(&ping, NOW_S), Ok(Progress::Done));
    assert_eq!(server.read(&init, NOW_S), Err(ChannelError::HandshakeState));
}

type Edit = fn(&mut ChannelSettings);

/// Changes the client's settings, and returns the error of the handshake.
fn disagree(suite: Suite, edit: Edit) -> ChannelError {
    let (mut client, server) = settings(suite);
    edit(&mut client);
    match talk((client, server), |_, _| {}) {
        Ok(_) => panic!("{}: agreed on different settings", suite.name()),
        Err(error) => error,
    }
}

#[test]
fn v1_ends_with_different_settings_report_the_difference() {
    let differ: [(Edit, ChannelError); 3] = [
        (|s| s.channel_id = "channel-2".into(), ChannelError::ChannelMismatch),
        (|s| s.psk = [8; 32].into(), ChannelError::HandshakeUnauthentic),
        (
            |s| {
                s.suite = Suite::from_id(2).unwrap();
                s.allowed_suites = vec![2];
            },
            ChannelError::SuiteMismatch,
        ),
    ];
    for (edit, error) in differ {
        assert_eq!(disagree(v1(), edit), error);
    }
}

#[test]
fn native_ends_with_different_settings_do_not_agree() {
    let differ: [Edit; 6] = [
        |s| s.channel_id = "channel-2".into(),
        |s| s.psk = [8; 32].into(),
        |s| s.init_expires_s += 1,
        |s| s.bind(provider(), "relay.example", "another"),
        |s| s.allowed_suites.push(0x100),
        |s| s.allowed_suites.insert(0, 1),
    ];
    for suite in Suite::all().filter(|suite| suite.is_native()) {
        for edit in differ {
            let found = disagree(suite, edit);
            assert_eq!(found, ChannelError::HandshakeUnauthentic, "{}", suite.name());
        }
    }
}

#[test]
fn native_ends_of_different_suites_do_not_agree() {
    let suites: Vec<Suite> = Suite::all().filter(|suite| suite.is_native()).collect();
    for (one, other) in suites.iter().zip(suites.iter().skip(1)) {
        let (client, _) = settings(*one);
        let (_, server) = settings(*other);
        assert!(talk((client, server), |_, _| {}).is_err());
    }
}

#[test]
fn a_static_key_that_is_not_the_pinned_one_is_refused_on_either_side() {
    for suite in Suite::all() {
        let Suite::Native(native) = suite else { continue };
        if !native.pattern.has_static_keys() {
            continue;
        }
        let stranger = public(native.curve, &[0x63; 32]);
        assert_eq!(native.static_public(provider(), &[0x63; 32]), Ok(stranger.clone()));
        let (mut client, server) = settings(suite);
        client.peer_static = Some(stranger.clone());
        assert!(talk((client, server), |_, _| {}).is_err(), "{}: a stranger for a server", suite.name());
        let (client, mut server) = settings(suite);
        server.peer_static = Some(stranger);
        assert!(talk((client, server), |_, _| {}).is_err(), "{}: a stranger for a client", suite.name());
        let (mut client, server) = settings(suite);
        client.local_static = Some([0x63; 32].into());
        assert!(talk((client, server), |_, _| {}).is_err(), "{}: the client is a stranger", suite.name());
    }
}

#[test]
fn a_handshake_holds_to_its_time() {
    // Ack: 30 seconds either way, and not after the channel's time to begin.
    for (now_s, outcome) in [
        (NOW_S + 30, Ok(())),
        (NOW_S - 30, Ok(())),
        (NOW_S + 31, Err(ChannelError::HandshakeTimestamp)),
        (NOW_S - 31, Err(ChannelError::HandshakeTimestamp)),
    ] {
        let (client, server) = settings(v1());
        let (mut client, init) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
        let mut server = Handshake::server(server, provider(), draw()).unwrap();
        let resp = send(server.read(&init, NOW_S).unwrap());
        let ack = send(client.read(&resp, NOW_S).unwrap());
        assert_eq!(server.read(&ack, now_s).map(|_| ()), outcome, "{now_s}");
    }
    for suite in [v1(), Suite::from_id(0x100).unwrap()] {
        let (client, _) = settings(suite);
        let late = Handshake::client(client.clone(), provider(), draw(), client.init_expires_s + 31);
        assert_eq!(late.unwrap_err(), ChannelError::InitExpired);
    }
    let (client, server) = settings(Suite::from_id(0x100).unwrap());
    let late = client.init_expires_s + 31;
    let (_, first) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
    let mut server = Handshake::server(server, provider(), draw()).unwrap();
    assert_eq!(server.read(&first, late), Err(ChannelError::InitExpired));
}

#[test]
fn settings_out_of_bounds_are_named() {
    let wrong: [(Edit, &str); 8] = [
        (|s| s.channel_id = String::new(), "channel_id"),
        (|s| s.channel_id = "x".repeat(257), "channel_id"),
        (|s| s.allowed_suites = vec![1], "allowed_suites"),
        (|s| s.content_max = 65 * 1024, "content_max"),
        (|s| s.rekey_after_records = 1 << 21, "rekey_after_records"),
        (|s| s.rekey_after_ms = 0, "rekey_after_ms"),
        (|s| s.local_static = None, "local_static and peer_static"),
        (|s| s.peer_static = Some(vec![2; 31]), "peer_static"),
    ];
    for (edit, name) in wrong {
        let (mut client, _) = settings(Suite::from_id(0x110).unwrap());
        edit(&mut client);
        let refused = Handshake::client(client, provider(), draw(), NOW_S).unwrap_err();
        assert_eq!(refused, ChannelError::SettingInvalid(name));
    }
}

#[test]
fn nothing_that_holds_a_key_prints_it() {
    let (client, _) = settings(Suite::from_id(0x110).unwrap());
    let text = format!("{client:?}");
    assert!(!text.contains("7, 7") && !text.contains("33, 33") && !text.contains("static"), "{text}");
    let (handshake, _) = Handshake::client(client, provider(), draw(), NOW_S).unwrap();
    assert_eq!(format!("{handshake:?} {:?}", draw()), "Handshake(redacted) HandshakeRandoms(redacted)");
    let (end, _) = connected(v1());
    assert_eq!(format!("{:?} {:?}", end.sealer, end.opener), "Sealer(redacted) Opener(redacted)");
}
