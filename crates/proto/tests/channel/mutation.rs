//! Every byte and every field of every handshake message, and of every record's header: a change is rejected.

use sealway_proto::channel::{ChannelError, Content, RecordContent, Suite};
use serde_json::{Map, Value, json};

use crate::ends::{Talk, connected, settings, talk};

/// The longer of the two frames' headers.
const HEADER_LEN: usize = 18;

/// The messages of an honest handshake of this suite; their lengths are the same each time.
fn honest(suite: Suite) -> Vec<Vec<u8>> {
    talk(settings(suite), |_, _| {}).unwrap().messages.into_iter().map(|(_, message)| message).collect()
}

/// Changes the message with this number, and asserts that the two ends do not both report connected.
fn refused(suite: Suite, number: usize, what: &str, change: impl Fn(&mut Vec<u8>)) {
    let outcome = talk(settings(suite), |at, message| {
        if at == number {
            change(message);
        }
    });
    // The sender does not matter: one end rejected, and the reader of this message did not complete the handshake by it.
    assert!(outcome.is_err(), "{}: message {number} with {what} was taken", suite.name());
}

/// Bits that are flipped in each byte.
fn flip_all(suite: Suite, bits: &[u8], step: usize) {
    for (number, message) in honest(suite).iter().enumerate() {
        for at in (0..message.len()).filter(|at| *at < HEADER_LEN || at % step == 0) {
            for bit in bits {
                if is_suite_zero(suite, message, at, *bit) {
                    continue;
                }
                refused(suite, number, &format!("bit {bit} of byte {at} flipped"), |message| {
                    message[at] ^= 1 << bit;
                });
            }
        }
        for len in [0, 1, 9, 10, message.len() / 2, message.len() - 1] {
            refused(suite, number, &format!("{len} bytes left"), |message| message.truncate(len));
        }
        refused(suite, number, "a byte more", |message| message.push(0));
        refused(suite, number, "a byte more that is counted", |message| {
            message.push(b'x');
            let len = u32::from_be_bytes(message[6..10].try_into().unwrap()) + 1;
            message[6..10].copy_from_slice(&len.to_be_bytes());
        });
    }
}

/// v1: the one change that a server accepts. Suite 0 stands for the server's own since the first server; the transcript
/// contains the server's own number, so both ends still agree on one key or on none.
fn is_suite_zero(suite: Suite, message: &[u8], at: usize, bit: u8) -> bool {
    let changed = message[at] ^ 1 << bit;
    !suite.is_native() && changed == b'0' && message[..at].ends_with(br#""suite":"#)
}

#[test]
fn a_changed_bit_in_a_handshake_of_v1_is_refused() {
    for suite in Suite::all().filter(|suite| !suite.is_native()) {
        let messages = honest(suite);
        assert_eq!(messages.len(), 4, "Init, Resp, Ack, ping");
        flip_all(suite, &[0, 1, 2, 3, 4, 5, 6, 7], 1);
    }
}

#[test]
fn a_changed_byte_in_a_native_handshake_is_refused() {
    for suite in Suite::all() {
        let Suite::Native(native) = suite else { continue };
        // The long messages of ML-KEM are the same whatever the curve and the cipher: each byte of one, some of the others.
        let step = if native.hybrid && suite.id() & 3 != 0 { 31 } else { 1 };
        flip_all(suite, &[(suite.id() % 8) as u8], step);
    }
}

#[test]
fn suite_zero_is_the_servers_own_and_changes_no_key() {
    let suite = Suite::from_id(1).unwrap();
    let outcome = talk(settings(suite), |number, message| {
        if number == 0 {
            let at = message.windows(9).position(|part| part == br#""suite":1"#).unwrap();
            message[at + 8] = b'0';
        }
    });
    let Talk { client, server, client_done, server_done, .. } = outcome.unwrap();
    assert!(client_done && server_done);
    let ((mut sealer, _), (_, mut opener)) = (client.into_records().unwrap(), server.into_records().unwrap());
    let mut record = Vec::new();
    sealer.seal(Content::Data, b"hello", &mut record, 0).unwrap();
    assert_eq!(opener.open(&mut record), Ok(RecordContent::Data(b"hello")));
}

/// Returns other values for a member: absent, of another type, and similar to the right one.
fn others(value: &Value) -> Vec<Option<Value>> {
    let mut others =
        vec![None, Some(Value::Null), Some(json!([])), Some(json!({})), Some(json!(true)), Some(json!(""))];
    match value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap();
            others.extend([number + 1, number + 100, u64::MAX].map(|other| Some(json!(other))));
            others.extend([json!(-1), json!(0.5), json!(1e30), json!(number.to_string())].map(Some));
        }
        Value::String(text) => {
            let swapped: String = text.chars().rev().collect();
            others
                .extend([format!("{text}="), format!("{text}A"), format!(" {text}"), swapped].map(|o| Some(json!(o))));
        }
        _ => unreachable!("v1 has numbers and texts"),
    }
    others
}

