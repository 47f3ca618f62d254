//! Bounds of requests: bytes and time of their arrival, parts of a message, lengths of fields, and the texts of
//! rejections. A peer that sends slowly, stops, or does not read holds only its own share.
// SPEC broker.md#bounds

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use sealway_proto::broker::open::TraceContext;
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::StdError;
use tonic_prost::{ProstCodec, ProstDecoder};

use crate::call::Call;
use crate::certificate::{Issuer, Request};
use crate::operation::AAD_LEN_MAX;
use crate::service::NO_ROOM;
use crate::{Refusal, Result};

/// Length of the prefix of a gRPC message: a byte of flags, and the length of the message.
pub(super) const PREFIX_LEN: usize = 5;
/// Longest request, in bytes; a longer one gets 11.
pub(super) const REQUEST_MAX: usize = 2 * 1024 * 1024;
/// Longest answer, in bytes: a batch's outputs with their descriptors.
pub(super) const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Memory of a call before its request is read, in bytes: stream, headers and task.
pub(super) const CALL_LEN: usize = 8 * 1024;
/// Time for a request to arrive, from the first wait for it.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Most bytes of a request body: one message with its prefix, and some empty frames.
const LEN_MAX: usize = REQUEST_MAX + 4 * 1024;
/// Most fields of a message, counting each entry of a list: more than all lists may have together.
const FIELDS_MAX: usize = 4 * 1024;
/// Messages up to this length, in bytes, cannot have more fields.
const LEN_SAFE: usize = 2 * FIELDS_MAX;
/// Longest input of a hash or an encryption, in bytes.
pub(super) const INPUT_MAX: usize = 1024 * 1024;
/// Longest CSR, CA key or CA certificate, in bytes.
pub(super) const PEM_MAX: usize = 64 * 1024;
/// Longest additional authenticated data, in bytes.
pub(super) const AAD_MAX: usize = AAD_LEN_MAX;
/// Longest name of a profile, in bytes.
pub(super) const PROFILE_MAX: usize = 64;
/// Longest id of a key, in bytes.
pub(super) const KEY_ID_MAX: usize = 1024;
/// Longest raw key in a request, in bytes.
pub(super) const RAW_KEY_MAX: usize = 32;
/// Longest signature, in bytes: several times that of ML-DSA-87.
pub(super) const SIGNATURE_MAX: usize = 16 * 1024;
/// Longest `createdAt`, a time as text, in bytes.
pub(super) const CREATED_AT_MAX: usize = 128;
/// Longest duration as text, in bytes.
pub(super) const DURATION_MAX: usize = 64;
const SUBJECT_MAX: usize = 1024;
const CRL_POINTS_MAX: usize = 16;
const CRL_POINT_MAX: usize = 2048;
const ID_MAX: usize = 128;

/// Checks the length of a field that may be empty.
pub(super) fn at_most(field: &str, len: usize, max: usize) -> Result<()> {
    if len > max { Err(Refusal::invalid(format!("{field}: too large (max {max})"))) } else { Ok(()) }
}

/// Checks the length of a field that may not be empty.
pub(super) fn required(field: &str, len: usize, max: usize) -> Result<()> {
    if len == 0 { Err(Refusal::invalid(format!("{field}: required"))) } else { at_most(field, len, max) }
}

/// Checks the name of a profile.
pub(super) fn profile(name: &str) -> Result<()> {
    required("profile", name.len(), PROFILE_MAX)
}

/// Checks `metadata.id`, and the trace context beside it.
pub(super) fn metadata(id: &str, trace: Option<&TraceContext>) -> Result<()> {
    printable("metadata.id", id)?;
    let Some(trace) = trace else { return Ok(()) };
    at_most("metadata.traceContext.traceId", trace.trace_id.len(), 32)?;
    at_most("metadata.traceContext.spanId", trace.span_id.len(), 16)?;
    at_most("metadata.traceContext.traceFlags", trace.trace_flags.len(), 2)?;
    at_most("metadata.traceContext.traceState", trace.trace_state.len(), 512)?;
    printable("metadata.traceContext.correlationId", &trace.correlation_id)
}

