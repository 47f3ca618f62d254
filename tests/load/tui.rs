//! The view of `sealway load` in a real terminal: its contents, its keys, and the restored terminal after every way in which it
//! ends.
//!
//! The end by a panic runs in this program itself, which also runs inside tmux: the inner part is [`show_and_end`], which does
//! nothing without the variable that names the way to end.
#![allow(clippy::print_stdout, reason = "the part within the terminal says how it ended")]

use std::process::{Command, Stdio};
use std::time::Duration;

use sealway_load::progress::Event;
use sealway_load::tui::{self, Options};
use sealway_testkit::scripted::{Latency, Script, ScriptedServer};
use sealway_testkit::terminal::Terminal;
use tokio::sync::mpsc;

use crate::BINARY;

/// Variable that names the way in which the inner part ends.
const END: &str = "SEALWAY_TERMINAL_TEST_END";
const WAIT: Duration = Duration::from_secs(60);

fn server() -> (ScriptedServer, String) {
    let server =
        ScriptedServer::http(Script { latency: Latency::Constant { us: 5_000 }, ..Script::default() }).unwrap();
    let url = format!("http://{}/", server.address());
    (server, url)
}

/// A terminal in which a run is active.
fn running(name: &str, arguments: &str) -> (ScriptedServer, Terminal) {
    let (server, url) = server();
    let terminal = Terminal::start(name, 80, 24).unwrap();
    terminal.type_line(&format!("'{BINARY}' load {arguments} {url}; echo en''ded $?")).unwrap();
    let is_there = |screen: &str| screen.contains("RUNNING") && screen.contains("200: ");
    terminal.until("figures are seen", is_there).unwrap();
    assert!(terminal.is_alternate().unwrap(), "the view is on a screen of its own");
    (server, terminal)
}

/// Waits for the shell, and returns the text left on its screen.
fn left_behind(terminal: &Terminal) -> String {
    terminal.until("it is over", |screen| screen.contains("\nended ")).unwrap();
    let all = terminal.all().unwrap();
    terminal.check_sane().unwrap();
    all
}

#[test]
fn pause_holds_the_run_and_q_ends_it_with_its_summary() {
    let (server, terminal) = running("pause", "--rate 200 --duration 120");
    terminal.press("p").unwrap();
    let is_quiet = |screen: &str| screen.contains("PAUSED") && screen.contains("now      0/s");
    terminal.until("the run is held", is_quiet).unwrap();
    let held = server.settled(WAIT).requests;
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.settled(WAIT).requests, held, "a run that is held sends nothing");
    terminal.press("p").unwrap();
    terminal.until("it goes on", |screen| screen.contains("RUNNING") && screen.contains("now    2")).unwrap();
    terminal.press("+").unwrap();
    terminal.until("the factor is seen", |screen| screen.contains("RUNNING  load ×1.100")).unwrap();
    terminal.until("the rate has grown", |screen| screen.contains("now    220/s")).unwrap();
    terminal.press("q").unwrap();
    let screen = left_behind(&terminal);
    let summary = screen.rfind("200/s").or(screen.rfind("succeeded"));
    assert!(summary.is_some() && screen.contains("The run was stopped"), "{screen}");
}

#[test]
fn keys_choose_panels_and_show_help_and_another_size_is_taken() {
    let (_server, terminal) = running("panels", "--concurrency 2 --duration 120");
    terminal.press("7").unwrap();
    let alone = |screen: &str| screen.contains("7 Time by phase") && !screen.contains("1 Requests");
    terminal.until("one panel is alone", alone).unwrap();
    terminal.press("Tab").unwrap();
    terminal.until("the next one", |screen| screen.contains("8 Generator")).unwrap();
    terminal.press("BTab").unwrap();
    terminal.until("the one before", alone).unwrap();
    terminal.press("?").unwrap();
    terminal.until("help", |screen| screen.contains("┌─ Keys") && screen.contains("q again, ctrl-c")).unwrap();
    terminal.press("?").unwrap();
    terminal.press("0").unwrap();
    terminal.until("all panels", |screen| screen.contains("1 Requests") && !screen.contains("Keys")).unwrap();
    terminal.resize(40, 10).unwrap();
    terminal.until("a small size", |screen| screen.lines().count() == 10 && screen.contains("q stop")).unwrap();
    terminal.resize(120, 40).unwrap();
    terminal.until("a large size", |screen| screen.contains("8 Generator") && screen.contains("3 Response")).unwrap();
    terminal.press("C-c").unwrap();
    left_behind(&terminal);
}

