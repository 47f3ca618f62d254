//! Prints the table and compares it with the goals.

use super::row::Row;
use super::{Cell, Options};
use crate::proxies::{Headers, Kind, Proxy};
use crate::table::median;

/// The largest permitted ratio of processor time to that of the best other proxy.
const CPU_RATIO: f64 = 1.0;
/// The largest permitted ratio of the 99th percentile to that of the best other proxy.
const P99_RATIO: f64 = 1.1;

/// The medians of one proxy in one row.
struct Line {
    server: Kind,
    cpu_ns: f64,
    p99_ms: f64,
}

pub(super) fn print(table: &mut [(Row, Vec<Cell>)], proxies: &[Proxy], options: &Options) {
    let Options { seconds, rounds, headers, .. } = options;
    let added = match headers {
        Headers::Origin => "`Forwarded`, `X-Forwarded-For`, `-Proto`, `-Host`, `Via` and `traceparent`",
        Headers::None => "no header",
    };
    println!(
        "## Proxies beside each other (median of {rounds} rounds of {seconds} s that take turns)\n\n\
         Proxy: one worker, alone on core 0, asked to add {added} to each request. Client and the service behind it (200, 128 bytes, plain HTTP/1.1 on kept \
         connections) are one thread on core 1, which never sleeps. Reuse: 64 requests at a time (h1: 64 connections; h2: 4 with 16 streams). New and \
         resumed: 32 connections at a time, each for one request. TLS 1.3, P-256 ECDSA certificates, \
         TLS_AES_128_GCM_SHA256, X25519 offered alone (`hybrid`: X25519MLKEM768 alone). CPU is the scheduler's sum for all \
         threads and workers of the proxy, kernel included; its share of the core is `busy`. Handshakes are counted by the \
         client.\n"
    );
    for proxy in proxies {
        println!("* {}", proxy.version);
    }
    println!(
        "\n| row | proxy | CPU s / 1,000 requests | to the best | requests/s | p50 ms | p99 ms | busy | full | resumed |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut goals = Vec::new();
    for (row, cells) in table {
        let line = |cell: &mut Cell| Line {
            server: cell.server,
            cpu_ns: median(&mut cell.cpu_ns),
            p99_ms: median(&mut cell.p99_ms),
        };
        let lines: Vec<Line> = cells.iter_mut().map(line).collect();
        let best = lines.iter().map(|line| line.cpu_ns).fold(f64::INFINITY, f64::min);
        for (cell, line) in cells.iter_mut().zip(&lines) {
            println!(
                "| {} | {} | {:.4} | {:.2} | {:.0} | {:.2} | {:.2} | {:.0} % | {} | {} |",
                row.name(),
                line.server.name(),
                line.cpu_ns / 1e6,
                line.cpu_ns / best,
                median(&mut cell.rate),
                median(&mut cell.p50_ms),
                line.p99_ms,
                median(&mut cell.busy),
                cell.full,
                cell.resumed,
            );
        }
        goals.extend(goal(row, &lines));
    }
    println!();
    if !goals.is_empty() {
        println!(
            "### Ours against the goals\n\n\
             At most {CPU_RATIO:.1} x the processor time of the best other proxy, and at most {P99_RATIO:.1} x the best p99.\n\n\
             | row | processor time | | p99 | |\n| --- | --- | --- | --- | --- |"
        );
        for goal in goals {
            println!("{goal}");
        }
        println!();
    }
}

/// Compares Sealway with the other proxies, if it was measured beside one.
fn goal(row: &Row, lines: &[Line]) -> Option<String> {
    let ours = lines.iter().find(|line| line.server == Kind::Sealway)?;
    let part = |figure: fn(&Line) -> f64, bound: f64| {
        let others = lines.iter().filter(|line| line.server != Kind::Sealway);
        let best = others.min_by(|one, other| figure(one).total_cmp(&figure(other)))?;
        let ratio = figure(ours) / figure(best);
        Some(format!("{ratio:.2} x {} | {}", best.server.name(), crate::table::verdict(ratio, bound)))
    };
    let (cpu, p99) = (part(|line| line.cpu_ns, CPU_RATIO)?, part(|line| line.p99_ms, P99_RATIO)?);
    Some(format!("| {} | {cpu} | {p99} |", row.name()))
}
