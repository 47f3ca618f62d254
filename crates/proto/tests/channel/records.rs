//! Records: the attacks of a relay on them and their errors; changes of keys; the end.

use sealway_proto::channel::{ChannelError, CloseReason, Content, RecordContent, Suite};

use crate::ends::{End, connected, connected_with, settings};

fn native() -> Suite {
    Suite::from_id(0x100).unwrap()
}

/// Returns the server's error for messages of the client, in a new channel.
fn made_of(suite: Suite, messages: impl Fn(&mut End, &mut End) -> Vec<Vec<u8>>) -> ChannelError {
    let (mut client, mut server) = connected(suite);
    let messages = messages(&mut client, &mut server);
    let (last, before) = messages.split_last().unwrap();
    for message in before {
        server.opener.open(&mut message.clone()).unwrap();
    }
    let error = server.opener.open(&mut last.clone()).unwrap_err();
    // After any error nothing opens any more.
    assert_eq!(server.opener.open(&mut client.data(b"more")), Err(ChannelError::ChannelClosed));
    error
}

#[test]
fn changes_to_records_in_transit_are_fatal_and_named() {
    for suite in Suite::all() {
        let name = suite.name();
        let replayed = made_of(suite, |client, _| {
            let record = client.data(b"a");
            vec![record.clone(), client.data(b"b"), record]
        });
        assert_eq!(replayed, ChannelError::RecordReplayed, "{name}");
        let doubled = made_of(suite, |client, _| vec![client.data(b"a"); 2]);
        assert_eq!(doubled, ChannelError::RecordReplayed, "{name}");
        let reordered = made_of(suite, |client, _| {
            let (first, second) = (client.data(b"a"), client.data(b"b"));
            assert_ne!(first, second);
            vec![second]
        });
        assert_eq!(reordered, ChannelError::RecordMissing, "{name}");
        let truncated = made_of(suite, |client, _| {
            let mut record = client.data(b"abc");
            record.pop();
            vec![record]
        });
        assert_eq!(truncated, ChannelError::RecordTruncated, "{name}");
        let longer = made_of(suite, |client, _| {
            let mut record = client.data(b"abc");
            record.push(0);
            vec![record]
        });
        assert_eq!(longer, ChannelError::RecordTruncated, "{name}");
        let cut_and_recounted = made_of(suite, |client, _| {
            let mut record = client.data(b"abc");
            record.pop();
            record[17] -= 1;
            vec![record]
        });
        assert_eq!(cut_and_recounted, ChannelError::RecordUnsealable, "{name}");
        let empty = made_of(suite, |_, _| vec![Vec::new()]);
        assert_eq!(empty, ChannelError::RecordTruncated, "{name}");
    }
}

#[test]
fn a_reflected_record_is_refused_by_name_where_the_profile_has_directions() {
    for suite in Suite::all() {
        for to_client in [false, true] {
            let (mut client, mut server) = connected(suite);
            let end = if to_client { &mut client } else { &mut server };
            let mut records: Vec<Vec<u8>> = (0..2).map(|_| end.data(b"mine")).collect();
            // Of two ends one has sent a record more, so that one of the numbers is what the other expects.
            let found: Vec<ChannelError> =
                records.iter_mut().map(|record| end.opener.open(record).unwrap_err()).collect();
            if suite.is_native() {
                assert_eq!(found[0], ChannelError::RecordReflected, "{}", suite.name());
            } else {
                assert_ne!(found[0], ChannelError::ChannelClosed);
            }
            assert_eq!(found[1], ChannelError::ChannelClosed);
        }
    }
}

#[test]
fn a_v1_record_with_the_number_that_is_due_does_not_open_when_it_is_ones_own() {
    // The client has read the server's ping, so 2 is due; its own second record comes back.
    let (mut client, _) = connected(Suite::from_id(1).unwrap());
    let _ = client.data(b"first");
    let mut second = client.data(b"second");
    assert_eq!(client.opener.open(&mut second), Err(ChannelError::RecordUnsealable));
}

#[test]
fn a_flood_of_records_changes_the_key_by_the_count_and_by_the_time() {
    let (mut client, server) = settings(native());
    (client.rekey_after_records, client.rekey_after_ms) = (2, 1000);
    let (mut client, mut server) = connected_with((client, server));
    for now_ms in [0, 1, 2, 3, 5000, 5001, 5002, 9000] {
        let mut record = Vec::new();
        client.sealer.seal(Content::Data, b"x", &mut record, now_ms).unwrap();
        assert_eq!(server.opener.open(&mut record), Ok(RecordContent::Data(b"x")), "{now_ms}");
    }
}