fn printable(field: &str, text: &str) -> Result<()> {
    at_most(field, text.len(), ID_MAX)?;
    if text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{field}: must contain only printable ASCII characters")))
}

/// Checks the request of a digest.
pub(super) fn hash(name: &str, input: &[u8]) -> Result<()> {
    profile(name)?;
    at_most("input", input.len(), INPUT_MAX)
}

/// Checks the request of a certificate that carries the issuer's key.
pub(super) fn certificate(name: &str, request: &Request<'_>) -> Result<()> {
    profile(name)?;
    let key_len = match request.issuer {
        Issuer::Pem(pem) => pem.len(),
        Issuer::Key(_) => 0,
    };
    required("csr", request.csr.len(), PEM_MAX)?;
    required("caPrivateKey", key_len, PEM_MAX)?;
    required("caCert", request.ca_certificate.len(), PEM_MAX)?;
    subject(request.subject)?;
    crl_points("crlDistributionPoints", request.crl_points)
}

/// Checks the subject that replaces the CSR's.
pub(super) fn subject(subject: Option<&str>) -> Result<()> {
    at_most("subject", subject.map_or(0, str::len), SUBJECT_MAX)
}

/// Checks URLs of certificate revocation lists.
pub(super) fn crl_points(name: &str, points: &[String]) -> Result<()> {
    at_most(name, points.len(), CRL_POINTS_MAX)?;
    for (index, point) in points.iter().enumerate() {
        let field = format!("{name}[{index}]");
        at_most(&field, point.len(), CRL_POINT_MAX)?;
        if !is_web_url(point) {
            return Err(Refusal::invalid(format!("{field}: is not valid URL")));
        }
    }
    Ok(())
}

/// True for an absolute http(s) URL with a host, in printable ASCII: it goes into a certificate as an IA5String.
fn is_web_url(text: &str) -> bool {
    if !text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return false;
    }
    let scheme = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    text.parse::<http::Uri>().is_ok_and(|uri| scheme(&uri) && uri.host().is_some_and(|host| !host.is_empty()))
}

/// Body of a request, with bounds on its length and time.
pub(super) struct RequestBody<B> {
    body: B,
    /// A frame that was read, or the error in its place, and is still to be returned.
    peeked: Option<Result<Frame<Bytes>, StdError>>,
    call: Arc<Call>,
    len: usize,
    arrival: Duration,
    /// Started at the first wait for data.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> RequestBody<B> {
    pub(super) fn new(body: B, call: Arc<Call>) -> RequestBody<B> {
        RequestBody { body, peeked: None, call, len: 0, arrival: ARRIVAL, late: None }
    }

    fn read(&mut self, len: usize) -> Result<(), Status> {
        self.len = self.len.saturating_add(len);
        if self.len > LEN_MAX {
            return Err(Status::out_of_range("a request of more than one message"));
        }
        if self.call.holds(len) { Ok(()) } else { Err(Status::resource_exhausted(NO_ROOM)) }
    }
}

impl<B: HttpBody<Data = Bytes, Error: Into<StdError>> + Unpin> RequestBody<B> {
    /// Returns the message of a request that has arrived whole and in one piece, as most do: it is decoded in place. `None` for
    /// any other request, and for one that is wrong: the body still returns all of it.
    pub(super) fn whole<M: Message + Default>(&mut self, cx: &mut Context<'_>) -> Option<M> {
        let Poll::Ready(Some(frame)) = Pin::new(&mut *self).poll_frame(cx) else { return None };
        let data = frame.as_ref().ok().and_then(Frame::data_ref).filter(|_| self.body.is_end_stream());
        let message = data.and_then(|data| message_of(data));
        if message.is_none() {
            self.peeked = Some(frame);
        }
        message
    }
}

/// Decodes a single message without compression. `None` if it is anything else.
fn message_of<M: Message + Default>(data: &[u8]) -> Option<M> {
    let ([0, len @ ..], message) = data.split_first_chunk::<PREFIX_LEN>()? else { return None };
    let is_whole = u32::from_be_bytes(*len) as usize == message.len() && message.len() <= REQUEST_MAX;
    if !is_whole || (message.len() > LEN_SAFE && has_too_many(message)) {
        return None;
    }
    M::decode(message).ok()
}

