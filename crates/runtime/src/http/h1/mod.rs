//! HTTP/1.1 (RFC 9112), strict: heads and bodies as bytes in and values out. Used on both sides: a listener parses requests
//! and writes responses, an upstream the other way round.
//!
//! It may not know: a socket, a clock, or what a header means beyond framing. A message that can be read in two ways is
//! refused, whatever a lenient reader would make of it: the reader behind may be another one.

mod chunk;
mod head;

pub use chunk::{Decoded, Decoder, TRAILER_BYTES_MAX, encode_chunk_head, encode_last_chunk};
pub use head::{
    Fault, Framing, HeadLimits, RequestHead, ResponseHead, encode_request, encode_response, parse_request,
    parse_response, response_has_no_body,
};
