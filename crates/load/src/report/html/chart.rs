//! SVG charts: a frame with axes, curves, and for each column a strip that shows its figures.

use std::fmt::Write;

use super::super::escape::markup;
use super::axis::{Scale, clock, time_marks};
use super::buckets::ends;
use crate::record::Second;

/// Size of the drawing in its own units: wide enough for a desktop column, and readable on a phone.
pub(super) const WIDTH: f64 = 460.0;
pub(super) const HEIGHT: f64 = 250.0;
/// Edges of the area that holds the curves.
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 452.0;
pub(super) const TOP: f64 = 10.0;
pub(super) const BOTTOM: f64 = 222.0;

/// Curve with a class for colour and dashes, a name, and values, `None` for a gap.
pub(super) struct Curve<'a> {
    pub(super) class: char,
    pub(super) name: &'a str,
    pub(super) values: Vec<Option<f64>>,
    /// True if the area below the curve is filled.
    pub(super) filled: bool,
}

/// Chart of curves over time.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// Text alternative for readers who do not see the chart.
    pub(super) summary: String,
    pub(super) curves: Vec<Curve<'a>>,
    /// Marks of the vertical axis.
    pub(super) marks: Vec<f64>,
    /// Ends of the vertical axis.
    pub(super) ends: (f64, f64),
    pub(super) log: bool,
    /// Formats of a value on the axis and at a point.
    pub(super) mark: fn(f64) -> String,
    pub(super) value: fn(f64) -> String,
}

impl Chart<'_> {
    /// Draws a card with the chart and its legend.
    pub(super) fn over_time(&self, buckets: &[Second]) -> String {
        let (x, y) = (time_scale(buckets), self.vertical());
        let mut svg = open(self.title, &self.summary);
        warm_up(&mut svg, buckets, &x);
        rows(&mut svg, &self.marks, &y, self.mark);
        time_axis(&mut svg, buckets, &x);
        for curve in &self.curves {
            let points = buckets
                .iter()
                .zip(&curve.values)
                .map(|(bucket, value)| (x.at(middle(bucket)), value.map(|value| y.at(value))));
            draw(&mut svg, curve, points);
        }
        for (index, bucket) in buckets.iter().enumerate() {
            let shown = self
                .curves
                .iter()
                .map(|curve| format!("{}: {}", curve.name, curve.values[index].map_or("none".to_owned(), self.value)));
            let words = std::iter::once(span(bucket)).chain(shown).collect::<Vec<_>>().join("\n");
            let (from, to) = ends(bucket);
            hit(&mut svg, x.at(from), x.at(to), &words);
        }
        svg.push_str("</svg>");
        card(self.title, &svg, &self.legend(), "")
    }

    pub(super) fn vertical(&self) -> Scale {
        let (from, to) = self.ends;
        if self.log { Scale::log(from, to, BOTTOM, TOP) } else { Scale::linear(from, to, BOTTOM, TOP) }
    }

    pub(super) fn legend(&self) -> String {
        let mut out = String::from(r#"<ul class="legend">"#);
        for Curve { class, name, .. } in &self.curves {
            let line = format!(
                r#"<svg viewBox="0 0 26 10" aria-hidden="true"><path class="curve {class}" d="M0 5H26"/></svg>"#
            );
            let _ = write!(out, "<li>{line}{}</li>", markup(name));
        }
        out + "</ul>"
    }
}

/// Wraps a drawing in a card.
pub(super) fn card(title: &str, svg: &str, legend: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!(r#"<p class="soft">{}</p>"#, markup(note)) };
    format!(r#"<section class="card"><h2>{}</h2>{svg}{legend}{note}</section>"#, markup(title))
}

/// Opens a drawing with its text alternative.
pub(super) fn open(title: &str, summary: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}"><desc>{}</desc>"#,
        markup(&format!("{title}. {summary}")),
        markup(summary)
    )
}