#[test]
fn a_changed_field_in_a_handshake_of_v1_is_refused() {
    for suite in Suite::all().filter(|suite| !suite.is_native()) {
        for (number, message) in honest(suite).iter().enumerate().take(3) {
            let members: Map<String, Value> = serde_json::from_slice(&message[10..]).unwrap();
            for (name, value) in &members {
                for other in others(value) {
                    // The members differ from run to run, so the change is made to what comes.
                    refused(suite, number, &format!("{name} as {other:?}"), |message| {
                        let mut members: Map<String, Value> = serde_json::from_slice(&message[10..]).unwrap();
                        match &other {
                            Some(other) => members.insert(name.clone(), other.clone()),
                            None => members.remove(name),
                        };
                        let payload = serde_json::to_vec(&members).unwrap();
                        message.truncate(6);
                        message.extend_from_slice(&(payload.len() as u32).to_be_bytes());
                        message.extend_from_slice(&payload);
                    });
                }
            }
        }
    }
}

#[test]
fn an_unknown_member_of_a_v1_message_is_ignored() {
    let suite = Suite::from_id(2).unwrap();
    let outcome = talk(settings(suite), |number, message| {
        if number < 3 {
            message.truncate(message.len() - 1);
            message.extend_from_slice(br#","later":{"a":[1]}}"#);
            let len = (message.len() - 10) as u32;
            message[6..10].copy_from_slice(&len.to_be_bytes());
        }
    });
    assert!(outcome.unwrap().client_done);
}

#[test]
fn a_changed_bit_in_a_record_is_refused() {
    for suite in Suite::all() {
        let len = connected(suite).0.data(b"hello").len();
        for at in 0..len {
            // An error ends the channel, so each bit needs a new one; the bit varies with the byte and the suite.
            let bit = (at + usize::from(suite.id())) % 8;
            let (mut client, mut server) = connected(suite);
            let mut record = client.data(b"hello");
            record[at] ^= 1 << bit;
            assert!(server.opener.open(&mut record).is_err(), "{}: bit {bit} of byte {at}", suite.name());
        }
    }
}

#[test]
fn every_header_field_of_a_record_has_its_own_refusal() {
    for suite in Suite::all() {
        let wrong: [(usize, u8, ChannelError); 6] = [
            (0, 1, ChannelError::RecordInvalid),
            (4, 3, ChannelError::RecordInvalid),
            (5, 0x80, ChannelError::RecordFlags),
            (6, 1, ChannelError::RecordMissing),
            (17, 1, ChannelError::RecordTruncated),
            (14, 1, ChannelError::RecordTruncated),
        ];
        for (at, mask, error) in wrong {
            let (mut client, mut server) = connected(suite);
            let mut record = client.data(b"hello");
            record[at] ^= mask;
            assert_eq!(server.opener.open(&mut record), Err(error), "{} byte {at}", suite.name());
            // The error also ended the channel.
            assert_eq!(server.opener.open(&mut client.data(b"more")), Err(ChannelError::ChannelClosed));
        }
    }
}
