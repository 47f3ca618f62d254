//! Every bound of the channel wires. Lengths are in bytes, times in the unit of the name.

/// A handshake frame's header: magic, version, type, length.
pub const HANDSHAKE_HEADER_LEN: usize = 10;
/// Longest payload of a handshake frame.
pub const HANDSHAKE_PAYLOAD_MAX: usize = 8 * 1024;
/// A record's header: magic, version, flags, sequence number, length.
pub const RECORD_HEADER_LEN: usize = 18;
/// Longest record, header and tag included: 1 MiB, which is also a relay's longest message.
pub const RECORD_LEN_MAX: usize = 1024 * 1024;
/// Longest channel id, in bytes.
pub const CHANNEL_ID_LEN_MAX: usize = 256;
/// A nonce of the v1 handshake.
pub const HANDSHAKE_NONCE_LEN: usize = 32;
/// Random bytes in a handshake id of the v1 server.
pub const HANDSHAKE_ID_RANDOM_LEN: usize = 24;
/// Default of the largest difference between the clocks of the two ends, in seconds.
pub const SKEW_S_DEFAULT: u64 = 30;

/// Longest content of a native record, and the default.
pub const NATIVE_CONTENT_MAX: usize = 64 * 1024;
/// Smallest value that may be configured for the bound on a native record's content.
pub const NATIVE_CONTENT_MAX_LEAST: usize = 16 * 1024;
/// Most native records under one key, and the default: at 64 KiB each, 2^32 blocks of AES, which leaves an attacker an
/// advantage of 2^-65 in telling them from random bytes.
pub const RECORDS_PER_KEY_MAX: u64 = 1 << 20;
/// Default lifetime of a native sender's key, in milliseconds.
pub const KEY_AGE_MS_DEFAULT: u64 = 3_600_000;
/// Longest reason in a close record, as in a close frame of a WebSocket.
pub const CLOSE_REASON_LEN_MAX: usize = 123;
/// Most suites that a grant may allow.
pub const ALLOWED_SUITES_MAX: usize = 64;
