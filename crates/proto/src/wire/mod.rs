//! Elements of the wires: header names, identifiers, stamps, nonces, JSON bodies. `spec/session.md#encodings`.

pub mod base64;
pub mod client_id;
pub mod header;
pub mod idempotency;
pub mod json;
pub mod nonce;
pub mod session_id;
pub mod stamp;
pub mod stripped;

pub use client_id::ClientId;
pub use header::{Field, Headers};
pub use nonce::Nonce;
pub use session_id::SessionId;
pub use stamp::{ReplayPolicy, Timestamp};

/// The wire of a request; that of a session never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// `X-Nonce`, `X-Timestamp`, detached IV and tag in headers.
    V1,
    /// `X-Idempotency-Key`, `X-ClientId`, IV and tag in the body.
    V2,
    /// `X-Seal: 3`, the native wire: `spec/session-3.md`.
    Native,
    /// `X-Seal: 4`, requests without a session: `spec/one-shot.md`.
    OneShot,
}

impl Wire {
    /// The wires of sessions, in the order of their numbers.
    pub const ALL: [Wire; 3] = [Wire::V1, Wire::V2, Wire::Native];

    /// Returns the compatibility wire of a request: wire 1 if `X-Nonce` is present and `X-Idempotency-Key` is not, otherwise
    /// wire 2.
    pub fn of(headers: &impl Headers) -> Wire {
        let has = |name| !matches!(headers.field(name), Field::Absent);
        if has(header::X_NONCE) && !has(header::X_IDEMPOTENCY_KEY) { Wire::V1 } else { Wire::V2 }
    }

    /// Returns its number: 1 to 3, as in stored rows, and 4, which no row has.
    pub fn number(self) -> u8 {
        match self {
            Wire::V1 => 1,
            Wire::V2 => 2,
            Wire::Native => 3,
            Wire::OneShot => 4,
        }
    }

    /// Returns the wire of sessions with a number.
    pub fn from_number(number: u8) -> Option<Wire> {
        Wire::ALL.into_iter().find(|wire| wire.number() == number)
    }

    /// Returns a short name for logs, metrics and stored rows.
    pub fn name(self) -> &'static str {
        match self {
            Wire::V1 => "1",
            Wire::V2 => "2",
            Wire::Native => "3",
            Wire::OneShot => "hpke",
        }
    }
}

#[cfg(test)]
mod tests;
