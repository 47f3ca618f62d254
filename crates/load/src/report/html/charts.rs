//! Charts of a run: throughput, response times, the heat map, the distribution, and open requests and connections.

use std::fmt::Write;

use super::super::document::Report;
use super::super::histogram;
use super::super::units::{count, counted, digits, rate, time};
use super::axis::{Scale, linear_marks, log_ends, log_marks, short_number, short_time};
use super::buckets::ends;
use super::chart::{
    BOTTOM, Chart, Curve, LEFT, RIGHT, TOP, card, column_mark, draw, hit, open, rows, span, time_axis, time_scale,
};
use crate::record::{HEAT_BUCKETS, Heat, Phase, Second};

/// Number of shades in the heat map.
const SHADES: usize = 8;
/// Number of intervals in a curve of the distribution.
const POINTS: usize = 160;

fn curve<'a>(class: char, name: &'a str, values: Vec<Option<f64>>) -> Curve<'a> {
    Curve { class, name, values, filled: false }
}

fn largest(curves: &[Curve<'_>]) -> f64 {
    curves.iter().flat_map(|curve| curve.values.iter().flatten()).fold(0.0, |max, value| value.max(max))
}

/// Returns a chart on a linear scale from 0.
fn from_zero<'a>(title: &'a str, summary: String, curves: Vec<Curve<'a>>, value: fn(f64) -> String) -> Chart<'a> {
    let marks = linear_marks(largest(&curves));
    let ends = (0.0, marks[marks.len() - 1]);
    Chart { title, summary, curves, marks, ends, log: false, mark: short_number, value }
}

pub(super) fn throughput(report: &Report, buckets: &[Second]) -> String {
    let of = |value: fn(&Second) -> f64| buckets.iter().map(|bucket| Some(value(bucket))).collect();
    let mut curves = vec![
        curve('a', "succeeded", of(|bucket| bucket.per_second(bucket.counts.succeeded))),
        curve('b', "due", of(|bucket| bucket.per_second(bucket.counts.due))),
        curve('c', "failed", of(|bucket| bucket.per_second(bucket.counts.failed))),
    ];
    curves[0].filled = true;
    let summary = format!(
        "Mean: {} succeeded, {} due. Best second: {} succeeded.",
        rate(report.rates.succeeded_per_s),
        rate(report.rates.due_per_s),
        rate(largest(&curves[..1]))
    );
    from_zero("Requests per second", summary, curves, rate).over_time(buckets)
}

pub(super) fn times(report: &Report, buckets: &[Second]) -> String {
    let of = |value: fn(&Second) -> u64| {
        let shown = |bucket| Some(value(bucket) as f64).filter(|_| bucket.response.count > 0);
        buckets.iter().map(shown).collect::<Vec<_>>()
    };
    let curves = vec![
        curve('c', "max", of(|bucket| bucket.response.max_ns)),
        curve('b', "p99", of(|bucket| bucket.response.p99_ns)),
        curve('e', "p95", of(|bucket| bucket.response.p95_ns)),
        curve('a', "p50", of(|bucket| bucket.response.p50_ns)),
        curve('d', "service p99", of(|bucket| bucket.service.p99_ns)),
    ];
    let all = || curves.iter().flat_map(|curve| curve.values.iter().flatten().copied());
    let title = "Response time";
    let (Some(min), Some(max)) = (all().reduce(f64::min), all().reduce(f64::max)) else {
        return card(title, "", "", "No request succeeded, so there are no response times.");
    };
    let summary = match report.phase(Phase::Response) {
        Some(times) => format!(
            "Whole run: p50 {}, p95 {}, p99 {}, max {}. Logarithmic scale.",
            time(times.p50_ns as f64),
            time(times.p95_ns as f64),
            time(times.p99_ns as f64),
            time(times.max_ns as f64)
        ),
        None => String::new(),
    };
    let ends = log_ends(min, max);
    let marks = log_marks(ends);
    Chart { title, summary, curves, marks, ends, log: true, mark: short_time, value: time }.over_time(buckets)
}

pub(super) fn open_things(buckets: &[Second]) -> String {
    let of = |value: fn(&Second) -> u64| buckets.iter().map(|bucket| Some(value(bucket) as f64)).collect();
    let curves = vec![
        curve('a', "requests in flight", of(|bucket| bucket.in_flight)),
        curve('b', "connections", of(|bucket| bucket.connections)),
    ];
    let most = |curve: &Curve<'_>| digits(largest(std::slice::from_ref(curve)));
    let summary = format!("Maximum: {} requests in flight, {} connections.", most(&curves[0]), most(&curves[1]));
    from_zero("Requests in flight and connections", summary, curves, digits).over_time(buckets)
}

pub(super) fn heat(buckets: &[Second]) -> String {
    let title = "Response time heat map";
    let used = |column: &usize| buckets.iter().any(|bucket| bucket.heat.0[*column] > 0);
    let (Some(first), Some(last)) = ((0..HEAT_BUCKETS).find(used), (0..HEAT_BUCKETS).rfind(used)) else {
        return card(title, "", "", "No request succeeded, so there are no response times.");
    };
    let most = buckets.iter().flat_map(|bucket| bucket.heat.0.iter().copied()).max().unwrap_or(1).max(1);
    let edge = |column: usize| Heat::from_ns(column) as f64;
    let (x, y) = (time_scale(buckets), Scale::log(edge(first), edge(last + 1), BOTTOM, TOP));
    let summary = format!(
        "Requests by time and response time, from {} to {}. The cell with the most requests has {}.",
        time(edge(first)),
        time(edge(last + 1)),
        count(most)
    );
    let mut svg = open(title, &summary);
    let mut shades = vec![String::new(); SHADES];
    for bucket in buckets {
        let (from, to) = ends(bucket);
        let (from, to) = (x.at(from), x.at(to));
        for (column, seen) in bucket.heat.0.iter().enumerate().filter(|(_, seen)| **seen > 0) {
            // Logarithmic: a single slow request must be visible beside thousands of fast ones.
            let share = (*seen as f64).ln_1p() / (most as f64).ln_1p();
            let shade = ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1;
            let (top, bottom) = (y.at(edge(column + 1)), y.at(edge(column)));
            let (width, height) = (to - from + 0.2, bottom - top + 0.2);
            let _ = write!(shades[shade], "M{from:.1} {top:.1}h{width:.1}v{height:.1}h-{width:.1}z");
        }
    }
    for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = write!(svg, r#"<path class="h{}" d="{path}"/>"#, shade + 1);
    }
    rows(&mut svg, &log_marks((edge(first), edge(last + 1))), &y, short_time);
    time_axis(&mut svg, buckets, &x);
    for bucket in buckets {
        let seen: u64 = bucket.heat.0.iter().sum();
        let mode = bucket.heat.0.iter().enumerate().max_by_key(|(_, seen)| **seen).map_or(0, |(column, _)| column);
        let words = match seen {
            0 => format!("{}\nno responses", span(bucket)),
            _ => format!(
                "{}\n{}, most between {} and {}",
                span(bucket),
                counted(seen, "request"),
                time(edge(mode)),
                time(edge(mode + 1))
            ),
        };
        let (from, to) = ends(bucket);
        hit(&mut svg, x.at(from), x.at(to), &words);
    }
    svg.push_str("</svg>");
    card(title, &svg, &shade_legend(most), "")
}

fn shade_legend(most: u64) -> String {
    let mut out = String::from(r#"<ul class="legend"><li>1 request <svg viewBox="0 0 64 10" aria-hidden="true">"#);
    for shade in 0..SHADES {
        let _ = write!(out, r#"<rect class="h{}" x="{}" y="0" width="8.2" height="10"/>"#, shade + 1, shade * 8);
    }
    let _ = write!(out, "</svg>{}</li></ul>", count(most));
    out
}

/// Draws response and service times by percentile, with equal distances for each nine.
pub(super) fn distribution(report: &Report) -> String {
    let title = "Response time distribution";
    let histogram = |phase| {
        let text = &report.histograms.iter().find(|one| one.phase == phase)?.v2_deflate_base64;
        histogram::decode(text).ok()
    };
    let (Some(response), Some(service)) = (histogram(Phase::Response), histogram(Phase::Service)) else {
        return card(title, "", "", "No request succeeded, so there are no response times.");
    };
    let nines = (response.len().max(10) as f64).log10().clamp(1.0, 6.0);
    let share = |index: usize| 1.0 - 10f64.powf(-nines * index as f64 / POINTS as f64);
    let of = |histogram: &hdrhistogram::Histogram<u64>| {
        (0..=POINTS).map(|index| Some(histogram.value_at_quantile(share(index)) as f64)).collect()
    };
    let curves =
        vec![curve('a', "response (since due)", of(&response)), curve('b', "service (since sent)", of(&service))];
    let least = response.min().min(service.min()) as f64;
    let ends = log_ends(least, response.max().max(service.max()) as f64);
    let marks = log_marks(ends);
    let summary =
        "Response and service time by percentile. Only the response time includes the wait before a request was sent.";
    let chart =
        Chart { title, summary: summary.to_owned(), curves, marks, ends, log: true, mark: short_time, value: time };
    let (x, y) = (Scale::linear(0.0, nines, LEFT, RIGHT), chart.vertical());
    let mut svg = open(title, summary);
    rows(&mut svg, &chart.marks, &y, chart.mark);
    let _ = write!(svg, r#"<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>"#);
    for (at, name) in
        [(0.0, "0 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %"), (5.0, "99.999 %"), (6.0, "")]
    {
        if at <= nines + 1e-9 {
            column_mark(&mut svg, x.at(at), name);
        }
    }
    let place = |index: usize| x.at(nines * index as f64 / POINTS as f64);
    for curve in &chart.curves {
        let points =
            curve.values.iter().enumerate().map(|(index, value)| (place(index), value.map(|value| y.at(value))));
        draw(&mut svg, curve, points);
    }
    for index in (0..POINTS).step_by(2) {
        let at = |curve: usize| time(chart.curves[curve].values[index].unwrap_or(0.0));
        let words = format!("{:.4} % took at most\nresponse: {}\nservice: {}", share(index) * 100.0, at(0), at(1));
        hit(&mut svg, place(index), place(index + 2), &words);
    }
    svg.push_str("</svg>");
    card(title, &svg, &chart.legend(), "")
}
