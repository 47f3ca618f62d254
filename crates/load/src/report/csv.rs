//! Seconds of a run as CSV (RFC 4180): one line each, with the units in the column names. Each status and each class of
//! failure that occurred has a column.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::document::Report;
use super::units::finite;
use crate::record::{Class, Quantiles, Second};

const FIRST: &str = "at_s,length_s,warm_up,due,started,succeeded,failed,bytes_sent,bytes_received,connections_tried,\
                     connections_opened,reconnections,handshakes_full,handshakes_resumed,sessions_agreed,in_flight,connections,\
                     lag_max_ns,cpu_cores";
const TIMES: [&str; 11] =
    ["count", "min_ns", "mean_ns", "stdev_ns", "p50_ns", "p75_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns"];

pub(super) fn render(report: &Report) -> String {
    let seconds = &report.seconds;
    let statuses: BTreeSet<u16> =
        seconds.iter().flat_map(|row| row.statuses.iter().map(|(status, _)| *status)).collect();
    let classes: BTreeSet<Class> = seconds.iter().flat_map(|row| row.faults.iter().map(|(class, _)| *class)).collect();
    let mut out = FIRST.to_owned();
    for of in ["response", "service"] {
        TIMES.iter().for_each(|name| _ = write!(out, ",{of}_{name}"));
    }
    statuses.iter().for_each(|status| _ = write!(out, ",status_{status}"));
    classes.iter().for_each(|class| _ = write!(out, ",fault_{}", class.name()));
    out.push_str("\r\n");
    for row in seconds {
        second(&mut out, row);
        times(&mut out, &row.response);
        times(&mut out, &row.service);
        let of = |status: &u16| row.statuses.iter().find(|(seen, _)| seen == status).map_or(0, |(_, count)| *count);
        statuses.iter().for_each(|status| _ = write!(out, ",{}", of(status)));
        let of = |class: &Class| row.faults.iter().find(|(seen, _)| seen == class).map_or(0, |(_, count)| *count);
        classes.iter().for_each(|class| _ = write!(out, ",{}", of(class)));
        out.push_str("\r\n");
    }
    out
}

fn second(out: &mut String, row: &Second) {
    let counts = &row.counts;
    let numbers = [
        counts.due,
        counts.started,
        counts.succeeded,
        counts.failed,
        counts.bytes_sent,
        counts.bytes_received,
        counts.connections_tried,
        counts.connections_opened,
        counts.reconnections,
        counts.handshakes_full,
        counts.handshakes_resumed,
        counts.sessions_agreed,
        row.in_flight,
        row.connections,
        u64::try_from(row.lag_max.as_nanos()).unwrap_or(u64::MAX),
    ];
    let _ = write!(out, "{:.3},{:.3},{}", row.at.as_secs_f64(), row.length.as_secs_f64(), row.warm_up);
    numbers.iter().for_each(|number| _ = write!(out, ",{number}"));
    let _ = write!(out, ",{:.3}", finite(row.cpu));
}

/// Appends the columns of `TIMES` in their order. Without times the cells are empty, so that no reader averages zeros.
fn times(out: &mut String, of: &Quantiles) {
    if of.count == 0 {
        out.push_str(",0,,,,,,,,,,");
        return;
    }
    let _ = write!(out, ",{},{},{:.0},{:.0}", of.count, of.min_ns, of.mean_ns, of.stdev_ns);
    let rest = [of.p50_ns, of.p75_ns, of.p90_ns, of.p95_ns, of.p99_ns, of.p999_ns, of.max_ns];
    rest.iter().for_each(|number| _ = write!(out, ",{number}"));
}
