//! Settings (RFC 9113 section 6.5): those of the peer, and those that this side announces.

use bytes::{BufMut, BytesMut};

use super::error::{ConnectionError, Reason};
use super::frame::{PAYLOAD_LEN_MAX, put_head};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// Extended CONNECT (RFC 8441 section 3).
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// Largest flow control window (RFC 9113 section 6.9.1).
pub(super) const WINDOW_MAX: u32 = 0x7fff_ffff;
/// Flow control window of a stream and of a connection before any settings.
pub(super) const WINDOW_DEFAULT: u32 = 65_535;

/// The peer's settings in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) header_table_size: u32,
    /// Most streams that this side may have open.
    pub(super) streams_max: u32,
    pub(super) initial_window: u32,
    /// Largest payload of a frame, in bytes.
    pub(super) payload_len_max: usize,
    /// True if the peer accepts extended CONNECT.
    pub(super) connect_protocol: bool,
}

impl PeerSettings {
    pub(super) const DEFAULT: Self = PeerSettings {
        header_table_size: 4096,
        streams_max: u32::MAX,
        initial_window: WINDOW_DEFAULT,
        payload_len_max: PAYLOAD_LEN_MAX,
        connect_protocol: false,
    };

    /// Applies the payload of a SETTINGS frame of a server, or of a client.
    ///
    /// # Errors
    /// A value out of its bounds.
    pub(super) fn apply(&mut self, payload: &[u8], is_from_server: bool) -> Result<(), ConnectionError> {
        let violated = |what| Err(ConnectionError::new(Reason::ProtocolError, what));
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::new(Reason::FrameSizeError, "SETTINGS of another length than its settings"));
        }
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                HEADER_TABLE_SIZE => self.header_table_size = value,
                ENABLE_PUSH if value > 1 || (is_from_server && value != 0) => {
                    return violated("SETTINGS_ENABLE_PUSH is neither 0 nor 1, or comes from a server");
                }
                MAX_CONCURRENT_STREAMS => self.streams_max = value,
                INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    let what = "SETTINGS_INITIAL_WINDOW_SIZE is over its bound";
                    return Err(ConnectionError::new(Reason::FlowControlError, what));
                }
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                MAX_FRAME_SIZE => match usize::try_from(value) {
                    Ok(len @ PAYLOAD_LEN_MAX..=0x00ff_ffff) => self.payload_len_max = len,
                    _ => return violated("SETTINGS_MAX_FRAME_SIZE is out of its bounds"),
                },
                ENABLE_CONNECT_PROTOCOL if value > 1 || (self.connect_protocol && value == 0) => {
                    return violated("SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1, or was withdrawn");
                }
                ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value == 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Writes the SETTINGS frame with which a connection begins. `streams_max` is a server's; a client accepts no push. With
/// `connect_protocol` a server accepts extended CONNECT.
pub(super) fn put_settings(
    out: &mut BytesMut,
    streams_max: Option<u32>,
    window: u32,
    head_bytes_max: u32,
    connect_protocol: bool,
) {
    let first = streams_max.map_or((ENABLE_PUSH, 0), |streams_max| (MAX_CONCURRENT_STREAMS, streams_max));
    let settings =
        [first, (INITIAL_WINDOW_SIZE, window), (MAX_HEADER_LIST_SIZE, head_bytes_max), (ENABLE_CONNECT_PROTOCOL, 1)];
    let settings = settings.get(..if connect_protocol { 4 } else { 3 }).unwrap_or_default();
    put_head(out, settings.len() * 6, 4, 0, 0);
    for (setting, value) in settings {
        out.put_u16(*setting);
        out.put_u32(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(setting: u16, value: u32, is_from_server: bool) -> Result<PeerSettings, Reason> {
        let mut settings = PeerSettings::DEFAULT;
        let payload = [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
        settings.apply(&payload, is_from_server).map(|()| settings).map_err(|err| err.reason)
    }

    #[test]
    fn settings_within_their_bounds_apply_and_unknown_ones_are_ignored() {
        assert_eq!(applied(HEADER_TABLE_SIZE, 0, false).unwrap().header_table_size, 0);
        assert_eq!(applied(MAX_CONCURRENT_STREAMS, 7, true).unwrap().streams_max, 7);
        assert_eq!(applied(INITIAL_WINDOW_SIZE, WINDOW_MAX, true).unwrap().initial_window, WINDOW_MAX);
        assert_eq!(applied(MAX_FRAME_SIZE, 0x00ff_ffff, true).unwrap().payload_len_max, 0x00ff_ffff);
        assert!(applied(ENABLE_CONNECT_PROTOCOL, 1, true).unwrap().connect_protocol);
        assert!(applied(0x7777, u32::MAX, true).is_ok());
        assert!(applied(ENABLE_PUSH, 1, false).is_ok());
    }

    #[test]
    fn settings_out_of_their_bounds_are_rejected() {
        for (setting, value, expected) in [
            (ENABLE_PUSH, 2, Reason::ProtocolError),
            (ENABLE_PUSH, 1, Reason::ProtocolError),
            (INITIAL_WINDOW_SIZE, WINDOW_MAX + 1, Reason::FlowControlError),
            (MAX_FRAME_SIZE, 16_383, Reason::ProtocolError),
            (MAX_FRAME_SIZE, 0x0100_0000, Reason::ProtocolError),
            (ENABLE_CONNECT_PROTOCOL, 2, Reason::ProtocolError),
        ] {
            assert_eq!(applied(setting, value, true).unwrap_err(), expected, "{setting} {value}");
        }
        let cut = PeerSettings { ..PeerSettings::DEFAULT }.apply(&[0; 5], false);
        assert_eq!(cut.unwrap_err().reason, Reason::FrameSizeError);
    }
}
