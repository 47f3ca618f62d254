//! The machine that a run was measured from.

use serde::{Deserialize, Serialize};

/// What of the machine a reader must know to compare two reports. No name of a host, user or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// The operating system, such as `linux`.
    pub(crate) os: String,
    /// The kernel's release, such as `6.1.0-18-amd64`; empty where it does not say.
    pub(crate) kernel: String,
    /// The processor's architecture, such as `x86_64`.
    pub(crate) architecture: String,
    /// The processor's name; empty where the kernel does not say.
    pub(crate) processor: String,
    /// Sealway's version.
    pub(crate) sealway: String,
}

impl Machine {
    /// This one.
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
