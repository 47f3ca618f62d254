//! Every bound of the session wires. Lengths are in bytes, times in the unit of the name.

/// Shortest nonce on `/session/init` and on sealed calls.
pub const NONCE_LEN_MIN: usize = 1;
/// Shortest nonce on `/v1/session/init`, in characters.
pub const NONCE_LEN_MIN_V1: usize = 16;
/// Longest nonce on any wire, in characters.
pub const NONCE_LEN_MAX: usize = 128;
/// Longest timestamp, in digits; 15 digits reach the year 33658.
pub const TIMESTAMP_DIGITS_MAX: usize = 15;
/// Longest client id, in bytes.
pub const CLIENT_ID_LEN_MAX: usize = 256;
/// Longest path that wire 1 authenticates.
pub const PATH_LEN_MAX: usize = 8 * 1024;
/// An uncompressed P-256 point: `0x04 || X || Y`.
pub const P256_PUBLIC_LEN: usize = 65;
/// An uncompressed P-384 point: `0x04 || X || Y`.
pub const P384_PUBLIC_LEN: usize = 97;
/// An AES-256-GCM initialisation vector, in bytes.
pub const IV_LEN: usize = 12;
/// An AES-256-GCM tag, in bytes.
pub const TAG_LEN: usize = 16;
/// A session key, in bytes.
pub const KEY_LEN: usize = 32;
/// A session id in text: `S-` or `A-` and 32 hexadecimal digits.
pub const SESSION_ID_LEN: usize = 34;

/// Largest body of `/session/init`, in bytes.
pub const INIT_BODY_MAX: usize = 64 * 1024;
/// Largest body of `/v1/session/init`, in bytes.
pub const INIT_V1_BODY_MAX: usize = 1024 * 1024;
/// Largest body of `/session/init/anon`, and of a sealed call of an anonymous session.
pub const ANON_BODY_MAX: usize = 4 * 1024;
/// Default of the largest body of a sealed call; a route may set another.
pub const SEALED_BODY_MAX_DEFAULT: usize = 1024 * 1024;

/// Largest body of an init on wire 3.
pub const INIT_V3_BODY_MAX: usize = 16 * 1024;
/// Most suites that an init names.
pub const SUITES_MAX: usize = 8;
/// Most signature algorithms that an init names.
pub const SIGNATURE_ALGORITHMS_MAX: usize = 8;
/// Longest name of a suite or a signature algorithm.
pub const SUITE_NAME_LEN_MAX: usize = 32;
/// Longest signature of an init's answer and of a root, and longest public key of a set, in bytes.
pub const SIGNATURE_LEN_MAX: usize = 8 * 1024;
/// Longest proof of an init.
pub const PROOF_LEN_MAX: usize = 8 * 1024;
/// Most key ids that an init pins.
pub const PINNED_KEYS_MAX: usize = 16;
/// Longest subject, and longest tenant, of a session.
pub const SUBJECT_LEN_MAX: usize = 256;
/// Shortest nonce on wire 3.
pub const NONCE_LEN_MIN_V3: usize = 16;
/// Longest value of `X-Sealed`, in base64.
pub const X_SEALED_LEN_MAX: usize = 8 * 1024;
/// Most plaintext of a frame.
pub const FRAME_LEN_MAX: usize = 64 * 1024;
/// Most headers within a seal.
pub const INNER_HEADERS_MAX: usize = 64;
/// Longest encoding of the headers within a seal, behind its length.
pub const INNER_HEADERS_LEN_MAX: usize = 16 * 1024;

/// Default of the largest difference between a timestamp and the server's clock, either way.
pub const WINDOW_MS_DEFAULT: u64 = 300_000;
/// Widest window that may be configured: one day. Wire 3 has a narrower one.
pub const WINDOW_MS_MAX: u64 = 86_400_000;
/// Widest window of sealed requests on wire 3, whatever is configured: an older request is too old for every server of a
/// service.
pub const WINDOW3_MS_MAX: u64 = 300_000;
/// Default of the shortest session that `/session/init` grants.
pub const TTL_MIN_SEC_DEFAULT: u32 = 300;
/// Default of the longest session that `/session/init` grants.
pub const TTL_MAX_SEC_DEFAULT: u32 = 3600;
/// Default ttl of `/session/init` when the client names none, and of `/v1` without `Authorization`.
pub const TTL_DEFAULT_SEC_DEFAULT: u32 = 1800;
/// Default ttl of `/v1/session/init` with an accepted `Authorization`.
pub const TTL_AUTHENTICATED_SEC_DEFAULT: u32 = 3600;
/// Default ttl of `/session/init/anon`, in seconds.
pub const TTL_WIRE1_ANON_SEC_DEFAULT: u32 = 120;
/// Longest ttl that may be configured: thirty days.
pub const TTL_SEC_CONFIG_MAX: u32 = 2_592_000;
