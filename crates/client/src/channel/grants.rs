//! Sources of grants: a file, or the control plane over HTTP. SPEC relay.md#control-plane

use std::path::PathBuf;
use std::sync::Mutex;
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

use super::dial::{Instance, attach};
use super::error::{Error, Stage};
use super::{Channel, Options};
use crate::trust;

/// Longest grant that is read, in bytes.
const GRANT_LEN_MAX: usize = 64 * 1024;
/// Longest reason of a control plane that is passed on, in bytes.
const REASON_LEN_MAX: usize = 200;
/// Longest time for the control plane's answer; it holds a request for 30 s until a listener is there.
const ANSWER_TIME: Duration = Duration::from_secs(45);

/// Time for which a listener's request waits at the control plane for a client, in seconds: shorter than the timeouts
/// of proxies.
const LISTEN_WAIT_S: u64 = 25;

/// Source of an endpoint's grants.
#[derive(Debug)]
pub enum Grants {
    /// A file with one grant, whose token works once.
    File(GrantFile),
    /// A control plane, which is asked for each grant.
    Control(Box<Control>),
}

/// A file with one grant, and the token that was already sent to a relay.
#[derive(Debug)]
pub struct GrantFile {
    path: PathBuf,
    shown: Mutex<Option<String>>,
}

impl Grants {
    /// Creates a source that reads one grant from a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Grants::File(GrantFile { path: path.into(), shown: Mutex::default() })
    }

    /// Returns the next grant. A listener's grant comes once a client asks for its counterpart.
    ///
    /// # Errors
    /// Of the stage [`Stage::Grant`]: `grant_invalid` names the malformed member, or a file whose token was used;
    /// `nobody_listens` if no peer listens under the name; `unauthorized` if the control plane rejects the token.
    pub async fn next(&self) -> Result<Grant, Error> {
        match self {
            Grants::File(file) => file.next().await,
            Grants::Control(control) => control.next().await,
        }
    }

    /// Attaches to the relay with the next grant.
    ///
    /// # Errors
    /// Those of [`Grants::next`] and [`attach`].
    pub(super) async fn attach(&self, me: &Instance, options: &Options) -> Result<Channel, Error> {
        self.attach_with(self.next().await?, me, options).await
    }

    /// Attaches to the relay with a grant of this source.
    pub(super) async fn attach_with(&self, grant: Grant, me: &Instance, options: &Options) -> Result<Channel, Error> {
        let attached = attach(&grant, me, options, |_| ()).await;
        // A relay that was not reached has not seen the token.
        if let Grants::File(file) = self
            && !attached.as_ref().is_err_and(|err| err.stage == Stage::Connect)
        {
            *file.shown() = Some(grant.token);
        }
        attached
    }
}

impl GrantFile {
    async fn next(&self) -> Result<Grant, Error> {
        let invalid = |text: String| fault("grant_invalid", format!("{}: {text}", self.path.display()));
        let text = tokio::fs::read(&self.path).await.map(Zeroizing::new);
        let grant = Grant::parse(&text.map_err(|err| invalid(err.to_string()))?);
        let grant = grant.map_err(|err| invalid(err.to_string()))?;
        if self.shown().as_ref() == Some(&grant.token) {
            return Err(invalid("its token was used; a grant works once: mint another, or give --control".into()));
        }
        Ok(grant)
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        // A panic while the lock was held leaves no partial change.
        self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Client of a control plane, with its prepared request.
pub struct Control {
    uri: Uri,
    bearer: Option<HeaderValue>,
    body: Bytes,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Control {
    /// Creates a client of the control plane at `url` (`http://` or `https://`, without a path), for grants of the end
    /// `role` of channels under `name`. `bearer` is sent along; `tls` has the trusted authorities and the client
    /// certificate for `https`.
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
        // A user name or password before an @ would be shown with the address.
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
                // hyper-rustls sets the protocols itself.
                config.alpn_protocols.clear();
                Ok(config)
            }
            None if base.scheme_str() == Some("https") => trust::system(),
            None => trust::nobody(),
        };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(|text| fault("tls_unset", text))?);
        let body = match role {
            Role::Client => json!({"name": name, "role": "client"}),
            Role::Server => json!({"name": name, "role": "server", "wait_s": LISTEN_WAIT_S}),
        };
        Ok(Control {
            uri,
            bearer: bearer.transpose()?,
            body: Bytes::from(body.to_string()),
            http: Client::builder(TokioExecutor::new()).build(builder.https_or_http().enable_http1().build()),
        })
    }

    async fn next(&self) -> Result<Grant, Error> {
        loop {
            // `None`: no client asked within the waiting time.
            if let Some(grant) = self.ask().await? {
                return Ok(grant);
            }
        }
    }

    async fn ask(&self) -> Result<Option<Grant>, Error> {
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
        // The error's own text says where it failed, and its source why.
        let why = std::error::Error::source(err).map(|source| format!(": {source}")).unwrap_or_default();
        fault("control_unreachable", format!("{}: {err}{why}", self.uri))
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({})", self.uri)
    }
}

fn judge(status: StatusCode, body: &[u8]) -> Result<Option<Grant>, Error> {
    match status {
        StatusCode::OK => Grant::parse(body).map(Some).map_err(|err| fault("grant_invalid", err.to_string())),
        StatusCode::NO_CONTENT => Ok(None),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(fault(
            "unauthorized",
            format!("the control plane does not let us in: it answers with the status {status}"),
        )),
        StatusCode::NOT_FOUND => Err(fault("nobody_listens", "no peer listens under this name".into())),
        _ => {
            Err(fault("control_refused", format!("the control plane answers with the status {status}{}", reason(body))))
        }
    }
}

/// Reason in a control plane's JSON, after a colon; empty without a reason, or for one of several lines or over 200
/// bytes.
fn reason(body: &[u8]) -> String {
    let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let text = body.as_ref().and_then(|body| body.get("error")?.as_str());
    match text.filter(|text| text.len() <= REASON_LEN_MAX && !text.contains(char::is_control)) {
        Some(text) => format!(": {text}"),
        None => String::new(),
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
        let told = |body: &[u8]| judge(StatusCode::TOO_MANY_REQUESTS, body).unwrap_err().to_string();
        assert!(told(br#"{"error":"too many names"}"#).contains("429 Too Many Requests: too many names"));
        for silent in [&br#"{"error":"two\nlines"}"#[..], b"<html>", br#"{"error":7}"#] {
            let told = told(silent);
            assert!(told.contains("429 Too Many Requests") && !told.contains("Requests:"), "{told}");
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
