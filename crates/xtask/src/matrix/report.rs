//! The matrix as Markdown and as one HTML page.

use std::fmt::Write as _;

use super::Cell;

/// The parameters of the measurement, for the page.
pub(super) struct Parameters {
    pub(super) debug: bool,
    pub(super) runs: u32,
    pub(super) calls: u32,
    pub(super) concurrency: u32,
}

impl Parameters {
    fn sentence(&self) -> String {
        let of = if self.debug { " Debug builds: whether each pair works, and no measure of how fast." } else { "" };
        format!(
            "Each cell: {} runs of {} calls after a warm-up, {} at a time, on one machine that also runs the servers; the median of the runs.{of}",
            self.runs, self.calls, self.concurrency
        )
    }
}

fn names<'a>(cells: &'a [Cell], of: impl Fn(&'a Cell) -> &'a str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for cell in cells {
        let name = of(cell);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn wires(cells: &[Cell]) -> Vec<u8> {
    let mut wires: Vec<_> = cells.iter().map(|cell| cell.wire).collect();
    wires.dedup();
    wires
}

fn find<'a>(cells: &'a [Cell], wire: u8, client: &str, server: &str) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.wire == wire && cell.client == client && cell.server == server)
}

/// Formats `p50 / p99 ms, calls per second`, or the cause of a failure.
fn shown(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "–".to_owned() };
    match (cell.median(|run| run.p50_ms), cell.median(|run| run.p99_ms), cell.median(|run| run.calls_per_s)) {
        (Some(p50), Some(p99), Some(rate)) => format!("{p50:.2} / {p99:.2} ms, {rate:.0}/s"),
        _ => "FAILED".to_owned(),
    }
}

/// Names, and their figures if all of their cells have one.
type Ranking<'a> = Vec<(&'a str, Option<f64>)>;

/// Ranks names by the mean of their cells' medians, least first. One with a failed cell is last, without a figure.
fn ranking<'a>(
    cells: &'a [Cell],
    of: impl Fn(&'a Cell) -> &'a str + Copy,
    figure: impl Fn(&Cell) -> Option<f64>,
) -> Ranking<'a> {
    let mut ranked: Vec<_> = names(cells, of)
        .into_iter()
        .map(|name| {
            let figures: Option<Vec<f64>> = cells.iter().filter(|cell| of(cell) == name).map(&figure).collect();
            #[allow(clippy::cast_precision_loss, reason = "a handful of cells")]
            let mean = figures.map(|figures| figures.iter().sum::<f64>() / figures.len() as f64);
            (name, mean)
        })
        .collect();
    ranked.sort_by(|a, b| a.1.unwrap_or(f64::MAX).total_cmp(&b.1.unwrap_or(f64::MAX)));
    ranked
}

fn rankings(cells: &[Cell]) -> [(&'static str, Ranking<'_>); 2] {
    [
        (
            "Clients, by the median time of a call, ms",
            ranking(cells, |cell| cell.client, |cell| cell.median(|run| run.p50_ms)),
        ),
        (
            "Servers, by their processor time for a call, ms",
            ranking(cells, |cell| cell.server.as_str(), |cell| cell.median(|run| run.server_cpu_ms)),
        ),
    ]
}

