//! `sealway inspect`: starts a proxy that shows sealed traffic, and stops it.

use anyhow::anyhow;
use sealway_gateway::inspect::{InspectSettings, Inspection};
use sealway_runtime::shutdown::StopSignals;

use crate::args;
use sealway_runtime::output::{out, tell};

/// Shows the traffic until a signal arrives.
pub(crate) async fn run(args: args::Inspect) -> anyhow::Result<()> {
    let args::Inspect { key_log, to, listen } = args;
    let mut signals = StopSignals::install()?;
    let settings = InspectSettings { key_log, to, listen };
    let inspection = Inspection::start(&settings, Box::new(std::io::stdout())).map_err(|err| anyhow!(err))?;
    tell(format_args!("WARNING: what is sealed is shown in plain on standard output; for development alone"));
    writeln!(out(), "Inspecting on http://{} what goes to {}, until Ctrl-C.", inspection.address(), settings.to)?;
    signals.stopped().await;
    inspection.stop().await;
    Ok(())
}
