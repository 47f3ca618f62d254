//! Live events for watchers: the state each second, and lines of the log (text/event-stream).

use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use sealway_runtime::http::{Body, BodyError};
use sealway_runtime::log_tail::log_tail;
use sealway_sessions::answer::v1_error;
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, Interval, MissedTickBehavior, interval, sleep};

use super::{Dashboard, parameter};

/// Maximum number of log lines in one event.
const LINES_MAX: usize = 500;
/// Log lines that a new watcher gets first.
const LINES_FIRST: u64 = 200;
/// Time for which log lines are gathered into one event.
const GATHERED: Duration = Duration::from_millis(200);

/// A client of the event stream. Nothing waits for it: it misses what it does not read in time.
struct Watcher {
    dashboard: Dashboard,
    tick: Interval,
    /// Number of the next line to send.
    line: u64,
    is_new: bool,
    _place: OwnedSemaphorePermit,
}

impl Dashboard {
    /// Answers `GET /admin/events`: `history` once, then `status` each second and `log` as there are lines, from the
    /// number `from` on.
    pub(super) fn events(&self, query: &str) -> Response<Body> {
        let Ok(place) = self.0.watchers.clone().try_acquire_owned() else {
            let mut response = v1_error(StatusCode::SERVICE_UNAVAILABLE, "As many watch as may");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
            return response;
        };
        let from = parameter(query, "from").and_then(|from| from.parse().ok());
        let line = from.unwrap_or_else(|| log_tail().since(u64::MAX).1.saturating_sub(LINES_FIRST));
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watcher = Watcher { dashboard: self.clone(), tick, line, is_new: true, _place: place };
        let frames = unfold(watcher, |mut watcher| async move {
            let bytes = watcher.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(bytes)), watcher))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }
}

impl Watcher {
    /// Returns the next events; `None` once the process drains.
    async fn next(&mut self) -> Option<Bytes> {
        let mut text = String::new();
        if self.is_new {
            self.is_new = false;
            event(&mut text, "history", &self.dashboard.0.samples.all());
        }
        while text.is_empty() {
            let shutdown = self.dashboard.0.server.shutdown();
            tokio::select! {
                _ = self.tick.tick() => event(&mut text, "status", &self.dashboard.snapshot()),
                () = log_tail().more() => sleep(GATHERED).await,
                () = shutdown.begun() => return None,
            }
            self.log(&mut text);
        }
        Some(text.into())
    }

    fn log(&mut self, text: &mut String) {
        let (mut lines, next) = log_tail().since(self.line);
        // A number from an earlier process is of no use.
        let skipped = lines.first().map_or(0, |(first, _)| first.saturating_sub(self.line));
        lines.truncate(LINES_MAX);
        self.line = lines.last().map_or(next, |(last, _)| last + 1);
        if !lines.is_empty() {
            let lines: Vec<&str> = lines.iter().map(|(_, line)| &**line).collect();
            event(text, "log", &json!({"next": self.line, "skipped": skipped, "lines": lines}));
        }
    }
}

/// Appends one event. JSON contains no line break.
fn event(text: &mut String, name: &str, data: &impl Serialize) {
    if let Ok(data) = serde_json::to_string(data) {
        text.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    }
}
