//! Snapshots at common sizes, compared exactly with files; all other sizes are tested for panics.

use std::path::PathBuf;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::super::panel::Panel;
use super::super::state::State;
use super::generated::{self, below};
use crate::progress::Event;
use crate::request::Random;

/// If set, differing snapshots are rewritten instead of reported.
const REWRITE: &str = "SEALWAY_WRITE_SNAPSHOTS";

fn state(events: Vec<Event>, colours: bool) -> State {
    let mut state = State::new(colours);
    for (at, event) in events.into_iter().enumerate() {
        state.apply(event, Duration::from_millis(at as u64 * 900));
    }
    state
}

fn picture(state: &State, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| crate::tui::draw(frame, state, Duration::from_secs(60))).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let row = |y| {
        let row: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        row.trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(row).collect()
}

fn compare(name: &str, state: &State, sizes: &[(u16, u16)]) {
    for (width, height) in sizes {
        let drawn = text(&picture(state, *width, *height));
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tui/snapshots");
        let file = folder.join(format!("{name}-{width}x{height}.txt"));
        if std::env::var_os(REWRITE).is_some() {
            std::fs::write(&file, &drawn).unwrap();
            continue;
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == drawn, "{name} at {width}x{height} looks different now; if it should, set {REWRITE}:\n{drawn}");
    }
}

const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 50)];

#[test]
fn a_single_run_looks_as_kept() {
    compare("single", &state(generated::single(11, 37, 60), true), &SIZES);
}

#[test]
fn a_matrix_looks_as_kept() {
    compare("matrix", &state(generated::matrix(11), true), &SIZES);
}

#[test]
fn a_run_that_is_over_a_long_one_the_help_and_one_panel_alone_look_as_kept() {
    compare("over", &state(generated::single(11, 20, 20), true), &[(80, 24)]);
    compare("long", &long(), &[(80, 24)]);
    let mut helped = state(generated::single(11, 37, 60), true);
    helped.help = true;
    compare("help", &helped, &[(80, 24)]);
    helped.help = false;
    for number in 1..=8 {
        helped.panel = Panel::numbered(number);
        compare(&format!("panel-{number}"), &helped, &[(80, 24)]);
    }
}

/// State after 100 of 300 seconds, so that a column holds several seconds.
fn long() -> State {
    let mut events = generated::single(11, 20, 300);
    let mut state = State::new(true);
    state.apply(events.remove(0), Duration::ZERO);
    for index in 0..100_u32 {
        let Event::Tick(tick) = &events[index as usize % events.len()] else { continue };
        let mut tick = tick.clone();
        (tick.second.index, tick.second.at) = (index, Duration::from_secs(u64::from(index) + 1));
        state.apply(Event::Tick(tick), Duration::ZERO);
    }
    state
}

#[test]
fn a_generator_at_its_limit_is_reported_in_every_size() {
    let mut state = state(generated::single(11, 20, 60), true);
    let mut story = generated::Story::new(1);
    for _ in 0..3 {
        let mut tick = story.tick(900.0);
        tick.second.cpu = 2.0;
        state.apply(Event::Tick(Box::new(tick)), Duration::ZERO);
    }
    for (width, height) in SIZES {
        assert!(
            text(&picture(&state, width, height)).contains("! The generator is the bottleneck"),
            "{width}x{height}"
        );
    }
}

#[test]
fn no_color_is_obeyed() {
    let coloured = |colours| {
        let drawn = picture(&state(generated::single(11, 37, 60), colours), 120, 40);
        drawn.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert_eq!((coloured(true), coloured(false)), (true, false));
}

#[test]
fn no_size_and_no_state_panics() {
    let mut dice = Random::new(2026);
    let mut states = Vec::new();
    for seed in 0..6 {
        let mut events = if seed % 2 == 0 { generated::single(seed, 40, 40) } else { generated::matrix(seed) };
        events.truncate(below(&mut dice, events.len() as u64 + 1) as usize);
        let mut state = state(events, seed % 3 == 0);
        state.notice = Some("a notice that is long ".repeat(9));
        states.push(state);
    }
    states.push(extremes());
    for width in 1..=220_u16 {
        for height in [1 + width % 12, 1 + below(&mut dice, 60) as u16, 60] {
            let at = below(&mut dice, states.len() as u64) as usize;
            let state = &mut states[at];
            state.panel = Panel::numbered(below(&mut dice, 14) as usize).filter(|panel| state.panels().contains(panel));
            state.help = below(&mut dice, 4) == 0;
            picture(state, width, height);
        }
    }
}

/// State with figures that no run has.
fn extremes() -> State {
    let mut state = State::new(true);
    for event in generated::single(1, 12, 12) {
        let Event::Tick(mut tick) = event else {
            state.apply(event, Duration::ZERO);
            continue;
        };
        let second = &mut tick.second;
        match second.index % 4 {
            0 => second.length = Duration::ZERO,
            1 => second.counts.due = u64::MAX >> 4,
            2 => second.response.p99_ns = u64::MAX,
            _ => second.cpu = f64::NAN,
        }
        (second.in_flight, second.lag_max) = (u64::MAX, Duration::MAX);
        tick.totals.measured = Duration::MAX;
        tick.totals.sum.faults.fill(u64::MAX / 64);
        tick.totals.sum.statuses.fill(u64::MAX / 1_000);
        state.apply(Event::Tick(tick), Duration::MAX);
    }
    state
}
