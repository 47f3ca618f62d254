//! Displays of a run: the full screen if standard output is a terminal, otherwise plain lines or JSON lines.

use std::io::IsTerminal;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::drive::NEWS_MAX;
use super::{Driver, JobError, say};
use crate::export::Exporter;
use crate::flags::Output;
use crate::progress::Event;
use crate::{plain, tui};

/// Upper bound of the events that wait for exports.
const EXPORT_NEWS_MAX: usize = 4;

/// Tasks of the displays and exports of a job.
pub(super) struct Views {
    tasks: Vec<JoinHandle<()>>,
    is_full_screen: bool,
}

/// Starts the displays and exports, and a driver that reports to them.
///
/// # Errors
/// [`JobError`], if one of them cannot start.
pub(super) fn start(output: &Output) -> Result<(Driver, Views), JobError> {
    open(output, false, false)
}

/// Starts the displays like [`start`], for a job that prints lines of its own: plain lines are left out. With `is_silent` nothing
/// is displayed.
///
/// # Errors
/// As [`start`].
pub(super) fn start_apart(output: &Output, is_silent: bool) -> Result<(Driver, Views), JobError> {
    open(output, is_silent, true)
}

fn open(output: &Output, is_silent: bool, is_apart: bool) -> Result<(Driver, Views), JobError> {
    let (send, news) = mpsc::channel(NEWS_MAX);
    let mut watchers = vec![send];
    let mut tasks = Vec::new();
    if output.exports.is_any() {
        let exporter = Exporter::start(&output.exports).map_err(JobError::usage)?;
        // Exports need the newest figures alone, and each event holds the histograms of a whole run: few events may wait.
        let (send, news) = mpsc::channel(EXPORT_NEWS_MAX);
        watchers.push(send);
        tasks.push(tokio::spawn(export(exporter, news)));
    }
    let stop = Arc::new(Notify::new());
    let driver = Driver::new(watchers, Arc::clone(&stop))
        .map_err(|err| JobError::failed(format!("cannot listen for signals: {err}")))?;
    // A report on standard output would be written into the full screen.
    let is_shared = output.has_stdout_report();
    let is_full_screen =
        std::io::stdout().is_terminal() && !output.no_tui && !output.json_lines && !is_shared && !is_silent;
    let task = if is_full_screen {
        tokio::spawn(screen(news, stop))
    } else if is_shared || is_silent || (is_apart && !output.json_lines) {
        tokio::spawn(silent(news))
    } else {
        let options = plain::Options { interval: output.interval, json: output.json_lines };
        tokio::spawn(lines(news, options, stop))
    };
    tasks.push(task);
    Ok((driver, Views { tasks, is_full_screen }))
}

impl Views {
    /// Returns whether a full screen owns the terminal, so that nothing else may be written to it.
    pub(super) fn is_full_screen(&self) -> bool {
        self.is_full_screen
    }

    /// Ends the events of this driver, and waits until all of them are shown.
    pub(super) async fn end(self, driver: Driver) {
        drop(driver);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Shows the full screen. A user who quits it at once stops the run.
async fn screen(news: mpsc::Receiver<Event>, stop: Arc<Notify>) {
    match tui::show(news, tui::Options::from_environment()).await {
        Ok(tui::ViewEnd::AtOnce) => stop.notify_one(),
        Ok(_) => {}
        Err(err) => say(format_args!("sealway load: cannot use the terminal: {err}; try --no-tui")),
    }
}

/// Prints plain lines or JSON lines; stops the run if their reader has gone.
async fn lines(news: mpsc::Receiver<Event>, options: plain::Options, stop: Arc<Notify>) {
    match plain::show(news, std::io::stdout(), options).await {
        Ok(tui::ViewEnd::AtOnce | tui::ViewEnd::ReaderGone) => stop.notify_one(),
        Ok(_) => {}
        Err(err) => say(format_args!("sealway load: cannot write standard output: {err}")),
    }
}

/// Sends figures to Prometheus and collectors; prints the problems at the end.
async fn export(exporter: Exporter, news: mpsc::Receiver<Event>) {
    for problem in exporter.follow(news).await {
        say(format_args!("sealway load: {problem}"));
    }
}

/// Discards all events, for a run without a display.
async fn silent(mut news: mpsc::Receiver<Event>) {
    while news.recv().await.is_some() {}
}
