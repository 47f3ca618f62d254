//! deploy/compose, deploy/prometheus, deploy/grafana/provisioning and deploy/cloudfoundry.

use serde_json::{Value, json};

use crate::{root, sealway, succeeds, tool, yaml};

#[test]
fn the_compose_files_load_as_docker_compose_loads_them() {
    let files = ["broker", "gateway"].map(|name| root().join(format!("deploy/compose/{name}.yaml")));
    succeeds(tool("check-compose").args(files));
}

/// Volumes and build contexts of a service: those that are files or folders here exist, and are mounted read-only.
fn assert_sources_exist(name: &str, service: &Value) {
    let folder = root().join("deploy/compose");
    for volume in service["volumes"].as_array().into_iter().flatten().filter(|volume| volume.is_object()) {
        let source = folder.join(volume["source"].as_str().unwrap());
        assert!(source.exists() && volume["read_only"] == true, "{name}: {volume}");
    }
    if let Some(context) = service["build"]["context"].as_str() {
        let context = folder.join(context);
        assert!(context.join("Cargo.toml").is_file(), "{name}");
        let dockerfile =
            std::fs::read_to_string(context.join(service["build"]["dockerfile"].as_str().unwrap())).unwrap();
        let target = format!(" AS {}\n", service["build"]["target"].as_str().unwrap());
        assert!(dockerfile.contains(&target), "{name}: no target {target}");
    }
}

#[test]
fn the_brokers_composition_confines_every_service_and_names_only_what_is_there() {
    let file = yaml("deploy/compose/broker.yaml");
    for (name, service) in file["services"].as_object().unwrap() {
        assert_sources_exist(name, service);
        assert_eq!(service["user"], "1000:1000", "{name}");
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
        for network in service["networks"].as_array().into_iter().flatten() {
            assert_eq!(file["networks"][network.as_str().unwrap()]["internal"], true, "{name} gets out");
        }
    }
    let broker = &file["services"]["broker"];
    assert_eq!(broker["healthcheck"]["test"], json!(["CMD", "/usr/bin/sealway", "broker", "health"]));
    assert!(broker["mem_limit"].is_string() && broker["pids_limit"].is_u64());
    let options = file["volumes"]["socket"]["driver_opts"]["o"].as_str().unwrap();
    assert!(options.contains("uid=1000") && options.contains("mode=0700"), "{options}");
    assert_eq!(file["services"]["application"]["depends_on"]["broker"]["condition"], "service_healthy");
    let pipelines = &yaml("deploy/compose/collector.yaml")["service"]["pipelines"];
    for kind in ["traces", "metrics", "logs"] {
        let exporter = broker["environment"][format!("OTEL_{}_EXPORTER", kind.to_uppercase())].as_str();
        assert_eq!(exporter, Some("${BROKER_TELEMETRY:-none}"), "{kind}");
        assert!(pipelines[kind]["receivers"].is_array(), "{kind}: {pipelines}");
    }
}

