//! View of a run without a terminal: a line for each interval, as text or JSON.
//!
//! A slow reader delays no run: lines wait in a queue. If it is full, seconds are left out, and the next line says how many.
//! If the reader closes the output, as `head` does after its lines, the run ends quietly.
//!
//! # JSON lines
//!
//! Each line is one object and flushed at once. `type` names its kind; a field without a value is `null`; names contain the
//! units. New fields may be added; existing ones never change their meaning.
//!
//! * `run`: `label`, `method`, `target`, `protocol`, `offered` (text), `duration_s`, `warm_up_s`, `threads`.
//! * `second`: `second` (from 0; the last second in the line), `at_s` and `length_s` (the line covers the `length_s` before
//!   `at_s`), `warm_up`, `due`, `started`, `succeeded`, `failed`, `rate_per_s` (successes per second), `failed_per_s`,
//!   `p50_ms`, `p95_ms`, `p99_ms`, `max_ms` (response times of this line alone, from the due time), `service_p99_ms` (from
//!   sending; of the worst second), `in_flight`, `connections`, `connections_opened`, `handshakes_full`,
//!   `handshakes_resumed`, `bytes_sent`, `bytes_received`, `statuses` (code to count), `errors` (class to count),
//!   `generator_cpu` (1.0 is one core), `generator_lag_max_ms`.
//! * `outcome`: `ended` (`done`, `stopped`, `failed`), `reason`, `elapsed_s`, `measured_s`, `due`, `started`,
//!   `succeeded`, `failed`, `unfinished`, `unsent`, `rate_per_s`, `p50_ms`, `p95_ms`, `p99_ms`, `max_ms`, `statuses`,
//!   `errors` (a list of `class`, `count`, `example`), `limit` (`target`, `offered`, `generator`), `limit_reason`,
//!   `warnings`.
//! * `point`: `offered` (`{"concurrency": n}` or `{"rate": n}`), `repeat`, `repeats`, `points_left_max`.
//! * `cell`: `name`, `index` (from 0), `of`. `cell_done`: `name`, `missing`, `knee` (as `offered`), `rate_per_s`,
//!   `rate_error_per_s`, `failed_share`, `mean_ms`, `p95_ms`, `p99_ms`, `runs`, `limit`, `limit_reason`.
//! * `skipped`: `seconds` that were left out because the reader was slow.

mod json;
mod lines;
mod window;
mod writer;

use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use self::json::Json;
use self::lines::Lines;
use self::window::{Percentiles, Window};
use self::writer::Writer;
use crate::engine::{Control, Tick};
use crate::progress::Event;
use crate::record::Second;
use crate::tui::ViewEnd;

/// Output options of the view.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Minimum time from one line to the next; whole seconds, at least 1.
    pub(crate) interval: Duration,
    /// True if lines are JSON, for programs.
    pub(crate) json: bool,
}

/// Formatter of events as lines.
trait Form: Send {
    /// Formats an event other than a second; empty for no line.
    fn event(&mut self, event: &Event) -> String;
    /// Formats a second, or several merged, with their percentiles.
    fn second(&mut self, sum: &Second, times: Option<Percentiles>) -> String;
    /// Formats a line that stands for this many seconds left out.
    fn skipped(&mut self, seconds: u64) -> String;
}

/// Writes lines until the events end. SIGINT or SIGTERM stops the run, a second signal ends everything at once; both are
/// handled for the rest of the process. A closed output is no error: the run is stopped, and its events are read until they
/// end.
///
/// # Errors
/// An I/O error if writing to `output` fails in another way.
pub(crate) async fn show(
    mut events: Receiver<Event>,
    output: impl Write + Send + 'static,
    options: Options,
) -> io::Result<ViewEnd> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut view = View::new(Writer::new(output)?, &options);
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => view.take(event),
                None => break,
            },
            _ = interrupt.recv() => view.stop(),
            _ = terminate.recv() => view.stop(),
            gone = view.writer.gone() => view.reader_is_gone(gone)?,
        }
        if view.left == ViewEnd::AtOnce {
            // The queue may never be read: its lines are dropped.
            return Ok(view.left);
        }
    }
    let left = view.left;
    view.close().await?;
    Ok(left)
}

struct View {
    writer: Writer,
    form: Box<dyn Form>,
    window: Window,
    interval: Duration,
    control: Option<Control>,
    left: ViewEnd,
    skipped: u64,
}

impl View {
    fn new(writer: Writer, options: &Options) -> Self {
        let form: Box<dyn Form> = if options.json { Box::new(Json) } else { Box::new(Lines::default()) };
        View {
            writer,
            form,
            window: Window::default(),
            interval: options.interval.max(Duration::from_secs(1)),
            control: None,
            left: ViewEnd::Over,
            skipped: 0,
        }
    }

    fn take(&mut self, event: Event) {
        match &event {
            Event::Tick(tick) => return self.tick(tick),
            Event::Outcome(_) => self.flush(),
            Event::Run { control, .. } => {
                // A requested end covers the whole job, not only the run that was active then.
                if self.left != ViewEnd::Over {
                    control.stop();
                }
                self.control = Some(control.clone());
                self.window = Window::default();
            }
            _ => {}
        }
        let line = self.form.event(&event);
        self.write(line, 0);
    }

    fn tick(&mut self, tick: &Tick) {
        // A tolerance of half a second: lengths are measured, and never exact.
        if self.window.add(tick) + Duration::from_millis(500) > self.interval {
            self.flush();
        }
    }

    /// Writes the seconds gathered since the last line.
    fn flush(&mut self) {
        let Some(sum) = self.window.sum() else { return };
        let line = self.form.second(sum, self.window.percentiles());
        self.write(line, self.window.seconds());
        self.window.restart();
    }

    fn write(&mut self, line: String, seconds: u64) {
        if line.is_empty() {
            return;
        }
        if self.skipped > 0 {
            if !self.writer.push(self.form.skipped(self.skipped)) {
                self.skipped += seconds;
                return;
            }
            self.skipped = 0;
        }
        if !self.writer.push(line) {
            self.skipped += seconds;
        }
    }

    fn stop(&mut self) {
        self.left = if self.left == ViewEnd::Asked { ViewEnd::AtOnce } else { ViewEnd::Asked };
        if let Some(control) = &self.control {
            control.stop();
        }
    }

    fn reader_is_gone(&mut self, end: io::Result<()>) -> io::Result<()> {
        self.left = ViewEnd::ReaderGone;
        if let Some(control) = &self.control {
            control.stop();
        }
        end
    }

    async fn close(mut self) -> io::Result<()> {
        self.flush();
        self.writer.close().await
    }
}

#[cfg(test)]
mod tests;
