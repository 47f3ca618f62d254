//! HPACK (RFC 7541): header blocks of HTTP/2 as bytes in and fields out, and the reverse.
//!
//! The codec does not know a socket, a clock, a stream, or the rules for a message; it may depend on `bytes` and `http` only. A
//! listener, an upstream and the load generator use the same codec: [`Decoder`] for one direction of a connection, and
//! [`Encoder`] for the other.
//!
//! Two kinds of defects are kept apart. An [`Error`] leaves the dynamic tables of both sides out of step, so the connection
//! ends. A field with invalid contents ([`Field::Malformed`]) ends one stream: the decoder stores it like any other field, and
//! later blocks are decoded as the peer meant them.
//!
//! Bounds: the dynamic table has its maximum size in each direction, the scratch buffer of the decoder has 8/5 of the longest
//! string, the memo of repeated literals has 8 short ones, and integers have 28 bits. The engine bounds the length of a block.

mod decoder;
mod encoder;
mod field;
mod huffman;
mod index;
mod memo;
mod static_table;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_random;
#[cfg(test)]
mod tests_rfc;

pub use decoder::Decoder;
pub use encoder::{Block, Encoder};
pub use field::{Field, Name, Reason, Scheme};

/// Size of a dynamic table before the first SETTINGS frame (RFC 9113 section 6.5.2), in bytes; also the largest that the encoder
/// uses.
pub const TABLE_SIZE_DEFAULT: usize = 4096;

/// Size of an entry of the dynamic table, and of a field in a header list, beyond its name and its value (RFC 7541 section 4.1).
pub const FIELD_OVERHEAD: usize = 32;

/// The cause for which a header block is rejected: always a connection error `COMPRESSION_ERROR` (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block ends within an integer or a string.
    #[error("header block ends within a field")]
    Truncated,
    /// An integer has more than 28 bits, or more than four octets after its prefix.
    #[error("integer is over its bound")]
    IntegerOverflow,
    /// The index is zero, or is not in the tables.
    #[error("index is in no table")]
    UnknownIndex,
    /// The Huffman code of a string is invalid, or its padding is.
    #[error("invalid Huffman code")]
    Huffman,
    /// A dynamic table size update is above the limit of our SETTINGS.
    #[error("dynamic table size update is above the limit")]
    TableSizeAboveLimit,
    /// A dynamic table size update after the first field, or more than two before it.
    #[error("dynamic table size update is out of place")]
    TableSizeMisplaced,
    /// Our SETTINGS reduced the table, and the peer did not update the size (RFC 7541 section 4.2).
    #[error("dynamic table size update is missing")]
    TableSizeMissing,
}
