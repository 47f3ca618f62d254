//! Who watches a run: the full screen where standard output is a terminal, else plain lines or JSON lines.

use std::io::IsTerminal;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::drive::NEWS_MAX;
use super::{Driver, Failure, print, say};
use crate::flags::Output;
use crate::progress::Event;
use crate::tui;

/// Those who watch, until they have shown all.
pub(super) struct Views {
    tasks: Vec<JoinHandle<()>>,
}

/// Starts those who watch, and what tells them.
///
/// # Errors
/// [`Failure`], when one of them cannot start.
pub(super) fn start(output: &Output) -> Result<(Driver, Views), Failure> {
    let (send, news) = mpsc::channel(NEWS_MAX);
    let stop = Arc::new(Notify::new());
    let driver = Driver::new(vec![send], Arc::clone(&stop))
        .map_err(|err| Failure::failed(format!("cannot listen for signals: {err}")))?;
    // What is written to standard output by others would be written into the picture.
    let is_shared = output.out.iter().any(|(file, _)| file.as_os_str() == "-");
    let is_full_screen = std::io::stdout().is_terminal() && !output.no_tui && !output.json_lines && !is_shared;
    let task = if is_full_screen {
        tokio::spawn(screen(news, stop))
    } else {
        tokio::spawn(plain(news, output.json_lines || is_shared))
    };
    Ok((driver, Views { tasks: vec![task] }))
}

impl Views {
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

/// A line a second.
async fn plain(mut news: mpsc::Receiver<Event>, is_quiet: bool) {
    while let Some(event) = news.recv().await {
        let line = match event {
            _ if is_quiet => continue,
            Event::Tick(tick) => {
                let second = &tick.second;
                let seconds = second.length.as_secs_f64().max(1e-9);
                format!(
                    "{:>4} s  {:>9.0}/s  p50 {:>8.3} ms  p99 {:>8.3} ms  failed {}  in flight {}\n",
                    second.at.as_secs_f64().round(),
                    second.counts.succeeded as f64 / seconds,
                    second.response.p50_ns as f64 / 1e6,
                    second.response.p99_ns as f64 / 1e6,
                    second.counts.failed,
                    second.in_flight,
                )
            }
            Event::Cell { name, index, of } => format!("cell {} of {of}: {name}\n", index + 1),
            Event::Point { offered, repeat, repeats, left_max } => {
                format!("point {offered:?}, run {repeat} of {repeats}, at most {left_max} points left\n")
            }
            Event::Note(note) => format!("{note}\n"),
            _ => continue,
        };
        print(&line);
    }
}
