//! What stands on the wire: header names, identifiers, stamps, nonces, JSON bodies. `spec/session.md#encodings`.

pub mod base64;
pub mod client_id;
pub mod header;
pub mod idempotency;
pub mod json;
pub mod nonce;
pub mod session_id;
pub mod stamp;

pub use client_id::ClientId;
pub use header::{Field, Headers};
pub use nonce::Nonce;
pub use session_id::SessionId;
pub use stamp::{ReplayPolicy, Timestamp};

/// Which wire a session was agreed on. A session never changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// `X-Nonce`, `X-Timestamp`, detached IV and tag in headers.
    One,
    /// `X-Idempotency-Key`, `X-ClientId`, IV and tag in the body.
    Two,
}

impl Wire {
    /// The wire that a request speaks: wire 1 when `X-Nonce` is there and `X-Idempotency-Key` is not.
    pub fn of(headers: &impl Headers) -> Wire {
        let has = |name| !matches!(headers.field(name), Field::Absent);
        if has(header::X_NONCE) && !has(header::X_IDEMPOTENCY_KEY) { Wire::One } else { Wire::Two }
    }

    /// A short name for logs, metrics and stored rows.
    pub fn name(self) -> &'static str {
        match self {
            Wire::One => "1",
            Wire::Two => "2",
        }
    }
}
