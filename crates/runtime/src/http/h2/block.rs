//! Heads and trailers as field blocks: HEADERS, and CONTINUATION where one frame is too small.

use bytes::{BufMut, BytesMut};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, StatusCode};

use super::frame::{END_HEADERS, END_STREAM, HEAD_LEN, put_head};
use super::hpack::{self, Block, Encoder};
use super::message::{RequestHead, is_of_connection};

/// Writes field blocks as HEADERS, and CONTINUATION where one frame is too small.
pub(super) struct BlockWriter<'a> {
    pub(super) out: &'a mut BytesMut,
    pub(super) encoder: &'a mut Encoder,
    pub(super) payload_len_max: usize,
}

impl BlockWriter<'_> {
    /// Writes the head of a response.
    pub(super) fn response(&mut self, stream: u32, status: StatusCode, headers: &HeaderMap, is_last: bool) {
        self.block(stream, is_last, headers, |block| block.status(status));
    }

    /// Writes the head of a request. The authority of its URI is `:authority`.
    pub(super) fn request(&mut self, stream: u32, head: &RequestHead, is_last: bool) {
        let uri = &head.uri;
        self.block(stream, is_last, &head.headers, |block| {
            block.method(&head.method);
            if head.method != Method::CONNECT || head.protocol.is_some() {
                let is_https = uri.scheme() == Some(&Scheme::HTTPS);
                block.scheme(if is_https { &hpack::Scheme::Https } else { &hpack::Scheme::Http });
                // An OPTIONS of a URI without a path is one of the server (RFC 9113 section 8.3.1).
                let path = match uri.path_and_query().map(PathAndQuery::as_str) {
                    Some(path) if !path.is_empty() => path,
                    _ if head.method == Method::OPTIONS => "*",
                    _ => "/",
                };
                block.path(path.as_bytes());
            }
            if let Some(authority) = uri.authority() {
                block.authority(authority.as_str().as_bytes());
            }
            if let Some(protocol) = &head.protocol {
                block.protocol(protocol);
            }
        });
    }

    /// Writes trailers, which end the stream.
    pub(super) fn trailers(&mut self, stream: u32, trailers: &HeaderMap) {
        self.block(stream, true, trailers, |_| {});
    }

    fn block(&mut self, stream: u32, is_last: bool, headers: &HeaderMap, pseudo: impl FnOnce(&mut Block<'_>)) {
        let flags = if is_last { END_STREAM } else { 0 };
        let start = self.out.len();
        put_head(self.out, 0, 1, flags | END_HEADERS, stream);
        let mut block = self.encoder.begin(self.out);
        pseudo(&mut block);
        for (name, value) in headers {
            if !is_of_connection(name) {
                block.header(name, value);
            }
        }
        let len = self.out.len() - start - HEAD_LEN;
        if len <= self.payload_len_max {
            let [_, high, middle, low] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
            self.out[start..start + 3].copy_from_slice(&[high, middle, low]);
            return;
        }
        let mut block = self.out.split_off(start + HEAD_LEN);
        self.out.truncate(start);
        let mut kind = 1;
        while kind == 1 || !block.is_empty() {
            let part = block.split_to(block.len().min(self.payload_len_max));
            let end = if block.is_empty() { END_HEADERS } else { 0 };
            put_head(self.out, part.len(), kind, if kind == 1 { flags | end } else { end }, stream);
            self.out.put_slice(&part);
            kind = 9;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use http::{HeaderName, HeaderValue};

    use super::super::hpack::Decoder;
    use super::super::message::{Collector, FieldLimits, keep_all};
    use super::*;

    #[test]
    fn a_block_larger_than_a_frame_continues_in_further_frames() {
        let (mut out, mut encoder) = (BytesMut::new(), Encoder::new());
        let value = HeaderValue::from_str(&"\u{7e}".repeat(100)).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-long"), value.clone())]);
        let mut writer = BlockWriter { out: &mut out, encoder: &mut encoder, payload_len_max: 50 };
        writer.response(3, StatusCode::OK, &headers, true);
        let (mut block, mut kinds) = (Vec::new(), Vec::new());
        while !out.is_empty() {
            let len = usize::from(out[2]);
            kinds.push((out[3], out[4]));
            block.extend_from_slice(&out[HEAD_LEN..HEAD_LEN + len]);
            let _ = out.split_to(HEAD_LEN + len);
        }
        assert_eq!(kinds.first(), Some(&(1, END_STREAM)));
        assert_eq!(kinds.last(), Some(&(9, END_HEADERS)));
        let mut fields = Vec::new();
        Decoder::new(4096).decode(&block, &mut |field, _| fields.push(field)).unwrap();
        let mut head = Collector::new(FieldLimits { bytes_max: 1000, fields_max: 5 }, keep_all);
        fields.into_iter().for_each(|field| head.push(Cow::Owned(field), 40));
        let head = head.into_response().unwrap();
        assert_eq!((head.status, &head.headers["x-long"]), (StatusCode::OK, &value));
    }
}