#[test]
fn a_clock_that_stands_or_goes_back_does_not_stop_a_sender() {
    let (mut client, mut server) = connected(native());
    for now_ms in [u64::MAX, 0, u64::MAX, 5] {
        let mut record = Vec::new();
        client.sealer.seal(Content::Data, b"x", &mut record, now_ms).unwrap();
        assert_eq!(server.opener.open(&mut record), Ok(RecordContent::Data(b"x")));
    }
}

#[test]
fn each_direction_changes_its_key_alone() {
    for suite in Suite::all() {
        let (mut client, mut server) = connected(suite);
        for _ in 0..3 {
            assert_eq!(server.opener.open(&mut client.seal(Content::Rekey, b"")), Ok(RecordContent::Rekeyed));
            assert_eq!(server.opener.open(&mut client.data(b"new")), Ok(RecordContent::Data(b"new")));
            assert_eq!(client.opener.open(&mut server.data(b"old")), Ok(RecordContent::Data(b"old")));
        }
    }
}

#[test]
fn a_native_close_is_the_last_word_of_its_direction_and_proves_itself() {
    let (mut client, mut server) = connected(native());
    let why = CloseReason { code: 7, reason: "done for today".into() };
    let mut record = client.seal(Content::Close(why.clone()), b"");
    assert_eq!(server.opener.open(&mut record), Ok(RecordContent::Closed(why)));
    let mut out = Vec::new();
    assert_eq!(client.sealer.seal(Content::Data, b"x", &mut out, 0), Err(ChannelError::ChannelClosed));
    assert!(out.is_empty());
    // The other direction goes on.
    assert_eq!(client.opener.open(&mut server.data(b"last")), Ok(RecordContent::Data(b"last")));
}

#[test]
fn pings_and_pongs_carry_their_number_in_the_native_profile() {
    let (mut client, mut server) = connected(native());
    let mut ping = client.seal(Content::Ping(u64::MAX), b"");
    assert_eq!(server.opener.open(&mut ping), Ok(RecordContent::Ping(u64::MAX)));
    let mut pong = server.seal(Content::Pong(u64::MAX), b"");
    assert_eq!(client.opener.open(&mut pong), Ok(RecordContent::Pong(u64::MAX)));
}

#[test]
fn an_operation_that_a_profile_lacks_is_the_callers_error() {
    let close = Content::Close(CloseReason { code: 0, reason: String::new() });
    let (mut client, mut server) = connected(Suite::from_id(1).unwrap());
    let mut out = Vec::new();
    for content in [Content::Ping(1), Content::Pong(0), close] {
        assert_eq!(client.sealer.seal(content, b"", &mut out, 0), Err(ChannelError::ContentUnsupported));
    }
    for (suite, max) in [(1, (1 << 20) - 34), (0x100, 64 * 1024)] {
        let (mut client, mut server) = connected(Suite::from_id(suite).unwrap());
        assert_eq!(client.sealer.plaintext_max(), max);
        let long = vec![5; max + 1];
        assert_eq!(client.sealer.seal(Content::Data, &long, &mut out, 0), Err(ChannelError::ContentTooLarge));
        assert_eq!(client.sealer.seal(Content::Ping(0), b"x", &mut out, 0), Err(ChannelError::ContentTooLarge));
        let mut record = client.data(&long[..max]);
        assert!(sealway_proto::channel::looks_like_record(&record));
        assert_eq!(server.opener.open(&mut record), Ok(RecordContent::Data(&long[..max])));
        record.resize((1 << 20) + 1, 0);
        assert_eq!(server.opener.open(&mut record), Err(ChannelError::RecordTooLarge));
    }
    assert!(out.is_empty());
    assert_eq!(server.opener.open(&mut client.data(b"x")), Ok(RecordContent::Data(b"x")));
    let long = Content::Close(CloseReason { code: 0, reason: "x".repeat(124) });
    let (mut client, _) = connected(native());
    assert_eq!(client.sealer.seal(long, b"", &mut out, 0), Err(ChannelError::ContentTooLarge));
}

#[test]
fn padded_records_have_few_lengths_and_open_to_what_was_sealed() {
    let (mut client, server) = settings(native());
    client.pad_to = 512;
    let (mut client, mut server) = connected_with((client, server));
    let mut lengths = std::collections::BTreeSet::new();
    for len in (0..1500).step_by(13).chain([65_535, 65_536]) {
        let plaintext = vec![0; len];
        let mut record = client.data(&plaintext);
        lengths.insert(record.len() - 34);
        assert_eq!(server.opener.open(&mut record), Ok(RecordContent::Data(&plaintext)));
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [512, 1024, 1536, 65_536, 65_537]);
}
