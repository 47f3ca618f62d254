//! The threads of a view, and what they share.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::draw::draw;
use super::state::{Quit, State};
use super::{Left, Shown, terminal};
use crate::progress::Event;

/// From one picture to the next at least.
const REDRAW: Duration = Duration::from_millis(100);
/// How long the thread of the keys waits before it looks whether all is over.
const KEY_WAIT: Duration = Duration::from_millis(50);
/// How long the end waits for a terminal that takes nothing.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// A view that is open. Dropped, it gives the terminal back.
#[derive(Debug)]
pub(super) struct Screen {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Something changed.
    changed: Condvar,
    at_once: Notify,
    begun: Instant,
}

#[derive(Debug)]
struct Inner {
    state: State,
    is_dirty: bool,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut inner = self.lock();
        if change(&mut inner.state) {
            inner.is_dirty = true;
            self.changed.notify_all();
        }
        if inner.state.quit == Quit::Now {
            self.at_once.notify_one();
        }
    }
}

impl Screen {
    /// Takes the terminal and begins to draw.
    pub(super) fn open(state: State) -> io::Result<Self> {
        let output = terminal::take()?;
        let inner = Mutex::new(Inner { state, is_dirty: true, is_over: false });
        let shared = Shared { inner, changed: Condvar::new(), at_once: Notify::new(), begun: Instant::now() };
        let screen = Screen { shared: Arc::new(shared) };
        let (drawing, keys) = (screen.shared.clone(), screen.shared.clone());
        std::thread::Builder::new().name("load-view".to_owned()).spawn(move || draw_all(&drawing, output))?;
        std::thread::Builder::new().name("load-keys".to_owned()).spawn(move || read_keys(&keys))?;
        Ok(screen)
    }

    pub(super) fn apply(&self, event: Event) {
        let now = self.shared.begun.elapsed();
        self.shared.change(|state| {
            state.apply(event, now);
            true
        });
    }

    pub(super) fn quit_now(&self) {
        self.shared.change(|state| {
            state.quit_now();
            true
        });
    }

    /// Resolves when the user wants everything to end at once.
    pub(super) async fn left_at_once(&mut self) {
        self.shared.at_once.notified().await;
    }

    /// Gives the terminal back.
    pub(super) async fn close(self) -> Shown {
        let (done, is_done) = oneshot::channel();
        // In a thread of its own: the terminal may take nothing, and then the process ends without it.
        let closing = std::thread::Builder::new().name("load-close".to_owned()).spawn(move || {
            terminal::give_back();
            let _ = done.send(());
        });
        if closing.is_ok() {
            let _ = tokio::time::timeout(CLOSE_WAIT, is_done).await;
        }
        let inner = self.shared.lock();
        let left = match inner.state.quit {
            Quit::No => Left::Over,
            Quit::Asked => Left::Asked,
            Quit::Now => Left::AtOnce,
        };
        Shown { left, notes: inner.state.notes.iter().cloned().collect() }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        terminal::give_back();
    }
}

fn draw_all(shared: &Shared, mut output: terminal::Output) {
    loop {
        let mut inner = shared.lock();
        while !inner.is_dirty && !inner.is_over {
            inner = shared.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        if inner.is_over {
            break;
        }
        inner.is_dirty = false;
        drop(inner);
        let begun = Instant::now();
        // The state is locked while the picture is made, not while the terminal takes it.
        let now = shared.begun.elapsed();
        let drawn = terminal::draw(&mut output, |frame| draw(frame, &shared.lock().state, now));
        if drawn.is_err() {
            // The terminal is gone. The run is not: its events go on being taken in.
            terminal::give_back();
            break;
        }
        if let Some(rest) = REDRAW.checked_sub(begun.elapsed()) {
            std::thread::sleep(rest);
        }
    }
}

fn read_keys(shared: &Shared) {
    use crossterm::event::{Event, poll, read};
    while !shared.lock().is_over {
        match poll(KEY_WAIT) {
            Ok(false) => {}
            Ok(true) => match read() {
                Ok(Event::Key(key)) => shared.change(|state| state.key(key)),
                Ok(Event::Resize(..)) => shared.change(|_| true),
                Ok(_) => {}
                Err(_) => return,
            },
            Err(_) => return,
        }
    }
}
