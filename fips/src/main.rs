//! The broker over a validated module, as a program of its own: it looks at the module before it looks at anything else.

/// The commands are those of the other program, from the same files.
#[path = "../../crates/cli/src"]
mod shared {
    pub(crate) mod broker;
    #[allow(dead_code, reason = "commands of the other program print in more ways")]
    pub(crate) mod output;
}

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};
use sealway_broker::module;
use shared::{broker, output};

/// Does cryptography under named profiles on a Unix socket, over a validated module.
#[derive(Debug, Parser)]
#[command(name = "sealway", version = version(), propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Do cryptography under named profiles on a Unix socket, or ask a broker to
    Broker {
        #[command(subcommand)]
        action: broker::Broker,
    },
}

/// What this is, and no claim beyond it: the module is validated, this program is not.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        format!("{}\nThis program uses a validated module.\n{}", env!("CARGO_PKG_VERSION"), module::module())
    })
}

fn main() -> ExitCode {
    // First of all, and before there is a socket: another module than the promised one serves nobody.
    if let Err(reason) = module::check() {
        output::tell(format_args!("sealway: {reason}"));
        return ExitCode::from(module::EXIT_CODE);
    }
    match run(Args::parse()) {
        Ok(code) => code,
        Err(err) => output::failed(&err),
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Broker { action } = args.command;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(broker::run(action))
}
