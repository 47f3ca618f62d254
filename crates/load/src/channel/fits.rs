//! Checks that a size fits into this machine's descriptors and local ports. A size that cannot fit is rejected before it starts,
//! and its failure is never taken for the relay's limit.

use std::net::{IpAddr, Ipv4Addr};

use rustix::process::{Resource, getrlimit};

use super::Size;
use crate::plan::ChannelRole;

/// Descriptors for everything besides channels, in the generator and in a relay.
const ASIDE: u64 = 128;
/// Connections from one loopback address: well below its ports, because the kernel still keeps ports of an earlier run.
const PER_LOOPBACK: u64 = 10_000;
/// Upper bound of the loopback addresses that are used by default.
const LOOPBACKS_MAX: u64 = 64;

/// Room for channels on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Limit of descriptors of a process, also of a relay that is started; `None` for no limit.
    pub(crate) descriptors: Option<u64>,
    /// Number of ports of one local address towards one server.
    pub(crate) ports: u64,
}

impl Room {
    /// Reads the limits of this machine.
    pub(crate) fn here() -> Self {
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let mut ends = range.split_ascii_whitespace().filter_map(|end| end.parse::<u64>().ok());
        let ports = match (ends.next(), ends.next()) {
            (Some(from), Some(to)) if to >= from => to - from + 1,
            // Default of the Linux kernel.
            _ => 28_232,
        };
        Room { descriptors: getrlimit(Resource::Nofile).current, ports }
    }

    /// Checks that a size fits.
    ///
    /// # Errors
    /// The limit that is too low, in one sentence.
    pub(crate) fn check(&self, size: &Size, role: ChannelRole, sources: usize, has_relay: bool) -> Result<(), String> {
        let (channels, sockets) = (size.channels, size.channels.saturating_mul(role.ends()));
        if let Some(limit) = self.descriptors {
            let wanted = sockets.saturating_add(ASIDE);
            if wanted > limit {
                return Err(format!(
                    "{channels} channels need {wanted} file descriptors in the generator, which may open {limit}: raise ulimit -n"
                ));
            }
            // A relay of the run has the same limit, and both ends of each channel.
            let wanted = channels.saturating_mul(2).saturating_add(ASIDE);
            if has_relay && wanted > limit {
                return Err(format!(
                    "{channels} channels need {wanted} file descriptors in the relay, which may open {limit}: raise ulimit -n"
                ));
            }
        }
        let ports = self.ports.saturating_mul(sources.max(1) as u64);
        if sockets > ports {
            return Err(format!(
                "{channels} channels need {sockets} local ports to the relay, and {} this machine has {ports}: add \
                 --source addresses",
                if sources > 1 { "with these addresses" } else { "with one address" }
            ));
        }
        Ok(())
    }
}

/// Returns loopback addresses to connect from, towards a relay on loopback; none if one address suffices.
pub(crate) fn sources(relay: Option<IpAddr>, size: &Size, role: ChannelRole) -> Vec<IpAddr> {
    let wanted = size.channels.saturating_mul(role.ends()).div_ceil(PER_LOOPBACK).min(LOOPBACKS_MAX);
    if wanted < 2 || !relay.is_some_and(|relay| relay.is_ipv4() && relay.is_loopback()) {
        return Vec::new();
    }
    (1..=wanted).filter_map(|last| u8::try_from(last).ok()).map(|last| Ipv4Addr::new(127, 0, 0, last).into()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn size(channels: u64) -> Size {
        Size { channels, rate: 0.0, ramp_step: 0.0, ramp_interval: Duration::ZERO, steady: Duration::ZERO }
    }

    #[test]
    fn a_size_that_does_not_fit_is_rejected_with_the_limit_that_is_too_low() {
        let room = Room { descriptors: Some(10_000), ports: 6_000 };
        assert_eq!(room.check(&size(3000), ChannelRole::Both, 0, true), Ok(()));
        let why = room.check(&size(5000), ChannelRole::Both, 4, true).unwrap_err();
        assert!(why.contains("10128 file descriptors in the generator") && why.contains("10000"), "{why}");
        let why = room.check(&size(5000), ChannelRole::Client, 4, true).unwrap_err();
        assert!(why.contains("descriptors in the relay"), "{why}");
        let why = room.check(&size(3001), ChannelRole::Both, 1, false).unwrap_err();
        assert!(why.contains("6002 local ports") && why.contains("--source"), "{why}");
        assert_eq!(room.check(&size(3001), ChannelRole::Both, 2, false), Ok(()));
        assert_eq!(Room { descriptors: None, ..room }.check(&size(3000), ChannelRole::Both, 1, true), Ok(()));
    }

    #[test]
    fn many_channels_towards_loopback_come_from_several_addresses() {
        let loopback = Some("127.0.0.1".parse().unwrap());
        assert!(sources(loopback, &size(5000), ChannelRole::Both).is_empty());
        assert_eq!(sources(loopback, &size(8000), ChannelRole::Both).len(), 2);
        assert_eq!(sources(loopback, &size(u64::MAX), ChannelRole::Both).len(), 64);
        assert!(sources(Some("10.0.0.1".parse().unwrap()), &size(90_000), ChannelRole::Both).is_empty());
        assert!(sources(None, &size(90_000), ChannelRole::Both).is_empty());
    }
}
