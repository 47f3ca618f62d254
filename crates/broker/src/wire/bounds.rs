//! The bounds of requests on the wires of the Open Crypto Broker, and the texts that tell of them.
// SPEC broker.md#bounds

use sealway_proto::broker::open::TraceContext;

use crate::Refusal;
use crate::operation::{AAD_LEN_MAX, BATCH_LEN_MAX, BATCH_MAX};

/// The longest input of a hash and of an encryption, in bytes.
pub(super) const INPUT_MAX: usize = 1024 * 1024;
/// Of a CSR, a CA's key and a CA's certificate, in bytes.
pub(super) const PEM_MAX: usize = 64 * 1024;
/// Of additional authenticated data, in bytes.
pub(super) const AAD_MAX: usize = AAD_LEN_MAX;
/// Of a profile's name, in bytes.
pub(super) const PROFILE_MAX: usize = 64;
/// Of a key's id, in bytes.
pub(super) const KEY_ID_MAX: usize = 1024;
/// Of a key in a request, in bytes.
pub(super) const RAW_KEY_MAX: usize = 32;
/// Of a signature, in bytes: several times that of ML-DSA-65.
pub(super) const SIGNATURE_MAX: usize = 16 * 1024;
/// Of `createdAt`, in bytes: a time as text.
pub(super) const CREATED_AT_MAX: usize = 128;
/// Of a duration as text, in bytes.
pub(super) const DURATION_MAX: usize = 64;
const SUBJECT_MAX: usize = 1024;
const CRL_POINTS_MAX: usize = 16;
const CRL_POINT_MAX: usize = 2048;
const ID_MAX: usize = 128;

/// A field that may be empty.
pub(super) fn at_most(field: &str, len: usize, max: usize) -> Result<(), Refusal> {
    if len > max { Err(Refusal::invalid(format!("{field}: too large (max {max})"))) } else { Ok(()) }
}

/// A field that may not be empty.
pub(super) fn required(field: &str, len: usize, max: usize) -> Result<(), Refusal> {
    if len == 0 { Err(Refusal::invalid(format!("{field}: required"))) } else { at_most(field, len, max) }
}

/// The profile's name.
pub(super) fn profile(name: &str) -> Result<(), Refusal> {
    required("profile", name.len(), PROFILE_MAX)
}

/// `metadata.id` and what stands beside it.
pub(super) fn metadata(id: &str, trace: Option<&TraceContext>) -> Result<(), Refusal> {
    printable("metadata.id", id)?;
    let Some(trace) = trace else { return Ok(()) };
    at_most("metadata.traceContext.traceId", trace.trace_id.len(), 32)?;
    at_most("metadata.traceContext.spanId", trace.span_id.len(), 16)?;
    at_most("metadata.traceContext.traceFlags", trace.trace_flags.len(), 2)?;
    at_most("metadata.traceContext.traceState", trace.trace_state.len(), 512)?;
    printable("metadata.traceContext.correlationId", &trace.correlation_id)
}

fn printable(field: &str, text: &str) -> Result<(), Refusal> {
    at_most(field, text.len(), ID_MAX)?;
    if text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{field}: must contain only printable ASCII characters")))
}

/// The request of a digest.
pub(super) fn hash(name: &str, input: &[u8]) -> Result<(), Refusal> {
    profile(name)?;
    at_most("input", input.len(), INPUT_MAX)
}

/// A batch of inputs: as many, and as long together, as operations on keys take.
pub(super) fn batch(field: &str, inputs: &[Vec<u8>]) -> Result<(), Refusal> {
    if !(1..=BATCH_MAX).contains(&inputs.len()) {
        return Err(Refusal::invalid(format!("{field}: expected 1 to {BATCH_MAX}, got {}", inputs.len())));
    }
    let len = inputs.iter().map(Vec::len).fold(0, usize::saturating_add);
    if len > BATCH_LEN_MAX {
        return Err(Refusal::invalid(format!("{field}: too large (max {BATCH_LEN_MAX} bytes in all)")));
    }
    Ok(())
}

/// The request of a certificate; the texts are the CSR, the CA's key and the CA's certificate.
pub(super) fn certificate(
    name: &str,
    texts: [&str; 3],
    subject: Option<&str>,
    points: &[String],
) -> Result<(), Refusal> {
    profile(name)?;
    for (field, text) in ["csr", "caPrivateKey", "caCert"].into_iter().zip(texts) {
        required(field, text.len(), PEM_MAX)?;
    }
    self::subject(subject)?;
    crl_points("crlDistributionPoints", points)
}

/// What stands in place of the request's subject.
pub(super) fn subject(subject: Option<&str>) -> Result<(), Refusal> {
    at_most("subject", subject.map_or(0, str::len), SUBJECT_MAX)
}

/// Where lists of revoked certificates are.
pub(super) fn crl_points(name: &str, points: &[String]) -> Result<(), Refusal> {
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

/// An absolute URL of http or https with a host, in printable ASCII: it goes into a certificate as an IA5String.
fn is_web_url(text: &str) -> bool {
    if !text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return false;
    }
    let scheme = |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    text.parse::<http::Uri>().is_ok_and(|uri| scheme(&uri) && uri.host().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<(), Refusal>) -> String {
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
}
