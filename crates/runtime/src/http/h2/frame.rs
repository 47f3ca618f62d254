//! Frames (RFC 9113 sections 4 and 6): their heads, the payloads of fixed form, and padding.

use bytes::{BufMut, BytesMut};

use super::error::{ConnectionError, Reason};

/// Length of the head of a frame, in bytes.
pub(super) const HEAD_LEN: usize = 9;
/// Largest payload that every peer accepts, and that this side accepts, in bytes (RFC 9113 section 4.2).
pub(super) const PAYLOAD_LEN_MAX: usize = 16 * 1024;

/// Flag of DATA and HEADERS: nothing follows on the stream.
pub(super) const END_STREAM: u8 = 0x1;
/// Flag of SETTINGS and PING: this frame acknowledges another.
pub(super) const ACK: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION: the field block is complete.
pub(super) const END_HEADERS: u8 = 0x4;
/// Flag of DATA and HEADERS: the payload begins with the length of its padding.
pub(super) const PADDED: u8 = 0x8;
/// Flag of HEADERS: a priority precedes the field block.
pub(super) const PRIORITY: u8 = 0x20;

/// Types of frames (RFC 9113 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

impl Kind {
    fn of(byte: u8) -> Kind {
        match byte {
            0 => Kind::Data,
            1 => Kind::Headers,
            2 => Kind::Priority,
            3 => Kind::RstStream,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            _ => Kind::Unknown,
        }
    }

    /// Returns the name in RFC 9113.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Data => "DATA",
            Kind::Headers => "HEADERS",
            Kind::Priority => "PRIORITY",
            Kind::RstStream => "RST_STREAM",
            Kind::Settings => "SETTINGS",
            Kind::PushPromise => "PUSH_PROMISE",
            Kind::Ping => "PING",
            Kind::GoAway => "GOAWAY",
            Kind::WindowUpdate => "WINDOW_UPDATE",
            Kind::Continuation => "CONTINUATION",
            Kind::Unknown => "unknown",
        }
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Length of the payload, in bytes.
    pub(super) len: usize,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// Identifier of the stream; 0 is the connection.
    pub(super) stream: u32,
}

impl Head {
    /// Parses the head at the front of `bytes`, once all of it has arrived.
    pub(super) fn parse(bytes: &[u8]) -> Option<Head> {
        let [high, middle, low, kind, flags, a, b, c, d] = *bytes.first_chunk::<HEAD_LEN>()?;
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // The first bit is reserved, and is ignored (section 4.1).
        let stream = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        Some(Head { len, kind: Kind::of(kind), flags, stream })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether nothing follows on the stream.
    pub(super) fn ends_stream(self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers) && self.has(END_STREAM)
    }
}

/// Writes the head of a frame.
pub(super) fn put_head(out: &mut BytesMut, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, high, middle, low] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.put_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

pub(super) fn put_data_head(out: &mut BytesMut, stream: u32, len: usize, is_last: bool) {
    put_head(out, len, 0, if is_last { END_STREAM } else { 0 }, stream);
}

pub(super) fn put_reset(out: &mut BytesMut, stream: u32, reason: Reason) {
    put_head(out, 4, 3, 0, stream);
    out.put_u32(reason.code());
}

pub(super) fn put_ping(out: &mut BytesMut, payload: [u8; 8], is_ack: bool) {
    put_head(out, 8, 6, if is_ack { ACK } else { 0 }, 0);
    out.put_slice(&payload);
}

pub(super) fn put_go_away(out: &mut BytesMut, last: u32, reason: Reason) {
    put_head(out, 8, 7, 0, 0);
    out.put_u32(last);
    out.put_u32(reason.code());
}

pub(super) fn put_window_update(out: &mut BytesMut, stream: u32, increment: u32) {
    put_head(out, 4, 8, 0, stream);
    out.put_u32(increment);
}

/// Returns the payload without the padding of a DATA or HEADERS frame (sections 6.1 and 6.2).
///
/// # Errors
/// A frame that is shorter than its padding.
pub(super) fn without_padding(head: Head, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !head.has(PADDED) {
        return Ok(payload);
    }
    let Some((padding, rest)) = payload.split_first() else {
        return Err(ConnectionError::new(Reason::FrameSizeError, "a padded frame has no length of padding"));
    };
    let len = rest.len().checked_sub(usize::from(*padding));
    len.and_then(|len| rest.get(..len))
        .ok_or_else(|| ConnectionError::new(Reason::ProtocolError, "the padding is longer than its frame"))
}

/// Reads the only number of a frame of four bytes: RST_STREAM, WINDOW_UPDATE.
pub(super) fn four_bytes(payload: &[u8]) -> Result<u32, ConnectionError> {
    match payload.try_into() {
        Ok(bytes) => Ok(u32::from_be_bytes(bytes)),
        Err(_) => Err(ConnectionError::new(Reason::FrameSizeError, "a frame of four bytes has another length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_round_trips_and_its_reserved_bit_is_ignored() {
        let mut out = BytesMut::new();
        put_head(&mut out, 0x01_02_03, 1, END_STREAM | END_HEADERS, 0x7fff_ffff);
        out[5] |= 0x80;
        let head = Head::parse(&out).unwrap();
        assert_eq!((head.len, head.kind, head.stream), (0x01_02_03, Kind::Headers, 0x7fff_ffff));
        assert!(head.ends_stream() && head.has(END_HEADERS) && !head.has(PADDED));
        assert!(Head::parse(&out[..8]).is_none());
    }

    #[test]
    fn padding_is_removed_and_padding_beyond_the_frame_is_rejected() {
        let head = Head { len: 0, kind: Kind::Data, flags: PADDED, stream: 1 };
        for (bytes, expected) in [
            (&[2, b'a', 0, 0][..], Some(&b"a"[..])),
            (&[0], Some(b"")),
            (&[1, 0], Some(b"")),
            (&[1], None),
            (&[5, 0, 0], None),
            (&[], None),
        ] {
            assert_eq!(without_padding(head, bytes).ok(), expected, "{bytes:?}");
        }
    }
}
