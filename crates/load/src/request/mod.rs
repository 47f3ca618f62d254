//! Requests of a worker: texts and templates that are parsed once for a run ([`Program`]), the bytes of one request made of them
//! ([`CurrentRequest`]), and the checks of its response.
//!
//! This module must not know the connections that requests go over.

mod checks;
mod current;
mod random;
mod template;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use self::checks::Checks;
pub(crate) use self::checks::{excerpt, json_path};
pub(crate) use self::current::CurrentRequest;
pub(crate) use self::current::Raw;
pub(crate) use self::random::Random;
pub(crate) use self::template::Template;
use self::template::{Name, Values, write};
use crate::plan::{Plan, Protocol};

/// Header line that asks the peer to close an HTTP/1.1 connection.
const CLOSE: &[u8] = b"connection: close\r\n";

/// Reason why a request cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {message}")]
pub(crate) struct RequestError {
    /// Part of the request: `path`, `header NAME`, `body` or `assertion`.
    pub(crate) part: String,
    /// Problem with this part, in one line.
    pub(crate) message: String,
}

impl RequestError {
    pub(crate) fn new(part: impl Display, message: impl Display) -> Self {
        RequestError { part: part.to_string(), message: message.to_string() }
    }
}

/// Checks the templates, path, header values and assertions of a plan.
///
/// # Errors
/// [`RequestError`], of the first problem.
pub(crate) fn check(plan: &Plan) -> Result<(), RequestError> {
    Program::new(plan).map(|_| ())
}

/// Request and checks of a run, parsed; all workers share them.
pub(crate) struct Program {
    pub(crate) method: Method,
    path: Template,
    headers: Vec<(HeaderName, Template)>,
    pub(crate) body: Option<Template>,
    /// Bytes of the headers that HTTP/1.1 adds before the request's own: `Host` and `User-Agent`, if those are absent.
    http1_first: Vec<u8>,
    checks: Checks,
    /// Next value of `{{counter}}`, shared by all workers of all shards, so that no two requests have the same. Only requests
    /// that use it change it.
    counter: AtomicU64,
    uses: Uses,
    /// Whole HTTP/1.1 request, if it never changes.
    http1_fixed: Option<Bytes>,
    /// Path and query for the other protocols, if they never change.
    path_fixed: Option<PathAndQuery>,
    /// Headers for the other protocols, if they never change.
    headers_fixed: Option<HeaderMap>,
    body_fixed: Option<Bytes>,
    is_http1: bool,
    /// True if the last request on each HTTP/1.1 connection asks to close it.
    says_close: bool,
}

#[derive(Clone, Copy, Default)]
struct Uses {
    uuid: bool,
    counter: bool,
    timestamp: bool,
    random: bool,
}

impl Program {
    /// Parses the request and the assertions of a plan.
    ///
    /// # Errors
    /// [`RequestError`], of the first part that is not valid.
    pub(crate) fn new(plan: &Plan) -> Result<Arc<Program>, RequestError> {
        let request = &plan.request;
        let path = Template::parse(&request.path).map_err(|err| RequestError::new("path", err))?;
        let mut headers = Vec::with_capacity(request.headers.len());
        for (name, text) in &request.headers {
            let template = Template::of(text).map_err(|err| RequestError::new(format_args!("header {name}"), err))?;
            headers.push((name.clone(), template));
        }
        let body = request.body.as_ref().map(Template::of).transpose();
        let body = body.map_err(|err| RequestError::new("body", err))?;
        let checks = Checks::new(&plan.assertions)?;
        let texts = || headers.iter().map(|(_, text)| text).chain(&body).chain([&path]);
        let has = |name| texts().any(|text| text.has(name)) || checks.has(name);
        let uses = Uses {
            uuid: has(Name::Uuid),
            counter: has(Name::Counter),
            timestamp: has(Name::Timestamp),
            random: has(Name::Random),
        };
        let mut program = Program {
            method: request.method.clone(),
            http1_first: http1_first(plan, &headers),
            path,
            headers,
            body,
            checks,
            counter: AtomicU64::new(request.counter_start),
            uses,
            http1_fixed: None,
            path_fixed: None,
            headers_fixed: None,
            body_fixed: None,
            is_http1: plan.target.protocol == Protocol::Http1
                && plan.target.sealed.is_none()
                && plan.target.mle.is_none()
                && plan.target.one_shot.is_none(),
            says_close: says_close(plan),
        };
        program.fix()?;
        Ok(Arc::new(program))
    }

