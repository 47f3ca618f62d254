//! Processor time and timer delays of the generator, which decide whether the figures describe the target.

use std::time::Duration;

use super::super::pane::{Look, Pane};
use super::super::plot;
use super::super::state::State;
use super::empty;
use crate::engine::{EndReason, Limit};
use crate::figures;

/// Timer delay from which the panel warns.
const LAG_WARN: Duration = Duration::from_millis(2);

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let Some(run) = &state.run else { return empty(pane, "not running yet") };
    let Some(second) = &run.last else { return empty(pane, "not running yet") };
    let mut y = 0;
    let mut line = |pane: &mut Pane<'_>, text: &str, look: Look| {
        pane.fitted(0, y, text, look);
        y += 1;
    };
    let threads = run.plan.threads.max(1);
    let bar = plot::lying(pane.width().saturating_sub(40).clamp(6, 30), second.cpu / threads as f64);
    let plural = if threads == 1 { "" } else { "s" };
    let verdict = state.strained();
    if let Some(verdict) = &verdict {
        line(pane, &format!("! {verdict}"), Look::Warning);
    }
    line(pane, &format!("CPU {bar} {:.2} of {threads} thread{plural}", second.cpu), Look::Plain);
    let lag = run.whole.as_ref().map(|whole| whole.lag_p99).unwrap_or_default();
    let lag = run.end.as_ref().map(|end| end.lag_p99).unwrap_or(lag);
    let lags = (figures::length(second.lag_max), figures::length(lag));
    line(pane, &format!("timer delay {} max in the last second", lags.0), Look::Plain);
    line(pane, &format!("            {} p99 of this run", lags.1), Look::Plain);
    match &run.end {
        None if verdict.is_none() && lag >= LAG_WARN => line(pane, "! the times shown include this delay", Look::Bad),
        None if verdict.is_none() => line(pane, "the generator has capacity to spare", Look::Good),
        None => {}
        Some(end) => {
            match &end.limit {
                Limit::Target => line(pane, "bottleneck: the target", Look::Plain),
                Limit::Offered => line(pane, "bottleneck: none, the target kept up with the offered load", Look::Good),
                Limit::Generator(_) => {}
                Limit::Unmeasured(why) => line(pane, &format!("nothing was measured: {why}"), Look::Bad),
            }
            if let EndReason::Failed(why) = &end.ended {
                line(pane, &figures::clean(why), Look::Bad);
            }
            for warning in &end.warnings {
                line(pane, &format!("! {warning}"), Look::Bad);
            }
        }
    }
}
