//! Every scenario of `vectors/channel`: both ends produce its bytes, and accept them. Scenarios of parts inside the crate (a
//! transcript of keys without owners, a record under a given key, Noise with payloads) are tested there.

use sealway_proto::channel::{
    ChannelSettings, CloseReason, Content, Handshake, HandshakeRandoms, KemRandoms, Progress, RecordContent, Suite,
};
use sealway_testkit::channel_vectors::{ChannelScenario, Native, V1, load_channel};

use crate::ends::{End, provider, public};

fn framed(kind: u8, payload: &str) -> Vec<u8> {
    [&b"FSEH\x01"[..], &[kind], &(payload.len() as u32).to_be_bytes(), payload.as_bytes()].concat()
}

/// Checks that the next messages of both ends are these, in turn; returns the two directions of each at the end.
fn play(client: (Handshake, Vec<u8>), server: Handshake, messages: &[Vec<u8>], now_s: u64) -> (End, End) {
    let ((client, first), mut expected) = (client, messages.iter());
    assert_eq!(&first, expected.next().unwrap());
    let (mut ends, mut message) = ([server, client], first);
    for number in 0_usize.. {
        match ends[number % 2].read(&message, now_s).unwrap() {
            Progress::Send(next) | Progress::SendThenDone(next) => {
                assert_eq!(&next, expected.next().unwrap(), "message {}", number + 2);
                message = next;
            }
            Progress::Done => break,
            Progress::Wait => unreachable!("no message of these handshakes needs no answer"),
        }
    }
    assert_eq!(expected.next(), None);
    let [server, client] = ends.map(|end| {
        let (sealer, opener) = end.into_records().unwrap();
        End { sealer, opener }
    });
    (client, server)
}

fn v1(v: &V1) {
    let suite = Suite::from_id(v.suite).unwrap();
    let settings = |features| {
        let expires_s = v.timestamp_s + 60;
        let mut settings = ChannelSettings::new(v.channel_id.as_str(), v.psk_hex.array(), suite, expires_s);
        settings.features = features;
        settings
    };
    let randoms = |nonce, private: &sealway_testkit::vectors::Hex| HandshakeRandoms {
        nonce,
        handshake_id: v.handshake_id_random_hex.array(),
        ephemeral: Some(private.array().into()),
        kem: KemRandoms::Draw,
    };
    let client = randoms(v.client_nonce_hex.array(), &v.client_private_hex);
    let client = Handshake::client(settings(v.client_features), provider(), client, v.timestamp_s).unwrap();
    let server = randoms(v.server_nonce_hex.array(), &v.server_private_hex);
    let server = Handshake::server(settings(v.server_features), provider(), server).unwrap();
    let (ping, rest) = v.records.split_first().unwrap();
    assert_eq!((ping.sender.as_str(), ping.kind.as_str()), ("server", "ping"));
    let messages = [framed(1, &v.init), framed(2, &v.resp), framed(3, &v.ack), ping.message_hex.0.clone()];
    let (mut client, mut server) = play(client, server, &messages, v.timestamp_s);
    for record in rest {
        let plaintext = record.plaintext_hex.0.as_slice();
        let (content, opened) = match record.kind.as_str() {
            "data" => (Content::Data, RecordContent::Data(plaintext)),
            "ping" => (Content::Ping(0), RecordContent::Ping(0)),
            _ => (Content::Rekey, RecordContent::Rekeyed),
        };
        exchange(&mut client, &mut server, &record.sender, content, plaintext, opened, &record.message_hex.0);
    }
}

fn exchange(
    client: &mut End,
    server: &mut End,
    sender: &str,
    content: Content,
    plaintext: &[u8],
    opened: RecordContent<'_>,
    expected: &[u8],
) {
    let (from, to) = if sender == "client" { (client, server) } else { (server, client) };
    let mut message = from.seal(content, plaintext);
    assert_eq!(message, expected);
    assert_eq!(to.opener.open(&mut message), Ok(opened));
}

