//! Screen layout: status lines at the top, panels below, keys at the foot. If room is short, the least important parts are
//! left out first.

use std::time::Duration;

use ratatui::Frame;

use super::keys::HELP;
use super::pane::{Look, Pane, cells};
use super::panel;
use super::plot;
use super::state::{Quit, Running, State};
use crate::figures;
use crate::record::Phase;

/// Draws the whole screen; `now` is the time since the view's start.
pub fn draw(frame: &mut Frame<'_>, state: &State, now: Duration) {
    let area = frame.area();
    let pane = &mut Pane::new(frame.buffer_mut(), area, state.theme);
    let (width, height) = (pane.width(), pane.height());
    let foot = usize::from(height >= 8);
    let mut y = 0;
    for line in lines(state, height) {
        if y + foot < height {
            line.write(&mut pane.part(0, y, width, 1), state, now);
            y += 1;
        }
    }
    let room = height.saturating_sub(y + foot);
    panel::body(&mut pane.part(0, y, width, room), state);
    if foot == 1 {
        footer(&mut pane.part(0, height - 1, width, 1), state);
    }
    if state.help {
        help(pane);
    }
}

/// Status line above the panels.
#[derive(Clone, Copy, Debug)]
enum Line {
    Title,
    Progress,
    Tuned,
    Now,
    Whole,
    Warning,
}

/// Returns the status lines that fit, from the top.
fn lines(state: &State, height: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    if height >= 3 {
        lines.push(Line::Title);
    }
    if height >= 10 {
        lines.push(if state.tuning.is_on() { Line::Tuned } else { Line::Progress });
    }
    if height >= 16 && state.tuning.is_on() {
        lines.push(Line::Progress);
    }
    lines.push(Line::Now);
    if height >= 16 {
        lines.push(Line::Whole);
    }
    if height >= 8 && state.strained().is_some() {
        lines.push(Line::Warning);
    }
    lines
}

impl Line {
    fn write(self, pane: &mut Pane<'_>, state: &State, now: Duration) {
        match (self, &state.run) {
            (Line::Title, run) => title(pane, state, run.as_ref()),
            (Line::Warning, _) => {
                let text = state.strained().unwrap_or_default();
                pane.fitted(0, 0, &format!(" ! {text} "), Look::Warning);
            }
            (Line::Tuned, _) => tuned(pane, state, now),
            (Line::Now, None) => {
                pane.fitted(0, 0, "waiting for the first run", Look::Plain);
            }
            (_, None) => {}
            (Line::Progress, Some(run)) => progress(pane, run),
            (Line::Now, Some(run)) => of_now(pane, run),
            (Line::Whole, Some(run)) => of_whole(pane, run),
        }
    }
}

fn title(pane: &mut Pane<'_>, state: &State, run: Option<&Running>) {
    let (word, look) = match run {
        _ if state.quit > Quit::No => (" STOPPING ", Look::Warning),
        None => (" STARTING ", Look::Strong),
        Some(run) if run.end.is_some() && !state.tuning.is_on() => (" DONE ", Look::Good),
        Some(run) if run.control.is_paused() => (" PAUSED ", Look::Warning),
        Some(run) if run.last.as_ref().is_some_and(|second| second.warm_up) => (" WARM-UP ", Look::Strong),
        Some(_) => (" RUNNING ", Look::Good),
    };
    let factor = run.map(|run| run.control.scaled()).filter(|factor| (factor - 1.0).abs() > 1e-9);
    let factor = factor.map(|factor| format!(" load ×{factor:.3}")).unwrap_or_default();
    let right = cells(word) + cells(&factor);
    let width = pane.width();
    let mut left = pane.part(0, 0, width.saturating_sub(right + 1), 1);
    let end = left.text(0, 0, "sealway load", Look::Title);
    if let Some(run) = run {
        let plan = &run.plan;
        let target = format!("{} {}", plan.request.method, figures::target(plan));
        let target = left.fitted(end + 2, 0, &target, Look::Strong);
        let mut more = vec![(figures::protocol(plan), Look::Plain), (figures::arrival(plan), Look::Plain)];
        // A default label only repeats the target.
        if !figures::target(plan).ends_with(&plan.label) {
            more.push((figures::clean(&plan.label), Look::Faint));
        }
        left.parts(target + 2, 0, &more);
    }
    let x = width.saturating_sub(right);
    let x = pane.text(x, 0, word, look);
    pane.text(x, 0, &factor, Look::Strong);
}

