//! The `sealway` binary: arguments to configuration to one of the services.

mod admin_listener;
mod args;
mod broker;
mod call;
mod certs;
mod channel;
mod config;
mod demo;
mod identity;
mod inspect;
mod kek;
mod load;
mod migrate;
mod output;
mod relay;
mod serve;
mod summary;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match run(args) {
        Ok(code) => code,
        Err(err) => output::failed(&err),
    }
}

fn run(args: args::Args) -> anyhow::Result<ExitCode> {
    use args::Command;
    let done = match args.command {
        Command::Load(args) => return load::run(*args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::Args::command(), "sealway", &mut script);
            output::out().write_all(&script)
        }
        Command::Certs(certs) => certs::run(certs),
        Command::Config { action } => config::command(action),
        Command::Migrate(file) => block_on(migrate::run(file)),
        Command::Kek { action } => block_on(kek::run(action)),
        Command::Identity { action } => block_on(identity::run(action)),
        Command::Demo(demo) => block_on(demo::run(demo)),
        Command::Broker { action } => {
            if matches!(action, broker::Broker::Serve(_)) {
                sealway_runtime::process::keep_small();
            }
            return block_on(broker::run(action));
        }
        Command::Channel { action } => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let done = runtime.block_on(channel::run(*action));
            // Whoever reads standard input cannot be stopped; it is not waited for.
            runtime.shutdown_background();
            return done;
        }
        Command::Relay { action } => {
            if matches!(action, relay::Relay::Serve(_)) {
                sealway_runtime::process::keep_small();
            }
            block_on(relay::run(action))
        }
        Command::Serve(serve) => block_on(serve::run(serve)),
        Command::Inspect(inspect) => block_on(inspect::run(inspect)),
        Command::Call(call) => block_on(call::run(call)),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn block_on<T>(service: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(service)
}
