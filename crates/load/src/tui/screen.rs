//! Threads of a view and their shared state.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::draw::draw;
use super::state::{Quit, State};
use super::{ViewEnd, terminal};
use crate::progress::Event;

/// Minimum time between two pictures.
const REDRAW: Duration = Duration::from_millis(100);
/// Interval at which the key thread checks for the end of the view.
const KEY_WAIT: Duration = Duration::from_millis(50);
/// Maximum time that closing waits for a blocked terminal.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Open view. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    shared: Arc<ScreenState>,
}

#[derive(Debug)]
struct ScreenState {
    inner: Mutex<Inner>,
    /// Notified when the state changes.
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

impl ScreenState {
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut inner = self.inner.lock();
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
    /// Takes the terminal and starts to draw.
    pub(super) fn open(state: State) -> io::Result<Self> {
        let output = terminal::take()?;
        let inner = Mutex::new(Inner { state, is_dirty: true, is_over: false });
        let shared = ScreenState { inner, changed: Condvar::new(), at_once: Notify::new(), begun: Instant::now() };
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

    /// Restores the terminal and returns why the view ended.
    pub(super) async fn close(self) -> ViewEnd {
        let (done, is_done) = oneshot::channel();
        // Runs in a thread of its own: if the terminal blocks, the process ends without it.
        let closing = std::thread::Builder::new().name("load-close".to_owned()).spawn(move || {
            terminal::give_back();
            let _ = done.send(());
        });
        if closing.is_ok() {
            let _ = tokio::time::timeout(CLOSE_WAIT, is_done).await;
        }
        match self.shared.inner.lock().state.quit {
            Quit::No => ViewEnd::Over,
            Quit::Asked => ViewEnd::Asked,
            Quit::Now => ViewEnd::AtOnce,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.inner.lock().is_over = true;
        self.shared.changed.notify_all();
        terminal::give_back();
    }
}

fn draw_all(shared: &ScreenState, mut output: terminal::Output) {
    loop {
        let mut inner = shared.inner.lock();
        while !inner.is_dirty && !inner.is_over {
            shared.changed.wait(&mut inner);
        }
        if inner.is_over {
            break;
        }
        inner.is_dirty = false;
        drop(inner);
        let begun = Instant::now();
        // The state is locked while the picture is made, not while the terminal receives it.
        let now = shared.begun.elapsed();
        let drawn = terminal::draw(&mut output, |frame| draw(frame, &shared.inner.lock().state, now));
        if drawn.is_err() {
            // The terminal is gone, but the run continues: its events are still handled.
            terminal::give_back();
            break;
        }
        if let Some(rest) = REDRAW.checked_sub(begun.elapsed()) {
            std::thread::sleep(rest);
        }
    }
}

fn read_keys(shared: &ScreenState) {
    use crossterm::event::{Event, poll, read};
    while !shared.inner.lock().is_over {
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
