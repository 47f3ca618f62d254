//! Forms of a search for the knee and of a matrix, all of them tables.

use std::fmt::Write;

use super::escape::{csv, line, markdown};
use super::file::ReportError;
use super::format::Format;
use super::html;
use super::tuned::{AutotuneReport, MatrixReport, Point};
use super::units::{rate, share, time};
use super::words;
use super::wrap::{WIDTH, put};
use crate::engine::Limit;
use crate::progress::{CellSummary, Estimate, OfferedLoad};

/// Common content of all forms: a heading, sentences and a table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) started_at: String,
    pub(super) warnings: Vec<String>,
    pub(super) sentences: Vec<String>,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) fn autotune(report: &AutotuneReport, format: Format) -> Result<String, ReportError> {
    if format == Format::Csv {
        return Ok(points_csv(report));
    }
    let knee = match (&report.knee, &report.missing) {
        (Some(knee), _) => {
            format!("The knee is at {}: {}.", words::offered(knee.offered), interval(knee.succeeded_per_s))
        }
        (None, Some(why)) => format!("There is no knee: {why}"),
        (None, None) => "There is no knee.".to_owned(),
    };
    let limit = report.limit.iter().map(|limit| format!("Bottleneck: {}.", words::limit(limit)));
    render(
        &Table {
            title: format!("Load search {}", report.label),
            started_at: report.started_at.clone(),
            warnings: report.warnings.clone(),
            sentences: std::iter::once(knee).chain(limit).collect(),
            columns: vec!["load", "succeeded", "failed", "mean", "p50", "p95", "p99", "bottleneck", "verdict"],
            rows: report.points.iter().map(point).collect(),
        },
        format,
    )
}

pub(super) fn matrix(report: &MatrixReport, format: Format) -> Result<String, ReportError> {
    if format == Format::Csv {
        return Ok(cells_csv(report));
    }
    render(
        &Table {
            title: format!("Load matrix {}", report.label),
            started_at: report.started_at.clone(),
            warnings: report.warnings.clone(),
            sentences: vec![format!("{} cells in {}.", report.cells.len(), time(report.elapsed_s * 1e9))],
            columns: vec!["cell", "load", "succeeded", "failed", "mean", "p95", "p99", "runs", "bottleneck"],
            rows: report.cells.iter().map(cell).collect(),
        },
        format,
    )
}

fn interval(of: Estimate) -> String {
    format!("{} ± {}", rate(of.mean), rate(of.half))
}

fn limit(limit: Option<&Limit>) -> String {
    limit
        .map_or("", |limit| match limit {
            Limit::Target => "target",
            Limit::Offered => "none",
            Limit::Generator(_) => "generator",
            Limit::Unmeasured(_) => "unmeasured",
        })
        .to_owned()
}

fn point(point: &Point) -> Vec<String> {
    vec![
        words::offered(point.offered),
        interval(point.succeeded_per_s),
        share(point.failed_share),
        time(point.mean_ns),
        time(point.p50_ns as f64),
        time(point.p95_ns as f64),
        time(point.p99_ns as f64),
        limit(Some(&point.limit)),
        point.verdict.clone(),
    ]
}

fn cell(cell: &CellSummary) -> Vec<String> {
    if let Some(missing) = &cell.missing {
        let mut row = vec![cell.name.clone(), missing.clone()];
        row.resize(9, String::new());
        return row;
    }
    vec![
        cell.name.clone(),
        cell.knee.map(words::offered).unwrap_or_default(),
        interval(cell.rate),
        share(cell.failed_share),
        time(cell.mean_ns),
        time(cell.p95_ns as f64),
        time(cell.p99_ns as f64),
        cell.runs.to_string(),
        limit(cell.limit.as_ref()),
    ]
}

fn render(table: &Table, format: Format) -> Result<String, ReportError> {
    match format {
        Format::Markdown => Ok(as_markdown(table)),
        Format::Html => Ok(html::table_page(table)),
        Format::Text => Ok(as_text(table)),
        Format::Hlog | Format::Junit | Format::Csv | Format::Json => {
            let allowed = "json, csv, markdown, html or text";
            let name = format.name();
            Err(ReportError::Content(format!("a search or a matrix cannot be written as {name}: use {allowed}")))
        }
    }
}

