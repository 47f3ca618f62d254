//! Spans, metrics and log records of the broker, and spans of the gateway: at a real OpenTelemetry collector over HTTP and over
//! gRPC; at a collector that is down, slow or rejects them; and on the broker's own output.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sealway_testkit::daemon::{Daemon, clear_environment, free_port, program, root};
use sealway_testkit::raw_http;
use tempfile::TempDir;

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(60);
const TOKEN: &str = "Api-Token of-the-tests";
/// The input of the hash, which must not appear in any export.
const INPUT: &str = "SECRET-INPUT";

pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The collector of deploy/compose on ports of its own. It prints everything that it receives, and requires a token.
struct Collector {
    folder: TempDir,
    http: u16,
    grpc: u16,
    daemon: Option<Daemon>,
}

impl Collector {
    fn new() -> Collector {
        Collector::with("")
    }

    /// Starts a collector with a certificate of `sealway certs`. The authority's certificate is in `certs/ca.cert.pem` of its
    /// folder.
    fn with_tls() -> Collector {
        let collector = Collector::with(", tls: { cert_file: certs/server.cert.pem, key_file: certs/server.key.pem }");
        let certs = collector.folder.path().join("certs");
        assert!(Command::new(BINARY).arg("certs").arg(certs).output().unwrap().status.success());
        collector
    }

    fn with(more: &str) -> Collector {
        let (folder, http, grpc) = (tempfile::tempdir().unwrap(), free_port().unwrap(), free_port().unwrap());
        let sample = std::fs::read_to_string(root().join("deploy/compose/collector.yaml")).unwrap();
        let mut config = sample.clone();
        for (from, to) in [
            (
                "{ endpoint: 0.0.0.0:4318 }",
                format!("{{ endpoint: 127.0.0.1:{http}, auth: {{ authenticator: token }}{more} }}"),
            ),
            (
                "{ endpoint: 0.0.0.0:4317 }",
                format!("{{ endpoint: 127.0.0.1:{grpc}, auth: {{ authenticator: token }}{more} }}"),
            ),
            ("verbosity: normal", "verbosity: detailed".to_owned()),
            ("batch: {}", "batch: { timeout: 10ms }".to_owned()),
            (
                "service:\n",
                format!(
                    "extensions: {{ token: {{ authorization: \"{TOKEN}\" }} }}\nservice:\n  extensions: [token]\n  telemetry: {{ metrics: {{ level: none }} }}\n"
                ),
            ),
        ] {
            assert!(config.contains(from), "the sample has no {from}: {sample}");
            config = config.replace(from, &to);
        }
        let config = config.replace("_file: certs/", &format!("_file: {}/certs/", folder.path().display()));
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        Collector { folder, http, grpc, daemon: None }
    }

    fn start(mut self) -> Collector {
        self.listen();
        self
    }

