//! A real terminal: tmux on a socket of its own, with a shell in it. It ends with the test.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Longest wait for a screen.
const WAIT: Duration = Duration::from_secs(60);

/// A terminal of a tmux server.
#[derive(Debug)]
pub struct Terminal {
    socket: String,
}

impl Terminal {
    /// Starts a shell in a terminal of this size; `name` distinguishes it from those of other tests of this process.
    ///
    /// # Errors
    /// If tmux is not there, or the shell does not come up.
    pub fn start(name: &str, columns: u16, rows: u16) -> anyhow::Result<Self> {
        let terminal = Terminal { socket: format!("sealway-{name}-{}", std::process::id()) };
        let size = [columns, rows].map(|size| size.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], "sh"])?;
        // In two words here, so that the line that prints it does not match.
        terminal.type_line("PS1='$ '; clear; echo rea''dy")?;
        terminal.until("the shell is ready", |screen| screen.contains("ready\n"))?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output();
        let output = output.context("tmux does not start: run scripts/setup-tests.sh, which installs it")?;
        ensure!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Types a line, and Enter.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn type_line(&self, line: &str) -> anyhow::Result<()> {
        self.tmux(&["send-keys", "-l", line])?;
        self.press("Enter")
    }

    /// Presses a key, by tmux's name of it: `q`, `C-c`, `BTab`.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn press(&self, key: &str) -> anyhow::Result<()> {
        self.tmux(&["send-keys", key]).map(drop)
    }

    /// Changes the size of the terminal.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> anyhow::Result<()> {
        let size = [columns, rows].map(|size| size.to_string());
        self.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]).map(drop)
    }

    /// Returns the text of the screen.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn screen(&self) -> anyhow::Result<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the text of the screen, and of all lines that left it at its top.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn all(&self) -> anyhow::Result<String> {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// Waits until the screen matches, and returns it.
    ///
    /// # Errors
    /// If it is not in a minute, with what is there instead.
    pub fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> anyhow::Result<String> {
        let end = Instant::now() + WAIT;
        loop {
            let screen = self.screen()?;
            if is_so(&screen) {
                return Ok(screen);
            }
            if Instant::now() >= end {
                bail!("not in time: {what}; the screen is\n{screen}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns whether a program uses the alternate screen.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn is_alternate(&self) -> anyhow::Result<bool> {
        Ok(self.tmux(&["display-message", "-p", "#{alternate_on}"])?.trim() == "1")
    }

    /// Checks that a program has restored the state that a shell needs: the screen, the modes, the cursor.
    ///
    /// # Errors
    /// The part that is not restored.
    pub fn check_sane(&self) -> anyhow::Result<()> {
        self.type_line("stty -a; echo mo''des")?;
        self.until("the modes are told", |screen| screen.contains("modes\n"))?;
        ensure!(!self.is_alternate()?, "the shell's screen is not back");
        let all = self.all()?;
        let told = all.rfind("speed ").map(|at| all[at..].replace('\n', " ")).unwrap_or_default();
        for mode in [" icanon", " echo ", " isig", " opost", " icrnl"] {
            ensure!(told.contains(mode), "the mode{mode} is not set: {told}");
        }
        let cursor = self.tmux(&["display-message", "-p", "#{cursor_flag}"])?;
        ensure!(cursor.trim() == "1", "the cursor is not seen");
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
