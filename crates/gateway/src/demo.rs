//! The demo service: an ordinary upstream that is built into the binary and called like a real one. It has no part in
//! sealing. `spec/session.md#roles`.

mod page;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use sealway_proto::crypto::Provider;
use sealway_runtime::clock::{Clock, iso8601};
use sealway_runtime::http::{Body, full, read_body};
use sealway_sessions::answer::json;

const BODY_MAX: usize = 1024 * 1024;
const BODY_TIME: std::time::Duration = std::time::Duration::from_secs(10);

const INTERNAL: &str = r#"{"error":"INTERNAL"}"#;

/// Service of `POST /transaction/purchase` with `{"schemeCode": string, "amount": number}`, and of the shop's page that
/// calls it.
#[derive(Debug)]
pub struct DemoService {
    provider: &'static dyn Provider,
    clock: std::sync::Arc<dyn Clock>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Purchase {
    scheme_code: String,
    amount: serde_json::Number,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    status: &'static str,
    transaction_id: String,
    scheme_code: String,
    amount: serde_json::Number,
    timestamp: String,
    message: String,
}

impl DemoService {
    /// Creates a service that draws its transaction ids from `provider`.
    pub fn new(provider: &'static dyn Provider, clock: std::sync::Arc<dyn Clock>) -> Self {
        DemoService { provider, clock }
    }

    /// Answers one request to the demo service.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let is_purchase = request.uri().path() == "/transaction/purchase";
        if !is_purchase {
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            if let Some(file) = page::find(request.uri().path()).filter(|_| reads) {
                return page(file);
            }
            return json(StatusCode::NOT_FOUND, r#"{"error":"NOT_FOUND"}"#);
        }
        if request.method() != Method::POST {
            return json(StatusCode::METHOD_NOT_ALLOWED, r#"{"error":"METHOD_NOT_ALLOWED"}"#);
        }
        let purchase = match read_body(request.into_body(), BODY_MAX, BODY_TIME).await {
            Ok(body) => serde_json::from_slice::<Purchase>(&body).ok(),
            Err(_) => None,
        };
        let mut id = [0_u8; 8];
        match purchase {
            None => json(StatusCode::BAD_REQUEST, r#"{"error":"INVALID_REQUEST"}"#),
            Some(_) if self.provider.fill_random(&mut id).is_err() => json(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL),
            Some(Purchase { scheme_code, amount }) => {
                let message = format!("Purchase of {amount} in scheme {scheme_code} completed successfully");
                let receipt = Receipt {
                    status: "SUCCESS",
                    transaction_id: format!("TXN-{:016X}", u64::from_be_bytes(id)),
                    scheme_code,
                    amount,
                    timestamp: iso8601(self.clock.now_ms()),
                    message,
                };
                match serde_json::to_vec(&receipt) {
                    Ok(body) => json(StatusCode::OK, body),
                    Err(_) => json(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL),
                }
            }
        }
    }
}

/// Answers with a file of the page, also for HEAD: the connection leaves the body out. File names do not change with
/// the binary, so a browser must revalidate.
fn page(file: &'static page::PageFile) -> Response<Body> {
    let mut response = Response::new(full(bytes::Bytes::from_static(file.bytes)));
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, page::POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
