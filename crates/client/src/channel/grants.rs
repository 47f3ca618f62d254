//! Where grants come from: a file, or the control plane over HTTP. SPEC relay.md#control-plane

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sealway_proto::relay::{Grant, Role};
use serde_json::json;
use zeroize::Zeroizing;

use super::error::{Error, Stage};
use crate::trust;

/// Longest grant, in bytes.
const GRANT_LEN_MAX: usize = 64 * 1024;
/// How long the control plane may take to answer; it keeps a question for 30 s until a listener is there.
const ANSWER_TIME: Duration = Duration::from_secs(45);

/// Where an endpoint gets its grants from.
#[derive(Debug)]
pub enum Grants {
    /// A file with one grant. Its token works once.
    File(PathBuf),
    /// A control plane, asked for a grant each time.
    Control(Box<Control>),
}

impl Grants {
    /// The next grant.
    ///
    /// # Errors
    /// Of the stage [`Stage::Grant`]: `grant_invalid` names the member at fault, `nobody_listens` where no peer has asked for
    /// its end, `unauthorized` where the control plane does not take the token.
    pub async fn next(&self) -> Result<Grant, Error> {
        match self {
            Grants::File(path) => {
                let text = tokio::fs::read(path).await.map(Zeroizing::new);
                let text = text.map_err(|err| fault("grant_invalid", format!("{}: {err}", path.display())))?;
                let told = |err| fault("grant_invalid", format!("{}: {err}", path.display()));
                Grant::parse(&text).map_err(told)
            }
            Grants::Control(control) => control.next().await,
        }
    }
}

/// A control plane, and what is asked of it.
pub struct Control {
    uri: Uri,
    bearer: Option<HeaderValue>,
    body: Bytes,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Control {
    /// Asks at `url` (`http://` or `https://`, without a path) for the end `role` of channels that go by `name`. `bearer`
    /// goes along; `tls` says whom to trust and what to show, for `https`.
    ///
    /// # Errors
    /// `address_invalid`, or `unauthorized` for a token that no header can hold.
    pub fn new(
        url: &str,
        name: &str,
        role: Role,
        bearer: Option<&str>,
        tls: Option<rustls::ClientConfig>,
    ) -> Result<Self, Error> {
        let invalid =
            || fault("address_invalid", "no http:// or https:// address without a path and a password".into());
        let base: Uri = url.parse().map_err(|_| invalid())?;
        // What stands before an @ would be shown wherever the address is.
        let has_host = base.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let is_bare = base.path() == "/" && base.query().is_none() && has_host;
        if !is_bare || !matches!(base.scheme_str(), Some("http" | "https")) {
            return Err(invalid());
        }
        let uri = format!("{}/v1/grant", url.trim_end_matches('/')).parse().map_err(|_| invalid())?;
        let bearer = bearer.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"));
            if let Ok(value) = &mut value {
                value.set_sensitive(true);
            }
            value.map_err(|_| fault("unauthorized", "the token holds signs that no header can hold".into()))
        });
        let tls = match tls {
            Some(mut config) => {
                // The library says itself what it speaks.
                config.alpn_protocols.clear();
                Ok(config)
            }
            None if base.scheme_str() == Some("https") => trust::system(),
            None => trust::nobody(),
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(|text| fault("tls_unset", text))?);
        let role = if role == Role::Client { "client" } else { "server" };
        Ok(Control {
            uri,
            bearer: bearer.transpose()?,
            body: Bytes::from(json!({"name": name, "role": role}).to_string()),
            http: Client::builder(TokioExecutor::new()).build(builder.https_or_http().enable_http1().build()),
        })
    }

    async fn next(&self) -> Result<Grant, Error> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        let asked = async {
            let answer = self.http.request(request).await.map_err(|err| self.away(&err))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, GRANT_LEN_MAX).collect().await;
            let body = body.map_err(|err| fault("control_unreachable", format!("{}: {err}", self.uri)))?;
            judge(head.status, &body.to_bytes())
        };
        let late = |_| fault("timeout", format!("{}: no answer within {ANSWER_TIME:?}", self.uri));
        tokio::time::timeout(ANSWER_TIME, asked).await.map_err(late)?
    }

    fn away(&self, err: &hyper_util::client::legacy::Error) -> Error {
        // The error's own words say where it failed, and its source why.
        let why = std::error::Error::source(err).map(|source| format!(": {source}")).unwrap_or_default();
        fault("control_unreachable", format!("{}: {err}{why}", self.uri))
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.uri)
    }
}

fn judge(status: StatusCode, body: &[u8]) -> Result<Grant, Error> {
    match status {
        StatusCode::OK => Grant::parse(body).map_err(|err| fault("grant_invalid", err.to_string())),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(fault(
            "unauthorized",
            format!("the control plane does not let us in: it answers with the status {status}"),
        )),
        StatusCode::NOT_FOUND => Err(fault("nobody_listens", "no peer listens under this name".into())),
        _ => Err(fault("control_refused", format!("the control plane answers with the status {status}"))),
    }
}

fn fault(code: &'static str, text: String) -> Error {
    Error::new(Stage::Grant, code, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_grant_or_a_reason() {
        for (status, code) in [
            (200, "grant_invalid"),
            (401, "unauthorized"),
            (403, "unauthorized"),
            (404, "nobody_listens"),
            (500, "control_refused"),
        ] {
            let err = judge(StatusCode::from_u16(status).unwrap(), b"{}").unwrap_err();
            assert_eq!((err.stage, err.code.as_ref()), (Stage::Grant, code));
        }
    }

    #[test]
    fn a_token_is_not_shown_and_an_address_is_judged() {
        let control = Control::new("http://127.0.0.1:1", "db", Role::Client, Some("secret"), None).unwrap();
        assert!(!format!("{control:?}{:?}", control.bearer).contains("secret"));
        for bad in ["", "127.0.0.1:1", "ftp://a", "http://a/path", "http://a?x", "http://me:secret@a"] {
            assert_eq!(Control::new(bad, "db", Role::Client, None, None).unwrap_err().code, "address_invalid", "{bad}");
        }
    }
}
