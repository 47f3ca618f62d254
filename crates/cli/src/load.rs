//! `sealway load`: all of it is the load generator's.

use std::process::ExitCode;

use sealway_load::flags::LoadArgs;

/// Runs it; what is wrong is said by then.
pub(crate) fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    // The load itself is offered by threads of its own; these show it and wait.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = runtime.block_on(sealway_load::run::load(args));
    // A thread that reads standard input or resolves a name is not waited for.
    runtime.shutdown_background();
    Ok(code)
}
