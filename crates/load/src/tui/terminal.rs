//! The terminal's state: taken once, and given back however it ends.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// Whether the terminal is ours. A process has one.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// Held while a picture is written.
static WRITING: Mutex<()> = Mutex::new(());
/// How long a panic waits for a picture that is being written, in steps of 10 ms.
const PATIENCE: u32 = 20;

/// What pictures are drawn with.
pub(super) type Output = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Takes the terminal: keys come one by one and unechoed, and the screen is another one than that of the shell.
///
/// # Errors
/// When there is none.
pub(super) fn take() -> io::Result<Output> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        // The terminal first, or the words of the panic are on a screen that is about to vanish.
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

/// Gives it back, if it is ours still. From then on nothing is drawn.
pub(super) fn give_back() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    // Raw mode ends by a call that does not wait; what follows may, on a terminal that takes nothing.
    let _ = disable_raw_mode();
    let _writing = patiently();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}

/// Waits for whoever writes, but not for ever: it may be the thread that panics.
fn patiently() -> Option<MutexGuard<'static, ()>> {
    for _ in 0..PATIENCE {
        match WRITING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    None
}

/// Draws, unless the terminal was given back.
///
/// # Errors
/// When the terminal is gone.
pub(super) fn draw(output: &mut Output, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_OURS.load(Ordering::SeqCst) {
        output.draw(picture)?;
    }
    Ok(())
}
