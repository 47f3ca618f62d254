//! State of the terminal: taken once, and restored however the view ends.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// True if this process has taken the terminal. A process has one.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// Locked while a picture is written.
static WRITING: Mutex<()> = Mutex::new(());
/// Longest time that restoring waits for a picture being written: the writer may be the thread that panics.
const PATIENCE: Duration = Duration::from_millis(200);

/// Terminal that pictures are drawn on.
pub(super) type Output = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Takes the terminal: raw mode without echo, on the alternate screen.
///
/// # Errors
/// An I/O error if there is no terminal.
pub(super) fn take() -> io::Result<Output> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        // Restore the terminal first, or the panic message is written to a screen that vanishes.
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            previous(panic);
        }));
    });
    let output = Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout())))?;
    enable_raw_mode()?;
    IS_OURS.store(true, Ordering::SeqCst);
    if let Err(err) = execute!(io::stdout(), EnterAlternateScreen, Hide) {
        give_back();
        return Err(err);
    }
    Ok(output)
}

/// Restores the terminal if it is still taken. From then on nothing is drawn.
pub(super) fn give_back() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    // The call that ends raw mode does not block; the writes after it may, on a blocked terminal.
    let _ = disable_raw_mode();
    let _writing = WRITING.try_lock_for(PATIENCE);
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}

/// Draws a picture, unless the terminal was restored.
///
/// # Errors
/// An I/O error if the terminal is gone.
pub(super) fn draw(output: &mut Output, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
    let _writing = WRITING.lock();
    if IS_OURS.load(Ordering::SeqCst) {
        output.draw(picture)?;
    }
    Ok(())
}
