//! JMeter.
use std::path::Path;

use crate::flags::Flags;

/// A plan, as flags.
#[derive(Clone, Debug, Default)]
pub struct Jmeter {
    /// Where requests go.
    pub url: Option<String>,
    /// Everything else.
    pub flags: Flags,
    /// What was not understood and does not change the load, a sentence each.
    pub warnings: Vec<String>,
}

/// Reads a plan.
///
/// # Errors
/// What is wrong.
pub fn read(path: &Path) -> Result<Jmeter, sealway_runtime::config::ConfigError> {
    Err(sealway_runtime::config::ConfigError(format!("--jmeter {}: not yet", path.display())))
}
