//! deploy/helm/sealway: what each value does, and which values it rejects.

use std::process::Command;

use sealway_runtime::config::load_yaml;
use serde_json::{Value, json};

use crate::{root, succeeds, tool};

pub(crate) const CHART: &str = "deploy/helm/sealway";

/// A command of helm for the chart, with files of examples/ and single values; `json:` before those that are JSON.
pub(crate) fn helm(action: &[&str], examples: &[&str], values: &[&str]) -> Command {
    let mut helm = tool("helm");
    helm.args(action).arg(root().join(CHART)).args(["--kube-version", "1.35.0"]);
    for example in examples {
        helm.arg("--values").arg(root().join(CHART).join(format!("examples/{example}.yaml")));
    }
    for value in values {
        match value.strip_prefix("json:") {
            Some(value) => helm.args(["--set-json", value]),
            None => helm.args(["--set", value]),
        };
    }
    helm
}

pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|document| document.trim_start_matches("---\n"));
    documents.filter(|document| !document.trim().is_empty()).map(|document| load_yaml(document).unwrap()).collect()
}

/// Renders the chart and returns its documents.
pub(crate) fn render(examples: &[&str], values: &[&str]) -> Vec<Value> {
    let output = succeeds(&mut helm(&["template", "try"], examples, values));
    documents(&String::from_utf8(output.stdout).unwrap())
}

pub(crate) fn named<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == name;
    documents.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

pub(crate) fn pod<'a>(documents: &'a [Value], name: &str) -> &'a Value {
    &named(documents, "Deployment", name)["spec"]["template"]["spec"]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn helm_lints_the_chart_and_every_example() {
    succeeds(&mut helm(&["lint", "--strict"], &[], &[]));
    for example in std::fs::read_dir(root().join(CHART).join("examples")).unwrap() {
        let name = example.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        succeeds(&mut helm(&["lint", "--strict"], &[&name], &[]));
    }
}

#[test]
fn nothing_is_deployed_until_a_component_is_enabled() {
    assert_eq!(render(&[], &[]).len(), 0);
}

#[test]
fn unknown_and_wrong_values_are_rejected_with_their_path() {
    for (value, path) in [
        ("gateway.imgae=x", "gateway"),
        ("broker.imgae=x", "broker"),
        ("defaults.user=0", "user"),
        ("gateway.user=0", "user"),
        ("broker.requireFips=perhaps", "requireFips"),
        ("broker.telemetry.interval=often", "interval"),
        ("relay.topologySpread=sometimes", "topologySpread"),
        ("load.args=http://localhost", "args"),
        ("gateway.config.listeners[0].name=A listener", "name"),
        ("gateway.readinessPath=/", "readinessPath"),
        ("bind=10.0.0.1", "bind"),
        ("relay.resources.limits=null", "resources"),
    ] {
        let output = helm(&["template", "try"], &[], &[value]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("values don't meet") && said.contains(path),
            "{value}: {said}"
        );
    }
}