/// Draws horizontal lines with their values.
pub(super) fn rows(svg: &mut String, marks: &[f64], y: &Scale, shown: fn(f64) -> String) {
    for mark in marks {
        let at = y.at(*mark);
        let _ = write!(svg, r#"<path class="grid" d="M{LEFT} {at:.1}H{RIGHT}"/>"#);
        let (x, y) = (LEFT - 6.0, at + 4.0);
        let _ = write!(svg, r#"<text x="{x}" y="{y:.1}" text-anchor="end">{}</text>"#, markup(&shown(*mark)));
    }
}

/// Returns the end of the last bucket, in seconds.
fn end(buckets: &[Second]) -> f64 {
    buckets.last().map_or(1.0, |bucket| bucket.at.as_secs_f64())
}

/// Returns the time scale of all buckets.
pub(super) fn time_scale(buckets: &[Second]) -> Scale {
    Scale::linear(0.0, end(buckets), LEFT, RIGHT)
}

/// Draws the horizontal time axis.
pub(super) fn time_axis(svg: &mut String, buckets: &[Second], x: &Scale) {
    let _ = write!(svg, r#"<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>"#);
    for mark in time_marks(end(buckets)) {
        column_mark(svg, x.at(mark), &clock(mark));
    }
}

/// Draws a mark below the horizontal axis; near the right end its text is aligned to stay within the drawing.
pub(super) fn column_mark(svg: &mut String, at: f64, text: &str) {
    let (tick, below) = (BOTTOM + 5.0, BOTTOM + 20.0);
    let anchor = if at > RIGHT - 14.0 { "end" } else { "middle" };
    let _ = write!(svg, r#"<path class="axis" d="M{at:.1} {BOTTOM}V{tick}"/>"#);
    let _ = write!(svg, r#"<text x="{at:.1}" y="{below}" text-anchor="{anchor}">{}</text>"#, markup(text));
}

/// Shades the area of the warm-up.
pub(super) fn warm_up(svg: &mut String, buckets: &[Second], x: &Scale) {
    let Some(last) = buckets.iter().rev().find(|bucket| bucket.warm_up) else { return };
    let (width, height) = (x.at(last.at.as_secs_f64()) - LEFT, BOTTOM - TOP);
    let _ = write!(svg, r#"<rect class="warm" x="{LEFT}" y="{TOP}" width="{width:.1}" height="{height}"/>"#);
}

/// Draws a strip that shows its figures under the pointer.
pub(super) fn hit(svg: &mut String, from: f64, to: f64, words: &str) {
    let (width, height) = ((to - from).max(0.5), BOTTOM - TOP);
    // The lines of a title are trusted: numbers and names of curves. Each is escaped, and the line breaks stay.
    let words: Vec<_> = words.lines().map(markup).collect();
    let words = words.join("\n");
    let _ = write!(
        svg,
        r#"<rect class="hit" x="{from:.1}" y="{TOP}" width="{width:.1}" height="{height}"><title>{words}</title></rect>"#
    );
}

/// Formats the time that a bucket spans.
pub(super) fn span(bucket: &Second) -> String {
    let warm_up = if bucket.warm_up { " (warm-up)" } else { "" };
    let (from, to) = ends(bucket);
    format!("{} to {}{warm_up}", clock(from), clock(to))
}

fn middle(bucket: &Second) -> f64 {
    let (from, to) = ends(bucket);
    f64::midpoint(from, to)
}

/// Draws a curve through these points, with gaps at `None`; a single point becomes a dot.
pub(super) fn draw(svg: &mut String, curve: &Curve<'_>, points: impl Iterator<Item = (f64, Option<f64>)>) {
    let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (x, y) in points {
        match (y, parts.last_mut()) {
            (Some(y), Some(part)) => part.push((x, y)),
            (None, Some(part)) if !part.is_empty() => parts.push(Vec::new()),
            _ => {}
        }
    }
    let class = curve.class;
    let (mut line, mut area) = (String::new(), String::new());
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if let [(x, y)] = part[..] {
            let _ = write!(svg, r#"<circle class="dot f{class}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#);
            continue;
        }
        let mut path = String::new();
        for (index, (x, y)) in part.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(area, "{path}V{BOTTOM}H{:.1}Z", part[0].0);
        line.push_str(&path);
    }
    if curve.filled && !area.is_empty() {
        let _ = write!(svg, r#"<path class="area f{class}" d="{area}"/>"#);
    }
    if !line.is_empty() {
        let _ = write!(svg, r#"<path class="curve {class}" d="{line}"/>"#);
    }
}
