//! deploy/ for the broker: the tool that uses each sample can read it (helm, systemd-analyze, a strict YAML reader), and each
//! sample confines the broker.

use std::path::{Path, PathBuf};
use std::process::Command;

use sealway_runtime::config::load_yaml;
use serde_json::Value;

use crate::BINARY;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn yaml(path: &str) -> Value {
    load_yaml(&read(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn helm() -> Command {
    let helm = root().join(".venv/bin/helm");
    assert!(helm.is_file(), "helm is missing from .venv/bin: run scripts/setup-tests.sh");
    Command::new(helm)
}

const CHART: &str = "deploy/helm/sealway-broker";

/// Renders the chart with these settings and returns its documents.
fn render(settings: &[&str]) -> Vec<Value> {
    let mut helm = helm();
    helm.args(["template", "try"]).arg(root().join(CHART)).args(["--kube-version", "1.31.0"]);
    for setting in settings {
        helm.args(["--set", setting]);
    }
    let output = helm.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
    let documents = text.split("\n---\n").map(|document| document.trim_start_matches("---\n"));
    documents.filter(|document| !document.trim().is_empty()).map(|document| load_yaml(document).unwrap()).collect()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|document| document["kind"] == kind).unwrap()
}

/// Asserts that a container has a read-only file system, cannot change its user, and has no privileges.
fn assert_confined(container: &Value) {
    let name = &container["name"];
    let context = &container["securityContext"];
    for (key, want) in [("allowPrivilegeEscalation", false), ("readOnlyRootFilesystem", true), ("runAsNonRoot", true)] {
        assert_eq!(context[key], want, "{name}: {key}");
    }
    assert_eq!(context["runAsUser"], 1000, "{name}");
    assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]), "{name}");
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{name}");
    assert!(container["resources"]["limits"]["memory"].is_string(), "{name} has no bound on memory");
}

#[test]
fn the_chart_passes_helms_lint_and_refuses_values_that_it_does_not_know() {
    let chart = root().join(CHART);
    let lint = helm().args(["lint", "--strict"]).arg(&chart).output().unwrap();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    for bad in ["broker.imgae=x", "user=0", "broker.requireFips=perhaps", "telemetry.interval=often"] {
        let lint = helm().args(["lint", "--strict"]).arg(&chart).args(["--set", bad]).output().unwrap();
        assert!(!lint.status.success(), "{bad} was taken");
    }
}

#[test]
fn the_chart_confines_every_container_and_shares_the_socket_alone() {
    let own = ["telemetry.enabled=true"];
    let elsewhere = ["telemetry.enabled=true", "telemetry.endpoint=http://collector:4318"];
    for (settings, containers) in [(&[][..], 1), (&own[..], 2), (&elsewhere[..], 1)] {
        let documents = render(settings);
        let pod = &of_kind(&documents, "Deployment")["spec"]["template"]["spec"];
        let (sidecars, others) = (pod["initContainers"].as_array().unwrap(), pod["containers"].as_array().unwrap());
        assert_eq!((sidecars.len(), others.len()), (1, containers), "{settings:?}");
        sidecars.iter().chain(others).for_each(assert_confined);
        assert_eq!(pod["automountServiceAccountToken"], false);
        let broker = &sidecars[0];
        assert_eq!(broker["restartPolicy"], "Always", "a sidecar, which goes on beside the application");
        for probe in ["startupProbe", "livenessProbe"] {
            let command = &broker[probe]["exec"]["command"];
            assert_eq!(*command, serde_json::json!(["/usr/bin/sealway", "broker", "health"]));
        }
        let socket = |container: &Value| {
            let mounts = container["volumeMounts"].as_array().unwrap();
            mounts.iter().find(|mount| mount["name"] == "socket").unwrap()["mountPath"].clone()
        };
        assert_eq!(socket(broker), "/tmp");
        assert_eq!(socket(&others[0]), "/tmp");
        assert!(broker["ports"].is_null(), "nothing of it is on a network");
        for kind in ["TRACES", "METRICS", "LOGS"] {
            let name = format!("OTEL_{kind}_EXPORTER");
            let exporter = broker["env"].as_array().unwrap().iter().any(|env| env["name"] == name);
            assert_eq!(exporter, !settings.is_empty(), "{name}");
        }
    }
}

