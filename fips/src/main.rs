//! The broker over a validated module, as a separate program. It checks the module before anything else.

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Parser, Subcommand};
use sealway_broker::module;
use sealway_broker_cli::Broker;
use sealway_runtime::output;

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
        action: Broker,
    },
}

/// Returns the text of `--version`. It claims only that the module is validated, not that this program is.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        format!("{}\nThis program uses a validated module.\n{}", env!("CARGO_PKG_VERSION"), module::module())
    })
}

fn main() -> ExitCode {
    // Check the module first, before the socket exists: with another module than the expected one the program serves no caller.
    if let Err(reason) = module::check() {
        output::tell(format_args!("sealway: {reason}"));
        return ExitCode::from(module::EXIT_CODE);
    }
    match run(Args::parse()) {
        Ok(code) => code,
        Err(err) => output::failed(err.as_ref()),
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Broker { action } = args.command;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(sealway_broker_cli::run(action))
}
