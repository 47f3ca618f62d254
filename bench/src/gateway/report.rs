//! Prints the table and compares it with the goals.

use super::Cell;
use super::row::Row;
use crate::client::Reuse;
use crate::proxies::{Kind, Proxy};
use crate::table::median;

/// The largest permitted ratio to the best proxy in rows that keep connections.
const REUSE_RATIO: f64 = 1.3;
/// The goal against Envoy: at most this share of its processor time.
const ENVOY_RATIO: f64 = 0.8;

/// The medians of one proxy in one row.
struct Line {
    server: Kind,
    cpu_ns: f64,
}

pub(super) fn print(table: &mut [(Row, Vec<Cell>)], proxies: &[Proxy], seconds: f64, rounds: usize) {
    println!(
        "## Proxies beside each other (median of {rounds} rounds of {seconds} s that take turns)\n\n\
         Proxy: one worker, alone on core 0. Client and the service behind it (200, 128 bytes, plain HTTP/1.1 on kept \
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
        let lines: Vec<Line> =
            cells.iter_mut().map(|cell| Line { server: cell.server, cpu_ns: median(&mut cell.cpu_ns) }).collect();
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
                median(&mut cell.p99_ms),
                median(&mut cell.busy),
                cell.full,
                cell.resumed,
            );
        }
        goals.extend(goal(row, &lines));
    }
    println!();
    if !goals.is_empty() {
        println!("### Ours against the goals\n\n| row | goal | figure | |\n| --- | --- | --- | --- |");
        for goal in goals {
            println!("{goal}");
        }
        println!(
            "\nDebian's nginx and HAProxy carry OpenSSL 3.0, which is slow at handshakes: where a handshake is paid for, \
             envoy with BoringSSL is the comparison that counts.\n"
        );
    }
}

/// Prints the comparison of Sealway with the other proxies, if it was measured beside one.
fn goal(row: &Row, lines: &[Line]) -> Vec<String> {
    let Some(ours) = lines.iter().find(|line| line.server == Kind::Sealway) else { return Vec::new() };
    let others = lines.iter().filter(|line| line.server != Kind::Sealway);
    let Some(best) = others.min_by(|one, other| one.cpu_ns.total_cmp(&other.cpu_ns)) else { return Vec::new() };
    let line = |goal: &str, other: &Line, bound: f64| {
        let ratio = ours.cpu_ns / other.cpu_ns;
        let verdict = crate::table::verdict(ratio, bound);
        format!("| {} | {goal} | {ratio:.2} x {} | {verdict} |", row.name(), other.server.name())
    };
    if row.shakes_hands() {
        return vec![line("least CPU of all", best, 1.0)];
    }
    let mut goals = vec![line(&format!("within {REUSE_RATIO} x the best"), best, REUSE_RATIO)];
    if let Some(envoy) = lines.iter().find(|line| line.server == Kind::Envoy)
        && row.reuse == Reuse::Keep
    {
        goals.push(line(&format!("well ahead of envoy: at most {ENVOY_RATIO} x"), envoy, ENVOY_RATIO));
    }
    goals
}