impl<B: HttpBody<Data = Bytes, Error: Into<StdError>> + Unpin> HttpBody for RequestBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        if let Some(frame) = self.peeked.take() {
            return Poll::Ready(Some(frame));
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let read = self.read(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(read.map(|()| frame).map_err(StdError::from)))
            }
            Poll::Ready(Some(Err(err))) => Poll::Ready(Some(Err(err.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let arrival = self.arrival;
                let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(arrival)));
                match late.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        let status = Status::deadline_exceeded("the request did not arrive in time");
                        Poll::Ready(Some(Err(status.into())))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.peeked.is_none() && self.body.is_end_stream()
    }
}

/// The body of an answer. It holds its call's share, and so does each of its bytes until the connection has written it.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    call: Arc<Call>,
}

impl Answer {
    pub(super) fn new(body: Body, call: Arc<Call>) -> Answer {
        Answer { body, call }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let next = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // A connection drops the body before it has written the last bytes: they hold the share themselves.
        let held = |bytes| Bytes::from_owner(AnswerBytes { bytes, _call: self.call.clone() });
        Poll::Ready(next.map(|next| next.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of an answer, with the call whose share of memory they are.
struct AnswerBytes {
    bytes: Bytes,
    _call: Arc<Call>,
}

impl AsRef<[u8]> for AnswerBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Messages to and from bytes, with a bound on the parts of a message: two bytes of an empty entry become a hundred in memory, so
/// that a message within its bound in bytes could fill many times as many.
#[derive(Debug)]
pub(super) struct BoundedCodec<E, D>(ProstCodec<E, D>);

impl<E, D> Default for BoundedCodec<E, D> {
    fn default() -> Self {
        BoundedCodec(ProstCodec::default())
    }
}

impl<E, D> Codec for BoundedCodec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = <ProstCodec<E, D> as Codec>::Encoder;
    type Decoder = BoundedDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(self.0.decoder())
    }
}

/// Counts a message's parts before decoding it.
#[derive(Debug)]
pub(super) struct BoundedDecoder<D>(ProstDecoder<D>);

impl<D: Message + Default> Decoder for BoundedDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        // tonic always passes one contiguous buffer.
        if bytes.remaining() > LEN_SAFE && (bytes.chunk().len() < bytes.remaining() || has_too_many(bytes.chunk())) {
            return Err(Status::invalid_argument(format!("a message of more than {FIELDS_MAX} fields")));
        }
        self.0.decode(bytes)
    }
}

/// True if a message has more than [`FIELDS_MAX`] fields. A malformed message is left to its decoder, which stops at
/// the same place.
fn has_too_many(mut message: &[u8]) -> bool {
    for _ in 0..FIELDS_MAX {
        if message.is_empty() || skip(&mut message).is_none() {
            return false;
        }
    }
    !message.is_empty()
}

