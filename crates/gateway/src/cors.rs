//! Cross-origin requests (the Fetch standard's CORS protocol) to session endpoints and sealed routes, errors included.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use sealway_exchange::headers::remove_where;
use sealway_runtime::http::{Body, full};

/// Headers that a page may send: those of every wire.
const ALLOW_HEADERS: &str = "Content-Type, X-Idempotency-Key, X-ClientId, X-Kid, Authorization, X-Nonce, X-Timestamp, \
                             X-Enc-Alg, X-IV, X-Tag, X-AAD, X-Seal, X-Sealed, Ehbp-Encapsulated-Key";
/// Headers that a page may read.
const EXPOSE_HEADERS: &str = "Server-Timing, X-Kid, X-Idempotency-Key, X-Nonce, X-Timestamp, X-Enc-Alg, X-IV, X-Tag, \
                              X-AAD, X-Seal, X-Sealed, Retry-After, Ehbp-Response-Nonce";
const ALLOW_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Removes a service's headers for cross-origin requests.
pub(crate) fn remove(headers: &mut HeaderMap) {
    remove_where(headers, |name| name.as_str().starts_with("access-control-"));
}

/// Origins that may make cross-origin requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
    max_age: Option<HeaderValue>,
}

impl Cors {
    /// Parses `*`, or origins such as `http://localhost:4200`.
    ///
    /// # Errors
    /// The index of an invalid origin, and the reason.
    pub fn new(origins: &[String], max_age_sec: u32) -> Result<Self, (usize, String)> {
        let mut cors = Cors { max_age: Some(HeaderValue::from(max_age_sec)), ..Cors::default() };
        for (index, origin) in origins.iter().map(|origin| origin.trim()).enumerate() {
            if origin == "*" {
                cors.any = true;
                continue;
            }
            let parsed = origin.parse::<http::Uri>().ok();
            let is_origin = parsed.is_some_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && !origin.ends_with('/')
            }) && origin.splitn(4, '/').count() == 3;
            match HeaderValue::from_str(origin) {
                Ok(value) if is_origin => cors.origins.push(value),
                _ => return Err((index, format!("\"{origin}\" is no origin, such as https://shop.example or *"))),
            }
        }
        Ok(cors)
    }

    /// Returns the origin of a request if it is allowed; `*` if all are.
    pub fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(header::ORIGIN)?;
        if self.any {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.iter().find(|allowed| *allowed == origin).cloned()
    }

    /// Answers `OPTIONS`, for a preflight and for any other client.
    pub fn preflight(&self, is_allowed: bool) -> Response<Body> {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW_METHODS));
        if is_allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOW_METHODS));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOW_HEADERS));
            if let Some(max_age) = &self.max_age {
                headers.insert(header::ACCESS_CONTROL_MAX_AGE, max_age.clone());
            }
        }
        response
    }

    /// Lets the page at an allowed origin (of [`Cors::allowed_origin`]) read an answer. An answer with a service's own
    /// permission is left alone.
    pub fn apply(&self, origin: Option<HeaderValue>, response: &mut HeaderMap) {
        let Some(origin) = origin else { return };
        if response.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        if !self.any {
            response.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSE_HEADERS));
    }
}

/// True if the request is a preflight (Fetch standard).
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_taken() {
        for bad in ["localhost:4200", "http://a/", "http://a/b", "ftp://a", "", "http://"] {
            assert!(Cors::new(&[bad.into()], 600).is_err(), "{bad}");
        }
        assert!(Cors::new(&["http://localhost:4200".into(), "*".into()], 600).is_ok());
    }

    #[test]
    fn another_origin_gets_no_permission() {
        let cors = Cors::new(&["http://localhost:4200".into()], 600).unwrap();
        let mut request = HeaderMap::new();
        request.insert(header::ORIGIN, HeaderValue::from_static("http://localhost:4201"));
        let origin = cors.allowed_origin(&request);
        assert!(cors.preflight(origin.is_some()).headers().get(header::ACCESS_CONTROL_ALLOW_HEADERS).is_none());
        let mut response = HeaderMap::new();
        cors.apply(origin, &mut response);
        assert!(response.is_empty());
    }
}
