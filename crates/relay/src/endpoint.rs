//! The task of one connection: reads its frames and writes them to the other end, under that end's lock.
//!
//! An idle connection has no buffer: input goes into a buffer of the thread, and from there to the other end. Only incomplete
//! frames, and data that the other end does not accept, are kept. While the other end accepts nothing, the task reads nothing
//! more: the sender waits, and no other endpoint does.

use std::cell::RefCell;
use std::io::IoSlice;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, BytesMut};
use sealway_proto::relay::CloseCause;
use sealway_runtime::http::Raw;
use sealway_runtime::shutdown::Shutdown;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::admit::{self, Admission};
use crate::batch::{BATCH, Batch};
use crate::channel::{AttachRequest, Attachment, Channel, OfferOutcome};
use crate::conn::{Conn, Reader, Writer, split};
use crate::input::{HEAD_ROOM, Input, Next};
use crate::nodes::bridge::Splice;
use crate::relay::Relay;
use crate::tick::ms;
use crate::ws;

/// Length of one read, in bytes.
const SCRATCH_LEN: usize = 128 * 1024;
/// Most reads of one endpoint before others have a turn.
const ROUNDS_MAX: usize = 16;
/// Longest kept part of a frame that is copied to the thread's buffer; the rest of a longer one is read behind it.
const SHORT: usize = 256;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; HEAD_ROOM + SCRATCH_LEN].into_boxed_slice());
}

/// The phase of an endpoint's life.
enum Phase {
    /// The endpoint has not attached, or has.
    Open,
    /// The nodes are asked whether it may attach, and on which.
    Asking(Pin<Box<dyn Future<Output = Result<Admission, CloseCause>> + Send>>),
    /// Another node has its channel.
    Bridged(Box<Splice>),
    /// The close frame waits to be written.
    Closing,
    /// The sending side is shut down; further input is discarded.
    Lingering,
}

/// The endpoint's place in a channel.
struct Place {
    channel: Arc<Channel>,
    side: usize,
    /// The other end, once it is known to have attached.
    peer: Option<Arc<Conn>>,
}

struct Endpoint {
    relay: Arc<Relay>,
    conn: Arc<Conn>,
    reader: Reader,
    input: Input,
    phase: Phase,
    place: Option<Place>,
    /// The payload of the close frame that it sent, to be returned.
    said: Option<Box<[u8]>>,
    /// Input that is not yet used.
    kept: BytesMut,
    /// Number of bytes of it that are needed; 0 to try before the next read.
    need: usize,
}

/// Starts the task of a connection that has become a WebSocket.
pub(crate) fn spawn(relay: &Arc<Relay>, io: Box<dyn Raw>, address: Option<IpAddr>, shutdown: &Shutdown) {
    let limits = &relay.settings.limits;
    let (reader, writer, read) = split(io);
    let mut endpoint = Endpoint::new(relay, reader, writer, address, Input::new(limits.message_bytes_max));
    endpoint.set_deadline(limits.attach_timeout);
    endpoint.keep(&read);
    endpoint.run(shutdown);
}

/// Starts the task of an endpoint that another node has authenticated, for a channel of this node.
pub(crate) fn spawn_bridged(
    relay: &Arc<Relay>,
    node: Box<dyn Raw>,
    request: &AttachRequest,
    address: Option<IpAddr>,
    shutdown: &Shutdown,
) {
    let (reader, writer, _) = split(node);
    let input = Input::attached(relay.settings.limits.message_bytes_max);
    let mut endpoint = Endpoint::new(relay, reader, writer, address, input);
    if relay.is_draining.load(Ordering::Acquire) {
        endpoint.conn.close(CloseCause::NodeUnavailable);
    } else if !endpoint.conn.is_ending() {
        endpoint.take_place(request);
    }
    endpoint.run(shutdown);
}

