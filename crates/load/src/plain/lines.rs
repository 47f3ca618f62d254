//! Aligned lines for readers, with a repeated head.

use std::fmt::Write;
use std::time::Duration;

use super::Form;
use super::window::Percentiles;
use crate::engine::{EndReason, Limit, Outcome};
use crate::figures;
use crate::plan::Plan;
use crate::progress::{CellSummary, Event};
use crate::record::Second;
use crate::report::wrap::{middle, put};

/// Number of lines between two heads.
const HEAD_EVERY: u32 = 30;
/// Maximum width of the target in the first line, in columns.
const TARGET_MAX: usize = 60;

/// Formatter of events as text lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Number of lines until the next head.
    until_head: u32,
    cell: String,
    point: String,
}

impl Form for Lines {
    fn event(&mut self, event: &Event) -> String {
        match event {
            Event::Cell { name, index, of } => {
                self.cell = format!("cell {} of {of} {}", index + 1, figures::clean(name));
                format!("{}\n", self.cell)
            }
            Event::Point { offered, repeat, repeats, left_max } => {
                self.until_head = 0;
                self.point = figures::offered(*offered);
                let left = figures::counted(u64::from(*left_max), "point");
                format!("load point {}, repeat {repeat} of {repeats}, at most {left} left\n", self.point)
            }
            Event::Run { plan, .. } => {
                self.until_head = 0;
                if self.point.is_empty() { run(plan) } else { String::new() }
            }
            Event::Tick(_) => String::new(),
            Event::Outcome(outcome) => self.outcome(outcome),
            Event::CellDone(summary) => {
                self.point.clear();
                cell_done(summary)
            }
        }
    }

    fn second(&mut self, sum: &Second, times: Option<Percentiles>) -> String {
        let (counts, length) = (&sum.counts, sum.length.as_secs_f64().max(1e-3));
        let times = match times {
            Some(of) => [of.p50, of.p95, of.p99, of.max].map(figures::time),
            None => ["-"; 4].map(str::to_owned),
        };
        let mut line = String::new();
        if self.until_head == 0 {
            self.until_head = HEAD_EVERY;
            line.push_str(&row(["time", "ok/s", "p50", "p95", "p99", "max", "failed", "in flight", "conns", "CPU"]));
        }
        self.until_head -= 1;
        let time = format!("{}{}", figures::moment(sum.at), if sum.warm_up { "*" } else { "" });
        let ok = figures::rate(counts.succeeded as f64 / length);
        let failed = figures::count(counts.failed);
        let (in_flight, connections) = (figures::count(sum.in_flight), figures::count(sum.connections));
        let cpu = format!("{:.2}", sum.cpu);
        let [p50, p95, p99, max] = times;
        line.push_str(&row([&time, &ok, &p50, &p95, &p99, &max, &failed, &in_flight, &connections, &cpu]));
        line
    }

    fn skipped(&mut self, seconds: u64) -> String {
        let are = if seconds == 1 { "is" } else { "are" };
        format!("{} {are} left out: the reader of this output is too slow\n", figures::counted(seconds, "second"))
    }
}

impl Lines {
    fn outcome(&mut self, outcome: &Outcome) -> String {
        let mut text = String::new();
        if !self.point.is_empty() {
            let times = outcome.totals.sum.times(crate::record::Phase::Response);
            let p99 = figures::time(times.quantile_ns(0.99));
            let failed = figures::share(outcome.totals.sum.failed_share());
            let _ =
                writeln!(text, "{}: {} ok/s, p99 {p99}, failed {failed}", self.point, figures::rate(outcome.rate()));
        }
        if let Limit::Generator(why) = &outcome.limit {
            put(&mut text, "! ", &format!("the generator was the bottleneck, not the target: {}", figures::clean(why)));
        }
        if let EndReason::Failed(why) = &outcome.ended {
            put(&mut text, "! ", &format!("the run was aborted: {}", figures::clean(why)));
        }
        text
    }
}

/// Describes the run that begins.
fn run(plan: &Plan) -> String {
    let mut text = format!(
        "sealway load: {} {}, {}, {}",
        plan.request.method,
        middle(&figures::target(plan), TARGET_MAX),
        figures::protocol(plan),
        figures::arrival(plan)
    );
    if let Some(duration) = plan.stop.duration {
        let _ = write!(text, ", for {}", figures::clock(duration));
    }
    if plan.warm_up > Duration::ZERO {
        let _ = write!(text, " after a warm-up of {} (*)", figures::clock(plan.warm_up));
    }
    text + "\n"
}

fn cell_done(summary: &CellSummary) -> String {
    let name = figures::clean(&summary.name);
    if let Some(missing) = &summary.missing {
        return format!("{name}: {}\n", figures::clean(missing));
    }
    let limit = match &summary.limit {
        Some(Limit::Generator(why)) => format!(", ! the generator was the bottleneck: {}", figures::clean(why)),
        _ => String::new(),
    };
    format!(
        "{name}: {} ok/s ± {} at {}, p95 {}, p99 {}, failed {}, {}{limit}\n",
        figures::rate(summary.rate.mean),
        figures::rate(summary.rate.half),
        summary.knee.map(figures::offered).unwrap_or_else(|| "-".to_owned()),
        figures::time(summary.p95_ns),
        figures::time(summary.p99_ns),
        figures::share(summary.failed_share),
        figures::counted(u64::from(summary.runs), "run")
    )
}

fn row(cells: [&str; 10]) -> String {
    const WIDTHS: [usize; 10] = [8, 8, 8, 8, 8, 8, 8, 10, 8, 6];
    let mut line = String::new();
    for (cell, width) in cells.into_iter().zip(WIDTHS) {
        let _ = write!(line, " {cell:>0$}", width - 1);
    }
    line.trim_end().to_owned() + "\n"
}