#[test]
fn the_charts_profiles_reach_the_broker_as_they_are_written() {
    let documents = render(&["broker.requireFips=strict", "broker.args={--lenient}"]);
    let config = &of_kind(&documents, "ConfigMap")["data"];
    let profiles: Value = load_yaml(config["Profiles.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(profiles[0]["Name"], "Default");
    let pod = &of_kind(&documents, "Deployment")["spec"]["template"]["spec"];
    let broker = &pod["initContainers"][0];
    assert_eq!(broker["args"], serde_json::json!(["serve", "--lenient"]));
    let env = broker["env"].as_array().unwrap();
    let fips = env.iter().find(|env| env["name"] == "CRYPTO_BROKER_REQUIRE_FIPS").unwrap();
    assert_eq!(fips["value"], "strict");
}

/// Keys of a service that the sample may use. Any other key counts as a typing error until it is added here.
const SERVICE_KEYS: &[&str] = &[
    "image",
    "build",
    "user",
    "read_only",
    "cap_drop",
    "security_opt",
    "networks",
    "pids_limit",
    "mem_limit",
    "cpus",
    "restart",
    "stop_grace_period",
    "environment",
    "volumes",
    "healthcheck",
    "depends_on",
    "profiles",
    "command",
];

#[test]
fn the_compose_file_confines_every_service_and_names_only_what_is_there() {
    let file = yaml("deploy/compose/broker.yaml");
    for key in file.as_object().unwrap().keys() {
        assert!(["name", "services", "volumes", "networks"].contains(&key.as_str()), "{key}");
    }
    for (name, service) in file["services"].as_object().unwrap() {
        for key in service.as_object().unwrap().keys() {
            assert!(SERVICE_KEYS.contains(&key.as_str()), "{name}.{key}");
        }
        assert_eq!(service["user"], "1000:1000", "{name}");
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], serde_json::json!(["no-new-privileges:true"]), "{name}");
        for volume in service["volumes"].as_array().unwrap() {
            match volume.as_str() {
                Some(named) => assert!(file["volumes"][named.split(':').next().unwrap()].is_object(), "{named}"),
                None => {
                    let source = root().join("deploy/compose").join(volume["source"].as_str().unwrap());
                    assert!(source.is_file() && volume["read_only"] == true, "{volume}");
                }
            }
        }
        for network in service["networks"].as_array().into_iter().flatten() {
            assert_eq!(file["networks"][network.as_str().unwrap()]["internal"], true, "{name} gets out");
        }
    }
    let broker = &file["services"]["broker"];
    assert_eq!(broker["healthcheck"]["test"], serde_json::json!(["CMD", "/usr/bin/sealway", "broker", "health"]));
    assert!(broker["mem_limit"].is_string() && broker["pids_limit"].is_u64());
    assert!(
        root().join("deploy/compose").join(broker["build"]["context"].as_str().unwrap()).join("Cargo.toml").is_file()
    );
    assert!(root().join(broker["build"]["dockerfile"].as_str().unwrap()).is_file());
    let options = file["volumes"]["socket"]["driver_opts"]["o"].as_str().unwrap();
    assert!(options.contains("uid=1000") && options.contains("mode=0700"), "{options}");
    assert_eq!(file["services"]["application"]["depends_on"]["broker"]["condition"], "service_healthy");
    let pipelines = &yaml("deploy/compose/collector.yaml")["service"]["pipelines"];
    let config = of_kind(&render(&["telemetry.enabled=true"]), "ConfigMap")["data"]["collector.yaml"].clone();
    let of_the_chart: Value = load_yaml(config.as_str().unwrap()).unwrap();
    for kind in ["traces", "metrics", "logs"] {
        let exporter = broker["environment"][format!("OTEL_{}_EXPORTER", kind.to_uppercase())].as_str();
        assert_eq!(exporter, Some("${BROKER_TELEMETRY:-none}"), "{kind}");
        for pipelines in [pipelines, &of_the_chart["service"]["pipelines"]] {
            assert!(pipelines[kind]["receivers"].is_array(), "{kind}: {pipelines}");
        }
    }
}

