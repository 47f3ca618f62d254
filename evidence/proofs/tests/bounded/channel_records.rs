//! The frame layer of both profiles of channels: `crates/proto/src/channel/frame.rs`.

use sealway_proto::channel::ChannelError;
use sealway_proto::channel::limits::{HANDSHAKE_PAYLOAD_MAX, RECORD_LEN_MAX};

use crate::production::channel_frame::{
    Profile, RecordHeader, handshake, looks_like_record, parse_handshake, parse_record, record_header,
};
use crate::{Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "channel-frames";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "No message panics the parsers. A record or a handshake frame is accepted if and only if magic, version and \
     length are those of its layout, its length is within the bounds, and it is whole. An accepted one is encoded to the same bytes.";

pub(crate) type ParseRecord<'a> =
    &'a dyn for<'m> Fn(Profile, usize, &'m mut [u8]) -> Result<(RecordHeader, &'m mut [u8]), ChannelError>;

const HEADER_LEN: usize = 18;
const TAG_LEN: usize = 16;

fn magic(profile: Profile) -> &'static [u8; 4] {
    match profile {
        Profile::V1 => b"FSEC",
        Profile::Native => b"SWNR",
    }
}

/// Checks one message as a record of both profiles, with a bound on its length.
pub(crate) fn check_record(parse: ParseRecord<'_>, message: &[u8], record_max: usize) -> Outcome {
    for profile in [Profile::V1, Profile::Native] {
        let shown = message.get(..message.len().min(24)).unwrap_or_default().escape_ascii();
        let is_record = message.len() >= HEADER_LEN + TAG_LEN
            && message.len() <= record_max
            && message.starts_with(magic(profile))
            && message.get(4) == Some(&1)
            && message.get(14..18) == Some(&((message.len() - HEADER_LEN) as u32).to_be_bytes());
        let mut copy = message.to_vec();
        let parsed = parse(profile, record_max, &mut copy);
        ensure!(
            parsed.is_ok() == is_record,
            "message of {} bytes that begins with {shown}: accepted is {}, expected {is_record}",
            message.len(),
            parsed.is_ok()
        );
        let Ok((header, sealed)) = parsed else { continue };
        let again = [&record_header(profile, header.flags, header.seq, sealed.len())[..], sealed].concat();
        ensure!(again == message, "message {shown}: encoded to {}", again.escape_ascii());
        ensure!(looks_like_record(message), "message {shown}: a relay does not know it for a record");
    }
    Ok(2)
}

/// Checks one message as a handshake frame of both profiles.
pub(crate) fn check_handshake(message: &[u8], kind: u8) -> Outcome {
    for (profile, magic) in [(Profile::V1, b"FSEH"), (Profile::Native, b"SWNH")] {
        let payload = message.get(10..).unwrap_or_default();
        let is_frame = message.len() >= 10
            && payload.len() <= HANDSHAKE_PAYLOAD_MAX
            && message.starts_with(magic)
            && message.get(4) == Some(&1)
            && message.get(5) == Some(&kind)
            && message.get(6..10) == Some(&(payload.len() as u32).to_be_bytes());
        let shown = message.get(..message.len().min(16)).unwrap_or_default().escape_ascii();
        let parsed = parse_handshake(profile, kind, message);
        ensure!(parsed.is_ok() == is_frame, "handshake {shown}: {:?}, expected {is_frame}", parsed.map(<[u8]>::len));
        if let Ok(payload) = parsed {
            let again = handshake(profile, kind, payload);
            ensure!(again.as_deref() == Ok(message), "handshake {shown}: encoded to other bytes");
        }
    }
    Ok(2)
}

/// Checks records around all bounds: each length, each wrong byte of a header, each cut.
pub(crate) fn check_records(parse: ParseRecord<'_>, lens: impl Iterator<Item = usize>, max: usize) -> Outcome {
    let mut cases = 0;
    for len in lens {
        for profile in [Profile::V1, Profile::Native] {
            for seq in [0, 1, u64::MAX] {
                let mut message = record_header(profile, 1, seq, len).to_vec();
                message.resize(HEADER_LEN + len, 0xa5);
                cases += check_record(parse, &message, max)?;
                if seq == 1 {
                    cases += edits(&message, HEADER_LEN, |message| check_record(parse, message, max))?;
                }
            }
        }
    }
    Ok(cases)
}

/// Checks a message with each byte of its header changed in each way, each cut, and one byte more.
fn edits(message: &[u8], header_len: usize, mut check: impl FnMut(&[u8]) -> Outcome) -> Outcome {
    let mut cases = 0;
    let mut other = message.to_vec();
    for at in 0..header_len {
        for mask in [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff] {
            if let Some(byte) = other.get_mut(at) {
                *byte ^= mask;
                cases += check(&other)?;
            }
            if let Some(byte) = other.get_mut(at) {
                *byte ^= mask;
            }
        }
    }
    for cut in 0..message.len().min(header_len + 40) {
        cases += check(message.get(..cut).unwrap_or_default())?;
    }
    other.push(0);
    Ok(cases + check(&other)?)
}

/// Checks handshake frames around all bounds.
pub(crate) fn check_handshakes(lens: impl Iterator<Item = usize>) -> Outcome {
    let mut cases = 0;
    for len in lens {
        for magic in [b"FSEH", b"SWNH"] {
            for kind in [1, 2] {
                let mut message = [&magic[..], &[1, kind], &(len as u32).to_be_bytes()].concat();
                message.resize(10 + len, 0x5a);
                cases += edits(&message, 10, |message| check_handshake(message, 1))?;
                cases += check_handshake(&message, kind)?;
            }
        }
    }
    Ok(cases)
}

/// The bounds on a record's length under which the property is checked.
pub(crate) const RECORD_MAXIMA: [usize; 2] = [64, RECORD_LEN_MAX];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::report::{finds, holds};

    fn all(parse: ParseRecord<'_>) -> Outcome {
        let [small, large] = RECORD_MAXIMA;
        let around = |at: usize, by: usize| at - by..=at + by;
        Ok(check_records(parse, 0..=small + 20, small)?
            + check_records(parse, around(large - HEADER_LEN, bound(0, 1)), large)?
            + check_handshakes((0..=24).chain(around(HANDSHAKE_PAYLOAD_MAX, 2)))?)
    }

    #[test]
    fn channel_frames_hold_their_property() {
        let bounds = "records of up to 102 bytes and of about 1 MiB, handshake frames of up to 34 bytes and of about 8 KiB; both \
             profiles; nine changes of each header byte, every cut, one byte more";
        holds(NAME, PROPERTY, bounds, || all(&parse_record));
    }

    #[test]
    fn a_record_over_its_bound_is_found() {
        finds(NAME, "a record one byte over its bound is accepted", || {
            all(&|profile, max, message| parse_record(profile, max + 1, message))
        });
    }
}
