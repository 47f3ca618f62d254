//! Lines of generated runs, and readers that are slow or gone.

use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc;

use super::*;
use crate::tui::tests::generated;

/// Output that keeps the bytes written.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn written(events: Vec<Event>, seconds: u64, json: bool) -> String {
    let kept = Output::default();
    let (sender, receiver) = mpsc::channel(8);
    let options = Options { interval: Duration::from_secs(seconds), json };
    let view = tokio::spawn(show(receiver, kept.clone(), options));
    for event in events {
        sender.send(event).await.unwrap();
    }
    drop(sender);
    assert_eq!(view.await.unwrap().unwrap(), ViewEnd::Over);
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn each_second_is_a_line_under_a_head_and_columns_stand_in_line() {
    let text = written(generated::single(7, 5, 5), 1, false).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0], "sealway load: GET https://orders.example:8443/v1/orders, HTTP/2 over TLS, 5,000/s, for 5 s",
        "a query may hold a secret"
    );
    assert_eq!(lines.len(), 7, "{text}");
    let ends = |line: &str| line.trim_end().chars().count();
    assert!(lines[1].contains("p99") && lines[1].contains("in flight"), "{text}");
    assert!(lines[2..].iter().all(|line| ends(line) == ends(lines[1])), "{text}");
}

#[tokio::test]
async fn a_matrix_tells_its_cells_and_points() {
    let text = written(generated::matrix(7), 1, false).await;
    for shown in [
        "cell 1 of 6 http-reuse\n",
        "load point 256 workers, repeat 1 of 3, at most 12 points left\n",
        "http-no-reuse: skipped: no client certificate was given\n",
    ] {
        assert!(text.contains(shown), "{shown} is not in {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("http-reuse: ") && line.contains("at 512 workers, p95 48.0 ms")));
}

#[tokio::test]
async fn json_lines_have_stable_names_and_add_up() {
    let lines = parsed(&written(generated::single(7, 12, 12), 1, true).await);
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    assert_eq!((of("run").len(), of("second").len(), of("outcome").len()), (1, 12, 1));
    let sum = |name: &str| of("second").iter().map(|line| line[name].as_u64().unwrap()).sum::<u64>();
    for name in ["due", "started", "succeeded", "failed"] {
        assert_eq!(sum(name), of("outcome")[0][name].as_u64().unwrap(), "{name}");
    }
    let mut names: Vec<&str> = of("second")[0].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let documented = include_str!("mod.rs");
    assert!(names.iter().all(|name| documented.contains(&format!("`{name}`"))), "{names:?}");
    assert!(!written(generated::matrix(7), 1, true).await.contains("hidden"));
    let matrix = parsed(&written(generated::matrix(7), 1, true).await);
    let point = matrix.iter().find(|line| line["type"] == "point").unwrap();
    assert_eq!(point["offered"]["concurrency"], 256);
    for line in &matrix {
        let names = line.as_object().unwrap().keys();
        names.for_each(|name| assert!(name == "type" || documented.contains(&format!("`{name}`")), "{name}"));
    }
}

#[tokio::test]
async fn percentiles_of_a_longer_line_are_of_all_its_seconds_and_not_of_the_worst() {
    // The 17th second has a stall: it is a tenth of the line that holds it and nine others.
    let lines = parsed(&written(generated::single(7, 20, 60), 10, true).await);
    let seconds: Vec<_> = lines.iter().filter(|line| line["type"] == "second").collect();
    assert_eq!(seconds.len(), 2);
    let at = |line: usize, name: &str| seconds[line][name].as_f64().unwrap();
    assert!(at(0, "p99_ms") < 100.0 && at(1, "p99_ms") > 300.0, "{seconds:?}");
    assert!(at(1, "p50_ms") < 20.0, "{seconds:?}");
    assert_eq!((at(1, "length_s"), at(1, "second")), (10.0, 19.0));
}

/// Output that fails as a pipe without a reader does.
struct ClosedOutput;

impl Write for ClosedOutput {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_output_ends_the_run_without_an_error() {
    let (sender, receiver) = mpsc::channel(8);
    let options = Options { interval: Duration::from_secs(1), json: true };
    let view = tokio::spawn(show(receiver, ClosedOutput, options));
    let mut events = generated::single(7, 2, 20);
    let Event::Run { control, .. } = &events[0] else { panic!("a run comes first") };
    let control = control.clone();
    sender.send(events.remove(0)).await.unwrap();
    while !control.is_stopped() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for event in events {
        sender.send(event).await.unwrap();
    }
    drop(sender);
    assert_eq!(view.await.unwrap().unwrap(), ViewEnd::ReaderGone);
}

/// Output that blocks until it is released.
struct Slow(Receiver<()>, Output);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_slow_reader_does_not_delay_the_run_and_omissions_are_reported() {
    let (go, wait): (SyncSender<()>, _) = sync_channel(0);
    let kept = Output::default();
    let (sender, receiver) = mpsc::channel(8);
    let options = Options { interval: Duration::from_secs(1), json: true };
    let view = tokio::spawn(show(receiver, Slow(wait, kept.clone()), options));
    let mut story = generated::Story::new(7);
    let tick = Box::new(story.tick(100.0));
    let begun = Instant::now();
    for _ in 0..400 {
        sender.send(Event::Tick(tick.clone())).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the run waited for the reader");
    // From here on the output does not block: its sender is dropped.
    drop(go);
    while kept.0.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    sender.send(Event::Tick(tick)).await.unwrap();
    drop(sender);
    view.await.unwrap().unwrap();
    let lines = parsed(&String::from_utf8(kept.0.lock().unwrap().clone()).unwrap());
    let shown = lines.iter().filter(|line| line["type"] == "second").count() as u64;
    let skipped: u64 = lines.iter().filter_map(|line| line["seconds"].as_u64()).sum();
    assert!(skipped > 200, "{skipped}");
    assert_eq!(shown + skipped, 401);
}

#[tokio::test]
async fn the_first_interrupt_stops_the_run_and_the_second_everything() {
    let mut view =
        View::new(Writer::new(Output::default()).unwrap(), &Options { interval: Duration::ZERO, json: false });
    let events = generated::single(7, 2, 20);
    let Event::Run { control, .. } = &events[0] else { panic!("a run comes first") };
    let control = control.clone();
    events.into_iter().for_each(|event| view.take(event));
    view.stop();
    assert!(control.is_stopped());
    assert_eq!(view.left, ViewEnd::Asked);
    let later = Control::default();
    let plan = Arc::new(generated::plan("later", crate::progress::OfferedLoad::Rate(1.0), 5));
    view.take(Event::Run { plan, control: later.clone() });
    assert!(later.is_stopped(), "a run that begins after the end was asked for");
    view.stop();
    assert_eq!(view.left, ViewEnd::AtOnce);
}
