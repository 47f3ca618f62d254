//! Who watches a run: the full screen where standard output is a terminal, else plain lines or JSON lines.

use std::io::IsTerminal;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::drive::NEWS_MAX;
use super::{Driver, Failure, say};
use crate::export::Exporter;
use crate::flags::Output;
use crate::progress::Event;
use crate::{plain, tui};

/// News that wait for exports.
const EXPORT_NEWS_MAX: usize = 4;

/// Those who watch, until they have shown all.
pub(super) struct Views {
    tasks: Vec<JoinHandle<()>>,
    is_full_screen: bool,
}

/// Starts those who watch, and what tells them.
///
/// # Errors
/// [`Failure`], when one of them cannot start.
pub(super) fn start(output: &Output) -> Result<(Driver, Views), Failure> {
    open(output, false, false)
}

/// As [`start`], for one who has lines of its own: where there is no full screen and no JSON lines, nothing is shown. With
/// `is_silent` there is no full screen.
///
/// # Errors
/// As [`start`].
pub(super) fn start_apart(output: &Output, is_silent: bool) -> Result<(Driver, Views), Failure> {
    open(output, is_silent, true)
}

fn open(output: &Output, is_silent: bool, is_apart: bool) -> Result<(Driver, Views), Failure> {
    let (send, news) = mpsc::channel(NEWS_MAX);
    let mut watchers = vec![send];
    let mut tasks = Vec::new();
    if output.exports.is_any() {
        let exporter = Exporter::start(&output.exports).map_err(Failure::usage)?;
        // Few news wait for it: it wants the newest, and each holds the histograms of a whole run.
        let (send, news) = mpsc::channel(EXPORT_NEWS_MAX);
        watchers.push(send);
        tasks.push(tokio::spawn(export(exporter, news)));
    }
    let stop = Arc::new(Notify::new());
    let driver = Driver::new(watchers, Arc::clone(&stop))
        .map_err(|err| Failure::failed(format!("cannot listen for signals: {err}")))?;
    // What is written to standard output by others would be written into the picture.
    let is_shared = output.out.iter().any(|(file, _)| file.as_os_str() == "-");
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
    /// Whether the terminal is taken, so that nothing else may be written to it.
    pub(super) fn is_full_screen(&self) -> bool {
        self.is_full_screen
    }

    /// Waits until all is shown; to be called when no news come any more.
    pub(super) async fn end(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// The full screen. Who leaves it at once ends the run.
async fn screen(news: mpsc::Receiver<Event>, stop: Arc<Notify>) {
    match tui::show(news, tui::Options::from_environment()).await {
        Ok(shown) => {
            if shown.left == tui::Left::AtOnce {
                stop.notify_one();
            }
            shown.notes.iter().for_each(say);
        }
        Err(err) => say(format_args!("sealway load: the screen cannot be used: {err}; see --no-tui")),
    }
}

/// A line a second, for people or for programs.
async fn lines(news: mpsc::Receiver<Event>, options: plain::Options, stop: Arc<Notify>) {
    match plain::show(news, std::io::stdout(), options).await {
        Ok(shown) if matches!(shown.left, tui::Left::AtOnce | tui::Left::ReaderGone) => stop.notify_one(),
        Ok(_) => {}
        Err(err) => say(format_args!("sealway load: standard output cannot be written: {err}")),
    }
}

/// To Prometheus and collectors; what could not be pushed is said at the end.
async fn export(exporter: Exporter, news: mpsc::Receiver<Event>) {
    for problem in exporter.follow(news).await {
        say(format_args!("sealway load: {problem}"));
    }
}

/// Nothing: standard output is a report's.
async fn silent(mut news: mpsc::Receiver<Event>) {
    while news.recv().await.is_some() {}
}
