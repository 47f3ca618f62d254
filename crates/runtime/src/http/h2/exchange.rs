//! Answers the request of one stream: calls the service, and writes its answer; or hands the stream over as a tunnel.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, EXPECT, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame};
use hyper::service::Service;
use parking_lot::Mutex;

use super::server::SharedConnection;
use super::tunnel::Tunnel;
use super::{Arrival, Connection, Fault, Reason, request};
use crate::http::h1::{Framing, Plan, Setup, date};
use crate::http::{Body, BodyError, Interim, RequestBody, TakeOver, full};

/// Ends a stream whose answer was not completed when it is dropped.
struct Answering {
    connection: SharedConnection,
    stream: u32,
    /// True once a tunnel has the stream, and ends it.
    is_handed_over: bool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.connection.lock().drop_writer(self.stream, Reason::InternalError);
        }
    }
}

/// Answers the request of one stream.
pub(super) async fn exchange<S>(connection: SharedConnection, arrival: Arrival, setup: &Setup, service: &S)
where
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible>,
{
    let Arrival { stream, head, is_whole } = arrival;
    let mut answering = Answering { connection: connection.clone(), stream, is_handed_over: false };
    setup.entry.count_request();
    let is_tunnel = head.as_ref().is_ok_and(|head| head.protocol.is_some());
    // The data of a tunnel is no body.
    let body = if is_whole || is_tunnel {
        RequestBody::default()
    } else {
        let len = head.as_ref().ok().and_then(|head| request::length(&head.headers));
        RequestBody::from_wire(connection.clone(), u64::from(stream), len)
    };
    let head = head.map_err(|fault| match fault {
        Fault::TooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head is over its bound"),
        Fault::Malformed(what) => (StatusCode::BAD_REQUEST, what),
    });
    let head = match head.and_then(|head| request::check(&head).map(|()| head)) {
        Ok(head) => head,
        Err((status, why)) => {
            setup.note_refused(status, why);
            let mut headers = HeaderMap::new();
            headers.insert(DATE, date());
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            let connection = &mut *connection.lock();
            if is_tunnel {
                connection.drop_reader(stream);
            }
            connection.respond(stream, status, &headers, true);
            return;
        }
    };
    let method = head.method.clone();
    if !is_whole
        && !is_tunnel
        && head.headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        connection.lock().hold_body(stream);
    }
    let interim = Interim::default();
    let mut called = pin!(service.call(request::request(head, body, setup, interim.clone())));
    let answer = poll_fn(|cx| {
        let answered = called.as_mut().poll(cx);
        let connection = &mut *connection.lock();
        while let Some((status, headers)) = interim.next() {
            connection.interim(stream, status, &headers);
        }
        match answered {
            Poll::Ready(Ok(answer)) => Poll::Ready(Some(answer)),
            // A client that has reset the stream does not want the answer.
            Poll::Pending => connection.poll_ended(stream, cx).map(|_| None),
        }
    });
    let Some(mut answer) = answer.await else { return };
    let method = if is_tunnel {
        if answer.status().is_success() {
            if let Some(taker) = answer.extensions_mut().remove::<TakeOver>() {
                answering.is_handed_over = true;
                return hand_over(&connection, stream, setup, answer.headers_mut(), &taker).await;
            }
            // The client would take any success for a tunnel.
            answer = Response::new(full(""));
            *answer.status_mut() = StatusCode::NOT_IMPLEMENTED;
        }
        connection.lock().drop_reader(stream);
        // The answer has a body, as one to a GET.
        Method::GET
    } else {
        method
    };
    if let Err(err) = write(&connection, stream, &method, answer).await {
        tracing::debug!(peer = %setup.entry.peer, err, "an answer over HTTP/2 ended early");
    }
    drop(answering);
}

/// Answers an extended CONNECT with 200 (RFC 8441 section 5), and gives the stream to `taker` until either ends it, the client
/// resets it, or the operator closes the connection.
async fn hand_over(
    connection: &SharedConnection,
    stream: u32,
    setup: &Setup,
    headers: &mut HeaderMap,
    taker: &TakeOver,
) {
    // RFC 9110 section 9.3.6.
    headers.remove(CONTENT_LENGTH);
    headers.entry(DATE).or_insert_with(date);
    connection.lock().respond(stream, StatusCode::OK, headers, false);
    let mut taken = pin!(taker.run(Box::new(Tunnel::new(connection.clone(), stream))));
    let mut closed = pin!(setup.entry.closed().cancelled());
    poll_fn(|cx| {
        if taken.as_mut().poll(cx).is_ready() || closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // A taker that only waits for the other side would not notice.
        connection.lock().poll_ended(stream, cx).map(drop)
    })
    .await;
}

/// Writes an answer: its head with the first part of its body, then the body as it arrives, no faster than the client reads.
async fn write(
    connection: &Mutex<Connection>,
    stream: u32,
    method: &Method,
    answer: Response<Body>,
) -> Result<(), BodyError> {
    let (mut parts, mut body) = answer.into_parts();
    let plan = Plan::new(method, Version::HTTP_2, parts.status, &mut parts.headers, body.size_hint().exact());
    let mut left = None;
    if let Framing::Length(len) = plan.framing {
        left = Some(len);
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
    }
    parts.headers.entry(DATE).or_insert_with(date);
    // Trailers may follow a body of no bytes.
    let may_have_trailers = plan.framing == Framing::Length(0) && !body.is_end_stream();
    if !plan.has_body && !may_have_trailers {
        connection.lock().respond(stream, parts.status, &parts.headers, true);
        return Ok(());
    }
    // The first part of the body goes with the head.
    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
    connection.lock().respond(stream, parts.status, &parts.headers, false);
    let mut next = first;
    loop {
        let frame = match next {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
                    Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                    Poll::Pending => connection.lock().poll_ended(stream, cx).map(Err),
                })
                .await?
            }
        };
        let trailers = match frame.transpose()?.map(Frame::into_data) {
            Some(Ok(data)) => {
                if let Some(left) = &mut left {
                    *left = left.checked_sub(data.len() as u64).ok_or("an answer is longer than announced")?;
                }
                let is_last = body.is_end_stream();
                if is_last && left.is_some_and(|left| left > 0) {
                    return Err("an answer is shorter than announced".into());
                }
                connection.lock().send(stream, data, is_last);
                if is_last {
                    return Ok(());
                }
                poll_fn(|cx| connection.lock().poll_room(stream, cx)).await?;
                next = Poll::Pending;
                continue;
            }
            Some(Err(frame)) => frame.into_trailers().ok(),
            None => None,
        };
        if left.is_some_and(|left| left > 0) {
            return Err("an answer is shorter than announced".into());
        }
        match trailers {
            Some(trailers) => connection.lock().send_trailers(stream, trailers),
            None => connection.lock().send(stream, Bytes::new(), true),
        }
        return Ok(());
    }
}
