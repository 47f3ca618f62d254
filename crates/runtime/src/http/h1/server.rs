//! Drives one HTTP/1 connection of a listener: reads a request, calls the service, writes the answer, and repeats. One task,
//! which shares nothing but the body that is being read.
//!
//! It does not know the meaning of a request. A request that it cannot accept is answered with a status alone: no service sees
//! it, and the fields that the service adds to every answer are missing.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use hyper::service::Service;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFuture;

use super::alarm::Alarm;
use super::wire::Wire;
use super::writer::{self, WriteError};
use super::{Framing, HeadLimits, RequestHead, answer, parse_request};
use crate::http::connections::{Connections, Entry};
use crate::http::stream::{PrefixStream, Transport};
use crate::http::{Body, HttpLimits, IDLE_GRACE, Interim, Origin, RequestBody, TakeOver};

/// Largest part of an answered request that is read and discarded, in bytes, and the longest time for it, so that the client,
/// still sending, can read its answer.
pub(super) const DISCARD_MAX: u64 = 16 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(5);
/// Time that a client has to close after this side has.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// The context of a connection.
#[derive(Debug)]
pub(in crate::http) struct Setup {
    pub(in crate::http) origin: Origin,
    pub(in crate::http) limits: HttpLimits,
    /// True if the service handles extended CONNECT over HTTP/2.
    pub(in crate::http) takes_connect: bool,
    /// The connection's entry in its listener's list; its `stop` asks the connection to end.
    pub(in crate::http) entry: Arc<Entry>,
    /// The list of the listener, which counts rejected requests.
    pub(in crate::http) list: Arc<Connections>,
}

impl Setup {
    /// Counts and logs a request that no service sees.
    pub(in crate::http) fn note_refused(&self, status: StatusCode, why: &str) {
        self.list.note_refused_request(&self.entry.peer, status, why);
    }
}

/// The next step after an answer.
enum After {
    /// Read the connection's next request.
    Next,
    /// Close; the client may still send.
    Close,
    /// Close; the client knows that the connection ends.
    CloseQuietly,
    /// Hand the connection over to another protocol.
    TakeOver(TakeOver),
}

enum Next {
    Request(Box<RequestHead>),
    Refused(StatusCode),
    Over,
}

/// Closes the connection when the driver ends, or is dropped, even if a body is still referenced.
struct Guard<IO: Transport>(Arc<Mutex<Wire<IO>>>);

impl<IO: Transport> Drop for Guard<IO> {
    fn drop(&mut self) {
        self.0.lock().close();
    }
}

/// Serves until the connection ends. `input` was read from it already; `alarm` is the connection's timer.
///
/// # Errors
/// The connection ended early: the client left, or an answer ended early.
pub(in crate::http) async fn serve<IO, S>(
    io: IO,
    input: BytesMut,
    mut alarm: Alarm,
    setup: &Setup,
    service: S,
) -> Result<(), WriteError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible>,
{
    let guard = Guard(Arc::new(Mutex::new(Wire::new(io, input))));
    let wire = &guard.0;
    let mut stop = pin!(setup.entry.stop.cancelled());
    loop {
        let head = match next(wire, setup, &mut alarm, stop.as_mut()).await? {
            Next::Request(head) => head,
            Next::Refused(status) => {
                answer::encode_refusal(wire.lock().output.gathered(), status);
                return close(wire, &mut alarm, LINGER_TIME).await;
            }
            Next::Over => return close(wire, &mut alarm, Duration::ZERO).await,
        };
        setup.entry.count_request();
        match exchange(wire, setup, &mut alarm, *head, &service).await? {
            After::Next => {}
            After::Close => return close(wire, &mut alarm, LINGER_TIME).await,
            After::CloseQuietly => return close(wire, &mut alarm, Duration::ZERO).await,
            After::TakeOver(taker) => {
                let taken = wire.lock().take();
                if let Some((io, input)) = taken {
                    tokio::select! {
                        () = taker.run(Box::new(PrefixStream::new(input, io))) => {}
                        () = setup.entry.closed().cancelled() => {}
                    }
                }
                return Ok(());
            }
        }
    }
}

