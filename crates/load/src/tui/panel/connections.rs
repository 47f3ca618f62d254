//! Requests in flight, connections, handshakes and bytes.

use super::super::pane::{Look, Pane, table};
use super::super::state::State;
use super::empty;
use crate::figures;
use crate::record::Counts;

pub(super) fn draw(pane: &mut Pane<'_>, state: &State) {
    let Some(run) = &state.run else { return empty(pane, "no connections yet") };
    let (Some(second), Some(whole)) = (&run.last, &run.whole) else { return empty(pane, "no connections yet") };
    let (now, all) = (&second.counts, &whole.counts);
    let head = [
        (format!("in flight {}", figures::count(second.in_flight)), Look::Strong),
        (format!("open connections {}", figures::count(second.connections)), Look::Strong),
    ];
    pane.parts(0, 0, &head);
    let count = |name: &str, of: fn(&Counts) -> u64| {
        (vec![name.to_owned(), figures::count(of(now)), figures::count(of(all))], Look::Plain)
    };
    let mut rows = vec![
        count("connections opened", |counts| counts.connections_opened),
        count("connection attempts", |counts| counts.connections_tried),
    ];
    if run.plan.target.tls.is_some() {
        rows.push(count("full handshakes", |counts| counts.handshakes_full));
        rows.push(count("resumed handshakes", |counts| counts.handshakes_resumed));
    }
    if run.plan.target.sealed.is_some() || all.sessions_agreed > 0 {
        rows.push(count("sessions agreed", |counts| counts.sessions_agreed));
    }
    let seconds = second.length.as_secs_f64().max(1e-3);
    let bytes = |name: &str, now: u64, all: u64| {
        let shown = [format!("{}/s", figures::bytes(now as f64 / seconds)), figures::bytes(all as f64)];
        (vec![name.to_owned(), shown[0].clone(), shown[1].clone()], Look::Plain)
    };
    rows.push(bytes("bytes sent", now.bytes_sent, all.bytes_sent));
    rows.push(bytes("bytes received", now.bytes_received, all.bytes_received));
    let fields = [("", false, 0), ("last second", true, 1), ("this run", true, 0)];
    table(pane, 1, &fields, &rows);
}
