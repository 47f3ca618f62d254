//! Records of single exchanges: bytes on the wire, headers, and durations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sealway_proto::session::Step;
use tokio::time::sleep;

/// Durations of one exchange, on both sides.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// Time from the call to the end of the opened answer; until now, if the body is not read yet.
    pub round_trip: Duration,
    /// The round trip without the client's cryptography.
    pub http: Duration,
    /// Time of the client's cryptography, by step.
    pub crypto: Vec<(&'static str, Duration)>,
    /// The service's own measurements: names of `Server-Timing` and milliseconds.
    pub server: Vec<(String, f64)>,
}

/// Record of one exchange, an extension of its response. It holds no key and no plaintext.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Outer headers of the request.
    pub request_headers: Vec<(String, String)>,
    /// Additional authenticated data of the request; on wire 3 the fields that its context hashes, separated by line
    /// feeds.
    pub request_aad: String,
    /// Outer headers of the answer.
    pub response_headers: Vec<(String, String)>,
    server: Vec<(String, f64)>,
    meter: Arc<Meter>,
}

impl Trace {
    pub(crate) fn new(
        request_headers: Vec<(String, String)>,
        request_aad: String,
        response_headers: &HeaderMap,
        meter: Arc<Meter>,
    ) -> Self {
        let server = server_timing(response_headers);
        Trace { request_headers, request_aad, response_headers: texts(response_headers.iter()), server, meter }
    }

    /// Sealed bytes of the request's body that the connection took so far.
    pub fn sent(&self) -> u64 {
        self.meter.sent.load(Ordering::Relaxed)
    }

    /// Sealed bytes of the answer's body received so far.
    pub fn received(&self) -> u64 {
        self.meter.received.load(Ordering::Relaxed)
    }

    /// Durations of the exchange so far; final once the body's end was read.
    pub fn timings(&self) -> Timings {
        self.meter.timings(self.server.clone())
    }
}

/// Counters of a running exchange, shared by its two bodies and the wait for its answer.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    end: OnceLock<Duration>,
    /// Time of the last read from the request's body, in milliseconds since the start.
    last_ms: AtomicU64,
    /// True if the source of the request's body has nothing ready.
    is_source_idle: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    steps: Mutex<Vec<(&'static str, Duration)>>,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Meter {
            start: Instant::now(),
            end: OnceLock::new(),
            last_ms: 0.into(),
            is_source_idle: false.into(),
            sent: 0.into(),
            received: 0.into(),
            steps: Mutex::default(),
        })
    }

    /// Adds the time since `at` to a step, and returns the current time.
    pub(crate) fn lap(&self, name: &'static str, at: Instant) -> Instant {
        let now = Instant::now();
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        match steps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, took)) => *took += now - at,
            None => steps.push((name, now - at)),
        }
        now
    }

    /// Measures the steps of `sealway_proto`, the first one from now.
    pub(crate) fn laps(&self) -> impl FnMut(Step) {
        let mut at = Instant::now();
        move |step| at = self.lap(step.name(), at)
    }

    pub(crate) fn sent(&self, len: usize) {
        self.sent.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, len: usize) {
        self.received.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        let _ = self.end.set(self.start.elapsed());
    }

    pub(crate) fn timings(&self, server: Vec<(String, f64)>) -> Timings {
        let round_trip = self.end.get().copied().unwrap_or_else(|| self.start.elapsed());
        let crypto = self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let http = round_trip.saturating_sub(crypto.iter().map(|(_, took)| *took).sum());
        Timings { round_trip, http, crypto, server }
    }

    /// Records that the connection asked for more of the request's body.
    pub(crate) fn taken(&self, is_source_idle: bool) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
        self.is_source_idle.store(is_source_idle, Ordering::Relaxed);
    }

    /// Time from the start to the last read from the request's body.
    pub(crate) fn last_taken(&self) -> Duration {
        Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }

    /// Waits until the connection took nothing of the request's body for `after`, though its source had data.
    pub(crate) async fn stalled(&self, after: Duration) {
        loop {
            let left = (self.last_taken() + after).saturating_sub(self.start.elapsed());
            if !left.is_zero() {
                sleep(left).await;
            } else if self.is_source_idle.load(Ordering::Relaxed) {
                sleep(after).await;
            } else {
                return;
            }
        }
    }
}

pub(crate) fn texts<'a>(headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> Vec<(String, String)> {
    headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}

/// Parses `name;dur=1.234, …` of every `Server-Timing` header.
pub(crate) fn server_timing(headers: &HeaderMap) -> Vec<(String, f64)> {
    let values = headers.get_all("server-timing").iter().filter_map(|value| value.to_str().ok());
    let parse = |entry: &str| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next()?.to_owned();
        let ms = parts.find_map(|part| part.strip_prefix("dur="))?.parse().ok()?;
        Some((name, ms))
    };
    values.flat_map(|value| value.split(',')).filter_map(parse).collect()
}
