//! The endpoints at which a gateway publishes its keys.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use sealway_proto::one_shot::key_document::KEY_DOCUMENT_PATH;
use sealway_runtime::http::{Body, full};
use sealway_sessions::answer::{busy, plain_error};

use super::{LiveKeys, Purpose};

/// The media type of key configurations (RFC 9458 section 3.2).
const OHTTP_KEYS: HeaderValue = HeaderValue::from_static("application/ohttp-keys");

/// A document with public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Document {
    /// The configuration of the preferred key of EHBP.
    Ehbp,
    /// The key document of wire 4.
    Hpke,
    /// The list of published keys of Oblivious HTTP.
    OhttpList,
    /// The configuration of the preferred key of Oblivious HTTP, for clients that take no list.
    OhttpConfig,
}

impl Document {
    /// Returns the path, below the root of the origin.
    pub fn path(self) -> &'static str {
        match self {
            Document::Ehbp => "/.well-known/hpke-keys",
            Document::Hpke => KEY_DOCUMENT_PATH,
            Document::OhttpList => "/ohttp-keys",
            Document::OhttpConfig => "/ohttp-configs",
        }
    }

    /// Answers a request for the document.
    pub(crate) fn answer(self, keys: &LiveKeys, method: &Method, now_ms: u64) -> Response<Body> {
        if *method != Method::GET && *method != Method::HEAD {
            let mut refused = plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let (content_type, document) = match self {
            Document::Ehbp => (OHTTP_KEYS, keys.ehbp_config(now_ms)),
            Document::Hpke => (HeaderValue::from_static("application/json"), Some(keys.hpke_document(now_ms))),
            Document::OhttpList => (OHTTP_KEYS, Some(keys.ohttp_list(now_ms)).filter(|list| !list.is_empty())),
            Document::OhttpConfig => {
                (OHTTP_KEYS, keys.preferred(Purpose::Ohttp, now_ms).map(|key| key.encoded().clone()))
            }
        };
        let caching = match self {
            // Clients that keep the list for different times see different keys, and can be told apart.
            Document::OhttpList | Document::OhttpConfig => {
                format!("public, max-age={}", keys.files().max_age_ms / 1000)
            }
            Document::Ehbp | Document::Hpke => "no-cache".to_owned(),
        };
        document.map_or_else(busy, |document| published(content_type, &caching, document))
    }
}

fn published(content_type: HeaderValue, caching: &str, document: Bytes) -> Response<Body> {
    let mut answer = Response::new(full(document));
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer.headers_mut().extend(HeaderValue::try_from(caching).ok().map(|caching| (CACHE_CONTROL, caching)));
    answer
}
