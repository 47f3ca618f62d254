//! `sealway migrate`: the tables of a PostgreSQL store.

use anyhow::anyhow;
use sealway_proto::crypto::default_provider;

use crate::args::ConfigFile;
use crate::config;
use sealway_runtime::output::out;

/// Creates or updates the tables; safe at any time, and from several processes at once.
pub(crate) async fn run(args: ConfigFile) -> anyhow::Result<()> {
    let config = config::load_checked(&args.config)?;
    let report = config.sessions.migrate(default_provider()).await.map_err(|err| anyhow!(err))?;
    if report.applied.is_empty() {
        writeln!(out(), "nothing to do: all {} migrations were applied before", report.applied_before)?;
    }
    for name in &report.applied {
        writeln!(out(), "applied {name}")?;
    }
    if !report.newer.is_empty() {
        writeln!(out(), "a newer program has applied {:?} too; this one works with that", report.newer)?;
    }
    if report.has_foreign_sessions {
        writeln!(out(), "public.sessions, another server's table, is there and was left alone")?;
    }
    Ok(())
}