#[test]
fn combinations_that_cannot_work_are_rejected_with_what_to_do() {
    for (examples, values, reason) in [
        (&[][..], &["gateway.enabled=true"][..], "gateway.config: listeners and routes are missing"),
        (&["demo"], &["gateway.replicas=2"], "gateway.config.sessions.store: memory: is for one replica"),
        (&["demo"], &["defaults.autoscaling.enabled=true"], "memory: is for one replica"),
        (
            &["demo"],
            &["gateway.config.sessions.store=file:/data/sessions"],
            "gateway.strategy.type: Recreate is needed",
        ),
        (&["relay"], &["relay.redisUrl.secret="], "relay.replicas: several relays need relay.redisUrl.secret"),
        (&["relay"], &["json:relay.aud=[]"], "relay.aud: name at least one audience"),
        (&["relay"], &["relay.issuerKeys.secret="], "relay.issuerKeys.secret: name the Secret"),
        (&["application"], &["application.replicas=2"], "application.replicas: 1 is the most with a claim"),
        (
            &["application"],
            &["application.strategy.type=RollingUpdate"],
            "application.strategy.type: Recreate is needed",
        ),
        (&["application", "demo"], &["gateway.broker=true"], "gateway.strategy.type: Recreate is needed"),
        (&[], &["load.enabled=true"], "load.args: name at least the URL"),
    ] {
        let output = helm(&["template", "try"], examples, values).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{values:?}: {said}");
    }
    // A reverse proxy without sessions has nothing to share.
    render(&["demo"], &["gateway.replicas=2", r#"json:gateway.config.routes=[{"match":{},"upstream":"shop"}]"#]);
}

#[test]
fn a_pod_has_as_long_as_its_drain_needs_and_a_rollout_takes_no_pod_away_first() {
    for (examples, values, name, seconds) in [
        ("demo", &[][..], "gateway", 10 + 30 + 5),
        ("demo", &["gateway.config.limits.drain_ms=90500", "gateway.config.limits.stop_delay_ms=1"], "gateway", 91 + 5),
        ("demo", &["gateway.config.limits=null"], "gateway", 30 + 5),
        ("relay", &["relay.stopDelaySeconds=7", "relay.drainSeconds=60"], "relay", 7 + 60 + 5),
        ("application", &[], "application", 45),
    ] {
        let documents = render(&[examples], values);
        let name = format!("try-sealway-{name}");
        assert_eq!(pod(&documents, &name)["terminationGracePeriodSeconds"], seconds, "{name} {values:?}");
        let strategy = &named(&documents, "Deployment", &name)["spec"]["strategy"];
        if examples != "application" {
            assert_eq!(strategy["rollingUpdate"]["maxUnavailable"], 0, "{name}");
        }
    }
    let documents = render(&["relay"], &["relay.stopDelaySeconds=7"]);
    let relay = &pod(&documents, "try-sealway-relay")["containers"][0];
    assert_eq!(relay["lifecycle"]["preStop"]["sleep"]["seconds"], 7);
    assert!(list(&relay["args"]).contains(&json!("--drain-s=30")), "{relay}");
}

#[test]
fn a_changed_configuration_replaces_the_pods() {
    let checksum = |values: &[&str]| {
        let documents = render(&["fleet"], values);
        let template = &named(&documents, "Deployment", "try-sealway-gateway")["spec"]["template"];
        template["metadata"]["annotations"]["checksum/config"].clone()
    };
    assert_eq!(checksum(&[]), checksum(&["gateway.podLabels.a=b"]));
    assert_ne!(checksum(&[]), checksum(&["gateway.config.telemetry.log_level=debug"]));
    assert_ne!(checksum(&["gateway.broker=true"]), checksum(&["gateway.broker=true", "broker.logLevel=debug"]));
}

#[test]
fn secrets_are_references_to_what_exists() {
    for example in ["demo", "fleet", "authority", "relay", "application", "load"] {
        let documents = render(&[example], &[]);
        assert!(documents.iter().all(|document| document["kind"] != "Secret"), "{example}");
        let values = crate::read(&format!("{CHART}/examples/{example}.yaml"));
        let text = serde_json::to_string(&documents).unwrap();
        for named in text.split(r#""secretName":""#).skip(1) {
            let name = named.split('"').next().unwrap();
            assert!(values.contains(name), "{example}: {name} is none of the values");
        }
    }
}

#[test]
fn metrics_have_a_service_a_monitor_and_peers_of_their_own() {
    let documents = render(&["fleet"], &[]);
    let service = named(&documents, "Service", "try-sealway-gateway-metrics");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    let public = named(&documents, "Service", "try-sealway-gateway");
    assert_eq!(list(&public["spec"]["ports"]).len(), 1, "the token's listener is not on the balancer: {public}");
    let monitor = named(&documents, "ServiceMonitor", "try-sealway-gateway");
    assert_eq!(monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["name"], "sealway-metrics");
    for (label, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(service["metadata"]["labels"][label], *value, "{label}");
        assert!(public["metadata"]["labels"]["sealway/job"].is_null());
    }
    let policy = named(&documents, "NetworkPolicy", "try-sealway-gateway");
    let of_metrics = list(&policy["spec"]["ingress"]).iter().find(|rule| rule["ports"][0]["port"] == 9902).unwrap();
    assert!(of_metrics["from"][0]["namespaceSelector"].is_object(), "{policy}");
    let documents = render(&["relay"], &[]);
    let policy = named(&documents, "NetworkPolicy", "try-sealway-relay");
    let of_nodes = list(&policy["spec"]["ingress"]).iter().find(|rule| rule["ports"][0]["port"] == 7946).unwrap();
    assert_eq!(of_nodes["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "relay", "{policy}");
}

#[test]
fn the_broker_is_a_sidecar_that_shares_its_socket_alone() {
    let own = ["broker.telemetry.enabled=true"];
    let elsewhere = ["broker.telemetry.enabled=true", "broker.telemetry.endpoint=http://collector:4318"];
    for (values, containers) in [(&[][..], 1), (&own[..], 2), (&elsewhere[..], 1)] {
        let documents = render(&["application"], values);
        let pod = pod(&documents, "try-sealway-application");
        assert_eq!((list(&pod["initContainers"]).len(), list(&pod["containers"]).len()), (1, containers), "{values:?}");
        let broker = &pod["initContainers"][0];
        assert_eq!(broker["restartPolicy"], "Always", "a sidecar, which goes on beside the application");
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            assert_eq!(broker[probe]["exec"]["command"], json!(["/usr/bin/sealway", "broker", "health"]), "{probe}");
        }
        let socket = |container: &Value| {
            let mounts = list(&container["volumeMounts"]);
            mounts.iter().find(|mount| mount["name"] == "broker-socket").unwrap()["mountPath"].clone()
        };
        assert_eq!((socket(broker), socket(&pod["containers"][0])), (json!("/tmp"), json!("/tmp")));
        assert!(broker["ports"].is_null(), "nothing of it is on a network");
        let key_holders = list(&pod["containers"]).iter().flat_map(|container| list(&container["volumeMounts"]));
        assert!(key_holders.clone().all(|mount| mount["name"] != "broker-data"), "its keys are its own");
        for kind in ["TRACES", "METRICS", "LOGS"] {
            let name = format!("OTEL_{kind}_EXPORTER");
            let exports = list(&broker["env"]).iter().any(|env| env["name"] == name);
            assert_eq!(exports, !values.is_empty(), "{name}");
        }
    }
    let documents = render(&["application"], &["broker.requireFips=strict", "broker.args={--lenient}"]);
    let broker = &pod(&documents, "try-sealway-application")["initContainers"][0];
    assert!(list(&broker["args"]).contains(&json!("--lenient")), "{broker}");
    let fips = list(&broker["env"]).iter().find(|env| env["name"] == "CRYPTO_BROKER_REQUIRE_FIPS").unwrap();
    assert_eq!(fips["value"], "strict");
    let collector: Value = {
        let documents = render(&["application"], &own);
        let config = &named(&documents, "ConfigMap", "try-sealway-broker")["data"]["collector.yaml"];
        load_yaml(config.as_str().unwrap()).unwrap()
    };
    for kind in ["traces", "metrics", "logs"] {
        assert!(collector["service"]["pipelines"][kind]["receivers"].is_array(), "{kind}: {collector}");
    }
}

/// The chart of an application that has this chart as a dependency, as docs/guides/kubernetes.md shows it.
#[test]
fn another_chart_includes_the_broker_by_its_templates() {
    let guide = crate::read("docs/guides/kubernetes.md");
    let block = |after: &str| {
        let rest = &guide[guide.find(after).unwrap_or_else(|| panic!("the guide has no {after}"))..];
        rest.split("```").next().unwrap().to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path();
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::create_dir_all(chart.join("charts")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\n").unwrap();
    std::fs::write(chart.join("values.yaml"), "sealway: { broker: { enabled: true } }\n").unwrap();
    std::fs::write(chart.join("templates/deployment.yaml"), block("apiVersion: apps/v1")).unwrap();
    std::os::unix::fs::symlink(root().join(CHART), chart.join("charts/sealway")).unwrap();
    let mut helm = tool("helm");
    let output = succeeds(helm.args(["template", "shop"]).arg(chart).args(["--kube-version", "1.35.0"]));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = documents(&text);
    let pod = pod(&documents, "shop");
    assert_eq!(pod["initContainers"][0]["name"], "broker");
    let config = list(&pod["volumes"]).iter().find(|volume| volume["name"] == "broker-config").unwrap();
    named(&documents, "ConfigMap", config["configMap"]["name"].as_str().unwrap());
    let file = chart.join("rendered.yaml");
    std::fs::write(&file, text).unwrap();
    succeeds(tool("check-kubernetes").arg(file));
}
