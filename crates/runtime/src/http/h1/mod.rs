//! HTTP/1.1 (RFC 9112), strict: heads and bodies as bytes in and values out. Used on both sides: a listener parses requests and
//! writes responses, an upstream the reverse.
//!
//! The codec (heads and chunks) does not know a socket, a clock, or the meaning of a header beyond framing. An ambiguous
//! message is rejected, whatever a lenient reader would make of it: the reader behind may read it differently. The driver of a
//! listener's connections is in this module too.

mod alarm;
mod answer;
mod chunk;
mod encode;
mod head;
mod output;
mod server;
mod target;
mod wire;
mod writer;

pub use alarm::Alarm;
pub(super) use answer::{Plan, date};
pub(super) use chunk::without_barred;
pub use chunk::{ChunkStep, Decoder, TRAILER_BYTES_MAX, encode_chunk_head, encode_last_chunk};
pub use encode::{encode_request, encode_response};
pub(super) use head::expects_continue;
pub use head::{
    Fault, Framing, HeadLimits, RequestHead, ResponseHead, parse_request, parse_response, response_has_no_body,
};
pub(super) use server::{Setup, serve};
pub(super) use target::is_host;
pub(super) use wire::{Source, poll_read};
