//! Prints the tables, and compares them with the last committed result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::cases::Row;
use super::kpi::Line;
use super::{Figures, Options};

/// The largest relative change of a ratio against the last result. Larger changes are marked.
const NOTABLE: f64 = 0.2;

/// A result as it is committed under bench/results, in `DATE-broker.json`.
#[derive(Serialize, Deserialize)]
struct Document {
    rows: Vec<Row>,
    ratios: BTreeMap<String, f64>,
    rss_kib_after_calls: u64,
    start_ms: f64,
}

/// Returns the root folder of the repository.
pub(super) fn root() -> PathBuf {
    sealway_testkit::daemon::root()
}

pub(super) fn print(measured: &Figures, options: &Options) -> anyhow::Result<()> {
    println!(
        "## The broker (median of {} rounds of {} s that take turns)\n\n\
         Server on core 0 with one worker thread, client on core 1: one thread, one connection, the same for every gRPC server. \
         CPU is the kernel's count of the server's processor time, its own work for it included. Inputs have 64 bytes. Log at warn, no traces. {}\n",
        options.rounds, options.seconds, measured.others
    );
    println!("| row | at a time | inputs a call | p50 µs | server CPU µs a call | CPU µs an input | calls/s |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in &measured.rows {
        println!(
            "| {} | {} | {} | {:.1} | {:.2} | {:.2} | {:.0} |",
            row.name,
            row.in_flight,
            row.inputs,
            row.p50_us,
            row.cpu_us,
            row.cpu_us / row.inputs as f64,
            row.rate
        );
    }
    println!("\n| bare, in this process | µs |\n| --- | ---: |");
    println!("| SHA-256 of 64 bytes | {:.2} |", measured.bare.sha256 / 1e3);
    println!("| SHA3-512 of 64 bytes | {:.2} |", measured.bare.sha3_512 / 1e3);
    for key in &measured.bare.keys {
        println!("| signature {} | {:.1} |", key.name, key.sign / 1e3);
        println!("| CSR verify (P-256) and signature {} | {:.1} |", key.name, key.verify_and_sign / 1e3);
        println!("| the broker's handler of a certificate {} | {:.1} |", key.name, key.issue / 1e3);
    }
    lines("What the broker that this one replaces promises", &measured.old()?);
    lines("Our goals", &measured.goals()?);
    println!(
        "\nResident memory of grpc-go's echo after as many calls: {:.1} MiB.\n",
        measured.echo.after_calls as f64 / 1024.0
    );
    let document = Document {
        rows: measured.rows.clone(),
        ratios: measured.ratios()?.into_iter().collect(),
        rss_kib_after_calls: measured.ours.after_calls,
        start_ms: measured.starts_ms,
    };
    compare(&document)?;
    if let Some(out) = &options.out {
        let text = serde_json::to_string_pretty(&document)? + "\n";
        std::fs::write(out, text).with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(())
}

fn lines(title: &str, lines: &[Line]) {
    println!("\n### {title}\n\n| what | goal | ours | |\n| --- | --- | --- | --- |");
    for Line { what, goal, figure, verdict } in lines {
        println!("| {what} | {goal} | {figure} | {verdict} |");
    }
}

/// Prints the ratios beside those of the newest result in the folder.
fn compare(now: &Document) -> anyhow::Result<()> {
    let Some((name, before)) = last(&root().join("bench/results"))? else {
        println!("There is no committed result to compare with.\n");
        return Ok(());
    };
    println!("### Ratios, beside {name}\n\n| ratio | before | now | |\n| --- | ---: | ---: | --- |");
    for (ratio, now) in &now.ratios {
        let Some(before) = before.ratios.get(ratio) else {
            println!("| {ratio} | | {now:.2} | new |");
            continue;
        };
        let change = now / before - 1.0;
        let word = match change {
            change if change > NOTABLE => "worse",
            change if change < -NOTABLE => "better",
            _ => "",
        };
        println!("| {ratio} | {before:.2} | {now:.2} | {word} |");
    }
    println!();
    Ok(())
}

fn last(folder: &Path) -> anyhow::Result<Option<(String, Document)>> {
    let mut names: Vec<_> = std::fs::read_dir(folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with("-broker.json"))
        .collect();
    names.sort();
    let Some(name) = names.pop() else { return Ok(None) };
    let text = std::fs::read_to_string(folder.join(&name))?;
    let document = serde_json::from_str(&text).with_context(|| name.clone())?;
    Ok(Some((name, document)))
}
