//! Headers of handshake messages and records. The two profiles differ in the magic and share the layout.
//! `spec/channel.md#framing`.

use alloc::vec::Vec;

use crate::channel::ChannelError;
use crate::channel::limits::{HANDSHAKE_HEADER_LEN, HANDSHAKE_PAYLOAD_MAX, RECORD_HEADER_LEN, RECORD_LEN_MAX};

/// The version of both kinds of frames.
const VERSION: u8 = 1;

/// The profile that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    V1,
    Native,
}

impl Profile {
    fn handshake_magic(self) -> &'static [u8; 4] {
        match self {
            Profile::V1 => b"FSEH",
            Profile::Native => b"SWNH",
        }
    }

    fn record_magic(self) -> &'static [u8; 4] {
        match self {
            Profile::V1 => b"FSEC",
            Profile::Native => b"SWNR",
        }
    }
}

/// Puts a payload into a handshake frame. The caller bounds the payload's length.
pub(crate) fn handshake(profile: Profile, kind: u8, payload: &[u8]) -> Result<Vec<u8>, ChannelError> {
    if payload.len() > HANDSHAKE_PAYLOAD_MAX {
        return Err(ChannelError::HandshakeTooLarge);
    }
    let mut out = Vec::with_capacity(HANDSHAKE_HEADER_LEN + payload.len());
    out.extend_from_slice(profile.handshake_magic());
    out.extend_from_slice(&[VERSION, kind]);
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    Ok(out)
}

/// Returns the payload of a handshake frame, which must be of the expected kind.
pub(crate) fn parse_handshake(profile: Profile, kind: u8, message: &[u8]) -> Result<&[u8], ChannelError> {
    let Some((head, payload)) = message.split_first_chunk::<HANDSHAKE_HEADER_LEN>() else {
        return Err(ChannelError::HandshakeFrameInvalid);
    };
    let [m0, m1, m2, m3, version, found, l0, l1, l2, l3] = *head;
    if [m0, m1, m2, m3] != *profile.handshake_magic() || version != VERSION {
        return Err(ChannelError::HandshakeFrameInvalid);
    }
    let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if len > HANDSHAKE_PAYLOAD_MAX {
        return Err(ChannelError::HandshakeTooLarge);
    }
    if len != payload.len() {
        return Err(ChannelError::HandshakeFrameInvalid);
    }
    if found != kind {
        return Err(ChannelError::HandshakeUnexpected);
    }
    Ok(payload)
}

/// The header of a record whose ciphertext and tag are `len` bytes together.
pub(crate) fn record_header(profile: Profile, flags: u8, seq: u64, len: usize) -> [u8; RECORD_HEADER_LEN] {
    let [m0, m1, m2, m3] = *profile.record_magic();
    let [s0, s1, s2, s3, s4, s5, s6, s7] = seq.to_be_bytes();
    // Every caller has checked `len` against RECORD_LEN_MAX.
    let [l0, l1, l2, l3] = (len as u32).to_be_bytes();
    [m0, m1, m2, m3, VERSION, flags, s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3]
}

/// The parsed header of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) bytes: [u8; RECORD_HEADER_LEN],
    pub(crate) flags: u8,
    pub(crate) seq: u64,
}

/// Splits a message into a record's header and its ciphertext with tag, and checks magic, version and lengths.
pub(crate) fn parse_record(
    profile: Profile,
    record_max: usize,
    message: &mut [u8],
) -> Result<(RecordHeader, &mut [u8]), ChannelError> {
    let total = message.len();
    let Some((head, sealed)) = message.split_first_chunk_mut::<RECORD_HEADER_LEN>() else {
        return Err(ChannelError::RecordTruncated);
    };
    let bytes = *head;
    let [m0, m1, m2, m3, version, flags, s0, s1, s2, s3, s4, s5, s6, s7, l0, l1, l2, l3] = bytes;
    if [m0, m1, m2, m3] != *profile.record_magic() || version != VERSION {
        return Err(ChannelError::RecordInvalid);
    }
    if total > record_max {
        return Err(ChannelError::RecordTooLarge);
    }
    let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if len != sealed.len() || len < crate::limits::TAG_LEN {
        return Err(ChannelError::RecordTruncated);
    }
    let seq = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    Ok((RecordHeader { bytes, flags, seq }, sealed))
}

/// Returns whether a message has the layout of a record of either profile. A relay uses it; it proves nothing about the sender.
pub fn looks_like_record(message: &[u8]) -> bool {
    let Some((head, rest)) = message.split_first_chunk::<RECORD_HEADER_LEN>() else { return false };
    let [m0, m1, m2, m3, version, _, _, _, _, _, _, _, _, _, l0, l1, l2, l3] = *head;
    let magic = [m0, m1, m2, m3];
    (magic == *Profile::V1.record_magic() || magic == *Profile::Native.record_magic())
        && version == VERSION
        && u32::from_be_bytes([l0, l1, l2, l3]) as usize == rest.len()
        && rest.len() <= RECORD_LEN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_recognised_by_magic_version_and_length() {
        for profile in [Profile::V1, Profile::Native] {
            let mut record = record_header(profile, 0, 1, 20).to_vec();
            record.extend_from_slice(&[0; 20]);
            assert!(looks_like_record(&record));
            assert!(!looks_like_record(&record[..37]));
            for at in [0, 1, 2, 3, 4, 14, 15, 16, 17] {
                let mut other = record.clone();
                other[at] ^= 1;
                assert!(!looks_like_record(&other), "byte {at}");
            }
        }
        assert!(looks_like_record(&record_header(Profile::V1, 0, 1, 0)));
        assert!(!looks_like_record(b"FSEC"));
        let mut large = record_header(Profile::V1, 0, 1, RECORD_LEN_MAX + 1).to_vec();
        large.resize(RECORD_HEADER_LEN + RECORD_LEN_MAX + 1, 0);
        assert!(!looks_like_record(&large));
    }
}
