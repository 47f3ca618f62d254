//! Benchmarks: ours beside the floor, in one run, in CPU time per operation, the median of several rounds.
//!
//! `crypto` measures the server's side of init and of a sealed call in this process, `channel` a channel's handshake and records, `wire3` both of wire 3, `mle` messages of card schemes, `one-shot` requests without a session. `http` measures a real
//! `sealway serve` on one core, driven from the other, beside a bare hyper that answers 200. `stores` measures it on
//! PostgreSQL and Redis, and PostgreSQL itself beside pgbench. `gateway` compares proxies, ours among them; `load`
//! load generators.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program that prints, and stops at what it cannot do"
)]

mod accept;
mod big;
mod broker;
mod capacity;
mod channel;
mod client;
mod crypto;
mod gateway;
mod generators;
mod http;
mod idle;
mod load;
mod mle;
mod one_shot;
mod ours;
mod procfs;
mod proxies;
mod relay;
mod servers;
mod stores;
mod table;
mod upstream;
mod welch;
mod wire3;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::load::Kind;

/// The same allocator that the product uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Given by `cargo bench`; means nothing here
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    Bare,
    Init,
    Call,
}

/// Settings of the measurement.
#[derive(Debug, clap::Args)]
struct Measure {
    /// Path of the server's binary [default: beside this one]
    #[arg(long)]
    sealway: Option<PathBuf>,
    /// Seconds a case and round
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

impl Default for Measure {
    fn default() -> Self {
        Measure { sealway: None, seconds: 3.0, rounds: 5 }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Init and open + seal against the bare primitives, in this process
    Crypto,
    /// Channels against the bare primitives, in this process
    Channel,
    /// Wire 3 against the bare primitives and the old wires, in this process
    Wire3(wire3::Options),
    /// Messages of card schemes against their bare RSA operations, and the time of refusals, in this process
    Mle(mle::Options),
    /// Requests without a session (wire 4, EHBP, Oblivious HTTP) against their bare operations, in this process
    OneShot,
    /// The time of rejections of one-shot requests by their cause, at a real server
    OneShotRejections(one_shot::rejections::Options),
    /// A real server over HTTP, beside a bare hyper
    Http(Measure),
    /// PostgreSQL and Redis: rows beside pgbench, whole inits, sealed calls with and without
    Stores {
        #[command(flatten)]
        measure: Measure,
        /// The store layer alone
        #[arg(long)]
        rows_only: bool,
    },
    /// Drives a server that runs already, for profiling it
    Drive {
        /// Its port on 127.0.0.1
        port: u16,
        /// Requests to send
        #[arg(value_enum)]
        what: What,
        /// Bytes of plaintext or body
        #[arg(long, default_value_t = 1024)]
        len: usize,
        /// For how long
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
    /// Proxies beside each other: ours, nginx, HAProxy, Envoy
    Gateway(gateway::Options),
    /// Load generators beside each other: ours, wrk, h2load, k6, oha
    Load(generators::Options),
    /// The published acceptance test; the exit code is the verdict
    Accept(accept::Options),
    /// Memory and disk of a session and of a nonce by store, bytes that sealing adds
    Capacity(capacity::Options),
    /// Memory of an idle connection: plain, TLS, mTLS
    Idle(idle::Options),
    /// Memory and processor time of 10 GB up and 10 GB down: plain, TLS
    Big(big::Options),
    /// The broker beside a bare socket, bare cryptography and an echo of grpc-go
    Broker(broker::Options),
    /// The relay: a channel's set-up and memory, a byte's way, calls
    Relay(relay::Options),
    /// Crypto, channels, wire 3, messages of card schemes, requests without a session, stores and HTTP
    All,
    /// A bare hyper server on this port: reads the body, answers 200 with as many bytes
    #[command(hide = true)]
    Bare { port: u16 },
    /// The service of the acceptance test
    #[command(hide = true)]
    DelayedService(accept::Service),
    /// The floor of `broker`: sends back as many bytes as it was sent
    #[command(hide = true)]
    PingService { socket: PathBuf, len: usize },
    /// The service of `big` on this port: swallows what is posted, sends as many bytes as asked
    #[command(hide = true)]
    BodyService { port: u16 },
}

/// Runs the command of the command line; without one, that of `all`. The exit code is 0 if it succeeded and every bar was met.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sealway-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let http = |Measure { sealway, seconds, rounds }| http::run(sealway, seconds, rounds);
    let stores = |Measure { sealway, seconds, rounds }, rows_only| stores::run(sealway, seconds, rounds, rows_only);
    match Args::parse().command {
        Some(Command::Crypto) => crypto::run(),
        Some(Command::Channel) => channel::run(),
        Some(Command::Wire3(options)) => wire3::run(&options),
        Some(Command::Mle(options)) => mle::run(&options),
        Some(Command::OneShot) => one_shot::run(),
        Some(Command::OneShotRejections(options)) => one_shot::rejections::run(&options),
        Some(Command::Http(measure)) => http(measure),
        Some(Command::Stores { measure, rows_only }) => stores(measure, rows_only),
        Some(Command::Drive { port, what, len, seconds }) => {
            let kind = match what {
                What::Bare => Kind::Bare(len),
                What::Init => Kind::Init,
                What::Call => Kind::Call(len),
            };
            http::drive_one(port, kind, seconds)
        }
        Some(Command::Bare { port }) => servers::bare(port),
        Some(Command::Gateway(options)) => gateway::run(&options),
        Some(Command::Load(options)) => generators::run(&options),
        Some(Command::Accept(options)) => accept::run(&options),
        Some(Command::DelayedService(service)) => accept::serve(&service),
        Some(Command::Capacity(options)) => capacity::run(&options),
        Some(Command::Idle(options)) => idle::run(&options),
        Some(Command::Big(options)) => big::run(&options),
        Some(Command::Broker(options)) => broker::run(&options),
        Some(Command::Relay(options)) => relay::run(&options),
        Some(Command::PingService { socket, len }) => broker::serve(&socket, len),
        Some(Command::BodyService { port }) => big::serve(port),
        Some(Command::All) | None => {
            crypto::run()?;
            channel::run()?;
            wire3::run(&wire3::Options::default())?;
            mle::run(&mle::Options::default())?;
            one_shot::run()?;
            // Runs before the HTTP part, which pins this process to one core: the rows use both cores.
            stores(Measure::default(), false)?;
            http(Measure::default())
        }
    }
}
