//! Times by phase, and response time beside service time.

use super::super::pane::{Look, Pane, cells, table};
use super::super::state::{State, Whole};
use super::empty;
use crate::figures;
use crate::record::Phase;

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let whole = state.run.as_ref().and_then(|run| run.whole.as_ref());
    let Some(whole) = whole.filter(|whole| !whole.phases.is_empty()) else { return empty(pane, "no responses yet") };
    let mut rows = Vec::new();
    for (phase, figures) in &whole.phases {
        let times = [figures.p50_ns, figures.p95_ns, figures.p99_ns, figures.max_ns].map(figures::time);
        let look = if *phase == Phase::Response { Look::Strong } else { Look::Plain };
        let (name, more) = label(*phase);
        let mut row = vec![name.to_owned()];
        row.extend(times);
        row.extend([figures::count(figures.count), more.to_owned()]);
        rows.push((row, look));
    }
    let fields = [
        ("", false, 0),
        ("p50", true, 1),
        ("p95", true, 4),
        ("p99", true, 2),
        ("max", true, 3),
        ("count", true, 6),
        ("", false, 5),
    ];
    let waits = held_back(whole);
    let room = pane.height().saturating_sub(usize::from(waits.is_some()) + 1);
    if rows.len() > room {
        rows.truncate(room);
    }
    let top = usize::from(waits.is_some());
    if let Some(waits) = waits {
        let end = pane.fitted(0, 0, &waits, Look::Bad);
        let why = ": requests waited in the generator for a free connection";
        if end + cells(why) <= pane.width() {
            pane.text(end, 0, why, Look::Bad);
        }
    }
    table(pane, top, &fields, &rows);
}

/// Returns the name of a phase and its explanation.
fn label(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Response => ("response", "since due"),
        Phase::Service => ("service", "since sent"),
        Phase::Connect => ("connect", "TCP"),
        Phase::Tls => ("TLS", "handshakes"),
        Phase::TlsFull => ("TLS full", "full handshakes"),
        Phase::TlsResumed => ("TLS resumed", "resumed handshakes"),
        Phase::FirstByte => ("first byte", "of the response"),
        Phase::KeyAgreement => ("agreement", "of a session"),
        Phase::Seal => ("seal", "request"),
        Phase::Open => ("open", "response"),
        Phase::Server => ("server", "from Server-Timing"),
        Phase::Failed => ("failed", "since due"),
    }
}

/// Returns a warning if requests waited long before they were sent, compared with their whole response time: service times
/// do not include that wait.
fn held_back(whole: &Whole) -> Option<String> {
    let (response, service) = (whole.phase(Phase::Response).p99_ns, whole.phase(Phase::Service).p99_ns);
    if service == 0 || response < service.saturating_add(service / 5).saturating_add(1_000_000) {
        return None;
    }
    Some(format!("! p99 {}, service p99 only {}", figures::time(response), figures::time(service)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::progress::Event;
    use crate::tui::tests::generated::{self, Story};

    #[test]
    fn a_stall_that_the_service_time_hides_is_reported() {
        let mut state = State::new(false);
        let mut shown = Vec::new();
        for event in generated::single(3, 17, 60) {
            state.apply(event, Duration::ZERO);
            shown.push(state.run.as_ref().and_then(|run| run.whole.as_ref()).and_then(held_back).is_some());
        }
        assert_eq!((shown[16], shown[17]), (false, true));
        let mut story = Story::new(3);
        state.apply(Event::Tick(Box::new(story.tick(100.0))), Duration::ZERO);
        assert!(held_back(state.run.unwrap().whole.as_ref().unwrap()).is_none());
    }
}