#[test]
fn the_gateways_composition_is_confined_and_its_parts_know_each_other() {
    let file = yaml("deploy/compose/gateway.yaml");
    let services = &file["services"];
    for (name, service) in services.as_object().unwrap() {
        assert_sources_exist(name, service);
        assert!(service["mem_limit"].is_string(), "{name}");
        assert!(!service["image"].as_str().unwrap().ends_with(":latest"), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port}");
        }
        if !["postgres", "redis"].contains(&name.as_str()) {
            assert_eq!((&service["read_only"], &service["cap_drop"]), (&json!(true), &json!(["ALL"])), "{name}");
        }
    }
    let config = yaml("deploy/compose/gateway/sealway.yaml");
    succeeds(
        sealway(&[]).args(["config", "check", "--files=false"]).arg(root().join("deploy/compose/gateway/sealway.yaml")),
    );
    let given = services["gateway"]["secrets"].as_array().unwrap();
    let text = crate::read("deploy/compose/gateway/sealway.yaml");
    for named in text.split("/run/secrets/").skip(1) {
        let name = named.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap();
        assert!(given.contains(&json!(name)) && file["secrets"][name].is_object(), "{name}");
    }
    for (service, port) in [("postgres", 5432), ("redis", 6379)] {
        assert!(config["sessions"]["store"].as_str().unwrap().contains(&format!("{service}:{port}")), "{service}");
    }
    let scrape = &yaml("deploy/prometheus/prometheus.yaml")["scrape_configs"][0];
    let metrics = config["metrics"]["address"].as_str().unwrap().rsplit(':').next().unwrap();
    assert_eq!(scrape["static_configs"][0]["targets"], json!([format!("gateway:{metrics}")]));
    assert_eq!(scrape["authorization"]["credentials_file"], config["metrics"]["token_file"]);
    let source = &yaml("deploy/grafana/provisioning/datasources/prometheus.yaml")["datasources"][0];
    assert_eq!(source["url"], "http://prometheus:9090");
    let dashboards = &yaml("deploy/grafana/provisioning/dashboards/sealway.yaml")["providers"][0]["options"]["path"];
    let mounts = services["grafana"]["volumes"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["target"] == *dashboards), "{dashboards}");
    let stop = services["gateway"]["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse::<u64>().unwrap();
    assert!(stop * 1000 > config["limits"]["drain_ms"].as_u64().unwrap());
}

/// Keys of an application that the manifests may use. Any other key counts as a typing error until it is added here.
const APPLICATION_KEYS: &[&str] = &[
    "name",
    "path",
    "instances",
    "memory",
    "disk_quota",
    "buildpacks",
    "command",
    "health-check-type",
    "health-check-http-endpoint",
    "readiness-health-check-type",
    "readiness-health-check-http-endpoint",
    "sidecars",
    "env",
];

fn application(manifest: &str) -> Value {
    let manifest = yaml(manifest);
    assert_eq!(manifest["version"], 1);
    let application = manifest["applications"][0].clone();
    for key in application.as_object().unwrap().keys() {
        assert!(APPLICATION_KEYS.contains(&key.as_str()), "{key}");
    }
    application
}

#[test]
fn on_cloud_foundry_the_broker_is_a_sidecar_within_the_memory_of_its_application() {
    let application = application("deploy/cloudfoundry/broker.yml");
    let sidecar = &application["sidecars"][0];
    assert_eq!(sidecar["process_types"], json!(["web"]));
    assert!(sidecar["command"].as_str().unwrap().ends_with("exec ./sealway broker serve"));
    let megabytes = |value: &Value| value.as_str().unwrap().trim_end_matches('M').parse::<u32>().unwrap();
    // The platform requires less of the sidecar than of the whole pod.
    assert!(megabytes(&sidecar["memory"]) < megabytes(&application["memory"]));
}

#[test]
fn on_cloud_foundry_the_gateway_listens_where_routers_reach_it_and_drains_in_time() {
    let application = application("deploy/cloudfoundry/gateway.yml");
    let folder = format!("deploy/cloudfoundry/{}", application["path"].as_str().unwrap());
    let file = application["command"].as_str().unwrap().rsplit(' ').next().unwrap();
    let environment: Vec<_> = application["env"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(environment, ["SEALWAY_KEK", "SEALWAY_SESSIONS__STORE"]);
    let store = "postgres://sealway:password@db.internal/sealway + rediss://:password@redis.internal";
    let kek = "kek-1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let environment = [("SEALWAY_SESSIONS__STORE", store), ("SEALWAY_KEK", kek)];
    succeeds(sealway(&environment).args(["config", "check", "--files=false"]).arg(root().join(&folder).join(file)));
    let config = yaml(&format!("{folder}/{file}"));
    assert_eq!(config["listeners"][0]["address"], "0.0.0.0:8080");
    let limits = &config["limits"];
    assert!(limits["stop_delay_ms"].as_u64().unwrap() + limits["drain_ms"].as_u64().unwrap() < 10_000);
    let served = serde_json::to_string(&config["routes"][0]["match"]["path"]).unwrap();
    for probe in ["health-check-http-endpoint", "readiness-health-check-http-endpoint"] {
        assert!(served.contains(application[probe].as_str().unwrap()), "{probe}");
    }
}
