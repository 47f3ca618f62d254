//! `sealway trust`: services whose identity keys were trusted at first use.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use http::Uri;
use sealway_client::TrustStore;
use sealway_client::native::origin;

use crate::call::trust_file;
use sealway_runtime::output::out;

#[derive(Debug, Subcommand)]
pub(crate) enum TrustAction {
    /// List the services, each with the ids of its trusted identity keys
    List(TrustFile),
    /// Forget a service: the next call trusts the identity key that it meets there
    Forget {
        /// The service, by its URL or as the list shows it
        #[arg(value_name = "URL")]
        service: String,
        #[command(flatten)]
        file: TrustFile,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustFile {
    /// The file [default: sealway/known_services in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE", env = "SEALWAY_TRUST_FILE", hide_env = true)]
    trust_file: Option<PathBuf>,
}

pub(crate) fn run(action: TrustAction) -> anyhow::Result<()> {
    match action {
        TrustAction::List(TrustFile { trust_file: file }) => {
            for service in TrustStore::File(trust_file(file)?).services()? {
                let ids = service.key_ids.iter().map(ToString::to_string).collect::<Vec<_>>();
                writeln!(out(), "{} {}", service.origin, ids.join(" "))?;
            }
            Ok(())
        }
        TrustAction::Forget { service, file } => {
            let file = trust_file(file.trust_file)?;
            let url: Option<Uri> = service.parse().ok();
            let named = url.filter(|url| url.scheme().is_some() && url.host().is_some()).map(|url| origin(&url));
            let named =
                named.with_context(|| format!("URL: \"{service}\" is no URL, such as https://service.example"))?;
            if !TrustStore::File(file.clone()).forget(&named)? {
                bail!("{named} is not in {}; sealway trust list shows what is", file.display());
            }
            Ok(writeln!(out(), "{named} is forgotten")?)
        }
    }
}
