//! The view in a real terminal: however it ends, the terminal is as it was.
//!
//! This program runs itself within tmux: the part in there is [`show_and_end`], which does nothing without the variable
//! that says how it should end.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test stops where it fails")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sealway_load::progress::Event;
use sealway_load::tui::{self, Options};
use tokio::sync::mpsc;

/// How the part within the terminal should end.
const END: &str = "SEALWAY_TERMINAL_TEST_END";
const WAIT: Duration = Duration::from_secs(60);

/// A terminal of its own, which ends with the test.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn start(name: &str) -> Self {
        let tmux = Tmux { socket: format!("sealway-terminal-{name}-{}", std::process::id()) };
        tmux.command(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh"]);
        tmux
    }

    fn command(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output();
        let output = output.expect("tmux does not start: run scripts/setup-tests.sh, which installs it");
        assert!(output.status.success(), "tmux {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn type_line(&self, line: &str) {
        self.command(&["send-keys", "-l", line]);
        self.command(&["send-keys", "Enter"]);
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + WAIT;
        loop {
            let screen = self.command(&["capture-pane", "-p"]);
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "not in time: {what}; the screen is\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_alternate(&self) -> bool {
        self.command(&["display-message", "-p", "#{alternate_on}"]).trim() == "1"
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

/// Runs the view to this end in a terminal and looks at what is left; what the screen says then.
fn after(how: &str, act: impl Fn(&Tmux)) -> String {
    let tmux = Tmux::start(how);
    let program = std::env::current_exe().unwrap();
    tmux.type_line("PS1='$ '; clear; echo what was th''ere before");
    tmux.until("the shell is ready", |screen| screen.contains("what was there before\n"));
    let run = format!("{END}={how} RUST_BACKTRACE=0 '{}' --exact show_and_end --nocapture", program.display());
    tmux.type_line(&format!("{run}; stty -a; echo en''ded"));
    tmux.until("the view is there", |screen| screen.contains("q end") && screen.contains("a note of the test"));
    assert!(tmux.is_alternate(), "the view is on a screen of its own");
    act(&tmux);
    tmux.until("it is over", |screen| screen.contains("ended\n"));
    // With the lines that went out at the top.
    let screen = tmux.command(&["capture-pane", "-p", "-S", "-"]);
    assert!(!tmux.is_alternate(), "the shell's screen is back");
    assert!(screen.contains("show_and_end --nocapture"), "what the shell said is still there: {screen}");
    for mode in [" icanon", " echo ", " isig", " opost", " icrnl"] {
        assert!(screen.replace('\n', " ").contains(mode), "the mode{mode} is not set: {screen}");
    }
    assert_eq!(tmux.command(&["display-message", "-p", "#{cursor_flag}"]).trim(), "1", "the cursor is seen");
    screen
}

#[test]
fn after_a_normal_end_the_terminal_is_as_it_was() {
    let screen = after("normal", |_| {});
    assert!(screen.contains("left: Over, note: a note of the test"), "{screen}");
}

#[test]
fn after_a_panic_its_words_are_on_the_normal_screen() {
    let screen = after("panic", |_| {});
    assert!(screen.contains("what went wrong here"), "{screen}");
}

#[test]
fn a_panic_in_another_thread_gives_the_terminal_back_and_the_run_goes_on() {
    let screen = after("panic-elsewhere", |_| {});
    assert!(screen.contains("what went wrong there") && screen.contains("left: Over"), "{screen}");
}

#[test]
fn ctrl_c_ends_it_at_once() {
    let screen = after("ctrl-c", |tmux| {
        tmux.command(&["send-keys", "C-c"]);
    });
    assert!(screen.contains("left: AtOnce"), "{screen}");
}

#[test]
fn signals_from_outside_end_it_at_once() {
    for how in ["sigint", "sigterm"] {
        let screen = after(how, |_| {});
        assert!(screen.contains("left: AtOnce"), "{how}: {screen}");
    }
}

#[test]
fn a_view_without_a_terminal_is_an_error_that_says_so() {
    let mut view = Command::new("setsid");
    view.arg("--wait").arg(std::env::current_exe().unwrap()).args(["--exact", "show_and_end", "--nocapture"]);
    let output = view.env(END, "normal").stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("no view: "), "{told}");
}

/// The part within the terminal. As a test of its own it does nothing.
#[test]
fn show_and_end() {
    let Ok(how) = std::env::var(END) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (sender, receiver) = mpsc::channel(8);
    let end = how.clone();
    runtime.spawn(async move {
        sender.send(Event::Note("a note of the test".to_owned())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        match end.as_str() {
            "panic-elsewhere" => {
                let _ = std::thread::spawn(|| panic!("what went wrong there")).join();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            "sigint" | "sigterm" => {
                let signal = end.trim_start_matches("sig").to_uppercase();
                let own = std::process::id().to_string();
                Command::new("kill").args(["-s", &signal, &own]).status().unwrap();
                tokio::time::sleep(WAIT).await;
            }
            "ctrl-c" | "panic" => tokio::time::sleep(WAIT).await,
            _ => {}
        }
    });
    let shown = runtime.block_on(async {
        tokio::select! {
            shown = tui::show(receiver, Options::from_environment()) => shown,
            // The view is still open when it happens.
            () = wait_and_panic(), if how == "panic" => unreachable!(),
        }
    });
    match shown {
        Ok(shown) => println!("left: {:?}, note: {}", shown.left, shown.notes.join(" ")),
        Err(err) => println!("no view: {err}"),
    }
    runtime.shutdown_background();
}

async fn wait_and_panic() {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    panic!("what went wrong here");
}