#[test]
fn the_manifest_of_cloud_foundry_starts_the_broker_as_a_sidecar_within_its_memory() {
    let manifest = yaml("deploy/cloudfoundry/manifest.yml");
    assert_eq!(manifest["version"], 1);
    let application = &manifest["applications"][0];
    let known = [
        "name",
        "path",
        "instances",
        "memory",
        "disk_quota",
        "buildpacks",
        "command",
        "health-check-type",
        "sidecars",
        "env",
    ];
    for key in application.as_object().unwrap().keys() {
        assert!(known.contains(&key.as_str()), "{key}");
    }
    let sidecar = &application["sidecars"][0];
    assert_eq!(sidecar["process_types"], serde_json::json!(["web"]));
    assert!(sidecar["command"].as_str().unwrap().ends_with("exec ./sealway broker serve"));
    let megabytes = |value: &Value| value.as_str().unwrap().trim_end_matches('M').parse::<u32>().unwrap();
    // The platform requires less of the sidecar than of the whole pod.
    assert!(megabytes(&sidecar["memory"]) < megabytes(&application["memory"]));
}

/// Returns a size in MiB from any of its spellings: `32`, `"32"`, `128m`, `128Mi`.
fn mebibytes(value: &Value) -> u64 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.trim_end_matches(['M', 'm', 'i']).parse().unwrap_or_else(|err| panic!("{text}: {err}"))
}

#[test]
fn what_calls_may_hold_is_at_most_a_quarter_of_the_memory_that_each_sample_gives() {
    const NAME: &str = "CRYPTO_BROKER_CALLS_MEMORY_MIB";
    let documents = render(&[]);
    let sidecar = &of_kind(&documents, "Deployment")["spec"]["template"]["spec"]["initContainers"][0];
    let named = sidecar["env"].as_array().unwrap().iter().find(|variable| variable["name"] == NAME).unwrap();
    let compose = &yaml("deploy/compose/broker.yaml")["services"]["broker"];
    let cloud_foundry = &yaml("deploy/cloudfoundry/manifest.yml")["applications"][0];
    let unit = read("deploy/systemd/sealway-broker@.service");
    let of_unit = |name: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        Value::from(found.unwrap_or_else(|| panic!("the unit has no {name}")))
    };
    for (sample, limit, held) in [
        ("helm", &sidecar["resources"]["limits"]["memory"], &named["value"]),
        ("compose", &compose["mem_limit"], &compose["environment"][NAME]),
        ("cloudfoundry", &cloud_foundry["sidecars"][0]["memory"], &cloud_foundry["env"][NAME]),
        ("systemd", &of_unit("MemoryMax"), &of_unit(&format!("Environment={NAME}"))),
    ] {
        assert!(!held.is_null(), "{sample} leaves {NAME} at its default");
        assert!(mebibytes(held) * 4 <= mebibytes(limit), "{sample}: {held} of {limit}");
    }
}

/// Instructions of a Dockerfile, with continued lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(name, rest)| (name.to_owned(), rest.to_owned())).unwrap()).collect()
}