    /// Fills every template once to check it, and keeps the results that never change.
    fn fix(&mut self) -> Result<(), RequestError> {
        let values = Values::default();
        let path = self.filled_path(&values)?;
        let headers = self.filled_headers(&values)?;
        self.path_fixed = self.path.as_fixed().is_some().then_some(path);
        let fixed_headers = self.headers.iter().all(|(_, text)| text.as_fixed().is_some());
        self.headers_fixed = fixed_headers.then_some(headers);
        self.body_fixed = match &self.body {
            None => Some(Bytes::new()),
            Some(body) => body.as_fixed().map(Bytes::copy_from_slice),
        };
        if let (Some(_), true, Some(body)) = (&self.path_fixed, fixed_headers, &self.body_fixed) {
            let mut out = Vec::new();
            self.http1_head(&values, body.len(), &mut out);
            out.extend_from_slice(body);
            self.http1_fixed = Some(out.into());
        }
        Ok(())
    }

    fn filled_path(&self, values: &Values) -> Result<PathAndQuery, RequestError> {
        let mut out = Vec::new();
        self.path.fill(values, &mut out);
        if out.first() != Some(&b'/') {
            return Err(RequestError::new("path", format_args!("{} does not begin with /", excerpt(&out))));
        }
        let text = excerpt(&out);
        PathAndQuery::from_maybe_shared(Bytes::from(out))
            .map_err(|err| RequestError::new("path", format_args!("{text} is invalid: {err}")))
    }

    fn filled_headers(&self, values: &Values) -> Result<HeaderMap, RequestError> {
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, text) in &self.headers {
            let mut out = Vec::new();
            text.fill(values, &mut out);
            // The value may be a token and is not shown.
            let value = HeaderValue::from_maybe_shared(Bytes::from(out));
            let value = value.map_err(|err| RequestError::new(format_args!("header {name}"), err))?;
            headers.append(name, value);
        }
        Ok(headers)
    }

    /// Appends the head of an HTTP/1.1 request, its empty line included.
    fn http1_head(&self, values: &Values, body_len: usize, out: &mut Vec<u8>) {
        write(out, format_args!("{} ", self.method));
        self.path.fill(values, out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(&self.http1_first);
        if self.says_close {
            out.extend_from_slice(CLOSE);
        }
        for (name, text) in &self.headers {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            text.fill(values, out);
            out.extend_from_slice(b"\r\n");
        }
        self.end_head(body_len, out);
    }

    fn end_head(&self, body_len: usize, out: &mut Vec<u8>) {
        let says_length = self.headers.iter().any(|(name, _)| name == CONTENT_LENGTH || name == TRANSFER_ENCODING);
        // Servers wait for a body after these methods, unless a length says that there is none.
        let asks = self.body.is_some() || matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        if asks && !says_length {
            write(out, format_args!("content-length: {body_len}\r\n"));
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the headers that an HTTP/1.1 request gets before its own.
fn http1_first(plan: &Plan, headers: &[(HeaderName, Template)]) -> Vec<u8> {
    let has = |wanted: &HeaderName| headers.iter().any(|(name, _)| name == wanted);
    let mut out = Vec::new();
    if !has(&HOST) {
        let authority = plan.target.url.authority().map_or("localhost", |authority| authority.as_str());
        // `Host` has no user and password.
        let host = authority.rsplit('@').next().unwrap_or_default();
        write(&mut out, format_args!("host: {host}\r\n"));
    }
    if !has(&http::header::USER_AGENT) {
        out.extend_from_slice(b"user-agent: sealway-load\r\n");
    }
    out
}

fn says_close(plan: &Plan) -> bool {
    let says_itself = plan.request.headers.iter().any(|(name, _)| name == CONNECTION);
    plan.target.protocol == Protocol::Http1 && !plan.connections.reuse && plan.connections.close_header && !says_itself
}
