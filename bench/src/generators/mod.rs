//! Compares load generators by the number of requests that each can send with one thread on a core of its own, to the same nginx
//! on the other core. Each round measures each tool in each case in turn. nginx counts the requests, so the figures do not depend
//! on the tools' own reports.

mod sockets;
mod target;
mod tool;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use sealway_testkit::certificates::Certificates;

use self::target::Target;
use self::tool::{InstalledTool, Order, Tool};
use self::watch::Running;
use crate::procfs;
use crate::table::median;

/// The time that a tool may take beyond its measuring time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cases that every tool runs, if it speaks their protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    Http,
    Https,
    H2,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Http => "http/1.1",
            Case::Https => "https/1.1",
            Case::H2 => "https/2",
        }
    }
}

/// Tools to compare, and settings of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Path of the sealway binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Cases to run [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Tools to compare [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    tools: Vec<Tool>,
    /// Seconds a case, tool and round
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Open connections of ours to hold at once; as many as the limit of descriptors allows, up to 50,000, without
    #[arg(long)]
    sockets: Option<usize>,
    /// Minutes of the run that shows whether memory grows
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// A second a case, one round, and a minute for memory: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// The comparison alone, without connections and memory
    #[arg(long)]
    comparison_only: bool,
}

/// The results of one tool in one case.
struct Cell {
    case: Case,
    tool: Tool,
    rate: Vec<f64>,
    per_cpu_s: Vec<f64>,
    rss_mib: Vec<f64>,
    target_busy: Vec<f64>,
}

/// Measures all cases and prints a table.
///
/// # Errors
/// If a tool is missing or fails, or the server does not start.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (seconds, rounds) = if options.quick { (1, 1) } else { (options.seconds, options.rounds) };
    ensure!(seconds > 0 && rounds > 0, "nothing is measured in no time");
    crate::ours::raise_descriptor_limit()?;
    let folder = tempfile::Builder::new().prefix("sealway-generators-").tempdir()?;
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "sealway bench")?;
    let target = Target::start(folder.path(), &certificates)?;
    let tools = if options.tools.is_empty() { Tool::ALL.to_vec() } else { options.tools.clone() };
    let found: Vec<InstalledTool> =
        tools.into_iter().map(|tool| tool.find(options.sealway.clone())).collect::<anyhow::Result<_>>()?;
    let cases = [Case::Http, Case::Https, Case::H2];
    let cases = if options.cases.is_empty() { cases.to_vec() } else { options.cases.clone() };
    let bench = Bench { folder: folder.path(), ca: &certificates.ca, target: &target, used_s: Default::default() };

    let mut cells: Vec<Cell> = cases
        .iter()
        .flat_map(|case| found.iter().filter(|one| one.tool.is_for(*case)).map(|one| Cell::new(*case, one.tool)))
        .collect();
    let others = procfs::Others::start(&[target.pid()])?;
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for cell in &mut cells {
            let one = found.iter().find(|one| one.tool == cell.tool).context("no such tool")?;
            let what = || format!("{}, {}", cell.tool.name(), cell.case.name());
            let sample = bench.measure(one, cell.case, seconds).with_context(what)?;
            cell.add(&sample);
        }
    }
    let noise = others.in_words_without((bench.used_s.get() * 1e9) as u64)?;
    print(&mut cells, &found, &target, seconds, rounds);
    println!("{}", bench.resumption(&found)?);
    println!("{noise}\n");
    if !options.comparison_only {
        let minutes = if options.quick { options.minutes.min(1.0) } else { options.minutes };
        let ours = Tool::Sealway.find(options.sealway.clone())?;
        sockets::open(&bench, &ours, options.sockets)?;
        sockets::memory(&bench, &ours, minutes)?;
    }
    Ok(())
}

/// State shared by all measurements: the target and its files.
struct Bench<'a> {
    folder: &'a Path,
    ca: &'a Path,
    target: &'a Target,
    /// Processor time of generators that have exited, in seconds.
    used_s: std::cell::Cell<f64>,
}

/// The figures of one round of one tool in one case.
struct Sample {
    rate: f64,
    per_cpu_s: f64,
    rss_mib: f64,
    target_busy: f64,
}

