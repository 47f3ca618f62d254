//! What is sent, and what is thought of its answer.

use bytes::BufMut;
use http::Method;

use crate::plan::{Assertion, Plan, Text};
use crate::record::{Class, Fault};

/// What one worker sends: made anew for each request, into memory that it keeps.
#[derive(Debug)]
pub struct Prepared {
    bytes: Vec<u8>,
    is_head: bool,
    statuses: Option<Vec<u16>>,
}

impl Prepared {
    /// What a worker with this seed sends.
    pub fn new(plan: &Plan, _worker_seed: u64) -> Self {
        let statuses = plan.assertions.iter().find_map(|assertion| match assertion {
            Assertion::Status(statuses) => Some(statuses.clone()),
            _ => None,
        });
        Prepared { bytes: head_and_body(plan), is_head: plan.request.method == Method::HEAD, statuses }
    }

    /// Makes the next request.
    pub fn renew(&mut self) {}

    /// The request as HTTP/1.1 has it.
    pub fn http1(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is a HEAD, whose answer has no body.
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// Where the answer's body is to be put, if anybody wants to look at it. Empty at first.
    pub fn body(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Whether an answer with this status, and the body that was put into [`Prepared::body`], is right.
    ///
    /// # Errors
    ///
    /// A fault of class `Status` or `Assertion`.
    pub fn check(&mut self, status: u16) -> Result<(), Fault> {
        let right = match &self.statuses {
            Some(statuses) => statuses.contains(&status),
            None => (200..300).contains(&status),
        };
        if right { Ok(()) } else { Err(Fault::new(Class::Status, format!("the answer's status was {status}"))) }
    }
}

fn head_and_body(plan: &Plan) -> Vec<u8> {
    let request = &plan.request;
    let text = |text: &Text| match text {
        Text::Fixed(bytes) => bytes.clone(),
        Text::Template(template) => template.clone().into_bytes(),
    };
    let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method, request.path).into_bytes();
    let has = |name: &str| request.headers.iter().any(|(known, _)| known == name);
    if !has("host") {
        let host = plan.target.url.authority().map_or("", |authority| authority.as_str());
        bytes.put_slice(format!("Host: {host}\r\n").as_bytes());
    }
    for (name, value) in &request.headers {
        bytes.put_slice(name.as_str().as_bytes());
        bytes.put_slice(b": ");
        bytes.put_slice(&text(value));
        bytes.put_slice(b"\r\n");
    }
    if plan.connections.close_header && !plan.connections.reuse {
        bytes.put_slice(b"Connection: close\r\n");
    }
    let body = request.body.as_ref().map(text);
    if let (Some(body), false) = (&body, has("content-length")) {
        bytes.put_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.put_slice(b"\r\n");
    bytes.put_slice(&body.unwrap_or_default());
    bytes
}
