//! Distribution of the whole run's response times, on a logarithmic scale.

use super::super::pane::{Look, Pane, cells};
use super::super::plot::{self, round_time};
use super::super::state::State;
use super::empty;
use super::heat::used;
use crate::figures;
use crate::record::{HEAT_BUCKETS, Heat, Phase};

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let whole = state.run.as_ref().and_then(|run| run.whole.as_ref());
    let Some((whole, (low, high))) = whole.and_then(|whole| Some((whole, used(&whole.heat)?))) else {
        return empty(pane, "no responses yet");
    };
    let rows = pane.height().saturating_sub(3);
    if rows == 0 {
        return;
    }
    let figures = whole.phase(Phase::Response);
    let shown = [("p50", figures.p50_ns), ("p95", figures.p95_ns), ("p99", figures.p99_ns), ("max", figures.max_ns)];
    let shown = shown.map(|(name, ns)| (format!("{name} {}", figures::time(ns)), Look::Plain));
    pane.parts(0, 0, &shown);

    let width = pane.width();
    let group = (high - low + 1).div_ceil(width.max(1));
    let bars = (high - low + 1).div_ceil(group);
    let wide = (width / bars).clamp(1, 6);
    let count = |bar: usize| {
        let from = low + bar * group;
        whole.heat.0[from..(from + group).min(HEAT_BUCKETS)].iter().sum::<u64>()
    };
    let most = (0..bars).map(count).max().unwrap_or(0).max(1);
    let mut area = pane.part(0, 1, width, rows);
    for bar in 0..bars {
        let thick = if wide > 2 { wide - 1 } else { wide };
        plot::bar(&mut area, bar * wide, thick, rows, count(bar) as f64 / most as f64, Look::Bar);
    }
    axis(&mut pane.part(0, 1 + rows, width, 2), bars * wide, (low, low + bars * group), &told_marks(&shown, figures));
}

fn told_marks(shown: &[(String, Look)], figures: crate::record::Quantiles) -> Vec<(u64, String)> {
    let times = [figures.p50_ns, figures.p95_ns, figures.p99_ns];
    times.into_iter().zip(shown).map(|(ns, (text, _))| (ns, text.chars().take(3).collect())).collect()
}

/// Draws the axis: a line with marks at the percentiles, and below it times at powers of ten and between if there is room.
fn axis(pane: &mut Pane<'_>, width: usize, (low, high): (usize, usize), percentiles: &[(u64, String)]) {
    let place = |ns: u64| {
        let at = (ns.max(1) as f64 / 1000.0).log10().max(0.0) * 8.0;
        (((at - low as f64) / (high - low) as f64).clamp(0.0, 1.0) * width.saturating_sub(1) as f64).round() as usize
    };
    pane.text(0, 0, &"─".repeat(width), Look::Faint);
    for (index, (ns, name)) in percentiles.iter().enumerate() {
        let x = place(*ns);
        let end = percentiles.get(index + 1).map_or(pane.width(), |(next, _)| place(*next));
        let text = if x + 1 + cells(name) <= end { format!("▲{name}") } else { "▲".to_owned() };
        pane.text(x, 0, &text, Look::Strong);
    }
    let mut free = 0;
    for ns in plot::Scale::new(Heat::from_ns(low), Heat::from_ns(high.min(HEAT_BUCKETS))).marks(width / 9) {
        let (x, text) = (place(ns), round_time(ns));
        if x >= free && x + cells(&text) <= pane.width() && (x > 0 || ns >= Heat::from_ns(low)) {
            free = pane.text(x, 1, &text, Look::Faint) + 2;
        }
    }
}
