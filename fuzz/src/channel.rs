//! `channel-handshake`, `channel-records`, `channel-frames`: two ends of a channel, and an attacker between them that changes
//! messages.
//!
//! Input: a suite's number; lines, in order; an empty line; bytes. A line edits a message by its number: `flip N AT`, `cut N
//! LEN`, `raw N` (the bytes in its place), `again N` (sent twice). In `channel-records` lines also say what the client sends:
//! `data`, `ping`, `rekey`, `close`.

use sealway_proto::channel::{
    ChannelError, ChannelSettings, CloseReason, Content, Handshake, HandshakeRandoms, Opener, Progress, RecordContent,
    Sealer, Suite, looks_like_record,
};
use sealway_proto::crypto::agreement::{AgreementProvider, Curve};
use sealway_proto::crypto::no_security::NoSecurity;

use crate::input::{Script, script};

const NOW_S: u64 = 1_700_000_000;

static PROVIDER: NoSecurity = NoSecurity;

fn settings(suite: Suite) -> (ChannelSettings, ChannelSettings) {
    let mut client = ChannelSettings::new("fuzzed", [7; 32], suite, NOW_S + 60);
    client.rekey_after_records = 3;
    let mut server = client.clone();
    if let Suite::Native(native) = suite
        && native.pattern.has_static_keys()
    {
        (client.local_static, server.local_static) = (Some([1; 32].into()), Some([2; 32].into()));
        client.peer_static = Some(public(native.curve, &[2; 32]));
        server.peer_static = Some(public(native.curve, &[1; 32]));
    }
    (client, server)
}

fn public(curve: Curve, private: &[u8; 32]) -> Vec<u8> {
    let key = PROVIDER.agreement_from_private(curve, private).expect("any bytes are a key here");
    let public = key.public();
    match curve {
        Curve::X25519 => public.to_vec(),
        Curve::P256 => [&[2 | (public[64] & 1)][..], &public[1..33]].concat(),
    }
}

fn ends(suite: Suite) -> (Handshake, Vec<u8>, Handshake) {
    let (client, server) = settings(suite);
    let randoms = || HandshakeRandoms::draw(&PROVIDER).expect("it always gives");
    let (client, first) = Handshake::client(client, &PROVIDER, randoms(), NOW_S).expect("settings are good");
    (client, first, Handshake::server(server, &PROVIDER, randoms()).expect("settings are good"))
}

fn suite_of(input: &mut Script<'_>) -> Option<Suite> {
    let line = if input.lines.is_empty() { return None } else { input.lines.remove(0) };
    Suite::from_id(line.parse().ok()?).ok()
}

/// Returns the messages that the attacker sends in place of the message with this number: one, two, or another.
fn edited(input: &Script<'_>, number: usize, message: Vec<u8>) -> Vec<Vec<u8>> {
    let mut sent = vec![message];
    for line in &input.lines {
        let mut words = line.split(' ');
        let (what, at) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse().ok()));
        let value = words.next().and_then(|word| word.parse::<usize>().ok()).unwrap_or_default();
        if at != Some(number) {
            continue;
        }
        let message = &mut sent[0];
        match what {
            "flip" if value < message.len() => message[value] ^= 1,
            "cut" => message.truncate(value),
            "raw" => *message = input.body.to_vec(),
            "again" => sent.push(sent[0].clone()),
            _ => {}
        }
    }
    sent
}

/// Returns true if no edit names a message. The channel then has to work without errors.
fn is_honest(input: &Script<'_>) -> bool {
    let edits = ["flip", "cut", "raw", "again"];
    !input.lines.iter().any(|line| edits.iter().any(|edit| line.starts_with(edit)))
}

/// Runs the handshake between both ends. Returns both if they are connected.
fn talk(suite: Suite, input: &Script<'_>) -> Option<(Handshake, Handshake)> {
    let (client, first, server) = ends(suite);
    let mut ends = [(server, false), (client, false)];
    let mut next = vec![(0, first)];
    for number in 0..12 {
        let Some((reader, message)) = next.pop() else { break };
        for message in edited(input, number, message) {
            let (end, done) = &mut ends[reader];
            let was_done = *done;
            match end.read(&message, NOW_S) {
                Ok(progress) => {
                    assert!(!was_done, "a handshake goes on after its end");
                    *done = matches!(progress, Progress::Done | Progress::SendThenDone(_));
                    if let Progress::Send(message) | Progress::SendThenDone(message) = progress {
                        next.push((1 - reader, message));
                    }
                }
                Err(_) => assert_eq!(end.read(&message, NOW_S), Err(ChannelError::HandshakeState), "a way on"),
            }
        }
    }
    let [(server, true), (client, true)] = ends else { return None };
    Some((client, server))
}

