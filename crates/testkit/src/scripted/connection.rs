//! One connection: reads requests, handles each by the script, and records it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;

use super::record::Record;
use super::request::{Head, Input};
use super::script::{Act, Fate, Progress, Script};
use super::sleeper::Sleeper;

/// The state that all connections of a server share.
pub(super) struct ServerState {
    script: Script,
    acceptor: Option<TlsAcceptor>,
    sleeper: Rc<Sleeper>,
    progress: RefCell<Progress>,
    record: Arc<Mutex<Record>>,
}

/// The way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

impl ServerState {
    pub(super) fn new(
        script: Script,
        acceptor: Option<TlsAcceptor>,
        sleeper: Rc<Sleeper>,
        record: Arc<Mutex<Record>>,
    ) -> Self {
        ServerState { script, acceptor, sleeper, progress: RefCell::default(), record }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(&self, stream: TcpStream) {
        {
            let mut record = self.record();
            record.accepted += 1;
            record.open += 1;
        }
        let _ = stream.set_nodelay(true);
        if self.script.reset_at_accept {
            let _ = stream.set_zero_linger();
            drop(stream);
        } else if let Some(acceptor) = &self.acceptor {
            self.serve_tls(acceptor, stream).await;
        } else {
            let mut stream = stream;
            if self.requests(&mut stream).await == End::Reset {
                let _ = stream.set_zero_linger();
            }
        }
        self.record().open -= 1;
    }

    async fn serve_tls(&self, acceptor: &TlsAcceptor, stream: TcpStream) {
        let Ok(mut stream) = acceptor.accept(stream).await else {
            self.record().handshakes_failed += 1;
            return;
        };
        {
            let mut record = self.record();
            match stream.get_ref().1.handshake_kind() {
                Some(HandshakeKind::Resumed) => record.handshakes_resumed += 1,
                _ => record.handshakes_full += 1,
            }
        }
        match self.requests(&mut stream).await {
            End::Reset => drop(stream.get_ref().0.set_zero_linger()),
            End::Closed => drop(stream.shutdown().await),
        }
    }

    async fn requests<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S) -> End {
        let mut input = Input::default();
        loop {
            let head = loop {
                if let Some(head) = input.head() {
                    break head;
                }
                if input.is_too_much() || !matches!(input.more(stream).await, Ok(1..)) {
                    return End::Closed;
                }
            };
            let arrived = Instant::now();
            let act = self.progress.borrow_mut().next(&self.script, arrived);
            if head.counts {
                let mut record = self.record();
                record.requests += 1;
                record.late += u64::from(act.is_late);
                record.in_flight += 1;
                record.in_flight_max = record.in_flight_max.max(record.in_flight);
            }
            let ended = self.answer(stream, &mut input, &head, act, arrived).await;
            if let Some(end) = ended {
                return end;
            }
        }
    }

    /// Answers one request; returns the way in which the connection ends, if it does.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        input: &mut Input,
        head: &Head,
        act: Act,
        arrived: Instant,
    ) -> Option<End> {
        let there = self.wait(stream, input, head, act.at).await;
        let Some(body) = there else {
            self.ended(head, |record| record.abandoned += 1);
            return Some(End::Closed);
        };
        let lag = act.at.map(|at| Instant::now().saturating_duration_since(at)).unwrap_or_default();
        if head.counts {
            self.record().lag.saturating_record(lag.as_nanos() as u64);
        }
        if act.fate == Fate::Reset {
            self.ended(head, |record| record.resets += 1);
            return Some(End::Reset);
        }
        let written = stream.write_all(&self.answer_bytes(act.fate, &body, head.closes)).await;
        let written = written.and(stream.flush().await);
        let left = Instant::now();
        self.ended(head, |record| match (act.fate, written.is_ok()) {
            (_, false) => record.abandoned += 1,
            (Fate::Status500, _) => record.status_500 += 1,
            (Fate::Truncated, _) => record.truncated += 1,
            (Fate::Answered | Fate::Reset, _) => record.answer(arrived, left),
        });
        (written.is_err() || head.closes || act.fate == Fate::Truncated).then_some(End::Closed)
    }

    /// Waits for the body and for the time of the answer; `None` if the client closes before.
    async fn wait<S: AsyncRead + Unpin>(
        &self,
        stream: &mut S,
        input: &mut Input,
        head: &Head,
        at: Option<Instant>,
    ) -> Option<Vec<u8>> {
        let body = loop {
            if let Some(body) = input.body(head.body_len) {
                break body;
            }
            if !matches!(input.more(stream).await, Ok(1..)) {
                return None;
            }
        };
        let moment = async {
            match at {
                Some(at) => self.sleeper.until(at).await,
                None => std::future::pending().await,
            }
        };
        let hangs_up = async { while matches!(input.more(stream).await, Ok(1..)) && !input.is_too_much() {} };
        tokio::select! {
            biased;
            () = moment => Some(body),
            () = hangs_up => None,
        }
    }

    fn ended(&self, head: &Head, what: impl FnOnce(&mut Record)) {
        if head.counts {
            let mut record = self.record();
            record.in_flight -= 1;
            what(&mut record);
        }
    }

    fn answer_bytes(&self, fate: Fate, request_body: &[u8], closes: bool) -> Vec<u8> {
        let status = if fate == Fate::Status500 { "500 Internal Server Error" } else { "200 OK" };
        let plain;
        let body = if self.script.echo {
            request_body
        } else {
            plain = vec![b'x'; self.script.body_len];
            &plain
        };
        // A truncated answer announces more than it sends.
        let len = body.len() + if fate == Fate::Truncated { 100 } else { 0 };
        let close = if closes { "Connection: close\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {len}\r\n{close}\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}
