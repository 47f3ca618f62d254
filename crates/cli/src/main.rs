//! The `sealway` binary: parses arguments and runs a command.

mod args;
#[cfg(feature = "sessions")]
mod call;
mod certs;
#[cfg(feature = "relay")]
mod channel;
#[cfg(feature = "sessions")]
mod config;
#[cfg(feature = "sessions")]
mod demo;
#[cfg(feature = "relay")]
mod flags;
#[cfg(feature = "gateway-api")]
mod gateway_api;
mod health;
#[cfg(feature = "sessions")]
mod identity;
#[cfg(feature = "sessions")]
mod inspect;
mod inventory;
#[cfg(feature = "sessions")]
mod kek;
#[cfg(feature = "load")]
mod load;
#[cfg(feature = "sessions")]
mod migrate;
#[cfg(feature = "sessions")]
mod mle;
#[cfg(feature = "sessions")]
mod one_shot_keys;
#[cfg(feature = "sessions")]
mod operator_listeners;
#[cfg(feature = "relay")]
mod relay;
#[cfg(feature = "sessions")]
mod serve;
#[cfg(feature = "sessions")]
mod summary;
#[cfg(feature = "sessions")]
mod trust;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use sealway_runtime::output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (mut command, arguments) = (args::Args::command(), std::env::args_os());
    #[cfg(feature = "relay")]
    let arguments = {
        for name in ["relay", "channel"] {
            command = command.mut_subcommand(name, flags::with_negative_numbers);
        }
        relay::with_original_flags(arguments)
    };
    let matches = command.clone().get_matches_from(arguments);
    let args = args::Args::from_arg_matches(&matches).unwrap_or_else(|err| err.format(&mut command).exit());
    match run(args) {
        Ok(code) => code,
        Err(err) => output::failed(err.as_ref()),
    }
}

fn run(args: args::Args) -> anyhow::Result<ExitCode> {
    use args::Command;
    let done = match args.command {
        #[cfg(feature = "load")]
        Command::Load(args) => return load::run(*args),
        #[cfg(feature = "gateway-api")]
        Command::GatewayApi { action } => return gateway_api::run(action),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::Args::command(), "sealway", &mut script);
            output::out().write_all(&script).map_err(anyhow::Error::from)
        }
        Command::Man { folder } => clap_mangen::generate_to(args::Args::command(), folder).map_err(anyhow::Error::from),
        Command::Certs(certs) => certs::run(certs),
        Command::Health(health) => health::run(&health),
        Command::Inventory(inventory) => return inventory::run(&inventory),
        #[cfg(feature = "sessions")]
        Command::Config { action } => config::command(action),
        #[cfg(feature = "sessions")]
        Command::Migrate(file) => block_on(migrate::run(file)),
        #[cfg(feature = "sessions")]
        Command::Kek { action } => block_on(kek::run(action)),
        #[cfg(feature = "sessions")]
        Command::Identity { action } => block_on(identity::run(action)),
        #[cfg(feature = "sessions")]
        Command::Demo(demo) => block_on(demo::run(demo)),
        #[cfg(feature = "sessions")]
        Command::Pkcs11Host => block_on(async {
            // Only the parent ends this process: a stop of the whole service lets operations in flight end.
            let _signals = sealway_runtime::shutdown::StopSignals::install()?;
            Ok(tokio::task::spawn_blocking(sealway_gateway::run_pkcs11_host).await??)
        }),
        #[cfg(feature = "broker")]
        Command::Broker { action } => {
            if matches!(action, sealway_broker_cli::Broker::Serve(_)) {
                sealway_runtime::process::keep_small();
            }
            return block_on(sealway_broker_cli::run(action));
        }
        #[cfg(feature = "relay")]
        Command::Channel { action } => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let done = runtime.block_on(channel::run(*action));
            // A read of standard input cannot be stopped; it is not awaited.
            runtime.shutdown_background();
            return done;
        }
        #[cfg(feature = "relay")]
        Command::Relay { action } => {
            if matches!(action, relay::Relay::Serve(_)) {
                sealway_runtime::process::keep_small();
            }
            block_on(relay::run(action))
        }
        #[cfg(feature = "sessions")]
        Command::Serve(serve) => block_on(serve::run(serve)),
        #[cfg(feature = "sessions")]
        Command::Trust { action } => trust::run(action),
        #[cfg(feature = "sessions")]
        Command::Mle { action } => mle::run(action),
        #[cfg(feature = "sessions")]
        Command::OneShotKeys { action } => one_shot_keys::run(*action),
        #[cfg(feature = "sessions")]
        Command::Inspect(inspect) => block_on(inspect::run(inspect)),
        #[cfg(feature = "sessions")]
        Command::Call(call) => block_on(call::run(*call)),
    };
    done.map(|()| ExitCode::SUCCESS)
}

#[cfg(any(feature = "sessions", feature = "broker", feature = "relay"))]
fn block_on<T>(service: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(service)
}