fn native(v: &Native) {
    let suite = Suite::from_id(v.suite).unwrap();
    assert_eq!(suite.name(), v.noise_name);
    let Suite::Native(parts) = suite else { panic!("{} is no native suite", v.suite) };
    let settings = |own: &sealway_testkit::vectors::Hex, peer: &sealway_testkit::vectors::Hex| {
        let mut settings = ChannelSettings::new(v.channel_id.as_str(), v.psk_hex.array(), suite, v.init_expires_s);
        settings.bind(provider(), &v.audience, &v.issuer);
        settings.allowed_suites.clone_from(&v.allowed_suites);
        (settings.rekey_after_records, settings.pad_to) = (v.rekey_after_records, v.pad_to);
        if parts.pattern.has_static_keys() {
            settings.local_static = Some(own.array().into());
            settings.peer_static = Some(public(parts.curve, &peer.array()));
        }
        settings
    };
    let randoms = |private: &sealway_testkit::vectors::Hex, kem| HandshakeRandoms {
        nonce: [0; 32],
        handshake_id: [0; 24],
        ephemeral: Some(private.array().into()),
        kem: if parts.hybrid { kem } else { KemRandoms::Draw },
    };
    let kem = if parts.hybrid { v.kem_private_hex.array() } else { [0; 2400] };
    let randoms_client = randoms(&v.client_ephemeral_hex, KemRandoms::Private(Box::new(kem.into())));
    let secret = if parts.hybrid { v.kem_secret_hex.array() } else { [0; 32] };
    let kem = KemRandoms::Encapsulated(v.kem_ciphertext_hex.0.clone(), secret.into());
    let randoms_server = randoms(&v.server_ephemeral_hex, kem);
    let client = settings(&v.client_static_hex, &v.server_static_hex);
    let server = settings(&v.server_static_hex, &v.client_static_hex);
    let client = Handshake::client(client, provider(), randoms_client, v.init_expires_s).unwrap();
    let server = Handshake::server(server, provider(), randoms_server).unwrap();
    let (ping, rest) = v.records.split_first().unwrap();
    let mut messages: Vec<Vec<u8>> = v.messages.iter().map(|message| message.message_hex.0.clone()).collect();
    messages.push(ping.message_hex.0.clone());
    let (mut client, mut server) = play(client, server, &messages, v.init_expires_s);
    for record in rest {
        let bytes = record.content_hex.0.as_slice();
        let number = || u64::from_be_bytes(bytes.try_into().unwrap());
        let (content, plaintext, opened) = match record.kind.as_str() {
            "data" => (Content::Data, bytes, RecordContent::Data(bytes)),
            "ping" => (Content::Ping(number()), &[][..], RecordContent::Ping(number())),
            "pong" => (Content::Pong(number()), &[][..], RecordContent::Pong(number())),
            "rekey" => (Content::Rekey, bytes, RecordContent::Rekeyed),
            "close" => {
                let code = u16::from_be_bytes([bytes[0], bytes[1]]);
                let why = CloseReason { code, reason: String::from_utf8(bytes[2..].to_vec()).unwrap() };
                (Content::Close(why.clone()), &[][..], RecordContent::Closed(why))
            }
            unknown => panic!("nobody knows the kind {unknown}"),
        };
        exchange(&mut client, &mut server, &record.sender, content, plaintext, opened, &record.message_hex.0);
    }
}

#[test]
fn both_ends_make_and_take_the_bytes_of_every_vector() {
    let (mut v1s, mut natives) = (0, 0);
    for vector in load_channel().unwrap() {
        match &vector.scenario {
            ChannelScenario::V1(scenario) => {
                v1(scenario);
                v1s += 1;
            }
            ChannelScenario::Native(scenario) => {
                native(scenario);
                natives += 1;
            }
            // Inside the crate.
            ChannelScenario::V1Transcript(_) | ChannelScenario::V1Record(_) | ChannelScenario::Noise(_) => {}
        }
    }
    assert_eq!((v1s, natives), (2, 32));
}
