//! The view of a run on a terminal: graphs, tables, and keys that pause, scale and end it.
//!
//! It is told what happens by [`Event`]s and acts on a run only by its [`Control`](crate::engine::Control). Three parts
//! work beside each other, so that none waits for another: a task takes in events, one thread reads keys, one draws. A
//! terminal that takes nothing holds only the drawing back; what it misses is in the next picture.

mod draw;
#[cfg(test)]
pub(crate) mod generated;
mod history;
mod keys;
mod pane;
mod panel;
mod plot;
mod screen;
#[cfg(test)]
mod snapshots;
mod state;
mod terminal;
mod tuning;

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

pub use self::draw::draw;
use self::screen::Screen;
pub use self::state::State;
use crate::progress::Event;

/// How a view is shown.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether colours are used. Nothing is told by colour alone.
    pub colours: bool,
}

impl Options {
    /// Colours, unless `NO_COLOR` is set to something, as <https://no-color.org> has it.
    pub fn from_environment() -> Self {
        Options { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }
}

/// Why a view is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// There was no more to show.
    Over,
    /// The run was told to end, and did.
    Asked,
    /// Nobody reads what is written: the run was told to end, and nothing more is to be written there.
    ReaderGone,
    /// The user or the system wants the view gone at once. Whoever shows it ends the run, and may print its summary.
    AtOnce,
}

/// What was shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Why it is over.
    pub left: Left,
    /// The last notes, which left the screen with the view; to be printed beside the summary.
    pub notes: Vec<String>,
}

/// Shows a run until its events end or the user has enough. Then the terminal is as it was, and the summary may be
/// printed. `q` stops the current run, and each that begins later; whoever starts them looks at
/// [`Control::is_stopped`](crate::engine::Control::is_stopped) and ends the channel. After [`Left::AtOnce`] nobody
/// receives any more.
///
/// SIGINT and SIGTERM are taken over for the rest of the process: both are [`Left::AtOnce`].
///
/// # Errors
/// When standard output is no terminal, or cannot be set up.
pub async fn show(mut events: Receiver<Event>, options: Options) -> io::Result<Shown> {
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