    fn listen(&mut self) {
        let mut command = Command::new(program("otelcol").unwrap());
        command.arg("--config").arg(self.folder.path().join("config.yaml"));
        let mut daemon = Daemon::start(command, &self.log()).unwrap();
        for port in [self.http, self.grpc] {
            daemon.wait_for(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        }
        self.daemon = Some(daemon);
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn said(&self) -> String {
        read(&self.log())
    }
}

/// A broker and the folder with its files.
struct Broker {
    ground: TempDir,
    daemon: Daemon,
}

impl Broker {
    fn start(environment: &[(&str, &str)]) -> Broker {
        let ground = tempfile::tempdir().unwrap();
        let profiles = ground.path().join("Profiles.yaml");
        std::fs::copy(root().join("tests/broker_wires/Profiles.yaml"), &profiles).unwrap();
        std::fs::set_permissions(&profiles, PermissionsExt::from_mode(0o600)).unwrap();
        let mut command = Command::new(BINARY);
        command.env_clear().args(["broker", "serve", "--socket"]).arg(ground.path().join("run/broker.sock"));
        command.arg("--profiles").arg(profiles);
        command.env("OTEL_METRICS_INTERVAL", "200ms").env("OTEL_SERVICE_VERSION", "7.8.9");
        command.env("OTEL_EXPORTER_OTLP_HEADERS_AUTHORIZATION", TOKEN).envs(environment.iter().copied());
        let daemon = Daemon::start(command, &ground.path().join("log")).unwrap();
        let broker = Broker { ground, daemon };
        wait_for("the broker does not listen", || UnixStream::connect(broker.socket()).is_ok());
        broker
    }

    fn socket(&self) -> PathBuf {
        self.ground.path().join("run/broker.sock")
    }

    fn hash(&self) {
        let mut command = Command::new(BINARY);
        command.args(["broker", "hash", "--profile", "HashOnly", "--socket"]).arg(self.socket()).arg(INPUT);
        assert!(command.output().unwrap().status.success());
    }

    fn log(&self) -> String {
        read(&self.ground.path().join("log"))
    }

    /// Stops it, and returns its log.
    fn stop(mut self) -> String {
        self.daemon.signal(Signal::TERM).unwrap();
        let status = self.daemon.wait().unwrap();
        assert!(status.success(), "{}", self.log());
        self.log()
    }
}

fn everything_by(exporter: &str, endpoint: &str, token: &str) -> Broker {
    Broker::start(&[
        ("OTEL_EXPORTER_OTLP_HEADERS_AUTHORIZATION", token),
        ("OTEL_TRACES_EXPORTER", exporter),
        ("OTEL_METRICS_EXPORTER", exporter),
        ("OTEL_LOGS_EXPORTER", exporter),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
    ])
}

#[test]
fn spans_metrics_and_log_records_reach_a_collector_over_http_and_grpc() {
    let collector = Collector::new().start();
    for (exporter, endpoint) in [
        ("otlphttp", format!("http://127.0.0.1:{}", collector.http)),
        ("otlpgrpc", format!("127.0.0.1:{}", collector.grpc)),
    ] {
        let before = collector.said().len();
        let broker = everything_by(exporter, &endpoint, TOKEN);
        broker.hash();
        let told = |wanted: &[&str]| {
            let said = collector.said();
            wanted.iter().all(|text| said[before..].contains(text))
        };
        // Checked while the broker runs: none of these exports waits for its end.
        wait_for("no metrics arrive", || {
            told(&[
                "crypto_requests_total",
                "rpc_method: Str(Hash)",
                "crypto_request_duration_seconds",
                "crypto_memory",
            ])
        });
        wait_for("no log records arrive", || told(&["Body: Str(finished call)", "grpc.code: Str(OK)"]));
        let log = broker.stop();
        let said = collector.said()[before..].to_owned();
        wait_for("no span arrives", || told(&["Name           : /sealway.broker.v1.Broker/Hash"]));
        for text in
            ["service.name: Str(crypto-broker-server)", "service.version: Str(7.8.9)", "SeverityText: INFO", "Unit: s"]
        {
            assert!(said.contains(text), "{exporter}: {text}: {said}");
        }
        assert!(log.contains("exporting metrics") && log.contains("exporting log records"), "{log}");
        assert!(!log.contains("exporting metrics failed"), "{log}");
        // The record of a call names its trace.
        let record = said.split("LogRecord #").find(|record| record.contains("Str(finished call)")).unwrap();
        let trace = record.split("Trace ID: ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "it has no trace: {record}");
        let is_span = |span: &str| span.contains(&trace) && span.contains("broker.v1");
        wait_for("the record's trace is none", || collector.said()[before..].split("Span #").any(is_span));
        for told in [&log, &collector.said()] {
            assert!(!told.contains(INPUT) && !told.contains("of-the-tests"), "{told}");
        }
    }
}

#[test]
fn a_collector_behind_tls_is_reached_over_http_and_grpc_by_its_authority_alone() {
    for exporter in ["otlphttp", "otlpgrpc"] {
        // A new collector for each, because exports of the previous broker may arrive late.
        let collector = Collector::with_tls().start();
        let ca = collector.folder.path().join("certs/ca.cert.pem");
        let port = if exporter == "otlphttp" { collector.http } else { collector.grpc };
        let endpoint = format!("https://localhost:{port}");
        let serve = |more: &[(&str, &str)]| {
            let mut variables =
                vec![("OTEL_METRICS_EXPORTER", exporter), ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
            variables.extend_from_slice(more);
            let broker = Broker::start(&variables);
            broker.hash();
            broker
        };
        let other = other_authority(&collector);
        let broker = serve(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", other.to_str().unwrap())]);
        wait_for("no warning", || broker.log().contains("exporting metrics failed"));
        broker.stop();
        assert!(!collector.said().contains("crypto_"), "{exporter}: it was sent to an impostor");
        let broker = serve(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.to_str().unwrap())]);
        wait_for("no metrics arrive", || collector.said().contains("crypto_requests_total"));
        let log = broker.stop();
        assert!(log.contains("exporting metrics") && !log.contains("exporting metrics failed"), "{exporter}: {log}");
    }
}

#[test]
fn the_gateway_reaches_a_collector_behind_tls_by_its_authority_alone() {
    let mut collector = Collector::with_tls();
    let file = collector.folder.path().join("config.yaml");
    // The gateway has no token for the collector.
    std::fs::write(&file, read(&file).replace(", auth: { authenticator: token }", "")).unwrap();
    collector.listen();
    let serve = |ca: &Path| {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port().unwrap());
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:{port}' }}]\n\
             routes: [{{ match: {{ path_prefix: [/session/, /v3/] }}, sessions: {{}} }}]\n\
             telemetry: {{ otlp_endpoint: 'https://localhost:{}/v1/traces', otlp_ca_file: '{}' }}\n",
            collector.http,
            ca.display()
        );
        std::fs::write(folder.path().join("serve.yaml"), config).unwrap();
        let mut command = Command::new(BINARY);
        clear_environment(&mut command).current_dir(folder.path()).args(["serve", "--config", "serve.yaml"]);
        let mut gateway = Daemon::start(command, &folder.path().join("log")).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        gateway.wait_for(address).unwrap();
        raw_http::Request::new("POST", "/session/init").send(address).unwrap();
        (gateway, folder)
    };
    let before = collector.said().len();
    let (gateway, folder) = serve(&other_authority(&collector));
    wait_for("no warning", || read(&folder.path().join("log")).contains("exporting spans failed"));
    drop(gateway);
    assert!(!collector.said()[before..].contains("Span #"), "it was sent to an impostor");
    let ca = collector.folder.path().join("certs/ca.cert.pem");
    let (_gateway, _folder) = serve(&ca);
    wait_for("no span arrives", || collector.said()[before..].contains("service.name: Str(sealway)"));
}

/// Returns the certificate of another authority.
fn other_authority(collector: &Collector) -> PathBuf {
    let other = collector.folder.path().join("other");
    if !other.exists() {
        assert!(Command::new(BINARY).arg("certs").arg(&other).output().unwrap().status.success());
    }
    other.join("ca.cert.pem")
}

/// Makes calls, and checks that the log reports each kind of failed export once.
fn goes_on_without(exporter: &str, endpoint: &str, token: &str) {
    let broker = everything_by(exporter, endpoint, token);
    for _ in 0..5 {
        broker.hash();
    }
    for what in ["spans", "metrics", "log records"] {
        let told = format!("exporting {what} failed: calls continue without them");
        wait_for(&format!("{exporter} {endpoint}: {told}"), || broker.log().contains(&told));
        assert_eq!(broker.log().matches(&told).count(), 1, "told more than once");
    }
    let log = broker.stop();
    assert_eq!(log.matches("finished call").count(), 5, "{log}");
    assert!(!log.contains("succeeds again") && !log.contains("of-the-tests"), "{log}");
}

#[test]
fn a_collector_that_is_away_refuses_or_never_answers_costs_a_warning_and_no_call() {
    let collector = Collector::new().start();
    // The system accepts connections to it, and no program answers them.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = silent.local_addr().unwrap().port();
    let away = free_port().unwrap();
    std::thread::scope(|scope| {
        for (exporter, open) in [("otlphttp", collector.http), ("otlpgrpc", collector.grpc)] {
            for (port, token) in [(away, TOKEN), (silent, TOKEN), (open, "Api-Token another-of-the-tests")] {
                scope.spawn(move || goes_on_without(exporter, &format!("127.0.0.1:{port}"), token));
            }
        }
    });
    assert!(!collector.said().contains("crypto_"), "what shows a wrong token was let in");
}

#[test]
fn a_collector_that_starts_later_gets_the_earlier_counts() {
    let mut collector = Collector::new();
    let broker = everything_by("otlphttp", &format!("http://127.0.0.1:{}", collector.http), TOKEN);
    broker.hash();
    wait_for("no warning", || broker.log().contains("exporting metrics failed"));
    collector.listen();
    wait_for("it is not told that the collector is there", || {
        broker.log().contains("exporting metrics succeeds again")
    });
    wait_for("what was counted is lost", || collector.said().contains("rpc_method: Str(Hash)"));
    broker.stop();
}

#[test]
fn metrics_and_spans_are_printed_if_configured() {
    let broker = Broker::start(&[("OTEL_TRACES_EXPORTER", "console"), ("OTEL_METRICS_EXPORTER", "console")]);
    broker.hash();
    let told = |name: &str| broker.log().contains(&format!("\"metric\":\"{name}\""));
    for name in ["crypto_requests_total", "crypto_request_duration_seconds", "crypto_memory_usage_bytes"] {
        wait_for(name, || told(name));
    }
    let log = broker.stop();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.filter(|line| line["attributes"]["rpc_method"] == "Hash").collect();
    let last = |name: &str| lines.iter().rfind(|line| line["metric"] == name).unwrap();
    assert_eq!(last("crypto_requests_total")["value"], 1);
    assert_eq!(last("crypto_request_duration_seconds")["count"], 1);
}

#[test]
fn the_collector_of_the_samples_starts_as_it_is() {
    let output = Command::new(program("otelcol").unwrap())
        .args(["validate", "--config"])
        .arg(root().join("deploy/compose/collector.yaml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