impl Future for Endpoint {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let endpoint = self.get_mut();
        endpoint.conn.register_own(cx.waker());
        for _ in 0..ROUNDS_MAX {
            if endpoint.conn.is_killed() {
                return Poll::Ready(());
            }
            match &mut endpoint.phase {
                Phase::Open | Phase::Asking(_) if endpoint.conn.is_ending() => endpoint.begin_close(),
                Phase::Open => ready!(endpoint.poll_open(cx)),
                Phase::Asking(answer) => match ready!(answer.as_mut().poll(cx)) {
                    Ok(admitted) => endpoint.admitted(admitted),
                    Err(cause) => drop(endpoint.conn.close(endpoint.relay.refuse(cause))),
                },
                Phase::Bridged(_) => ready!(endpoint.poll_bridged(cx)),
                Phase::Closing => ready!(endpoint.poll_closing(cx)),
                Phase::Lingering => return endpoint.poll_linger(cx),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Endpoint {
    fn new(relay: &Arc<Relay>, reader: Reader, writer: Writer, address: Option<IpAddr>, input: Input) -> Self {
        let limits = &relay.settings.limits;
        let conn = Arc::new(Conn::new(relay.conns.next_id(), address, writer, relay.budget.clone()));
        conn.seen_ms.store(relay.now_ms(), Ordering::Relaxed);
        if !relay.conns.enter(&conn, limits.connections_max, limits.connections_per_address_max) {
            conn.close(relay.refuse(CloseCause::TooManyConnections));
        }
        Endpoint {
            relay: relay.clone(),
            conn,
            reader,
            input,
            phase: Phase::Open,
            place: None,
            said: None,
            kept: BytesMut::new(),
            need: 0,
        }
    }

    fn run(self, shutdown: &Shutdown) {
        let stop = shutdown.clone();
        shutdown.spawn(async move {
            tokio::select! {
                () = self => {}
                () = stop.aborted() => {}
            }
        });
    }

    /// Reads once and forwards the input.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now_ms = self.relay.now_ms();
        // This task does not wait for the output of its own endpoint: the other end's task does.
        let _ = self.conn.poll_flush(now_ms);
        if let Some(Place { peer: Some(peer), .. }) = &self.place
            && let Err(_gone) = ready!(peer.poll_drained(cx, now_ms))
        {
            // That task ends the channel, and this one with it, once it has read the last input of that end.
            return Poll::Pending;
        }
        let mut kept = std::mem::take(&mut self.kept);
        let have = kept.len().saturating_sub(HEAD_ROOM);
        if have > 0 && self.need == 0 {
            self.take(&mut kept, now_ms);
            Poll::Ready(())
        } else if have > SHORT {
            self.poll_behind(cx, kept, now_ms)
        } else {
            SCRATCH.with_borrow_mut(|scratch| self.poll_scratch(cx, kept, scratch, now_ms))
        }
    }

    /// Reads the rest of a frame behind its kept part.
    fn poll_behind(&mut self, cx: &mut Context<'_>, mut kept: BytesMut, now_ms: u64) -> Poll<()> {
        let left = (HEAD_ROOM + self.need).saturating_sub(kept.len());
        let polled = poll_read_buf(Pin::new(&mut self.reader), cx, &mut BufMut::limit(&mut kept, left));
        if polled.is_pending() {
            self.kept = kept;
            return Poll::Pending;
        }
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            self.conn.kill(CloseCause::Closed);
            return Poll::Ready(());
        }
        self.conn.seen_ms.store(now_ms, Ordering::Relaxed);
        if kept.len() < HEAD_ROOM + self.need {
            self.kept = kept;
        } else {
            self.take(&mut kept, now_ms);
        }
        Poll::Ready(())
    }

    /// Reads into the buffer of the thread, behind the short kept part.
    fn poll_scratch(&mut self, cx: &mut Context<'_>, kept: BytesMut, scratch: &mut [u8], now_ms: u64) -> Poll<()> {
        let short = kept.get(HEAD_ROOM..).unwrap_or_default();
        let begin = HEAD_ROOM + short.len();
        let mut buf = ReadBuf::new(&mut scratch[begin..]);
        match Pin::new(&mut self.reader).poll_read(cx, &mut buf) {
            Poll::Pending => {
                self.kept = kept;
                return Poll::Pending;
            }
            Poll::Ready(Ok(())) if !buf.filled().is_empty() => {}
            Poll::Ready(_) => {
                self.conn.kill(CloseCause::Closed);
                return Poll::Ready(());
            }
        }
        let end = begin + buf.filled().len();
        scratch[HEAD_ROOM..begin].copy_from_slice(short);
        self.conn.seen_ms.store(now_ms, Ordering::Relaxed);
        self.take(&mut scratch[..end], now_ms);
        Poll::Ready(())
    }

    /// Uses the input, from [`HEAD_ROOM`] on, and keeps the incomplete rest.
    fn take(&mut self, buf: &mut [u8], now_ms: u64) {
        let mut at = HEAD_ROOM;
        let mut batch = Batch::default();
        self.need = 1;
        while at < buf.len() && !self.conn.is_ending() {
            if !matches!(self.phase, Phase::Open) {
                self.need = 0;
                break;
            }
            match self.input.next(buf, &mut at) {
                Next::Nothing => {}
                Next::Need(need) => {
                    self.need = need;
                    break;
                }
                Next::Frame { at, payload, is_record } => {
                    batch.add(at, payload, is_record);
                    if batch.is_full() {
                        self.forward(buf, &mut batch, now_ms);
                    }
                }
                Next::Ping(payload) => {
                    self.conn.send_control(&ws::control(ws::PONG, &buf[payload]), now_ms);
                }
                Next::Attach => self.attach(),
                Next::Close(payload) => {
                    self.said = Some(buf[payload].into());
                    self.conn.close(CloseCause::Closed);
                }
                Next::Broken(cause) => {
                    if self.place.is_none() {
                        self.relay.refuse(cause);
                    }
                    self.conn.close(cause);
                }
            }
        }
        self.forward(buf, &mut batch, now_ms);
        self.keep(&buf[at.min(buf.len())..]);
    }

    /// Keeps a part of a frame, with room for all of it and for a head before it.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() || self.conn.is_ending() {
            return;
        }
        let len = rest.len().max(if rest.len() > SHORT { self.need } else { 0 });
        let mut kept = BytesMut::with_capacity(HEAD_ROOM + len);
        kept.put_bytes(0, HEAD_ROOM);
        kept.extend_from_slice(rest);
        self.kept = kept;
    }

    /// Attaches the endpoint, or asks the other nodes.
    fn attach(&mut self) {
        let message = self.input.take_attach();
        let (request, claims) = match self.relay.judge(&message) {
            Ok(judged) => judged,
            Err(cause) => {
                self.conn.close(self.relay.refuse(cause));
                return;
            }
        };
        if self.relay.nodes.is_some() {
            // Its attach message came in time; the nodes' time has a bound of its own.
            self.conn.deadline_ms.store(u64::MAX, Ordering::Relaxed);
            self.phase = Phase::Asking(Box::pin(admit::ask(self.relay.clone(), request, claims, self.conn.address)));
        } else if let Err(cause) = self.relay.burn(&claims) {
            self.conn.close(self.relay.refuse(cause));
        } else {
            self.take_place(&request);
        }
    }

    fn take_place(&mut self, request: &AttachRequest) {
        match self.relay.place(request, &self.conn) {
            Ok(Attachment { channel, side, paired, .. }) => {
                self.conn.is_attached.store(true, Ordering::Relaxed);
                self.conn.deadline_ms.store(u64::MAX, Ordering::Relaxed);
                self.place = Some(Place { channel, side, peer: paired.map(|(peer, _)| peer) });
            }
            Err(cause) => {
                self.conn.close(cause);
            }
        }
    }

    /// Continues on the node that has the channel.
    fn admitted(&mut self, admitted: Admission) {
        self.phase = Phase::Open;
        match admitted {
            Admission::Here(request) => self.take_place(&request),
            Admission::There(node) => {
                let Some((writer, waiting)) = self.conn.hand_over() else { return };
                // From now on it is closed when nothing moves: the other node sends pings, through this one.
                self.conn.is_attached.store(true, Ordering::Relaxed);
                self.conn.seen_ms.store(self.relay.now_ms(), Ordering::Relaxed);
                let reader = std::mem::replace(&mut self.reader, Reader::Over);
                let kept = std::mem::take(&mut self.kept);
                let read = kept.get(HEAD_ROOM..).unwrap_or_default();
                self.phase = Phase::Bridged(Box::new(Splice::new(reader, writer, node, read, waiting)));
            }
        }
    }

    /// Moves bytes to the other node and back.
    fn poll_bridged(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (cause, settings) = (self.conn.cause(), &self.relay.settings);
        if cause.is_some() && self.conn.deadline_ms.load(Ordering::Relaxed) == u64::MAX {
            // It may never accept its close frame.
            self.set_deadline(settings.limits.write_timeout);
        }
        let Phase::Bridged(splice) = &mut self.phase else { return Poll::Ready(()) };
        let polled = splice.poll(cx, cause.is_some(), || {
            let cause = cause.unwrap_or(CloseCause::PeerClosed);
            ws::close(cause.code(), cause.reason(settings.close_reasons))
        });
        if splice.take_moved() {
            self.conn.seen_ms.store(self.relay.now_ms(), Ordering::Relaxed);
        }
        ready!(polled);
        if let Phase::Bridged(splice) = std::mem::replace(&mut self.phase, Phase::Lingering) {
            self.reader = splice.into_reader();
        }
        self.set_deadline(self.relay.settings.limits.linger);
        self.conn.close(CloseCause::Closed);
        Poll::Ready(())
    }

    /// Hands a batch of frames to the other end, or to the channel while there is none.
    fn forward(&mut self, buf: &[u8], batch: &mut Batch, now_ms: u64) {
        let (frames, payload, has_record) = batch.drain();
        let mut slices: [IoSlice<'_>; BATCH] = [IoSlice::new(&[]); BATCH];
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(frames) {
            *slice = IoSlice::new(buf.get(frame).unwrap_or_default());
            count += 1;
        }
        let Some(place) = self.place.as_mut().filter(|_| count > 0) else { return };
        place.channel.touch(now_ms);
        if place.peer.is_none() {
            let limits = &self.relay.settings.limits;
            let offered = place.channel.offer(
                place.side,
                &slices[..count],
                payload,
                limits.pending_bytes_max,
                &self.relay.budget,
            );
            match offered {
                OfferOutcome::Kept | OfferOutcome::Over => return,
                OfferOutcome::Paired(peer) => place.peer = Some(peer),
                OfferOutcome::Overflow => {
                    self.conn.close(CloseCause::PendingOverflow);
                    return;
                }
                OfferOutcome::Full => {
                    self.conn.close(CloseCause::RelayFull);
                    return;
                }
            }
        }
        self.relay.measures.messages.increment(count as u64);
        self.relay.measures.bytes.increment(payload as u64);
        if has_record && place.channel.note_record(place.side) {
            self.relay.measures.encrypted();
        }
        if let Some(peer) = &place.peer {
            // If it is gone its task ends the channel.
            let _ = peer.send(&mut slices[..count], now_ms);
        }
    }

    /// Leaves the channel, and sends the cause.
    fn begin_close(&mut self) {
        let cause = self.conn.cause().unwrap_or(CloseCause::Closed);
        if matches!(cause, CloseCause::AttachTimeout) {
            self.relay.refuse(cause);
        }
        self.leave(cause);
        self.kept = BytesMut::new();
        let settings = &self.relay.settings;
        let (code, reason) = match (cause, &self.said) {
            (CloseCause::ReplaceRateLimited, _) => (settings.replace_close_code, cause.reason(settings.close_reasons)),
            _ => (cause.code(), cause.reason(settings.close_reasons)),
        };
        let frame = match &self.said {
            // As in RFC 6455 section 5.5.1: the received code is returned.
            Some(payload) => ws::control(ws::CLOSE, payload.get(..2).unwrap_or_default()),
            None => ws::close(code, reason),
        };
        let now_ms = self.relay.now_ms();
        self.conn.send_close(&frame, now_ms);
        self.phase = Phase::Closing;
        self.set_deadline(settings.limits.write_timeout);
    }

    fn set_deadline(&self, time: std::time::Duration) {
        self.conn.deadline_ms.store(self.relay.now_ms().saturating_add(ms(time)), Ordering::Relaxed);
    }

    /// Waits until the close frame was written.
    fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if ready!(self.conn.poll_flush(self.relay.now_ms())).is_ok() {
            ready!(self.conn.poll_shutdown(cx)).ok();
        }
        self.phase = Phase::Lingering;
        self.set_deadline(self.relay.settings.limits.linger);
        Poll::Ready(())
    }

    /// Reads until the other side closes too: a connection that is closed with unread bytes is reset, and the close frame may
    /// be lost in transit.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            for _ in 0..ROUNDS_MAX {
                let mut buf = ReadBuf::new(scratch);
                if ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buf)).is_err() || buf.filled().is_empty() {
                    return Poll::Ready(());
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Ends the channel. The other end gets the cause that concerns it.
    fn leave(&mut self, cause: CloseCause) {
        let Some(place) = self.place.take() else { return };
        let told = match cause {
            CloseCause::WriteError | CloseCause::Draining | CloseCause::PendingOverflow => cause,
            _ => CloseCause::PeerClosed,
        };
        let ended = self.relay.channels.end(&place.channel, |side| if side == place.side { cause } else { told });
        if ended {
            self.relay.measures.close(if cause == CloseCause::Closed { CloseCause::PeerClosed } else { cause });
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let cause = self.conn.cause().unwrap_or(CloseCause::Closed);
        self.leave(cause);
        if matches!(cause, CloseCause::WriteError | CloseCause::KeepaliveTimeout | CloseCause::RelayFull) {
            self.conn.reset();
        }
        self.conn.finish();
        self.relay.conns.leave(&self.conn, self.relay.settings.limits.connections_per_address_max);
    }
}

#[cfg(test)]
mod tests;