pub(super) fn markdown(cells: &[Cell], told: &Parameters) -> String {
    let mut text = format!("# Clients and servers\n\n{}\n", told.sentence());
    let servers = names(cells, |cell| cell.server.as_str());
    for wire in wires(cells) {
        let _ = writeln!(text, "\n## Wire {wire}\n\n| client | {} |", servers.join(" | "));
        let _ = writeln!(text, "| --- |{}", " --- |".repeat(servers.len()));
        for client in names(cells, |cell| cell.client) {
            let row: Vec<_> = servers.iter().map(|server| shown(find(cells, wire, client, server))).collect();
            let _ = writeln!(text, "| {client} | {} |", row.join(" | "));
        }
    }
    for (title, ranked) in rankings(cells) {
        let _ = writeln!(text, "\n## {title}\n");
        for (place, (name, figure)) in ranked.iter().enumerate() {
            let figure = figure.map_or("failed".to_owned(), |figure| format!("{figure:.2}"));
            let _ = writeln!(text, "{}. {name}: {figure}", place + 1);
        }
    }
    for cell in cells {
        if let Some(fault) = &cell.fault {
            let _ = writeln!(text, "\n**Failed**: {}: {fault}", cell.name());
        }
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;\
color:#1a2330;background:#fff}table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #d5dbe3;\
padding:.35rem .6rem;text-align:left;font-variant-numeric:tabular-nums}.failed{color:#b3261e;font-weight:600}\
.bar{fill:#2f6fb5}svg text{fill:currentColor;font-size:13px}.wide{overflow-x:auto}\
@media(prefers-color-scheme:dark){body{color:#dde3ea;background:#12161d}th,td{border-color:#333c48}\
.failed{color:#ff8a80}.bar{fill:#6aa5e8}}";

pub(super) fn html(cells: &[Cell], told: &Parameters) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Sealway: clients and servers</title><style>{STYLE}</style><h1>Clients and servers</h1><p>{}</p>",
        told.sentence()
    );
    let servers = names(cells, |cell| cell.server.as_str());
    for wire in wires(cells) {
        let _ = write!(page, "<h2>Wire {wire}</h2><div class=\"wide\"><table><tr><th scope=\"col\">client</th>");
        for server in &servers {
            let _ = write!(page, "<th scope=\"col\">{}</th>", escape(server));
        }
        page.push_str("</tr>");
        for client in names(cells, |cell| cell.client) {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(client));
            for server in &servers {
                let cell = find(cells, wire, client, server);
                let fault = cell.and_then(|cell| cell.fault.as_deref());
                let class = if fault.is_some() { " class=\"failed\"" } else { "" };
                let _ = write!(
                    page,
                    "<td{class} title=\"{}\">{}</td>",
                    escape(fault.unwrap_or_default()).replace('"', "&quot;"),
                    shown(cell)
                );
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>");
    }
    for (title, ranked) in rankings(cells) {
        let _ = write!(page, "<h2>{title}</h2>{}", chart(title, &ranked));
    }
    page.push_str("</html>\n");
    page
}

/// Draws a bar for each name, least first.
fn chart(title: &str, ranked: &[(&str, Option<f64>)]) -> String {
    let longest = ranked.iter().filter_map(|(_, figure)| *figure).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{title}\" width=\"100%\" height=\"{}\" viewBox=\"0 0 640 {0}\" preserveAspectRatio=\"xMinYMin\">",
        ranked.len() * 28
    );
    for (row, (name, figure)) in ranked.iter().enumerate() {
        let y = row * 28;
        let width = figure.map_or(0.0, |figure| figure / longest * 420.0);
        let said = figure.map_or("failed".to_owned(), |figure| format!("{figure:.2}"));
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{}\">{}</text><rect class=\"bar\" x=\"110\" y=\"{}\" width=\"{width:.1}\" height=\"16\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{0}\">{said}</text>",
            y + 17,
            escape(name),
            y + 5,
            118.0 + width
        );
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;

    fn cell(client: &'static str, server: &str, p50_ms: &[f64], fault: Option<&str>) -> Cell {
        let runs = p50_ms.iter().map(|&p50_ms| Run { calls_per_s: 10.0, p50_ms, p99_ms: 9.0, server_cpu_ms: 1.0 });
        Cell { client, server: server.into(), wire: 3, runs: runs.collect(), fault: fault.map(str::to_owned) }
    }

    #[test]
    fn a_table_has_the_median_and_names_what_failed() {
        let told = Parameters { debug: false, runs: 3, calls: 10, concurrency: 1 };
        let cells = [cell("go", "gateway", &[3.0, 1.0, 2.0], None), cell("java", "gateway", &[1.0], Some("<401>"))];
        let text = markdown(&cells, &told);
        assert!(text.contains("| go | 2.00 / 9.00 ms, 10/s |"), "{text}");
        assert!(text.contains("| java | FAILED |"), "{text}");
        assert!(text.contains("1. go: 2.00\n2. java: failed"), "{text}");
        assert!(text.contains("**Failed**: wire 3, java -> gateway: <401>"), "{text}");
        let page = html(&cells, &told);
        assert!(page.contains("&lt;401&gt;") && !page.contains("<401>"), "{page}");
    }
}
