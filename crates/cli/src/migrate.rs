//! `sealway migrate`: the tables of a store in PostgreSQL.

use anyhow::anyhow;

use crate::args::ConfigFile;
use crate::config;

/// Makes or brings up to date the tables; safe to run at any time and from many places at once.
pub(crate) async fn run(args: ConfigFile) -> anyhow::Result<()> {
    let config = config::load_checked(&args.config)?;
    let report = config.sessions.migrate().await.map_err(|err| anyhow!(err))?;
    if report.applied.is_empty() {
        println!("nothing to do: the schema is at {}", report.version);
    }
    for name in &report.applied {
        println!("applied {name}");
    }
    if report.old_table {
        println!("public.sessions, an old server's table, is there and was left alone");
    }
    Ok(())
}