#[test]
fn a_run_that_ends_by_itself_leaves_its_summary_on_the_shells_screen() {
    let (server, terminal) = running("end", "--concurrency 2 --duration 3");
    let screen = left_behind(&terminal);
    let record = server.settled(WAIT);
    assert!(screen.contains("ended 0") && record.requests > 100, "{screen}");
    assert!(screen.contains("statuses") && !screen.contains("q stop"), "the view is gone: {screen}");
}

#[test]
fn a_tuned_run_shows_its_load_points_and_what_is_left_and_is_not_held_by_hand() {
    let (_server, url) = server();
    let terminal = Terminal::start("tuned", 120, 40).unwrap();
    terminal.type_line(&format!("'{BINARY}' load autotune {url}; echo en''ded $?")).unwrap();
    let told = ["9 Load points", "repeat 1 of", "left: up to"];
    terminal.until("load points are seen", |screen| told.iter().all(|told| screen.contains(told))).unwrap();
    terminal.press("p").unwrap();
    terminal.until("it is not held", |screen| screen.contains("autotune and matrix set the load")).unwrap();
    terminal.press("q").unwrap();
    left_behind(&terminal);
}

#[test]
fn a_closed_output_ends_the_run_quietly() {
    let (_server, url) = server();
    let line = format!("'{BINARY}' load --json-lines --concurrency 2 --duration 600 {url} | head -n 2");
    let output = Command::new("timeout").args(["60", "sh", "-c", &line]).output().unwrap();
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), told.lines().count()), (Some(0), 2), "{told}{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Runs this program's view in a terminal up to this end. Returns the screen after it.
fn after(how: &str) -> String {
    let terminal = Terminal::start(how, 80, 24).unwrap();
    let program = std::env::current_exe().unwrap();
    let run = format!("{END}={how} RUST_BACKTRACE=0 '{}' --exact tui::show_and_end --nocapture", program.display());
    terminal.type_line(&format!("{run}; echo en''ded $?")).unwrap();
    let is_there = |screen: &str| screen.contains("q stop") && screen.contains("cell 1 of 1 a name of the test");
    terminal.until("the view is there", is_there).unwrap();
    assert!(terminal.is_alternate().unwrap(), "the view is on a screen of its own");
    if how == "ctrl-c" {
        terminal.press("C-c").unwrap();
    }
    left_behind(&terminal)
}

#[test]
fn after_a_normal_end_the_terminal_is_as_it_was() {
    let screen = after("normal");
    assert!(screen.contains("left: Over"), "{screen}");
}

#[test]
fn after_a_panic_its_words_are_on_the_normal_screen() {
    let screen = after("panic");
    assert!(screen.contains("what went wrong here"), "{screen}");
}

#[test]
fn a_panic_in_another_thread_gives_the_terminal_back_and_the_run_goes_on() {
    let screen = after("panic-elsewhere");
    assert!(screen.contains("what went wrong there") && screen.contains("left: Over"), "{screen}");
}

#[test]
fn ctrl_c_and_signals_from_outside_end_it_at_once() {
    for how in ["ctrl-c", "sigint", "sigterm"] {
        let screen = after(how);
        assert!(screen.contains("left: AtOnce"), "{how}: {screen}");
    }
}

#[test]
fn a_view_without_a_terminal_is_an_error_that_says_so() {
    let mut view = Command::new("setsid");
    view.arg("--wait").arg(std::env::current_exe().unwrap()).args(["--exact", "tui::show_and_end", "--nocapture"]);
    let output = view.env(END, "normal").stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("no view: "), "{told}");
}

/// The part inside the terminal. It does nothing when it runs as a test of its own.
#[test]
fn show_and_end() {
    let Ok(how) = std::env::var(END) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (sender, receiver) = mpsc::channel(8);
    let end = how.clone();
    runtime.spawn(async move {
        sender.send(Event::Cell { name: "a name of the test".to_owned(), index: 0, of: 1 }).await.unwrap();
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
            // The view is still open at that moment.
            () = wait_and_panic(), if how == "panic" => unreachable!(),
        }
    });
    match shown {
        Ok(left) => println!("left: {left:?}"),
        Err(err) => println!("no view: {err}"),
    }
    runtime.shutdown_background();
}

async fn wait_and_panic() {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    panic!("what went wrong here");
}