#[test]
fn the_images_run_as_user_1000_from_named_releases_with_what_their_context_has() {
    let rust: toml::Table = read("Cargo.toml").parse().unwrap();
    let rust = rust["workspace"]["package"]["rust-version"].as_str().unwrap().to_owned();
    for (file, manifest) in [("broker", "Cargo.toml"), ("broker-fips", "fips/Cargo.toml")] {
        let path = format!("deploy/docker/{file}.Dockerfile");
        let instructions = instructions(&read(&path));
        let ignored = read(&format!("{path}.dockerignore"));
        let of = |name: &str| {
            let of_name = instructions.iter().filter(|(known, _)| known == name);
            of_name.map(|(_, rest)| rest.as_str()).collect::<Vec<_>>()
        };
        let bases = of("FROM");
        assert_eq!(bases.len(), 2, "{path}");
        assert!(bases[0].starts_with(&format!("rust:{rust}-bookworm ")), "{path}: {}", bases[0]);
        assert!(bases.iter().all(|base| base.contains(':') && !base.contains(":latest")), "{bases:?}");
        assert_eq!(of("USER"), ["1000:1000"], "{path}");
        assert_eq!(of("ADD").len(), 0, "{path}");
        assert_eq!(of("ENTRYPOINT"), [r#"["/usr/bin/sealway", "broker"]"#], "{path}");
        for copied in of("COPY").into_iter().filter(|rest| !rest.starts_with("--from") && *rest != ". .") {
            let source = copied.split(' ').next().unwrap();
            assert!(root().join(source).exists(), "{path}: {source}");
            let is_let_in = |line: &str| line.strip_prefix('!').is_some_and(|kept| source.starts_with(kept));
            assert!(ignored.lines().any(is_let_in), "{path}: {source} is not in its context");
        }
        // The build context must contain every part of the workspace, and every file that its code includes.
        let parts = ["Cargo.toml", "Cargo.lock", "crates", "bench", "fuzz", ".cargo", "spec", "deploy/config"];
        for needed in parts.into_iter().chain(manifest.split('/').next()) {
            assert!(ignored.lines().any(|line| line == format!("!{needed}")), "{path}: {needed}");
        }
        assert!(root().join(manifest).is_file());
    }
}

#[test]
fn the_unit_is_one_that_systemd_takes_and_calls_safe() {
    let folder = tempfile::tempdir().unwrap();
    let text = read("deploy/systemd/sealway-broker@.service");
    // systemd-analyze checks that the program and the user exist.
    let text = text.replace("/usr/bin/sealway", BINARY);
    let unit = folder.path().join("sealway-broker@root.service");
    std::fs::write(&unit, text).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&unit).output();
        output.unwrap_or_else(|err| panic!("systemd-analyze is missing: run scripts/setup-tests.sh ({err})"))
    };
    let verified = analyze(&["verify", "--man=no", "--recursive-errors=no"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !said.contains("sealway-broker"), "{said}");
    // In tenths: 0 is closed, 100 is open.
    let judged = analyze(&["security", "--offline=true", "--threshold=15", "--no-pager"]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
}

/// A broker that serves the files of a folder, killed at the end of the test.
struct Deployment {
    child: std::process::Child,
    socket: PathBuf,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Deployment {
    let socket = folder.join("run/broker.sock");
    let mut command = Command::new(BINARY);
    command.args(["broker", "serve", "--socket"]).arg(&socket).args(arguments).current_dir(folder).env_clear();
    command.env("CRYPTO_BROKER_PROFILES_DIR", folder).envs(environment.iter().copied());
    let log = std::fs::File::create(folder.join("log")).unwrap();
    command.stdin(std::process::Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Deployment { child: command.spawn().unwrap(), socket }
}

impl Deployment {
    /// Waits until the broker has exited or accepts connections on its socket. Returns the exit code, if it has exited.
    fn settled(&mut self) -> Option<i32> {
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            if std::os::unix::net::UnixStream::connect(&self.socket).is_ok() {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("it neither serves nor ends");
    }
}

fn with_mode(folder: &Path, profiles: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join("Profiles.yaml");
    std::fs::write(&file, profiles).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn every_sample_of_profiles_is_served_on_a_socket_that_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let documents = render(&[]);
    let of_the_chart = of_kind(&documents, "ConfigMap")["data"]["Profiles.yaml"].as_str().unwrap().to_owned();
    for profiles in [read("deploy/broker/Profiles.yaml"), of_the_chart] {
        let folder = tempfile::tempdir().unwrap();
        with_mode(folder.path(), &profiles, 0o644);
        let mut served = serve(folder.path(), &[], &[]);
        let ended = served.settled();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(ended, None, "{log}");
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&served.socket), 0o600);
        assert_eq!(mode(served.socket.parent().unwrap()), 0o700);
    }
}

#[test]
fn profiles_that_others_may_write_are_refused_before_there_is_a_socket() {
    for mode in [0o664, 0o646, 0o666] {
        let folder = tempfile::tempdir().unwrap();
        with_mode(folder.path(), &read("deploy/broker/Profiles.yaml"), mode);
        let mut served = serve(folder.path(), &[], &[]);
        assert_eq!(served.settled(), Some(2), "{mode:o}");
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(log.contains("writable by its group or by others") && !served.socket.exists(), "{log}");
    }
}

#[test]
fn a_program_without_a_validated_module_does_not_start_where_fips_is_required() {
    let plain = read("deploy/broker/Profiles.yaml");
    let list = plain.lines().map(|line| format!("  {line}\n")).collect::<String>();
    let by_file = format!("Settings: {{ CryptoLibrary: native, RequireFips: true }}\nProfiles:\n{list}");
    for (profiles, arguments, environment) in [
        (&plain, &[][..], &[("CRYPTO_BROKER_REQUIRE_FIPS", "true")][..]),
        (&plain, &[], &[("CRYPTO_BROKER_REQUIRE_FIPS", "strict")]),
        (&plain, &["--require-fips"], &[]),
        (&by_file, &[], &[]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        with_mode(folder.path(), profiles, 0o600);
        let mut served = serve(folder.path(), arguments, environment);
        let ended = served.settled();
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(ended, Some(70), "{arguments:?} {environment:?}: {log}");
        assert!(log.contains("no validated module") && !served.socket.exists(), "{log}");
    }
}