fn progress(pane: &mut Pane<'_>, run: &Running) {
    let at = figures::clock(run.at());
    let Some((share, left)) = run.progress() else {
        pane.fitted(0, 0, &format!("{at} elapsed, no end is set"), Look::Plain);
        return;
    };
    let shown = match run.planned() {
        Some(planned) => format!("{at} of {}", figures::clock(planned)),
        None => at,
    };
    let shown = format!(" {:3.0} %  {shown}, {} left", share * 100.0, figures::clock(left));
    let room = pane.width().saturating_sub(cells(&shown));
    let end = if room >= 8 { pane.text(0, 0, &plot::lying(room, share), Look::Bar) } else { 0 };
    pane.text(end, 0, &shown, Look::Plain);
}

fn tuned(pane: &mut Pane<'_>, state: &State, now: Duration) {
    let tuning = &state.tuning;
    let mut parts = Vec::new();
    if let Some(cell) = tuning.cells.last() {
        let text = format!("cell {} of {} {}", tuning.cells.len(), tuning.cells_of, cell.name);
        parts.push((text, Look::Strong));
    }
    let left = state.left(now);
    if let Some(left) = left {
        let all = left.all.map(|all| format!(" in this cell, ~{} in total", figures::clock_about(all)));
        let all = all.unwrap_or_default();
        parts.push((format!("left: up to {}{all}", figures::clock_about(left.here)), Look::Plain));
    }
    if let Some(point) = tuning.points.last() {
        let offered = figures::offered(point.offered);
        parts.push((format!("{offered}, repeat {} of {}", point.repeat, point.repeats), Look::Plain));
    }
    if let Some(left) = left {
        parts.push((format!("up to {} left", figures::counted(left.runs, "run")), Look::Plain));
    }
    pane.parts(0, 0, &parts);
}

fn of_now(pane: &mut Pane<'_>, run: &Running) {
    let Some(second) = &run.last else {
        pane.fitted(0, 0, "waiting for the first second", Look::Plain);
        return;
    };
    let seconds = second.length.as_secs_f64().max(1e-3);
    let (counts, response) = (&second.counts, &second.response);
    let failed = if counts.failed > 0 { Look::Bad } else { Look::Plain };
    let time = |ns| format!("{:>7}", if response.count > 0 { figures::time(ns) } else { "-".to_owned() });
    let mut parts = vec![
        (per_second(if run.is_new { "was" } else { "now" }, counts.succeeded as f64 / seconds, pane), Look::Strong),
        (format!("p50 {}", time(response.p50_ns)), Look::Strong),
        (format!("p95 {}", time(response.p95_ns)), Look::Strong),
        (format!("p99 {}", time(response.p99_ns)), Look::Strong),
        (format!("failed {:.0}/s", (counts.failed as f64 / seconds).ceil()), failed),
        (format!("in flight {}", figures::count(second.in_flight)), Look::Plain),
        (format!("max {}", time(response.max_ns)), Look::Plain),
        (format!("connections {}", figures::count(second.connections)), Look::Plain),
        (format!("generator CPU {:.2}", second.cpu), Look::Plain),
    ];
    if counts.due != counts.started {
        parts.insert(6, (format!("due {}/s", figures::rate(counts.due as f64 / seconds)), Look::Plain));
    }
    pane.parts(0, 0, &parts);
}

