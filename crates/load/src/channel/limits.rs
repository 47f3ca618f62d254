//! Names the limits that channels failed at; the generator's own limits are never taken for the relay's.

use super::{ChannelCounts, FailureStage};
use crate::engine::Limit;

/// Returns one sentence for each limit that was reached, the gravest first; empty if there was none.
pub(crate) fn named(counted: &ChannelCounts, limit: &Limit) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |codes: &[&str], words: &str| {
        let count: u64 = codes.iter().map(|code| counted.of_code(code)).sum();
        if count > 0 {
            all.push(format!("{words} ({count} channels)"));
        }
    };
    add(&["out_of_descriptors"], "descriptors: the generator reached its limit; raise ulimit -n");
    add(&["out_of_ports", "no_local_port"], "local ports: all ports to the relay are in use; add --source addresses");
    add(&["too_many_connections"], "the relay: it accepts no more connections (--max-conns)");
    add(&["attach_failed", "too_many_channels"], "the relay: it accepts no more channels (--max-channels)");
    add(&["replace_rate_limited"], "the relay: it limits how often an end may reattach");
    add(&["upgrade_unavailable"], "the relay: it is overloaded or stopping");
    add(
        &["invalid_token", "channel_mismatch", "role_mismatch", "token_replay"],
        "not a limit of load: the relay rejects the tokens",
    );
    add(&["refused", "unreachable", "resolve"], "not a limit of load: nothing listens at the relay's address");
    let late = ["timeout", "peer_absent", "rpc_timeout", "connect_timeout", "notification_missing"];
    add(&late, "time: not finished within --conn-timeout or --rpc-timeout");
    add(&["idle_timeout"], "the relay: it closed channels that were idle for its --idle-timeout");
    let lost = counted.at(FailureStage::Steady).count;
    if lost > 0 {
        all.push(format!("channels were lost while idle ({lost} channels)"));
    }
    if let Limit::Generator(why) = limit {
        all.push(format!("the generator: {why}"));
    }
    if all.is_empty() && counted.failed() > 0 {
        let stages = FailureStage::ALL.iter().filter(|at| counted.at(**at).count > 0);
        let names: Vec<_> = stages.map(|at| format!("{} ({} channels)", at.name(), counted.at(*at).count)).collect();
        all.push(format!("unknown; channels failed at {}", names.join(", ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{ChannelFailure, Tally};

    #[test]
    fn the_limit_is_named_by_the_codes_of_the_failures() {
        let shown = |at, code: &str, limit: &Limit| {
            let tally = Tally::default();
            tally.fails(&ChannelFailure::new(at, code, "words"));
            named(&tally.counted(), limit).join("; ")
        };
        let target = Limit::Target;
        assert!(shown(FailureStage::WsOpen, "out_of_descriptors", &target).starts_with("descriptors: the generator"));
        assert!(
            shown(FailureStage::ServerAttach, "too_many_connections", &target).contains("--max-conns) (1 channels)")
        );
        assert!(shown(FailureStage::ClientAttach, "attach_failed", &target).contains("--max-channels"));
        assert!(shown(FailureStage::Handshake, "peer_absent", &target).starts_with("time:"));
        assert!(
            shown(FailureStage::Handshake, "handshake_unproven", &target).contains("failed at handshake (1 channels)")
        );
        assert!(shown(FailureStage::RpcCall, "x", &Limit::Generator("busy".into())).contains("the generator: busy"));
        assert!(named(&ChannelCounts::default(), &target).is_empty());
    }
}
