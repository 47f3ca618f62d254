//! Replays by the thousand: captured requests, many on a connection before the first answer is read.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::ledger::{Ledger, RequestRecord};
use crate::wire_client::random;

/// Requests on a connection before their answers are read. The answers to all of them fit in a socket's buffer, so that neither
/// end waits for the other to read.
const AT_ONCE: usize = 32;
/// Number of connections to each gateway.
const CONNECTIONS: usize = 2;
/// Failures in a row after which a connection is abandoned.
const FAILURES_MAX: u32 = 50;

/// The result of a flood.
#[derive(Clone, Debug)]
pub struct Flood {
    /// Number of replays that were answered.
    pub answered: u64,
    /// Number of those with 400, 401 or 409.
    pub refused: u64,
    /// The time that the flood took.
    pub time: Duration,
}

impl Flood {
    /// Returns the number of replays a second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.time.as_secs_f64().max(0.001)
    }
}

/// Sends `count` replays to `targets`, evenly, each captured request in turn, beginning anywhere; the ledger records those that
/// are accepted twice.
pub fn flood(ledger: &Arc<Ledger>, targets: &[SocketAddr], count: u64, answer_max: Duration) -> Flood {
    let captured = Arc::new(ledger.captured());
    let (refused, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    if captured.is_empty() {
        return Flood { answered: 0, refused: 0, time: started.elapsed() };
    }
    std::thread::scope(|scope| {
        for target in targets {
            // The connections to one gateway share a position in the captured requests, different for each gateway: gateways
            // meet over the same requests now and then, and each sees all of them.
            let turn = Arc::new(AtomicU64::new(u64::from_le_bytes(random()) % captured.len() as u64));
            let quota = Arc::new(AtomicU64::new(count.div_ceil(targets.len() as u64)));
            for _ in 0..CONNECTIONS {
                let (captured, turn, quota) = (captured.clone(), turn.clone(), quota.clone());
                let (refused, answered) = (&refused, &answered);
                scope.spawn(move || {
                    let mut lane = Lane { target: *target, stream: None, answer_max, seen: Vec::new(), start: 0 };
                    let mut failures = 0;
                    while failures < FAILURES_MAX {
                        let want = take(&quota, AT_ONCE as u64);
                        if want == 0 {
                            return;
                        }
                        let first = turn.fetch_add(want, Ordering::Relaxed);
                        let batch: Vec<&RequestRecord> =
                            (first..first + want).map(|at| &*captured[(at % captured.len() as u64) as usize]).collect();
                        let result = lane.exchange(&batch, ledger, refused, answered);
                        match result {
                            Ok(()) => failures = 0,
                            Err(_) => {
                                lane.stream = None;
                                failures += 1;
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        }
                    }
                    ledger.wrong(format!("flood: {target} answers no more"));
                });
            }
        }
    });
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Flood { answered: read(&answered), refused: read(&refused), time: started.elapsed() }
}

/// Takes at most `want` of the rest.
fn take(left: &AtomicU64, want: u64) -> u64 {
    let had = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(want)));
    had.unwrap_or_default().min(want)
}

/// A connection and its input.
struct Lane {
    target: SocketAddr,
    stream: Option<TcpStream>,
    answer_max: Duration,
    seen: Vec<u8>,
    start: usize,
}

impl Lane {
    fn exchange(
        &mut self,
        batch: &[&RequestRecord],
        ledger: &Ledger,
        refused: &AtomicU64,
        answered: &AtomicU64,
    ) -> anyhow::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.target, self.answer_max)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.answer_max))?;
            (self.seen, self.start, self.stream) = (Vec::new(), 0, Some(stream));
        }
        let bytes: Vec<u8> = batch.iter().flat_map(|captured| captured.bytes.iter().copied()).collect();
        self.stream.as_mut().context("no connection")?.write_all(&bytes)?;
        for captured in batch {
            let (status, says_when) = self.answer()?;
            answered.fetch_add(1, Ordering::Relaxed);
            if status >= 500 {
                ledger.unavailable("flood", status, says_when);
            } else if status >= 400 {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            ledger.replayed(captured, status, &self.target.to_string());
        }
        Ok(())
    }

    /// Reads one answer: its status, and whether it has `Retry-After`.
    fn answer(&mut self) -> anyhow::Result<(u16, bool)> {
        let head_end = loop {
            let unread = &self.seen[self.start..];
            match unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break self.start + at + 4,
                None => self.fill()?,
            }
        };
        let head = std::str::from_utf8(&self.seen[self.start..head_end])?;
        let status: u16 = head.get(9..12).context("no status")?.parse()?;
        let mut len = 0;
        let mut says_when = false;
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                len = value.trim().parse()?;
            }
            says_when |= name.eq_ignore_ascii_case("retry-after");
        }
        let body: Range<usize> = head_end..head_end + len;
        while self.seen.len() < body.end {
            self.fill()?;
        }
        self.start = body.end;
        if self.start == self.seen.len() {
            (self.start, _) = (0, self.seen.clear());
        }
        Ok((status, says_when))
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        let mut chunk = [0; 64 * 1024];
        let len = self.stream.as_mut().context("no connection")?.read(&mut chunk)?;
        ensure!(len > 0, "closed");
        self.seen.extend_from_slice(&chunk[..len]);
        Ok(())
    }
}
