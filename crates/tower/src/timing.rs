//! `Server-Timing`: how long each step of an answer took. `spec/session.md#http`.

use std::time::{Duration, Instant};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Measures the steps of one answer.
#[derive(Debug)]
pub(crate) struct Timing {
    start: Instant,
    last: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl Timing {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Timing { start: now, last: now, steps: Vec::with_capacity(8) }
    }

    /// Names what happened since the last lap; a step in two parts is one entry.
    pub(crate) fn lap(&mut self, name: &'static str) {
        let now = Instant::now();
        let took = now.duration_since(self.last);
        self.last = now;
        match self.steps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += took,
            None => self.steps.push((name, took)),
        }
    }

    /// What happened since the last lap belongs to no step.
    pub(crate) fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// Which steps there were would tell a forger how far it came.
    pub(crate) fn forget_steps(&mut self) {
        self.steps.clear();
    }

    /// Puts the header on an answer.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let total = ("total", self.start.elapsed());
        let entries = self.steps.iter().chain([&total]);
        let texts: Vec<String> =
            entries.map(|(name, took)| format!("{name};dur={:.3}", took.as_secs_f64() * 1000.0)).collect();
        if let Ok(value) = HeaderValue::try_from(texts.join(", ")) {
            headers.insert(SERVER_TIMING, value);
        }
    }
}
