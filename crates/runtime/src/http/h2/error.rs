//! Errors of HTTP/2 (RFC 9113 section 7): of a stream, and of the whole connection.

use std::fmt;

/// Error codes (RFC 9113 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No error; also the end of a request whose answer did not need it.
    NoError,
    /// The peer violated the protocol.
    ProtocolError,
    /// An internal error of the sender.
    InternalError,
    /// The peer exceeded a flow control window.
    FlowControlError,
    /// The peer did not acknowledge settings in time.
    SettingsTimeout,
    /// A frame on a stream that has ended.
    StreamClosed,
    /// A frame of a wrong length.
    FrameSizeError,
    /// The request was not processed.
    RefusedStream,
    /// The stream is not needed any more.
    Cancel,
    /// A field block that cannot be decoded.
    CompressionError,
    /// The connection of a CONNECT failed.
    ConnectError,
    /// The peer causes too much load.
    EnhanceYourCalm,
    /// The transport is not secure enough.
    InadequateSecurity,
    /// The peer requires HTTP/1.1 for this request.
    Http11Required,
    /// A code that RFC 9113 does not define.
    Other(u32),
}

impl Reason {
    /// Returns the code on the wire.
    pub fn code(self) -> u32 {
        match self {
            Reason::NoError => 0,
            Reason::ProtocolError => 1,
            Reason::InternalError => 2,
            Reason::FlowControlError => 3,
            Reason::SettingsTimeout => 4,
            Reason::StreamClosed => 5,
            Reason::FrameSizeError => 6,
            Reason::RefusedStream => 7,
            Reason::Cancel => 8,
            Reason::CompressionError => 9,
            Reason::ConnectError => 10,
            Reason::EnhanceYourCalm => 11,
            Reason::InadequateSecurity => 12,
            Reason::Http11Required => 13,
            Reason::Other(code) => code,
        }
    }
}

impl From<u32> for Reason {
    fn from(code: u32) -> Reason {
        match code {
            0 => Reason::NoError,
            1 => Reason::ProtocolError,
            2 => Reason::InternalError,
            3 => Reason::FlowControlError,
            4 => Reason::SettingsTimeout,
            5 => Reason::StreamClosed,
            6 => Reason::FrameSizeError,
            7 => Reason::RefusedStream,
            8 => Reason::Cancel,
            9 => Reason::CompressionError,
            10 => Reason::ConnectError,
            11 => Reason::EnhanceYourCalm,
            12 => Reason::InadequateSecurity,
            13 => Reason::Http11Required,
            code => Reason::Other(code),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoError => "NO_ERROR",
            Reason::ProtocolError => "PROTOCOL_ERROR",
            Reason::InternalError => "INTERNAL_ERROR",
            Reason::FlowControlError => "FLOW_CONTROL_ERROR",
            Reason::SettingsTimeout => "SETTINGS_TIMEOUT",
            Reason::StreamClosed => "STREAM_CLOSED",
            Reason::FrameSizeError => "FRAME_SIZE_ERROR",
            Reason::RefusedStream => "REFUSED_STREAM",
            Reason::Cancel => "CANCEL",
            Reason::CompressionError => "COMPRESSION_ERROR",
            Reason::ConnectError => "CONNECT_ERROR",
            Reason::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Reason::InadequateSecurity => "INADEQUATE_SECURITY",
            Reason::Http11Required => "HTTP_1_1_REQUIRED",
            Reason::Other(code) => return write!(f, "error code {code}"),
        })
    }
}

/// An error after which nothing can be received on a connection: it is answered with GOAWAY (RFC 9113 section 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {what}")]
pub struct ConnectionError {
    /// The code of the GOAWAY.
    pub reason: Reason,
    /// The violated rule, in a few words.
    pub what: &'static str,
    /// The name of the frame that the peer sends too often, if that is the error.
    pub flood: Option<&'static str>,
}

impl ConnectionError {
    pub(super) fn new(reason: Reason, what: &'static str) -> ConnectionError {
        ConnectionError { reason, what, flood: None }
    }

    pub(super) fn flood(frame: &'static str) -> ConnectionError {
        let what = "the peer sends more frames of a kind than its traffic explains";
        ConnectionError { reason: Reason::EnhanceYourCalm, what, flood: Some(frame) }
    }
}