fn of_whole(pane: &mut Pane<'_>, run: &Running) {
    let Some(whole) = &run.whole else { return };
    let (counts, response) = (&whole.counts, whole.phase(Phase::Response));
    let ended = counts.succeeded + counts.failed;
    let failed = if counts.failed > 0 { Look::Bad } else { Look::Plain };
    let cut = counts.unfinished + counts.unsent;
    let time = |ns| format!("{:>7}", figures::time(ns));
    let mut parts = vec![
        (per_second(if run.is_new { "was" } else { "all" }, whole.rate(), pane), Look::Plain),
        (format!("p50 {}", time(response.p50_ns)), Look::Plain),
        (format!("p95 {}", time(response.p95_ns)), Look::Plain),
        (format!("p99 {}", time(response.p99_ns)), Look::Plain),
        (format!("failed {}", figures::part(counts.failed, ended)), failed),
        (format!("{} ok", figures::count(counts.succeeded)), Look::Plain),
        (format!("{} failed", figures::count(counts.failed)), failed),
        (format!("max {}", figures::time(response.max_ns)), Look::Plain),
    ];
    if cut > 0 {
        parts.insert(5, (format!("{} unfinished", figures::count(cut)), Look::Plain));
    }
    pane.parts(0, 0, &parts);
}

/// Formats a rate with a fixed width, so that the text after it does not move.
fn per_second(name: &str, rate: f64, pane: &Pane<'_>) -> String {
    let unit = if pane.width() >= 100 { " ok/s" } else { "/s" };
    format!("{name} {:>6}{unit}", figures::rate(rate))
}

fn footer(pane: &mut Pane<'_>, state: &State) {
    if let Some(notice) = &state.notice {
        pane.fitted(0, 0, notice, Look::Strong);
        return;
    }
    if state.quit > Quit::No {
        pane.fitted(0, 0, "Stopping the run. Press q again or ctrl-c to quit at once.", Look::Strong);
        return;
    }
    let last = if state.tuning.is_on() { 9 } else { 8 };
    let all = if state.panel.is_some() { ", 0 all" } else { "" };
    let mut keys = vec![(String::from("q stop"), Look::Plain), (String::from("? help"), Look::Plain)];
    if !state.tuning.is_on() {
        keys.push((String::from("p pause"), Look::Plain));
        keys.push((String::from("+/- load"), Look::Plain));
    }
    keys.push((format!("tab, 1-{last} panels{all}"), Look::Plain));
    pane.parts(0, 0, &keys);
}

/// Draws the keys over everything else.
fn help(pane: &mut Pane<'_>) {
    let keys = HELP.iter().map(|(key, _)| cells(key)).max().unwrap_or(0);
    let inside = HELP.iter().map(|(_, what)| keys + 2 + cells(what)).max().unwrap_or(0);
    let (width, height) = ((inside + 4).min(pane.width()), (HELP.len() + 2).min(pane.height()));
    let (x, y) = ((pane.width() - width) / 2, (pane.height() - height) / 2);
    let mut frame = pane.part(x, y, width, height);
    frame.clear();
    let line = "─".repeat(width.saturating_sub(2));
    frame.text(0, 0, &format!("┌{line}┐"), Look::Title);
    frame.text(2, 0, " Keys ", Look::Title);
    for y in 1..height.saturating_sub(1) {
        frame.text(0, y, "│", Look::Title);
        frame.text(width.saturating_sub(1), y, "│", Look::Title);
    }
    frame.text(0, height.saturating_sub(1), &format!("└{line}┘"), Look::Title);
    let mut inner = frame.part(2, 1, width.saturating_sub(4), height.saturating_sub(2));
    for (y, (key, what)) in HELP.iter().enumerate() {
        inner.text(0, y, key, Look::Strong);
        inner.fitted(keys + 2, y, what, Look::Plain);
    }
}
