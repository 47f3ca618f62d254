//! Relays and brokers on the page: their metrics, read from the upstreams that `admin.services` names.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::Dashboard;
use super::counts::sum;

/// Interval between two readings of the metrics.
const EVERY: Duration = Duration::from_secs(2);

/// State of one relay or broker at the last reading.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Service {
    /// Name of its upstream in the configuration.
    upstream: String,
    address: String,
    /// Reason that there are no figures.
    error: Option<String>,
    figures: Option<Figures>,
}

/// Numbers of a service since its start, or now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Figures {
    Relay {
        connections: f64,
        channels: f64,
        attached: f64,
        rejected: f64,
        forwarded_bytes: f64,
        waiting_bytes: f64,
        waiting_bytes_max: f64,
    },
    Broker {
        calls: f64,
        errors: f64,
        audit_lines: f64,
        audit_failures: f64,
        resident_bytes: f64,
    },
}

impl Figures {
    /// Reads the figures from metrics in Prometheus' text format; `None` if they are of another service.
    fn read(text: &str) -> Option<Figures> {
        let all = |name| sum(text, name, &[]);
        let of = |name, label| sum(text, name, &[label]).unwrap_or_default();
        if let Some(channels) = all("sealway_relay_channels") {
            return Some(Figures::Relay {
                connections: all("sealway_relay_connections").unwrap_or_default(),
                channels,
                attached: of("sealway_relay_attach_total", ("result", "ok")),
                rejected: of("sealway_relay_attach_total", ("result", "fail")),
                forwarded_bytes: all("sealway_relay_forwarded_bytes_total").unwrap_or_default(),
                waiting_bytes: all("sealway_relay_waiting_bytes").unwrap_or_default(),
                waiting_bytes_max: all("sealway_relay_waiting_bytes_max").unwrap_or_default(),
            });
        }
        Some(Figures::Broker {
            resident_bytes: all("crypto_memory_usage_bytes")?,
            calls: all("crypto_requests_total").unwrap_or_default(),
            errors: all("crypto_operations_errors_total").unwrap_or_default(),
            audit_lines: all("sealway_broker_audit_lines_total").unwrap_or_default(),
            audit_failures: all("sealway_broker_audit_failures_total").unwrap_or_default(),
        })
    }
}

impl Dashboard {
    /// Reads the metrics of all services until stopping begins.
    pub(super) async fn watch_services(self, upstreams: Vec<String>) {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.0.server.shutdown().begun() => return,
            }
            let mut services = Vec::new();
            for name in &upstreams {
                services.extend(self.read_service(name).await);
            }
            *self.0.services.lock() = services;
        }
    }

    /// Reads the metrics of each server of an upstream.
    async fn read_service(&self, name: &str) -> Vec<Service> {
        let gateway = self.0.server.gateway();
        let service = |address, read: Result<Figures, String>| {
            let (error, figures) = read.map_or_else(|err| (Some(err), None), |figures| (None, Some(figures)));
            Service { upstream: name.to_owned(), address, error, figures }
        };
        let Some(upstream) = gateway.upstreams().iter().find(|upstream| upstream.name() == name) else {
            return vec![service(String::new(), Err("the configuration has no such upstream any more".into()))];
        };
        let answers = upstream.get_from_each("/metrics").await.into_iter();
        let read =
            |text: String| Figures::read(&text).ok_or_else(|| "its metrics are of no relay and no broker".into());
        answers.map(|(address, answer)| service(address, answer.and_then(read))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_relay_or_of_a_broker() {
        let relay = r#"sealway_relay_channels 2
sealway_relay_connections 5
sealway_relay_attach_total{result="ok",reason="ok"} 7
sealway_relay_attach_total{result="fail",reason="timeout"} 1
sealway_relay_attach_total{result="fail",reason="token_replay"} 2
"#;
        let Some(Figures::Relay { connections, channels, attached, rejected, .. }) = Figures::read(relay) else {
            panic!("no relay");
        };
        assert_eq!([connections, channels, attached, rejected], [5.0, 2.0, 7.0, 3.0]);
        let broker = r#"crypto_memory_usage_bytes 1048576
crypto_requests_total{rpc_method="Hash",profile="a",status="OK"} 3
crypto_requests_total{rpc_method="Hash",profile="b",status="Internal"} 4
"#;
        let Some(Figures::Broker { calls, resident_bytes, .. }) = Figures::read(broker) else { panic!("no broker") };
        assert_eq!([calls, resident_bytes], [7.0, 1_048_576.0]);
        assert_eq!(Figures::read("sealway_sessions 3\n"), None);
    }
}