fn as_markdown(table: &Table) -> String {
    let mut out = format!("## {}\n\n", markdown(&table.title));
    table.warnings.iter().for_each(|warning| _ = writeln!(out, "> **Note:** {}\n", markdown(warning)));
    table.sentences.iter().for_each(|sentence| _ = writeln!(out, "{}\n", markdown(sentence)));
    let _ = writeln!(out, "| {} |\n|{}", table.columns.join(" | "), " --- |".repeat(table.columns.len()));
    for row in &table.rows {
        let cells: Vec<_> =
            row.iter().map(|text| if text.is_empty() { String::new() } else { markdown(text) }).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// Renders the table as text. Columns that do not fit into 80 go below their row, each with its name.
fn as_text(table: &Table) -> String {
    let mut out = String::new();
    put(&mut out, "", &line(&table.title));
    table.warnings.iter().for_each(|warning| put(&mut out, " ! ", &line(warning)));
    table.sentences.iter().for_each(|sentence| put(&mut out, "", &line(sentence)));
    out.push('\n');
    // A row without figures has only its name and the reason, and does not widen the columns.
    let alone = |row: &[String]| row.get(2).is_some_and(String::is_empty);
    let width = |column: usize| {
        let of_rows =
            table.rows.iter().filter(|row| column == 0 || !alone(row)).map(|row| line(&row[column]).chars().count());
        of_rows.chain([table.columns[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..table.columns.len()).map(width).collect();
    let mut end = 0;
    let fitting = widths.iter().take_while(|width| {
        end += *width + 2;
        end <= WIDTH
    });
    let fitting = fitting.count().max(1);
    let padded = |row: &[String]| -> String {
        let cells = row.iter().zip(&widths).take(fitting).map(|(text, width)| format!("{:<width$}", line(text)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    put(&mut out, "  ", &padded(&table.columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
    for row in &table.rows {
        if alone(row) {
            put(&mut out, &format!("  {:<1$}  ", line(&row[0]), widths[0].min(WIDTH / 2)), &line(&row[1]));
            continue;
        }
        put(&mut out, "  ", &padded(row));
        let below = row.iter().zip(&table.columns).skip(fitting).filter(|(text, _)| !text.is_empty());
        let below: Vec<_> = below.map(|(text, name)| format!("{name}: {}", line(text))).collect();
        if !below.is_empty() {
            put(&mut out, "      ", &below.join(", "));
        }
    }
    out
}

fn points_csv(report: &AutotuneReport) -> String {
    let mut out =
        "load_unit,load,repeats,succeeded_per_s,succeeded_low_per_s,succeeded_high_per_s,failed_share,mean_ns,p50_ns,\
                   p95_ns,p99_ns,healthy,limit,verdict\r\n"
            .to_owned();
    for point in &report.points {
        let (unit, load) = load(point.offered);
        let of = &point.succeeded_per_s;
        let _ = write!(
            out,
            "{unit},{load},{},{:.3},{:.3},{:.3},{:.6},{:.0},{},{},{},{},{},{}\r\n",
            point.repeats_per_s.len(),
            of.mean,
            of.low(),
            of.high(),
            point.failed_share,
            point.mean_ns,
            point.p50_ns,
            point.p95_ns,
            point.p99_ns,
            point.healthy,
            limit(Some(&point.limit)),
            csv(&point.verdict)
        );
    }
    out
}

fn cells_csv(report: &MatrixReport) -> String {
    let mut out =
        "cell,missing,load_unit,load,succeeded_per_s,succeeded_low_per_s,succeeded_high_per_s,failed_share,mean_ns,\
                   p95_ns,p99_ns,runs,limit\r\n"
            .to_owned();
    for cell in &report.cells {
        let _ = write!(out, "{},{},", csv(&cell.name), csv(cell.missing.as_deref().unwrap_or_default()));
        if cell.missing.is_some() {
            let _ = write!(out, ",,,,,,,,,{},\r\n", cell.runs);
            continue;
        }
        let (unit, load) = cell.knee.map_or(("", String::new()), load);
        let of = &cell.rate;
        let _ = write!(
            out,
            "{unit},{load},{:.3},{:.3},{:.3},{:.6},{:.0},{},{},{},{}\r\n",
            of.mean,
            of.low(),
            of.high(),
            cell.failed_share,
            cell.mean_ns,
            cell.p95_ns,
            cell.p99_ns,
            cell.runs,
            limit(cell.limit.as_ref())
        );
    }
    out
}

fn load(offered: OfferedLoad) -> (&'static str, String) {
    match offered {
        OfferedLoad::Concurrency(workers) => ("concurrency", workers.to_string()),
        OfferedLoad::Rate(rate) => ("rate_per_s", format!("{rate:.3}")),
    }
}