/// The fuzz target for the handshake of a suite with edited messages.
pub fn handshake(data: &[u8]) {
    let Some(mut input) = script(data) else { return };
    let Some(suite) = suite_of(&mut input) else { return };
    let connected = talk(suite, &input);
    assert!(connected.is_some() || !is_honest(&input), "an honest handshake does not end");
    let Some((client, server)) = connected else { return };
    // An end that failed on a later message has no state left.
    let (Ok((mut sealer, _)), Ok((_, mut opener))) = (client.into_records(), server.into_records()) else {
        assert!(!is_honest(&input));
        return;
    };
    let mut record = Vec::new();
    sealer.seal(Content::Data, input.body.get(..100).unwrap_or_default(), &mut record, 0).expect("it fits");
    let opened = opener.open(&mut record).is_ok();
    assert!(opened || !is_honest(&input), "two connected ends do not understand each other");
}

fn records_of(suite: Suite) -> (Sealer, Opener) {
    let honest = Script { lines: Vec::new(), body: &[] };
    let (client, server) = talk(suite, &honest).expect("an honest handshake ends");
    let (sealer, _) = client.into_records().expect("it is done");
    let (_, opener) = server.into_records().expect("it is done");
    (sealer, opener)
}

/// The fuzz target for edited records of the client.
pub fn records(data: &[u8]) {
    let Some(mut input) = script(data) else { return };
    let Some(suite) = suite_of(&mut input) else { return };
    let (mut sealer, mut opener) = records_of(suite);
    let body = input.body.get(..1000).unwrap_or(input.body);
    let mut failed = false;
    let mut number = 0;
    for line in input.lines.iter().take(50) {
        let (content, plaintext) = match *line {
            "data" => (Content::Data, body),
            "ping" => (Content::Ping(if suite.is_native() { 7 } else { 0 }), &[][..]),
            "rekey" => (Content::Rekey, &[][..]),
            "close" => (Content::Close(CloseReason { code: 1, reason: "bye".into() }), &[][..]),
            _ => continue,
        };
        let mut record = Vec::new();
        if sealer.seal(content.clone(), plaintext, &mut record, 0).is_err() {
            continue;
        }
        assert!(looks_like_record(&record));
        for (copy, mut sent) in edited(&input, number, record.clone()).into_iter().enumerate() {
            let is_own = sent == record && copy == 0;
            match opener.open(&mut sent) {
                Ok(opened) => {
                    assert!(!failed, "a record opens after the channel has failed");
                    assert!(is_own, "something else than the sender's next record opens");
                    assert_same(&content, plaintext, &opened);
                    failed = matches!(opened, RecordContent::Closed(_));
                }
                Err(error) => {
                    assert!(failed || !is_own, "an honest record is refused: {error}");
                    failed = true;
                }
            }
        }
        number += 1;
    }
}

fn assert_same(sent: &Content, plaintext: &[u8], opened: &RecordContent<'_>) {
    let same = match (sent, opened) {
        (Content::Data, RecordContent::Data(data)) => *data == plaintext,
        (Content::Ping(sent), RecordContent::Ping(number)) => sent == number,
        (Content::Rekey, RecordContent::Rekeyed) => true,
        (Content::Close(sent), RecordContent::Closed(why)) => sent == why,
        _ => false,
    };
    assert!(same, "{sent:?} opened as {opened:?}");
}

/// The fuzz target for raw bytes: every parser that reads bytes of a peer first.
pub fn frames(data: &[u8]) {
    let Some((suite, message)) = data.split_first_chunk::<2>() else { return };
    let Ok(suite) = Suite::from_id(u16::from_be_bytes(*suite)) else { return };
    let is_record = message.len() >= 18
        && (message.starts_with(b"FSEC") || message.starts_with(b"SWNR"))
        && message[4] == 1
        && message.len() - 18 <= 1 << 20
        && message[14..18] == ((message.len() - 18) as u32).to_be_bytes();
    assert_eq!(looks_like_record(message), is_record);

    let (mut client, first, mut server) = ends(suite);
    let answered = server.read(message, NOW_S).is_ok();
    assert!(!answered || message.starts_with(b"FSEH\x01\x01") || message.starts_with(b"SWNH\x01\x01"));
    assert!(!answered || message.len() <= 10 + 8192);
    assert!(client.read(message, NOW_S).is_err() || message != first.as_slice());
    let (_, mut opener) = records_of(suite);
    if opener.open(&mut message.to_vec()).is_ok() {
        assert!(is_record, "what is no record opens");
    }
}
