//! `sealway broker`: a broker that serves, and calls to one.

mod serve;

use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Broker {
    /// Serve on a Unix socket
    Serve(Box<serve::Serve>),
}

pub(crate) async fn run(command: Broker) -> anyhow::Result<ExitCode> {
    match command {
        Broker::Serve(serve) => Ok(serve::run(*serve).await),
    }
}
