//! A request for another protocol towards a server: as `Upgrade` over HTTP/1.1, or as extended CONNECT over HTTP/2 (RFC 8441).

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, UPGRADE};
use http::{Method, Response, StatusCode};
use sealway_exchange::headers::remove_where;
use sealway_runtime::http::h1::Fault;
use sealway_runtime::http::{Body, websocket};

use super::h1::ExchangeError;
use crate::upgrade::is_protocol;

/// The protocol that a request asks for, and how its client asked.
pub(super) struct Switch {
    protocol: HeaderValue,
    /// The key of the handshake: of a client of HTTP/1.1, or made for a server of HTTP/1.1.
    key: Option<HeaderValue>,
    /// True if the client sent an extended CONNECT, so that nobody has a key.
    is_extended: bool,
    may_be_connect: bool,
}

impl Switch {
    /// Reads the `Upgrade` of a request; `None` without one. `has_body` says whether the request has a body, for which an
    /// extended CONNECT has no place.
    pub(super) fn of(method: &Method, headers: &HeaderMap, is_extended: bool, has_body: bool) -> Option<Self> {
        let protocol = headers.get(UPGRADE)?.clone();
        let key = websocket::key(headers).and_then(|key| HeaderValue::from_bytes(key).ok());
        let is_handshake = is_protocol(&protocol, websocket::PROTOCOL) && key.is_some();
        // Other handshakes of HTTP/1.1 have no known form over HTTP/2, and a server is to reject a malformed one itself.
        let may_be_connect = *method == Method::GET && !has_body && (is_extended || is_handshake);
        Some(Switch { protocol, key, is_extended, may_be_connect })
    }

    /// True if the request may be sent as extended CONNECT.
    pub(super) fn may_be_connect(&self) -> bool {
        self.may_be_connect
    }

    /// Returns the value of `:protocol`. Servers compare it with the name as it is registered.
    pub(super) fn protocol(&self) -> Bytes {
        if is_protocol(&self.protocol, websocket::PROTOCOL) {
            return Bytes::from_static(websocket::PROTOCOL);
        }
        Bytes::copy_from_slice(self.protocol.as_bytes())
    }

    /// Completes the headers of an `Upgrade` over HTTP/1.1: the key that an extended CONNECT does not have.
    pub(super) fn complete(&mut self, headers: &mut HeaderMap) -> Result<(), ExchangeError> {
        if self.is_extended && is_protocol(&self.protocol, websocket::PROTOCOL) {
            let key = websocket::new_key();
            let key = key.ok_or_else(|| ExchangeError::Ended("the system gives no random numbers".into()))?;
            headers.insert(websocket::KEY, key.clone());
            self.key = Some(key);
        }
        Ok(())
    }

    /// Removes the headers that an extended CONNECT does not have (RFC 8441 section 5).
    pub(super) fn without_handshake(headers: &mut HeaderMap) {
        remove_where(headers, |name| *name == websocket::KEY || *name == websocket::ACCEPT || *name == CONTENT_LENGTH);
    }

    /// Checks the headers of a 101: the server must switch to the protocol, and must have read a key that was made here. The
    /// client of HTTP/1.1 checks the answer to its own.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), ExchangeError> {
        let faulty = |what| Err(ExchangeError::Faulty(Fault::Malformed(what)));
        let one = |name| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())
        };
        if !one(&UPGRADE).is_some_and(|name| is_protocol(name, self.protocol.as_bytes())) {
            return faulty("a switch to a protocol that was not asked for");
        }
        if let Some(key) = self.key.as_ref().filter(|_| self.is_extended) {
            let accept = websocket::accept(key.as_bytes());
            if one(&websocket::ACCEPT).is_none_or(|value| value.as_bytes() != accept.as_bytes()) {
                return faulty("a switch to WebSocket with another key");
            }
        }
        Ok(())
    }

    /// Turns the success of an extended CONNECT into the 101 of an `Upgrade`.
    pub(super) fn to_101(&self, response: &mut Response<Body>) {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        Self::without_handshake(headers);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
        if let Some(key) = &self.key
            && let Ok(accept) = HeaderValue::try_from(websocket::accept(key.as_bytes()))
        {
            headers.insert(websocket::ACCEPT, accept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_a_valid_handshake_of_websocket_and_an_extended_connect_may_be_sent_as_one() {
        let websocket = headers(&[("upgrade", "WebSocket"), ("sec-websocket-key", KEY)]);
        let may_be = |method: Method, headers: &HeaderMap, is_extended, has_body| {
            Switch::of(&method, headers, is_extended, has_body).map(|switch| switch.may_be_connect())
        };
        assert_eq!(may_be(Method::GET, &websocket, false, false), Some(true));
        assert_eq!(may_be(Method::GET, &websocket, false, true), Some(false));
        assert_eq!(may_be(Method::POST, &websocket, false, false), Some(false));
        assert_eq!(may_be(Method::GET, &headers(&[("upgrade", "websocket")]), false, false), Some(false));
        let chat = headers(&[("upgrade", "chat"), ("sec-websocket-key", KEY)]);
        assert_eq!(may_be(Method::GET, &chat, false, false), Some(false));
        assert_eq!(may_be(Method::GET, &headers(&[("upgrade", "chat")]), true, false), Some(true));
        assert_eq!(may_be(Method::GET, &HeaderMap::new(), true, false), None);
    }

    #[test]
    fn a_server_of_http1_must_answer_the_key_that_was_made_for_it() {
        let mut request = headers(&[("upgrade", "websocket")]);
        let mut switch = Switch::of(&Method::GET, &request, true, false).unwrap();
        switch.complete(&mut request).unwrap();
        let accept = websocket::accept(websocket::key(&request).unwrap());
        let mut answer = headers(&[("upgrade", "websocket")]);
        assert!(switch.check(&answer).is_err(), "no answer to the key");
        answer.insert(websocket::ACCEPT, HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(switch.check(&answer).is_err(), "the answer to another key");
        answer.insert(websocket::ACCEPT, HeaderValue::try_from(accept).unwrap());
        assert!(switch.check(&answer).is_ok());
        answer.append(websocket::ACCEPT, HeaderValue::from_static("x"));
        assert!(switch.check(&answer).is_err(), "two answers");
    }

    #[test]
    fn a_client_of_http1_gets_the_answer_to_its_own_key() {
        let request = headers(&[("upgrade", "websocket"), ("sec-websocket-key", KEY)]);
        let switch = Switch::of(&Method::GET, &request, false, false).unwrap();
        let mut response = Response::new(sealway_runtime::http::full(""));
        *response.headers_mut() = headers(&[("sec-websocket-accept", "forged"), ("content-length", "5"), ("x-a", "1")]);
        switch.to_101(&mut response);
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()[websocket::ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(response.headers()[UPGRADE], "websocket");
        assert!(response.headers().contains_key("x-a") && !response.headers().contains_key(CONTENT_LENGTH));
    }
}
