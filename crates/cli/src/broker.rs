//! `sealway broker`: a broker that serves, and calls to one.

mod files;
mod serve;

use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Broker {
    /// Serve on a Unix socket
    Serve(Box<serve::Serve>),
    /// The file of profiles
    Profiles {
        #[command(subcommand)]
        action: files::Profiles,
    },
    /// The audit log
    Audit {
        #[command(subcommand)]
        action: files::Audit,
    },
}

pub(crate) async fn run(command: Broker) -> anyhow::Result<ExitCode> {
    match command {
        Broker::Serve(serve) => Ok(serve::run(*serve).await),
        Broker::Profiles { action } => Ok(files::profiles(action)),
        Broker::Audit { action } => Ok(files::audit(action)),
    }
}
