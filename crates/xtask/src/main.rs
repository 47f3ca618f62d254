//! The repository's own jobs: `cargo xtask <job>`. One file a job; the Makefile and CI only call these.
//!
//! This crate does not know any product crate. It must build and run when they do not.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for a terminal: its output is its purpose")]

mod advisories;
mod alerts;
mod alike;
mod bench;
mod check;
mod codegen;
mod conformance;
mod coverage;
mod dist;
mod errors;
mod evidence;
mod faults;
mod fips;
mod fuzz;
mod load;
mod matrix;
mod model;
mod publish;
mod release;
mod scan;
mod sdk;
mod server;
mod settings;
mod shell;
mod site;
mod soak;
mod standards;
mod steps;
mod test;
mod tidy;
mod vectors;
mod vet;
mod workflows;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own jobs", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Everything that CI tests, in order; a failed step does not hide the next
    Test,
    /// The broker over a validated module: what is below it, and that it starts on nothing else
    TestFips,
    /// The fault tests in their long form
    E2eFaults,
    /// Each fault by itself, which must fire its own alerts and no others
    Alerts,
    /// All services under load with a fault each minute: wrong answers, and growth of memory, descriptors and latency
    Soak(soak::Arguments),
    /// The load generator's searches in their long form
    LoadLong,
    /// Scanners of TLS at a real listener
    ScanTls,
    /// The fast subset: format, clippy, tidy
    Check,
    /// The examples in comments of the workspace
    DocTests,
    /// The API documents of the default members; a warning is an error
    Docs,
    /// Known vulnerabilities of what is locked; says aloud what it could not check
    Advisories(advisories::Arguments),
    /// The repository's rules: import table, banned crates, names, sizes, notes, anchors
    Tidy {
        /// Write the counts of the rule `prose` down first
        #[arg(long)]
        write: bool,
    },
    /// Write Rust from spec/*.proto, and the configuration's reference and schema from its types; or compare
    Codegen {
        /// Change nothing; fail if a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Write vectors/ from the reference, or compare
    Vectors {
        /// Change nothing; fail if a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Run Verifpal and SPASS over the models of spec/model, and its searches
    Model,
    /// Build the docs site in target/site, and check its links, its search and its accessibility in a browser
    Site {
        /// Leave out the API documents, and check accessibility on a few pages alone
        #[arg(long)]
        quick: bool,
    },
    /// Build and test the SDKs, and hold each against each other
    Sdk(sdk::Arguments),
    /// Every client against every server on bytes of their own; the SDKs are built
    Conformance(conformance::Arguments),
    /// Measure every client against every server; the SDKs are built
    Matrix(matrix::Arguments),
    /// Report the lines of the broker and the client that tests run; fails below 80 % of either
    Coverage(coverage::Arguments),
    /// Make binaries, Debian packages, their lists of parts, sums and provenance in target/dist
    Dist(dist::Arguments),
    /// Make and check the packages of npm, PyPI, Maven, Go and crates.io; nothing is uploaded
    PublishDryRun(publish::Arguments),
    /// Run the long forms of all evidence, and write their records and docs/assurance/
    Evidence(evidence::Arguments),
    /// Fuzz one target, or each in turn
    Fuzz(fuzz::Arguments),
    /// Run the benchmarks: ours beside the floor
    Bench {
        /// Arguments for the benchmark program
        #[arg(default_values_t = ["all".to_owned()], trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare the gateway with nginx, HAProxy and Envoy
    BenchGateway {
        /// Arguments for the comparison: --rows, --servers, --seconds, --rounds
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compare the load generator with wrk, h2load, k6 and oha
    BenchLoad {
        /// Arguments for the comparison
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The broker beside a bare socket, bare cryptography and grpc-go
    BenchBroker {
        /// Arguments for the comparison: --cases, --tools, --seconds, --rounds, --sockets, --minutes, --quick
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Wire 3 in process: inits, calls, streams, the time of refusals
    BenchWire3 {
        /// One part of it: init, calls, streams or timing; --samples
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Channels beside bare cryptography, and what a channel and a byte cost the relay
    BenchChannel {
        /// Arguments for the relay's part alone: --channels, --gib, --rounds, --waves, --idle-s
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The published acceptance test: 4 times 3,000 new mTLS connections through the gateway
    AcceptGateway {
        /// Arguments for the test: --bursts, --size
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(job: Job) -> anyhow::Result<()> {
    match job {
        Job::Test => test::run(),
        Job::TestFips => fips::run(),
        Job::E2eFaults => faults::run(),
        Job::Alerts => alerts::run(),
        Job::Soak(arguments) => soak::run(&arguments),
        Job::LoadLong => load::run(),
        Job::ScanTls => scan::run(),
        Job::DocTests => test::doc_tests(),
        Job::Docs => test::rustdoc(),
        Job::Advisories(arguments) => advisories::run(&arguments),
        Job::Check => check::run(),
        Job::Tidy { write } => tidy::run(write),
        Job::Codegen { check } => codegen::run(check),
        Job::Vectors { check } => vectors::run(check),
        Job::Model => model::run(),
        Job::Sdk(arguments) => sdk::run(&arguments),
        Job::Site { quick } => site::run(!quick),
        Job::Conformance(arguments) => conformance::run(&arguments),
        Job::Matrix(arguments) => matrix::run(&arguments),
        Job::Coverage(arguments) => coverage::run(&arguments),
        Job::Dist(arguments) => dist::run(&arguments),
        Job::PublishDryRun(arguments) => publish::run(&arguments),
        Job::Evidence(arguments) => evidence::run(&arguments),
        Job::Fuzz(arguments) => fuzz::run(&arguments),
        Job::Bench { arguments } => bench::run(&arguments),
        Job::BenchGateway { arguments } => bench::gateway(&arguments),
        Job::BenchLoad { arguments } => bench::load(&arguments),
        Job::BenchBroker { arguments } => bench::broker(&arguments),
        Job::BenchChannel { arguments } => bench::channel(&arguments),
        Job::BenchWire3 { arguments } => bench::wire3(&arguments),
        Job::AcceptGateway { arguments } => bench::accept(&arguments),
    }
}
