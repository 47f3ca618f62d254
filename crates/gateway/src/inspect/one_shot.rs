//! Messages that are sealed without a session, by their headers. A key log has no secret of them: each request has a key of its own, and the
//! service has the other half.

use http::header::{CONTENT_TYPE, HeaderMap};
use sealway_exchange::headers::HttpHeaders;
use sealway_proto::ehbp::{ENCAPSULATED_KEY, RESPONSE_NONCE};
use sealway_proto::exchange::wire_of;
use sealway_proto::ohttp::Form;
use sealway_proto::wire::header::X_KID;
use sealway_proto::wire::{Headers, Wire};

use super::output::plain;

/// Names the seal of a request; `None` if it is none of a request without a session.
pub(super) fn request(headers: &HeaderMap) -> Option<String> {
    let is_ohttp = |form: Form| is_of_type(headers, form.request_type());
    of_wire_4(headers).or_else(|| ehbp(headers, ENCAPSULATED_KEY)).or_else(|| ohttp(is_ohttp))
}

/// Names the seal of an answer; `None` if it is none of an answer without a session.
pub(super) fn answer(headers: &HeaderMap) -> Option<String> {
    let is_ohttp = |form: Form| is_of_type(headers, form.answer_type());
    of_wire_4(headers).or_else(|| ehbp(headers, RESPONSE_NONCE)).or_else(|| ohttp(is_ohttp))
}

fn of_wire_4(headers: &HeaderMap) -> Option<String> {
    let headers = HttpHeaders(headers);
    let kid = headers.field(X_KID).required(X_KID).unwrap_or("no X-Kid");
    (wire_of(&headers) == Wire::OneShot).then(|| format!("wire 4, {}: sealed, for the key's holder alone", plain(kid)))
}

fn ehbp(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.contains_key(name).then(|| "EHBP: body sealed, for the key's holder alone".into())
}

fn ohttp(is_of: impl Fn(Form) -> bool) -> Option<String> {
    let named = [(Form::Whole, "whole"), (Form::Chunked, "in chunks")];
    let (_, how) = named.into_iter().find(|(form, _)| is_of(*form))?;
    Some(format!("Oblivious HTTP, {how}: sealed, for the key's holder alone"))
}

fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_seal_without_a_session_is_named_in_both_directions() {
        let of = |fields: &[(&'static str, &'static str)]| {
            let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            let headers: HeaderMap = fields.collect();
            (request(&headers).unwrap_or_default(), answer(&headers).unwrap_or_default())
        };
        let (asked, answered) = of(&[("x-seal", "4"), ("x-kid", "hpke:0a")]);
        assert!(asked == answered && asked.starts_with("wire 4, hpke:0a: sealed"), "{asked}");
        assert!(
            of(&[("ehbp-encapsulated-key", "00")]).0.starts_with("EHBP: ")
                && of(&[("ehbp-response-nonce", "00")]).1.starts_with("EHBP: ")
        );
        assert!(of(&[("content-type", "message/ohttp-req")]).0.starts_with("Oblivious HTTP, whole: "));
        assert!(of(&[("content-type", "Message/OHTTP-chunked-res; a=b")]).1.starts_with("Oblivious HTTP, in chunks: "));
        for other in [&[][..], &[("x-seal", "3")], &[("content-type", "application/json")]] {
            assert_eq!(of(other), (String::new(), String::new()));
        }
    }
}
