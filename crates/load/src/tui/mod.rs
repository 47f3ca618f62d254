//! Terminal view of a run: charts, tables, and keys that pause, scale and end it.
//!
//! The view receives [`Event`]s and acts on a run only through its [`Control`](crate::engine::Control). Three parts run in
//! parallel, so that none waits for another: a task handles events, one thread reads keys, one draws. A blocked terminal
//! delays only the drawing; the next picture shows the current state.

mod draw;
mod history;
mod keys;
mod pane;
mod panel;
mod plot;
mod screen;
mod state;
mod terminal;
#[cfg(test)]
pub(crate) mod tests;
mod tuning;

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

pub use self::draw::draw;
use self::screen::Screen;
pub use self::state::State;
use crate::progress::Event;

/// Display options of a view.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if colours are used. Colour alone carries no meaning.
    pub colours: bool,
}

impl Options {
    /// Reads the environment: colours are on unless `NO_COLOR` is set and not empty, see <https://no-color.org>.
    pub fn from_environment() -> Self {
        Options { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }
}

/// Reason why a view has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewEnd {
    /// The events ended by themselves.
    Over,
    /// The run was asked to end, and did.
    Asked,
    /// The reader of the output is gone: the run was asked to end, and the output must not be written any more.
    ReaderGone,
    /// The user or a signal ended the view at once. The caller ends the run and may print its summary.
    AtOnce,
}

/// Shows a run until its events end or the user leaves. Then the terminal is restored, and the summary may be printed. `q`
/// stops the current run and each later one; the caller that starts the runs checks
/// [`Control::is_stopped`](crate::engine::Control::is_stopped) and closes the channel. After [`ViewEnd::AtOnce`] no events are
/// received any more.
///
/// Handles SIGINT and SIGTERM for the rest of the process: both cause [`ViewEnd::AtOnce`].
///
/// # Errors
/// An I/O error if standard output is no terminal, or cannot be set up.
pub async fn show(mut events: Receiver<Event>, options: Options) -> io::Result<ViewEnd> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut screen = Screen::open(State::new(options.colours))?;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => screen.apply(event),
                None => break,
            },
            _ = interrupt.recv() => screen.quit_now(),
            _ = terminate.recv() => screen.quit_now(),
            () = screen.left_at_once() => break,
        }
    }
    Ok(screen.close().await)
}
