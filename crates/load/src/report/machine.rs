//! Machine that generated the load of a run.

use serde::{Deserialize, Serialize};

/// Properties of the machine that a reader needs to compare two reports, without names of a host, user or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Number of cores this process may use.
    pub(crate) cores: usize,
    /// Name of the operating system, such as `linux`.
    pub(crate) os: String,
    /// Release of the kernel, such as `6.1.0-18-amd64`; empty if unknown.
    pub(crate) kernel: String,
    /// Architecture of the processor, such as `x86_64`.
    pub(crate) architecture: String,
    /// Name of the processor; empty if unknown.
    pub(crate) processor: String,
    /// Version of Sealway that generated the load.
    pub(crate) sealway: String,
}

impl Machine {
    /// Reads the properties of this machine.
    pub(crate) fn here() -> Machine {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor =
            cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
        Machine {
            cores,
            os: std::env::consts::OS.to_owned(),
            kernel,
            architecture: std::env::consts::ARCH.to_owned(),
            processor: processor.unwrap_or_default().to_owned(),
            sealway: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
