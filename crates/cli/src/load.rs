//! `sealway load`: passes its arguments to the load generator.

use std::process::ExitCode;

use sealway_load::flags::LoadArgs;

/// Runs the load generator, which has reported its errors when this returns.
pub(crate) fn run(args: LoadArgs) -> anyhow::Result<ExitCode> {
    // The generator has its own load threads; these two display and wait.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = runtime.block_on(sealway_load::run::load(args));
    // Threads that read standard input or resolve a name are not awaited.
    runtime.shutdown_background();
    Ok(code)
}
