//! Makes the requests of one worker in turn, in memory that the worker reuses.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use sealway_runtime::clock::{Clock, SystemClock};

use super::template::{Values, write};
use super::{CLOSE, Program, Random};
use crate::record::{Class, Failure};
use crate::target::AnySession;

/// Memory for a response that is kept from one request to the next, in bytes; the rest is released.
const ANSWER_KEPT: usize = 64 * 1024;

/// Current request of one worker: made anew each time, in memory that is reused.
pub(crate) struct CurrentRequest {
    program: Arc<Program>,
    random: Random,
    values: Values,
    /// Bytes of the request over HTTP/1.1, unless they are always the same.
    buffer: Vec<u8>,
    body: Vec<u8>,
    answer: Vec<u8>,
    raw: Option<Box<Raw>>,
    /// Session of this worker, if one serves all its requests.
    pub(crate) session: Option<Rc<AnySession>>,
}

/// Outer request of a sealed exchange, made by the sealing layer. Its response is kept whole and not checked here.
#[derive(Default)]
pub(crate) struct Raw {
    /// Method of the outer request.
    pub(crate) method: Method,
    /// Path and query of the outer request.
    pub(crate) path: Option<PathAndQuery>,
    /// All headers except those that the protocol sets.
    pub(crate) headers: HeaderMap,
    /// Body of the outer request.
    pub(crate) body: Bytes,
    /// True for the last request on a connection without reuse.
    pub(crate) is_last: bool,
    /// Headers of the response, after its arrival.
    pub(crate) answer_headers: HeaderMap,
}

impl CurrentRequest {
    /// Creates the requests of a worker, whose random values follow from `seed`.
    pub(crate) fn new(program: &Arc<Program>, seed: u64) -> Self {
        CurrentRequest {
            program: program.clone(),
            random: Random::new(seed),
            values: Values::default(),
            buffer: Vec::new(),
            body: Vec::new(),
            answer: Vec::new(),
            raw: None,
            session: None,
        }
    }

    /// Creates an empty carrier of outer requests; [`CurrentRequest::carry`] sets each of them.
    pub(crate) fn raw(program: &Arc<Program>) -> Self {
        CurrentRequest { raw: Some(Box::default()), ..CurrentRequest::new(program, 0) }
    }

    /// Sets the next outer request and makes its bytes for HTTP/1.1; called once for each request.
    pub(crate) fn carry(&mut self, raw: Raw) {
        self.answer.clear();
        self.buffer.clear();
        let program = &self.program;
        write(
            &mut self.buffer,
            format_args!("{} {} HTTP/1.1\r\n", raw.method, raw.path.as_ref().map_or("/", PathAndQuery::as_str)),
        );
        self.buffer.extend_from_slice(&program.http1_first);
        if raw.is_last && program.says_close {
            self.buffer.extend_from_slice(CLOSE);
        }
        for (name, value) in &raw.headers {
            self.buffer.extend_from_slice(name.as_str().as_bytes());
            self.buffer.extend_from_slice(b": ");
            self.buffer.extend_from_slice(value.as_bytes());
            self.buffer.extend_from_slice(b"\r\n");
        }
        write(&mut self.buffer, format_args!("content-length: {}\r\n\r\n", raw.body.len()));
        self.buffer.extend_from_slice(&raw.body);
        self.raw = Some(Box::new(raw));
    }

    /// Takes the headers and the body of the response to the outer request.
    pub(crate) fn take_answer(&mut self) -> (HeaderMap, Vec<u8>) {
        let headers = self.raw.as_mut().map(|raw| std::mem::take(&mut raw.answer_headers)).unwrap_or_default();
        (headers, std::mem::take(&mut self.answer))
    }

    /// Makes the next request, with new values for its templates.
    pub(crate) fn renew(&mut self) {
        let uses = self.program.uses;
        if uses.uuid {
            self.values.uuid = self.random.uuid();
        }
        if uses.counter {
            self.values.counter = self.program.counter.fetch_add(1, Ordering::Relaxed);
        }
        if uses.timestamp {
            self.values.timestamp = SystemClock.now_ms();
        }
        if uses.random {
            self.values.random = self.random.number();
        }
        self.answer.clear();
        self.answer.shrink_to(ANSWER_KEPT);
        if self.program.http1_fixed.is_none() && self.program.is_http1 {
            self.buffer.clear();
            self.body.clear();
            if let Some(body) = &self.program.body {
                body.fill(&self.values, &mut self.body);
            }
            self.program.http1_head(&self.values, self.body.len(), &mut self.buffer);
            self.buffer.extend_from_slice(&self.body);
        }
    }

    /// Returns the bytes of the request over HTTP/1.1.
    pub(crate) fn http1(&self) -> &[u8] {
        match &self.program.http1_fixed {
            Some(fixed) if self.raw.is_none() => fixed,
            _ => &self.buffer,
        }
    }

    /// Returns whether this request is the plan's, and is the same each time.
    pub(crate) fn is_fixed(&self) -> bool {
        self.raw.is_none() && self.program.http1_fixed.is_some()
    }

    /// Returns the method of the outer request, or else of the plan's request.
    pub(crate) fn method(&self) -> &Method {
        self.raw.as_ref().map_or(&self.program.method, |raw| &raw.method)
    }

