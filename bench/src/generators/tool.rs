//! The compared load generators, and the commands that give each the same load. Each gets one thread and prints no progress.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::Case;
use crate::servers::sealway_beside;

/// Connections of a case over HTTP/1.1. Each has one request in flight.
pub(super) const CONNECTIONS: usize = 50;
/// Concurrent requests over HTTP/2, the same number as over HTTP/1.1.
pub(super) const H2_CONNECTIONS: usize = 10;
const H2_STREAMS: usize = CONNECTIONS / H2_CONNECTIONS;

/// A load generator of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tool {
    Sealway,
    Wrk,
    H2load,
    K6,
    Oha,
}

/// An installed tool: its program and the version that it reports.
pub(super) struct InstalledTool {
    pub(super) tool: Tool,
    program: PathBuf,
    pub(super) version: String,
}

/// The load that a tool generates.
pub(super) struct Order<'a> {
    pub(super) case: Case,
    pub(super) url: &'a str,
    pub(super) ca: &'a Path,
    pub(super) seconds: u64,
    /// The folder for the tool's output.
    pub(super) folder: &'a Path,
    /// True if each request uses a new connection, which shows whether the tool resumes TLS sessions.
    pub(super) new_connections: bool,
}

impl Tool {
    pub(super) const ALL: [Tool; 5] = [Tool::Sealway, Tool::Wrk, Tool::H2load, Tool::K6, Tool::Oha];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Sealway => "sealway load",
            Tool::Wrk => "wrk",
            Tool::H2load => "h2load",
            Tool::K6 => "k6",
            Tool::Oha => "oha",
        }
    }

    /// Returns true if the tool speaks the protocol of the case.
    pub(super) fn is_for(self, case: Case) -> bool {
        !(self == Tool::Wrk && case == Case::H2)
    }

    /// Finds the tool's program and version.
    ///
    /// # Errors
    /// If the tool is missing. The message names the script that installs it.
    pub(super) fn find(self, sealway: Option<PathBuf>) -> anyhow::Result<InstalledTool> {
        let program = match self {
            Tool::Sealway => sealway_beside(sealway)?,
            Tool::Wrk => installed("wrk")?,
            Tool::H2load => crate::proxies::current("h2load")?,
            Tool::K6 => built("k6")?,
            Tool::Oha => built("oha")?,
        };
        let flag = if self == Tool::Wrk { "-v" } else { "--version" };
        let said = Command::new(&program).arg(flag).output()?;
        let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        // The version is the first word with a digit and a point, without the text before it: `nghttp2/1.52.0`, `v1.8.1`.
        let is_version = |word: &&str| word.contains('.') && word.contains(|letter: char| letter.is_ascii_digit());
        let word = text.split_whitespace().find(is_version).unwrap_or("of an unknown version");
        let word = word.rsplit_once('/').map_or(word, |(_, after)| after);
        let version = word.trim_start_matches('v').to_owned();
        Ok(InstalledTool { tool: self, program, version })
    }
}

impl InstalledTool {
    /// Returns the command, without the core to which it is pinned.
    ///
    /// # Errors
    /// If the tool's input file cannot be written.
    pub(super) fn command(&self, order: &Order<'_>) -> anyhow::Result<Vec<String>> {
        let program = self.program.display().to_string();
        let arguments = match self.tool {
            Tool::Sealway => sealway(order),
            Tool::Wrk => wrk(order),
            Tool::H2load => h2load(order),
            Tool::K6 => k6(order)?,
            Tool::Oha => oha(order),
        };
        Ok([program].into_iter().chain(arguments).collect())
    }

    /// Returns the program and these arguments.
    pub(super) fn with(&self, arguments: &str) -> Vec<String> {
        [self.program.display().to_string()].into_iter().chain(words(arguments)).collect()
    }
}

fn installed(name: &str) -> anyhow::Result<PathBuf> {
    sealway_testkit::daemon::program(name).ok().with_context(|| missing(name))
}

fn built(name: &str) -> anyhow::Result<PathBuf> {
    let path = sealway_testkit::daemon::root().join("target/tools/bin").join(name);
    path.exists().then_some(path).with_context(|| missing(name))
}

fn missing(name: &str) -> String {
    format!("{name} is missing and this comparison needs it: run scripts/setup-bench.sh")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn sealway(order: &Order<'_>) -> Vec<String> {
    let mut arguments = words(&format!(
        "load --threads 1 --concurrency {CONNECTIONS} --duration {} --no-tui --interval 1m --fail-on-errors false {}",
        order.seconds, order.url
    ));
    if order.case != Case::Http {
        arguments.extend(words(&format!("--ca {}", order.ca.display())));
    }
    if order.case == Case::H2 {
        arguments.extend(words(&format!("--http-version 2 --streams {H2_STREAMS}")));
    }
    if order.new_connections {
        arguments.push("--no-reuse".into());
    }
    arguments
}

fn wrk(order: &Order<'_>) -> Vec<String> {
    let mut arguments = words(&format!("-t 1 -c {CONNECTIONS} -d {}s", order.seconds));
    if order.new_connections {
        arguments.extend(["-H".into(), "Connection: close".into()]);
    }
    arguments.push(order.url.to_owned());
    arguments
}

fn h2load(order: &Order<'_>) -> Vec<String> {
    let how = match order.case {
        // The tool cannot use a new connection for each request, so it opens as many connections as requests.
        _ if order.new_connections => format!("-n {CONNECTIONS} -c {CONNECTIONS} -m 1"),
        Case::H2 => format!("-D {} -c {H2_CONNECTIONS} -m {H2_STREAMS}", order.seconds),
        _ => format!("-D {} -c {CONNECTIONS} -m 1", order.seconds),
    };
    let version = if order.case == Case::H2 { "" } else { "--h1" };
    words(&format!("-t 1 {how} {version} {}", order.url))
}

fn oha(order: &Order<'_>) -> Vec<String> {
    let how = match order.case {
        Case::H2 => format!("-c {H2_CONNECTIONS} -p {H2_STREAMS} --http2"),
        _ => format!("-c {CONNECTIONS}"),
    };
    let close = if order.new_connections { "--disable-keepalive" } else { "" };
    words(&format!("-z {}s {how} {close} --no-tui --insecure {}", order.seconds, order.url))
}

/// A k6 worker has connections of its own, with one request in flight over HTTP/2 too.
fn k6(order: &Order<'_>) -> anyhow::Result<Vec<String>> {
    let script = order.folder.join("k6.js");
    let text = format!(
        "import http from 'k6/http';
export const options = {{
    vus: {CONNECTIONS}, duration: '{}s', insecureSkipTLSVerify: true, discardResponseBodies: true,
    noConnectionReuse: {},
}};
export default function () {{ http.get('{}'); }}
",
        order.seconds, order.new_connections, order.url
    );
    std::fs::write(&script, text)?;
    Ok(words(&format!("run --quiet --no-usage-report --address= --summary-mode=disabled {}", script.display())))
}