/// Waits for the next request.
async fn next<IO: Transport>(
    wire: &Mutex<Wire<IO>>,
    setup: &Setup,
    alarm: &mut Alarm,
    mut stop: Pin<&mut WaitForCancellationFuture<'_>>,
) -> io::Result<Next> {
    let limits = HeadLimits { bytes_max: setup.limits.header_bytes_max, fields_max: setup.limits.fields_max };
    // Length of the input when the deadline was set: an empty one has another deadline.
    let mut waits_for = None;
    poll_fn(|cx| {
        let wire = &mut *wire.lock();
        loop {
            match parse_request(&mut wire.input, limits) {
                Ok(Some(head)) => return Poll::Ready(Ok(Next::Request(Box::new(head)))),
                Ok(None) => {}
                Err(fault) => {
                    setup.note_refused(fault.status(), &fault.to_string());
                    return Poll::Ready(Ok(Next::Refused(fault.status())));
                }
            }
            // Some clients send a blank line after a body.
            let is_idle = wire.input.is_empty() || wire.input.as_ref() == b"\r\n";
            if is_idle {
                wire.rest();
            }
            match wire.poll_fill(cx)? {
                Poll::Ready(0) => return Poll::Ready(Ok(Next::Over)),
                Poll::Ready(_) => {}
                Poll::Pending => {
                    if waits_for != Some(is_idle) {
                        waits_for = Some(is_idle);
                        let time = if is_idle { setup.limits.idle_timeout } else { setup.limits.header_timeout };
                        alarm.set(Instant::now() + time);
                    }
                    // A request may be in transit on a connection that looks idle from here: the next answer says close, and
                    // only a silent client is closed on.
                    if is_idle && stop.as_mut().poll(cx).is_ready() {
                        alarm.set_earlier(Instant::now() + IDLE_GRACE);
                    }
                    let is_late = alarm.poll(cx).is_ready();
                    return match (is_late, is_idle) {
                        (false, _) => Poll::Pending,
                        (true, true) => Poll::Ready(Ok(Next::Over)),
                        (true, false) => {
                            setup.note_refused(StatusCode::REQUEST_TIMEOUT, "the head took too long");
                            Poll::Ready(Ok(Next::Refused(StatusCode::REQUEST_TIMEOUT)))
                        }
                    };
                }
            }
        }
    })
    .await
}

/// Calls the service for one request, and writes the answer.
async fn exchange<IO, S>(
    wire: &Arc<Mutex<Wire<IO>>>,
    setup: &Setup,
    alarm: &mut Alarm,
    head: RequestHead,
    service: &S,
) -> Result<After, WriteError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible>,
{
    alarm.clear();
    let RequestHead { method, uri, version, headers, framing, keep_alive, expects_continue } = head;
    let number = wire.lock().begin(framing, expects_continue);
    let body = match framing {
        Framing::Length(len) if len > 0 => RequestBody::from_wire(wire.clone(), number, Some(len)),
        Framing::Chunked => RequestBody::from_wire(wire.clone(), number, None),
        _ => RequestBody::default(),
    };
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = version;
    *request.headers_mut() = headers;
    request.extensions_mut().insert(setup.origin.clone());
    let interim = (version == Version::HTTP_11).then(Interim::default);
    if let Some(interim) = &interim {
        request.extensions_mut().insert(interim.clone());
    }
    let mut answering = pin!(service.call(request));
    let answered = poll_fn(|cx| {
        let answered = answering.as_mut().poll(cx);
        let wire = &mut *wire.lock();
        while let Some((status, headers)) = interim.as_ref().and_then(Interim::next) {
            wire.push_interim(status, &headers);
        }
        match answered {
            Poll::Ready(Ok(answer)) => Poll::Ready(Ok(answer)),
            Poll::Pending => poll_interrupted(wire, cx).map(Err),
        }
    });
    let (mut parts, body) = answered.await?.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let taker = parts.extensions.remove::<TakeOver>().filter(|_| version == Version::HTTP_11);
        return switch(wire, alarm, taker, &parts.headers).await;
    }
    let keep_alive = keep_alive && !(method == http::Method::CONNECT && parts.status.is_success());
    let mut asked = writer::RequestTraits { method, version, keep_alive };
    asked.keep_alive &= !answer::says_close(&parts.headers);
    let client_knows = !keep_alive;
    let keeps = writer::write(wire, &setup.entry.stop, alarm, &asked, parts, body).await?;
    let is_read = {
        let wire = &mut *wire.lock();
        wire.finish();
        wire.is_read()
    };
    match (keeps, is_read) {
        (true, true) => Ok(After::Next),
        (true, false) if discard(wire, alarm).await => Ok(After::Next),
        (false, true) if client_knows => Ok(After::CloseQuietly),
        _ => Ok(After::Close),
    }
}