    /// Returns path and query, for protocols that do not send [`CurrentRequest::http1`].
    pub(crate) fn path(&self) -> Result<PathAndQuery, Failure> {
        if let Some(path) = self.raw.as_ref().and_then(|raw| raw.path.as_ref()).or(self.program.path_fixed.as_ref()) {
            return Ok(path.clone());
        }
        self.program.filled_path(&self.values).map_err(|err| Failure::new(Class::Internal, err))
    }

    /// Returns the request's own headers, for protocols that do not send [`CurrentRequest::http1`].
    pub(crate) fn headers(&self) -> Result<HeaderMap, Failure> {
        if let Some(headers) = self.raw.as_ref().map(|raw| &raw.headers).or(self.program.headers_fixed.as_ref()) {
            return Ok(headers.clone());
        }
        self.program.filled_headers(&self.values).map_err(|err| Failure::new(Class::Internal, err))
    }

    /// Returns the request's body, which may be empty, for protocols that do not send [`CurrentRequest::http1`].
    pub(crate) fn sent(&self) -> Bytes {
        if let Some(body) = self.raw.as_ref().map(|raw| &raw.body).or(self.program.body_fixed.as_ref()) {
            return body.clone();
        }
        let mut out = Vec::new();
        if let Some(body) = &self.program.body {
            body.fill(&self.values, &mut out);
        }
        out.into()
    }

    /// Returns whether the method is HEAD, whose response has no body.
    pub(crate) fn is_head(&self) -> bool {
        *self.method() == Method::HEAD
    }

    /// Returns the empty buffer for the body of the response; `None` if nothing needs the body.
    pub(crate) fn body(&mut self) -> Option<&mut Vec<u8>> {
        (self.raw.is_some() || self.program.checks.want_body()).then_some(&mut self.answer)
    }

    /// Returns the map for the headers of the response; `None` if nothing needs them.
    pub(crate) fn answer_headers(&mut self) -> Option<&mut HeaderMap> {
        self.raw.as_mut().map(|raw| &mut raw.answer_headers)
    }

    /// Checks the status of a response, and the body in the buffer of [`CurrentRequest::body`]. A status of 0 stands for a message
    /// without a status, and is not checked.
    ///
    /// # Errors
    /// A failure of class `Status` or `Assertion`.
    pub(crate) fn check(&mut self, status: u16) -> Result<(), Failure> {
        if self.raw.is_some() {
            return Ok(());
        }
        if status > 0 {
            self.program.checks.status(status)?;
        }
        if self.program.checks.want_body() { self.program.checks.body(&self.answer, &self.values) } else { Ok(()) }
    }

    /// Checks a response like [`CurrentRequest::check`], with a body that is elsewhere.
    pub(crate) fn check_other(&self, status: u16, body: &[u8]) -> Result<(), Failure> {
        self.program.checks.status(status)?;
        self.program.checks.body(body, &self.values)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use http::HeaderName;

    use super::*;
    use crate::plan::{self, Plan, Text};

    fn plan(path: &str, body: Option<Text>) -> Plan {
        let mut plan = Plan::of(http::Uri::from_static("http://a.example:8080/"));
        plan.request = plan::Request {
            method: Method::POST,
            path: path.into(),
            headers: vec![(HeaderName::from_static("x-id"), Text::Template("{{counter}}".into()))],
            body,
            counter_start: 30,
        };
        plan
    }

    #[test]
    fn a_request_is_filled_with_one_value_for_one_name_and_counted_for_all_workers() {
        let program = Program::new(&plan("/a?n={{counter}}", Some(Text::Template("n={{counter}}".into())))).unwrap();
        let mut workers = [CurrentRequest::new(&program, 0), CurrentRequest::new(&program, 1)];
        let mut seen = HashSet::new();
        for round in 0..20 {
            let worker = &mut workers[round % 2];
            worker.renew();
            let text = String::from_utf8(worker.http1().to_vec()).unwrap();
            let n = 30 + round;
            assert_eq!(
                text,
                format!(
                    "POST /a?n={n} HTTP/1.1\r\nhost: a.example:8080\r\nuser-agent: sealway-load\r\nx-id: {n}\r\n\
                     content-length: 4\r\n\r\nn={n}"
                )
            );
            assert_eq!(worker.path().unwrap().as_str(), format!("/a?n={n}"));
            assert_eq!(worker.headers().unwrap()["x-id"], n.to_string());
            assert_eq!(worker.sent(), format!("n={n}"));
            assert!(seen.insert(text));
        }
    }

    #[test]
    fn invalid_requests_are_reported_before_the_run() {
        let shown = |path: &str| super::super::check(&plan(path, None)).unwrap_err().to_string();
        assert_eq!(shown("a"), r#"path: "a" does not begin with /"#);
        assert!(shown("/a b").starts_with(r#"path: "/a b" is invalid"#));
        assert!(shown("/{{who}}").starts_with("path: {{who}} at character 2 is unknown"));
        let mut plan = plan("/", None);
        plan.request.headers[0].1 = Text::Fixed(b"a\r\nb: c".to_vec());
        let shown = super::super::check(&plan).unwrap_err().to_string();
        assert!(shown.starts_with("header x-id: ") && !shown.contains("b: c"), "{shown}");
    }
}
