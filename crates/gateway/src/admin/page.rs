//! The admin listener's page and its files. They contain no data: without the token the page is of no use.

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY};
use http::{Method, Response};
use sealway_runtime::http::{Body, full};

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const CHARTS: &str = include_str!("charts.js");
const STYLE: &str = include_str!("page.css");

/// Nothing from another origin, nothing inline, and no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the file of the page at `path`.
pub(super) fn find(method: &Method, path: &str) -> Option<Response<Body>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let (media, text) = match path {
        "/" => ("text/html; charset=utf-8", PAGE),
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/charts.js" => ("text/javascript; charset=utf-8", CHARTS),
        "/page.css" => ("text/css; charset=utf-8", STYLE),
        _ => return None,
    };
    let mut response = Response::new(full(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}