/// Ready if the exchange cannot continue: an interim answer could not be written, or the client is gone.
fn poll_interrupted<IO: Transport>(wire: &mut Wire<IO>, cx: &mut Context<'_>) -> Poll<io::Error> {
    if !wire.output.is_empty()
        && let Poll::Ready(Err(err)) = wire.poll_flush(cx)
    {
        return Poll::Ready(err);
    }
    wire.poll_gone(cx)
}

/// Writes a 101, after which the connection belongs to another protocol. Without a taker that answer has no meaning.
async fn switch<IO: Transport>(
    wire: &Mutex<Wire<IO>>,
    alarm: &mut Alarm,
    taker: Option<TakeOver>,
    headers: &HeaderMap,
) -> Result<After, WriteError> {
    {
        let wire = &mut *wire.lock();
        match (&taker, wire.is_read()) {
            (Some(_), true) => {
                super::encode_response(wire.output.gathered(), StatusCode::SWITCHING_PROTOCOLS, headers, Framing::None)
            }
            _ => answer::encode_refusal(wire.output.gathered(), StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
    writer::flush(wire, alarm).await?;
    match taker.filter(|_| wire.lock().is_read()) {
        Some(taker) => Ok(After::TakeOver(taker)),
        None => Ok(After::Close),
    }
}

/// Reads and discards the rest of an answered request, within bounds. Returns whether its end was reached.
async fn discard<IO: Transport>(wire: &Mutex<Wire<IO>>, alarm: &mut Alarm) -> bool {
    alarm.set(Instant::now() + DISCARD_TIME);
    let mut left = DISCARD_MAX;
    poll_fn(|cx| {
        let wire = &mut *wire.lock();
        if wire.left() > left {
            return Poll::Ready(false);
        }
        loop {
            match wire.poll_discard(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(true),
                Poll::Ready(Ok(len)) => match left.checked_sub(len as u64) {
                    Some(rest) => left = rest,
                    None => return Poll::Ready(false),
                },
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return alarm.poll(cx).map(|()| false),
            }
        }
    })
    .await
}

/// Shuts down the sending side, then reads for a while what the client still sends: a connection that is closed with unread
/// bytes is reset, and the client may lose an answer in transit.
async fn close<IO: Transport>(wire: &Mutex<Wire<IO>>, alarm: &mut Alarm, linger: Duration) -> Result<(), WriteError> {
    writer::flush(wire, alarm).await?;
    if linger.is_zero() && wire.lock().ends_when_closed() {
        return Ok(());
    }
    alarm.set(Instant::now() + LINGER_TIME);
    let mut left = DISCARD_MAX;
    let mut is_shut = false;
    poll_fn(|cx| {
        let wire = &mut *wire.lock();
        if !is_shut {
            match wire.poll_shutdown(cx) {
                Poll::Ready(Ok(())) => is_shut = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return alarm.poll(cx),
            }
            alarm.set(Instant::now() + linger);
        }
        while !linger.is_zero() {
            wire.input.clear();
            match wire.poll_fill(cx) {
                Poll::Ready(Ok(len)) if len > 0 && left > len as u64 => left -= len as u64,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return alarm.poll(cx),
            }
        }
        Poll::Ready(())
    })
    .await;
    Ok(())
}