/// Skips one field of the message.
fn skip(message: &mut &[u8]) -> Option<()> {
    let (_, kind) = decode_key(message).ok()?;
    let len = match kind {
        WireType::Varint => {
            decode_varint(message).ok()?;
            0
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(message).ok()?).ok()?,
        // Group marks have no length: the fields between them count as fields of the message.
        WireType::StartGroup | WireType::EndGroup => 0,
    };
    *message = message.split_at_checked(len)?.1;
    Some(())
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use sealway_proto::broker::v1::{Cipher, DecryptRequest, HashRequest};
    use tokio_stream::StreamExt;

    use super::*;
    use crate::callers::{Peer, Shares};
    use crate::wire::Method;

    fn text(result: Result<()>) -> String {
        result.unwrap_err().text
    }

    #[test]
    fn each_bound_lets_its_last_value_through_and_names_the_field_beyond() {
        profile(&"p".repeat(64)).unwrap();
        assert_eq!(text(profile(&"p".repeat(65))), "profile: too large (max 64)");
        assert_eq!(text(profile("")), "profile: required");
        metadata(&"~".repeat(128), None).unwrap();
        assert_eq!(text(metadata(&"i".repeat(129), None)), "metadata.id: too large (max 128)");
        for bad in ["\u{7f}", "\n", "\u{e9}"] {
            assert!(text(metadata(bad, None)).starts_with("metadata.id: must contain only printable ASCII"), "{bad:?}");
        }
        let trace = |flags: &str| TraceContext { trace_flags: flags.into(), ..TraceContext::default() };
        metadata("", Some(&trace("01"))).unwrap();
        assert_eq!(text(metadata("", Some(&trace("001")))), "metadata.traceContext.traceFlags: too large (max 2)");
        subject(Some(&"s".repeat(1024))).unwrap();
        assert_eq!(text(subject(Some(&"s".repeat(1025)))), "subject: too large (max 1024)");
    }

    #[test]
    fn a_point_is_an_absolute_url_of_the_web() {
        let good = ["http://example.com/crls/list1.crl", "https://[::1]:8443/a?b=c", "http://h"];
        crl_points("crlDistributionPoints", &good.map(String::from)).unwrap();
        for bad in [
            "",
            "list.crl",
            "/list.crl",
            "ftp://h/l",
            "http://",
            "http:///l",
            "ldap://h",
            "http://h/ b",
            "http://h/\u{e9}",
        ] {
            assert_eq!(
                text(crl_points("crlDistributionPoints", &[bad.into()])),
                "crlDistributionPoints[0]: is not valid URL",
                "{bad}"
            );
        }
        let point = format!("http://h/{}", "l".repeat(2048));
        assert_eq!(
            text(crl_points("crlDistributionPoints", &["http://h".into(), point])),
            "crlDistributionPoints[1]: too large (max 2048)"
        );
        let many = vec!["http://h".to_owned(); 17];
        assert_eq!(text(crl_points("crlDistributionPoints", &many)), "crlDistributionPoints: too large (max 16)");
    }

    #[test]
    fn the_number_of_fields_of_a_message_is_bounded() {
        let empty = |count: usize| {
            DecryptRequest { ciphers: vec![Cipher::default(); count], ..DecryptRequest::default() }.encode_to_vec()
        };
        assert!(!has_too_many(&empty(FIELDS_MAX)));
        assert!(has_too_many(&empty(FIELDS_MAX + 1)));
        assert!(has_too_many(&empty(1_000_000)));
        let large = HashRequest { profile: "p".into(), inputs: vec![vec![0x0a; 2000]; 1024] };
        assert!(!has_too_many(&large.encode_to_vec()), "what is in an entry counts for nothing");
    }

    #[test]
    fn what_is_malformed_is_not_counted_and_does_not_panic() {
        let mut cut = HashRequest { profile: "p".into(), inputs: vec![vec![1; 9000]; 2] }.encode_to_vec();
        cut.truncate(9000);
        assert!(!has_too_many(&cut));
        for byte in 0..=u8::MAX {
            has_too_many(&[byte; 9000]);
        }
    }

    fn call() -> Arc<Call> {
        let peer = Peer { uid: 1, gid: 1, ..Peer::default() };
        let share = Shares::bytes(8 << 20).take(&peer, CALL_LEN).ok();
        Arc::new(Call::new(&Method::UNKNOWN, peer, &http::HeaderMap::new(), share, 0))
    }

    fn code(err: &StdError) -> tonic::Code {
        err.downcast_ref::<Status>().unwrap().code()
    }

    #[tokio::test]
    async fn a_stalled_request_times_out_and_an_endless_one_hits_its_bound() {
        let chunk = || Ok::<_, Status>(Frame::data(Bytes::from(vec![0; 256 * 1024])));
        let stalled = StreamBody::new(tokio_stream::once(chunk()).chain(tokio_stream::pending()));
        let mut body = RequestBody { arrival: Duration::from_millis(20), ..RequestBody::new(stalled, call()) };
        body.frame().await.unwrap().unwrap();
        let late = body.frame().await.unwrap().unwrap_err();
        assert_eq!(code(&late), tonic::Code::DeadlineExceeded);

        let endless = StreamBody::new(tokio_stream::iter(std::iter::repeat_with(chunk)));
        let mut body = RequestBody::new(endless, call());
        let read = async {
            loop {
                if let Err(err) = body.frame().await.unwrap() {
                    break err;
                }
            }
        };
        assert_eq!(code(&read.await), tonic::Code::OutOfRange);
    }
}