impl Bench<'_> {
    fn order<'a>(&'a self, case: Case, url: &'a str, seconds: u64) -> Order<'a> {
        Order { case, url, ca: self.ca, seconds, folder: self.folder, new_connections: false }
    }

    fn measure(&self, one: &InstalledTool, case: Case, seconds: u64) -> anyhow::Result<Sample> {
        let url = self.target.url(case);
        let command = one.command(&self.order(case, &url, seconds))?;
        let before = (self.target.requests()?, procfs::cpu_ns(self.target.pid())?);
        let running = Running::start(&command, self.folder, None)?;
        let cost = running.finish(self.folder, Duration::from_secs(seconds) + PATIENCE)?;
        self.used_s.set(self.used_s.get() + cost.cpu_s);
        let busy_s = (procfs::cpu_ns(self.target.pid())? - before.1) as f64 / 1e9;
        // The second query of the counter is a request too.
        let requests = (self.target.requests()? - before.0).saturating_sub(1) as f64;
        ensure!(requests > 0.0, "nginx saw no request of it");
        Ok(Sample {
            rate: requests / seconds as f64,
            per_cpu_s: requests / cost.cpu_s.max(1e-3),
            rss_mib: cost.rss_mib,
            target_busy: busy_s / seconds as f64,
        })
    }

    /// Measures the share of TLS sessions that each tool resumes on new connections by default. Returns one line of text.
    fn resumption(&self, found: &[InstalledTool]) -> anyhow::Result<String> {
        let url = self.target.probe_url();
        let mut text = String::from("Resumed TLS handshakes of new connections, unasked:");
        for one in found {
            self.target.handshakes()?;
            let order = Order { new_connections: true, ..self.order(Case::Https, &url, 1) };
            let running = Running::start(&one.command(&order)?, self.folder, None)?;
            running.finish(self.folder, PATIENCE).with_context(|| one.tool.name())?;
            let (resumed, all) = self.target.handshakes()?;
            ensure!(all > 0, "nginx saw no handshake of {}", one.tool.name());
            text.push_str(&format!(" {} {:.0} %;", one.tool.name(), resumed as f64 / all as f64 * 100.0));
        }
        Ok(text.trim_end_matches(';').to_owned() + ".")
    }
}

impl Cell {
    fn new(case: Case, tool: Tool) -> Self {
        let (rate, per_cpu_s, rss_mib, target_busy) = Default::default();
        Cell { case, tool, rate, per_cpu_s, rss_mib, target_busy }
    }

    fn add(&mut self, sample: &Sample) {
        self.rate.push(sample.rate);
        self.per_cpu_s.push(sample.per_cpu_s);
        self.rss_mib.push(sample.rss_mib);
        self.target_busy.push(sample.target_busy);
    }
}

fn print(cells: &mut [Cell], found: &[InstalledTool], target: &Target, seconds: u64, rounds: usize) {
    let versions: Vec<_> = found.iter().map(|one| format!("{} {}", one.tool.name(), one.version)).collect();
    println!("## Load generators: one thread on one core, nginx {} on the other\n", target.version);
    println!("{}.", versions.join(", "));
    println!(
        "{} connections with a request at a time; over HTTP/2 {} with {}. {seconds} s, median of {rounds}. Requests are \
         those that nginx counted.\n",
        tool::CONNECTIONS,
        tool::H2_CONNECTIONS,
        tool::CONNECTIONS / tool::H2_CONNECTIONS
    );
    println!("| case | tool | requests/s | beside ours | requests a CPU second | RSS MiB | nginx's core busy |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    let ours: Vec<(Case, f64)> = cells
        .iter_mut()
        .filter(|cell| cell.tool == Tool::Sealway)
        .map(|cell| (cell.case, median(&mut cell.rate)))
        .collect();
    for cell in cells {
        let rate = median(&mut cell.rate);
        let beside = ours
            .iter()
            .find(|(case, _)| *case == cell.case)
            .map_or(String::new(), |(_, ours)| format!("{:.2}", rate / ours));
        println!(
            "| {} | {} | {rate:.0} | {beside} | {:.0} | {:.1} | {:.0} % |",
            cell.case.name(),
            cell.tool.name(),
            median(&mut cell.per_cpu_s),
            median(&mut cell.rss_mib),
            median(&mut cell.target_busy) * 100.0
        );
    }
    println!();
}
