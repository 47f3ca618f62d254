//! Errors in the form that each protocol reads: `spec/session.md#init`, `spec/session-3.md#problems`.

use super::*;

const RETRY: Option<&str> = Some("1");

fn header<'a>(answer: &'a ErrorAnswer, name: &str) -> Option<&'a str> {
    let values: Vec<&str> =
        answer.headers.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect();
    assert!(values.len() < 2, "{name} is there once");
    values.first().copied()
}

#[test]
fn errors_of_v1_are_those_of_the_table_in_the_spec() {
    let invalid = Refusal::Wire;
    let unanswered = "The service did not answer";
    let table = [
        (Refusal::ContentType, 415, "Unsupported Media Type", "Content-Type must be application/json"),
        (BodyFault::TooLarge.into(), 413, "Payload Too Large", "Request body is too large"),
        (invalid(Error::BodyTooLarge), 413, "Payload Too Large", "Request body is too large"),
        (BodyFault::TooSlow.into(), 408, "Request Timeout", "Request body came too slowly"),
        (BodyFault::Broken.into(), 400, "Bad Request", "Request body broke off"),
        (Refusal::WireOff(Wire::V2), 403, "Forbidden", "This wire is disabled"),
        (invalid(Error::JsonInvalid), 400, "Bad Request", "Request body is not valid JSON"),
        (invalid(Error::HeaderMissing(X_IDEMPOTENCY_KEY)), 400, "Bad Request", "X-Idempotency-Key header is required"),
        (invalid(Error::HeaderMissing("x-clientid")), 400, "Bad Request", "X-ClientId header is required"),
        (invalid(Error::HeaderInvalid("x-clientid")), 400, "Bad Request", "Invalid X-ClientId header"),
        (invalid(Error::FieldInvalid("clientPublicKey")), 400, "Bad Request", "clientPublicKey is required"),
        (
            invalid(Error::IdempotencyKeyShape),
            400,
            "Bad Request",
            "Invalid X-Idempotency-Key format (expected: timestamp.nonce)",
        ),
        (invalid(Error::NonceInvalid), 400, "Bad Request", "Invalid nonce format"),
        (invalid(Error::NonceReserved), 400, "Bad Request", "Invalid nonce format"),
        (invalid(Error::TimestampInvalid), 400, "Bad Request", "Invalid or expired timestamp"),
        (invalid(Error::TimestampOutsideWindow), 400, "Bad Request", "Invalid or expired timestamp"),
        (invalid(Error::PublicKeyInvalid), 400, "Bad Request", "Invalid client public key"),
        (Refusal::Token("expired"), 401, "Unauthorized", "Invalid or expired token"),
        (invalid(Error::Unauthenticated), 401, "Unauthorized", "Authorization is required"),
        (invalid(Error::Replayed), 409, "Conflict", "Request already processed (replay detected)"),
        (invalid(Error::Policy), 403, "Forbidden", "Not authorized"),
        (Refusal::Forbidden, 403, "Forbidden", "Not authorized"),
        (Refusal::AnotherClient, 403, "Forbidden", "Not authorized"),
        (Refusal::RateLimited(1), 429, "Too Many Requests", "Too many requests"),
        (Refusal::Method("POST"), 405, "Method Not Allowed", "Another method is needed"),
        (Refusal::Unanswered(502), 502, "Bad Gateway", unanswered),
        (Refusal::Unanswered(504), 504, "Gateway Timeout", unanswered),
    ];
    let unavailable = [
        (
            Refusal::IntrospectionUnavailable("cause".into()),
            503,
            "Service Unavailable",
            "Token verification temporarily unavailable",
        ),
        (Refusal::NoncesFull, 503, "Service Unavailable", "Replay protection service temporarily unavailable"),
        (
            Refusal::StoreUnavailable("cause".into()),
            503,
            "Service Unavailable",
            "Session store temporarily unavailable",
        ),
        (Refusal::StoreFull, 503, "Service Unavailable", "Session store temporarily unavailable"),
        (invalid(Error::Provider), 503, "Service Unavailable", "Service temporarily unavailable"),
        (invalid(Error::ReservationMismatch), 503, "Service Unavailable", "Service temporarily unavailable"),
        (BodyFault::NoRoom.into(), 503, "Service Unavailable", "Service temporarily unavailable"),
    ];
    for (refusal, status, phrase, message) in table.into_iter().chain(unavailable) {
        let answer = Rejection::from(refusal).answer(Form::V1);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &body), (status, &serde_json::json!({"error": phrase, "message": message})));
        assert_eq!(header(&answer, "content-type"), Some("application/json"));
        assert_eq!(header(&answer, "retry-after"), RETRY.filter(|_| matches!(status, 429 | 503)), "{message}");
        assert_eq!(header(&answer, "allow"), Some("POST").filter(|_| status == 405));
    }
}

#[test]
fn statuses_have_the_reason_phrases_of_http() {
    for (status, phrase) in [
        (404, "Not Found"),
        (410, "Gone"),
        (422, "Unprocessable Entity"),
        (500, "Internal Server Error"),
        (418, "Error"),
    ] {
        let body: Value = serde_json::from_str(&ErrorAnswer::v1(status, "m").body).unwrap();
        assert_eq!(body["error"], phrase);
    }
}

#[test]
fn a_problem_has_the_headers_that_its_code_requires() {
    for (refusal, code, retry, challenge) in [
        (Refusal::from(Error::Unauthenticated), "unauthenticated", None, Some("Bearer, DPoP")),
        (Refusal::Token("expired"), "unauthenticated", None, Some("Bearer, DPoP")),
        (Refusal::StoreFull, "store_unavailable", RETRY, None),
        (Refusal::NoncesFull, "store_unavailable", RETRY, None),
        (Refusal::RateLimited(1), "rate_limited", RETRY, None),
        (Refusal::Forbidden, "policy", None, None),
    ] {
        let answer = Rejection::from(refusal).answer(Form::Problem);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["code"], code);
        assert_eq!(header(&answer, "content-type"), Some("application/problem+json"));
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));
        assert_eq!(header(&answer, "retry-after"), retry, "{code}");
        assert_eq!(header(&answer, "www-authenticate"), challenge, "{code}");
    }
}
